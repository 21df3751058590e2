//! libFuzzer on `tdekit_fuzz::header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::header(data));
