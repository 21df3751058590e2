//! Ciphers of pages and other messages in one piece, which the derivation of keys determines.

use tdekit_key_crypto::{CryptoError, WideBlockKey};

use crate::derive::Derivation;

/// Length of the key of a wide block in bytes.
pub(crate) const fn key_len(derivation: Derivation) -> usize {
    match derivation {
        Derivation::Counter | Derivation::Online => WideBlockKey::HCTR2_KEY_LEN,
        Derivation::Gmac => WideBlockKey::GMAC_KEY_LEN,
    }
}

/// Prepares a key of [`key_len`] bytes.
pub(crate) fn prepare(derivation: Derivation, key: &[u8]) -> Result<WideBlockKey, CryptoError> {
    match derivation {
        Derivation::Counter | Derivation::Online => WideBlockKey::hctr2(key),
        Derivation::Gmac => WideBlockKey::gmac(key),
    }
}
