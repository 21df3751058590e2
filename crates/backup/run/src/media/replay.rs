//! Restoring a full set and the log sets behind it.
//!
//! Log sets are read from the last to the first, each from its end, and the full set at last. So
//! each page is written once, in its last state.

use std::sync::atomic::{AtomicU64, Ordering};

use tdekit_backup_media::payload::LogPages;

use super::RestoreOutcome;
use super::opened::{BlockReader, OpenSet};
use super::restore::{RESERVED_AT, base};
use crate::error::At;
use crate::progress::Meter;
use crate::{PageSink, Run, RunError};

/// The pages that have been written, one bit each.
pub(super) struct Written {
    bits: Vec<AtomicU64>,
    pages: u32,
}

impl Written {
    fn new(pages: u32) -> Self {
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(usize::MAX);
        Self { bits: (0..words).map(|_| AtomicU64::new(0)).collect(), pages }
    }

    /// Marks a page; returns false if it was marked before, or is none of the database.
    fn mark(&self, page: u32) -> bool {
        let Some(at) = page.checked_sub(1).filter(|at| *at < self.pages) else { return false };
        let bit = 1 << (at % 64);
        let word = usize::try_from(at / 64).ok().and_then(|word| self.bits.get(word));
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Writes those of consecutive pages that were not written.
    pub(super) fn write_rest(
        &self,
        sink: &dyn PageSink,
        (first, page_len): (u32, usize),
        bytes: &[u8],
    ) -> Result<(), RunError> {
        let mut run: Option<(u32, usize)> = None;
        let count = bytes.len() / page_len.max(1);
        let put = |run: &mut Option<(u32, usize)>, end: usize| match run.take() {
            Some((number, from)) => {
                sink.write(number, bytes.get(from..end * page_len).unwrap_or_default())
            }
            None => Ok(()),
        };
        for (number, at) in (first..).zip(0..count) {
            if !self.mark(number) {
                put(&mut run, at)?;
            } else if run.is_none() {
                run = Some((number, at * page_len));
            }
        }
        put(&mut run, count)
    }

    /// Writes zeros for pages that no set holds: SQLite does not write those that it adds to the
    /// list of free pages, nor that of the lock bytes.
    fn fill(&self, sink: &dyn PageSink, page_len: usize) -> Result<(), RunError> {
        let zeros = vec![0; page_len];
        for page in 1..=self.pages {
            if self.mark(page) {
                sink.write(page, &zeros)?;
            }
        }
        Ok(())
    }
}

/// Restores `sets`, a full set and log sets, up to a transaction of the last one: its number, and
/// the pages of the database behind it.
pub(super) fn database(
    sets: &[&OpenSet<'_>],
    (transaction, pages): (u32, u32),
    sink: &mut dyn PageSink,
    run: &Run<'_>,
) -> Result<RestoreOutcome, RunError> {
    let Some((full, logs)) = sets.split_first() else {
        return Err(RunError::Internal("nothing to restore"));
    };
    let page_size = full.header.source.page_size();
    let page_len = usize::try_from(page_size).unwrap_or(usize::MAX);
    sink.begin(page_size, pages.into())?;
    let written = Written::new(pages);
    let total = sets.iter().map(|set| set.data_bytes()).sum();
    let meter = Meter::new(run, Some(total));
    let mut reserved = None;
    let mut cut = Some(transaction);
    for log in logs.iter().rev() {
        let mut write = |page: u32, bytes: &[u8]| {
            if !written.mark(page) {
                return Ok(());
            }
            if page == 1 {
                reserved = bytes.get(RESERVED_AT).copied();
            }
            sink.write(page, bytes)
        };
        replay(log, cut.take(), &meter, &mut write)?;
    }
    let of_full = base(full, (sink, pages, &written), &meter, run)?;
    written.fill(sink, page_len)?;
    sink.finish()?;
    Ok(RestoreOutcome {
        positions: vec![1],
        bytes: u64::from(pages) * u64::from(page_size),
        pages: pages.into(),
        page_size,
        reserved_bytes: reserved.unwrap_or(of_full.reserved),
        healed_blocks: of_full.healed,
    })
}

/// Writes the pages of one log set, up to a transaction of it: its number, and the pages of the
/// database behind it.
pub(super) fn log(
    set: &OpenSet<'_>,
    (transaction, pages): (u32, u32),
    sink: &mut dyn PageSink,
    run: &Run<'_>,
) -> Result<(), RunError> {
    sink.begin(set.header.source.page_size(), pages.into())?;
    let written = Written::new(pages);
    let meter = Meter::new(run, Some(set.data_bytes()));
    let mut write = |page: u32, bytes: &[u8]| match written.mark(page) {
        true => sink.write(page, bytes),
        false => Ok(()),
    };
    replay(set, Some(transaction), &meter, &mut write)?;
    sink.finish()
}

/// Takes a page, by its number.
type Write<'a> = dyn FnMut(u32, &[u8]) -> Result<(), RunError> + 'a;

/// Passes on the pages of a log set from its last one, without those of transactions behind `cut`.
fn replay(
    set: &OpenSet<'_>,
    cut: Option<u32>,
    meter: &Meter<'_>,
    write: &mut Write<'_>,
) -> Result<(), RunError> {
    let name = set.families.first().and_then(|family| family.copies.first());
    let media = name.map_or("", |(volume, _)| volume.name.as_str());
    let at = At { media, position: set.position };
    let wrong = || RunError::Damaged {
        media: media.to_owned(),
        what: format!("set {}", set.position),
        reason: "its blocks do not hold the transactions that header and index count".to_owned(),
    };
    let transactions = set.log_transactions().ok_or_else(wrong)?;
    let page_size = set.header.source.page_size();
    let mut reader = BlockReader::new(set)?;
    let mut payload = Vec::new();
    // The transaction that the block behind begins with; the last block ends the last one.
    let mut due = transactions.checked_add(1).ok_or_else(wrong)?;
    let mut is_last = true;
    for number in (0..set.data_blocks()).rev() {
        const NONE: RunError = RunError::Internal("a block of no entry");
        let block = set.data_block(number).ok_or(NONE)?;
        let entry = *set.entry(block).ok_or(NONE)?;
        meter.take(entry.payload_len.into())?;
        reader.read(set, block, &mut payload)?;
        let pages = LogPages::decode(block.1.into(), &payload, page_size);
        let pages = pages.map_err(|error| at.error(error))?;
        let follows = entry.first_page.checked_add(pages.ends()) == Some(due);
        if !follows || (is_last && !pages.is_whole()) {
            return Err(wrong());
        }
        let mut current = due;
        for (entry, bytes) in pages.iter().rev() {
            if entry.end.is_some() {
                current -= 1;
            }
            if cut.is_none_or(|cut| current <= cut) {
                write(entry.page, bytes)?;
            }
        }
        meter.add(entry.payload_len.into(), entry.block_len());
        (due, is_last) = (entry.first_page, false);
    }
    if due == 1 { Ok(()) } else { Err(wrong()) }
}
