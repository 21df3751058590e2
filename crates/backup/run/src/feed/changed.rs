//! Pages that differ from those of a full set, according to their fingerprints, and the new page
//! map.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};

use tdekit_backup_media::payload::{ChangedPagesBuilder, MAP_PAGES_PER_BLOCK, put_page_map};

use super::{Feed, GROUP, Job, Numbers, Print, Scratch};
use crate::RunError;
use crate::error::At;
use crate::output::{Fate, lock, wait};
use crate::progress::Meter;
use crate::snapshot::Snapshot;

/// Maximum number of blocks that wait for a thread to seal them, and of ranges that wait for
/// earlier ones.
const BACKLOG: usize = 4;
/// Number of the base's map blocks that are kept.
const KEPT_GROUPS: usize = 2;

/// The page map of the base, read block by block.
pub(crate) struct BaseMap<'a> {
    load: &'a (dyn Fn(u32) -> Result<Vec<Print>, RunError> + Sync),
    /// Pages of the base.
    pages: u32,
    kept: Mutex<BTreeMap<u32, Arc<Vec<Print>>>>,
}

impl<'a> BaseMap<'a> {
    /// Makes a map of a base with this number of pages; `load` returns the fingerprints of map
    /// block `n`.
    pub(crate) fn new(
        pages: u32,
        load: &'a (dyn Fn(u32) -> Result<Vec<Print>, RunError> + Sync),
    ) -> Self {
        Self { load, pages, kept: Mutex::default() }
    }

    /// Returns the fingerprints of map block `group`; none after the base's last page.
    fn group(&self, group: u32) -> Result<Arc<Vec<Print>>, RunError> {
        if u64::from(group) * u64::from(GROUP) >= u64::from(self.pages) {
            return Ok(Arc::default());
        }
        let mut kept = lock(&self.kept);
        if let Some(prints) = kept.get(&group) {
            return Ok(Arc::clone(prints));
        }
        let prints = Arc::new((self.load)(group)?);
        while kept.len() >= KEPT_GROUPS {
            kept.pop_first();
        }
        kept.insert(group, Arc::clone(&prints));
        Ok(prints)
    }
}

/// Produces blocks of changed pages and of the new page map.
///
/// Threads compare ranges of pages in any order; their results are collected in order.
pub(crate) struct ChangedFeed<'a> {
    snapshot: &'a Snapshot,
    base: BaseMap<'a>,
    /// True if the set has its own page map.
    page_map: bool,
    range_pages: u32,
    ranges: u32,
    state: Mutex<State>,
    moved: Condvar,
    meter: &'a Meter<'a>,
    fate: &'a Fate,
}

