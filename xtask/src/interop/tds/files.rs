//! Checks of the raw files in the served directory.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Prefix of the files of the unencrypted database.
const PLAIN: &str = "plain.db";

/// Searches all files of `data` for `marker`, in UTF-8 and in UTF-16.
///
/// A running server removes a log when the last session of its database ends: if that happens
/// during the search, it restarts.
///
/// # Errors
/// When any other than the plain database's contains it, or that one does not: then the search does
/// not work.
pub(super) fn search(data: &Path, marker: &str) -> Result<()> {
    for _ in 0..20 {
        if let Some(found_in_plain) = search_once(data, marker)? {
            return if found_in_plain { Ok(()) } else { bail!("{PLAIN} does not show the marker") };
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("files of {} keep vanishing", data.display())
}

/// Returns true if the plain database's files contain the marker; `None` if a file was removed
/// during the search.
fn search_once(data: &Path, marker: &str) -> Result<Option<bool>> {
    let wide: Vec<u8> = marker.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut found_in_plain = false;
    for entry in std::fs::read_dir(data).with_context(|| format!("read {}", data.display()))? {
        let path = entry?.path();
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("read {}", path.display()))?,
        };
        let shows = contains(&bytes, marker.as_bytes()) || contains(&bytes, &wide);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PLAIN) {
            found_in_plain |= shows;
        } else if shows {
            bail!("{} shows the marker", path.display());
        }
    }
    Ok(Some(found_in_plain))
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_found_in_either_encoding() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes);
        assert!(search(dir.path(), "mark").is_err(), "nothing to search");
        write("plain.db-wal", b"xxmarkxx").unwrap();
        search(dir.path(), "mark").unwrap();
        write("app.db", b"m\0a\0r\0k").unwrap();
        search(dir.path(), "mark").unwrap();
        write("app.db-wal", b"m\0a\0r\0k\0").unwrap();
        assert!(search(dir.path(), "mark").is_err());
        write("app.db-wal", b"mark").unwrap();
        assert!(search(dir.path(), "mark").is_err());
    }

    #[test]
    fn what_is_removed_meanwhile_is_no_fault() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plain.db"), b"mark").unwrap();
        // A name whose file does not exist, as just after a removal; soon the name is gone as well.
        let log = dir.path().join("app.db-wal");
        std::os::unix::fs::symlink("gone", &log).unwrap();
        assert_eq!(search_once(dir.path(), "mark").unwrap(), None);
        let remover = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            std::fs::remove_file(log)
        });
        search(dir.path(), "mark").unwrap();
        remover.join().unwrap().unwrap();
    }
}
