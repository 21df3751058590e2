//! Restoring databases and streams.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tdekit_backup_media::payload::{ChangedPages, PAGES_HEAD_LEN, Pages};
use tdekit_backup_media::{BlockKind, SetKind};

use super::RestoreOutcome;
use super::opened::{BlockReader, OpenSet};
use super::states::States;
use crate::buffer::{ALIGN, Aligned};
use crate::error::At;
use crate::output::{Fate, InOrder, Pool, lock};
use crate::pipeline::{run_threads, threads};
use crate::progress::Meter;
use crate::{PageSink, Run, RunError};

/// Offset of "reserved bytes" in page 1.
pub(super) const RESERVED_AT: usize = 20;

/// State that threads share while pages are restored.
struct Restoring<'a> {
    set: &'a OpenSet<'a>,
    sink: &'a dyn PageSink,
    page_size: u32,
    /// Number of pages of the restored state: pages of a base beyond it are omitted.
    pages: u32,
    next: AtomicU64,
    /// Number of written pages that a base does not have.
    beyond_base: AtomicU64,
    base_pages: u32,
    reserved: &'a AtomicU8,
    healed: &'a AtomicU64,
    /// Pages that were written in a newer state already.
    written: Option<&'a States<'a>>,
}

/// Restores a full set, and what follows it: a differential one, or log backups in their order.
pub(super) fn database(
    chain: &[&OpenSet<'_>],
    sink: &mut dyn PageSink,
    run: &Run<'_>,
) -> Result<RestoreOutcome, RunError> {
    let last = chain.last().ok_or(RunError::Internal("nothing to restore"))?;
    let (page_size, pages) = (last.header.source.page_size(), last.header.source.pages());
    let bytes = u64::from(pages) * u64::from(page_size);
    sink.begin(page_size, pages.into())?;
    let total = chain.iter().map(|set| set.data_bytes()).sum();
    let meter = Meter::new(run, Some(total));
    let (reserved, healed) = (AtomicU8::new(0), AtomicU64::new(0));
    let mut base_pages = 0;
    for each in chain {
        let place = Place { pages, base_pages, reserved: &reserved, healed: &healed };
        set(each, (&*sink, place), &meter, run)?;
        base_pages = each.header.source.pages();
    }
    sink.finish()?;
    Ok(RestoreOutcome {
        positions: chain.iter().map(|set| set.position).collect(),
        bytes,
        pages: pages.into(),
        page_size,
        reserved_bytes: reserved.into_inner(),
        healed_blocks: healed.into_inner(),
        compared_pages: 0,
    })
}

/// The state that a set is restored onto, and what is counted.
pub(super) struct Place<'a> {
    /// Pages of the restored state.
    pub(super) pages: u32,
    /// Pages of the state before.
    pub(super) base_pages: u32,
    /// "Reserved bytes" of page 1.
    pub(super) reserved: &'a AtomicU8,
    /// Blocks that one mirror lacked and another supplied.
    pub(super) healed: &'a AtomicU64,
}

