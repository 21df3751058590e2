//! Destination of a restored stream: a file that gets its name when it is whole, or standard
//! output.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tdekit_key_store::Workplace;
use tdekit_sqlite_convert::{io_error, made};

use crate::RunError;
use crate::database::ownership::Ownership;

/// A file being restored. Dropped before [`StreamFile::publish`], it leaves nothing.
pub struct StreamFile {
    file: File,
    // After the file, so that it is closed before its directory is removed.
    work: Workplace,
    replace: bool,
}

impl StreamFile {
    /// Makes a file that will be `path`, resolved.
    ///
    /// # Errors
    /// `Converting`, `Io`.
    pub fn create(path: &Path, replace: bool) -> Result<Self, RunError> {
        let work = Workplace::beside(path).map_err(made)?;
        let file = work.create().map_err(made)?;
        Ok(Self { work, file, replace })
    }

    /// Gives the file owner and permissions, before it has its name.
    ///
    /// # Errors
    /// `Io`.
    pub fn own(&self, ownership: Ownership) -> Result<(), RunError> {
        ownership.give(&self.file, self.work.path())
    }

    /// Makes the file durable and gives it its name. Returns the reason why that may not be on disk
    /// yet.
    ///
    /// # Errors
    /// `Occupied`, `Io`.
    pub fn publish(self) -> Result<Option<RunError>, RunError> {
        self.file.sync_all().map_err(io_error("sync", self.work.path()))?;
        match self.replace {
            true => self.work.replace(),
            false => self.work.publish(),
        }
        .map_err(made)?;
        Ok(self.work.sync_name().map_err(made).err().map(Into::into))
    }
}

impl Write for StreamFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use tdekit_sqlite_convert::DatabaseError;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn it_has_its_name_when_it_is_whole_only() {
        let make = |path, replace| StreamFile::create(path, replace).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = make(&path, false);
        file.write_all(b"first").unwrap();
        drop(file);
        assert!(names(dir.path()).is_empty());
        let mut file = make(&path, false);
        file.write_all(b"first").unwrap();
        assert!(!path.exists());
        assert!(file.publish().unwrap().is_none());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let refused = make(&path, false).publish();
        let occupied = DatabaseError::Occupied { path: path.clone(), reason: "" };
        assert_eq!(refused.unwrap_err().to_string(), occupied.to_string());
        let mut file = make(&path, true);
        file.write_all(b"second").unwrap();
        file.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(dir.path()), ["out"]);
    }
}
