//! libFuzzer on `tdekit_fuzz::mysql_keyring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tdekit_fuzz::mysql_keyring(data));
