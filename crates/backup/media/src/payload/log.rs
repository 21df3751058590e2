//! Data blocks of a log set: the pages of transactions, in the order of their commits.

use super::changes::{LogPage, RUN_LEN, bytes_of, check_runs, page_check, put_changes};
use super::pages::PAGES_HEAD_LEN;
use crate::bytes::Reader;
use crate::error::{MediaError, Part};

/// The most that a page takes besides its bytes: its entry, and a run.
pub const LOG_ENTRY_LEN: u32 = 32;

/// Length of a page's entry in a set of [`LogForm::Whole`].
pub(crate) const WHOLE_LOG_ENTRY_LEN: usize = 16;
/// Length of one in a set of [`LogForm::Changes`].
pub(crate) const LOG_CHANGE_LEN: usize = 28;

const ENTRY_LEN: usize = WHOLE_LOG_ENTRY_LEN;
const CHANGE_LEN: usize = LOG_CHANGE_LEN;
const _: () = assert!(LOG_ENTRY_LEN as usize == CHANGE_LEN + RUN_LEN);

/// The form of pages in a log set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogForm {
    /// Each is there as a whole. Nothing writes it any more.
    Whole,
    /// Each by what differs from zeros, or from the state that it had before.
    Changes,
}

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
    entries: Entries<'a>,
    runs: &'a [[u8; RUN_LEN]],
    bytes: &'a [u8],
    page_len: usize,
}

/// The entries of pages, by the form of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entries<'a> {
    Whole(&'a [[u8; ENTRY_LEN]]),
    Changes(&'a [[u8; CHANGE_LEN]]),
}

impl<'a> LogPages<'a> {
    /// Reads the payload of block `index`. A transaction may have begun in a block before, and may
    /// end in a block behind.
    ///
    /// # Errors
    /// [`MediaError::Truncated`], [`MediaError::Malformed`].
    pub fn decode(
        index: u64,
        payload: &'a [u8],
        page_size: u32,
        form: LogForm,
    ) -> Result<Self, MediaError> {
        let part = Part::Block(index);
        let page_len = page_size as usize;
        let mut reader = Reader::new(part, payload);
        let (count, runs) = (reader.u32()? as usize, reader.u32()? as usize);
        let wrong = || MediaError::malformed(part, "it does not hold whole pages of a log");
        let lens = match form {
            LogForm::Whole => (ENTRY_LEN, page_len),
            LogForm::Changes => (CHANGE_LEN, 0),
        };
        let entries_len = count.checked_mul(lens.0).ok_or_else(wrong)?;
        let runs_len = runs.checked_mul(RUN_LEN).ok_or_else(wrong)?;
        if count == 0 || page_len == 0 || (form == LogForm::Whole && runs != 0) {
            return Err(wrong());
        }
        let entries = reader.take(entries_len)?;
        let (runs, _) = reader.take(runs_len)?.as_chunks();
        let bytes = reader.take(reader.rest_len())?;
        let entries = match form {
            LogForm::Whole => Entries::Whole(entries.as_chunks().0),
            LogForm::Changes => Entries::Changes(entries.as_chunks().0),
        };
        let pages = Self { entries, runs, bytes, page_len };
        let whole = match entries {
            Entries::Whole(entries) => entries.len().checked_mul(page_len) == Some(bytes.len()),
            Entries::Changes(entries) => pages.check_changes(part, entries)?,
        };
        if !whole {
            return Err(wrong());
        }
        let mut order = LogOrder::default();
        for at in 0..count {
            let entry = pages.entry(at);
            let entry = entry.ok_or(MediaError::malformed(part, "an entry is not of a page"))?;
            order.add(index, entry)?;
        }
        Ok(pages)
    }

    /// Checks the runs of all entries. Returns true if there are no others, and bytes of each.
    fn check_changes(&self, part: Part, entries: &[[u8; CHANGE_LEN]]) -> Result<bool, MediaError> {
        let (mut rest, mut len) = (self.runs, 0_usize);
        for entry in entries {
            let Some(change) = Change::decode(*entry) else {
                return Err(MediaError::malformed(part, "an entry is not of a page's changes"));
            };
            let Some((runs, behind)) = rest.split_at_checked(change.runs.into()) else {
                return Ok(false);
            };
            len = len.saturating_add(check_runs(part, runs, self.page_len)?);
            rest = behind;
        }
        Ok(rest.is_empty() && len == self.bytes.len())
    }

    fn entry(&self, at: usize) -> Option<LogEntry> {
        match self.entries {
            Entries::Whole(entries) => LogEntry::decode(*entries.get(at)?),
            Entries::Changes(entries) => LogEntry::decode(*entries.get(at)?.first_chunk()?),
        }
    }

    /// Returns the number of pages.
    fn len(&self) -> usize {
        match self.entries {
            Entries::Whole(entries) => entries.len(),
            Entries::Changes(entries) => entries.len(),
        }
    }

    /// Returns the entries, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = LogEntry> + use<'a> {
        let pages = *self;
        // Each is one, as `decode` checked.
        (0..self.len()).filter_map(move |at| pages.entry(at))
    }

    /// Returns the entries and what is stored of their pages, in order.
    #[must_use]
    pub fn iter(&self) -> LogPagesIter<'a> {
        LogPagesIter { pages: *self, at: 0, end: self.len() }
    }

    /// Returns the number of transactions that end in the block.
    #[must_use]
    pub fn ends(&self) -> u32 {
        let ends = self.entries().filter(|entry| entry.end.is_some()).count();
        u32::try_from(ends).unwrap_or(u32::MAX)
    }

    /// Returns true if a transaction ends with the block's last page.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.entries().next_back().is_some_and(|entry| entry.end.is_some())
    }
}

