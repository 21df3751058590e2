//! The files that are known to be wrapped by each certificate.
//!
//! The list is kept beside the store, because recording a file must need no secret. It only serves
//! warnings and refusals: a file that is not listed opens all the same.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::now_seconds;
use crate::disk;
use crate::error::StoreError;
use crate::lock::{self, WriterLock};
use crate::store::KeyStore;

mod forget;

/// Name of the list in the store's directory.
pub const USES_FILE_NAME: &str = "uses.json";
const MAX_BYTES: u64 = 64 << 20;
/// Version 1 does not have the number of forgotten files.
const VERSION: u16 = 2;

/// A file whose key a certificate of this store wraps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// SHA-256 of the certificate.
    pub sha256: [u8; 32],
    /// The file's identifier.
    pub file_id: [u8; 16],
    /// Its last known path.
    pub path: PathBuf,
    /// Time of the first record of the file at this path, seconds since 1970.
    pub recorded_at: i64,
}

impl Use {
    /// Returns true if the file is known to be missing from its last known path. Returns false
    /// where its directory does not exist (a volume that is not mounted) or cannot be read. A
    /// missing file may have been moved, and still need the certificate.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        forget::is_missing(&self.path)
    }
}

/// Content of the list: uses, and for each certificate the number of forgotten files, which may
/// still need it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    uses: Vec<Use>,
    forgotten: Vec<([u8; 32], u64)>,
}

impl Known {
    fn count_forgotten(&mut self, sha256: [u8; 32], gone: u64) {
        match self.forgotten.iter_mut().find(|(of, _)| *of == sha256) {
            Some((_, files)) => *files += gone,
            None if gone > 0 => self.forgotten.push((sha256, gone)),
            None => {}
        }
    }

    fn forget_all_at(&mut self, path: &Path) {
        let (gone, others): (Vec<_>, Vec<_>) =
            self.uses.drain(..).partition(|each| each.path == *path);
        self.uses = others;
        gone.iter().for_each(|each| self.count_forgotten(each.sha256, 1));
    }
}

#[derive(Serialize, Deserialize)]
struct Listing {
    version: u16,
    uses: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forgotten: Vec<Forgotten>,
}

/// The number of forgotten files of a certificate, in JSON.
#[derive(Serialize, Deserialize)]
struct Forgotten {
    certificate: String,
    files: u64,
}

/// A [`Use`] in JSON, its digests in hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct Entry {
    certificate: String,
    file_id: String,
    path: String,
    /// Set if the path is not UTF-8: its bytes in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    recorded_at: i64,
}

impl KeyStore {
    /// Records that the certificate wraps the key of a file. Cheap if that is recorded already. A
    /// file with this id at another path stays known while it is there: one is a copy of the other.
    /// Files that the new use shows to be gone are forgotten; only their number is kept.
    ///
    /// # Errors
    /// `Locked`, `Corrupt` when the list is damaged, `Io` (a read-only directory, say).
    pub fn record_use(
        &self,
        certificate_sha256: &[u8; 32],
        file_id: [u8; 16],
        path: &Path,
    ) -> Result<(), StoreError> {
        let path = recorded_path(path)?;
        let same = |known: &Use| known.sha256 == *certificate_sha256 && known.file_id == file_id;
        if self.uses()?.iter().any(|known| same(known) && known.path == path) {
            return Ok(());
        }
        self.change_uses(|known| {
            known.uses.retain(|known| !same(known) || is_elsewhere(&known.path, &path));
            let of_file = |known: &&Use| known.file_id == file_id && known.path == path;
            // With another certificate it is still the same file.
            let first = known.uses.iter().filter(of_file).map(|known| known.recorded_at).min();
            let (sha256, recorded_at) = (*certificate_sha256, first.unwrap_or_else(now_seconds));
            known.uses.push(Use { sha256, file_id, path, recorded_at });
            let gone = forget::forget_gone(&mut known.uses);
            known.count_forgotten(sha256, gone);
        })
    }

    /// Records that the certificate no longer wraps the key of the file at `path`. A copy of it at
    /// another path still needs the certificate, and stays known while it is there.
    ///
    /// # Errors
    /// As [`Self::record_use`].
    pub fn forget_use(
        &self,
        certificate_sha256: &[u8; 32],
        file_id: [u8; 16],
        path: &Path,
    ) -> Result<(), StoreError> {
        let path = recorded_path(path)?;
        let is_past = |known: &Use| {
            known.sha256 == *certificate_sha256
                && known.file_id == file_id
                && !is_elsewhere(&known.path, &path)
        };
        if !self.uses()?.iter().any(is_past) {
            return Ok(());
        }
        self.change_uses(|known| known.uses.retain(|known| !is_past(known)))
    }

    /// Records that the file at `path` is encrypted no more: no use of `file_id` is there, and
    /// other files that were expected there count as forgotten.
    ///
    /// # Errors
    /// As [`Self::record_use`].
    pub fn forget_path(&self, file_id: [u8; 16], path: &Path) -> Result<(), StoreError> {
        let path = recorded_path(path)?;
        let is_past = |known: &Use| known.file_id == file_id && !is_elsewhere(&known.path, &path);
        if !self.uses()?.iter().any(|known| is_past(known) || known.path == path) {
            return Ok(());
        }
        self.change_uses(|known| {
            known.uses.retain(|known| !is_past(known));
            known.forget_all_at(&path);
        })
    }

