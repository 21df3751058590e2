//! The walk over a file: see [`Scan`].

use std::ops::Range;

use tdekit_key_crypto::sha256;

use super::{Gap, GapKind, MAX_RECORDS, Record, Scanned};
use crate::block::{BLOCK_HEADER_LEN, BlockHeader, BlockKind};
use crate::error::{MediaError, Part};
use crate::header::{HEADER_PREFIX_LEN, RecordHeader, RecordKind, header_len};
use crate::index::{INDEX_HEAD_LEN, Index};
use crate::media::{MEDIA_HEADER_LEN, MediaHeader};
use crate::trailer::{END_MAGIC, MAGIC, TRAILER_LEN, Trailer};

const START: u64 = MEDIA_HEADER_LEN as u64;
const TRAILER: u64 = TRAILER_LEN as u64;
/// Bytes per piece of a search for a trailer.
const SEARCH_LEN: u64 = 1024 * 1024;
/// Number of false trailers that end the search: each costs a piece.
const MAX_FALSE_FINDS: u32 = 64;

/// Walks over a file, which it requests piece by piece. It does no I/O:
///
/// ```text
/// let mut scan = Scan::new(file_len);
/// while let Some(range) = scan.wanted() { scan.feed(&read(range)?)?; }
/// let scanned = scan.finish()?;
/// ```
///
/// It goes backwards from trailer to trailer, which takes two pieces per record. If that does not
/// reach the media header, it goes forwards from there, from block header to block header, and
/// after unreadable bytes it searches for the next trailer. So damage hides only the record that it
/// is in, and an unfinished tail is distinguished from a record that was finished and then damaged.
#[derive(Debug)]
pub struct Scan {
    file_len: u64,
    header: Option<MediaHeader>,
    step: Step,
    /// Records found going backwards, the last record first.
    back: Vec<Record>,
    /// Records found going forwards.
    front: Vec<Record>,
    gaps: Vec<Gap>,
    /// Number of false trailers in searches.
    false_finds: u32,
    /// True if the end of the file looks like that of a finished record.
    finished_end: bool,
}

#[derive(Debug, Clone)]
enum Step {
    MediaHeader,
    /// Reads the trailer that ends there.
    BackTrailer {
        end: u64,
    },
    BackHeader {
        end: u64,
        bytes: Box<[u8; TRAILER_LEN]>,
        trailer: Trailer,
    },
    /// Reads the length of the header that begins there.
    Prefix {
        start: u64,
    },
    Header {
        start: u64,
        len: u64,
    },
    Block {
        record: Walked,
        at: u64,
    },
    IndexHead {
        record: Walked,
        at: u64,
    },
    Trailer {
        record: Walked,
        at: u64,
    },
    /// Searches for a trailer from `at` on; the unreadable bytes began at `from`.
    Search {
        from: u64,
        at: u64,
    },
    /// Reads the header of a trailer that a search found.
    Found {
        from: u64,
        end: u64,
        bytes: Box<[u8; TRAILER_LEN]>,
        trailer: Trailer,
    },
    Done,
}

/// A record on the way forwards, after its header.
#[derive(Debug, Clone)]
struct Walked {
    start: u64,
    header_bytes: Vec<u8>,
    blocks: u64,
}

impl Scan {
    /// Starts a walk over a file of this length.
    #[must_use]
    pub fn new(file_len: u64) -> Self {
        Self {
            file_len,
            header: None,
            step: Step::MediaHeader,
            back: Vec::new(),
            front: Vec::new(),
            gaps: Vec::new(),
            false_finds: 0,
            finished_end: false,
        }
    }

    /// Returns the range needed next, at least one byte and at most 1 MiB, within the file; `None`
    /// when it is done.
    #[must_use]
    pub fn wanted(&self) -> Option<Range<u64>> {
        let range = match &self.step {
            Step::MediaHeader => 0..START.min(self.file_len),
            Step::BackTrailer { end } => end.saturating_sub(TRAILER)..*end,
            Step::BackHeader { end, trailer, .. } | Step::Found { end, trailer, .. } => {
                let start = end.saturating_sub(trailer.record_len);
                start..start + u64::from(trailer.header_len)
            }
            Step::Prefix { start } => *start..start + HEADER_PREFIX_LEN as u64,
            Step::Header { start, len } => *start..start + len,
            Step::Block { at, .. } => *at..at + BLOCK_HEADER_LEN as u64,
            Step::IndexHead { at, .. } => *at..at + INDEX_HEAD_LEN as u64,
            Step::Trailer { at, .. } => *at..at + TRAILER,
            Step::Search { at, .. } => *at..(at + SEARCH_LEN).min(self.limit()),
            Step::Done => return None,
        };
        Some(range)
    }

