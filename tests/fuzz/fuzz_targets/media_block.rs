//! libFuzzer on `tdekit_fuzz::media_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::media_block(data));
