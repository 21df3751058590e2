//! Pages read from the main file without SQLite: of a plain database by several threads at once, of
//! an encrypted one through the connection's VFS, which opens them.
//!
//! Sound only inside a read transaction, and only for pages with no frame in the write-ahead log:
//!
//! - Outside WAL mode the transaction is a SHARED lock, under which nobody writes the main file.
//! - In WAL mode the transaction holds a read mark. With mark 0 (the whole log was copied into the
//!   main file) the lock on it keeps every checkpoint from writing. With another mark, a checkpoint
//!   copies only frames up to that mark, and the log is not restarted; so it writes only pages with
//!   a frame in the log at or before the mark, and all such frames were there when the log was
//!   listed after the transaction had begun.
//!
//! The VFS is asked for the same bytes as by SQLite, so it handles keys, page sizes and freshness
//! as always.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rusqlite::Connection;
use rustix::fs::{Advice, fadvise};

use super::ffi::MainFile;
use super::{log_index, wal};

/// Device and inode.
type Identity = (u64, u64);

/// Files that were read, kept open: POSIX drops *all* locks of a process on a file when it closes
/// any descriptor of it, and other connections of this process may hold some.
static OPENED: LazyLock<Mutex<HashMap<Identity, Arc<File>>>> = LazyLock::new(Mutex::default);

/// The main file of a database inside a read transaction.
pub(super) struct Direct {
    /// The file of a plain database.
    file: Option<Arc<File>>,
    page_size: u32,
    /// Pages that must be read through SQLite, ascending.
    logged: Vec<u32>,
    /// Number of whole pages in the main file when the transaction had begun.
    pages: u32,
}

/// The way in which pages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// From the main file of a plain database.
    File,
    /// Through the VFS, which opens pages of the main file.
    Vfs,
    /// Through SQLite.
    Sqlite,
}

impl Direct {
    /// Returns `None` if the main file cannot be read without SQLite. A read transaction has begun.
    pub(super) fn open(path: &Path, page_size: u32, wal_mode: bool) -> io::Result<Option<Self>> {
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let logged = if wal_mode {
            match wal::page_numbers(&wal_path(path), page_size)? {
                Some(numbers) => numbers,
                None => return Ok(None),
            }
        } else {
            Vec::new()
        };
        let file = open_kept(path)?;
        // This only speeds up reading.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        let pages = file.metadata()?.len() / u64::from(page_size);
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        Ok(Some(Self { file: Some(file), page_size, logged, pages }))
    }

    /// Opens an encrypted database; `None` if its pages must be read through SQLite.
    pub(super) fn through_vfs(
        connection: &mut Connection,
        page_size: u32,
        wal_mode: bool,
    ) -> Option<Self> {
        let file = MainFile::of(connection)?;
        let logged = if wal_mode { log_index::page_numbers(&file, page_size)? } else { Vec::new() };
        let pages = u32::try_from(file.size()? / u64::from(page_size)).unwrap_or(u32::MAX);
        Some(Self { file: None, page_size, logged, pages })
    }

    /// Returns how to read page `number`, and how many pages from it on, up to `end`, are read the
    /// same way.
    pub(super) fn run(&self, number: u32, end: u32) -> (By, u32) {
        let at = self.logged.partition_point(|logged| *logged < number);
        let next = self.logged.get(at).copied().unwrap_or(u32::MAX);
        let whole_end = self.pages.saturating_add(1);
        if number >= whole_end {
            return (By::Sqlite, end - number);
        }
        if next != number {
            let by = if self.file.is_some() { By::File } else { By::Vfs };
            return (by, next.min(whole_end).min(end) - number);
        }
        let logged = self.logged.get(at..).unwrap_or_default();
        let run = logged.iter().zip(number..end).take_while(|(logged, n)| **logged == *n).count();
        (By::Sqlite, u32::try_from(run).unwrap_or(1).max(1))
    }

    /// Returns true if page 1 is the same here, if it can be compared: then SQLite reads this file,
    /// with no layer in between.
    pub(super) fn agrees(&self, connection: &mut Connection, first: &[u8]) -> bool {
        let mut here = vec![0; first.len()];
        let read = match &self.file {
            Some(_) => self.read(1, &mut here).is_ok(),
            None => self.read_by_vfs(connection, 1, &mut here),
        };
        match self.run(1, 2) {
            (By::File | By::Vfs, _) => read && here == first,
            (By::Sqlite, _) => {
                let magic = b"SQLite format 3\0";
                self.pages > 0
                    && read
                    && here.starts_with(magic)
                    && here.get(16..18) == first.get(16..18)
            }
        }
    }

    /// Reads whole pages of a plain database.
    pub(super) fn read(&self, number: u32, out: &mut [u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(out, self.offset(number)),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Reads whole pages of an encrypted database; returns false if that fails for any reason.
    pub(super) fn read_by_vfs(
        &self,
        connection: &mut Connection,
        number: u32,
        out: &mut [u8],
    ) -> bool {
        let (offset, page_len) = (self.offset(number), usize::try_from(self.page_size));
        let Ok(page_len) = page_len else { return false };
        MainFile::of(connection).is_some_and(|file| file.read(out, offset, page_len))
    }

    fn offset(&self, number: u32) -> u64 {
        u64::from(number.saturating_sub(1)) * u64::from(self.page_size)
    }
}

fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Opens a database's file, which stays open in this process as long as it has a name.
pub(crate) fn open_kept(path: &Path) -> io::Result<Arc<File>> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody can open a file again after its last name is gone: its locks no longer matter.
    opened.retain(|_, file| file.metadata().is_ok_and(|metadata| metadata.nlink() > 0));
    let metadata = fs::metadata(path)?;
    if let Some(file) = opened.get(&(metadata.dev(), metadata.ino())) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    let metadata = file.metadata()?;
    opened.insert((metadata.dev(), metadata.ino()), Arc::clone(&file));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(logged: &[u32], pages: u32) -> Direct {
        let file = Some(Arc::new(tempfile::tempfile().unwrap()));
        Direct { file, page_size: 512, logged: logged.to_vec(), pages }
    }

    #[test]
    fn runs_end_at_logged_pages_and_at_the_files_end() {
        let direct = direct(&[1, 2, 5, 9], 7);
        assert_eq!(direct.run(1, 11), (By::Sqlite, 2));
        assert_eq!(direct.run(2, 11), (By::Sqlite, 1));
        assert_eq!(direct.run(3, 11), (By::File, 2));
        assert_eq!(direct.run(3, 4), (By::File, 1));
        assert_eq!(direct.run(5, 11), (By::Sqlite, 1));
        assert_eq!(direct.run(6, 11), (By::File, 2));
        assert_eq!(direct.run(8, 11), (By::Sqlite, 3));
    }

    #[test]
    fn a_file_is_opened_once_and_a_removed_one_is_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, "a").unwrap();
        std::fs::write(&b, "b").unwrap();
        let first = open_kept(&a).unwrap();
        assert!(Arc::ptr_eq(&first, &open_kept(&a).unwrap()));
        std::fs::remove_file(&a).unwrap();
        open_kept(&b).unwrap();
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
