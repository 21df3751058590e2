//! Giving a restored file its name, replacing the existing file if that is allowed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tdekit_key_crypto::Kind;
use tdekit_key_store::{CONFIG_FILE_NAME, STORE_FILE_NAME, is_key_listing, is_side};
use tdekit_sqlite_convert::{
    DatabaseError, FileKind, Hold, SIDE_SUFFIXES, Source, Target, Watch, check_alone,
    database_path, go_on, io_error, open_file, read_area, refuse_emptied, remove_side_files,
    spoil_unlinked, sync_directory, with_suffix,
};
use tdekit_sqlite_page::HEADER_AREA_LEN;

use super::ownership::Ownership;
use crate::RunError;
use crate::catalog::is_history;
use crate::error::ArchiveError;
use crate::names::is_object_name;
use crate::place::is_media;

/// Files of a key store's directory, beside those of [`is_key_listing`]; the history is known by
/// its header.
const OWN_FILES: [&str; 8] = [
    STORE_FILE_NAME,
    CONFIG_FILE_NAME,
    "audit.log",
    "uses.json",
    "keystore.lock",
    "logins.json",
    "tls-cert.pem",
    "tls-key.pem",
];

const OF_STORE: &str = "a file of a key store";

/// Hint for an occupied name where `--replace` would help.
const REPLACE: &str = "; --replace puts the restored one in its place";

/// The files that a restore may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Nothing.
    Nothing,
    /// A database that is not tdekit's own.
    Database,
    /// Any file, because a stream may be anything, except media sets and the files of a key store.
    File,
    /// Any file except those of a key store.
    Anything,
}

/// Resolves the name of a file to restore, and checks that it is unused or may be replaced, before
/// any work.
///
/// # Errors
/// `NotAFile`, `Occupied` for `Over::Nothing`, `NotReplaced`, `SideFile`, `NoBackupThere` for the
/// name of an archive's object, `InUse`, `Emptied`, `Io`.
pub fn destination(name: &Path, over: Over) -> Result<PathBuf, RunError> {
    if is_side(name) {
        return Err(RunError::SideFile { path: name.to_owned() });
    }
    if is_object_name(&name.to_string_lossy()) {
        let object = name.display().to_string();
        return Err(ArchiveError::NoBackupThere { object }.into());
    }
    let replace = over != Over::Nothing;
    if fs::symlink_metadata(name).is_ok() {
        let path = database_path(name)?;
        if !replace {
            return Err(DatabaseError::Occupied { path, reason: REPLACE }.into());
        }
        let file = open_file(&path)?;
        check_alone(&path, &file)?;
        refuse_emptied_file(&path, &file)?;
        return match reason_to_keep(&path, &file, over).map_err(io_error("read", &path))? {
            Some(what) => Err(RunError::NotReplaced { path, what }),
            None => Ok(path),
        };
    }
    let parent = match name.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Some(file_name) = name.file_name() else {
        let problem = "is not the path of a file";
        return Err(DatabaseError::NotAFile { path: name.to_owned(), problem }.into());
    };
    let path = fs::canonicalize(parent).map_err(io_error("open", parent))?.join(file_name);
    if is_own(&path) && is_in_store(&path) {
        return Err(RunError::NotReplaced { path, what: OF_STORE });
    }
    // SQLite would take them for those of the restored database.
    for suffix in SIDE_SUFFIXES {
        let side = with_suffix(&path, suffix);
        if !replace && fs::symlink_metadata(&side).is_ok() {
            let reason = " beside the name of the new database; --replace removes it";
            return Err(DatabaseError::Occupied { path: side, reason }.into());
        }
    }
    Ok(path)
}

/// Fails for a database that was emptied, and whose log was not: to replace it removes the log.
fn refuse_emptied_file(path: &Path, file: &File) -> Result<(), DatabaseError> {
    let area = read_area(file).map_err(io_error("read", path))?;
    refuse_emptied(path, FileKind::of(&area))
}

/// Returns true for the name of a file of a key store.
fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| OWN_FILES.iter().any(|own| name == *own))
        || is_key_listing(path)
}

