//! Headers that SQLite skips when it commits.
//!
//! Once SQLite has overwritten a frame of its transaction, it omits salts and checksums from the
//! frames that follow, and writes all headers from the overwritten one on when it commits
//! (`walRewriteChecksums`). Before 3.50.2 it does not notice that a savepoint rolled that frame
//! back, and starts there all the same: new frames before that place are committed without
//! checksums, and recovery drops them and everything that was committed later. SQLite's first read
//! shows where it will start. So the headers before that are written here, and SQLite continues
//! from their checksum.

use tdekit_sqlite_page::wal::{FrameHeader, SQLITE_FRAME_HEADER_LEN, SQLITE_WAL_HEADER_LEN};
use tdekit_sqlite_page::{PageError, PageSize};

use super::WalFile;
use crate::VfsError;

/// Offset of the checksum in the header of a frame, and of a log: two words, big-endian.
const CHECKSUM_AT: usize = 16;
const LOG_CHECKSUM_AT: usize = 24;
const CHECKSUM_LEN: usize = 8;

/// A checksum of SQLite's log, in the byte order that the log's header specifies.
#[derive(Clone, Copy)]
struct Checksum {
    sums: [u32; 2],
    word: fn([u8; 4]) -> u32,
}

impl Checksum {
    /// Returns the checksum at the beginning of the log.
    fn of_log(header: &[u8; SQLITE_WAL_HEADER_LEN]) -> Self {
        let is_big_endian = header[3] & 1 == 1;
        let word = if is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        Self { sums: [0; 2], word }.at(&header[LOG_CHECKSUM_AT..])
    }

    /// Returns the checksum at the beginning of `stored`.
    fn at(self, stored: &[u8]) -> Self {
        let (words, _) = stored.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |&word| u32::from_be_bytes(word));
        Self { sums: [word(0), word(1)], ..self }
    }

    fn add(&mut self, bytes: &[u8]) {
        let [one, two] = &mut self.sums;
        for pair in bytes.as_chunks::<4>().0.as_chunks::<2>().0 {
            *one = one.wrapping_add((self.word)(pair[0])).wrapping_add(*two);
            *two = two.wrapping_add((self.word)(pair[1])).wrapping_add(*one);
        }
    }

    fn store(self, out: &mut [u8]) {
        for (out, sum) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.sums) {
            *out = sum.to_be_bytes();
        }
    }
}

impl WalFile {
    /// Returns true if SQLite reads the checksum of a frame in order to rewrite the following
    /// headers, in the transaction that it is about to commit. Then fills `out`, after all earlier
    /// headers are in place.
    pub(super) fn answer_checksum(
        &mut self,
        frame: u32,
        within: usize,
        size: PageSize,
        out: &mut [u8],
    ) -> Result<bool, VfsError> {
        let transaction = self.shared.write_transactions.get();
        let committing = self.committing.filter(|(of, _)| *of == transaction);
        let (Some((_, last)), CHECKSUM_AT, CHECKSUM_LEN) = (committing, within, out.len()) else {
            return Ok(false);
        };
        // The frame may be one that was rolled back, after all committed ones.
        let end = frame.min(last);
        let mut first = end.saturating_add(1);
        let mut before = None;
        while let Some(at) = first.checked_sub(1) {
            let header = self.running_header(at, size)?;
            if !header.is_provisional() || !self.is_of_transaction(at) {
                before = Some(header.sqlite);
                break;
            }
            first = at;
        }
        if let (Some(header), true) = (before, first > end) {
            out.copy_from_slice(&header[CHECKSUM_AT..]);
            return Ok(true);
        }
        let mut log = [0; SQLITE_WAL_HEADER_LEN];
        self.read_header(&mut log, 0)?;
        let mut checksum = Checksum::of_log(&log);
        if let Some(header) = before {
            checksum = checksum.at(&header[CHECKSUM_AT..]);
        }
        for skipped in first..=end {
            self.write_skipped(skipped, &log, &mut checksum, size)?;
        }
        checksum.store(out);
        Ok(true)
    }

    /// Writes the header of frame `frame`, which follows `checksum`, and updates the checksum.
    fn write_skipped(
        &mut self,
        frame: u32,
        log: &[u8; SQLITE_WAL_HEADER_LEN],
        checksum: &mut Checksum,
        size: PageSize,
    ) -> Result<(), VfsError> {
        let mut whole = std::mem::take(&mut self.plain);
        whole.resize(SQLITE_FRAME_HEADER_LEN + size.len(), 0);
        let read = self.read_of_transaction(frame, size, &mut whole);
        let mut header = [0; SQLITE_FRAME_HEADER_LEN];
        header[..8].copy_from_slice(&whole[..8]);
        header[8..CHECKSUM_AT].copy_from_slice(&log[16..24]);
        checksum.add(&header[..8]);
        checksum.add(&whole[SQLITE_FRAME_HEADER_LEN..]);
        checksum.store(&mut header[CHECKSUM_AT..]);
        self.plain = whole;
        read?;
        self.rewrite_header(frame, header, size)
    }

    /// Returns header and page of a frame of the running transaction.
    fn read_of_transaction(
        &mut self,
        frame: u32,
        size: PageSize,
        out: &mut [u8],
    ) -> Result<(), VfsError> {
        if self.read_running(frame, 0, size, out) {
            return Ok(());
        }
        self.flush()?;
        if !self.load_frame(frame, size)? {
            return Err(PageError::Frame { frame }.into());
        }
        let sealed = std::mem::take(&mut self.sealed);
        let opened = self.open_frame(frame, &sealed, out);
        self.sealed = sealed;
        opened?;
        Ok(())
    }

    fn running_header(&mut self, frame: u32, size: PageSize) -> Result<FrameHeader, VfsError> {
        let kept = self.shared.running.borrow().get(frame).map(|(header, _)| *header);
        let sqlite = match kept {
            Some(header) => header,
            None => self.logged_header(frame, size)?,
        };
        Ok(FrameHeader { sqlite, durable_before: 0 })
    }

    fn is_of_transaction(&self, frame: u32) -> bool {
        self.is_of_running(frame) || self.shared.running.borrow().get(frame).is_some()
    }
}
