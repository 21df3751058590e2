//! Location of the list of a database's seals and of its anchor, for programs that link this.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tdekit_key_store::read_ordinary;
use tdekit_sqlite_page::fresh::{ANCHOR_LEN, ListAnchor};

use crate::VfsError;
use crate::keyring::Keyring;

/// Suffixes of the list's two files after the database's name.
pub const LIST_SUFFIXES: [&str; 2] = ["-seals", "-seals2"];
/// Name of the directory of anchors within a key store.
const ANCHORS: &str = "anchors";

static SUSPENDED: AtomicBool = AtomicBool::new(false);

/// Returns true if this process ignores anchors because it is making a new one.
pub(crate) fn is_suspended() -> bool {
    SUSPENDED.load(Ordering::Relaxed)
}

/// Lets this process open databases without checking their anchors until the value is dropped. Only
/// for callers that make a new anchor and exclude everyone else.
#[derive(Debug)]
pub struct Suspended(());

/// Starts ignoring anchors.
#[must_use]
pub fn suspend() -> Suspended {
    SUSPENDED.store(true, Ordering::Relaxed);
    Suspended(())
}

impl Drop for Suspended {
    fn drop(&mut self) {
        SUSPENDED.store(false, Ordering::Relaxed);
    }
}

/// Returns the path of the anchor of the database `file_id`: in `anchors`, or in the key store in
/// use.
///
/// # Errors
/// The key store's, if no directory is given.
pub fn anchor_name(anchors: Option<&Path>, file_id: &[u8; 16]) -> Result<PathBuf, VfsError> {
    let directory = match anchors {
        Some(directory) => directory.to_owned(),
        None => anchors_of(&*Keyring::of(None)?)?,
    };
    let name = hex::encode(file_id);
    Ok(directory.join(name + ".anchor"))
}

/// Returns the directory of the anchors in a keyring's store.
pub(crate) fn anchors_of(ring: &Keyring) -> Result<PathBuf, VfsError> {
    Ok(ring.dir()?.join(ANCHORS))
}

/// Fails if a database whose header says that it has no freshness has an anchor: the header of an
/// older state was restored.
pub(crate) fn refuse_anchored(anchors: Option<&Path>, file_id: &[u8; 16]) -> Result<(), VfsError> {
    // Without a store there is no anchor either.
    let Ok(path) = anchor_name(anchors, file_id) else { return Ok(()) };
    let Ok(Some(bytes)) = read_ordinary(&path, ANCHOR_LEN as u64) else { return Ok(()) };
    match ListAnchor::decode(&bytes, file_id) {
        Some(list) if !list.switching => Err(VfsError::OlderHeader { path }),
        _ => Ok(()),
    }
}

/// Makes the directory for `anchor`, durably, for its owner alone.
///
/// # Errors
/// `File`.
pub fn make_directory(anchor: &Path) -> Result<(), VfsError> {
    let Some(directory) = anchor.parent() else { return Ok(()) };
    if directory.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    let above = directory.parent().unwrap_or(directory);
    made.and_then(|()| File::open(above)).and_then(|above| above.sync_all()).map_err(VfsError::File)
}

/// Returns the paths of the files of the list of the database at `path`.
#[must_use]
pub fn list_names(path: &Path) -> [PathBuf; 2] {
    LIST_SUFFIXES.map(|suffix| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    })
}
