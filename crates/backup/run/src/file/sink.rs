//! A restored database in a plain file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::beside::Beside;
use super::room::Room;
use crate::RunError;
use crate::sink::PageSink;

/// SQLite's files beside a database, which would be taken for the restored one's.
const SIDE_FILES: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A plain database file: written beside, synced, renamed, directory synced. Dropped before
/// [`PageSink::finish`], it leaves nothing. Readable by its owner only.
pub struct FileSink {
    path: PathBuf,
    replace: bool,
    page_size: u32,
    beside: Option<Beside>,
    room: Option<Room>,
}

impl FileSink {
    /// Makes a sink for a file at `path`. Without `replace`, no file may exist there; with it, the
    /// database's `-wal`, `-shm` and `-journal` files are removed as well.
    ///
    /// # Errors
    /// [`RunError::Exists`], [`RunError::Locked`], [`RunError::Io`].
    pub fn new(path: impl Into<PathBuf>, replace: bool) -> Result<Self, RunError> {
        let mut path = path.into();
        if replace && path.is_file() {
            path = path.canonicalize().map_err(RunError::io("open", &path))?;
        }
        if !replace {
            let taken = |path: &PathBuf| path.symlink_metadata().is_ok();
            let side_files = SIDE_FILES.into_iter().map(|suffix| side_file(&path, suffix));
            if let Some(path) = std::iter::once(path.clone()).chain(side_files).find(taken) {
                return Err(RunError::Exists { path });
            }
        }
        let beside = Beside::create(&path)?;
        Ok(Self { path, replace, page_size: 0, beside: Some(beside), room: None })
    }

    fn file(&self) -> Result<&Beside, RunError> {
        self.beside.as_ref().ok_or(RunError::Internal("the sink is finished"))
    }

    /// The journal or log of a replaced database would be applied to the new one.
    fn remove_side_files(&self) -> Result<(), RunError> {
        for suffix in SIDE_FILES {
            let path = side_file(&self.path, suffix);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(RunError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        super::sync_parent(&self.path)
    }
}

impl PageSink for FileSink {
    fn begin(&mut self, page_size: u32, pages: u64) -> Result<(), RunError> {
        self.page_size = page_size;
        let beside = self.file()?;
        let len = u64::from(page_size).saturating_mul(pages);
        self.room = Some(Room::reserve(beside.file(), beside.beside(), len, false)?);
        Ok(())
    }

    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        let beside = self.file()?;
        let offset = u64::from(first.saturating_sub(1)) * u64::from(self.page_size);
        let room = self.room.as_ref().ok_or(RunError::Internal("pages before their number"))?;
        room.write(beside.file(), bytes, offset).map_err(RunError::io("write", beside.beside()))
    }

    fn finish(&mut self) -> Result<(), RunError> {
        let beside = self.file()?;
        beside.file().sync_all().map_err(RunError::io("sync", beside.beside()))?;
        if self.replace {
            self.remove_side_files()?;
        }
        let Some(mut beside) = self.beside.take() else { return Ok(()) };
        beside.place(self.replace)
    }
}

impl std::fmt::Debug for FileSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSink").field("path", &self.path).finish_non_exhaustive()
    }
}

fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
