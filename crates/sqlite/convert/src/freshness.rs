//! Switches freshness of a database on and off, and anchors it anew.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tdekit_key_store::{StoreError, Unlocked, open_ordinary};
use tdekit_sqlite::freshness::{anchor_name, list_names, make_directory, suspend};
use tdekit_sqlite::keyring;
use tdekit_sqlite_page::fresh::{
    ANCHOR_LEN, ANCHOR_SLOT_LEN, ListAnchor, ListMark, LogAnchor, LogMark, Tag, encode_anchor,
    encode_snapshot, is_list, snapshot_digest, tag_of,
};
use tdekit_sqlite_page::page::seal_of;
use tdekit_sqlite_page::{FileKeys, HEADER_AREA_LEN, Header, PageCodec, PageError, PageSize};

use crate::certificates;
use crate::error::{DatabaseError, io_error};
use crate::inspect::{header_of, read_area};
use crate::rewrap::{check, write_slots};
use crate::source::{Hold, Source, database_path, open_file, pragma};
use crate::target::{sync_directory, with_suffix};
use crate::watch::{Watch, go_on};

/// SQLite never uses the page with this byte of the logical file.
const LOCK_BYTE: u64 = 1 << 30;

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Lists the seals of all pages and anchors them.
    On,
    /// Removes list and anchor.
    Off,
    /// Accepts the current database as its last state.
    Accept,
}

/// Freshness of a database.
#[derive(Debug)]
pub struct Freshness {
    /// The database's resolved path.
    pub path: PathBuf,
    /// True if it has freshness.
    pub on: bool,
    /// Path of its anchor, even if there is none.
    pub anchor: PathBuf,
    /// Number of times that the anchor of the main file was moved; `None` if there is none, or it
    /// is damaged.
    pub moves: Option<u64>,
    /// A run that switched freshness was cut short: until the next commit, or that run again, a
    /// header that says the opposite is valid as well.
    pub switching: bool,
    /// Another file with the same id that exists, and is known to the key store: the anchor is
    /// that file's.
    pub copy_of: Option<PathBuf>,
}

/// Result of a change.
#[derive(Debug)]
pub struct Changed {
    /// The freshness afterwards.
    pub now: Freshness,
    /// False if nothing had to be changed.
    pub changed: bool,
    /// Set if the key store could not note a database that it did not know.
    pub not_recorded: Option<StoreError>,
}

impl Changed {
    fn nothing(now: Freshness) -> Self {
        Self { now, changed: false, not_recorded: None }
    }
}

