//! Decrypted pages of a running transaction that SQLite reads or writes again.
//!
//! A transaction that is larger than SQLite's cache spills pages, reads them again and writes them
//! anew. Until it commits, nobody else may see them: they are kept here, and each is sealed when it
//! leaves.

use std::collections::BTreeMap;

use crate::slabs::Slabs;

/// Maximum number of bytes of kept pages.
const MAX_KEPT_LEN: usize = 16 << 20;
/// Bytes of pages that leave when there are too many: several writes.
const LEAVING_LEN: usize = 1 << 20;

/// Kept pages, by number (of a page or a frame), each with its `H`.
pub(crate) struct Kept<H> {
    /// SQLite has used a page of the transaction again: from now on its pages are kept.
    began: bool,
    /// What is kept beside each page, and its place in `slabs`.
    pages: BTreeMap<u32, (H, usize)>,
    slabs: Slabs,
    /// Position from which the next pages leave.
    hand: u32,
}

impl<H> Default for Kept<H> {
    fn default() -> Self {
        Self { began: false, pages: BTreeMap::new(), slabs: Slabs::new(1), hand: 0 }
    }
}

impl<H> Kept<H> {
    /// Starts keeping pages.
    pub(crate) fn begin(&mut self) {
        self.began = true;
    }

    /// Returns true if pages are kept.
    pub(crate) fn is_begun(&self) -> bool {
        self.began
    }

    /// Ends the transaction, and drops its kept pages.
    pub(crate) fn end(&mut self) {
        if self.began {
            *self = Self::default();
        }
    }

    /// Returns the page, if it is kept.
    pub(crate) fn get(&self, number: u32) -> Option<(&H, &[u8])> {
        self.pages.get(&number).map(|(head, place)| (head, self.slabs.get(*place)))
    }

    /// Returns the data kept beside the page, for changing it.
    pub(crate) fn head_mut(&mut self, number: u32) -> Option<&mut H> {
        self.pages.get_mut(&number).map(|(head, _)| head)
    }

    /// Returns the lowest number kept.
    pub(crate) fn first(&self) -> Option<u32> {
        self.pages.first_key_value().map(|(&number, _)| number)
    }

    /// Returns the highest number kept.
    pub(crate) fn last(&self) -> Option<u32> {
        self.pages.last_key_value().map(|(&number, _)| number)
    }

    /// Keeps a copy of `page` in place of the previous one under its number. Pages of another
    /// length than those that are kept replace all of them: no transaction has pages of two.
    pub(crate) fn keep(&mut self, number: u32, head: H, page: &[u8]) {
        if self.slabs.page_len() != page.len() {
            self.pages.clear();
            self.slabs = Slabs::new(page.len());
        }
        if let Some((kept, place)) = self.pages.get_mut(&number) {
            *kept = head;
            if let Some(bytes) = self.slabs.bytes_mut(*place) {
                bytes.copy_from_slice(page);
            }
            return;
        }
        let place = self.slabs.put(page);
        self.pages.insert(number, (head, place));
    }

    /// Removes a page, copies it to `out`, and returns what was kept beside it.
    pub(crate) fn take(&mut self, number: u32, out: &mut Vec<u8>) -> Option<H> {
        let (head, place) = self.pages.remove(&number)?;
        out.clear();
        out.extend_from_slice(self.slabs.get(place));
        self.slabs.free(place);
        Some(head)
    }

    /// Removes the page with the highest number.
    pub(crate) fn forget_last(&mut self) {
        if let Some((_, (_, place))) = self.pages.pop_last() {
            self.slabs.free(place);
        }
    }

    /// Returns how many pages of `page_len` bytes must leave, so that a transaction of any size
    /// uses a bounded amount of memory.
    pub(crate) fn too_many(&self, page_len: usize) -> usize {
        let len = self.pages.len() * self.slabs.page_len();
        if len <= MAX_KEPT_LEN { 0 } else { (LEAVING_LEN / page_len.max(1)).max(1) }
    }

    /// Returns the next page to leave.
    pub(crate) fn next_to_leave(&mut self) -> Option<u32> {
        let next = self.pages.range(self.hand..).next().or_else(|| self.pages.first_key_value());
        let number = next.map(|(&number, _)| number)?;
        self.hand = number.saturating_add(1);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pages: u32) -> Kept<u32> {
        let mut kept = Kept::default();
        kept.begin();
        (0..pages).for_each(|n| kept.keep(n, n, &[u8::try_from(n % 251).unwrap(); 65536]));
        kept
    }

    #[test]
    fn a_page_is_replaced_and_taken() {
        let mut kept = kept(3);
        kept.keep(1, 9, &[7; 65536]);
        assert_eq!(kept.get(1), Some((&9, &[7; 65536][..])));
        assert_eq!((kept.first(), kept.last(), kept.pages.len()), (Some(0), Some(2), 3));
        let mut page = Vec::new();
        assert_eq!(kept.take(1, &mut page), Some(9));
        assert_eq!(page, [7; 65536]);
        assert!(kept.get(1).is_none() && kept.take(1, &mut page).is_none());
        kept.forget_last();
        assert_eq!((kept.first(), kept.last()), (Some(0), Some(0)));
        kept.end();
        assert_eq!((kept.first(), kept.is_begun()), (None, false));
    }

    #[test]
    fn pages_leave_in_turn_when_they_are_too_many() {
        let bound = u32::try_from(MAX_KEPT_LEN / 65536).unwrap();
        assert_eq!(kept(bound).too_many(65536), 0);
        let mut kept = kept(bound + 1);
        assert_eq!(kept.too_many(65536), 16);
        for turn in 0..20 {
            let next = kept.next_to_leave().unwrap();
            assert_eq!(next, turn);
            assert_eq!(kept.take(next, &mut Vec::new()), Some(turn));
        }
        // A page that is used again does not leave before the others had their turn.
        kept.keep(3, 3, &[0; 65536]);
        assert_eq!(kept.next_to_leave(), Some(20));
        kept.hand = bound + 1;
        assert_eq!(kept.next_to_leave(), Some(3));
    }
}
