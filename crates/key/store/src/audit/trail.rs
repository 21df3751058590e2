//! The log's files. Entries are added under the writers' lock, before the change that they
//! describe.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::SecretBytes;

use super::record::{AuditEvent, AuditRecord, Line, version_of};
use crate::clock::{iso8601, now_seconds};
use crate::derive::StoreKeys;
use crate::disk;
use crate::error::StoreError;
use crate::file::{AuditAnchor, AuditMark, StoreFile};
use crate::parent::sync_parent;

const ACTIVE: &str = "audit.log";
/// Size from which the next entry starts another file.
const ROTATE_BYTES: usize = 1 << 20;
/// Maximum size of a log file: a full file, and what a single change may add.
const MAX_BYTES: u64 = 16 << 20;
const MAX_PASSWD_BYTES: u64 = 1 << 20;

/// How a written store starts using a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The existing store goes on; a store without a log starts one.
    Here,
    /// The store came from a backup: it continues a log that is its own, and sets others aside.
    Restored,
}

/// Appends the entries to the log beside `file`, and returns the anchor for the store to keep. The
/// caller holds the writers' lock, and writes the store only if this succeeds.
pub(crate) fn record(
    dir: &Path,
    keys: &StoreKeys,
    file: &StoreFile,
    events: &[AuditEvent],
    beginning: Beginning,
) -> Result<Box<AuditAnchor>, StoreError> {
    let (key, mut anchor) = match &file.audit {
        Some(anchor) => (keys.open_audit_key(file, &anchor.sealed_key)?, anchor.clone()),
        None => {
            let (key, sealed_key) = keys.new_audit_key(file)?;
            set_aside(dir)?;
            let (base, head) = (AuditMark::START, AuditMark::START);
            (key, Box::new(AuditAnchor { sealed_key, base, head }))
        }
    };
    if beginning == Beginning::Restored
        && last_mark(dir, &key)?.is_none_or(|last| last.sequence < anchor.head.sequence)
    {
        set_aside(dir)?;
        anchor.base = anchor.head;
    }
    if !events.is_empty() {
        anchor.head = append(dir, &key, anchor.head, events)?;
    }
    Ok(anchor)
}

fn append(
    dir: &Path,
    key: &SecretBytes,
    head: AuditMark,
    events: &[AuditEvent],
) -> Result<AuditMark, StoreError> {
    let path = dir.join(ACTIVE);
    // Entries after the store's own mark record openings, and changes that were cut short.
    let last = last_mark(dir, key)?.filter(|last| last.sequence >= head.sequence);
    let mut mark = last.unwrap_or(head);
    let mut there = disk::read_ordinary(&path, MAX_BYTES)?.unwrap_or_default();
    if there.len() >= ROTATE_BYTES {
        let first = mark.sequence.saturating_sub(count_lines(&there).saturating_sub(1));
        let full = (first..).map(|number| dir.join(segment_name(number))).find(|it| !it.exists());
        if let Some(full) = full {
            fs::rename(&path, &full).map_err(StoreError::io("rename", &path))?;
            sync_parent(&path)?;
        }
        there.clear();
    }
    let (uid, pid) = (rustix::process::getuid().as_raw(), std::process::id());
    let (user, program) = (user_name(uid)?, program());
    let mut lines = Vec::new();
    for event in events {
        let record = AuditRecord {
            v: version_of(event.action, event.key.as_ref()),
            seq: mark.sequence.saturating_add(1),
            at: iso8601(now_seconds()),
            action: event.action,
            subject: event.subject,
            id: event.id.clone(),
            name: event.name.clone(),
            key: event.key.clone(),
            uid,
            user: user.clone(),
            program: program.clone(),
            pid,
            prev: hex::encode(mark.mac),
        };
        let (line, mac) = record.seal(key)?;
        lines.extend(line);
        mark = AuditMark { sequence: record.seq, mac };
    }
    let mut file = disk::open_appending(&path)?;
    write_lines(&mut file, &path, &there, &lines)?;
    Ok(mark)
}

