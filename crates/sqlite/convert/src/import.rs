//! Makes an encrypted database from one that SQLCipher or SQLite3 Multiple Ciphers encrypted.
//!
//! The other program's own library opens the old file and returns its decrypted pages in memory;
//! they are copied from there like a plain database's, so no plain data is on a disk. When SQLite
//! returns a whole database, it fills pages that it cannot read with zeros; so finally every row
//! that the library reads by itself is compared with the copy's.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use tdekit_key_store::{AuditAction, StoreError, Unlocked, is_side, is_workplace};
use tdekit_sqlite::keyring;
use tdekit_sqlite_client::{Connection as Peer, SqliteError, Statement};

use crate::convert::{Form, Options, copy_encrypted};
use crate::copy::{Unknown, unknown_names};
use crate::error::{DatabaseError, io_error};
use crate::examine::{files_in, has_usual_extension};
use crate::ffi::{open_image, register};
use crate::foreign::{Foreign, refused};
use crate::inspect::{FileKind, read_area};
use crate::keep::refuse_side;
use crate::logged::log_target;
use crate::memory::available_bytes;
use crate::source::{Source, check_alone, database_path, open_file};
use crate::target::{SIDE_SUFFIXES, Target, sync_directory, with_suffix};
use crate::verify::{stored_columns, tables};
use crate::watch::{Phase, Watch, go_on};
use tdekit_sqlite_client::file_uri;

/// Offsets in a database's header of the versions that show whether its journal is a log.
const VERSIONS: Range<usize> = 18..20;
const LOG: [u8; 2] = [2, 2];
const ROLLBACK: [u8; 2] = [1, 1];
/// SQLite's limit of one allocation, bytes.
const MAX_ALLOCATION: u64 = 2_147_483_391;
/// Minimum length of a database, bytes.
const MIN_LEN: u64 = 512;
/// The files from which SQLite recovers a database.
const SIDES: [&str; 2] = ["-journal", "-wal"];
/// Name of a copy of the old file, still encrypted, in the new one's workplace.
const STAGED: &str = "tdekit-import";

/// Result of an import.
#[derive(Debug)]
pub struct Imported {
    /// The new database's path.
    pub path: PathBuf,
    /// Number of tables whose rows were compared.
    pub tables: u64,
    /// Number of rows that were compared.
    pub rows: u64,
    /// True if the old file had a journal or a log, which was recovered in a copy.
    pub journal_recovered: bool,
    /// Functions and collations of its schema that only the application has.
    pub unknown: Unknown,
    /// Reason why the new name may not be on disk yet.
    pub not_synced: Option<DatabaseError>,
}

/// Makes the new encrypted database `new` from `old`, which `foreign` opens. The old file, its
/// journal and its log stay unchanged.
///
/// # Errors
/// After any error there is no file `new`.
pub fn import(
    (old, new): (&Path, &Path),
    foreign: &Foreign<'_>,
    (form, options): (&Form, &Options),
    unlocked: &Arc<Unlocked>,
    watch: &dyn Watch,
) -> Result<Imported, DatabaseError> {
    keyring::set_unlocked(Arc::clone(unlocked));
    register().map_err(DatabaseError::sqlite("prepare to open", old, None))?;
    let old = database_path(old)?;
    let new = free_place(new)?;
    let file = open_file(&old)?;
    check_kind(&old, &file, foreign)?;
    check_alone(&old, &file)?;
    let before = state(&old)?;
    let target = Target::create(&new)?;
    let peer = open(&old, &file, foreign, &target)?;
    target.check_space(before[0].map_or(0, |facts| facts.1))?;

    let (db, wal) = read(&old, &peer, watch)?;
    let own = file.try_clone().map_err(io_error("open", &old))?;
    let source = Source { db, file: own.into(), path: old.clone(), wal };
    let file_id = copy_encrypted(source, (form, options), unlocked, &target, watch)?;

    let unknown = unknown_names();
    let (tables, rows) = compare(&old, &peer, &target, watch)?;
    drop(peer);
    target.take_metadata(&file)?;
    target.sync()?;
    check_alone(&old, &file)?;
    if state(&old)? != before {
        return Err(DatabaseError::Replaced { path: old });
    }
    go_on(watch)?;
    publish(&target, &new, form, file_id, unlocked)?;
    let not_synced = sync_directory(&new).err();
    let journal_recovered = has_side(&old);
    Ok(Imported { path: new, tables, rows, journal_recovered, unknown, not_synced })
}

