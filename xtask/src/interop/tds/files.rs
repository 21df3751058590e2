//! What the raw files of the served directory show.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// The files of the database that is not encrypted begin so.
const PLAIN: &str = "plain.db";

/// Searches all files of `data` for `marker`, in UTF-8 and in UTF-16.
///
/// # Errors
/// When one but the plain database's shows it, or that one does not: then the search is no good.
pub(super) fn search(data: &Path, marker: &str) -> Result<()> {
    let wide: Vec<u8> = marker.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut found_in_plain = false;
    for entry in std::fs::read_dir(data).with_context(|| format!("read {}", data.display()))? {
        let path = entry?.path();
        let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let shows = contains(&bytes, marker.as_bytes()) || contains(&bytes, &wide);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PLAIN) {
            found_in_plain |= shows;
        } else if shows {
            bail!("{} shows the marker", path.display());
        }
    }
    if found_in_plain { Ok(()) } else { bail!("{PLAIN} does not show the marker") }
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
}
