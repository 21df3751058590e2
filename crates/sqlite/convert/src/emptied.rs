//! A database whose file was emptied while its log has frames. SQLite removes the log of an empty
//! file when it looks at the file first, and the log may hold the only copy of commits.

use std::fs;
use std::path::Path;

use tdekit_sqlite_page::HEADER_AREA_LEN;
use tdekit_sqlite_page::wal::WAL_HEADER_AREA_LEN;

use crate::error::DatabaseError;
use crate::inspect::FileKind;
use crate::target::with_suffix;

/// Length of the header of a plain database's log.
const LOG_HEADER_LEN: u64 = 32;

/// Fails if the file at `path`, of this kind, has no page, and its log has frames. It opens
/// nothing: no lock of the process is dropped.
///
/// # Errors
/// `Emptied`.
pub fn refuse_emptied(path: &Path, kind: FileKind) -> Result<(), DatabaseError> {
    let (area, header) = match kind {
        FileKind::Encrypted => (HEADER_AREA_LEN, WAL_HEADER_AREA_LEN as u64),
        FileKind::Plain | FileKind::Empty | FileKind::Other => (0, LOG_HEADER_LEN),
    };
    let log = with_suffix(path, "-wal");
    let len = fs::metadata(path).map_or(u64::MAX, |file| file.len());
    match len <= area && fs::metadata(&log).is_ok_and(|log| log.is_file() && log.len() > header) {
        true => Err(DatabaseError::Emptied { path: path.to_owned(), log }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_without_a_page_beside_a_log_with_frames_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let area = usize::try_from(HEADER_AREA_LEN).unwrap();
        let lens = [
            (FileKind::Empty, 0, 33, true),
            (FileKind::Empty, 0, 32, false),
            (FileKind::Plain, 1, 33, false),
            (FileKind::Plain, 0, 33, true),
            (FileKind::Encrypted, area, WAL_HEADER_AREA_LEN + 1, true),
            (FileKind::Encrypted, area, WAL_HEADER_AREA_LEN, false),
            (FileKind::Encrypted, area + 1, WAL_HEADER_AREA_LEN + 1, false),
        ];
        for (kind, len, log, is_refused) in lens {
            fs::write(&path, vec![0; len]).unwrap();
            fs::write(with_suffix(&path, "-wal"), vec![0; log]).unwrap();
            let refused = refuse_emptied(&path, kind);
            let found = matches!(refused, Err(DatabaseError::Emptied { .. }));
            assert_eq!(found, is_refused, "{kind:?} {len} {log}");
        }
        fs::remove_file(with_suffix(&path, "-wal")).unwrap();
        fs::write(&path, "").unwrap();
        refuse_emptied(&path, FileKind::Empty).unwrap();
    }
}
