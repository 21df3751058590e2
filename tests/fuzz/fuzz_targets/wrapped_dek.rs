//! libFuzzer on `tdekit_fuzz::wrapped_dek`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::wrapped_dek(data));