/// The pages of a block, from both ends.
#[derive(Debug, Clone)]
pub struct LogPagesIter<'a> {
    /// Of the entries `at..end`, runs and bytes.
    pages: LogPages<'a>,
    at: usize,
    end: usize,
}

impl<'a> LogPagesIter<'a> {
    /// Takes the runs and bytes of the entry `at`, from the front or from the back.
    fn take(&mut self, at: usize, front: bool) -> Option<(LogEntry, LogPage<'a>)> {
        let entry = self.pages.entry(at)?;
        let pages = &mut self.pages;
        let change = match pages.entries {
            Entries::Whole(_) => None,
            Entries::Changes(entries) => Some(Change::decode(*entries.get(at)?)?),
        };
        let count = change.map_or(0, |change| change.runs.into());
        let runs = cut(&mut pages.runs, count, front)?;
        let len = change.map_or(pages.page_len, |_| bytes_of(runs));
        let bytes = cut(&mut pages.bytes, len, front)?;
        Some((
            entry,
            match change {
                None => LogPage::whole(bytes),
                Some(Change { check, on_state, .. }) => {
                    LogPage { on_state, check: Some(check), runs, bytes }
                }
            },
        ))
    }
}

/// Takes `len` items from the front or from the back of a slice.
fn cut<'a, T>(slice: &mut &'a [T], len: usize, front: bool) -> Option<&'a [T]> {
    let (first, last) = match front {
        true => slice.split_at_checked(len)?,
        false => slice.split_at_checked(slice.len().checked_sub(len)?)?,
    };
    let (taken, rest) = if front { (first, last) } else { (last, first) };
    *slice = rest;
    Some(taken)
}

impl<'a> Iterator for LogPagesIter<'a> {
    type Item = (LogEntry, LogPage<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        (at < self.end).then(|| self.at += 1)?;
        self.take(at, true)
    }
}

impl DoubleEndedIterator for LogPagesIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        (self.at < self.end).then(|| self.end -= 1)?;
        self.take(self.end, false)
    }
}

/// The fields of an entry behind those of a page: how the page is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    check: u64,
    runs: u16,
    on_state: bool,
}

impl Change {
    fn encode(self) -> [u8; CHANGE_LEN - ENTRY_LEN] {
        let mut out = [0; CHANGE_LEN - ENTRY_LEN];
        out[..8].copy_from_slice(&self.check.to_le_bytes());
        out[8..10].copy_from_slice(&self.runs.to_le_bytes());
        out[10] = self.on_state.into();
        out
    }

    fn decode(entry: [u8; CHANGE_LEN]) -> Option<Self> {
        let (check, rest) = entry.get(ENTRY_LEN..)?.split_first_chunk()?;
        let [a, b, on_state @ (0 | 1), 0] = *rest.first_chunk()? else { return None };
        let (check, runs) = (u64::from_le_bytes(*check), u16::from_le_bytes([a, b]));
        Some(Self { check, runs, on_state: on_state == 1 })
    }
}

/// Collects pages of a log until a block is full, in [`LogForm::Changes`].
#[derive(Debug)]
pub struct LogPagesBuilder {
    page_len: usize,
    room: usize,
    entries: Vec<u8>,
    runs: Vec<u8>,
    bytes: Vec<u8>,
}

impl LogPagesBuilder {
    /// Makes a builder for blocks of a set with these sizes.
    #[must_use]
    pub fn new(block_size: u32, page_size: u32) -> Self {
        let (room, page_len) = (block_size as usize, page_size as usize);
        Self { page_len, room, entries: Vec::new(), runs: Vec::new(), bytes: Vec::new() }
    }

