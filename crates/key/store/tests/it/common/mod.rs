//! Helpers that the tests of this crate share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::Path;

use tdekit_key_store::{
    KeyStore, NewCertificate, PasswordParams, SecretBytes, Unlock, Unlocked, now_seconds,
};

/// The lowest cost that the format allows.
pub fn cheap() -> PasswordParams {
    PasswordParams::new(8 * 1024, 1, 1).unwrap()
}

pub fn secret(bytes: &[u8]) -> SecretBytes {
    SecretBytes::from_slice(bytes).unwrap()
}

pub fn password(text: &str) -> Unlock {
    Unlock::Password(secret(text.as_bytes()))
}

pub fn key(byte: u8) -> Unlock {
    Unlock::Key { key: secret(&[byte; 32]), origin: "test".to_owned() }
}

pub fn new_certificate(name: &str) -> NewCertificate<'_> {
    let expires_at = now_seconds() + 10 * 365 * 86_400;
    NewCertificate { name, subject: None, key_type: None, expires_at }
}

/// A store with `certificates`, opened by `key(1)`.
pub fn store_with(dir: &Path, certificates: &[&str]) -> Unlocked {
    let mut store = KeyStore::create(dir, &key(1), cheap()).unwrap();
    for name in certificates {
        store.create_certificate(&new_certificate(name)).unwrap();
    }
    store
}