/// The files of a directory, as an import sees them.
#[derive(Debug, Default)]
pub struct Importable {
    /// Files that the other program may have made, by name.
    pub found: Vec<PathBuf>,
    /// Files with the name of a database that cannot be one, such as truncated ones, links and
    /// pipes, each with the reason.
    pub broken: Vec<(PathBuf, DatabaseError)>,
    /// Number of other files.
    pub others: u64,
}

/// Finds files in `directory` and below it that `foreign` may have made. Journals and logs belong
/// to their databases. Links are not followed.
///
/// # Errors
/// `Io` for a directory or file that cannot be read.
pub fn importable_in(directory: &Path, foreign: &Foreign<'_>) -> Result<Importable, DatabaseError> {
    let mut all = Importable::default();
    let (files, special) = files_in(directory);
    if let Some((_, error)) = files.unread.into_iter().next() {
        return Err(error);
    }
    for path in files.found {
        if is_side(&path) {
            continue;
        }
        let file = File::open(&path).map_err(io_error("open", &path))?;
        match check_kind(&path, &file, foreign) {
            Ok(()) => all.found.push(path),
            Err(error @ DatabaseError::Io { .. }) => return Err(error),
            Err(error @ DatabaseError::NotADatabase { .. }) if is_named_as_database(&path) => {
                all.broken.push((path, error));
            }
            Err(_) => all.others += 1,
        }
    }
    for path in special {
        if !is_named_as_database(&path) {
            all.others += 1;
            continue;
        }
        let problem = match path.is_symlink() {
            true => "is a link, which an import does not follow",
            false => "is not a file",
        };
        all.broken.push((path.clone(), DatabaseError::NotAFile { path, problem }));
    }
    Ok(all)
}

/// Returns true if the file has a usual extension of databases, or SQLite's files beside it.
fn is_named_as_database(path: &Path) -> bool {
    has_usual_extension(path) || SIDE_SUFFIXES.iter().any(|it| with_suffix(path, it).exists())
}

/// Returns the resolved path of a new file; neither the file nor a journal of its name may exist.
fn free_place(name: &Path) -> Result<PathBuf, DatabaseError> {
    let problem = "is not the path of a database file";
    let unfit = || DatabaseError::NotAFile { path: name.to_owned(), problem };
    let file_name = name.file_name().ok_or_else(unfit)?;
    let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).map_err(io_error("open", parent))?;
    if is_workplace(&parent) {
        return Err(unfit());
    }
    let path = parent.join(file_name);
    refuse_side(&path)?;
    let sides = SIDE_SUFFIXES.map(|suffix| with_suffix(&path, suffix));
    for taken in [&path].into_iter().chain(&sides) {
        match fs::symlink_metadata(taken) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("examine", taken)(error)),
            Ok(_) => return Err(DatabaseError::Occupied { path: taken.clone(), reason: "" }),
        }
    }
    Ok(path)
}

fn check_kind(path: &Path, file: &File, foreign: &Foreign<'_>) -> Result<(), DatabaseError> {
    let owned = || path.to_owned();
    let length = file.metadata().map_err(io_error("examine", path))?.len();
    let area = read_area(file).map_err(io_error("read", path))?;
    match FileKind::of(&area) {
        FileKind::Encrypted => Err(DatabaseError::AlreadyEncrypted { path: owned() }),
        FileKind::Plain if !foreign.has_plain_header() => {
            Err(DatabaseError::NotEncrypted { path: owned() })
        }
        _ if length < MIN_LEN || length % MIN_LEN != 0 => {
            Err(DatabaseError::NotADatabase { path: owned() })
        }
        _ => Ok(()),
    }
}

