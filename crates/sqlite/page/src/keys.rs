//! The unwrapped keys of one file, and the keys derived from them.

use std::sync::Arc;

use tdekit_key_crypto::{Algorithm, SealingKey, SecretBytes, hkdf_sha256};

use crate::PageError;

/// Bytes of a database encryption key, for every algorithm: subkeys are derived from it.
pub const DEK_LEN: usize = 32;

/// One unwrapped version of a file's DEK.
#[derive(Clone)]
pub struct DekVersion {
    /// Version, from 1, as pages name it.
    pub version: u32,
    /// The algorithm used with it.
    pub algorithm: Algorithm,
    /// The key, `DEK_LEN` bytes.
    pub dek: Arc<SecretBytes>,
}

/// The unwrapped keys of one file.
#[derive(Clone)]
pub struct FileKeys {
    /// Random identity of the file.
    pub file_id: [u8; 16],
    /// Version that new seals use.
    pub current: u32,
    /// All versions.
    pub versions: Vec<DekVersion>,
}

/// The purpose of a derived key. The text is part of the derivation.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Page,
    Wal,
    Journal,
    HeaderMac,
    Commitment,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Page => b"page",
            Self::Wal => b"wal",
            Self::Journal => b"journal",
            Self::HeaderMac => b"header mac",
            Self::Commitment => b"commitment",
        }
    }
}

impl FileKeys {
    /// Returns the DEK of `version`.
    pub fn dek(&self, version: u32) -> Result<&SecretBytes, PageError> {
        self.of(version).map(|v| v.dek.as_ref())
    }

    /// Returns the algorithm of `version`.
    pub fn algorithm(&self, version: u32) -> Result<Algorithm, PageError> {
        self.of(version).map(|v| v.algorithm)
    }

    fn of(&self, version: u32) -> Result<&DekVersion, PageError> {
        self.versions
            .iter()
            .find(|v| v.version == version)
            .ok_or(PageError::UnknownKeyVersion { version })
    }

    pub(crate) fn sealing_key(
        &self,
        version: u32,
        purpose: Purpose,
    ) -> Result<SealingKey, PageError> {
        let DekVersion { algorithm, dek, .. } = self.of(version)?;
        let mut key = SecretBytes::new_zeroed(algorithm.key_len())?;
        derive(dek, &self.file_id, purpose, *algorithm, key.expose_mut())?;
        Ok(SealingKey::new(*algorithm, key.expose())?)
    }
}

/// HKDF-SHA-256 (RFC 5869): the salt is the file id, the info is `"tdekit/1/" purpose "/"
/// algorithm`.
pub(crate) fn derive(
    dek: &SecretBytes,
    file_id: &[u8; 16],
    purpose: Purpose,
    algorithm: Algorithm,
    out: &mut [u8],
) -> Result<(), PageError> {
    let info: [&[u8]; 4] = [b"tdekit/1/", purpose.label(), b"/", algorithm.name().as_bytes()];
    Ok(hkdf_sha256(dek.expose(), file_id, &info, out)?)
}

/// Prepared keys of one purpose, by version; the last used version is found first.
pub(crate) struct KeyRing {
    keys: FileKeys,
    purpose: Purpose,
    prepared: Vec<(u32, SealingKey)>,
}

impl KeyRing {
    pub(crate) fn new(keys: FileKeys, purpose: Purpose) -> Self {
        Self { keys, purpose, prepared: Vec::new() }
    }

    pub(crate) fn file(&self) -> &FileKeys {
        &self.keys
    }

    /// Replaces the keys by others of the same file.
    pub(crate) fn set_file(&mut self, keys: FileKeys) {
        self.keys = keys;
        self.prepared.clear();
    }

    pub(crate) fn get(&mut self, version: u32) -> Result<&mut SealingKey, PageError> {
        let at = match self.prepared.iter().position(|(v, _)| *v == version) {
            Some(at) => at,
            None => {
                self.prepared.push((version, self.keys.sealing_key(version, self.purpose)?));
                self.prepared.len() - 1
            }
        };
        self.prepared
            .get_mut(at)
            .map(|(_, key)| key)
            .ok_or(PageError::UnknownKeyVersion { version })
    }
}
