//! The keys of one tablespace or table.

use std::collections::HashMap;

use tdekit_key_crypto::{WideBlockKey, aes256_block};

use crate::PluginError;
use crate::binlog::FindKey;
use crate::derive::{HANDLE_LEN, Purpose, Use, derive, handle};
use crate::wide;

/// The keys of one tablespace or table, each prepared when it is first needed.
pub struct TableKeys<'a> {
    find_key: FindKey<'a>,
    id: u32,
    /// The random bytes in the file.
    iv: [u8; 16],
    /// `None` for a version that does not exist.
    prepared: HashMap<u32, Option<WideBlockKey>>,
}

impl<'a> TableKeys<'a> {
    /// Makes the keys of a file that names server key `id` and contains the random bytes `iv`.
    #[must_use]
    pub fn new(find_key: FindKey<'a>, id: u32, iv: [u8; 16]) -> Self {
        Self { find_key, id, iv, prepared: HashMap::new() }
    }

    /// Returns the key of a version; `None` if there is no such version.
    pub(super) fn version(&mut self, version: u32) -> Result<Option<&WideBlockKey>, PluginError> {
        if !self.prepared.contains_key(&version) {
            let key = self.prepare(version)?;
            self.prepared.insert(version, key);
        }
        Ok(self.prepared.get(&version).and_then(Option::as_ref))
    }

    fn prepare(&self, version: u32) -> Result<Option<WideBlockKey>, PluginError> {
        let id = self.id;
        let server_key = match (self.find_key)(id, version) {
            Ok(key) => key,
            Err(PluginError::NoKey { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let handle = handle(&server_key, id, version)?;
        let handle: &[u8; HANDLE_LEN] = handle
            .expose()
            .try_into()
            .map_err(|_| PluginError::Call { what: "a handle", len: handle.len() })?;
        // The key as the server's encryption_scheme_encrypt() derives it.
        let passed = aes256_block(handle, self.iv)?;
        let passed = passed.expose();
        let purpose = Purpose { id, version, of: Use::Message, passed, extra: &[] };
        let derivation = server_key.derivation;
        let key = derive(&server_key, purpose, wide::key_len(derivation))?;
        Ok(Some(wide::prepare(derivation, key.expose())?))
    }
}

/// Returns the tweak of a page: tablespace, page, LSN, each little-endian.
pub(super) fn tweak(space: u32, page: u32, lsn: u64) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[..4].copy_from_slice(&space.to_le_bytes());
    iv[4..8].copy_from_slice(&page.to_le_bytes());
    iv[8..].copy_from_slice(&lsn.to_le_bytes());
    iv
}
