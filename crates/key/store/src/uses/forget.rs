//! The rules by which missing files are forgotten.
//!
//! A missing file may have been moved, its volume may not be mounted, or its directory may not be
//! readable. So forgetting must not change the answer of a command: dropping a certificate that
//! files needed is still refused (the list counts the forgotten files), and a database that
//! somebody would miss stays known. Besides files that our own commands decrypted, replaced or
//! removed, only files that programs make and remove by the hundred are forgotten, and the newest
//! of each kind are kept.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::Use;
use crate::clock::now_seconds;

/// Conventional directories for temporary files. `TMPDIR` does not count: it may name a disk that
/// just has more space.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Number of files kept for one path: one is there, others were moved away (the media of backups
/// that change every day), or creating them failed.
const KEPT_OF_PATH: usize = 10;
/// Number of missing files kept for one directory.
const KEPT_OF_DIRECTORY: usize = 100;
/// Files that disappear sooner than this are short-lived.
const SHORT_LIFE_S: i64 = 30 * 24 * 3600;

/// Forgets other files of the same certificate that the last added use shows to be gone. Returns
/// their number.
pub(super) fn forget_gone(uses: &mut Vec<Use>) -> u64 {
    let before = uses.len();
    if let Some(added) = uses.last().cloned() {
        forget_beside(uses, &added);
    }
    (before - uses.len()) as u64
}

fn forget_beside(uses: &mut Vec<Use>, added: &Use) {
    let same = |known: &Use| known.sha256 == added.sha256;
    thin(uses, KEPT_OF_PATH, |known| same(known) && known.path == added.path);
    thin(uses, 1, |known| same(known) && temporary_entry_is_gone(&known.path));
    // A file was just made in this directory, so it is not a mount point waiting for its volume.
    let Some(directory) = added.path.parent().filter(|directory| directory.is_dir()) else {
        return;
    };
    let since = now_seconds().saturating_sub(SHORT_LIFE_S);
    let beside = |known: &Use| {
        same(known) && known.recorded_at > since && known.path.parent() == Some(directory)
    };
    if uses.iter().filter(|known| beside(known)).count() > KEPT_OF_DIRECTORY {
        thin(uses, KEPT_OF_DIRECTORY, |known| {
            beside(known) && known.file_id != added.file_id && is_absent(&known.path)
        });
    }
}

/// Removes all but the newest `kept` of the uses for which `is` holds; the newest are last.
fn thin(uses: &mut Vec<Use>, kept: usize, is: impl Fn(&Use) -> bool) {
    let mut found = 0;
    let mut keep: Vec<bool> = uses
        .iter()
        .rev()
        .map(|known| {
            if !is(known) {
                return true;
            }
            found += 1;
            found <= kept
        })
        .collect();
    uses.retain(|_| keep.pop().unwrap_or(true));
}

/// Returns true if the file is missing although its directory exists, or if it was temporary. A
/// path that cannot be examined is not missing.
pub(super) fn is_missing(path: &Path) -> bool {
    let in_directory = path.parent().is_some_and(Path::is_dir);
    is_absent(path) && (in_directory || temporary_entry_is_gone(path))
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Returns true if the path leads through an entry of a directory for temporary files that is gone.
/// A volume mounted below would have left its mount point.
fn temporary_entry_is_gone(path: &Path) -> bool {
    entry_of(path).is_some_and(|(directory, entry)| directory.is_dir() && is_absent(&entry))
}

fn entry_of(path: &Path) -> Option<(&'static Path, PathBuf)> {
    let directory = TEMPORARY.iter().map(Path::new).find(|each| path.starts_with(each))?;
    let mut below = path.strip_prefix(directory).ok()?.components();
    let first = match below.next()? {
        Component::Normal(first) => first,
        _ => return None,
    };
    let plain = below.all(|part| part != Component::ParentDir);
    plain.then(|| (directory, directory.join(OsStr::new(first))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_entry_below_a_temporary_directory_counts() {
        let entry = |path: &str| entry_of(Path::new(path)).map(|(_, entry)| entry);
        assert_eq!(entry("/tmp/a/b/c.db"), Some("/tmp/a".into()));
        assert_eq!(entry("/var/tmp/c.db"), Some("/var/tmp/c.db".into()));
        for other in ["/tmp", "/srv/tmp/c.db", "/tmpfs/c.db", "/tmp/../srv/c.db", "s3://tmp/c"] {
            assert_eq!(entry(other), None, "{other}");
        }
        assert_eq!(entry("/tmp/a/../../srv/c.db"), None);
    }

    #[test]
    fn the_newest_stay() {
        let known = |id: u8, path: &str| Use {
            sha256: [0; 32],
            file_id: [id; 16],
            path: path.into(),
            recorded_at: 0,
        };
        let mut uses: Vec<_> =
            (0..9).map(|id| known(id, ["/a", "/b"][usize::from(id % 2)])).collect();
        thin(&mut uses, 2, |known| known.path == Path::new("/a"));
        let ids: Vec<_> = uses.iter().map(|known| known.file_id[0]).collect();
        assert_eq!(ids, [1, 3, 5, 6, 7, 8]);
    }
}
