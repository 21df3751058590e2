//! The last states of pages, found by going back in time: from the last transaction of a chain to
//! its first, then to the full set.
//!
//! A page is written once, when all of its last state is known. A page that stands on the state
//! before it is kept until that is found; then the page must be the one that was shipped, by its
//! check. What is kept at any place of a chain is limited by the format, whatever the database's
//! size.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tdekit_backup_media::payload::{LogPage, MAX_UNFINISHED_BYTES, Overlay, page_check};

use super::restore::RESERVED_AT;
use crate::error::ArchiveError;
use crate::output::lock;
use crate::{PageSink, RunError};

/// The pages of a database that is restored.
pub(super) struct States<'a> {
    sink: &'a dyn PageSink,
    page_len: usize,
    pages: u32,
    /// Pages that were written or are unfinished, one bit each.
    found: Vec<AtomicU64>,
    unfinished: Mutex<Unfinished>,
    /// "Reserved bytes" of page 1.
    reserved: AtomicU8,
    /// Pages that were found to be those that were shipped.
    compared: AtomicU64,
}

/// The object of a log set: its name, and its number in the archive.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) number: u64,
}

/// Pages of whose last state something is known.
struct Unfinished {
    pages: BTreeMap<u32, Page>,
    /// The most of them.
    limit: usize,
    /// Cleared ones, to be used again.
    free: Vec<Overlay>,
}

struct Page {
    overlay: Overlay,
    check: Option<u64>,
    /// The transaction with its last state.
    origin: (Arc<Object>, u32),
}

impl<'a> States<'a> {
    /// Takes the pages of a database of this many.
    pub(super) fn new(sink: &'a dyn PageSink, page_size: u32, pages: u32) -> Self {
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(usize::MAX);
        let page_len = usize::try_from(page_size).unwrap_or(usize::MAX);
        let limit = MAX_UNFINISHED_BYTES / page_len.max(1);
        Self {
            sink,
            page_len,
            pages,
            found: (0..words).map(|_| AtomicU64::new(0)).collect(),
            unfinished: Mutex::new(Unfinished { pages: BTreeMap::new(), limit, free: Vec::new() }),
            reserved: AtomicU8::new(0),
            compared: AtomicU64::new(0),
        }
    }

