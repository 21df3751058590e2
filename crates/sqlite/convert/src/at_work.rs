//! A mark on a database whose key a process is changing. The system removes it when the process
//! ends.
//!
//! It is a shared lock of an open file description (fcntl(2), `F_OFD_SETLK`) on one byte far beyond
//! the end of a database and SQLite's lock bytes. SQLite's own locks belong to the process; the
//! mark neither sees nor drops them.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::ffi::{Mark, mark_byte};

/// Offset of the mark.
const BYTE: i64 = 1 << 62;

/// The mark, until it is dropped.
pub(crate) struct AtWork(Arc<File>);

impl AtWork {
    /// Marks the database in `file`. Any number of processes may do so. A file system without such
    /// locks has no marks.
    pub(crate) fn begin(file: &Arc<File>) -> Self {
        let _ = mark_byte(file, BYTE, Mark::Set);
        Self(Arc::clone(file))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let _ = mark_byte(&self.0, BYTE, Mark::Clear);
    }
}

/// Returns true if somebody is changing the key of the database in `file`, through another
/// descriptor.
///
/// # Errors
/// The system's, if it lacks such locks.
pub fn is_key_changing(file: &File) -> io::Result<bool> {
    mark_byte(file, BYTE, Mark::Ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_seen_through_other_descriptors_until_the_last_one_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "x").unwrap();
        let open = || Arc::new(File::options().read(true).write(true).open(&path).unwrap());
        let asks = File::open(&path).unwrap();
        let changing = || is_key_changing(&asks).unwrap();
        assert!(!changing());
        let (first, second) = (AtWork::begin(&open()), AtWork::begin(&open()));
        assert!(changing());
        drop(first);
        // Closing any descriptor drops locks of the process; this lock does not belong to the
        // process.
        drop(File::open(&path).unwrap());
        assert!(changing());
        drop(second);
        assert!(!changing());
    }
}