/// Returns true for a file beside or below a key store. Those that are not databases belong to it:
/// keys, settings, anchors, locks, logs.
fn is_in_store(path: &Path) -> bool {
    path.ancestors().skip(1).any(|dir| dir.join(STORE_FILE_NAME).is_file())
}

/// Returns the kind of the existing file, if a restore may not replace it.
fn reason_to_keep(path: &Path, file: &File, over: Over) -> io::Result<Option<&'static str>> {
    let own = is_own(path);
    if over == Over::Anything {
        return Ok((own && is_in_store(path)).then_some(OF_STORE));
    }
    if is_media(path) {
        return Ok(Some("a backup media set"));
    }
    let area = read_area(file)?;
    Ok(match (over, FileKind::of(&area)) {
        (_, kind) if (own || kind == FileKind::Other) && is_in_store(path) => Some(OF_STORE),
        (Over::Database, FileKind::Other) => Some("not a database"),
        (_, FileKind::Plain) if is_history(&area) => Some("a backup history"),
        _ => None,
    })
}

/// The name that a restored file gets, and whose it is then.
#[derive(Debug, Clone, Copy)]
pub struct Naming<'a> {
    /// The name, resolved.
    pub path: &'a Path,
    /// True if an existing file may be replaced.
    pub replace: bool,
    /// Its owner and permissions.
    pub ownership: Ownership,
}

/// Gives the finished `target` its name. Returns the reason why that may not be on disk yet.
///
/// # Errors
/// `Occupied`, `InUse`, `Emptied`, `Io`; the existing file is then unchanged.
pub fn publish(
    target: &Target,
    naming: &Naming<'_>,
    watch: &dyn Watch,
) -> Result<Option<RunError>, RunError> {
    let Naming { path, replace, ownership } = *naming;
    let old = replace && fs::symlink_metadata(path).is_ok();
    if old {
        return replace_old(target, naming, watch);
    }
    ownership.give(target.file(), path)?;
    target.sync()?;
    go_on(watch)?;
    if replace && remove_side_files(path)? {
        sync_directory(path)?;
    }
    target.take_free_name()?;
    Ok(sync_directory(path).err().map(Into::into))
}

fn replace_old(
    target: &Target,
    naming: &Naming<'_>,
    watch: &dyn Watch,
) -> Result<Option<RunError>, RunError> {
    let path = naming.path;
    let old = Old::keep_others_out(path)?;
    target.take_metadata(old.file())?;
    naming.ownership.give_named(target.file(), path)?;
    target.sync()?;
    go_on(watch)?;
    old.check_alone(path)?;
    // Journal and log before the database: the restored one must not find them, whenever the power
    // fails. If the old one could be opened, they have none of its data any more.
    if remove_side_files(path)? {
        sync_directory(path)?;
    }
    target.replace_database()?;
    let synced = sync_directory(path);
    if synced.is_ok() {
        spoil_unlinked(old.file(), old.page_one());
    }
    Ok(synced.err().map(Into::into))
}

/// The file to replace.
enum Old {
    /// A database, recovered, and locked until this is dropped.
    Locked(Source),
    /// A file that SQLite cannot open here: damaged, without its key, or not a database.
    Unopened(File),
}

impl Old {
    fn keep_others_out(path: &Path) -> Result<Self, RunError> {
        match Source::open(path, Hold::Everyone) {
            Ok(source) => Ok(Self::Locked(source)),
            Err(error) if error.kind() == Kind::Busy => Err(error.into()),
            Err(_) => {
                let file = open_file(path)?;
                check_alone(path, &file)?;
                refuse_emptied_file(path, &file)?;
                Ok(Self::Unopened(file))
            }
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Locked(source) => &source.file,
            Self::Unopened(file) => file,
        }
    }

    fn check_alone(&self, path: &Path) -> Result<(), RunError> {
        match self {
            Self::Locked(source) => Ok(source.check_alone()?),
            Self::Unopened(file) => Ok(check_alone(path, file)?),
        }
    }

    fn page_one(&self) -> u64 {
        match read_area(self.file()).map(|area| FileKind::of(&area)) {
            Ok(FileKind::Encrypted) => HEADER_AREA_LEN,
            _ => 0,
        }
    }
}
