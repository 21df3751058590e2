//! libFuzzer on `tdekit_fuzz::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::journal(data));
