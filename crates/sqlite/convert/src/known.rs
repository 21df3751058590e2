//! Encrypted databases that are not as they were: emptied, truncated after their header,
//! overwritten, or gone. A search for databases finds none of them, but the key store knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tdekit_key_store::{USES_FILE_NAME, Use, is_key_listing};
use tdekit_sqlite_page::HEADER_AREA_LEN;

use crate::error::DatabaseError;
use crate::inspect::{FileKind, header_of, read_area};
use crate::status::{Status, Store};
use crate::target::with_suffix;

const EMPTY: &str = "is empty, and the key store knows an encrypted file there";
const CUT: &str = "ends behind its header: none of its pages is there";
const GONE: &str = "is gone, and the key store knows an encrypted file there";
const PLAIN: &str = "is a plain database, and the key store knows an encrypted one there";
const OTHER: &str = "is not the encrypted database that the key store knows there";
const NOT_A_FILE: &str = "is not a file, and the key store knows an encrypted one there";
const OVERWRITTEN: &str = "is not a database, and the key store knows an encrypted file there";

/// The first bytes of each of our binary files.
const OUR_MAGIC: &[u8] = b"tdekit ";

/// Paths of the encrypted databases that a key store knows, each with the ids of the files that
/// were there, in hexadecimal digits.
pub type Known = BTreeMap<PathBuf, BTreeSet<String>>;

/// Returns the paths of a key store's uses, except server keys and `media`, the paths of media
/// sets.
#[must_use]
pub fn known_of(uses: Vec<Use>, media: &BTreeSet<String>) -> Known {
    let is_database =
        |path: &PathBuf| !is_key_listing(path) && !media.contains(&*path.to_string_lossy());
    let mut known = Known::new();
    for each in uses.into_iter().filter(|each| is_database(&each.path)) {
        known.entry(each.path).or_default().insert(hex::encode(each.file_id));
    }
    known
}

/// Returns the key store's list of encrypted files, and the reason, if it cannot be read: missing
/// files are not detected then.
#[must_use]
pub fn unread_list(store: &Store<'_>) -> Option<(PathBuf, DatabaseError)> {
    let store = store.store.as_ref().ok()?;
    let error = store.uses().err()?;
    Some((store.dir().join(USES_FILE_NAME), error.into()))
}

/// Returns the paths below `directory`, which may itself be gone, where the store knows an
/// encrypted database, but nothing exists now, or a link, or a file that is neither a database nor
/// another file of ours; and `directory` itself, if it stands in the place of a database.
#[must_use]
pub fn lost_in(directory: &Path, store: &Store<'_>) -> Vec<PathBuf> {
    let Some(resolved) = resolved_path(directory) else { return Vec::new() };
    let is_one = resolved.is_dir();
    // Where a link has taken the directory's place, the store knows what was there before: by the
    // directory's name, or by that name in the resolved directory above.
    let named = std::path::absolute(directory).unwrap_or_else(|_| resolved.clone());
    let named_in = in_directory(directory).unwrap_or_else(|| resolved.clone());
    let is_in = |path: &Path, of: &Path| path.starts_with(of) && (is_one || path != of);
    let is_below =
        |path: &Path| is_in(path, &resolved) || is_in(path, &named) || is_in(path, &named_in);
    let below = store.known.keys().filter(|path| is_below(path));
    below.filter(|path| is_lost(path)).cloned().collect()
}

/// Fails if only remains of an encrypted database are at `path`, whose file begins with `area`.
/// `is_known` is true if the key store knows one there.
///
/// # Errors
/// `Lost`.
pub fn refuse_lost(path: &Path, area: &[u8], is_known: bool) -> Result<(), DatabaseError> {
    let has_log = fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let len = fs::metadata(path).map_or(0, |file| file.len());
    problem_of(FileKind::of(area), (len, has_log), is_known)
        .map_or(Ok(()), |problem| Err(DatabaseError::Lost { path: path.to_owned(), problem }))
}

/// Returns true if the encrypted database at `path`, whose file begins with `area`, is not one that
/// the key store knows there, though it knows another.
#[must_use]
pub fn is_another(path: &Path, area: &[u8], known: &Known) -> bool {
    let ids = known.get(path);
    let id = header_of(path, area).ok().map(|header| hex::encode(header.file_id));
    ids.zip(id).is_some_and(|(ids, id)| !ids.contains(&id))
}