    /// Adds a page: with `state` what differs from that, its state before, else what is not zero.
    ///
    /// # Errors
    /// [`MediaError::Malformed`] for a page of another size, or if the block is full.
    pub fn push(
        &mut self,
        entry: LogEntry,
        state: Option<&[u8]>,
        page: &[u8],
    ) -> Result<(), MediaError> {
        let other_len = |len: usize| len != self.page_len;
        if other_len(page.len()) || state.is_some_and(|it| other_len(it.len())) || self.is_full() {
            return Err(MediaError::malformed(Part::AnyBlock, "a page does not go behind these"));
        }
        let (runs, bytes) = (self.runs.len(), self.bytes.len());
        put_changes(state, page, (&mut self.runs, &mut self.bytes));
        let len = self.bytes.len() - bytes;
        let mut on_state = state.is_some();
        if on_state && len > self.page_len / 2 {
            // A page that mostly changed may have more zeros than unchanged bytes.
            let (end_runs, end) = (self.runs.len(), self.bytes.len());
            put_changes(None, page, (&mut self.runs, &mut self.bytes));
            if self.bytes.len() - end <= len {
                self.runs.drain(runs..end_runs);
                self.bytes.drain(bytes..end);
                on_state = false;
            } else {
                self.runs.truncate(end_runs);
                self.bytes.truncate(end);
            }
        }
        let count = (self.runs.len() - runs) / RUN_LEN;
        self.put_entry(entry, on_state, page_check(page), count);
        Ok(())
    }

    /// Adds a page as it stands in another block.
    ///
    /// # Errors
    /// [`MediaError::Malformed`] if the block is full.
    pub fn push_stored(&mut self, entry: LogEntry, page: &LogPage<'_>) -> Result<(), MediaError> {
        if self.is_full() {
            return Err(MediaError::malformed(Part::AnyBlock, "a page does not go behind these"));
        }
        self.runs.extend(page.runs.iter().flatten());
        self.bytes.extend_from_slice(page.bytes);
        self.put_entry(entry, page.on_state, page.check.unwrap_or_default(), page.runs.len());
        Ok(())
    }

    fn put_entry(&mut self, entry: LogEntry, on_state: bool, check: u64, runs: usize) {
        let runs = u16::try_from(runs).unwrap_or(u16::MAX);
        self.entries.extend_from_slice(&entry.encode());
        self.entries.extend_from_slice(&Change { check, runs, on_state }.encode());
    }

