//! The extents and segments of a tablespace, and the lists that contain them (`fsp0fsp.h`,
//! `fut0lst.h`).

use super::layout::{
    BITMAP_AT, EXTENTS_AT, HEADER_AT, INODES_FREE_AT, INODES_FULL_AT, Layout, SINGLE_PAGES_AT,
};
use super::{is_empty, number, short_number};

/// Number of allocated pages in the extents of the list [`SpaceLists::some_pages`].
const SINGLE_USED_AT: usize = HEADER_AT + 20;
const FREE_AT: usize = HEADER_AT + 24;
const SOME_PAGES_AT: usize = HEADER_AT + 40;
const ALL_PAGES_AT: usize = HEADER_AT + 56;
const NEXT_SEGMENT_AT: usize = HEADER_AT + 72;
/// Offsets in a descriptor: its list node, and its state.
const EXTENT_NODE_AT: usize = 8;
const STATE_AT: usize = 20;
/// Offsets in a page that describes segments: its list node, and the segments.
const SEGMENT_PAGE_NODE_AT: usize = HEADER_AT;
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

/// The lists in the first page.
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
    /// Pages that describe segments, without and with room for another.
    pub segment_pages: [List; 2],
    /// Number of the next segment.
    pub next_segment: u64,
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

/// An element's node in a list (`FLST_NODE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its place, to which the neighbours link.
    pub place: Place,
    /// The element before it.
    pub prev: Option<Place>,
    /// The next element.
    pub next: Option<Place>,
}

/// An extent in the allocation map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its list node.
    pub node: Node,
    /// Its first page.
    pub first_page: u32,
    /// Its state.
    pub state: State,
    /// Number of its allocated pages.
    pub used: u32,
    /// Number of its pages.
    pub pages: u32,
}

/// A segment (`fseg_inode_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its place, to which a tree's root links.
    pub place: Place,
    /// Its number in the tablespace.
    pub id: u64,
    /// Its extents without a used page, with some, and with all pages used.
    pub lists: [List; 3],
    /// Number of used pages in the extents of the second list.
    pub some_used: u32,
    /// Its single pages.
    pub single: Vec<u32>,
}

/// A page that describes segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPage {
    /// Its list node.
    pub node: Node,
    /// Its used segments. Each tree has two.
    pub segments: Vec<Segment>,
    /// Number of segments for which it has room.
    pub room: usize,
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
            segment_pages: [list(first, INODES_FULL_AT), list(first, INODES_FREE_AT)],
            next_segment: long_number(first, NEXT_SEGMENT_AT),
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
                node: node(map, map_page, at + EXTENT_NODE_AT)?,
                first_page,
                state,
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

    /// Reads page `page_number`, of the kind [`KIND_INODES`](super::KIND_INODES). `None` if it is
    /// longer than any page.
    #[must_use]
    pub fn segment_page(&self, inodes: &[u8], page_number: u32) -> Option<SegmentPage> {
        let len = SINGLE_PAGES_AT + self.extent_pages / 2 * 4;
        let end = inodes.len().saturating_sub(PAGE_END_LEN);
        let all = inodes.get(SEGMENTS_AT..end).unwrap_or_default().chunks_exact(len);
        let segment = |(index, bytes): (usize, &[u8])| {
            let at = u16::try_from(SEGMENTS_AT + index * len).ok()?;
            Some(Segment {
                place: Place { page: page_number, at },
                id: long_number(bytes, 0),
                lists: [list(bytes, 12), list(bytes, 28), list(bytes, 44)],
                some_used: number(bytes, 8),
                single: self.single_pages(bytes, 0),
            })
        };
        let room = all.len();
        let used = all.enumerate().filter(|(_, bytes)| !is_empty(&bytes[..8]));
        Some(SegmentPage {
            node: node(inodes, page_number, SEGMENT_PAGE_NODE_AT)?,
            segments: used.filter_map(segment).collect(),
            room,
        })
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

fn node(page: &[u8], page_number: u32, at: usize) -> Option<Node> {
    let place_of = Place { page: page_number, at: u16::try_from(at).ok()? };
    Some(Node { place: place_of, prev: place(page, at), next: place(page, at + 6) })
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
