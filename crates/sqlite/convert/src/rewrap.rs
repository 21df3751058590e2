//! Wraps the keys of an encrypted database for other certificates: only its header is written.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tdekit_key_store::{AuditAction, CertificateInfo, StoreError, Unlocked, WrappedDek};
use tdekit_sqlite::keyring;
use tdekit_sqlite_page::header::decode_slot;
use tdekit_sqlite_page::{DekEntry, FileKeys, Header, PageError, SLOT_COUNT, SLOT_LEN, read_slots};

use crate::error::{DatabaseError, io_error};
use crate::inspect::{certificates_of, open_header, read_area, refuse_unencrypted, wrapped_of};
use crate::logged::log;
use crate::source::{Hold, Source, database_path, open_file};
use crate::step::Step;
use crate::watch::Watch;

/// The outcome of a rewrap.
#[derive(Debug)]
pub struct Rewrapped {
    /// The database's resolved path.
    pub path: PathBuf,
    /// The certificates that wrap its keys now, as far as the store knows them.
    pub certificates: Vec<CertificateInfo>,
    /// True if the header had to be written.
    pub changed: bool,
    /// Reason why the key store could not record the change.
    pub not_recorded: Option<StoreError>,
}

/// Wraps the keys of the database `name` for `certificates`. Without any, uses the active
/// generations of the certificates that wrap them now. With `file_id`, accepts only that file.
///
/// Others may use the database in the meantime: its keys do not change, and readers use one slot of
/// the header while the other is written.
///
/// # Errors
/// `NotEncrypted`, `InUse` while another connection writes, errors of the key store. After any of
/// them the keys are wrapped either as before or as requested.
pub fn rewrap(
    name: &Path,
    file_id: Option<[u8; 16]>,
    certificates: &[CertificateInfo],
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<Rewrapped, DatabaseError> {
    if !certificates.is_empty() {
        unlocked.refuse_agent()?;
    }
    keyring::set_unlocked(Arc::clone(unlocked));
    let path = database_path(name)?;
    // Checked before SQLite opens it: these errors say more than a result code.
    check(&path, &open_file(&path)?, unlocked)?;
    let source = Source::open(&path, Hold::Writers)?;
    let (area, header, keys) = check(&path, &source.file, unlocked)?;
    if file_id.is_some_and(|file_id| file_id != header.file_id) {
        return Err(DatabaseError::Replaced { path });
    }
    let deks = header
        .deks
        .iter()
        .map(|entry| wrap_entry(&path, entry, &keys, certificates, unlocked))
        .collect::<Result<Vec<_>, DatabaseError>>()?;
    let changed = deks != header.deks;
    let new = Header { deks, ..header.clone() };
    let mut not_logged = None;
    if changed {
        not_logged = log(AuditAction::Rewrapped, &path, &new, unlocked)?;
        write_slots(&source, &area, &new, &keys, unlocked, watch)?;
    }
    drop(source);
    let store = unlocked.store();
    let digests = certificates_of(&new);
    let before = certificates_of(&header);
    let recorded = digests
        .iter()
        .filter(|sha256| store.by_sha256(sha256).is_some())
        .try_for_each(|sha256| store.record_use(sha256, new.file_id, &path));
    let mut past = before.iter().filter(|old| !digests.contains(old));
    let recorded =
        recorded.and_then(|()| past.try_for_each(|old| store.forget_use(old, new.file_id, &path)));
    let known = digests.iter().filter_map(|sha256| store.by_sha256(sha256).cloned()).collect();
    Ok(Rewrapped {
        path,
        certificates: known,
        changed,
        not_recorded: not_logged.or(recorded.err()),
    })
}

/// Returns the header area of an encrypted database, with its header and keys.
pub(crate) fn check(
    path: &Path,
    file: &std::fs::File,
    unlocked: &Unlocked,
) -> Result<(Vec<u8>, Header, FileKeys), DatabaseError> {
    let area = read_area(file).map_err(io_error("read", path))?;
    refuse_unencrypted(path, &area)?;
    let (header, keys) = open_header(path, &area, unlocked)?;
    Ok((area, header, keys))
}

/// Returns the entry of one key version, wrapped anew if that changes something.
fn wrap_entry(
    path: &Path,
    entry: &DekEntry,
    keys: &FileKeys,
    certificates: &[CertificateInfo],
    unlocked: &Unlocked,
) -> Result<DekEntry, DatabaseError> {
    let old = wrapped_of(&entry.recipients)?;
    let dek = keys
        .dek(entry.version)
        .map_err(|source| DatabaseError::Header { path: path.to_owned(), source })?;
    let mut new: Vec<WrappedDek> = Vec::new();
    let mut add = |wrapped: WrappedDek| {
        if !new.iter().any(|known| known.sha256 == wrapped.sha256) {
            new.push(wrapped);
        }
    };
    let wrap = |info: &CertificateInfo| -> Result<WrappedDek, StoreError> {
        match old.iter().find(|wrapped| wrapped.sha256 == info.sha256) {
            Some(wrapped) => Ok(wrapped.clone()),
            None => unlocked.wrap_dek(&info.thumbprint(), dek),
        }
    };
    if certificates.is_empty() {
        for wrapped in &old {
            match unlocked.store().by_sha256(&wrapped.sha256) {
                Some(info) if !info.active => add(wrap(unlocked.store().find(&info.name)?)?),
                // An active certificate, or one of another store: it stays.
                _ => add(wrapped.clone()),
            }
        }
    } else {
        for info in certificates {
            add(wrap(info)?);
        }
    }
    let recipients = new.iter().map(WrappedDek::encode).collect::<Result<_, _>>()?;
    Ok(DekEntry { recipients, ..entry.clone() })
}

/// Writes the slot that is not in force and waits until it is on disk, where it is in force. Then
/// writes the other one.
pub(crate) fn write_slots(
    source: &Source,
    area: &[u8],
    header: &Header,
    keys: &FileKeys,
    unlocked: &Unlocked,
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    let path = &source.path;
    let bad_header = |source: PageError| DatabaseError::Header { path: path.clone(), source };
    let dek = keys.dek(header.current).map_err(bad_header)?;
    let in_force = area.chunks_exact(SLOT_LEN).take(SLOT_COUNT).position(|slot| {
        decode_slot(slot).is_ok_and(|(known, _)| known.sequence == header.sequence)
    });
    let first = if in_force == Some(0) { 1 } else { 0 };
    // A slot that does not authenticate may have a higher one.
    let newest = read_slots(area).map_err(bad_header)?.sequence;
    let mut written = area.to_vec();
    let order = [(first, 1, Step::FirstSlot), (1 - first, 2, Step::SecondSlot)];
    for (slot, later, _) in order {
        let sequence =
            newest.checked_add(later).ok_or(PageError::KeyMismatch).map_err(bad_header)?;
        let bytes = Header { sequence, ..header.clone() }.encode_slot(dek).map_err(bad_header)?;
        written[slot * SLOT_LEN..][..SLOT_LEN].copy_from_slice(&bytes);
    }
    // A header that does not open with the new wrapping must not replace one that does.
    if open_header(path, &written, unlocked)?.0.deks != header.deks {
        return Err(bad_header(PageError::KeyMismatch));
    }
    for (slot, _, step) in order {
        let at = slot * SLOT_LEN;
        source
            .file
            .write_all_at(&written[at..at + SLOT_LEN], at as u64)
            .and_then(|()| source.file.sync_all())
            .map_err(io_error("write", path))?;
        watch.done(step);
    }
    Ok(())
}
