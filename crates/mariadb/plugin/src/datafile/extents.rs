//! The extents of a tablespace, and the lists that contain them (`fsp0fsp.h`, `fut0lst.h`).

use super::layout::{BITMAP_AT, EXTENTS_AT, HEADER_AT, Layout, SINGLE_PAGES_AT};
use super::{is_empty, number, short_number};

/// Number of allocated pages in the extents of the list [`SpaceLists::some_pages`].
const SINGLE_USED_AT: usize = HEADER_AT + 20;
const FREE_AT: usize = HEADER_AT + 24;
const SOME_PAGES_AT: usize = HEADER_AT + 40;
const ALL_PAGES_AT: usize = HEADER_AT + 56;
/// Offsets in a descriptor: its list node, and its state.
const NODE_AT: usize = 8;
const STATE_AT: usize = 20;
/// Offset of the segments in a page that describes them.
const SEGMENTS_AT: usize = HEADER_AT + 12;
const PAGE_END_LEN: usize = 10;

/// Target of a list's link: an offset in a page (`fil_addr_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the page.
    pub page: u32,
    /// Offset in it, in bytes.
    pub at: u16,
}

/// The base of a list (`FLST_BASE_NODE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    /// Number of its elements.
    pub len: u32,
    /// Its first element.
    pub first: Option<Place>,
    /// Its last element.
    pub last: Option<Place>,
}

/// The lists of extents in the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceLists {
    /// Unused extents.
    pub free: List,
    /// Extents with some allocated single pages, and some free ones (`FSP_FREE_FRAG`).
    pub some_pages: List,
    /// Extents whose single pages are all allocated (`FSP_FULL_FRAG`).
    pub all_pages: List,
    /// Number of allocated pages in the extents of `some_pages`.
    pub single_used: u32,
}

/// The state of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Unused.
    Free,
    /// Some of its single pages are allocated, and some are free.
    SomePages,
    /// All of its single pages are allocated.
    AllPages,
    /// It belongs to a segment.
    Segment(u64),
    /// A number that the server does not write.
    Unknown(u32),
}

/// An extent in the allocation map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Place of its list node.
    pub place: Place,
    /// Its first page.
    pub first_page: u32,
    /// Its state.
    pub state: State,
    /// The one before it in its list.
    pub prev: Option<Place>,
    /// The next one in its list.
    pub next: Option<Place>,
    /// Number of its allocated pages.
    pub used: u32,
    /// Number of its pages.
    pub pages: u32,
}

/// A segment (`fseg_inode_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its number in the tablespace.
    pub id: u64,
    /// Its extents without a used page, with some, and with all pages used.
    pub lists: [List; 3],
    /// Number of used pages in the extents of the second list.
    pub some_used: u32,
    /// Its single pages.
    pub single: Vec<u32>,
}

impl Layout {
    /// Returns the lists of the first page.
    #[must_use]
    pub fn space_lists(&self, first: &[u8]) -> SpaceLists {
        SpaceLists {
            free: list(first, FREE_AT),
            some_pages: list(first, SOME_PAGES_AT),
            all_pages: list(first, ALL_PAGES_AT),
            single_used: number(first, SINGLE_USED_AT),
        }
    }

    /// Returns the extents described in `map`, page `number` of the allocation map.
    #[must_use]
    pub fn extents(&self, map: &[u8], map_page: u32) -> Vec<Extent> {
        let pages = u32::try_from(self.extent_pages).unwrap_or(u32::MAX);
        let begins =
            (map_page..map_page.saturating_add(self.map_step())).step_by(self.extent_pages);
        let descriptor = |(index, first_page): (usize, u32)| {
            let at = EXTENTS_AT + index * self.extent_len();
            let bytes = map.get(at..at + self.extent_len())?;
            let state = match number(bytes, STATE_AT) {
                1 => State::Free,
                2 => State::SomePages,
                3 => State::AllPages,
                4 => State::Segment(long_number(bytes, 0)),
                other => State::Unknown(other),
            };
            // Of the two bits of each page, the first is set if it is free.
            let free: u32 = bytes[BITMAP_AT..].iter().map(|byte| (byte & 0x55).count_ones()).sum();
            Some(Extent {
                place: Place { page: map_page, at: u16::try_from(at + NODE_AT).ok()? },
                first_page,
                state,
                prev: place(bytes, NODE_AT),
                next: place(bytes, NODE_AT + 6),
                used: pages.saturating_sub(free),
                pages,
            })
        };
        begins
            .take_while(|first_page| self.is_mapped(*first_page))
            .enumerate()
            .filter_map(descriptor)
            .collect()
    }

    /// Returns the used segments that a page of the kind [`KIND_INODES`](super::KIND_INODES)
    /// describes. Each tree has two.
    #[must_use]
    pub fn segments(&self, inodes: &[u8]) -> Vec<Segment> {
        let slots = self.extent_pages / 2;
        let end = inodes.len().saturating_sub(PAGE_END_LEN);
        let all = inodes.get(SEGMENTS_AT..end).unwrap_or_default();
        let segments = all.chunks_exact(SINGLE_PAGES_AT + slots * 4);
        let segment = |bytes: &[u8]| Segment {
            id: long_number(bytes, 0),
            lists: [list(bytes, 12), list(bytes, 28), list(bytes, 44)],
            some_used: number(bytes, 8),
            single: self.single_pages(bytes, 0),
        };
        segments.filter(|bytes| !is_empty(&bytes[..8])).map(segment).collect()
    }

    /// Returns the single pages of the segment that `inodes` describes at an offset: those outside
    /// of its own extents.
    #[must_use]
    pub fn single_pages(&self, inodes: &[u8], at: usize) -> Vec<u32> {
        let slots = inodes.get(at + SINGLE_PAGES_AT..).unwrap_or_default();
        let slots = slots.chunks_exact(4).take(self.extent_pages / 2);
        slots.map(|slot| number(slot, 0)).filter(|page| *page != super::NO_PAGE).collect()
    }
}

fn list(bytes: &[u8], at: usize) -> List {
    List { len: number(bytes, at), first: place(bytes, at + 4), last: place(bytes, at + 10) }
}

fn place(bytes: &[u8], at: usize) -> Option<Place> {
    let page = number(bytes, at);
    (page != super::NO_PAGE).then(|| Place { page, at: short_number(bytes, at + 4) })
}

fn long_number(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) << 32 | u64::from(number(bytes, at + 4))
}
