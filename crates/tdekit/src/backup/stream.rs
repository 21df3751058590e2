//! Where a restored stream goes: to a file without a name until it is whole, or to standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use tdekit_key_crypto::random_bytes;
use tdekit_key_store::StoreError;

use crate::convert::error::{DatabaseError, io_error};
use crate::convert::target::{sync_directory, with_suffix};
use crate::error::CommandError;

/// A file on its way to its name. Dropped before [`StreamFile::publish`] it leaves nothing.
pub(crate) struct StreamFile {
    file: File,
    path: PathBuf,
    replace: bool,
    /// Its name for the moment, where the file system has no files without one.
    named: Option<PathBuf>,
}

impl StreamFile {
    /// A file that will be `path`, resolved.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(path: &Path, replace: bool) -> Result<Self, CommandError> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(unnamed) = openat(CWD, dir, flags, Mode::from_raw_mode(0o600)) {
            return Ok(Self { file: unnamed.into(), path: path.to_owned(), replace, named: None });
        }
        let named = passing_name(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&named)
            .map_err(io_error("create", &named))?;
        Ok(Self { file, path: path.to_owned(), replace, named: Some(named) })
    }

    /// Makes the file durable and gives it its name. Tells why that may not be on disk yet.
    ///
    /// # Errors
    /// `Occupied`, `Io`.
    pub(crate) fn publish(mut self) -> Result<Option<CommandError>, CommandError> {
        self.file.sync_all().map_err(io_error("sync", &self.path))?;
        if self.replace {
            let passing = match self.named.take() {
                Some(named) => named,
                None => {
                    let passing = passing_name(&self.path)?;
                    self.link(&passing).map_err(io_error("create", &passing))?;
                    passing
                }
            };
            if let Err(error) = fs::rename(&passing, &self.path) {
                let _ = fs::remove_file(&passing);
                return Err(io_error("rename", &self.path)(error));
            }
        } else {
            self.link(&self.path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    DatabaseError::Occupied { path: self.path.clone(), reason: "" }.into()
                }
                _ => io_error("create", &self.path)(error),
            })?;
        }
        Ok(sync_directory(&self.path).err())
    }

    /// Gives the file a name, which must be free.
    fn link(&self, name: &Path) -> io::Result<()> {
        match &self.named {
            Some(named) => fs::hard_link(named, name),
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                Ok(linkat(CWD, own, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
            }
        }
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

impl Drop for StreamFile {
    fn drop(&mut self) {
        if let Some(named) = &self.named {
            let _ = fs::remove_file(named);
        }
    }
}

fn passing_name(path: &Path) -> Result<PathBuf, StoreError> {
    let mut number = [0; 8];
    random_bytes(&mut number)?;
    Ok(with_suffix(path, format!(".{:016x}.tdekit-part", u64::from_le_bytes(number))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    fn named(path: &Path, replace: bool) -> StreamFile {
        let named = passing_name(path).unwrap();
        let file = File::create_new(&named).unwrap();
        StreamFile { file, path: path.to_owned(), replace, named: Some(named) }
    }

    #[test]
    fn it_has_its_name_when_it_is_whole_only() {
        type Make = fn(&Path, bool) -> StreamFile;
        let unnamed: Make = |path, replace| StreamFile::create(path, replace).unwrap();
        for make in [unnamed, named as Make] {
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
            assert!(make(&path, false).publish().is_err());
            let mut file = make(&path, true);
            file.write_all(b"second").unwrap();
            file.publish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"second");
            assert_eq!(names(dir.path()), ["out"]);
        }
    }
}
