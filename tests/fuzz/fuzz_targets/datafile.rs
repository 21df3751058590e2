//! libFuzzer on `tdekit_fuzz::datafile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::datafile(data));
