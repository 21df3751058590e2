//! The kind of a database file, as shown by its first bytes, and its keys.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tdekit_key_store::{StoreError, Unlocked, WrappedDek};
use tdekit_sqlite::logged::{audited, is_unfinished};
use tdekit_sqlite_page::header::{commitment, is_encrypted, read_all_slots};
use tdekit_sqlite_page::keys::DEK_LEN;
use tdekit_sqlite_page::{
    DekVersion, FileKeys, HEADER_AREA_LEN, Header, PageError, SLOT_LEN, read_slots,
};

use crate::error::DatabaseError;

/// First bytes of a plain database.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Empty: SQLite treats it as a database without a schema.
    Empty,
    /// A plain database.
    Plain,
    /// An encrypted database.
    Encrypted,
    /// Neither.
    Other,
}

impl FileKind {
    /// Returns the kind of a file that starts with `area`. If the first slot is torn, the second
    /// one decides.
    pub fn of(area: &[u8]) -> Self {
        if area.is_empty() {
            Self::Empty
        } else if area.starts_with(SQLITE_MAGIC) {
            Self::Plain
        } else if is_encrypted(area) || area.get(SLOT_LEN..).is_some_and(is_encrypted) {
            Self::Encrypted
        } else {
            Self::Other
        }
    }
}

/// Reads the first bytes of a file, up to the length of a header area.
pub fn read_area(file: &File) -> io::Result<Vec<u8>> {
    let mut area = vec![0; usize::try_from(HEADER_AREA_LEN).unwrap_or(0)];
    let mut filled = 0;
    while filled < area.len() {
        match file.read_at(&mut area[filled..], filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    area.truncate(filled);
    Ok(area)
}

/// Fails if the file at `path`, which begins with `area`, is not an encrypted database.
pub(crate) fn refuse_unencrypted(path: &Path, area: &[u8]) -> Result<(), DatabaseError> {
    match FileKind::of(area) {
        FileKind::Encrypted => Ok(()),
        FileKind::Plain | FileKind::Empty => {
            Err(DatabaseError::NotEncrypted { path: path.to_owned() })
        }
        FileKind::Other => Err(DatabaseError::NotADatabase { path: path.to_owned() }),
    }
}

/// Returns the header in force.
pub fn header_of(path: &Path, area: &[u8]) -> Result<Header, DatabaseError> {
    read_slots(area).map_err(|source| DatabaseError::Header { path: path.to_owned(), source })
}

/// Names the certificates that would open an encrypted database, if the error is that there is no
/// key store; otherwise returns `None`.
pub fn without_store(path: &Path, error: &StoreError) -> Option<DatabaseError> {
    let StoreError::Missing { .. } = error else { return None };
    let area = File::open(path).and_then(|file| read_area(&file)).ok()?;
    let header = header_of(path, &area).ok()?;
    let recipients = header.deks.iter().flat_map(|entry| wrapped_of(&entry.recipients).ok());
    let mut certificates: Vec<_> =
        recipients.flatten().map(|each| format!("certificate {}", each.thumbprint())).collect();
    certificates.dedup();
    Some(DatabaseError::NoStoreHere { path: path.to_owned(), certificates })
}

/// Unwraps the keys of a file and checks the header's MAC with them. If the slot with the highest
/// sequence does not authenticate, uses the other one.
pub fn open_header(
    path: &Path,
    area: &[u8],
    unlocked: &Unlocked,
) -> Result<(Header, FileKeys), DatabaseError> {
    let bad_header = |source| DatabaseError::Header { path: path.to_owned(), source };
    let mut failure = None;
    for header in read_all_slots(area).map_err(bad_header)? {
        match open_slot(area, &header, unlocked)? {
            Ok(keys) => {
                log_opening(path, &header, unlocked)?;
                return Ok((header, keys));
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(bad_header(failure.unwrap_or(PageError::KeyMismatch)))
}

/// Returns the slots that would be valid if they were the only one: whole, of this file, and with
/// keys that open. `header` and `keys` belong to the slot in force.
pub(crate) fn serving_slots(
    area: &[u8],
    (header, keys): (&Header, &FileKeys),
    unlocked: &Unlocked,
) -> usize {
    let serves = |slot: &Header| match slot.file_id == header.file_id {
        true if slot.deks == header.deks => {
            keys.dek(slot.current).and_then(|dek| slot.verify(dek, area)).is_ok()
        }
        true => matches!(open_slot(area, slot, unlocked), Ok(Ok(_))),
        false => false,
    };
    read_all_slots(area).map_or(0, |slots| slots.iter().filter(|slot| serves(slot)).count())
}

/// Logs the opening of the database, if the key store asks for it.
fn log_opening(path: &Path, header: &Header, unlocked: &Unlocked) -> Result<(), StoreError> {
    if is_unfinished(path) {
        return Ok(());
    }
    unlocked.log_opening(&header.file_id, || audited(path, header, unlocked.store()))
}

/// Returns the keys of one slot; the inner error is the slot's own fault.
fn open_slot(
    area: &[u8],
    header: &Header,
    unlocked: &Unlocked,
) -> Result<Result<FileKeys, PageError>, StoreError> {
    let mut versions = Vec::with_capacity(header.deks.len());
    for entry in &header.deks {
        let dek = unlocked.unwrap_dek(&wrapped_of(&entry.recipients)?)?;
        match commitment(&dek, &header.file_id, entry.algorithm) {
            Ok(found) if dek.len() == DEK_LEN && found == entry.commitment => {}
            Ok(_) => return Ok(Err(PageError::KeyMismatch)),
            Err(error) => return Ok(Err(error)),
        }
        let (version, algorithm) = (entry.version, entry.algorithm);
        versions.push(DekVersion { version, algorithm, dek: Arc::new(dek) });
    }
    let keys = FileKeys { file_id: header.file_id, current: header.current, versions };
    let verified = keys.dek(header.current).and_then(|dek| header.verify(dek, area));
    Ok(verified.map(|()| keys))
}

/// Decodes the wrapped copies of one key.
pub fn wrapped_of(recipients: &[Vec<u8>]) -> Result<Vec<WrappedDek>, StoreError> {
    recipients.iter().map(|bytes| Ok(WrappedDek::decode(bytes)?.0)).collect()
}

/// Returns the SHA-256 of every certificate that wraps a key of the file.
pub fn certificates_of(header: &Header) -> Vec<[u8; 32]> {
    let mut digests = Vec::new();
    for recipient in header.deks.iter().flat_map(|entry| &entry.recipients) {
        match WrappedDek::decode(recipient) {
            Ok((wrapped, _)) if !digests.contains(&wrapped.sha256) => digests.push(wrapped.sha256),
            _ => {}
        }
    }
    digests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_a_file_is() {
        let mut sealed = vec![0; 16384];
        sealed[SLOT_LEN..SLOT_LEN + 16].copy_from_slice(b"tdekit database\0");
        assert_eq!(FileKind::of(&sealed), FileKind::Encrypted);
        sealed[..16].copy_from_slice(b"tdekit database\0");
        assert_eq!(FileKind::of(&sealed), FileKind::Encrypted);
        assert_eq!(FileKind::of(&sealed[..20]), FileKind::Encrypted);
        // A plain database may hold our magic as data.
        sealed[..16].copy_from_slice(SQLITE_MAGIC);
        assert_eq!(FileKind::of(&sealed), FileKind::Plain);
        assert_eq!(FileKind::of(b""), FileKind::Empty);
        assert_eq!(FileKind::of(b"SQLite format 2\0"), FileKind::Other);
        assert_eq!(FileKind::of(&[0; 9000]), FileKind::Other);
    }
}
