//! The pages that a write-ahead log may have (<https://www.sqlite.org/walformat.html>).

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tdekit_key_store::open_ordinary;

const HEADER_LEN: usize = 32;
const FRAME_HEADER_LEN: u64 = 24;
/// The magic number without its last bit, which is the byte order of checksums.
const MAGIC: u32 = 0x377F_0682;
/// Maximum number of frames that are listed: otherwise the list would take too much memory.
const MAX_FRAMES: u64 = 4 << 20;

/// Returns the page numbers of all frames that are present in the log, including old ones, in order
/// and without duplicates: those of the snapshot, and perhaps others. `None` if they cannot be
/// determined.
///
/// The caller holds a read transaction, so that frames of its snapshot do not change.
pub(super) fn page_numbers(wal: &Path, page_size: u32) -> io::Result<Option<Vec<u32>>> {
    let file = match open_ordinary(wal) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Vec::new())),
        Err(error) => return Err(error),
    };
    let len = file.metadata()?.len();
    if len == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut header = [0; HEADER_LEN];
    if let Err(error) = file.read_exact_at(&mut header, 0) {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
    }
    let field = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        bytes.copied().map_or(0, u32::from_be_bytes)
    };
    let frame_len = FRAME_HEADER_LEN + u64::from(page_size);
    let frames = len.saturating_sub(HEADER_LEN as u64).div_ceil(frame_len);
    if field(0) & !1 != MAGIC || field(8) != page_size || frames > MAX_FRAMES {
        return Ok(None);
    }
    let mut numbers = Vec::new();
    for frame in 0..frames {
        let mut number = [0; 4];
        match file.read_exact_at(&mut number, HEADER_LEN as u64 + frame * frame_len) {
            Ok(()) => numbers.push(u32::from_be_bytes(number)),
            // A frame that is being written now does not belong to the snapshot.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Some(numbers))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn pages_that_were_written_are_in_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let wal = dir.path().join("a.db-wal");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE t(x); INSERT INTO t VALUES(1);",
        )
        .unwrap();
        assert_eq!(page_numbers(&wal, 1024).unwrap().unwrap(), [1, 2]);
        assert_eq!(page_numbers(&wal, 4096).unwrap(), None);
        assert!(page_numbers(&dir.path().join("none"), 1024).unwrap().unwrap().is_empty());
        std::fs::write(dir.path().join("bad"), [7; 100]).unwrap();
        assert_eq!(page_numbers(&dir.path().join("bad"), 1024).unwrap(), None);
    }
}
