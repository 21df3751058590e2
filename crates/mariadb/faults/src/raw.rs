//! Raw files of a server, as a thief of the disk would see them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Every file below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the files below `directory` that contain `marker`, by name.
pub fn holding(directory: &Path, marker: &str) -> Vec<String> {
    files(directory)
        .into_iter()
        .filter(|path| std::fs::read(path).is_ok_and(|bytes| contains(&bytes, marker)))
        .map(|path| path.strip_prefix(directory).unwrap_or(&path).display().to_string())
        .collect()
}

/// Returns the open files of a process that no longer have a name, such as temporary files: sizes,
/// and whether each contains `marker`.
pub fn nameless(pid: u32, marker: &str) -> Vec<(u64, bool)> {
    let handles = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    handles
        .filter_map(|handle| {
            let path = handle.path();
            let state = std::fs::metadata(&path).ok().filter(|state| state.is_file())?;
            let gone = state.nlink() == 0 && state.size() > 0;
            let bytes = gone.then(|| std::fs::read(&path).ok())??;
            Some((state.size(), contains(&bytes, marker)))
        })
        .collect()
}

/// Returns true if `bytes` contain `marker`, with one byte per character or two.
fn contains(bytes: &[u8], marker: &str) -> bool {
    let wide: Vec<u8> = marker.bytes().flat_map(|byte| [0, byte]).collect();
    let has = |needle: &[u8]| {
        let first = needle[0];
        bytes.iter().enumerate().any(|(at, byte)| *byte == first && bytes[at..].starts_with(needle))
    };
    has(marker.as_bytes()) || has(&wide[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_in_files_and_in_files_without_a_name() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        std::fs::write(directory.path().join("sub/a"), "xxMARKERyy").unwrap();
        std::fs::write(directory.path().join("b"), "nothing").unwrap();
        assert_eq!(holding(directory.path(), "MARKER"), ["sub/a"]);
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"aMARKERb").unwrap();
        let found = nameless(std::process::id(), "MARKER");
        assert!(found.contains(&(8, true)), "{found:?}");
    }
}
