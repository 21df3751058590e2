//! A media file that is read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::RunError;
use crate::target::MediaSource;

/// A media file that is read.
#[derive(Debug)]
pub struct FileMedia {
    file: File,
    path: PathBuf,
}

impl FileMedia {
    /// Opens a file.
    ///
    /// # Errors
    /// [`RunError::Missing`], [`RunError::NotMedia`] if it is not a regular file, [`RunError::Io`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, RunError> {
        let path = path.into();
        const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        // Opening a pipe would wait for its writer.
        let opened = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&path);
        match opened {
            Ok(file) => {
                let kind = file.metadata().map_err(RunError::io("open", &path))?.file_type();
                match kind.is_file() || kind.is_block_device() {
                    true => Ok(Self { file, path }),
                    false => Err(RunError::NotMedia { media: path.display().to_string() }),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(RunError::Missing { path })
            }
            Err(error) => Err(RunError::io("open", &path)(error)),
        }
    }

    /// Makes a reader of an open file.
    pub(super) fn new(file: File, path: &Path) -> Self {
        Self { file, path: path.to_path_buf() }
    }

    fn check(&self, part: u32) -> Result<(), RunError> {
        if part == 0 { Ok(()) } else { Err(RunError::NoPart { media: self.name(), part }) }
    }
}

impl MediaSource for FileMedia {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn parts(&self) -> u32 {
        1
    }

    fn part_len(&self, part: u32) -> Result<u64, RunError> {
        self.check(part)?;
        let metadata = self.file.metadata().map_err(RunError::io("read", &self.path))?;
        Ok(metadata.len())
    }

    fn read_at(&self, part: u32, offset: u64, buf: &mut [u8]) -> Result<(), RunError> {
        self.check(part)?;
        self.file.read_exact_at(buf, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let end = offset.saturating_add(buf.len() as u64);
                RunError::ShortRead { media: self.name(), end }
            }
            _ => RunError::io("read", &self.path)(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_no_media_and_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [&pipe, dir.path()] {
            assert!(matches!(FileMedia::open(path), Err(RunError::NotMedia { .. })), "{path:?}");
        }
        assert!(matches!(FileMedia::open(dir.path().join("x")), Err(RunError::Missing { .. })));
    }
}