/// Writes the pages of one set; the sink has the state that it stands on.
pub(super) fn set(
    set: &OpenSet<'_>,
    (sink, place): (&dyn PageSink, Place<'_>),
    meter: &Meter<'_>,
    run: &Run<'_>,
) -> Result<(), RunError> {
    let fate = Fate::default();
    let shared = Restoring {
        set,
        sink,
        page_size: set.header.source.page_size(),
        pages: place.pages,
        next: AtomicU64::new(0),
        beyond_base: AtomicU64::new(0),
        base_pages: place.base_pages,
        reserved: place.reserved,
        healed: place.healed,
        written: None,
    };
    run_threads(restoring_threads(run), &fate, &|| shared.work(meter, &fate))?;
    shared.check_coverage(set.header.source.pages())
}

/// Writes those pages of a full set that are not in `states`, or on which pages there stand, for a
/// database of this many pages. Returns the number of blocks that one mirror lacked and another
/// supplied.
pub(super) fn base(
    set: &OpenSet<'_>,
    (sink, pages, states): (&dyn PageSink, u32, &States<'_>),
    meter: &Meter<'_>,
    run: &Run<'_>,
) -> Result<u64, RunError> {
    let (reserved, healed) = (AtomicU8::new(0), AtomicU64::new(0));
    let fate = Fate::default();
    let shared = Restoring {
        set,
        sink,
        page_size: set.header.source.page_size(),
        pages,
        next: AtomicU64::new(0),
        beyond_base: AtomicU64::new(0),
        base_pages: 0,
        reserved: &reserved,
        healed: &healed,
        written: Some(states),
    };
    run_threads(restoring_threads(run), &fate, &|| shared.work(meter, &fate))?;
    shared.check_coverage(set.header.source.pages())?;
    Ok(healed.into_inner())
}

/// Returns the number of threads. They write what they opened, so while some wait for the disk,
/// others use the processor.
fn restoring_threads(run: &Run<'_>) -> usize {
    let threads = threads(run);
    if run.threads == 0 { threads * 2 } else { threads }
}

impl Restoring<'_> {
    fn work(&self, meter: &Meter<'_>, fate: &Fate) -> Result<(), RunError> {
        let mut reader = BlockReader::new(self.set)?;
        let block_size = usize::try_from(self.set.header.block_size).unwrap_or(usize::MAX);
        // Makes the pages of a full set's block aligned, after the payload's head.
        let head = ALIGN - PAGES_HEAD_LEN;
        let mut buffer = Aligned::new(ALIGN + block_size);
        loop {
            fate.check()?;
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.set.data_blocks() {
                return Ok(());
            }
            const NONE: RunError = RunError::Internal("a block of no entry");
            let block = self.set.data_block(number).ok_or(NONE)?;
            let entry = *self.set.entry(block).ok_or(NONE)?;
            meter.take(entry.payload_len.into())?;
            let len = usize::try_from(entry.payload_len).unwrap_or(usize::MAX);
            let payload = buffer.get_mut(head..head.saturating_add(len)).ok_or(NONE)?;
            if reader.read_into(self.set, block, payload)? {
                self.healed.fetch_add(1, Ordering::Relaxed);
            }
            self.write(block, entry.first_page, payload)?;
            meter.add(entry.payload_len.into(), entry.block_len());
        }
    }

    fn write(&self, block: (usize, u32), first_page: u32, payload: &[u8]) -> Result<(), RunError> {
        let name = self.set.families.get(block.0).and_then(|family| family.copies.first());
        let media = name.map_or("", |(volume, _)| volume.name.as_str());
        let at = At { media, position: self.set.position };
        let index = u64::from(block.1);
        let misplaced = || {
            let what = format!("set {}", self.set.position);
            let reason = format!("block {index} does not hold the pages that the index says");
            RunError::Damaged { media: media.to_owned(), what, reason }
        };
        if let SetKind::Full = self.set.header.kind {
            let pages = Pages::decode(index, payload, self.page_size);
            let pages = pages.map_err(|error| at.error(error))?;
            if pages.first_page != first_page {
                return Err(misplaced());
            }
            return self.write_pages(pages.first_page, pages.bytes);
        }
        let pages = ChangedPages::decode(index, payload, self.page_size);
        let pages = pages.map_err(|error| at.error(error))?;
        let (first, last) = pages.bounds();
        if first != first_page || last > self.set.header.source.pages() {
            return Err(misplaced());
        }
        for (number, page) in pages.iter() {
            self.write_pages(number, page)?;
        }
        Ok(())
    }

    /// Writes consecutive pages, except those beyond the restored state.
    fn write_pages(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        let page_len = usize::try_from(self.page_size).unwrap_or(usize::MAX);
        let room = u64::from(self.pages) + 1;
        let wanted = room.saturating_sub(first.into());
        let len = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_mul(page_len);
        let bytes = bytes.get(..len).unwrap_or(bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        if first == 1 {
            let reserved = bytes.get(RESERVED_AT).copied().unwrap_or(0);
            self.reserved.store(reserved, Ordering::Relaxed);
        }
        let end = u64::from(first) + (bytes.len() / page_len) as u64;
        let new = end.saturating_sub(u64::from(self.base_pages.max(first - 1)) + 1);
        self.beyond_base.fetch_add(new, Ordering::Relaxed);
        match self.written {
            None => self.sink.write(first, bytes),
            Some(states) => states.write_rest(first, bytes),
        }
    }

    /// Pages that the base lacks must all be in the set: no hole may be taken for pages of zeros.
    fn check_coverage(&self, set_pages: u32) -> Result<(), RunError> {
        let due = set_pages.min(self.pages).saturating_sub(self.base_pages);
        if self.beyond_base.load(Ordering::Relaxed) == u64::from(due) {
            return Ok(());
        }
        let name = self.set.families.first().and_then(|family| family.copies.first());
        Err(RunError::Damaged {
            media: name.map_or_else(String::new, |(volume, _)| volume.name.clone()),
            what: format!("set {}", self.set.position),
            reason: "it lacks pages of the database".to_owned(),
        })
    }
}

/// Restores a stream: blocks are opened by several threads and written in order.
pub(super) fn stream(
    set: &OpenSet<'_>,
    out: &mut (dyn Write + Send),
    run: &Run<'_>,
) -> Result<RestoreOutcome, RunError> {
    let threads = threads(run);
    let block_size = usize::try_from(set.header.block_size).unwrap_or(usize::MAX);
    let pool = Pool::new(threads * 2 + 1, block_size);
    let (fate, order) = (Fate::default(), InOrder::new());
    let (next, healed, bytes) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let meter = Meter::new(run, Some(set.data_bytes()));
    let out = Mutex::new(out);
    let pass = |buffer: Vec<u8>| {
        let written = lock(&out).write_all(&buffer);
        bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        pool.give(buffer);
        written.map_err(|source| RunError::Stream { source })
    };
    let work = || {
        let mut reader = BlockReader::new(set)?;
        loop {
            // Before the number: the block that all others wait for always has a buffer.
            let mut buffer = pool.take(&fate)?;
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= set.data_blocks() {
                pool.give(buffer);
                return Ok(());
            }
            const NONE: RunError = RunError::Internal("a block of no entry");
            let block = set.data_block(number).ok_or(NONE)?;
            let entry = set.entry(block).filter(|entry| entry.kind == BlockKind::Data);
            let entry = *entry.ok_or(NONE)?;
            meter.take(entry.payload_len.into())?;
            if reader.read(set, block, &mut buffer)? {
                healed.fetch_add(1, Ordering::Relaxed);
            }
            order.submit(number, buffer, pass)?;
            meter.add(entry.payload_len.into(), entry.block_len());
        }
    };
    run_threads(threads, &fate, &work)?;
    lock(&out).flush().map_err(|source| RunError::Stream { source })?;
    Ok(RestoreOutcome {
        positions: vec![set.position],
        bytes: bytes.into_inner(),
        healed_blocks: healed.into_inner(),
        ..RestoreOutcome::default()
    })
}
