//! libFuzzer on `tdekit_fuzz::binlog`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::binlog(data));