    /// Takes the bytes that [`Self::wanted`] requested.
    ///
    /// # Errors
    /// Those of [`MediaHeader::decode`], without which nothing can be read;
    /// [`MediaError::Truncated`] for a wrong number of bytes; [`MediaError::Limit`] for too many
    /// records. Later faults are not errors here: they are in [`Scanned`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        let Some(wanted) = self.wanted() else { return Ok(()) };
        let needed = wanted.end.saturating_sub(wanted.start);
        if bytes.len() as u64 != needed {
            let (part, available) = (Part::RecordHeader, bytes.len() as u64);
            return Err(MediaError::Truncated { part, needed, available });
        }
        let records = (self.back.len() + self.front.len()) as u64;
        MediaError::check_limit(Part::RecordHeader, "records", records, MAX_RECORDS as u64)?;
        let step = std::mem::replace(&mut self.step, Step::Done);
        self.step = match step {
            Step::MediaHeader => {
                self.header = Some(MediaHeader::decode(bytes)?);
                self.go_back(self.file_len)
            }
            Step::BackTrailer { end } => self.back_trailer(end, bytes),
            Step::BackHeader { end, bytes: trailer_bytes, trailer } => {
                self.back_header(end, *trailer_bytes, trailer, bytes)
            }
            Step::Prefix { start } => match header_len(bytes) {
                Ok(len) => {
                    self.if_inside(start, start, len as u64, |len| Step::Header { start, len })
                }
                Err(_) => self.search(start, start),
            },
            Step::Header { start, .. } => self.forward_header(start, bytes),
            Step::Block { record, at } => self.forward_block(record, at, bytes),
            Step::IndexHead { record, at } => self.forward_index(record, at, bytes),
            Step::Trailer { record, at } => self.forward_trailer(record, at, bytes),
            Step::Search { from, at } => self.search_in(from, at, bytes),
            Step::Found { from, end, bytes: trailer_bytes, trailer } => {
                self.found(from, end, *trailer_bytes, trailer, bytes)
            }
            Step::Done => Step::Done,
        };
        Ok(())
    }

    /// Returns the result.
    ///
    /// # Errors
    /// [`MediaError::Truncated`] if it was not done.
    pub fn finish(self) -> Result<Scanned, MediaError> {
        let not_done =
            MediaError::Truncated { part: Part::MediaHeader, needed: self.file_len, available: 0 };
        let (Some(header), Step::Done) = (self.header, self.step) else { return Err(not_done) };
        let header_digest = header.digest()?;
        let mut records = self.front;
        records.extend(self.back.into_iter().rev());
        Ok(Scanned { header, header_digest, records, gaps: self.gaps })
    }

    /// Returns the end of the way forwards: the first record that was found from the end.
    fn limit(&self) -> u64 {
        self.back.last().map_or(self.file_len, |record| record.start)
    }

    /// Looks for the trailer that ends at `end`.
    fn go_back(&self, end: u64) -> Step {
        if end == START {
            return Step::Done;
        }
        if end < START + TRAILER {
            return self.go_forward(START);
        }
        Step::BackTrailer { end }
    }

    fn back_trailer(&mut self, end: u64, bytes: &[u8]) -> Step {
        if end == self.file_len {
            self.finished_end = looks_finished(bytes);
        }
        match read_trailer(bytes) {
            Some((bytes, trailer)) if self.precedes(end, &trailer) => {
                Step::BackHeader { end, bytes, trailer }
            }
            _ => self.go_forward(START),
        }
    }

    /// Returns true if a trailer that ends at `end` can belong to the record before those found so
    /// far.
    fn precedes(&self, end: u64, trailer: &Trailer) -> bool {
        let in_order = match self.back.last() {
            Some(later) => trailer.ordinal.checked_add(1) == Some(later.trailer.ordinal),
            None => true,
        };
        in_order && end.checked_sub(trailer.record_len).is_some_and(|start| start >= START)
    }

    fn back_header(
        &mut self,
        end: u64,
        trailer_bytes: [u8; TRAILER_LEN],
        trailer: Trailer,
        header_bytes: &[u8],
    ) -> Step {
        let start = end.saturating_sub(trailer.record_len);
        let record = record(start, trailer_bytes, trailer, header_bytes);
        if !self.is_of_this_media(&record) {
            return self.go_forward(START);
        }
        self.back.push(record);
        self.go_back(start)
    }

    /// Returns true if a record whose header can be read names this media set: one that is inside a
    /// block's payload names another.
    fn is_of_this_media(&self, record: &Record) -> bool {
        let media_id = self.header.as_ref().map(|header| header.media_id);
        match &record.header {
            Ok(header) => Some(header.place.media_id) == media_id,
            Err(_) => true,
        }
    }

    /// Looks for the record that begins at `start`.
    fn go_forward(&self, start: u64) -> Step {
        if start == self.limit() {
            return Step::Done;
        }
        let next = |_| Step::Prefix { start };
        self.if_inside(start, start, HEADER_PREFIX_LEN as u64, next)
    }

    /// Returns `next(len)` if `len` bytes from `at` on are inside, otherwise a search from there.
    fn if_inside(&self, from: u64, at: u64, len: u64, next: impl FnOnce(u64) -> Step) -> Step {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.limit());
        if inside { next(len) } else { self.search_from(from, at) }
    }

    fn forward_header(&mut self, start: u64, bytes: &[u8]) -> Step {
        let at = start + bytes.len() as u64;
        let walked = Walked { start, header_bytes: bytes.to_vec(), blocks: 0 };
        let kind = match RecordHeader::decode(bytes) {
            Ok(header) => header.kind(),
            // Records of a newer program can be walked over.
            Err(MediaError::UnknownAlgorithm { .. } | MediaError::UnknownCompression { .. }) => {
                RecordKind::Set
            }
            Err(_) => return self.search(start, start),
        };
        if kind == RecordKind::Set {
            return self.block_at(walked, at);
        }
        self.if_inside(start, at, TRAILER, |_| Step::Trailer { record: walked, at })
    }

    fn block_at(&self, record: Walked, at: u64) -> Step {
        let from = record.start;
        self.if_inside(from, at, BLOCK_HEADER_LEN as u64, |_| Step::Block { record, at })
    }

    fn forward_block(&mut self, mut record: Walked, at: u64, bytes: &[u8]) -> Step {
        let header = bytes.first_chunk().map(BlockHeader::decode);
        let Some(Ok(header)) = header
            .filter(|header| header.as_ref().is_ok_and(|header| header.index == record.blocks))
        else {
            return self.search(record.start, at);
        };
        let next = at.saturating_add(header.block_len());
        record.blocks += 1;
        if header.kind != BlockKind::Metadata {
            return self.block_at(record, next);
        }
        let head = INDEX_HEAD_LEN as u64;
        self.if_inside(record.start, next, head, |_| Step::IndexHead { record, at: next })
    }

    fn forward_index(&mut self, record: Walked, at: u64, bytes: &[u8]) -> Step {
        let count = u32::try_from(record.blocks).unwrap_or(u32::MAX);
        if bytes != [crate::index::MAGIC, count.to_le_bytes()].as_flattened() {
            return self.search(record.start, at);
        }
        let next = at.saturating_add(Index::encoded_len(record.blocks));
        self.if_inside(record.start, next, TRAILER, |_| Step::Trailer { record, at: next })
    }

    fn forward_trailer(&mut self, walked: Walked, at: u64, bytes: &[u8]) -> Step {
        let end = at + TRAILER;
        let read = read_trailer(bytes)
            .filter(|(_, trailer)| end.checked_sub(trailer.record_len) == Some(walked.start));
        let Some((trailer_bytes, trailer)) = read else {
            return self.search(walked.start, at);
        };
        let record = record(walked.start, *trailer_bytes, trailer, &walked.header_bytes);
        if !self.is_of_this_media(&record) {
            return self.search(walked.start, at);
        }
        self.front.push(record);
        self.go_forward(end)
    }

    fn search(&mut self, from: u64, at: u64) -> Step {
        self.search_from(from, at)
    }

    /// Searches for a trailer from `at` on, after unreadable bytes that began at `from`.
    fn search_from(&self, from: u64, at: u64) -> Step {
        // The search itself ends where no trailer fits: `search_in` reports that none was found.
        Step::Search { from, at: at.min(self.limit().saturating_sub(1)) }
    }

    fn search_in(&mut self, from: u64, at: u64, bytes: &[u8]) -> Step {
        let last = self.front.last().map_or(0, |record| record.trailer.ordinal);
        for (offset, window) in bytes.windows(TRAILER_LEN).enumerate() {
            if !window.starts_with(&MAGIC) {
                continue;
            }
            let Some((trailer_bytes, trailer)) = read_trailer(window) else { continue };
            let end = at + offset as u64 + TRAILER;
            let start = end.checked_sub(trailer.record_len);
            let ours = trailer.ordinal > last && self.false_finds < MAX_FALSE_FINDS;
            if ours && start.is_some_and(|start| start >= from) {
                return Step::Found { from, end, bytes: trailer_bytes, trailer };
            }
        }
        let end = at + bytes.len() as u64;
        if end < self.limit() {
            return Step::Search { from, at: end.saturating_sub(TRAILER - 1).max(at + 1) };
        }
        let kind = match self.back.is_empty() && !self.finished_end {
            true => GapKind::UnfinishedTail,
            false => GapKind::Damaged,
        };
        self.gaps.push(Gap { range: from..self.limit(), kind });
        Step::Done
    }

    fn found(
        &mut self,
        from: u64,
        end: u64,
        trailer_bytes: [u8; TRAILER_LEN],
        trailer: Trailer,
        header_bytes: &[u8],
    ) -> Step {
        let start = end.saturating_sub(trailer.record_len);
        let record = record(start, trailer_bytes, trailer, header_bytes);
        // Without a header, only the expected place distinguishes a record from a payload.
        let real = self.is_of_this_media(&record) && (record.header.is_ok() || start == from);
        if !real {
            self.false_finds += 1;
            return self.search_from(from, end - TRAILER + 1);
        }
        if start > from {
            self.gaps.push(Gap { range: from..start, kind: GapKind::Damaged });
        }
        self.front.push(record);
        self.go_forward(end)
    }
}

