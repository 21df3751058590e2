//! libFuzzer on `tdekit_fuzz::tds_rpc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::tds_rpc(data));
