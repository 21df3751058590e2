//! Pages of index trees: their place in the tree, and the pages to which their records point.
//!
//! The layouts are those of `storage/innobase/include/page0page.h`, `rem0rec.h` and `fsp0fsp.h`.

use std::ops::Range;

use super::extents::Place;
use super::layout::{kind, lsn, own_number};
use super::{number, short_number};

/// Value of a page number field that means no page (FIL_NULL).
pub const NO_PAGE: u32 = u32::MAX;
/// Kinds of pages (FIL_PAGE_TYPE) of trees: ordinary ones, those of spatial indexes, and the root
/// of a table to which columns were added instantly.
pub const KIND_INDEX: u16 = 17_855;
/// As [`KIND_INDEX`].
pub const KIND_SPATIAL: u16 = 17_854;
/// As [`KIND_INDEX`].
pub const KIND_INSTANT: u16 = 18;
/// Kinds of the other pages of a table.
pub const KIND_BLOB: u16 = 10;
/// As [`KIND_BLOB`]: the segments of the tablespace.
pub const KIND_INODES: u16 = 3;
/// As [`KIND_BLOB`]: buffered changes for the pages of one allocation map page.
pub const KIND_BUFFERED: u16 = 5;
/// As [`KIND_BLOB`]: long values of tables with `ROW_FORMAT=COMPRESSED`.
pub const KINDS_PACKED_BLOB: [u16; 2] = [11, 12];
/// As [`KIND_BLOB`]: a page of the allocation map.
pub const KIND_MAP: u16 = 9;
/// As [`KIND_BLOB`]: the first page.
pub const KIND_FIRST: u16 = 8;

/// Neighbours in the level of a tree.
const PREV_AT: usize = 8;
const NEXT_AT: usize = 12;
/// The header of a page of a tree.
const HEADER_AT: usize = 38;
const HEAP_TOP_AT: usize = HEADER_AT + 2;
const HEAP_COUNT_AT: usize = HEADER_AT + 4;
const FREE_AT: usize = HEADER_AT + 6;
/// Number of the table's fields when columns were first added instantly, above 3 bits of another
/// kind.
const INSTANT_AT: usize = HEADER_AT + 12;
const RECORDS_AT: usize = HEADER_AT + 16;
const LEVEL_AT: usize = HEADER_AT + 26;
const INDEX_AT: usize = HEADER_AT + 28;
/// The segments of the leaves and of the upper levels, which only the root has.
const LEAF_SEGMENT_AT: usize = HEADER_AT + 36;
const TOP_SEGMENT_AT: usize = HEADER_AT + 46;
const RECORDS_FROM: usize = HEADER_AT + 56;

/// Length of a page number.
const POINTER_LEN: usize = 4;
/// Length of a record's header before its origin, in tables that are not `REDUNDANT` and in others.
const COMPACT_EXTRA: usize = 5;
const REDUNDANT_EXTRA: usize = 6;
/// In a spatial index a pointer follows the rectangle.
const RECTANGLE_LEN: usize = 32;

/// The fields that every page has in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    /// The page's kind.
    pub kind: u16,
    /// LSN of its last change.
    pub lsn: u64,
    /// The previous page.
    pub prev: u32,
    /// The next page.
    pub next: u32,
}

impl PageHeader {
    /// Reads the header; missing bytes count as zeros.
    #[must_use]
    pub fn of(page: &[u8]) -> Self {
        let (prev, next) = (number(page, PREV_AT), number(page, NEXT_AT));
        Self { kind: kind(page), lsn: lsn(page), prev, next }
    }

    /// Returns a page's own number.
    #[must_use]
    pub fn number_of(page: &[u8]) -> u32 {
        own_number(page)
    }
}

/// A root's link to a segment (`fseg_header_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentLink {
    /// The tablespace.
    pub space: u32,
    /// Place of the segment.
    pub place: Place,
}

/// The place of a page in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexHeader {
    /// The index.
    pub index: u64,
    /// The level; leaves have 0.
    pub level: u16,
    /// Number of its records, according to the header.
    pub records: u16,
    /// True if it names the tree's segments, as the root does.
    pub is_root: bool,
    /// The segments of the leaves and of the upper levels, if it is a root.
    pub segments: [SegmentLink; 2],
    /// True if it has the number of columns before others were added instantly, as only roots of
    /// the kind [`KIND_INSTANT`] do.
    pub is_instant: bool,
}

