//! libFuzzer on `tdekit_fuzz::tds_packet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::tds_packet(data));
