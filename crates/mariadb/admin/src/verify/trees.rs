//! The trees of a tablespace, and the kinds of its pages: the consistency of pages with each other.
//!
//! While a server writes, and after it was killed, pages in a file are of different ages. Those
//! that were not changed since a checkpoint are in their common state at that moment: each of them
//! has every earlier change and no later one. So nothing is concluded from a newer page, or from
//! one that could not be opened. A tree that may include such a page counts as not checked.

use std::collections::BTreeMap;

use tdekit_mariadb::datafile::{
    Format, IndexHeader, KIND_BLOB, KIND_BUFFERED, KIND_INDEX, KIND_INODES, KIND_INSTANT, KIND_MAP,
    KIND_SPATIAL, Layout, NO_PAGE, PageHeader, Place, SegmentLink, TRX_SYS_PAGE,
};

use super::lists::Lists;
use super::report::{Finding, TreesLeft};
use super::tree::Tree;
use crate::error::MariadbError;
use crate::redo::Checkpoint;

/// Maximum number of pages of a tablespace that are kept in memory, 32 bytes each.
const MAX_PAGES: u32 = 1 << 24;
/// The flag of a compressed page in its kind, in every format.
const COMPRESSED_MARK: u16 = 1 << 15;

/// Reasons why trees were not checked.
pub(super) const SAMPLE: &str = "a sample has not all of their pages";
/// As [`SAMPLE`].
pub(super) const NO_LOG: &str = "the redo log, which bounds the age of pages, was not read";
const LARGE: &str = "their tablespace has more than 16,777,216 pages";
pub(super) const NEWER: &str = "a page is newer than the server's last checkpoint";
const SHUT: &str = "a page was not opened, or is PAGE_COMPRESSED";
const FAULTY: &str = "a page has a finding of its own";
const PACKED: &str = "their rows are ROW_FORMAT=COMPRESSED";
pub(super) const CHANGING: &str = "their index seems to be being made or dropped";
pub(super) const BUFFER: &str = "it is the change buffer";

/// Tablespaces that differ in the kinds of their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    System,
    Undo,
    Table,
}

/// Reads a page again, as the server has it in memory; `None` if it is newer than the checkpoint,
/// or does not open.
pub(super) type Read<'a> = dyn FnMut(u32) -> Result<Option<Vec<u8>>, MariadbError> + 'a;

/// The facts by which the trees of a tablespace are judged.
pub(super) struct Ground<'a> {
    pub(super) layout: &'a Layout,
    pub(super) purpose: Purpose,
    /// True if nothing was logged after the checkpoint until all pages had been seen: no page can
    /// be newer.
    pub(super) is_settled: bool,
    pub(super) read: &'a mut Read<'a>,
}

impl Ground<'_> {
    /// Returns true if the tablespace has only trees and long values, and its pages' kinds are
    /// reliable: servers before MySQL 5.1 did not write all of them.
    fn has_only_trees(&self) -> bool {
        self.purpose == Purpose::Table && matches!(self.layout.format, Format::FullCrc32 { .. })
    }
}

/// The state of a page as seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Unseen,
    /// All its bytes are 0.
    Empty,
    /// It was not opened.
    Shut,
    /// It has a finding.
    Faulty,
    /// A page of the doublewrite buffer: a copy of another page, or never written.
    Copy,
    /// It was read, and is newer than the checkpoint.
    Newer,
    Read,
}

/// The properties of a page with which others must be consistent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub(super) index: u64,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) level: u16,
    pub(super) records: u16,
    pub(super) kind: u16,
    pub(super) what: What,
    pub(super) is_root: bool,
    pub(super) is_instant: bool,
    /// True if it is allocated according to the allocation map.
    pub(super) used: bool,
}

const UNSEEN: Note = Note {
    index: 0,
    prev: NO_PAGE,
    next: NO_PAGE,
    level: 0,
    records: 0,
    kind: 0,
    what: What::Unseen,
    is_root: false,
    is_instant: false,
    used: false,
};

impl Note {
    /// Returns true if the page claims to be part of a tree.
    pub(super) fn is_of_tree(&self) -> bool {
        matches!(self.kind, KIND_INDEX | KIND_SPATIAL | KIND_INSTANT)
    }

    /// As [`Self::is_of_tree`]; for a compressed page that is not known.
    fn may_be_of_tree(&self) -> bool {
        self.is_of_tree() || self.kind & COMPRESSED_MARK != 0
    }

    /// Returns the reason why nothing follows from the page.
    pub(super) fn blocks(&self) -> Option<&'static str> {
        match self.what {
            What::Read => None,
            What::Newer => Some(NEWER),
            What::Shut | What::Unseen => Some(SHUT),
            What::Empty | What::Faulty | What::Copy => Some(FAULTY),
        }
    }
}

