//! libFuzzer on `tdekit_fuzz::wal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::wal(data));