/// Inode, length and change time of the database, its journal and its log.
type State = [Option<(u64, u64, i64, i64)>; 3];

fn state(path: &Path) -> Result<State, DatabaseError> {
    let mut state = State::default();
    for (place, suffix) in state.iter_mut().zip(["", "-journal", "-wal"]) {
        let path = with_suffix(path, suffix);
        *place = match fs::metadata(&path) {
            Ok(facts) => Some((facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("examine", &path)(error)),
        };
    }
    Ok(state)
}

/// Opens the old database: directly if nothing must be recovered, else an encrypted copy of it, its
/// journal and its log, which the library then recovers.
fn open(
    old: &Path,
    file: &File,
    foreign: &Foreign<'_>,
    target: &Target,
) -> Result<Peer, DatabaseError> {
    if !has_side(old) {
        let uri = format!("{}?mode=ro&immutable=1", file_uri(old));
        return foreign.open(old, &uri, OpenFlags::SQLITE_OPEN_READ_ONLY.bits());
    }
    let (mut copy, path) = target.create_other(STAGED)?;
    let mut from = file.try_clone().map_err(io_error("open", old))?;
    io::copy(&mut from, &mut copy).map_err(io_error("copy", old))?;
    for suffix in SIDES.into_iter().filter(|suffix| has_content(old, suffix)) {
        let side = with_suffix(old, suffix);
        let mut from = File::open(&side).map_err(io_error("open", &side))?;
        let (mut copy, _) = target.create_other(&format!("{STAGED}{suffix}"))?;
        io::copy(&mut from, &mut copy).map_err(io_error("copy", &side))?;
    }
    foreign.open(old, &file_uri(&path), OpenFlags::SQLITE_OPEN_READ_WRITE.bits())
}

/// Returns true if a non-empty journal or log is beside the database.
fn has_side(old: &Path) -> bool {
    SIDES.iter().any(|suffix| has_content(old, suffix))
}

fn has_content(old: &Path, suffix: &str) -> bool {
    fs::metadata(with_suffix(old, suffix)).is_ok_and(|facts| facts.len() > 0)
}

/// Returns all pages, decrypted, as a database in memory, and whether the old one's journal is a
/// log.
fn read(old: &Path, peer: &Peer, watch: &dyn Watch) -> Result<(Connection, bool), DatabaseError> {
    let failed = |error: SqliteError| refused("read", old, &error);
    let number = |name: &str| -> Result<u64, DatabaseError> {
        let statement = peer.prepare(&format!("PRAGMA main.{name}")).map_err(failed)?;
        statement.step().map_err(failed)?;
        Ok(u64::try_from(statement.integer(0)).unwrap_or(0))
    };
    let needed_bytes = number("page_size")?.saturating_mul(number("page_count")?);
    let no_memory = |needed_bytes, available_bytes| {
        let path = old.to_owned();
        Err(DatabaseError::NoMemory { path, needed_bytes, available_bytes })
    };
    if needed_bytes > MAX_ALLOCATION {
        return no_memory(needed_bytes, MAX_ALLOCATION);
    }
    // For a moment the library has all of them, and our SQLite too.
    if let Some(free) = available_bytes().filter(|free| *free < 2 * needed_bytes) {
        return no_memory(2 * needed_bytes, free);
    }
    let _phase = Phase::begin(watch, "reading", Some(needed_bytes));
    go_on(watch)?;
    let image = peer.serialize().map_err(failed)?;
    go_on(watch)?;
    let wal = image.bytes().get(VERSIONS) == Some(&LOG);
    let without_log = |pages: &mut [u8]| {
        // A database in memory has no log.
        if let Some(versions) = pages.get_mut(VERSIONS) {
            versions.copy_from_slice(&ROLLBACK);
        }
    };
    let db = open_image(image.bytes(), without_log);
    Ok((db.map_err(DatabaseError::sqlite("open the decrypted pages of", old, None))?, wal))
}

/// Compares schema and rows as the library reads them with the copy's. Returns the numbers of
/// tables and rows.
fn compare(
    old: &Path,
    peer: &Peer,
    target: &Target,
    watch: &dyn Watch,
) -> Result<(u64, u64), DatabaseError> {
    const SCHEMA: &str = "SELECT type, name, tbl_name, sql FROM main.sqlite_master
         WHERE name <> 'sqlite_sequence' ORDER BY type, name, tbl_name";
    let uri = format!("{}?mode=ro&immutable=1", file_uri(target.path()));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |db| DatabaseError::sqlite("verify the copy of", old, db);
    let copy = Connection::open_with_flags(uri, flags).map_err(failed(None))?;
    let both = Both { old, peer, copy: &copy, watch };
    both.same(SCHEMA, "the schema")?;
    let (mut count, mut rows) = (0, 0);
    for table in tables(&copy).map_err(failed(Some(&copy)))? {
        let _phase = Phase::begin(watch, &format!("verifying: rows of {}", table.name), None);
        let sql = stored_columns(&copy, &table).map_err(failed(Some(&copy)))?;
        rows += both.same(&sql, &format!("the rows of {}", table.name))?;
        count += 1;
    }
    Ok((count, rows))
}

struct Both<'a> {
    old: &'a Path,
    peer: &'a Peer,
    copy: &'a Connection,
    watch: &'a dyn Watch,
}

