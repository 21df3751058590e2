//! libFuzzer on `tdekit_fuzz::script_output`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::script_output(data));