/// Returns the resolved path of a file that need not exist, nor need its directories.
#[must_use]
pub fn resolved_path(name: &Path) -> Option<PathBuf> {
    if let Ok(path) = fs::canonicalize(name) {
        return Some(path);
    }
    // `.` and `..` have no file name, which ends the recursion.
    let file_name = name.file_name()?;
    let parent = name.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(resolved_path(parent)?.join(file_name))
}

/// Returns true if the path of a known file leads elsewhere now, over a link in its place or in
/// that of a directory above.
#[must_use]
pub fn is_over_link(known: &Path) -> bool {
    fs::canonicalize(known).is_ok_and(|leads_to| leads_to != known)
}

/// Returns the path of a known database in whose place a link leads elsewhere now, if `name` is it.
pub(crate) fn place_under_link(name: &Path, store: &Store<'_>) -> Option<PathBuf> {
    let places = [std::path::absolute(name).ok(), in_directory(name)];
    let mut known = places.into_iter().flatten().filter(|it| store.known.contains_key(it));
    known.find(|path| is_over_link(path))
}

/// Returns the fault, in words, of the file `name` whose properties show remains of an encrypted
/// database. Where a link leads to it, those that the store knows in the link's place count, too.
pub(crate) fn problem(name: &Path, status: &Status, store: &Store<'_>) -> Option<&'static str> {
    let has_log = status.wal_bytes.is_some_and(|bytes| bytes > 0);
    let places = [Some(status.path.clone()), std::path::absolute(name).ok(), in_directory(name)];
    let known: Vec<_> = places.iter().flatten().filter_map(|it| store.known.get(it)).collect();
    let (kind, is_other) = match (&status.encryption, status.page_size) {
        (Some(encryption), _) => {
            let is_other = known.iter().any(|ids| !ids.contains(&encryption.file_id));
            (FileKind::Encrypted, is_other)
        }
        (None, None) => (FileKind::Empty, false),
        (None, Some(_)) => (FileKind::Plain, false),
    };
    let problem = problem_of(kind, (status.size_bytes, has_log), !known.is_empty());
    problem.or(is_other.then_some(OTHER))
}

/// Returns a path with its directory resolved.
fn in_directory(name: &Path) -> Option<PathBuf> {
    let parent = name.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(parent).ok()?.join(name.file_name()?))
}

/// Returns the error `Lost` in place of `error`, if the key store knows an encrypted file at
/// `name`.
pub(crate) fn lost(name: &Path, error: DatabaseError, store: &Store<'_>) -> DatabaseError {
    let problem = match &error {
        _ if fs::metadata(name).is_ok_and(|facts| !facts.is_file()) => NOT_A_FILE,
        DatabaseError::NotADatabase { .. } => OVERWRITTEN,
        DatabaseError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => GONE,
        _ => return error,
    };
    let Some(path) = resolved_path(name).filter(|path| store.known.contains_key(path)) else {
        return error;
    };
    DatabaseError::Lost { path, problem }
}

fn problem_of(kind: FileKind, (len, has_log): (u64, bool), is_known: bool) -> Option<&'static str> {
    match kind {
        FileKind::Empty if is_known => Some(EMPTY),
        FileKind::Plain if is_known => Some(PLAIN),
        FileKind::Other if is_known => Some(OVERWRITTEN),
        FileKind::Encrypted if len <= HEADER_AREA_LEN && !has_log => Some(CUT),
        _ => None,
    }
}

/// Returns true if nothing is there, or a link, or a file that is neither a database nor begins
/// like a file of ours.
fn is_lost(path: &Path) -> bool {
    if is_over_link(path) {
        return true;
    }
    // A pipe in its place must not block.
    match fs::metadata(path) {
        Ok(facts) if !facts.is_file() => return true,
        Ok(_) => {}
        // A path that is not accessible is reported by the search.
        Err(error) => return error.kind() != std::io::ErrorKind::PermissionDenied,
    }
    let Ok(area) = File::open(path).and_then(|file| read_area(&file)) else { return false };
    match FileKind::of(&area) {
        FileKind::Empty => true,
        FileKind::Other => !area.starts_with(OUR_MAGIC),
        FileKind::Plain | FileKind::Encrypted => false,
    }
}