    /// Marks a page; returns false if it was marked before, or is none of the database.
    fn mark(&self, page: u32) -> bool {
        let Some(at) = page.checked_sub(1).filter(|at| *at < self.pages) else { return false };
        let bit = 1 << (at % 64);
        let word = usize::try_from(at / 64).ok().and_then(|word| self.found.get(word));
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Takes a page of a transaction; those behind it were taken before.
    pub(super) fn add(
        &self,
        number: u32,
        page: &LogPage<'_>,
        (object, transaction): (&Arc<Object>, u32),
    ) -> Result<(), RunError> {
        let is_last = self.mark(number);
        let mut unfinished = lock(&self.unfinished);
        if !is_last {
            let Some(kept) = unfinished.pages.get_mut(&number) else { return Ok(()) };
            kept.overlay.put_below(page);
            if page.on_state {
                return Ok(());
            }
            let kept = unfinished.pages.remove(&number);
            return kept.map_or(Ok(()), |kept| self.finish(number, kept, &mut unfinished));
        }
        if let Some(bytes) = page.as_whole(self.page_len) {
            if !page.is(bytes) {
                return Err(wrong(object, transaction, number));
            }
            self.note_compared(page.check);
            return self.write(number, bytes);
        }
        let overlay = unfinished.free.pop().unwrap_or_else(|| Overlay::new(self.page_len));
        let origin = (Arc::clone(object), transaction);
        let mut last = Page { overlay, check: page.check, origin };
        last.overlay.put_below(page);
        if !page.on_state {
            return self.finish(number, last, &mut unfinished);
        }
        unfinished.pages.insert(number, last);
        if unfinished.pages.len() <= unfinished.limit {
            return Ok(());
        }
        Err(RunError::Damaged {
            media: object.name.clone(),
            what: "its log".to_owned(),
            reason: "more pages stand on earlier states than a reader keeps".to_owned(),
        })
    }

    /// Goes over the end of a transaction that leaves this many pages: those beyond have no state.
    pub(super) fn go_before(&self, pages: u32) -> Result<(), RunError> {
        let unfinished = lock(&self.unfinished);
        match unfinished.pages.last_key_value() {
            Some((number, page)) if *number > pages => Err(page.wrong(*number)),
            _ => Ok(()),
        }
    }

    /// Writes those of consecutive pages of the full set that were not written.
    pub(super) fn write_rest(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        let mut run: Option<(u32, usize)> = None;
        let page_len = self.page_len.max(1);
        let count = bytes.len() / page_len;
        let put = |run: &mut Option<(u32, usize)>, end: usize| match run.take() {
            Some((number, from)) => {
                let bytes = bytes.get(from..end * page_len).unwrap_or_default();
                self.note_reserved(number, bytes);
                self.sink.write(number, bytes)
            }
            None => Ok(()),
        };
        for (number, at) in (first..).zip(0..count) {
            if !self.mark(number) {
                put(&mut run, at)?;
                let page = bytes.get(at * page_len..(at + 1) * page_len).unwrap_or_default();
                self.finish_on(number, page)?;
            } else if run.is_none() {
                run = Some((number, at * page_len));
            }
        }
        put(&mut run, count)
    }

    /// Finishes a page, if it is unfinished, on the state that it had before.
    fn finish_on(&self, number: u32, state: &[u8]) -> Result<(), RunError> {
        let mut unfinished = lock(&self.unfinished);
        let Some(mut page) = unfinished.pages.remove(&number) else { return Ok(()) };
        page.overlay.put_state_below(state);
        self.finish(number, page, &mut unfinished)
    }

    /// Finishes pages on the states that the sink has: of an encrypted database, its reserved bytes
    /// are zeros.
    pub(super) fn finish_on_sink(&self, reserved: usize) -> Result<(), RunError> {
        let numbers: Vec<u32> = lock(&self.unfinished).pages.keys().copied().collect();
        let mut state = Vec::new();
        for number in numbers {
            self.sink.read(number, &mut state)?;
            let kept = state.len().saturating_sub(reserved);
            if let Some(reserved) = state.get_mut(kept..) {
                reserved.fill(0);
            }
            self.finish_on(number, &state)?;
        }
        Ok(())
    }

    /// Writes zeros for pages that no set holds: SQLite does not write those that it adds to the
    /// list of free pages, nor that of the lock bytes. Those that are unfinished have no state.
    pub(super) fn fill(&self) -> Result<(), RunError> {
        if let Some((number, page)) = lock(&self.unfinished).pages.first_key_value() {
            return Err(page.wrong(*number));
        }
        let zeros = vec![0; self.page_len];
        for page in 1..=self.pages {
            if self.mark(page) {
                self.sink.write(page, &zeros)?;
            }
        }
        Ok(())
    }

    /// Returns "reserved bytes" of page 1.
    pub(super) fn reserved(&self) -> u8 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Returns the number of pages that had a check, and were what it says. Older log sets have
    /// none.
    pub(super) fn compared(&self) -> u64 {
        self.compared.load(Ordering::Relaxed)
    }

    fn note_compared(&self, check: Option<u64>) {
        self.compared.fetch_add(u64::from(check.is_some()), Ordering::Relaxed);
    }

    fn finish(
        &self,
        number: u32,
        mut page: Page,
        unfinished: &mut Unfinished,
    ) -> Result<(), RunError> {
        let bytes = page.overlay.page();
        if page.check.is_some_and(|check| check != page_check(bytes)) {
            return Err(page.wrong(number));
        }
        self.note_compared(page.check);
        self.write(number, bytes)?;
        page.overlay.clear();
        unfinished.free.push(page.overlay);
        Ok(())
    }

    fn write(&self, number: u32, bytes: &[u8]) -> Result<(), RunError> {
        self.note_reserved(number, bytes);
        self.sink.write(number, bytes)
    }

    fn note_reserved(&self, first: u32, bytes: &[u8]) {
        if first == 1 {
            let reserved = bytes.get(RESERVED_AT).copied().unwrap_or(0);
            self.reserved.store(reserved, Ordering::Relaxed);
        }
    }
}

impl Page {
    fn wrong(&self, number: u32) -> RunError {
        wrong(&self.origin.0, self.origin.1, number)
    }
}

fn wrong(object: &Object, transaction: u32, page: u32) -> RunError {
    let (object, number) = (object.name.clone(), object.number);
    ArchiveError::WrongState { object, number, transaction, page }.into()
}

#[cfg(test)]
mod tests {
    use tdekit_backup_media::LogForm;
    use tdekit_backup_media::payload::{LogEntry, LogPages, LogPagesBuilder};

    use super::*;

    const LEN: usize = 512;

    /// Pages in memory; what was written, and what was there before.
    #[derive(Default)]
    struct Memory {
        written: Mutex<BTreeMap<u32, Vec<u8>>>,
        before: BTreeMap<u32, Vec<u8>>,
    }

    impl PageSink for Memory {
        fn begin(&mut self, _: u32, _: u64) -> Result<(), RunError> {
            Ok(())
        }

        fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
            for (page, bytes) in (first..).zip(bytes.chunks(LEN)) {
                assert!(lock(&self.written).insert(page, bytes.to_vec()).is_none(), "twice");
            }
            Ok(())
        }

        fn read(&self, page: u32, bytes: &mut Vec<u8>) -> Result<(), RunError> {
            bytes.clear();
            self.before.get(&page).into_iter().for_each(|state| bytes.extend_from_slice(state));
            Ok(())
        }

        fn finish(&mut self) -> Result<(), RunError> {
            Ok(())
        }
    }

    fn page(fill: u8, changed: &[(usize, u8)]) -> Vec<u8> {
        let mut page = vec![fill; LEN];
        changed.iter().for_each(|(at, byte)| page[*at] = *byte);
        page
    }