impl IndexHeader {
    /// Reads the header of a page of the tablespace `space` that is unencrypted or was opened.
    #[must_use]
    pub fn of(page: &[u8], space: u32) -> Self {
        let index = u64::from(number(page, INDEX_AT)) << 32 | u64::from(number(page, INDEX_AT + 4));
        let segments = [LEAF_SEGMENT_AT, TOP_SEGMENT_AT].map(|at| SegmentLink {
            space: number(page, at),
            place: Place { page: number(page, at + 4), at: short_number(page, at + 8) },
        });
        Self {
            index,
            level: short_number(page, LEVEL_AT),
            records: short_number(page, RECORDS_AT),
            is_root: segments[1].space == space && segments[1].place.page != 0,
            segments,
            is_instant: short_number(page, INSTANT_AT) >> 3 != 0,
        }
    }
}

/// A record that points to a page of the level below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pointer {
    /// To this one.
    To(u32),
    /// To a page whose number is the end of the record. Its place depends on the index's
    /// definition, which is not known here: somewhere in this part of the page.
    Within(Range<usize>),
}

impl Pointer {
    /// Returns true if the record may point to `child`.
    #[must_use]
    pub fn may_be(&self, page: &[u8], child: u32) -> bool {
        match self {
            Self::To(number) => *number == child,
            Self::Within(range) => {
                let part = page.get(range.clone()).unwrap_or_default();
                part.windows(POINTER_LEN).any(|bytes| bytes == child.to_be_bytes())
            }
        }
    }
}

/// Returns the pointers of a page above the leaves, in order; `None` if its records are not a list
/// that a server writes.
#[must_use]
pub fn pointers(page: &[u8]) -> Option<Vec<Pointer>> {
    let records = usize::from(short_number(page, RECORDS_AT));
    let top = usize::from(short_number(page, HEAP_TOP_AT));
    // Each record has a header at least.
    if top > page.len() || top < RECORDS_FROM || records > top / COMPACT_EXTRA {
        return None;
    }
    let is_compact = short_number(page, HEAP_COUNT_AT) >> 15 == 1;
    let list = List { page, top, is_compact };
    let origins = list.origins(records)?;
    if !is_compact {
        return origins.iter().map(|origin| redundant(page, *origin).map(Pointer::To)).collect();
    }
    if origins.iter().any(|origin| page[origin - 3] & 7 != 1) {
        return None;
    }
    if kind(page) == KIND_SPATIAL {
        let to = |origin: &usize| Some(Pointer::To(number(page, origin + RECTANGLE_LEN)));
        return origins.iter().map(to).collect();
    }
    let mut bounds = list.freed();
    bounds.extend(&origins);
    bounds.sort_unstable();
    let within = |origin: &usize| {
        let behind = bounds.partition_point(|bound| bound <= origin);
        let end = bounds.get(behind).map_or(top, |next| next - COMPACT_EXTRA);
        (end >= origin + POINTER_LEN).then_some(Pointer::Within(*origin..end))
    };
    origins.iter().map(within).collect()
}

/// Returns the number at the end of a record of the redundant format, which stores the ends of its
/// fields.
fn redundant(page: &[u8], origin: usize) -> Option<u32> {
    let fields = usize::from(short_number(page, origin - 4) >> 1 & 0x3ff);
    let is_short = page[origin - 3] & 1 == 1;
    let width = if is_short { 1 } else { 2 };
    let at = origin.checked_sub(REDUNDANT_EXTRA + fields * width)?;
    if fields == 0 || at < RECORDS_FROM {
        return None;
    }
    let end = match is_short {
        true => usize::from(page[at] & 0x7f),
        false => usize::from(short_number(page, at) & 0x3fff),
    };
    let at = origin + end.checked_sub(POINTER_LEN)?;
    (at + POINTER_LEN <= page.len()).then(|| number(page, at))
}

/// The records of a page, which are linked lists.
struct List<'a> {
    page: &'a [u8],
    /// End of the records.
    top: usize,
    is_compact: bool,
}

