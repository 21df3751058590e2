//! Locks of other connections in the index of a write-ahead log.

use std::fs::File;
use std::io;

use crate::ffi::exclusive_lock_on;

/// The bytes of the index that SQLite locks for writers, and behind the one for checkpoints
/// (<https://www.sqlite.org/walformat.html>, 2.3.1).
const WRITER: i64 = 120;
const BEHIND_CHECKPOINTS: i64 = 122;

/// Returns true while one process holds the locks of writers and of checkpoints in `index`, the
/// index of a log. `PRAGMA wal_checkpoint` with `RESTART` or `TRUNCATE` does so while it waits for
/// readers.
///
/// The system joins locks on neighbouring bytes if they are of one process: those of a writer and
/// of a checkpoint in two processes stay apart. Threads of one process are not distinguished.
///
/// `index` was opened for this, and stays open as long as this process has connections to the
/// database: closing it drops their locks.
///
/// # Errors
/// The system's, if it lacks locks of open file descriptions.
pub fn is_excluded_by_checkpoint(index: &File) -> io::Result<bool> {
    let held = exclusive_lock_on(index, WRITER)?;
    Ok(held.is_some_and(|bytes| bytes.end >= BEHIND_CHECKPOINTS))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Locks bytes of a file in a process of its own, and holds them until it is dropped.
    struct Other(Child);

    impl Other {
        fn new(path: &std::path::Path, first: i64, count: i64) -> Self {
            let script = "import fcntl, sys\nf = open(sys.argv[1], 'r+b')\n\
                for at in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):\n\
                \x20   fcntl.lockf(f, fcntl.LOCK_EX, 1, at)\nprint('held', flush=True)\n\
                sys.stdin.read()";
            let mut child = Command::new("/usr/bin/python3")
                .args(["-c", script])
                .arg(path)
                .args([first.to_string(), count.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "held\n");
            Self(child)
        }
    }

    impl Drop for Other {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn both_locks_count_only_where_one_process_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        File::create(&path).unwrap().write_all(&[0; 128]).unwrap();
        let index = File::open(&path).unwrap();
        let excluded = || is_excluded_by_checkpoint(&index).unwrap();
        assert!(!excluded());
        let both = Other::new(&path, 120, 2);
        assert!(excluded());
        drop(both);
        assert!(!excluded());
        let writer = Other::new(&path, 120, 1);
        assert!(!excluded());
        let checkpoint = Other::new(&path, 121, 1);
        assert!(!excluded());
        drop(writer);
        assert!(!excluded());
        drop(checkpoint);
    }
}
