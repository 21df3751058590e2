//! Finding the records of a file: backwards from its end, and forwards where that fails.

mod walk;

pub use walk::Scan;

use std::ops::Range;

use crate::Digest;
use crate::error::MediaError;
use crate::header::RecordHeader;
use crate::media::{MEDIA_HEADER_LEN, MediaHeader};
use crate::trailer::{TRAILER_LEN, Trailer};

/// Maximum number of records in one file.
pub const MAX_RECORDS: usize = 65_536;

/// A whole record in a file.
#[derive(Debug)]
pub struct Record {
    /// Its offset in the file; it is [`Trailer::record_len`] bytes long.
    pub start: u64,
    /// Its trailer.
    pub trailer: Trailer,
    /// The trailer's bytes, whose MAC [`crate::SetKeys::check_trailer`] checks.
    pub trailer_bytes: [u8; TRAILER_LEN],
    /// Its header, or the reason why that cannot be read.
    pub header: Result<RecordHeader, MediaError>,
    /// The header's bytes, from which [`crate::SetKeys::of_set`] derives the keys. Empty if they
    /// are not those that the trailer names.
    pub header_bytes: Vec<u8>,
}

impl Record {
    /// Returns its end in the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.trailer.record_len)
    }

    /// Returns the SHA-256 of its trailer.
    #[must_use]
    pub fn digest(&self) -> Digest {
        crate::trailer::trailer_digest(&self.trailer_bytes)
    }
}

/// Bytes of a file that are not a whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The range of the bytes.
    pub range: Range<u64>,
    /// The kind of these bytes.
    pub kind: GapKind,
}

/// The kinds of bytes outside whole records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// A record that was never finished, at the file's end. It was never published: the next append
    /// cuts it off.
    UnfinishedTail,
    /// A record that was finished but is so damaged that its place in the chain is lost. Nothing
    /// may be cut off or appended.
    Damaged,
}

/// The records of one file.
#[derive(Debug)]
pub struct Scanned {
    /// The media header.
    pub header: MediaHeader,
    /// SHA-256 of the media header's bytes.
    pub header_digest: Digest,
    /// Whole records, in order.
    pub records: Vec<Record>,
    /// The bytes between or after them, in order; empty in a sound file.
    pub gaps: Vec<Gap>,
}

impl Scanned {
    /// Returns the offset of the next record: after the last whole one. `None` if damage forbids
    /// appending.
    #[must_use]
    pub fn append_at(&self) -> Option<u64> {
        if self.gaps.iter().any(|gap| gap.kind == GapKind::Damaged) {
            return None;
        }
        Some(self.records.last().map_or(MEDIA_HEADER_LEN as u64, Record::end))
    }

    /// Returns the digest that the next record names as `previous`, and its ordinal.
    #[must_use]
    pub fn next_link(&self) -> (Digest, u32) {
        match self.records.last() {
            Some(last) => (last.digest(), last.trailer.ordinal.saturating_add(1)),
            None => (self.header_digest, 1),
        }
    }

    /// Checks that each record follows the previous one: its ordinal, and the digest that it names.
    /// After a gap there is nothing to compare with. A file cannot show that its last record is
    /// missing.
    ///
    /// # Errors
    /// [`MediaError::Chain`].
    pub fn check_chain(&self) -> Result<(), MediaError> {
        let first_part = self.header.part == 0;
        let mut before = first_part.then_some((MEDIA_HEADER_LEN as u64, 0, self.header_digest));
        for record in &self.records {
            let ordinal = record.trailer.ordinal;
            if let (Some((end, last, digest)), Ok(header)) = (before, &record.header)
                && end == record.start
                && (ordinal.checked_sub(1) != Some(last) || header.place.previous != digest)
            {
                return Err(MediaError::Chain { ordinal });
            }
            before = Some((record.end(), ordinal, record.digest()));
        }
        Ok(())
    }
}