/// The pages of a tablespace.
pub(super) struct Notes {
    pub(super) pages: Vec<Note>,
    pub(super) checkpoint: Checkpoint,
    /// The segments of each root.
    roots: BTreeMap<u32, [SegmentLink; 2]>,
    space: u32,
    /// Number of pages according to the first page.
    told: u32,
}

/// Result of the comparison.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) findings: Vec<Finding>,
    pub(super) checked: u64,
    pub(super) left: Vec<TreesLeft>,
}

impl Outcome {
    /// Makes the result if no tree was checked.
    pub(super) fn none(why: &'static str) -> Self {
        Self { left: vec![TreesLeft { why, trees: None }], ..Self::default() }
    }
}

impl Notes {
    /// Allocates memory for `count` pages of a tablespace; otherwise returns the reason.
    pub(super) fn new(
        layout: &Layout,
        count: u32,
        checkpoint: Checkpoint,
    ) -> Result<Self, &'static str> {
        let mut pages = Vec::new();
        if count > MAX_PAGES || pages.try_reserve_exact(count as usize).is_err() {
            return Err(LARGE);
        }
        pages.resize(count as usize, UNSEEN);
        let roots = BTreeMap::new();
        Ok(Self { pages, checkpoint, roots, space: layout.space, told: layout.pages })
    }

    /// Returns true if a page was cut off with the file's end, which is a separate finding.
    pub(super) fn lacks(&self, number: u32) -> bool {
        number < self.told && number as usize >= self.pages.len()
    }

    /// Records a page as it is in the file, and `opened`.
    pub(super) fn take(&mut self, number: u32, what: What, page: &[u8], opened: &[u8]) {
        let Some(note) = self.pages.get_mut(number as usize) else { return };
        let PageHeader { kind, lsn, prev, next } = PageHeader::of(page);
        *note = Note { kind, prev, next, what, ..UNSEEN };
        if what == What::Read && opened.is_empty() {
            note.what = What::Shut;
        }
        if note.what == What::Read && note.is_of_tree() {
            let header = IndexHeader::of(opened, self.space);
            (note.index, note.level) = (header.index, header.level);
            (note.records, note.is_root) = (header.records, header.is_root);
            note.is_instant = header.is_instant;
            if header.is_root {
                self.roots.insert(number, header.segments);
            }
        }
        if matches!(note.what, What::Read | What::Shut) && lsn > self.checkpoint.lsn {
            note.what = What::Newer;
        }
    }

    /// Judges the pages once all were seen.
    pub(super) fn judge(mut self, ground: &mut Ground<'_>) -> Result<Outcome, MariadbError> {
        let mut outcome = Outcome::default();
        if ground.is_settled {
            self.judge_lsns(&mut outcome.findings);
        }
        if let Some(why) = self.mark_used(ground, &mut outcome.findings)? {
            outcome.left.push(TreesLeft { why, trees: None });
            return Ok(outcome);
        }
        match self.lists(ground)? {
            Some(lists) => outcome.findings.extend(lists.judge()),
            None => outcome.left.push(TreesLeft { why: NEWER, trees: None }),
        }
        let of_map = outcome.findings.len();
        let unsettled = self.is_unsettled();
        self.mark_never_written(ground)?;
        self.judge_kinds(ground, &mut outcome.findings);
        self.judge_segments(ground, &mut outcome.findings)?;
        if unsettled && outcome.findings.len() > of_map {
            outcome.findings.truncate(of_map);
            outcome.left.push(TreesLeft { why: CHANGING, trees: None });
        }
        if self.used().any(|note| note.what == What::Shut && note.may_be_of_tree()) {
            outcome.left.push(TreesLeft { why: SHUT, trees: None });
        }
        // A page may be missing because it is in one of these.
        let hidden = self.used().filter(|note| note.what != What::Copy).find_map(Note::blocks);
        let hidden = hidden.or((self.told as usize > self.pages.len()).then_some(FAULTY));
        let mut left = BTreeMap::<&'static str, u64>::new();
        let told: Vec<_> = outcome.findings.iter().filter_map(|finding| finding.page).collect();
        let order = self.order();
        let index = |number: u32| self.pages[number as usize].index;
        for pages in order.chunk_by(|one, other| index(*one) == index(*other)) {
            let before = outcome.findings.len();
            let mut why = match ground.layout.format {
                Format::CompressedRows => Some(PACKED),
                _ => Tree::new(&self, hidden, pages).judge(ground.read, &mut outcome.findings)?,
            };
            let found = outcome.findings.split_off(before);
            let is_new = |one: &Finding| one.page.is_none_or(|page| !told.contains(&page));
            outcome.findings.extend(found.into_iter().filter(is_new));
            if unsettled && outcome.findings.len() > before {
                outcome.findings.truncate(before);
                why = Some(CHANGING);
            }
            match why {
                None => outcome.checked += 1,
                Some(why) => *left.entry(why).or_default() += 1,
            }
        }
        outcome.left.extend(left.into_iter().map(|(why, n)| TreesLeft { why, trees: Some(n) }));
        Ok(outcome)
    }

    /// Checks that no page is newer than the end of the log.
    fn judge_lsns(&mut self, findings: &mut Vec<Finding>) {
        for (number, note) in (0..).zip(&mut self.pages) {
            if note.what == What::Newer {
                findings.push(Finding::of_tree(number, "lsn", FUTURE.to_owned()));
                note.what = What::Faulty;
            }
        }
    }

    /// Returns the pages of trees, by their index, and from the highest level down.
    fn order(&self) -> Vec<u32> {
        let numbered = (0..).zip(&self.pages);
        let known = |note: &Note| matches!(note.what, What::Read | What::Newer);
        let of_trees = numbered
            .filter(|(_, note)| note.used && note.is_of_tree() && known(note))
            .map(|(number, _)| number);
        let mut order: Vec<u32> = of_trees.collect();
        order.sort_unstable_by_key(|number| {
            let note = &self.pages[*number as usize];
            (note.index, u16::MAX - note.level, *number)
        });
        order
    }

    fn used(&self) -> impl Iterator<Item = &Note> {
        self.pages.iter().filter(|note| note.used)
    }

    /// Returns true if the server may have been building an index at the checkpoint. It then
    /// allocates pages that it writes later; until then they are empty, or have their old content.
    /// The root is written last: it is an empty leaf until then.
    fn is_unsettled(&self) -> bool {
        let may_be_unfinished = |note: &Note| match note.what {
            What::Read => note.is_root && note.records == 0,
            What::Newer => note.is_root,
            What::Shut | What::Unseen | What::Faulty => note.may_be_of_tree(),
            What::Empty | What::Copy => false,
        };
        !self.checkpoint.at_rest && self.used().any(may_be_unfinished)
    }

    /// Marks the pages that are allocated according to the allocation map; returns the reason if it
    /// cannot. The map may be newer than the checkpoint, or faulty.
    fn mark_used(
        &mut self,
        ground: &mut Ground<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<&'static str>, MariadbError> {
        let layout = ground.layout;
        let first = self.pages.first().map(|note| note.what);
        if layout.lsn > self.checkpoint.lsn || first == Some(What::Newer) {
            return Ok(Some(if first == Some(What::Faulty) { FAULTY } else { NEWER }));
        }
        let step = layout.map_step();
        let mut first = 0;
        for part in self.pages.chunks_mut(step as usize) {
            if !layout.is_mapped(first) {
                break;
            }
            match part.first().map(|note| note.what) {
                Some(What::Empty) => {
                    findings.push(Finding::of_tree(first, "empty", EMPTY_MAP.to_owned()));
                    return Ok(Some(FAULTY));
                }
                Some(What::Faulty) => return Ok(Some(FAULTY)),
                _ => {}
            }
            let Some(map) = (ground.read)(first)? else { return Ok(Some(NEWER)) };
            for (number, note) in (first..).zip(part) {
                note.used = layout.is_used(&map, number);
            }
            first = first.saturating_add(step);
        }
        Ok(None)
    }

    /// Returns the lists of extents, with those of segments if all pages that describe segments
    /// were read. `None` if a page of the map is newer.
    fn lists(&self, ground: &mut Ground<'_>) -> Result<Option<Lists>, MariadbError> {
        let layout = ground.layout;
        let Some(first) = (ground.read)(0)? else { return Ok(None) };
        let mut lists = Lists::new(layout.space_lists(&first));
        let count = u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        for map_page in (0..count).step_by(layout.map_step() as usize) {
            if !layout.is_mapped(map_page) {
                break;
            }
            let Some(map) = (ground.read)(map_page)? else { return Ok(None) };
            lists.extents.extend(layout.extents(&map, map_page));
        }
        let mut segments = Vec::new();
        let mut read = 0;
        let of_inodes = |note: &Note| note.used && note.kind == KIND_INODES;
        for (number, _) in (0..).zip(&self.pages).filter(|(_, note)| of_inodes(note)) {
            if let Some(page) = (ground.read)(number)? {
                segments.extend(layout.segment_page(&page, number));
                read += 1;
            }
        }
        lists.segment_pages = (read == layout.inode_pages).then_some(segments);
        Ok(Some(lists))
    }

    /// The server allocates single pages to the doublewrite buffer only so that whole extents
    /// follow them, and does not write them.
    fn mark_never_written(&mut self, ground: &mut Ground<'_>) -> Result<(), MariadbError> {
        if ground.purpose != Purpose::System {
            return Ok(());
        }
        let mut single = None;
        if let Some(trx_sys) = (ground.read)(TRX_SYS_PAGE)? {
            let (number, at) = ground.layout.doublewrite_segment(&trx_sys);
            let inodes = (ground.read)(number)?;
            single = inodes.map(|inodes| ground.layout.single_pages(&inodes, at));
        }
        for (number, note) in (0..).zip(&mut self.pages) {
            // If that is not known, it may be any.
            let may_be = single.as_ref().is_none_or(|single| single.contains(&number));
            if note.what == What::Empty && may_be {
                note.what = What::Copy;
            }
        }
        Ok(())
    }

    /// Reports pages that are empty, or of a kind that does not occur at their place.
    fn judge_kinds(&self, ground: &Ground<'_>, findings: &mut Vec<Finding>) {
        let layout = ground.layout;
        for (number, note) in (0..).zip(&self.pages).filter(|(_, note)| note.used) {
            if note.what == What::Empty {
                findings.push(Finding::of_tree(number, "empty", EMPTY.to_owned()));
            }
            let is_known = matches!(note.what, What::Read | What::Shut);
            if !is_known || note.kind & COMPRESSED_MARK != 0 {
                continue;
            }
            let is_right = match (number, number % layout.map_step()) {
                // The layout was read from it.
                (0, _) => true,
                (_, 0) => note.kind == KIND_MAP,
                (_, 1) => note.kind == KIND_BUFFERED,
                (2, _) => note.kind == KIND_INODES,
                _ if !ground.has_only_trees() => true,
                _ => note.is_of_tree() || matches!(note.kind, KIND_BLOB | KIND_INODES),
            };
            if !is_right {
                let text = format!("it is of kind {}, which no page in use has there", note.kind);
                findings.push(Finding::of_tree(number, "kind", text));
            }
        }
    }

    /// Checks that the segment pages are as many as the first page lists, and that each segment
    /// belongs to one root, and each root has two. Nothing is known of that if a page was not read,
    /// or a tree is being made or dropped.
    fn judge_segments(
        &self,
        ground: &mut Ground<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), MariadbError> {
        let is_read = |note: &Note| note.what == What::Read && note.kind & COMPRESSED_MARK == 0;
        if !ground.has_only_trees() || !self.checkpoint.at_rest || !self.used().all(is_read) {
            return Ok(());
        }
        let of_inodes = |note: &Note| note.used && note.kind == KIND_INODES;
        let (mut pages, mut segments) = (0_u32, BTreeMap::new());
        for (number, _) in (0..).zip(&self.pages).filter(|(_, note)| of_inodes(note)) {
            let Some(page) = (ground.read)(number)? else { return Ok(()) };
            pages += 1;
            let described = ground.layout.segment_page(&page, number);
            let described = described.into_iter().flat_map(|page| page.segments);
            segments.extend(described.map(|segment| (segment.place, None)));
        }
        let listed = ground.layout.inode_pages;
        if pages != listed {
            let text =
                format!("it has {pages} pages that tell of segments, and its first page {listed}");
            findings.push(Finding::whole("kind", text));
            return Ok(());
        }
        let roots = self.roots.iter().filter(|(root, _)| self.pages[**root as usize].used);
        let count = roots.clone().count();
        if segments.len() != 2 * count {
            let of = segments.len();
            let text = format!("it has {of} segments, two for an index, and {count} roots");
            findings.push(Finding::whole("kind", text));
            return Ok(());
        }
        for (root, link) in roots.flat_map(|(root, links)| links.map(|link| (*root, link))) {
            let Place { page, at } = link.place;
            let text = match segments.get_mut(&link.place).filter(|_| link.space == self.space) {
                Some(owner @ None) => {
                    *owner = Some(root);
                    continue;
                }
                Some(Some(other)) => format!("it has a segment that is page {other}'s, too"),
                None => format!("it leads to byte {at} of page {page}, no segment's"),
            };
            findings.push(Finding::of_tree(root, "tree", text));
        }
        Ok(())
    }
}

const EMPTY: &str = "it is empty, and the map gives it out";
const FUTURE: &str = "its LSN is later than the end of the redo log";
const EMPTY_MAP: &str = "it is empty, and a page of the map";
