//! The check of the mark in a data directory, which names the server keys that encrypt its files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tdekit_key_store::{MARK_FILE, read_mark, write_mark};

use crate::{PluginError, report};

/// InnoDB's first file, without which a directory has no data.
const SYSTEM_FILE: &str = "ibdata1";

/// The server keys that encrypt a data directory.
pub(crate) struct Mark {
    /// A server's working directory is its data directory.
    directory: PathBuf,
    file_id: [u8; 16],
    /// True if the mark exists, or must not be written.
    settled: AtomicBool,
}

impl Mark {
    /// Compares the mark of a data directory, if there is one, with the server keys in use.
    ///
    /// # Errors
    /// [`PluginError::OtherKeys`].
    pub(crate) fn check(directory: &Path, file_id: [u8; 16]) -> Result<Self, PluginError> {
        let mark = |settled| Self {
            directory: directory.to_owned(),
            file_id,
            settled: AtomicBool::new(settled),
        };
        match read_mark(directory) {
            Ok(None) => Ok(mark(false)),
            Ok(Some(found)) if found == file_id => Ok(mark(true)),
            Ok(Some(found)) => {
                let path = directory.join(MARK_FILE);
                let path = std::path::absolute(&path).unwrap_or(path);
                let (found, ours) = (hex::encode(found), hex::encode(file_id));
                Err(PluginError::OtherKeys { path, found, ours })
            }
            Err(error) => {
                report::warning(format_args!("the mark of the data's keys is not used: {error}"));
                Ok(mark(true))
            }
        }
    }

    /// Writes the mark if it is missing. Called when a page of the data was opened, which proves
    /// that the keys belong to this data; and when a record of the redo log is written, which the
    /// data cannot be recovered without. A server reads an encrypted log before it writes to it, so
    /// other keys do not come as far.
    #[inline]
    pub(crate) fn prove(&self) {
        if !self.settled.load(Ordering::Relaxed) {
            self.write();
        }
    }

    #[cold]
    fn write(&self) {
        if self.settled.swap(true, Ordering::Relaxed) || !self.directory.join(SYSTEM_FILE).exists()
        {
            return;
        }
        if let Err(error) = write_mark(&self.directory, &self.file_id) {
            report::warning(format_args!("the mark of the data's keys is not written: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_other_keys_is_refused_and_a_mark_is_written_for_proven_keys_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(MARK_FILE);
        let mark = Mark::check(dir.path(), [7; 16]).unwrap();
        mark.prove();
        assert!(!path.exists(), "a directory without data gets no mark");
        std::fs::write(dir.path().join(SYSTEM_FILE), "data").unwrap();
        let mark = Mark::check(dir.path(), [7; 16]).unwrap();
        assert!(!path.exists());
        mark.prove();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("tdekit server keys {}\n", "07".repeat(16)));
        Mark::check(dir.path(), [7; 16]).unwrap();
        let told = Mark::check(dir.path(), [8; 16]).err().unwrap().to_string();
        for part in ["tdekit-keys", &"07".repeat(16), &"08".repeat(16)] {
            assert!(told.contains(part), "{told}");
        }
        // An unreadable mark stops no server, and is not replaced.
        for damaged in ["", "tdekit server keys 07\n", &"x".repeat(1000)] {
            std::fs::write(&path, damaged).unwrap();
            Mark::check(dir.path(), [7; 16]).unwrap().prove();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
