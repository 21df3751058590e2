//! Space in a new file, which several threads write at any offset at once.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::writer::{open_direct, write_at};
use crate::RunError;

/// A file with all its blocks allocated, written past the page cache if its file system allows it.
pub(crate) struct Room {
    direct: Option<File>,
}

impl Room {
    /// Extends `file`, which `path` names now, to `len` bytes. Allocated space is written faster,
    /// and by several threads at once. With `cached`, all bytes go to the page cache, for whoever
    /// reads them next.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub(crate) fn reserve(
        file: &File,
        path: &Path,
        len: u64,
        cached: bool,
    ) -> Result<Self, RunError> {
        let failed = || RunError::io("write", path);
        file.set_len(len).map_err(failed())?;
        match fallocate(file, FallocateFlags::empty(), 0, len.max(1)) {
            Err(Errno::NOSPC | Errno::DQUOT) => {
                return Err(RunError::NoSpace { path: path.to_path_buf() });
            }
            // A file system without allocation is no worse off than before.
            _ => file.set_len(len).map_err(failed())?,
        }
        let direct = if cached { None } else { open_direct(file, path) };
        Ok(Self { direct })
    }

    /// Writes to `file`, the file of [`Self::reserve`].
    pub(crate) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_at((file, self.direct.as_ref()), bytes, offset)
    }
}
