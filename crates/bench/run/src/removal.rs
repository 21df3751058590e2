//! Removal of the directories of a run: plain databases go first.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

/// Begin of a plain database.
pub(crate) const PLAIN: &[u8] = b"SQLite format 3\0";
/// Tries to remove a directory in which a command that was killed may still create files.
const TRIES: u32 = 50;

/// Removes a directory with its contents, plain databases first; names it if it cannot.
pub(crate) fn remove_or_name(path: &Path) {
    let is_gone =
        || path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if is_gone() {
        return;
    }
    remove_plain(path);
    let mut failure = None;
    for _ in 0..TRIES {
        failure = std::fs::remove_dir_all(path).err();
        if is_gone() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let reason = failure.map_or_else(|| "it is in use".to_owned(), |error| error.to_string());
    eprintln!("error: cannot remove {}, which may hold plain copies: {reason}", path.display());
}

/// Removes the plain databases below a directory, and all logs and journals, as far as it can.
fn remove_plain(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_log = || {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.ends_with("-wal") || name.ends_with("-journal")
        };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => remove_plain(&path),
            Ok(kind) if kind.is_file() && (is_log() || begins_plain(&path).unwrap_or(false)) => {
                // A file that stays is removed with the directory, or named there.
                let _later = std::fs::remove_file(&path);
            }
            _ => {}
        }
    }
}

/// Returns true for a file that begins as a plain database.
pub(crate) fn begins_plain(path: &Path) -> std::io::Result<bool> {
    let mut begin = [0; PLAIN.len()];
    File::open(path)?.read_exact(&mut begin)?;
    Ok(begin == PLAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_databases_and_their_logs_go_first() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("plain")).unwrap();
        std::fs::write(parent.path().join("plain/subject.db"), PLAIN).unwrap();
        let [log, sealed] = ["a.db-wal", "plain/sealed.db"].map(|name| parent.path().join(name));
        std::fs::write(&log, "log").unwrap();
        std::fs::write(&sealed, "sealed: not a plain database").unwrap();
        remove_plain(parent.path());
        assert!(!parent.path().join("plain/subject.db").exists() && !log.exists());
        assert!(sealed.exists());
    }
}