/// Changes the freshness of the database `name`. Nobody else may have it open. A page that does not
/// open is an error, and nothing changes.
///
/// # Errors
/// `NotEncrypted`, `InUse`, errors of the key store; `NoFreshness` for `Accept` if it is off;
/// `CopyOf`, because copy and original would share an anchor; `Occupied` if a file of another kind
/// has the name of the list.
pub fn change_freshness(
    name: &Path,
    change: Change,
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<Changed, DatabaseError> {
    keyring::set_unlocked(Arc::clone(unlocked));
    let path = database_path(name)?;
    let (_, header, _) = check(&path, &open_file(&path)?, unlocked)?;
    let before = freshness(name, unlocked)?;
    if let (true, Some(original)) = (change == Change::On || before.has_any(), &before.copy_of) {
        return Err(DatabaseError::CopyOf { path, original: original.clone() });
    }
    let mut not_recorded = None;
    match (change, header.freshness) {
        (Change::On, true) if before.moves.is_some() && !before.switching => {
            return Ok(Changed::nothing(before));
        }
        // This is an older file, from before it was on: it may be anchored only by `Accept`.
        (Change::On, false) if before.moves.is_some() && !before.switching => {
            let source = tdekit_sqlite::VfsError::OlderHeader { path: before.anchor };
            return Err(DatabaseError::Freshness { path, source });
        }
        (Change::Off, false) if !before.has_any() => return Ok(Changed::nothing(before)),
        (Change::Accept, false) if !before.has_any() => {
            return Err(DatabaseError::NoFreshness { path });
        }
        (Change::Off, true) => switch_off(&path, unlocked, watch)?,
        (Change::Off, false) => forget_freshness(&path, &before.anchor)?,
        (Change::On | Change::Accept, _) => {
            anchor_anew(&path, unlocked, watch)?;
            not_recorded = certificates::note(unlocked, &header, &path);
        }
    }
    Ok(Changed { now: freshness(name, unlocked)?, changed: true, not_recorded })
}

/// Returns the known file of which this one is a copy: of those with this id that exist, the one
/// that the key store has known for longest.
pub(crate) fn original_of(
    path: &Path,
    file_id: &[u8; 16],
    unlocked: &Unlocked,
) -> Result<Option<PathBuf>, DatabaseError> {
    let is_original = |known: &Path| {
        let area = open_ordinary(known).and_then(|file| read_area(&file));
        let header = area.ok().and_then(|area| header_of(known, &area).ok());
        header.is_some_and(|header| header.file_id == *file_id)
    };
    let mut same = unlocked.store().uses()?;
    same.retain(|known| known.file_id == *file_id);
    same.sort_by_key(|known| known.recorded_at);
    let first = same.into_iter().find(|known| known.path == path || is_original(&known.path));
    Ok(first.map(|original| original.path).filter(|original| original != path))
}

impl Freshness {
    /// Returns true if the header says so, or if there is an anchor that says so.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.on || self.moves.is_some()
    }
}

/// Returns the freshness of the database `name`, according to its header.
///
/// # Errors
/// `NotEncrypted`, errors of the key store.
pub fn freshness(name: &Path, unlocked: &Arc<Unlocked>) -> Result<Freshness, DatabaseError> {
    keyring::set_unlocked(Arc::clone(unlocked));
    let path = database_path(name)?;
    let (_, header, _) = check(&path, &open_file(&path)?, unlocked)?;
    let anchor = anchor_name(None, &header.file_id).map_err(vfs(&path))?;
    let list =
        read_anchor(&anchor).ok().and_then(|bytes| ListAnchor::decode(&bytes, &header.file_id));
    let moves = list.map(|list| list.sequence);
    let switching = list.is_some_and(|list| list.switching);
    let copy_of = original_of(&path, &header.file_id, unlocked)?;
    Ok(Freshness { path, on: header.freshness, anchor, moves, switching, copy_of })
}

/// Opens the database as an application does: an error shows that it is not in its last state.
/// Reads every page, from the log where that has it.
///
/// # Errors
/// SQLite's, with the VFS's message.
pub fn check_freshness(found: &Freshness, watch: &dyn Watch) -> Result<(), DatabaseError> {
    let source = Source::open(&found.path, Hold::Writers)?;
    go_on(watch)?;
    source
        .db
        .query_row("SELECT count(data) FROM sqlite_dbpage('main')", [], |_| Ok(()))
        .map_err(source.failed("check"))
}

/// Removes the files beside a database that no longer has freshness, and its anchor.
///
/// # Errors
/// `Io`.
pub fn forget_freshness(path: &Path, anchor: &Path) -> Result<(), DatabaseError> {
    for name in list_names(path).iter().map(PathBuf::as_path).chain([anchor]) {
        match fs::remove_file(name) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("remove", name)(error)),
        }
    }
    Ok(())
}

fn vfs(path: &Path) -> impl FnOnce(tdekit_sqlite::VfsError) -> DatabaseError + '_ {
    move |source| DatabaseError::Freshness { path: path.to_owned(), source }
}

fn switch_off(
    path: &Path,
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    let source = Source::open(path, Hold::Everyone)?;
    let (area, header, keys) = check(path, &source.file, unlocked)?;
    let off = Header { freshness: false, ..header };
    let anchor = anchor_name(None, &off.file_id).map_err(vfs(path))?;
    allow_switching(&anchor, &off.file_id)?;
    write_slots(&source, &area, &off, &keys, unlocked, watch)?;
    drop(source);
    forget_freshness(path, &anchor)
}

