//! libFuzzer on `tdekit_fuzz::media`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::media(data));