struct State {
    numbers: Numbers,
    /// The next range to compare.
    next: u32,
    /// The next range to collect.
    due: u32,
    found: BTreeMap<u32, Found>,
    changed: ChangedPagesBuilder,
    prints: Vec<Print>,
    next_map_page: u32,
    queue: VecDeque<(Job, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    changed_pages: u64,
    ended: bool,
}

/// The pages of a range.
struct Found {
    prints: Vec<Print>,
    numbers: Vec<u32>,
    pages: Vec<u8>,
}

impl<'a> ChangedFeed<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        base: BaseMap<'a>,
        (families, block_size, page_map): (u16, u32, bool),
        meter: &'a Meter<'a>,
        fate: &'a Fate,
    ) -> Self {
        let page_size = snapshot.page_size();
        // A range is within one map block.
        let range_pages = (block_size / page_size).max(1);
        let state = State {
            numbers: Numbers::new(families),
            next: 0,
            due: 0,
            found: BTreeMap::new(),
            changed: ChangedPagesBuilder::new(block_size, page_size),
            prints: Vec::new(),
            next_map_page: 1,
            queue: VecDeque::new(),
            spare: Vec::new(),
            changed_pages: 0,
            ended: false,
        };
        Self {
            snapshot,
            base,
            page_map,
            range_pages,
            ranges: snapshot.pages().div_ceil(range_pages),
            state: Mutex::new(state),
            moved: Condvar::new(),
            meter,
            fate,
        }
    }

    /// Returns the number of pages in the set.
    pub(crate) fn changed_pages(&self) -> u64 {
        lock(&self.state).changed_pages
    }

    fn look(&self, range: u32, scratch: &mut Scratch) -> Result<Found, RunError> {
        let page_len = self.snapshot.page_len();
        let first = range * self.range_pages + 1;
        let count = self.range_pages.min(self.snapshot.pages() - first + 1);
        let len = page_len.saturating_mul(usize::try_from(count).unwrap_or(usize::MAX));
        self.meter.take(len as u64)?;
        scratch.pages.resize(len, 0);
        self.snapshot.read(first, &mut scratch.pages)?;
        let prints = scratch.prints(&scratch.pages, page_len)?;
        let (group, at) = group_of(first);
        let base = self.base.group(group)?;
        let mut found = Found { prints: Vec::new(), numbers: Vec::new(), pages: Vec::new() };
        let pages = scratch.pages.chunks_exact(page_len).zip(first..);
        for (offset, ((page, number), print)) in pages.zip(&prints).enumerate() {
            if base.get(at + offset) != Some(print) {
                found.numbers.push(number);
                found.pages.extend_from_slice(page);
            }
        }
        found.prints = prints;
        self.meter.add(len as u64, 0);
        Ok(found)
    }

    /// Collects all ranges that are due.
    fn gather(&self, state: &mut State) -> Result<(), RunError> {
        while let Some(found) = state.found.remove(&state.due) {
            state.due += 1;
            state.changed_pages += found.numbers.len() as u64;
            let pages = found.pages.chunks_exact(self.snapshot.page_len());
            for (number, page) in found.numbers.iter().zip(pages) {
                state.changed.push(*number, page).map_err(failed)?;
                if state.changed.is_full() {
                    state.queue_changed();
                }
            }
            if self.page_map {
                state.prints.extend_from_slice(&found.prints);
            }
            if state.prints.len() >= MAP_PAGES_PER_BLOCK {
                state.queue_map()?;
            }
        }
        if state.due == self.ranges && !state.ended {
            state.ended = true;
            if !state.changed.is_empty() {
                state.queue_changed();
            }
            if !state.prints.is_empty() {
                state.queue_map()?;
            }
        }
        Ok(())
    }
}

impl State {
    fn queue_changed(&mut self) {
        let mut payload = self.spare.pop().unwrap_or_default();
        let first = self.changed.finish(&mut payload);
        let job = self.numbers.data(first);
        self.queue.push_back((job, payload));
    }

    fn queue_map(&mut self) -> Result<(), RunError> {
        let mut payload = self.spare.pop().unwrap_or_default();
        let len = self.prints.len().min(MAP_PAGES_PER_BLOCK);
        let prints: Vec<Print> = self.prints.drain(..len).collect();
        put_page_map(self.next_map_page, &prints, &mut payload).map_err(failed)?;
        let job = self.numbers.map(self.next_map_page);
        self.next_map_page += u32::try_from(len).unwrap_or(0);
        self.queue.push_back((job, payload));
        Ok(())
    }
}

impl Feed for ChangedFeed<'_> {
    fn next(&self, scratch: &mut Scratch) -> Result<Option<Job>, RunError> {
        let mut state = lock(&self.state);
        loop {
            self.fate.check()?;
            if let Some((job, payload)) = state.queue.pop_front() {
                let spare = std::mem::replace(&mut scratch.payload, payload);
                state.spare.push(spare);
                return Ok(Some(job));
            }
            if state.due == self.ranges {
                self.gather(&mut state)?;
                if state.queue.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            let ahead = usize::try_from(state.next - state.due).unwrap_or(usize::MAX);
            if state.next < self.ranges && ahead < BACKLOG + self.threads_ahead() {
                let range = state.next;
                state.next += 1;
                drop(state);
                let found = self.look(range, scratch)?;
                state = lock(&self.state);
                state.found.insert(range, found);
                self.gather(&mut state)?;
                self.moved.notify_all();
            } else {
                state = wait(&self.moved, state);
            }
        }
    }
}

impl ChangedFeed<'_> {
    /// Returns the maximum number of ranges in progress.
    fn threads_ahead(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

/// Returns the map block of a page, and its position there.
fn group_of(page: u32) -> (u32, usize) {
    ((page - 1) / GROUP, usize::try_from((page - 1) % GROUP).unwrap_or(0))
}

fn failed(error: tdekit_backup_media::MediaError) -> RunError {
    At { media: "changed pages", position: 0 }.error(error)
}