/// Lists and anchors the content of the file. The new list is in the file that the anchor does not
/// name, so a database that was in its last state stays so wherever this is interrupted. A database
/// that was not in its last state must be accepted once more; so must one whose log has frames that
/// the anchor does not know.
fn anchor_anew(
    path: &Path,
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<(), DatabaseError> {
    empty_anchored_log(path, unlocked)?;
    let _suspended = suspend();
    let source = Source::open(path, Hold::Everyone)?;
    let (area, header, keys) = check(path, &source.file, unlocked)?;
    let tags = tags_of(&source, &keys, watch)?;
    let bad = |source: PageError| DatabaseError::Header { path: path.to_owned(), source };
    let snapshot = encode_snapshot(&header.file_id, &tags).map_err(bad)?;
    let anchor = anchor_name(None, &header.file_id).map_err(vfs(path))?;
    let before =
        read_anchor(&anchor).ok().and_then(|bytes| ListAnchor::decode(&bytes, &header.file_id));
    make_directory(&anchor).map_err(vfs(path))?;
    let new = usize::from(before.is_some_and(|list| list.file == 0));
    let lists = list_names(path);
    refuse_other(&lists[new])?;
    replace(&lists[new], &snapshot, &source.file, None)?;
    let mut list = match before {
        Some(list) => take_over(&anchor, &header.file_id, list, &snapshot)?,
        None => {
            let home = anchor.parent().and_then(Path::parent).unwrap_or(path);
            let home = File::open(home).map_err(io_error("open", home))?;
            let bytes = encode_anchor(&header.file_id, &snapshot, 1, true);
            replace(&anchor, &bytes, &home, Some(0o600))?;
            let read = ListAnchor::decode(&bytes, &header.file_id);
            read.ok_or(bad(PageError::KeyMismatch))?
        }
    };
    let _ = fs::remove_file(&lists[1 - new]);
    let file_id = header.file_id;
    if !header.freshness {
        let on = Header { freshness: true, ..header };
        write_slots(&source, &area, &on, &keys, unlocked, watch)?;
    }
    list.switching = false;
    write_anchor(&anchor, &file_id, &mut list)
}

/// Fails if a file that is not a list of seals has the name of one.
fn refuse_other(list: &Path) -> Result<(), DatabaseError> {
    let mut head = Vec::new();
    match open_ordinary(list).and_then(|file| file.take(16).read_to_end(&mut head)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) if is_list(&head) => Ok(()),
        Ok(_) => {
            let reason = ", and is not a list of seals";
            Err(DatabaseError::Occupied { path: list.to_owned(), reason })
        }
        Err(error) => Err(io_error("read", list)(error)),
    }
}

/// Empties the log in a way that the previous list covers, if the anchor names its frames: another
/// log is then an error, and stays until it is accepted. Without such frames the log of a restored
/// older database would count as void.
fn empty_anchored_log(path: &Path, unlocked: &Arc<Unlocked>) -> Result<(), DatabaseError> {
    let (_, header, _) = check(path, &open_file(path)?, unlocked)?;
    let anchor = anchor_name(None, &header.file_id).map_err(vfs(path))?;
    let log =
        read_anchor(&anchor).ok().and_then(|bytes| LogAnchor::decode(&bytes, &header.file_id));
    let journal = fs::metadata(with_suffix(path, "-journal")).is_ok_and(|it| it.len() > 0);
    if header.freshness && !journal && log.is_some_and(|log| log.mark.frames > 0) {
        drop(Source::open(path, Hold::Everyone));
    }
    Ok(())
}

