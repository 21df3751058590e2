//! libFuzzer on `tdekit_fuzz::page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::page(data));