impl Both<'_> {
    /// Fails if a query has different rows in the copy. Returns their number.
    fn same(&self, sql: &str, what: &str) -> Result<u64, DatabaseError> {
        let failed = || DatabaseError::sqlite("verify the copy of", self.old, Some(self.copy));
        let theirs = self.peer.prepare(sql).map_err(|error| refused("read", self.old, &error))?;
        let mut ours = self.copy.prepare(sql).map_err(failed())?;
        let columns = ours.column_count();
        let mut ours = ours.query([]).map_err(failed())?;
        let mut count = 0;
        loop {
            go_on(self.watch)?;
            self.watch.at(0);
            let more = theirs.step().map_err(|error| refused("read", self.old, &error))?;
            let same = match ours.next().map_err(failed())? {
                None if !more => return Ok(count),
                Some(row) if more => same_row(&theirs, row, columns).map_err(failed())?,
                _ => false,
            };
            if !same {
                let problem = format!("{what} differ");
                return Err(DatabaseError::Verification { path: self.old.to_owned(), problem });
            }
            count += 1;
        }
    }
}

fn same_row(
    theirs: &Statement,
    ours: &rusqlite::Row<'_>,
    columns: usize,
) -> rusqlite::Result<bool> {
    let theirs = theirs.row();
    if theirs.len() != columns {
        return Ok(false);
    }
    for (index, value) in theirs.iter().enumerate() {
        let same = match (value.borrowed(), ours.get_ref(index)?) {
            (ValueRef::Real(a), ValueRef::Real(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Records the file in the key store, then gives it its name, which must still be unused.
fn publish(
    target: &Target,
    new: &Path,
    form: &Form,
    file_id: [u8; 16],
    unlocked: &Unlocked,
) -> Result<(), DatabaseError> {
    let Form::Encrypted { certificates, .. } = form else { return target.take_free_name() };
    log_target(AuditAction::Imported, (target, new), unlocked)?;
    let store = unlocked.store();
    let recorded: Result<(), StoreError> =
        certificates.iter().try_for_each(|info| store.record_use(&info.sha256, file_id, new));
    recorded?;
    target.take_free_name().inspect_err(|_| {
        for info in certificates {
            let _ = store.forget_use(&info.sha256, file_id, new);
        }
    })
}