/// Makes an anchor name the list in its other file, which consists of `snapshot`, and no log.
fn take_over(
    anchor: &Path,
    file_id: &[u8; 16],
    before: ListAnchor,
    snapshot: &[u8],
) -> Result<ListAnchor, DatabaseError> {
    let bytes = read_anchor(anchor).map_err(io_error("read", anchor))?;
    let sequence = LogAnchor::decode(&bytes, file_id).map_or(0, |log| log.sequence);
    let log = LogAnchor { sequence: sequence.wrapping_add(1), mark: LogMark::default() };
    write_slot(anchor, log.encode(file_id))?;
    let base = ListMark { len: snapshot.len() as u64, digest: snapshot_digest(snapshot) };
    let mut list = ListAnchor {
        sequence: before.sequence,
        file: 1 - before.file,
        switching: true,
        snapshot_len: base.len,
        base,
        prepared: None,
        copied: LogMark::default(),
    };
    write_anchor(anchor, file_id, &mut list)?;
    Ok(list)
}

/// Reads the bytes of an anchor, which must be a regular file.
fn read_anchor(anchor: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_ordinary(anchor)?.take(ANCHOR_LEN as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the anchor match a header of either kind.
fn allow_switching(anchor: &Path, file_id: &[u8; 16]) -> Result<(), DatabaseError> {
    let bytes = read_anchor(anchor).map_err(io_error("read", anchor))?;
    let Some(mut list) = ListAnchor::decode(&bytes, file_id) else { return Ok(()) };
    list.switching = true;
    write_anchor(anchor, file_id, &mut list)
}

/// Writes the next slot for the list.
fn write_anchor(
    anchor: &Path,
    file_id: &[u8; 16],
    list: &mut ListAnchor,
) -> Result<(), DatabaseError> {
    list.sequence = list.sequence.wrapping_add(1);
    write_slot(anchor, list.encode(file_id))
}

fn write_slot(
    anchor: &Path,
    (at, slot): (u64, [u8; ANCHOR_SLOT_LEN]),
) -> Result<(), DatabaseError> {
    let file = OpenOptions::new().write(true).open(anchor).map_err(io_error("open", anchor))?;
    file.write_all_at(&slot, at).and_then(|()| file.sync_all()).map_err(io_error("write", anchor))
}

/// Replaces a file durably, with the owner of `like` and its mode or `mode`.
fn replace(path: &Path, bytes: &[u8], like: &File, mode: Option<u32>) -> Result<(), DatabaseError> {
    let failed = io_error("write", path);
    let made = || -> std::io::Result<()> {
        let like = like.metadata()?;
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        let mode = mode.unwrap_or_else(|| like.mode() & 0o777);
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    };
    if let Err(error) = made() {
        // No anchor refers to it yet.
        let _ = fs::remove_file(path);
        return Err(failed(error));
    }
    sync_directory(path)
}

/// Returns the tags of all pages, after opening each of them.
fn tags_of(source: &Source, keys: &FileKeys, watch: &dyn Watch) -> Result<Vec<Tag>, DatabaseError> {
    let path = &source.path;
    let bad = |source: PageError| DatabaseError::Header { path: path.clone(), source };
    let size = PageSize::new(
        pragma::<u32>(&source.db, "page_size").map_err(source.failed("read"))?.into(),
    )
    .map_err(bad)?;
    let len = source.file.metadata().map_err(io_error("examine", path))?.len();
    let pages = len.saturating_sub(HEADER_AREA_LEN) / u64::from(size.bytes());
    let mut codec = PageCodec::new(keys.clone());
    let (mut sealed, mut plain) = (vec![0; size.len()], vec![0; size.len()]);
    let mut tags = Vec::new();
    for page in 1..=u32::try_from(pages).unwrap_or(u32::MAX) {
        if page % 1024 == 0 {
            go_on(watch)?;
        }
        let at = size.page_offset(page);
        source.file.read_exact_at(&mut sealed, at).map_err(io_error("read", path))?;
        if LOCK_BYTE / u64::from(size.bytes()) + 1 != u64::from(page) {
            codec.open(page, &sealed, &mut plain).map_err(bad)?;
        }
        tags.push(seal_of(&sealed).map(tag_of).unwrap_or_default());
    }
    plain.fill(0);
    Ok(tags)
}
