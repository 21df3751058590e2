//! The metadata block: a JSON object.

use std::fmt;

use serde::{Deserialize, Serialize};
use tdekit_key_crypto::SecretBytes;
use zeroize::{Zeroize, Zeroizing};

use crate::error::{MediaError, Part};

/// Maximum metadata payload in bytes.
pub const MAX_METADATA_LEN: u32 = 1024 * 1024;
/// Length of the key of a page map in bytes.
pub const MAP_KEY_LEN: usize = 32;

/// The content of a family's last block. It is empty except in family 0.
#[derive(Default)]
pub struct Metadata {
    /// Key of the page map's fingerprints, passed on from a full set to its differential sets.
    pub map_key: Option<SecretBytes>,
    /// Names of the database's tables.
    pub tables: Vec<String>,
    /// Number of the SQLite version that last wrote the database, from the database's header.
    pub sqlite_version: Option<u32>,
    /// Journal mode of the source, such as `wal`.
    pub journal_mode: Option<String>,
    /// Text encoding of the database, such as `UTF-8`.
    pub encoding: Option<String>,
    /// Number of the object of a full set in its archive, where its header does not have its place.
    pub archive_number: Option<u64>,
}

/// The JSON object. A reader ignores unknown keys.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    map_key: Option<Digits>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sqlite_version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_number: Option<u64>,
}

/// A key in hexadecimal digits, wiped when it is dropped.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Digits(String);

impl Drop for Digits {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Metadata {
    /// Encodes the payload. Table names that would make it too long are omitted, from the end.
    ///
    /// # Errors
    /// [`MediaError::Malformed`] for a map key that does not have [`MAP_KEY_LEN`] bytes;
    /// [`MediaError::Limit`].
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, MediaError> {
        const ROOM: usize = MAX_METADATA_LEN as usize / 2;
        if self.map_key.as_ref().is_some_and(|key| key.len() != MAP_KEY_LEN) {
            return Err(malformed("the map key has not 32 bytes"));
        }
        let mut used = 0_usize;
        let fits = |name: &&String| {
            // In JSON, a character takes at most six times its bytes.
            used = used.saturating_add(name.len().saturating_mul(6) + 3);
            used <= ROOM
        };
        let stored = Stored {
            map_key: self.map_key.as_ref().map(|key| Digits(hex::encode(key.expose()))),
            tables: self.tables.iter().take_while(fits).cloned().collect(),
            sqlite_version: self.sqlite_version,
            journal_mode: self.journal_mode.clone(),
            encoding: self.encoding.clone(),
            archive_number: self.archive_number,
        };
        let json = serde_json::to_vec(&stored).map(Zeroizing::new);
        let json = json.map_err(|_| malformed("it has no JSON form"))?;
        let (len, limit) = (json.len() as u64, MAX_METADATA_LEN.into());
        MediaError::check_limit(Part::AnyBlock, "bytes of metadata", len, limit)?;
        Ok(json)
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`MediaError::Malformed`], [`MediaError::Crypto`].
    pub fn decode(payload: &[u8]) -> Result<Self, MediaError> {
        let stored: Stored =
            serde_json::from_slice(payload).map_err(|_| malformed("it is no JSON object"))?;
        let map_key = match &stored.map_key {
            Some(digits) => {
                let mut key = SecretBytes::new_zeroed(MAP_KEY_LEN)?;
                hex::decode_to_slice(digits.0.as_bytes(), key.expose_mut())
                    .map_err(|_| malformed("the map key has not 64 hexadecimal digits"))?;
                Some(key)
            }
            None => None,
        };
        Ok(Self {
            map_key,
            tables: stored.tables,
            sqlite_version: stored.sqlite_version,
            journal_mode: stored.journal_mode,
            encoding: stored.encoding,
            archive_number: stored.archive_number,
        })
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("map_key", &self.map_key)
            .field("tables", &self.tables.len())
            .finish_non_exhaustive()
    }
}

fn malformed(reason: &'static str) -> MediaError {
    MediaError::malformed(Part::AnyBlock, reason)
}
