//! libFuzzer on `tdekit_fuzz::keystore`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::keystore(data));
