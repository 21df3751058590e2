//! Data blocks of a log set: the pages of transactions, in the order of their commits.

use super::pages::PAGES_HEAD_LEN;
use crate::bytes::Reader;
use crate::error::{MediaError, Part};

/// Length of a page's entry in bytes.
pub const LOG_ENTRY_LEN: u32 = 16;

const ENTRY_LEN: usize = LOG_ENTRY_LEN as usize;

/// The fields of the last page of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// Pages of the database after the transaction, at least 1.
    pub pages: u32,
    /// Time when the commit was seen, milliseconds since 1970-01-01 UTC.
    pub time_ms: i64,
}

/// The fields of a page in a log set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// Number of the page, from 1.
    pub page: u32,
    /// `Some` for the last page of a transaction.
    pub end: Option<LogEnd>,
}

impl LogEntry {
    fn encode(self) -> [u8; ENTRY_LEN] {
        let mut out = [0; ENTRY_LEN];
        out[..4].copy_from_slice(&self.page.to_le_bytes());
        if let Some(end) = self.end {
            out[4..8].copy_from_slice(&end.pages.to_le_bytes());
            out[8..].copy_from_slice(&end.time_ms.to_le_bytes());
        }
        out
    }

    fn decode(bytes: [u8; ENTRY_LEN]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, time @ ..] = bytes;
        let (page, pages) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let time_ms = i64::from_le_bytes(time);
        let end = match (pages, time_ms) {
            (0, 0) => None,
            (0, _) => return None,
            (pages, time_ms) => Some(LogEnd { pages, time_ms }),
        };
        (page > 0).then_some(Self { page, end })
    }
}

/// The rules for the entries of a log set in their order: the pages of a transaction ascend, and
/// none is beyond the size that the database has after it.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogOrder {
    /// The page before in the same transaction.
    before: u32,
    /// Transactions that have ended.
    transactions: u32,
}

impl LogOrder {
    /// Takes the next entry, of block `index`.
    ///
    /// # Errors
    /// [`MediaError::Malformed`].
    pub fn add(&mut self, index: u64, entry: LogEntry) -> Result<(), MediaError> {
        let part = Part::Block(index);
        if entry.page <= self.before {
            return Err(MediaError::malformed(part, "the pages of a transaction do not ascend"));
        }
        self.before = entry.page;
        let Some(end) = entry.end else { return Ok(()) };
        if entry.page > end.pages {
            return Err(MediaError::malformed(part, "a page is beyond the end of the database"));
        }
        self.before = 0;
        let next = self.transactions.checked_add(1);
        self.transactions = next.ok_or(MediaError::malformed(part, "too many transactions"))?;
        Ok(())
    }

    /// Returns the number of transactions that have ended.
    #[must_use]
    pub fn ended(&self) -> u32 {
        self.transactions
    }

    /// Returns the number of transactions that have ended; `None` within one.
    #[must_use]
    pub fn whole(&self) -> Option<u32> {
        (self.before == 0).then_some(self.transactions)
    }
}

/// A block of a log set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPages<'a> {
    entries: &'a [[u8; ENTRY_LEN]],
    bytes: &'a [u8],
    page_size: usize,
}

impl<'a> LogPages<'a> {
    /// Reads the payload of block `index`. A transaction may have begun in a block before, and may
    /// end in a block behind.
    ///
    /// # Errors
    /// [`MediaError::Truncated`], [`MediaError::Malformed`].
    pub fn decode(index: u64, payload: &'a [u8], page_size: u32) -> Result<Self, MediaError> {
        let part = Part::Block(index);
        let page_size = page_size as usize;
        let mut reader = Reader::new(part, payload);
        let (count, zero) = (reader.u32()? as usize, reader.u32()?);
        let whole = count.checked_mul(page_size.saturating_add(ENTRY_LEN));
        if zero != 0 || count == 0 || page_size == 0 || whole != Some(reader.rest_len()) {
            return Err(MediaError::malformed(part, "it does not hold whole pages of a log"));
        }
        let (entries, _) = reader.take(count * ENTRY_LEN)?.as_chunks();
        let bytes = reader.take(reader.rest_len())?;
        let mut order = LogOrder::default();
        for bytes in entries {
            let entry = LogEntry::decode(*bytes)
                .ok_or(MediaError::malformed(part, "an entry is not of a page"))?;
            order.add(index, entry)?;
        }
        Ok(Self { entries, bytes, page_size })
    }

