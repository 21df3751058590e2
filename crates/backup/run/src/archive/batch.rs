//! The transactions of one log set, and the payloads of its blocks.

use std::sync::{Arc, Mutex};

use tdekit_backup_media::payload::{LogEnd, LogEntry, LogPagesBuilder};
use tdekit_backup_media::{Id, LogLink};

use super::keeper::Keeper;
use super::known::KnownPages;
use super::pending::{PageAt, Transaction};
use crate::RunError;
use crate::error::At;
use crate::feed::{Feed, Job, LogSource, Numbers, Scratch};
use crate::output::lock;
use crate::progress::Meter;
use crate::snapshot::Snapshot;

/// The source of pages that are not in memory.
pub(super) enum Origin {
    /// In the log.
    Log(Arc<Mutex<Keeper>>),
    /// In the main file, inside this read transaction.
    Main(Arc<Snapshot>),
    /// Nowhere.
    Memory,
}

/// The transactions of a log set.
pub(super) struct LogBatch {
    pub(super) origin: Origin,
    /// The states of pages behind the set before. They run ahead while the set is made.
    pub(super) known: Arc<Mutex<KnownPages>>,
    /// In order, at least one.
    pub(super) transactions: Vec<Arc<Transaction>>,
    pub(super) link: LogLink,
    pub(super) page_size: u32,
    /// Bytes at the end of each page that count as zeros, as in a full set.
    pub(super) zeroed: usize,
    pub(super) encrypted_file_id: Option<Id>,
}

impl LogSource for LogBatch {
    fn link(&self) -> LogLink {
        self.link
    }

    fn page_size(&self) -> u32 {
        self.page_size
    }

    fn encrypted_file_id(&self) -> Option<Id> {
        self.encrypted_file_id
    }

    fn begun_ms(&self) -> i64 {
        self.transactions.first().map_or(0, |first| first.time_ms)
    }

    fn pages(&self) -> u32 {
        self.transactions.last().map_or(0, |last| last.size)
    }

    fn pages_stored(&self) -> u64 {
        self.transactions.iter().map(|each| each.pages.len() as u64).sum()
    }

    fn feed<'a>(&'a self, block_size: u32, meter: &'a Meter<'a>) -> Box<dyn Feed + 'a> {
        Box::new(LogFeed::new(self, block_size, meter))
    }
}

impl LogBatch {
    /// Writes the content of a page to `out`.
    fn read(&self, page: u32, at: &PageAt, out: &mut Vec<u8>) -> Result<(), RunError> {
        out.clear();
        match (at, &self.origin) {
            (PageAt::Held(bytes), _) => out.extend_from_slice(bytes),
            (PageAt::Main, Origin::Main(snapshot)) => {
                out.resize(snapshot.page_len(), 0);
                snapshot.read(page, out)?;
            }
            (PageAt::Frame(number), Origin::Log(keeper)) => {
                let mut keeper = lock(keeper);
                keeper.load(*number)?;
                if !keeper.is_of(page) {
                    return Err(keeper.unreadable(format!("frame {number} has changed")));
                }
                out.extend_from_slice(keeper.page());
            }
            _ => return Err(RunError::Internal("a page that is nowhere")),
        }
        let kept = out.len().saturating_sub(self.zeroed);
        if let Some(reserved) = out.get_mut(kept..) {
            reserved.fill(0);
        }
        Ok(())
    }
}

/// Produces the blocks in order.
struct LogFeed<'a> {
    batch: &'a LogBatch,
    state: Mutex<State>,
    meter: &'a Meter<'a>,
}

struct State {
    builder: LogPagesBuilder,
    numbers: Numbers,
    /// The transaction, from 0, and its last page that was taken; 0 before the first.
    transaction: usize,
    taken: u32,
    page: Vec<u8>,
}

impl<'a> LogFeed<'a> {
    fn new(batch: &'a LogBatch, block_size: u32, meter: &'a Meter<'a>) -> Self {
        let state = State {
            builder: LogPagesBuilder::new(block_size, batch.page_size),
            numbers: Numbers::new(1),
            transaction: 0,
            taken: 0,
            page: Vec::new(),
        };
        Self { batch, state: Mutex::new(state), meter }
    }
}

impl Feed for LogFeed<'_> {
    fn next(&self, scratch: &mut Scratch) -> Result<Option<Job>, RunError> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let first = u32::try_from(state.transaction).unwrap_or(u32::MAX).saturating_add(1);
        let mut source_bytes = 0;
        while let Some(transaction) = self.batch.transactions.get(state.transaction) {
            if state.builder.is_full() {
                break;
            }
            let mut rest = transaction.pages.range(state.taken + 1..);
            let Some((page, at)) = rest.next() else {
                (state.transaction, state.taken) = (state.transaction + 1, 0);
                continue;
            };
            let is_last = rest.next().is_none();
            let end = LogEnd { pages: transaction.size, time_ms: transaction.time_ms };
            self.batch.read(*page, at, &mut state.page)?;
            let entry = LogEntry { page: *page, end: is_last.then_some(end) };
            let mut known = lock(&self.batch.known);
            let pushed = state.builder.push(entry, known.state(*page), &state.page);
            known.put(*page, &state.page);
            if is_last {
                known.cut(transaction.size);
            }
            drop(known);
            pushed.map_err(|error| At { media: "the new set", position: 1 }.error(error))?;
            source_bytes += u64::from(self.batch.page_size);
            state.taken = *page;
            if is_last {
                (state.transaction, state.taken) = (state.transaction + 1, 0);
            }
        }
        if state.builder.is_empty() {
            return Ok(None);
        }
        self.meter.take(source_bytes)?;
        state.builder.finish(&mut scratch.payload);
        Ok(Some(Job { source_bytes, ..state.numbers.data(first) }))
    }
}
