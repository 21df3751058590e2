//! Pages as the archive has them, for the sets that follow: a page whose state there is known is
//! stored by what changed.
//!
//! The states are those behind one set, by its id: that of the last one that was shipped from here.
//! While the next set is made they run ahead of it, and count again once it is in the archive. In
//! any other case nothing is known: where shipping failed, where an answer was lost, where a new
//! chain began, after a restart.

use std::collections::BTreeMap;

use tdekit_backup_media::Id;
use zeroize::Zeroizing;

/// The most bytes of pages of a database. It is far below what a reader keeps
/// (`MAX_UNFINISHED_BYTES` of the format): only pages that are here may stand on their states.
const MAX_BYTES: usize = 16 << 20;

/// The pages that were shipped last. They are erased when they are dropped.
#[derive(Default)]
pub(super) struct KnownPages {
    /// The set behind which these are the states.
    behind: Option<Id>,
    page_len: usize,
    /// The places of pages.
    places: BTreeMap<u32, usize>,
    slots: Vec<Slot>,
    /// The place that is looked at next for a page to forget.
    hand: usize,
}

struct Slot {
    /// 0 if it is free.
    page: u32,
    /// True if it was used since the hand went over it.
    used: bool,
    bytes: Zeroizing<Vec<u8>>,
}

impl KnownPages {
    /// Begins the set behind `behind`. Forgets everything, if these are not the states there.
    ///
    /// Page 1 is forgotten: a standby, whose page 1 SQLite changes by itself, must not need its
    /// state from a set before.
    pub(super) fn begin(&mut self, behind: Id, page_size: u32) {
        let page_len = usize::try_from(page_size).unwrap_or(usize::MAX);
        if self.behind.take() != Some(behind) || self.page_len != page_len {
            *self = Self { page_len, ..Self::default() };
        }
        self.forget(1, 1);
    }

    /// The set that was begun is in the archive.
    pub(super) fn shipped(&mut self, set_id: Id) {
        self.behind = Some(set_id);
    }

    /// Returns the state of a page, if it is known.
    pub(super) fn state(&mut self, page: u32) -> Option<&[u8]> {
        let slot = self.slots.get_mut(*self.places.get(&page)?)?;
        slot.used = true;
        Some(&slot.bytes)
    }

    /// Takes the next state of a page.
    pub(super) fn put(&mut self, page: u32, bytes: &[u8]) {
        if bytes.len() != self.page_len {
            return self.forget(page, page);
        }
        if let Some(slot) = self.places.get(&page).and_then(|place| self.slots.get_mut(*place)) {
            slot.bytes.copy_from_slice(bytes);
            return;
        }
        let place = self.free_place();
        let Some(slot) = self.slots.get_mut(place) else { return };
        (slot.page, slot.used) = (page, true);
        slot.bytes.copy_from_slice(bytes);
        self.places.insert(page, place);
    }

    /// Forgets the pages beyond the end of a database of this many.
    pub(super) fn cut(&mut self, pages: u32) {
        if self.places.last_key_value().is_some_and(|(page, _)| *page > pages) {
            self.forget(pages.saturating_add(1), u32::MAX);
        }
    }

    fn forget(&mut self, first: u32, last: u32) {
        while let Some((page, place)) =
            self.places.range(first..=last).next().map(|(page, place)| (*page, *place))
        {
            self.places.remove(&page);
            if let Some(slot) = self.slots.get_mut(place) {
                (slot.page, slot.used) = (0, false);
            }
        }
    }

    /// Returns a place for a page; forgets another one that was not used for long.
    fn free_place(&mut self) -> usize {
        if self.slots.len() < (MAX_BYTES / self.page_len.max(1)).max(1) {
            let bytes = Zeroizing::new(vec![0; self.page_len]);
            self.slots.push(Slot { page: 0, used: false, bytes });
            return self.slots.len() - 1;
        }
        // Each one that was used is passed over once.
        for _ in 0..=self.slots.len() {
            let place = self.hand;
            self.hand = (place + 1) % self.slots.len().max(1);
            let Some(slot) = self.slots.get_mut(place) else { break };
            if !std::mem::take(&mut slot.used) {
                if slot.page > 0 {
                    self.places.remove(&slot.page);
                }
                return place;
            }
        }
        self.hand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_count_behind_the_set_that_was_shipped_and_nowhere_else() {
        let mut known = KnownPages::default();
        known.begin([1; 16], 512);
        known.put(7, &[7; 512]);
        assert_eq!(known.state(7), Some(&[7; 512][..]));
        known.shipped([2; 16]);
        known.begin([2; 16], 512);
        assert_eq!(known.state(7), Some(&[7; 512][..]));
        // Set 2 was begun again, so its first attempt was not shipped.
        known.put(7, &[8; 512]);
        known.begin([2; 16], 512);
        assert_eq!(known.state(7), None);
        for (behind, size) in [([3; 16], 512), ([2; 16], 1024)] {
            known.begin([1; 16], 512);
            known.put(7, &[7; 512]);
            known.shipped([2; 16]);
            known.begin(behind, size);
            assert_eq!(known.state(7), None, "another set, or page size");
        }
    }

    #[test]
    fn page_1_and_pages_beyond_the_end_have_no_state() {
        let mut known = KnownPages::default();
        known.begin([1; 16], 512);
        for page in [1, 2, 8, 9] {
            known.put(page, &[1; 512]);
        }
        known.cut(8);
        let found = |known: &mut KnownPages| [1, 2, 8, 9].map(|page| known.state(page).is_some());
        assert_eq!(found(&mut known), [true, true, true, false]);
        known.cut(1);
        known.shipped([2; 16]);
        known.begin([2; 16], 512);
        assert_eq!(found(&mut known), [false; 4]);
        known.put(9, &[2; 512]);
        assert_eq!(known.state(9), Some(&[2; 512][..]));
    }

    #[test]
    fn pages_that_were_not_used_for_long_make_room() {
        let mut known = KnownPages::default();
        known.begin([1; 16], 65_536);
        let most = u32::try_from(MAX_BYTES / 65_536).unwrap();
        for page in 1..=most * 3 {
            known.put(page, &[page.to_le_bytes()[0]; 65_536]);
            assert!(known.state(5).is_some() || page < 5, "{page}");
            assert!(known.slots.len() <= MAX_BYTES / 65_536);
            assert_eq!(known.places.len(), known.slots.iter().filter(|it| it.page > 0).count());
        }
        for page in 1..=most * 3 {
            let state = known.state(page).map(|state| state[65_535]);
            assert!(state.is_none_or(|byte| byte == page.to_le_bytes()[0]), "{page}");
        }
        assert_eq!(known.places.len(), MAX_BYTES / 65_536);
    }
}
