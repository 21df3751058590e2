//! Decrypted pages of a running transaction that SQLite reads or writes again.
//!
//! A transaction that is larger than SQLite's cache spills pages, reads them again and writes them
//! anew. Until it commits, nobody else may see them: they are kept here, and each is sealed when it
//! leaves.

use std::collections::BTreeMap;

/// Maximum number of bytes of kept pages.
const MAX_KEPT_LEN: usize = 16 << 20;
/// Bytes of pages that leave when there are too many: several writes.
const LEAVING_LEN: usize = 1 << 20;

/// Kept pages, by number (of a page or a frame), each with its `H`.
pub(crate) struct Kept<H> {
    /// SQLite has used a page of the transaction again: from now on its pages are kept.
    began: bool,
    pages: BTreeMap<u32, (H, Box<[u8]>)>,
    len: usize,
    /// Position from which the next pages leave.
    hand: u32,
    free: Vec<Box<[u8]>>,
}

impl<H> Default for Kept<H> {
    fn default() -> Self {
        let (pages, free) = (BTreeMap::new(), Vec::new());
        Self { began: false, pages, len: 0, hand: 0, free }
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
        self.pages.get(&number).map(|(head, page)| (head, &**page))
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

    /// Keeps a copy of `page` in place of the previous one under its number.
    pub(crate) fn keep(&mut self, number: u32, head: H, page: &[u8]) {
        if let Some(kept) = self.pages.get_mut(&number).filter(|(_, p)| p.len() == page.len()) {
            kept.0 = head;
            kept.1.copy_from_slice(page);
            return;
        }
        let copy = match self.free.pop() {
            Some(mut free) if free.len() == page.len() => {
                free.copy_from_slice(page);
                free
            }
            _ => page.into(),
        };
        self.len += copy.len();
        if let Some((_, before)) = self.pages.insert(number, (head, copy)) {
            self.len -= before.len();
        }
    }

    /// Removes and returns a page.
    pub(crate) fn take(&mut self, number: u32) -> Option<(H, Box<[u8]>)> {
        let kept = self.pages.remove(&number)?;
        self.len -= kept.1.len();
        Some(kept)
    }

    /// Reuses the memory of a page that has left.
    pub(crate) fn reuse(&mut self, page: Box<[u8]>) {
        self.free.push(page);
    }

    /// Returns how many pages of `page_len` bytes must leave, so that a transaction of any size
    /// uses a bounded amount of memory.
    pub(crate) fn too_many(&self, page_len: usize) -> usize {
        if self.len <= MAX_KEPT_LEN { 0 } else { (LEAVING_LEN / page_len.max(1)).max(1) }
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
        assert_eq!((kept.first(), kept.last(), kept.len), (Some(0), Some(2), 3 * 65536));
        assert_eq!(kept.take(1).map(|(head, _)| head), Some(9));
        assert!(kept.get(1).is_none() && kept.take(1).is_none());
        assert_eq!(kept.len, 2 * 65536);
        kept.end();
        assert_eq!((kept.first(), kept.len, kept.is_begun()), (None, 0, false));
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
            let (_, page) = kept.take(next).unwrap();
            kept.reuse(page);
        }
        // A page that is used again does not leave before the others had their turn.
        kept.keep(3, 3, &[0; 65536]);
        assert_eq!(kept.next_to_leave(), Some(20));
        kept.hand = bound + 1;
        assert_eq!(kept.next_to_leave(), Some(3));
    }
}
