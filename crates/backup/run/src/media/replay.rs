//! Restoring a full set and the log sets behind it.
//!
//! Log sets are read from the last to the first, each from its end, and the full set at last. So
//! each page is written once, in its last state.

use std::sync::Arc;

use tdekit_backup_media::payload::LogPages;
use tdekit_sqlite_page::RESERVE_LEN;

use super::RestoreOutcome;
use super::opened::{BlockReader, OpenSet};
use super::restore::base;
use super::states::{Object, States};
use crate::error::At;
use crate::progress::Meter;
use crate::{PageSink, Run, RunError};

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
    sink.begin(page_size, pages.into())?;
    let states = States::new(&*sink, page_size, pages);
    let total = sets.iter().map(|set| set.data_bytes()).sum();
    let meter = Meter::new(run, Some(total));
    let mut cut = Some(transaction);
    for log in logs.iter().rev() {
        replay(log, cut.take(), &meter, &states)?;
    }
    let healed_blocks = base(full, (&*sink, pages, &states), &meter, run)?;
    states.fill()?;
    let (reserved_bytes, compared_pages) = (states.reserved(), states.compared());
    drop(states);
    sink.finish()?;
    Ok(RestoreOutcome {
        positions: vec![1],
        bytes: u64::from(pages) * u64::from(page_size),
        pages: pages.into(),
        page_size,
        reserved_bytes,
        healed_blocks,
        compared_pages,
    })
}

/// Writes the pages of one log set, up to a transaction of it: its number, and the pages of the
/// database behind it. The sink has the state before the set. Returns the number of pages that were
/// compared with the ones that were shipped.
pub(super) fn log(
    set: &OpenSet<'_>,
    (transaction, pages): (u32, u32),
    sink: &mut dyn PageSink,
    run: &Run<'_>,
) -> Result<u64, RunError> {
    let page_size = set.header.source.page_size();
    sink.begin(page_size, pages.into())?;
    let states = States::new(&*sink, page_size, pages);
    let meter = Meter::new(run, Some(set.data_bytes()));
    replay(set, Some(transaction), &meter, &states)?;
    let encrypted = set.header.database_id != [0; 16];
    states.finish_on_sink(if encrypted { RESERVE_LEN } else { 0 })?;
    let compared = states.compared();
    drop(states);
    sink.finish()?;
    Ok(compared)
}

/// Goes back over the pages of a log set, without those of transactions behind `cut`.
fn replay(
    set: &OpenSet<'_>,
    cut: Option<u32>,
    meter: &Meter<'_>,
    states: &States<'_>,
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
    let (page_size, form) = (set.header.source.page_size(), set.log_form());
    let in_archive = set.log_link().map_or(0, |link| link.number);
    let object = Arc::new(Object { name: media.to_owned(), number: in_archive });
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
        let pages = LogPages::decode(block.1.into(), &payload, page_size, form);
        let pages = pages.map_err(|error| at.error(error))?;
        let follows = entry.first_page.checked_add(pages.ends()) == Some(due);
        if !follows || (is_last && !pages.is_whole()) {
            return Err(wrong());
        }
        let mut current = due;
        for (entry, page) in pages.iter().rev() {
            current -= u32::from(entry.end.is_some());
            if cut.is_some_and(|cut| current > cut) {
                continue;
            }
            if let Some(end) = entry.end {
                states.go_before(end.pages)?;
            }
            states.add(entry.page, &page, (&object, current))?;
        }
        meter.add(entry.payload_len.into(), entry.block_len());
        (due, is_last) = (entry.first_page, false);
    }
    if due == 1 { Ok(()) } else { Err(wrong()) }
}
