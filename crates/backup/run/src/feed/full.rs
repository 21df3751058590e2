//! All pages of a database, and their page map.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};

use tdekit_backup_media::payload::{PAGES_HEAD_LEN, put_page_map, put_pages_head};

use super::{Feed, GROUP, Job, Numbers, Print, Scratch};
use crate::RunError;
use crate::error::At;
use crate::output::{Fate, lock, wait};
use crate::progress::Meter;
use crate::snapshot::Snapshot;

/// Produces blocks of consecutive pages, each map block after the blocks that it describes.
pub(crate) struct FullFeed<'a> {
    snapshot: &'a Snapshot,
    pages_per_block: u32,
    page_map: bool,
    claim: Mutex<Claim>,
    groups: Mutex<BTreeMap<u32, Group>>,
    completed: Condvar,
    meter: &'a Meter<'a>,
    fate: &'a Fate,
}

/// The next piece of work.
struct Claim {
    next_page: u32,
    next_group: u32,
    numbers: Numbers,
}

/// Fingerprints of a map block's pages.
struct Group {
    prints: Vec<Print>,
    missing: usize,
}

enum Task {
    Pages(Job, u32),
    Map(Job, u32),
}

impl<'a> FullFeed<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        (families, pages_per_block, page_map): (u16, u32, bool),
        meter: &'a Meter<'a>,
        fate: &'a Fate,
    ) -> Self {
        let claim = Claim { next_page: 1, next_group: 0, numbers: Numbers::new(families) };
        Self {
            snapshot,
            pages_per_block: pages_per_block.max(1),
            page_map,
            claim: Mutex::new(claim),
            groups: Mutex::default(),
            completed: Condvar::new(),
            meter,
            fate,
        }
    }

    fn claim(&self) -> Option<Task> {
        let pages = self.snapshot.pages();
        let mut claim = lock(&self.claim);
        let group = claim.next_group;
        let first = group_first(group);
        let in_group = u64::from(first) <= u64::from(pages);
        let claimed = u64::from(claim.next_page) > group_end(group, pages);
        if self.page_map && in_group && claimed {
            claim.next_group += 1;
            return Some(Task::Map(claim.numbers.map(first), group));
        }
        let first = claim.next_page;
        if first > pages || first == 0 {
            return None;
        }
        let count = self.pages_per_block.min(pages - first + 1);
        // No database has 2^32 - 1 pages: SQLite's limit is lower.
        claim.next_page = first.saturating_add(count);
        let source_bytes = u64::from(count) * u64::from(self.snapshot.page_size());
        Some(Task::Pages(Job { source_bytes, ..claim.numbers.data(first) }, count))
    }

    fn put_pages(&self, job: &Job, count: u32, scratch: &mut Scratch) -> Result<(), RunError> {
        let page_len = self.snapshot.page_len();
        let len = page_len.saturating_mul(usize::try_from(count).unwrap_or(usize::MAX));
        self.meter.take(len as u64)?;
        scratch.payload.resize(PAGES_HEAD_LEN + len, 0);
        let (head, pages) = scratch.payload.split_at_mut(PAGES_HEAD_LEN);
        head.copy_from_slice(&put_pages_head(job.first_page));
        self.snapshot.read(job.first_page, pages)?;
        if self.page_map {
            let prints = scratch.prints(&scratch.payload[PAGES_HEAD_LEN..], page_len)?;
            self.put_prints(job.first_page, &prints);
        }
        Ok(())
    }

    fn put_prints(&self, first: u32, prints: &[Print]) {
        let pages = self.snapshot.pages();
        let mut groups = lock(&self.groups);
        for (print, number) in prints.iter().zip(first..) {
            let (group, at) = ((number - 1) / GROUP, (number - 1) % GROUP);
            let entry = groups.entry(group).or_insert_with(|| {
                let len = group_end(group, pages) + 1 - u64::from(group_first(group));
                let len = usize::try_from(len).unwrap_or(0);
                Group { prints: vec![[0; 16]; len], missing: len }
            });
            if let Some(place) = entry.prints.get_mut(usize::try_from(at).unwrap_or(0)) {
                *place = *print;
                entry.missing = entry.missing.saturating_sub(1);
            }
        }
        drop(groups);
        self.completed.notify_all();
    }

    /// Waits for the threads that have pages of the group, all of which were handed out.
    fn put_map(&self, group: u32, scratch: &mut Scratch) -> Result<(), RunError> {
        let mut groups = lock(&self.groups);
        while groups.get(&group).is_none_or(|group| group.missing > 0) {
            self.fate.check()?;
            groups = wait(&self.completed, groups);
        }
        let prints = groups.remove(&group).map(|group| group.prints).unwrap_or_default();
        drop(groups);
        put_page_map(group_first(group), &prints, &mut scratch.payload)
            .map_err(|error| At { media: "page map", position: 0 }.error(error))
    }
}

impl Feed for FullFeed<'_> {
    fn next(&self, scratch: &mut Scratch) -> Result<Option<Job>, RunError> {
        match self.claim() {
            None => Ok(None),
            Some(Task::Pages(job, count)) => {
                self.put_pages(&job, count, scratch)?;
                Ok(Some(job))
            }
            Some(Task::Map(job, group)) => {
                self.put_map(group, scratch)?;
                Ok(Some(job))
            }
        }
    }
}

/// Returns the first page of a map block.
fn group_first(group: u32) -> u32 {
    group.saturating_mul(GROUP).saturating_add(1)
}

/// Returns the last page of a map block.
fn group_end(group: u32, pages: u32) -> u64 {
    ((u64::from(group) + 1) * u64::from(GROUP)).min(pages.into())
}
