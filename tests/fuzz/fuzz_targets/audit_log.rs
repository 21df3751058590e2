//! libFuzzer on `tdekit_fuzz::audit_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::audit_log(data));