    /// Removes files that are permanently gone from the list, and counts them as forgotten. Returns
    /// those of `paths` that are not in the list.
    ///
    /// # Errors
    /// As [`Self::record_use`].
    pub fn forget_files(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, StoreError> {
        let mut kept = Vec::new();
        self.change_uses(|known| {
            for path in paths {
                if !known.uses.iter().any(|each| each.path == *path) {
                    kept.push(path.clone());
                    continue;
                }
                known.forget_all_at(path);
            }
        })?;
        Ok(kept)
    }

    /// All known uses.
    ///
    /// # Errors
    /// `Corrupt`, `FutureVersion`, `Io`.
    pub fn uses(&self) -> Result<Vec<Use>, StoreError> {
        Ok(self.known()?.uses)
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

    /// Returns the number of files of one certificate that were missing and are no longer listed.
    /// They may have been moved, and need it.
    ///
    /// # Errors
    /// As [`Self::uses`].
    pub fn forgotten_uses_of(&self, certificate_sha256: &[u8; 32]) -> Result<u64, StoreError> {
        let forgotten = self.known()?.forgotten;
        let of_this = forgotten.iter().find(|(sha256, _)| sha256 == certificate_sha256);
        Ok(of_this.map_or(0, |&(_, files)| files))
    }

    fn known(&self) -> Result<Known, StoreError> {
        match disk::read_ordinary(&self.dir().join(USES_FILE_NAME), MAX_BYTES)? {
            Some(bytes) => decode(&bytes),
            None => Ok(Known::default()),
        }
    }

    fn change_uses(&self, change: impl FnOnce(&mut Known)) -> Result<(), StoreError> {
        let _lock = WriterLock::acquire(self.dir(), lock::WAIT)?;
        let mut known = self.known()?;
        change(&mut known);
        disk::replace(&self.dir().join(USES_FILE_NAME), &encode(&known)?, &disk::go_on)
    }
}

/// Returns an absolute path, or the address of an object on a store.
fn recorded_path(path: &Path) -> Result<PathBuf, StoreError> {
    match is_address(path) {
        true => Ok(path.to_owned()),
        false => std::path::absolute(path).map_err(StoreError::io("resolve", path)),
    }
}

fn is_address(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://"))
}

/// Returns true if `known` names a file that is there, or an object, and not the file at `path`.
fn is_elsewhere(known: &Path, path: &Path) -> bool {
    if known == path || is_address(known) {
        return known != path;
    }
    match (fs::canonicalize(known), fs::canonicalize(path)) {
        (Ok(known), Ok(path)) => known != path,
        (Ok(_), Err(_)) => true,
        (Err(error), _) => error.kind() != ErrorKind::NotFound,
    }
}

fn encode(known: &Known) -> Result<Vec<u8>, StoreError> {
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
    let forgotten = known.forgotten.iter();
    let forgotten =
        forgotten.map(|&(sha256, files)| Forgotten { certificate: hex::encode(sha256), files });
    let listing = Listing {
        version: VERSION,
        uses: known.uses.iter().map(entry).collect(),
        forgotten: forgotten.collect(),
    };
    serde_json::to_vec_pretty(&listing).map_err(|error| corrupt(error.to_string()))
}

fn decode(bytes: &[u8]) -> Result<Known, StoreError> {
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
    let mut known = Known::default();
    for entry in listing.uses {
        known.uses.push(decode_entry(entry)?);
    }
    for Forgotten { certificate, files } in listing.forgotten {
        known.forgotten.push((digits(&certificate)?, files));
    }
    Ok(known)
}

fn decode_entry(entry: Entry) -> Result<Use, StoreError> {
    let no_hex = |error: hex::FromHexError| corrupt(error.to_string());
    let (sha256, file_id) = (digits(&entry.certificate)?, digits(&entry.file_id)?);
    let path = match entry.path_bytes {
        Some(digits) => OsString::from_vec(hex::decode(digits).map_err(no_hex)?).into(),
        None => entry.path.into(),
    };
    Ok(Use { sha256, file_id, path, recorded_at: entry.recorded_at })
}

/// Parses hexadecimal digits into bytes.
fn digits<const N: usize>(text: &str) -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|error| corrupt(error.to_string()))?;
    Ok(bytes)
}

fn corrupt(reason: String) -> StoreError {
    StoreError::corrupt(USES_FILE_NAME, reason)
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
        let known = Known { uses, forgotten: vec![([7; 32], 8)] };
        assert_eq!(decode(&encode(&known).unwrap()).unwrap(), known);
    }

    #[test]
    fn damage_and_newer_versions_are_told() {
        assert!(matches!(decode(b"{"), Err(StoreError::Corrupt { .. })));
        assert!(matches!(
            decode(br#"{"version":3,"else":1}"#),
            Err(StoreError::FutureVersion { found: 3, supported: 2 })
        ));
        let short = br#"{"version":1,"uses":[
            {"certificate":"00","file_id":"00","path":"/","recorded_at":0}]}"#;
        assert!(matches!(decode(short), Err(StoreError::Corrupt { .. })));
    }
}