impl List<'_> {
    /// Returns the offsets of the records in use; `None` if they are not `count`.
    fn origins(&self, count: usize) -> Option<Vec<usize>> {
        let (first, last) = match self.is_compact {
            true => (RECORDS_FROM + COMPACT_EXTRA, RECORDS_FROM + 2 * COMPACT_EXTRA + 8),
            false => (RECORDS_FROM + 1 + 6, RECORDS_FROM + 2 + 2 * REDUNDANT_EXTRA + 8),
        };
        let mut origins = Vec::with_capacity(count);
        let mut at = self.next(first)?;
        while at != last {
            if origins.len() == count || !self.is_origin(at) {
                return None;
            }
            origins.push(at);
            at = self.next(at)?;
        }
        (origins.len() == count).then_some(origins)
    }

    /// Returns the offsets of freed records. Their space is not part of any other.
    fn freed(&self) -> Vec<usize> {
        let mut origins = Vec::new();
        let mut at = usize::from(short_number(self.page, FREE_AT));
        while self.is_origin(at) && origins.len() < self.top / COMPACT_EXTRA {
            origins.push(at);
            let Some(next) = self.next(at) else { break };
            at = next;
        }
        origins
    }

    fn next(&self, origin: usize) -> Option<usize> {
        let field = usize::from(short_number(self.page, origin - 2));
        match (self.is_compact, field) {
            (_, 0) => None,
            // Relative, modulo the page's length, which is a power of 2.
            (true, field) => Some((origin + field) & (self.page.len() - 1)),
            (false, field) => Some(field),
        }
    }

    /// Returns true if a record may be there: after the two that every page has.
    fn is_origin(&self, at: usize) -> bool {
        at > RECORDS_FROM + 2 * REDUNDANT_EXTRA + 8 && at < self.top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A page of two pointers, of which the second comes first.
    fn compact() -> Vec<u8> {
        let mut page = vec![0; 4096];
        put(&mut page, HEAP_COUNT_AT, &0x8004_u16.to_be_bytes());
        put(&mut page, RECORDS_AT, &2_u16.to_be_bytes());
        put(&mut page, HEAP_TOP_AT, &148_u16.to_be_bytes());
        for (origin, next, key, child) in [(127, 112, 9, 7), (140, 127, 3, 6)] {
            let next = u16::try_from((next + 65536 - origin) % 65536).unwrap();
            page[origin - 3] = 1;
            put(&mut page, origin - 2, &next.to_be_bytes());
            put(&mut page, origin, &u32::to_be_bytes(key));
            put(&mut page, origin + 4, &u32::to_be_bytes(child));
        }
        put(&mut page, 97, &(140_u16 - 99).to_be_bytes());
        page
    }

    #[test]
    fn compact_pointers_are_in_the_order_of_the_list() {
        let mut page = compact();
        let found = pointers(&page).unwrap();
        assert_eq!(found, [Pointer::Within(140..148), Pointer::Within(127..135)]);
        assert!(found[0].may_be(&page, 6) && !found[0].may_be(&page, 7));
        assert!(found[1].may_be(&page, 7) && !found[1].may_be(&page, 6));
        put(&mut page, RECORDS_AT, &3_u16.to_be_bytes());
        assert_eq!(pointers(&page), None);
    }

    #[test]
    fn no_page_makes_it_panic() {
        let page = compact();
        for at in 0..200 {
            for byte in [0, 1, 127, 128, 255] {
                let mut page = page.clone();
                page[at] = byte;
                let _ = pointers(&page);
                page[HEAP_COUNT_AT] = 0;
                let _ = pointers(&page);
                put(&mut page, 24, &KIND_SPATIAL.to_be_bytes());
                let _ = pointers(&page);
            }
        }
        let _ = pointers(&[255; 4096]);
        let _ = pointers(&[]);
    }

    #[test]
    fn a_redundant_pointer_is_the_end_of_its_record() {
        let mut page = vec![0; 4096];
        put(&mut page, RECORDS_AT, &1_u16.to_be_bytes());
        put(&mut page, HEAP_TOP_AT, &150_u16.to_be_bytes());
        put(&mut page, 99, &140_u16.to_be_bytes());
        // Two fields of 4 bytes, with their ends before the header.
        put(&mut page, 132, &[8, 4, 0, 0, 0, 2 << 1 | 1, 0, 116]);
        put(&mut page, 140, &[0, 0, 0, 1, 0, 0, 1, 2]);
        assert_eq!(pointers(&page), Some(vec![Pointer::To(258)]));
    }
}