    /// Returns true if a further page may not fit into the block.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let len = self.entries.len() + self.runs.len() + self.bytes.len();
        !self.is_empty() && len + self.page_len + LOG_ENTRY_LEN as usize > self.room
    }

    /// Returns true if there is no page yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the payload into `out`, which is emptied first, and starts a new block.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
        out.clear();
        let len = self.entries.len() + self.runs.len() + self.bytes.len();
        out.reserve(PAGES_HEAD_LEN + len);
        out.extend_from_slice(&number(self.entries.len() / CHANGE_LEN));
        out.extend_from_slice(&number(self.runs.len() / RUN_LEN));
        for part in [&mut self.entries, &mut self.runs, &mut self.bytes] {
            out.extend_from_slice(part);
            part.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(page: u32, pages: u32) -> LogEntry {
        let end = (pages > 0).then_some(LogEnd { pages, time_ms: 7 });
        LogEntry { page, end }
    }

    fn page(number: u32) -> [u8; 512] {
        let mut page = [0; 512];
        page[100..400].fill(number.to_le_bytes()[0]);
        page
    }

    fn payload(entries: &[LogEntry]) -> Vec<u8> {
        let mut builder = LogPagesBuilder::new(64 * 1024, 512);
        for each in entries {
            builder.push(*each, None, &page(each.page)).unwrap();
        }
        let mut out = Vec::new();
        builder.finish(&mut out);
        out
    }

    /// As older versions wrote it.
    fn whole_payload(entries: &[LogEntry]) -> Vec<u8> {
        let count = u32::try_from(entries.len()).unwrap();
        let mut out = [count.to_le_bytes(), [0; 4]].concat();
        entries.iter().for_each(|entry| out.extend_from_slice(&entry.encode()));
        entries.iter().for_each(|entry| out.extend_from_slice(&page(entry.page)));
        out
    }

    fn rebuilt(page: &LogPage<'_>) -> Vec<u8> {
        let mut overlay = super::super::changes::Overlay::new(512);
        overlay.put_below(page);
        overlay.page().to_vec()
    }

    #[test]
    fn what_was_written_is_read() {
        let entries = [entry(2, 0), entry(9, 9), entry(1, 4), entry(3, 0)];
        for (bytes, form) in
            [(payload(&entries), LogForm::Changes), (whole_payload(&entries), LogForm::Whole)]
        {
            let read = LogPages::decode(3, &bytes, 512, form).unwrap();
            assert_eq!(read.entries().collect::<Vec<_>>(), entries);
            let mut forth: Vec<_> = read.iter().collect();
            for (entry, found) in &forth {
                assert!(rebuilt(found) == page(entry.page) && found.is(&page(entry.page)));
                assert_eq!(found.is(&page(4)), form == LogForm::Whole);
            }
            forth.reverse();
            assert_eq!(forth, read.iter().rev().collect::<Vec<_>>());
            assert_eq!((read.ends(), read.is_whole()), (2, false));
            for len in 0..bytes.len() {
                assert!(LogPages::decode(3, &bytes[..len], 512, form).is_err(), "{len}");
            }
            assert!(LogPages::decode(3, &[&bytes[..], &[0]].concat(), 512, form).is_err());
        }
        assert!(LogPages::decode(3, &whole_payload(&entries), 1024, LogForm::Whole).is_err());
        assert!(LogPages::decode(3, &payload(&entries), 512, LogForm::Whole).is_err());
        assert!(LogPages::decode(3, &whole_payload(&entries), 512, LogForm::Changes).is_err());
    }

    /// A known answer: the checks are from the C library of xxHash.
    #[test]
    fn a_block_has_these_bytes() {
        let mut first = [0; 512];
        first[10..13].copy_from_slice(&[1, 2, 3]);
        first[500] = 9;
        let mut second = first;
        (second[11], second[511]) = (7, 1);
        let mut builder = LogPagesBuilder::new(4096, 512);
        let end = |time_ms| Some(LogEnd { pages: 4, time_ms });
        builder.push(LogEntry { page: 3, end: end(258) }, None, &first).unwrap();
        builder.push(LogEntry { page: 3, end: end(259) }, Some(&first), &second).unwrap();
        let mut out = Vec::new();
        builder.finish(&mut out);
        let wanted = [
            "02000000 04000000",
            "03000000 04000000 0201000000000000 f92147cc34a8ae33 0200 00 00",
            "03000000 04000000 0301000000000000 ecfc91000d2c566b 0200 01 00",
            "0a00 0200 f401 0000  0b00 0000 ff01 0000",
            "010203 09  07 01",
        ];
        assert_eq!(hex::encode(&out), wanted.concat().replace(' ', ""));
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
            for (bytes, form) in
                [(payload(wrong), LogForm::Changes), (whole_payload(wrong), LogForm::Whole)]
            {
                assert!(LogPages::decode(0, &bytes, 512, form).is_err(), "{wrong:?}");
            }
        }
        let mut timed = payload(&[entry(2, 0)]);
        timed[8 + 9] = 1;
        assert!(LogPages::decode(0, &timed, 512, LogForm::Changes).is_err());
    }

    #[test]
    fn impossible_changes_are_refused() {
        let sound = payload(&[entry(2, 0), entry(3, 3)]);
        let runs = 8 + 2 * CHANGE_LEN;
        let decode = |bytes: &[u8]| LogPages::decode(0, bytes, 512, LogForm::Changes).is_ok();
        assert!(decode(&sound));
        for (at, value) in [
            // More runs, and fewer; another base; a byte that is laid down as 0.
            (8 + 24, 2),
            (8 + 24, 0),
            (8 + 26, 2),
            (8 + 27, 1),
            // A run beyond the page, and a longer one.
            (runs + 1, 2),
            (runs + 2, 44),
        ] {
            let mut wrong = sound.clone();
            assert_ne!(wrong[at], value);
            wrong[at] = value;
            assert!(!decode(&wrong), "{at}");
        }
        let mut on_state = sound;
        on_state[8 + 26] = 1;
        let read = LogPages::decode(0, &on_state, 512, LogForm::Changes).unwrap();
        assert!(read.iter().map(|(_, page)| page.on_state).eq([true, false]));
    }

    #[test]
    fn full_blocks_keep_to_their_size() {
        let mut builder = LogPagesBuilder::new(4096, 512);
        // The most runs that a page can have.
        let dense: Vec<u8> = (0..512).map(|at| u8::from(at % 10 == 0)).collect();
        let mut out = Vec::new();
        for number in 1.. {
            builder.push(entry(number, 0), None, &dense).unwrap();
            if builder.is_full() {
                break;
            }
        }
        assert!(builder.push(entry(99, 0), None, &dense).is_err());
        builder.finish(&mut out);
        assert!(out.len() <= 4096 + PAGES_HEAD_LEN && builder.is_empty());
        assert!(builder.push(entry(1, 0), None, &dense[1..]).is_err());
        assert!(builder.push(entry(1, 0), Some(&dense[1..]), &dense).is_err());
    }
}
