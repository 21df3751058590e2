//! The file of logins, which a running endpoint reads again when it has changed, and which several
//! processes may change.

use std::fs::{DirBuilder, File, metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{FlockOperation, flock};

use crate::answer::lock;
use crate::error::EndpointError;
use crate::logins::Logins;
use crate::tls::remove_unfinished;

/// A file of logins.
#[derive(Debug)]
pub struct LoginFile {
    path: PathBuf,
    read: Mutex<Option<(Stamp, Arc<Logins>)>>,
}

/// Changes whenever a file is written: each write makes another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// None if there is no file.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let facts = metadata(path).ok()?;
        let modified = (facts.mtime(), facts.mtime_nsec());
        Some(Stamp { file: facts.ino(), modified })
    }
}

impl LoginFile {
    /// The file at `path`, which need not exist.
    #[must_use]
    pub fn new(path: PathBuf) -> LoginFile {
        LoginFile { path, read: Mutex::default() }
    }

    /// Returns the list as it is now.
    ///
    /// # Errors
    /// As [`Logins::open`].
    pub fn current(&self) -> Result<Arc<Logins>, EndpointError> {
        let now = Stamp::of(&self.path);
        let mut read = lock(&self.read);
        if let (Some(now), Some((then, logins))) = (now, read.as_ref())
            && now == *then
        {
            return Ok(logins.clone());
        }
        let logins = Arc::new(Logins::open(&self.path)?);
        *read = now.map(|now| (now, logins.clone()));
        Ok(logins)
    }

    /// Changes the list as it is now. No other process changes it meanwhile.
    ///
    /// # Errors
    /// Those of the change, and as [`Logins::open`].
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Logins) -> Result<T, EndpointError>,
    ) -> Result<T, EndpointError> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let failed = |source: io::Error| EndpointError::File {
            action: "lock",
            path: dir.to_owned(),
            source,
        };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let locked = File::open(dir).map_err(failed)?;
        flock(&locked, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        remove_unfinished(&self.path).map_err(failed)?;
        change(&mut Logins::open(&self.path)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_list_is_read_again_after_each_change_of_any_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve/logins.json");
        let file = LoginFile::new(path.clone());
        assert!(file.current().unwrap().names().is_empty());
        file.change(|logins| logins.add("sa", "correct horse", true)).unwrap();
        assert_eq!(file.current().unwrap().names(), ["sa"]);
        let other = LoginFile::new(path);
        for name in ["ann", "bob", "eve"] {
            other.change(|logins| logins.add(name, "battery staple", false)).unwrap();
            assert!(file.current().unwrap().named(name).is_some_and(|found| !found.sysadmin));
        }
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = LoginFile::new(dir.path().join("logins.json"));
        for name in ["logins.json.tmp", "logins.json.Ab3dEftmp", "tls-key.pem.Ab3dEftmp"] {
            fs::write(dir.path().join(name), "half").unwrap();
        }
        file.change(|logins| logins.add("sa", "correct horse", true)).unwrap();
        let left = fs::read_dir(dir.path()).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["logins.json", "tls-key.pem.Ab3dEftmp"]);
    }

    /// Reading a FIFO would wait for its writer for ever.
    #[test]
    fn what_is_not_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, fifo) = (dir.path().join("folder"), dir.path().join("fifo"));
        fs::create_dir(&folder).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        for path in [folder, fifo] {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let file = LoginFile::new(path);
            for refused in [
                file.current().map(drop),
                file.change(|logins| logins.add("sa", "correct horse", true)),
            ] {
                let EndpointError::File { source, .. } = refused.unwrap_err() else { panic!() };
                assert_eq!(source.to_string(), "it is not a file");
            }
        }
    }
}