/// Appends whole lines after the last whole line, and waits until they are on disk. A partial line
/// at the end was never acknowledged: its writer died.
fn write_lines(file: &mut File, path: &Path, there: &[u8], lines: &[u8]) -> Result<(), StoreError> {
    let io = |action| StoreError::io(action, path);
    let whole = there.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let whole_len = u64::try_from(whole).unwrap_or(u64::MAX);
    if whole != there.len() {
        file.set_len(whole_len).map_err(io("record the change in"))?;
    }
    let written = file.write_all(lines).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // A remaining part would be reported as a torn end.
        let _ = file.set_len(whole_len);
        return Err(io("record the change in")(error));
    }
    if there.is_empty() {
        disk::give_to_owner_of_directory(file, path).map_err(io("change the owner of"))?;
        sync_parent(path)?;
    }
    Ok(())
}

/// Returns the last entry of the log, if it is under the store's key. Nothing is appended after an
/// entry of a newer version: an entry that cannot be read cannot be continued.
fn last_mark(dir: &Path, key: &SecretBytes) -> Result<Option<AuditMark>, StoreError> {
    for path in segments(dir)?.into_iter().rev() {
        let Some(bytes) = disk::read_ordinary(&path, MAX_BYTES)? else { continue };
        let Some(line) = whole_lines(&bytes).next_back() else { continue };
        let line = match Line::decode(line) {
            Ok(line) => line,
            Err(newer @ StoreError::FutureVersion { .. }) => return Err(newer),
            Err(_) => return Ok(None),
        };
        let mark = AuditMark { sequence: line.record.seq, mac: line.mac };
        return Ok(line.holds(key).then_some(mark));
    }
    Ok(None)
}

/// The lines of a file that are complete.
pub(crate) fn whole_lines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let whole = bytes.get(..end).unwrap_or_default();
    whole
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// The log's files in the order of their entries.
pub(crate) fn segments(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut full = Vec::new();
    for entry in fs::read_dir(dir).map_err(StoreError::io("read", dir))? {
        let name = entry.map_err(StoreError::io("read", dir))?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("audit-")?.strip_suffix(".log"));
        if number.is_some_and(|it| it.len() == 20 && it.bytes().all(|b| b.is_ascii_digit())) {
            full.push(dir.join(name));
        }
    }
    full.sort();
    let active = dir.join(ACTIVE);
    if active.symlink_metadata().is_ok() {
        full.push(active);
    }
    Ok(full)
}

/// Reads one of [`segments`]; `None` if it was renamed in the meantime.
pub(crate) fn read_segment(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    disk::read_ordinary(path, MAX_BYTES)
}

fn segment_name(first: u64) -> String {
    format!("audit-{first:020}.log")
}

/// Renames the log of another store, so that nothing is lost.
fn set_aside(dir: &Path) -> Result<(), StoreError> {
    for path in segments(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = (now_seconds()..)
            .map(|number| dir.join(format!("{name}.replaced-{number}")))
            .find(|aside| aside.symlink_metadata().is_err());
        if let Some(aside) = aside {
            fs::rename(&path, &aside).map_err(StoreError::io("rename", &path))?;
        }
    }
    sync_parent(&dir.join(ACTIVE))
}

fn count_lines(bytes: &[u8]) -> u64 {
    u64::try_from(whole_lines(bytes).count()).unwrap_or(u64::MAX)
}

fn program() -> String {
    std::env::current_exe()
        .map_or_else(|_| String::new(), |path| shortened(&path.to_string_lossy()))
}

/// Shortens a text to 1024 characters: a long program name must not make the line fail.
fn shortened(text: &str) -> String {
    const MOST: usize = 1024;
    text.chars().take(MOST).collect()
}

fn user_name(uid: u32) -> Result<String, StoreError> {
    let Some(bytes) = disk::read_limited(Path::new("/etc/passwd"), MAX_PASSWD_BYTES)? else {
        return Ok(String::new());
    };
    let text = String::from_utf8_lossy(&bytes);
    let of_user = |line: &&str| line.split(':').nth(2).is_some_and(|it| it.parse() == Ok(uid));
    let name = text.lines().find(of_user).and_then(|line| line.split(':').next());
    Ok(shortened(name.unwrap_or_default()))
}
