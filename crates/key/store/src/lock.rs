//! The lock that serializes changes of a store between processes.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::disk;
use crate::error::StoreError;

/// Time for which a writer waits for another one.
pub(crate) const WAIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
const FILE_NAME: &str = "keystore.lock";

/// An exclusive `flock` on a file beside the store; the kernel releases it when the process ends.
///
/// The lock cannot be on the store file itself, because each write replaces that file.
#[derive(Debug)]
pub(crate) struct WriterLock {
    _file: File,
}

impl WriterLock {
    pub(crate) fn acquire(dir: &Path, wait: Duration) -> Result<Self, StoreError> {
        let path = dir.join(FILE_NAME);
        let mut file = disk::open_appending(&path)?;
        let deadline = Instant::now() + wait;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(POLL),
                Err(TryLockError::WouldBlock) => {
                    let holder = read_holder(&mut file);
                    return Err(StoreError::Locked { path, holder });
                }
                Err(TryLockError::Error(source)) => {
                    return Err(StoreError::Io { action: "lock", path, source });
                }
            }
        }
        // Only a hint for the error message of a waiting process: a failure has no consequence.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lock's holder writes its process ID there.
    #[test]
    fn nothing_is_written_through_a_link_or_to_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, path) = (dir.path().join("victim"), dir.path().join(FILE_NAME));
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        WriterLock::acquire(dir.path(), WAIT).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&victim, &path).unwrap();
        WriterLock::acquire(dir.path(), WAIT).unwrap_err();
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        WriterLock::acquire(dir.path(), WAIT).unwrap_err();
    }

    #[test]
    fn second_writer_is_told_who_holds_it_and_gets_it_later() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriterLock::acquire(dir.path(), WAIT).unwrap();
        let refused = WriterLock::acquire(dir.path(), Duration::from_millis(50)).unwrap_err();
        match refused {
            StoreError::Locked { holder, .. } => assert_eq!(holder, Some(std::process::id())),
            other => panic!("{other}"),
        }
        thread::scope(|scope| {
            let waiting = scope.spawn(|| WriterLock::acquire(dir.path(), WAIT));
            thread::sleep(Duration::from_millis(50));
            drop(first);
            assert!(waiting.join().unwrap().is_ok());
        });
    }
}
