//! libFuzzer on `tdekit_fuzz::fresh`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::fresh(data));
