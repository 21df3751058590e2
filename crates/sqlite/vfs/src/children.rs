//! The next page of a scan, from the children of the last interior page that it read.
//!
//! Page layout: SQLite's file format, 1.6, "B-tree Pages". The pages of a table that grew among
//! others are not contiguous, but its interior pages list them in the order of a scan.

/// Types of interior pages.
const INDEX_INTERIOR: u8 = 2;
const TABLE_INTERIOR: u8 = 5;
/// Bytes of SQLite's database header, before the b-tree of page 1.
const DATABASE_HEADER_LEN: usize = 100;
/// Bytes of an interior page's header; the pointers to its cells follow.
const PAGE_HEADER_LEN: usize = 12;
const CELL_COUNT_AT: usize = 3;
const RIGHT_CHILD_AT: usize = 8;

/// The children of one interior page, in order, and the position in them.
#[derive(Default)]
pub(crate) struct Children {
    pages: Vec<u32>,
    next: usize,
}

impl Children {
    /// Returns the page that follows `page` in an ordered scan.
    #[inline]
    pub(crate) fn after(&mut self, page: u32) -> Option<u32> {
        if self.pages.get(self.next) != Some(&page) {
            return None;
        }
        self.next += 1;
        self.pages.get(self.next).copied()
    }

    /// Records a page, in case it is an interior one. Its bytes are not trusted: in the worst case
    /// the wrong page is expected.
    pub(crate) fn note(&mut self, page: u32, plain: &[u8]) {
        let start = if page == 1 { DATABASE_HEADER_LEN } else { 0 };
        let Some(header) = plain.get(start..) else { return };
        if !matches!(header.first(), Some(&(INDEX_INTERIOR | TABLE_INTERIOR))) {
            return;
        }
        let count = be16(header, CELL_COUNT_AT).unwrap_or(0);
        self.next = 0;
        self.pages.clear();
        let cells = (0..count).map_while(|i| be16(header, PAGE_HEADER_LEN + 2 * i));
        self.pages.extend(cells.map_while(|cell| be32(plain, cell)));
        self.pages.extend(be32(header, RIGHT_CHILD_AT));
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_be_bytes(*bytes)))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interior page of a table with children 7, 5 and, at the right, 9.
    fn interior(start: usize) -> Vec<u8> {
        let mut page = vec![0; 1024];
        page[start] = TABLE_INTERIOR;
        page[start + 4] = 2;
        page[start + 11] = 9;
        page[start + 12..start + 16].copy_from_slice(&[3, 0, 2, 0]);
        page[0x303] = 7;
        page[0x203] = 5;
        page
    }

    #[test]
    fn children_are_told_in_order() {
        for (number, start) in [(1, DATABASE_HEADER_LEN), (4, 0)] {
            let mut children = Children::default();
            children.note(number, &interior(start));
            assert_eq!(children.after(5), None);
            assert_eq!(children.after(7), Some(5));
            assert_eq!(children.after(7), None);
            assert_eq!(children.after(5), Some(9));
            assert_eq!(children.after(9), None);
            assert_eq!(children.after(9), None);
        }
    }

    #[test]
    fn a_leaf_changes_nothing_and_nonsense_does_no_harm() {
        let mut children = Children::default();
        children.note(4, &interior(0));
        children.note(5, &[13; 1024]);
        assert_eq!(children.after(7), Some(5));
        for len in [0, 1, 4, 5, 12, 13, 100, 101, 512] {
            for page in [1, 2] {
                children.note(page, &vec![TABLE_INTERIOR; len]);
                children.note(page, &vec![INDEX_INTERIOR; len]);
            }
        }
    }
}
