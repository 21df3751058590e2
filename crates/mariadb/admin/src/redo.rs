//! The redo log's header, as far as it tells by which key the log is encrypted.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tdekit_mariadb::SYSTEM_KEY_ID;

/// Name of the log in the server's directory.
pub(crate) const FILE_NAME: &str = "ib_logfile0";

/// Where the header has the key's number and version (`LOG_HEADER_CREATOR_END` of the server).
const KEY_AT: usize = 48;

/// The version of key 1 under which a log is encrypted; `None` for one that is not, or cannot be
/// read here, such as another machine's.
pub(crate) fn key_version(path: &Path) -> Option<u32> {
    let mut header = [0; KEY_AT + 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let word = |at: usize| {
        header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
    };
    (word(KEY_AT)? == SYSTEM_KEY_ID).then(|| word(KEY_AT + 4)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_in_the_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        assert_eq!(key_version(&path), None);
        let mut header = vec![0; 512];
        for (bytes, version) in [([0; 8], None), ([0, 0, 0, 1, 0, 0, 1, 3], Some(259))] {
            header[48..56].copy_from_slice(&bytes);
            std::fs::write(&path, &header).unwrap();
            assert_eq!(key_version(&path), version);
        }
        std::fs::write(&path, &header[..55]).unwrap();
        assert_eq!(key_version(&path), None);
    }
}