    /// Returns the entries and their pages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (LogEntry, &'a [u8])> + use<'a> {
        let none = LogEntry { page: 0, end: None };
        let entries = self.entries.iter().map(move |it| LogEntry::decode(*it).unwrap_or(none));
        let pages = self.bytes.chunks_exact(self.page_size.max(1));
        // The same number of each, as `decode` checked.
        entries.zip(pages)
    }

    /// Returns the number of transactions that end in the block.
    #[must_use]
    pub fn ends(&self) -> u32 {
        let ends = self.iter().filter(|(entry, _)| entry.end.is_some()).count();
        u32::try_from(ends).unwrap_or(u32::MAX)
    }

    /// Returns true if a transaction ends with the block's last page.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.iter().next_back().is_some_and(|(entry, _)| entry.end.is_some())
    }
}

/// Collects pages of a log until a block is full.
#[derive(Debug)]
pub struct LogPagesBuilder {
    page_size: usize,
    room: usize,
    entries: Vec<u8>,
    bytes: Vec<u8>,
}

impl LogPagesBuilder {
    /// Makes a builder for blocks of a set with these sizes.
    #[must_use]
    pub fn new(block_size: u32, page_size: u32) -> Self {
        let page_size = page_size as usize;
        let room = (block_size as usize / page_size.saturating_add(ENTRY_LEN)).max(1);
        Self { page_size, room, entries: Vec::new(), bytes: Vec::new() }
    }

    /// Adds a page.
    ///
    /// # Errors
    /// [`MediaError::Malformed`] for a page of another size, or if the block is full.
    pub fn push(&mut self, entry: LogEntry, page: &[u8]) -> Result<(), MediaError> {
        if page.len() != self.page_size || self.is_full() {
            return Err(MediaError::malformed(Part::AnyBlock, "a page does not go behind these"));
        }
        self.entries.extend_from_slice(&entry.encode());
        self.bytes.extend_from_slice(page);
        Ok(())
    }

    /// Returns true if no further page fits into the block.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entries.len() / ENTRY_LEN >= self.room
    }

    /// Returns true if there is no page yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the payload into `out`, which is emptied first, and starts a new block.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.entries.len() / ENTRY_LEN).unwrap_or(u32::MAX);
        out.clear();
        out.reserve(PAGES_HEAD_LEN + self.entries.len() + self.bytes.len());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.entries);
        out.extend_from_slice(&self.bytes);
        self.entries.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(page: u32, pages: u32) -> LogEntry {
        let end = (pages > 0).then_some(LogEnd { pages, time_ms: 7 });
        LogEntry { page, end }
    }

    fn payload(entries: &[LogEntry]) -> Vec<u8> {
        let mut builder = LogPagesBuilder::new(64 * 1024, 512);
        for each in entries {
            builder.push(*each, &[each.page.to_le_bytes()[0]; 512]).unwrap();
        }
        let mut out = Vec::new();
        builder.finish(&mut out);
        out
    }

    #[test]
    fn what_was_written_is_read() {
        let entries = [entry(2, 0), entry(9, 9), entry(1, 4), entry(3, 0)];
        let bytes = payload(&entries);
        let read = LogPages::decode(3, &bytes, 512).unwrap();
        let found: Vec<_> = read.iter().map(|(entry, _)| entry).collect();
        assert_eq!(found, entries);
        assert!(read.iter().all(|(entry, page)| page == [entry.page.to_le_bytes()[0]; 512]));
        assert_eq!((read.ends(), read.is_whole()), (2, false));
        for len in 0..bytes.len() {
            assert!(LogPages::decode(3, &bytes[..len], 512).is_err(), "{len}");
        }
        assert!(LogPages::decode(3, &bytes, 1024).is_err());
    }

    #[test]
    fn what_breaks_the_order_is_refused() {
        for wrong in [
            &[entry(2, 0), entry(2, 5)][..],
            &[entry(3, 0), entry(2, 5)],
            &[entry(6, 5)],
            &[entry(0, 5)],
            &[],
        ] {
            assert!(LogPages::decode(0, &payload(wrong), 512).is_err(), "{wrong:?}");
        }
        let mut timed = payload(&[entry(2, 0)]);
        timed[8 + 9] = 1;
        assert!(LogPages::decode(0, &timed, 512).is_err());
    }
}
