//! A media file that is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
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
    /// [`RunError::Missing`], [`RunError::Io`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, RunError> {
        let path = path.into();
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(RunError::Missing { path })
            }
            Err(error) => Err(RunError::io("open", &path)(error)),
        }
    }

    /// For a file that is open.
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
