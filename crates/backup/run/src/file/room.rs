//! Room in a new file, written at any place by several threads at once.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::writer::{open_direct, write_at};
use crate::RunError;

/// A file that has all its blocks, and is written past the page cache where its file system allows.
pub(crate) struct Room {
    direct: Option<File>,
}

impl Room {
    /// Gives `file`, which `path` names now, `len` bytes. Room that is there already is written to
    /// faster, and by several threads at once. With `cached` all bytes come to be in the page
    /// cache, for whoever reads them next.
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
            // A file system without this has it no worse than before.
            _ => file.set_len(len).map_err(failed())?,
        }
        let direct = if cached { None } else { open_direct(file, path) };
        Ok(Self { direct })
    }

    /// Writes to `file`, that of [`Self::reserve`].
    pub(crate) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_at((file, self.direct.as_ref()), bytes, offset)
    }
}