fn read_trailer(bytes: &[u8]) -> Option<(Box<[u8; TRAILER_LEN]>, Trailer)> {
    let bytes: &[u8; TRAILER_LEN] = bytes.try_into().ok()?;
    let trailer = Trailer::decode(bytes).ok()?;
    Some((Box::new(*bytes), trailer))
}

/// Returns true if the last bytes of a file are those of a finished record whose trailer is
/// damaged. A trailer that was torn while it was written lacks its beginning or its end, and has
/// zeros there.
fn looks_finished(last: &[u8]) -> bool {
    let (begin, end) = (last.first_chunk::<8>(), last.last_chunk::<8>());
    let torn = begin == Some(&[0; 8]) || end == Some(&[0; 8]);
    (begin == Some(&MAGIC) || end == Some(&END_MAGIC)) && !torn
}

/// Makes a record; its header is read only if it is the one that the trailer names.
fn record(
    start: u64,
    trailer_bytes: [u8; TRAILER_LEN],
    trailer: Trailer,
    header_bytes: &[u8],
) -> Record {
    const PART: Part = Part::RecordHeader;
    let mut header_bytes = header_bytes.to_vec();
    let header = if sha256(&[&header_bytes]) == trailer.header_sha256 {
        RecordHeader::decode(&header_bytes).and_then(|header| {
            if (header.kind(), header.place.ordinal) == (trailer.kind, trailer.ordinal) {
                return Ok(header);
            }
            Err(MediaError::Disagreement { what: "header and trailer of a record" })
        })
    } else {
        header_bytes.clear();
        Err(MediaError::damaged(PART, "its digest is not the trailer's"))
    };
    Record { start, trailer, trailer_bytes, header, header_bytes }
}
