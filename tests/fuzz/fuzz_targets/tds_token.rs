//! libFuzzer on `tdekit_fuzz::tds_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::tds_token(data));
