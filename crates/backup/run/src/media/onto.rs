//! Restoring a log backup alone, onto a database that is as an earlier set left it.
//!
//! The pages that the set does not hold are the database's own. Each of them must be the one of the
//! set's state, by its fingerprint in the set's page map: nothing else shows that nobody changed
//! the database since, and that no set is missing in between.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tdekit_key_crypto::fingerprint::PageFingerprint;

use super::RestoreOutcome;
use super::base::PageMap;
use super::opened::OpenSet;
use super::restore::{self, Place};
use crate::feed::GROUP;
use crate::progress::Meter;
use crate::snapshot::Snapshot;
use crate::{PageSink, Run, RunError};

/// Bytes that are copied in one step.
const STEP_BYTES: u32 = 1 << 20;

/// The outcome of restoring a set onto a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onto {
    /// The database is as the set says.
    Restored(RestoreOutcome),
    /// A page, neither in the set nor changed by it, is another one in the database.
    Differs {
        /// Its number.
        page: u32,
    },
}

/// Page numbers, one bit each.
struct Pages(Vec<AtomicU64>);

impl Pages {
    fn new(pages: u32) -> Self {
        let words = usize::try_from(pages / 64 + 1).unwrap_or(usize::MAX);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    fn word(&self, page: u32) -> Option<(&AtomicU64, u64)> {
        let word = usize::try_from(page / 64).ok().and_then(|word| self.0.get(word))?;
        Some((word, 1 << (page % 64)))
    }

    fn put(&self, page: u32) {
        if let Some((word, bit)) = self.word(page) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn has(&self, page: u32) -> bool {
        self.word(page).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }
}

/// A sink that notes the pages that it is given.
struct Noting<'a> {
    sink: &'a dyn PageSink,
    page_len: usize,
    given: Pages,
}

impl PageSink for Noting<'_> {
    fn begin(&mut self, _: u32, _: u64) -> Result<(), RunError> {
        Err(RunError::Internal("a sink that was begun already"))
    }

    fn write(&self, first: u32, bytes: &[u8]) -> Result<(), RunError> {
        (first..).zip(bytes.chunks(self.page_len)).for_each(|(page, _)| self.given.put(page));
        self.sink.write(first, bytes)
    }

    fn finish(&mut self) -> Result<(), RunError> {
        Err(RunError::Internal("a sink that others finish"))
    }
}

/// Restores a set onto the pages of a database. The sink is finished only where the database is
/// then as the set says.
pub(super) fn database(
    set: &OpenSet<'_>,
    ground: &Snapshot,
    sink: &mut dyn PageSink,
    run: &Run<'_>,
) -> Result<Onto, RunError> {
    let (page_size, pages) = (set.header.source.page_size(), set.header.source.pages());
    if ground.page_size() != page_size {
        return Ok(Onto::Differs { page: 1 });
    }
    sink.begin(page_size, pages.into())?;
    let ground_bytes = u64::from(ground.pages().min(pages)) * u64::from(page_size);
    let meter = Meter::new(run, Some(ground_bytes + set.data_bytes()));
    let other = lay(set, ground, &*sink, &meter)?;
    let noting = Noting { sink: &*sink, page_len: ground.page_len(), given: Pages::new(pages) };
    let (reserved, healed) = (AtomicU8::new(0), AtomicU64::new(0));
    let place = Place { pages, base_pages: ground.pages(), reserved: &reserved, healed: &healed };
    restore::set(set, (&noting, place), &meter, run)?;
    if let Some(page) = other.into_iter().find(|page| !noting.given.has(*page)) {
        return Ok(Onto::Differs { page });
    }
    sink.finish()?;
    Ok(Onto::Restored(RestoreOutcome {
        positions: vec![set.position],
        bytes: u64::from(pages) * u64::from(page_size),
        pages: pages.into(),
        page_size,
        reserved_bytes: reserved.into_inner(),
        healed_blocks: healed.into_inner(),
        compared_pages: 0,
    }))
}

/// Writes the database's pages to the sink. Returns those that are not the ones of the set's state.
fn lay(
    set: &OpenSet<'_>,
    ground: &Snapshot,
    sink: &dyn PageSink,
    meter: &Meter<'_>,
) -> Result<Vec<u32>, RunError> {
    let map = PageMap::of(set);
    let fingerprint = PageFingerprint::new(PageMap::key(set)?.expose())?;
    let pages = ground.pages().min(set.header.source.pages());
    let step = (STEP_BYTES / ground.page_size().max(1)).max(1);
    let mut buffer = Vec::new();
    let (mut other, mut group, mut first) = (Vec::new(), None, 1);
    while first <= pages {
        // No step reaches beyond a block of the map.
        let number = (first - 1) / GROUP;
        let end = first.saturating_add(step).min(pages.saturating_add(1));
        let end = end.min((number + 1).saturating_mul(GROUP).saturating_add(1));
        let count = usize::try_from(end - first).unwrap_or(0);
        buffer.resize(count.saturating_mul(ground.page_len()), 0);
        meter.take(buffer.len() as u64)?;
        ground.read(first, &mut buffer)?;
        if group.as_ref().is_none_or(|(at, _)| *at != number) {
            group = Some((number, map.prints(set, number)?));
        }
        let prints = group.as_ref().map_or(&[][..], |(_, prints)| prints);
        let from = usize::try_from((first - 1) % GROUP).unwrap_or(0);
        for (page, (number, at)) in
            buffer.chunks_exact(ground.page_len()).zip((first..end).zip(from..))
        {
            if prints.get(at) != Some(&fingerprint.of(page)?) {
                other.push(number);
            }
        }
        sink.write(first, &buffer)?;
        meter.add(buffer.len() as u64, 0);
        first = end;
    }
    Ok(other)
}
