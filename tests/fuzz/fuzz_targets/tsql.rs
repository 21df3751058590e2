//! libFuzzer on `tdekit_fuzz::tsql`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::tsql(data));
