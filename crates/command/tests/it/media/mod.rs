//! The records of a media set, for tests that parse it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::ops::Range;

use tdekit_backup_media::{Scan, Scanned};

/// Scans the bytes of a media file.
pub fn scan(bytes: &[u8]) -> Scanned {
    let mut scan = Scan::new(bytes.len() as u64);
    while let Some(range) = scan.wanted() {
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        scan.feed(&bytes[range]).unwrap();
    }
    scan.finish().unwrap()
}

/// Returns the range of each record.
pub fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let place = |at: u64| usize::try_from(at).unwrap();
    scan(bytes).records.iter().map(|it| place(it.start)..place(it.end())).collect()
}
