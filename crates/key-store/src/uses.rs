//! Which files are known to be wrapped by which certificate.
//!
//! Kept beside the store, as recording a file must need no secret. It only serves warnings and
//! refusals: a file that is not listed opens all the same.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::now_seconds;
use crate::disk;
use crate::error::StoreError;
use crate::lock::{self, WriterLock};
use crate::store::KeyStore;

mod forget;

const FILE_NAME: &str = "uses.json";
const MAX_BYTES: u64 = 64 << 20;
const VERSION: u16 = 1;

/// A file whose key a certificate of this store wraps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// SHA-256 of the certificate.
    pub sha256: [u8; 32],
    /// The file's identifier.
    pub file_id: [u8; 16],
    /// Where it was last seen.
    pub path: PathBuf,
    /// When it was last recorded, seconds since 1970.
    pub recorded_at: i64,
}

impl Use {
    /// Whether the file is not where it was last seen, as far as can be seen: false where its
    /// directory is not there (a volume that is not mounted) or cannot be looked into. It may have
    /// been moved, and need the certificate all the same.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        forget::is_missing(&self.path)
    }
}

#[derive(Serialize, Deserialize)]
struct Listing {
    version: u16,
    uses: Vec<Entry>,
}

/// A [`Use`] in JSON, its digests in hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct Entry {
    certificate: String,
    file_id: String,
    path: String,
    /// Set where the path is no UTF-8: its bytes in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    recorded_at: i64,
}

impl KeyStore {
    /// Notes that the certificate wraps the key of a file. Cheap when that is noted already. What
    /// the new use shows to be gone is forgotten; the certificate keeps uses as long as it had any.
    ///
    /// # Errors
    /// `Locked`, `Corrupt` when the list is damaged, `Io` (a read-only directory, say).
    pub fn record_use(
        &self,
        certificate_sha256: &[u8; 32],
        file_id: [u8; 16],
        path: &Path,
    ) -> Result<(), StoreError> {
        let path = match path.to_str() {
            // The address of an object on a store.
            Some(text) if text.contains("://") => path.to_owned(),
            _ => std::path::absolute(path).map_err(StoreError::io("resolve", path))?,
        };
        let same = |known: &Use| known.sha256 == *certificate_sha256 && known.file_id == file_id;
        if self.uses()?.iter().any(|known| same(known) && known.path == path) {
            return Ok(());
        }
        self.change_uses(|uses| {
            uses.retain(|known| !same(known));
            let (sha256, recorded_at) = (*certificate_sha256, now_seconds());
            uses.push(Use { sha256, file_id, path, recorded_at });
            forget::forget_gone(uses);
        })
    }

    /// Notes that the certificate does not wrap the file's key any more.
    ///
    /// # Errors
    /// As [`Self::record_use`].
    pub fn forget_use(
        &self,
        certificate_sha256: &[u8; 32],
        file_id: [u8; 16],
    ) -> Result<(), StoreError> {
        let same = |known: &Use| known.sha256 == *certificate_sha256 && known.file_id == file_id;
        if !self.uses()?.iter().any(same) {
            return Ok(());
        }
        self.change_uses(|uses| uses.retain(|known| !same(known)))
    }

    /// All known uses.
    ///
    /// # Errors
    /// `Corrupt`, `FutureVersion`, `Io`.
    pub fn uses(&self) -> Result<Vec<Use>, StoreError> {
        match disk::read_limited(&self.dir().join(FILE_NAME), MAX_BYTES)? {
            Some(bytes) => decode(&bytes),
            None => Ok(Vec::new()),
        }
    }

    /// The known uses of one certificate.
    ///
    /// # Errors
    /// As [`Self::uses`].
    pub fn uses_of(&self, certificate_sha256: &[u8; 32]) -> Result<Vec<Use>, StoreError> {
        let mut uses = self.uses()?;
        uses.retain(|known| known.sha256 == *certificate_sha256);
        Ok(uses)
    }

    fn change_uses(&self, change: impl FnOnce(&mut Vec<Use>)) -> Result<(), StoreError> {
        let _lock = WriterLock::acquire(self.dir(), lock::WAIT)?;
        let mut uses = self.uses()?;
        change(&mut uses);
        disk::replace(&self.dir().join(FILE_NAME), &encode(&uses)?, &disk::go_on)
    }
}

fn encode(uses: &[Use]) -> Result<Vec<u8>, StoreError> {
    let entry = |known: &Use| Entry {
        certificate: hex::encode(known.sha256),
        file_id: hex::encode(known.file_id),
        path: known.path.to_string_lossy().into_owned(),
        path_bytes: match known.path.to_str() {
            Some(_) => None,
            None => Some(hex::encode(known.path.as_os_str().as_bytes())),
        },
        recorded_at: known.recorded_at,
    };
    let listing = Listing { version: VERSION, uses: uses.iter().map(entry).collect() };
    serde_json::to_vec_pretty(&listing).map_err(|error| corrupt(error.to_string()))
}

fn decode(bytes: &[u8]) -> Result<Vec<Use>, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        version: u16,
    }
    let Version { version } =
        serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
    if version > VERSION {
        return Err(StoreError::FutureVersion { found: version, supported: VERSION });
    }
    let listing: Listing =
        serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
    listing.uses.into_iter().map(decode_entry).collect()
}

fn decode_entry(entry: Entry) -> Result<Use, StoreError> {
    let no_hex = |error: hex::FromHexError| corrupt(error.to_string());
    let (mut sha256, mut file_id) = ([0; 32], [0; 16]);
    hex::decode_to_slice(&entry.certificate, &mut sha256).map_err(no_hex)?;
    hex::decode_to_slice(&entry.file_id, &mut file_id).map_err(no_hex)?;
    let path = match entry.path_bytes {
        Some(digits) => OsString::from_vec(hex::decode(digits).map_err(no_hex)?).into(),
        None => entry.path.into(),
    };
    Ok(Use { sha256, file_id, path, recorded_at: entry.recorded_at })
}

fn corrupt(reason: String) -> StoreError {
    StoreError::corrupt(FILE_NAME, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_comes_back() {
        let uses: Vec<_> = [b"/a/b \"c\"\n".as_slice(), b"/\xff\xfe", "/ü".as_bytes()]
            .into_iter()
            .map(|path| Use {
                sha256: [1; 32],
                file_id: [2; 16],
                path: OsString::from_vec(path.to_vec()).into(),
                recorded_at: 3,
            })
            .collect();
        assert_eq!(decode(&encode(&uses).unwrap()).unwrap(), uses);
    }

    #[test]
    fn damage_and_newer_versions_are_told() {
        assert!(matches!(decode(b"{"), Err(StoreError::Corrupt { .. })));
        assert!(matches!(
            decode(br#"{"version":2,"else":1}"#),
            Err(StoreError::FutureVersion { found: 2, supported: 1 })
        ));
        let short = br#"{"version":1,"uses":[
            {"certificate":"00","file_id":"00","path":"/","recorded_at":0}]}"#;
        assert!(matches!(decode(short), Err(StoreError::Corrupt { .. })));
    }
}
