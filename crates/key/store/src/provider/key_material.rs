//! Random key material, from a file or the environment, through HKDF-SHA-256.
//!
//! There are no parameters: the protector's random identifier is the salt.

use std::path::Path;

use tdekit_key_crypto::SecretBytes;

use super::Provider;
use crate::derive::{Binding, open_master_key, seal_master_key};
use crate::disk;
use crate::error::StoreError;
use crate::file::Protector;
use crate::protector_kind::ProtectorKind;

/// Minimum number of bytes of key material.
pub const MIN_KEY_BYTES: usize = 32;

const GENERATED_BYTES: usize = 64;

/// Makes a key file of 64 random bytes that only its owner can read. An existing file is kept.
///
/// # Errors
/// `Io`, also when the file exists.
pub fn generate_key_file(path: &Path) -> Result<(), StoreError> {
    let key = SecretBytes::random(GENERATED_BYTES)?;
    disk::write_new(path, key.expose())
}

pub(super) struct KeyMaterial {
    key: SecretBytes,
    origin: String,
}

impl KeyMaterial {
    pub(super) fn new(key: SecretBytes, origin: &str) -> Result<Self, StoreError> {
        let origin = origin.to_owned();
        if key.len() < MIN_KEY_BYTES {
            let reason = "a key needs at least 32 random bytes";
            return Err(StoreError::BadSecret { origin, reason });
        }
        Ok(Self { key, origin })
    }
}

impl Provider for KeyMaterial {
    fn kind(&self) -> ProtectorKind {
        ProtectorKind::KeyMaterial
    }

    fn seal(&self, master_key: &SecretBytes, binding: &Binding) -> Result<Protector, StoreError> {
        seal_master_key(&self.key, self.kind(), Vec::new(), binding, master_key)
    }

    fn open(&self, protector: &Protector, binding: &Binding) -> Result<SecretBytes, StoreError> {
        if !protector.params.is_empty() {
            return Err(StoreError::corrupt("protector parameters", "a key has none"));
        }
        open_master_key(&self.key, protector, binding)?
            .ok_or_else(|| StoreError::WrongKey { origin: self.origin.clone() })
    }
}