    /// A page's number, the state that it is made from, and the page.
    type Entry<'a> = (u32, Option<&'a [u8]>, &'a [u8]);

    /// Takes the entries of a log, the last one first.
    fn take(states: &States<'_>, log: &[Entry<'_>]) -> Result<(), RunError> {
        let object = Arc::new(Object { name: "a/0043.tdekit".to_owned(), number: 43 });
        for ((number, state, page), transaction) in log.iter().rev().zip((1..18).rev()) {
            let mut builder = LogPagesBuilder::new(4096, 512);
            builder.push(LogEntry { page: *number, end: None }, *state, page).unwrap();
            let mut payload = Vec::new();
            builder.finish(&mut payload);
            let log = LogPages::decode(0, &payload, 512, LogForm::Changes).unwrap();
            let (_, page) = log.iter().next().unwrap();
            states.add(*number, &page, (&object, transaction))?;
        }
        Ok(())
    }

    /// The error names object, transaction and page.
    fn is_named(found: Result<(), RunError>, transaction: &str, page: u32) {
        let error = found.unwrap_err().to_string();
        let named = format!(
            "a/0043.tdekit: page {page} of transaction {transaction} does not follow its state"
        );
        assert!(error.starts_with(&named), "{error}");
    }

    #[test]
    fn a_page_is_its_last_state_whatever_that_stands_on() {
        let (first, second) = (page(7, &[]), page(7, &[(9, 1), (300, 2)]));
        let (third, full) = (page(7, &[(9, 3), (300, 2)]), page(5, &[(8, 8)]));
        let later = page(5, &[(8, 8), (400, 1)]);
        let memory = Memory::default();
        let states = States::new(&memory, 512, 4);
        let log = [
            (2, None, &first[..]),
            (3, Some(&full[..]), &later[..]),
            (2, Some(&first), &second),
            (2, Some(&second), &third),
        ];
        take(&states, &log).unwrap();
        let all = [page(1, &[(20, 48)]), page(9, &[]), full.clone()].concat();
        states.write_rest(1, &all).unwrap();
        states.fill().unwrap();
        assert_eq!(states.compared(), 2, "pages 2 and 3, each in its last state");
        drop(states);
        let written = memory.written.into_inner().unwrap();
        let wanted = [page(1, &[(20, 48)]), third, later, page(0, &[])];
        assert!(written.into_values().eq(wanted));
    }

    #[test]
    fn a_wrong_state_below_is_found_and_named() {
        let (first, second) = (page(7, &[]), page(7, &[(9, 1)]));
        let third = page(7, &[(9, 1), (100, 1)]);
        // In the log, in the full set, and in a standby.
        let other = page(7, &[(500, 1)]);
        let memory = Memory { before: [(2, other.clone())].into(), ..Memory::default() };
        let states = States::new(&memory, 512, 4);
        let found = take(&states, &[(2, None, &other), (2, Some(&first), &second)]);
        is_named(found, "43.17", 2);
        let log = [(2, Some(&first[..]), &second[..]), (2, Some(&second), &third)];
        let states = States::new(&memory, 512, 4);
        take(&states, &log).unwrap();
        is_named(states.write_rest(2, &other), "43.17", 2);
        let states = States::new(&memory, 512, 4);
        take(&states, &log[..1]).unwrap();
        is_named(states.finish_on_sink(0), "43.17", 2);
        assert!(memory.written.lock().unwrap().is_empty());
        // Bytes that are reserved for seals are zeros in an archive.
        let states = States::new(&memory, 512, 4);
        let state = page(7, &(500..512).map(|at| (at, 0)).collect::<Vec<_>>());
        take(
            &states,
            &[(2, Some(&state), &{
                let mut next = state.clone();
                next[1] = 1;
                next
            })],
        )
        .unwrap();
        states.finish_on_sink(12).unwrap();
    }

    #[test]
    fn a_state_that_there_is_not_is_named() {
        let (first, second) = (page(7, &[]), page(7, &[(9, 1)]));
        let memory = Memory::default();
        let states = States::new(&memory, 512, 4);
        take(&states, &[(3, Some(&first), &second)]).unwrap();
        states.go_before(3).unwrap();
        // The database was shorter behind a transaction before.
        is_named(states.go_before(2), "43.17", 3);
        states.write_rest(1, &page(1, &[])).unwrap();
        is_named(states.fill(), "43.17", 3);
        is_named(states.finish_on_sink(0), "43.17", 3);
    }

    #[test]
    fn no_more_is_kept_than_the_format_allows() {
        let (first, second) = (page(7, &[]), page(7, &[(9, 1)]));
        let most = u32::try_from(MAX_UNFINISHED_BYTES / LEN).unwrap();
        let memory = Memory::default();
        let states = States::new(&memory, 512, most + 1);
        for number in 1..=most {
            take(&states, &[(number, Some(&first), &second)]).unwrap();
        }
        take(&states, &[(1, Some(&first), &first)]).unwrap();
        let error = take(&states, &[(most + 1, Some(&first), &second)]).unwrap_err();
        assert!(error.to_string().contains("more pages stand on earlier states"), "{error}");
    }
}
