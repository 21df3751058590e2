//! Opened pages that are requested repeatedly, found by page number and seal.
//!
//! A page is returned only while the seal stored on disk (nonce, tag, key version) equals the one
//! under which it was opened: no other process, checkpoint or rollback can make an entry stale.
//! This saves SQLite's readers the decryption when a foreign commit empties their own cache.

use tdekit_sqlite_page::RESERVE_LEN;

/// Maximum plaintext per connection, bytes. Four times as much took more of the processor's own
/// caches than it saved.
const BUDGET_BYTES: usize = 1 << 20;
/// Entries of the table that records which pages were requested once.
const SEEN_ENTRIES: usize = 4096;
const WAYS: usize = 4;
/// After this many insertions without enough hits, insertion pauses.
const TRIAL_INSERTIONS: u32 = 1024;
/// Number of forward steps after which a scan is assumed.
const SCAN_LEN: u32 = 8;
/// Maximum length of a scan's forward step, bytes: a table's pages are among those of its indexes.
const SCAN_STRIDE_LEN: usize = 256 * 1024;
/// Maximum number of steps that count. A scan leaves its sequence at each interior page, so a gap
/// cancels `SCAN_LEN` of them and not all.
const MAX_SCAN_LEN: u32 = 4 * SCAN_LEN;
/// Length of a pause, in misses.
const PAUSE_MISSES: u32 = 16 * 1024;

type Seal = [u8; RESERVE_LEN];

/// The cache of one connection to one file.
pub(crate) struct PageCache {
    page_len: usize,
    /// Page numbers, a set of `WAYS` in a row; 0 for empty entries.
    numbers: Vec<[u32; WAYS]>,
    entries: Vec<Option<Entry>>,
    next_way: u8,
    seen: Vec<u64>,
    /// The page offered last, and the number of forward steps that led to it, minus the gaps.
    last_page: u32,
    steps: u32,
    insertions: u32,
    hits: u32,
    paused: u32,
}

struct Entry {
    seal: Seal,
    plain: Box<[u8]>,
}

impl PageCache {
    pub(crate) fn new() -> Self {
        Self {
            page_len: 0,
            numbers: Vec::new(),
            entries: Vec::new(),
            next_way: 0,
            seen: Vec::new(),
            last_page: 0,
            steps: 0,
            insertions: 0,
            hits: 0,
            paused: 0,
        }
    }

    /// Copies page `page` into `out` if it was opened under `seal` before.
    #[inline]
    pub(crate) fn get(&mut self, page: u32, seal: &Seal, out: &mut [u8]) -> bool {
        if out.len() != self.page_len || self.numbers.is_empty() {
            return false;
        }
        let set = self.set_of(page);
        let Some(way) = self.numbers[set].iter().position(|&number| number == page) else {
            return false;
        };
        match &self.entries[set * WAYS + way] {
            Some(entry) if entry.seal == *seal => {
                out.copy_from_slice(&entry.plain);
                self.hits = self.hits.saturating_add(1);
                true
            }
            _ => false,
        }
    }

    /// Offers a page that was just opened; it is kept from its second time on. Pages of a scan are
    /// not kept: they would displace pages that are needed again sooner.
    #[inline]
    pub(crate) fn offer(&mut self, page: u32, seal: &Seal, plain: &[u8]) {
        if plain.len() != self.page_len {
            self.reset(plain.len());
        }
        let step = page.wrapping_sub(self.last_page);
        let follows = step > 0 && step as usize <= SCAN_STRIDE_LEN / self.page_len.max(1);
        self.last_page = page;
        self.steps = if follows {
            (self.steps + 1).min(MAX_SCAN_LEN)
        } else {
            self.steps.saturating_sub(SCAN_LEN)
        };
        if self.steps >= SCAN_LEN {
            return;
        }
        if self.paused > 0 {
            self.paused -= 1;
            return;
        }
        if self.remember(page, seal) {
            self.insert(page, seal, plain);
        }
    }

    /// Records that a page was just sealed, so that its first read already counts as its second.
    pub(crate) fn note_sealed(&mut self, page: u32, seal: &Seal) {
        if self.page_len != 0 {
            self.remember(page, seal);
        }
    }

    /// Records the sighting; returns true if this page was seen before under this seal.
    fn remember(&mut self, page: u32, seal: &Seal) -> bool {
        // The nonce is random: its last bytes are as good as a hash of the seal.
        let mark = seal[16..24].iter().fold(u64::from(page), |h, &b| (h << 8) ^ u64::from(b));
        let slot = &mut self.seen[page as usize % SEEN_ENTRIES];
        std::mem::replace(slot, mark) == mark
    }

    fn insert(&mut self, page: u32, seal: &Seal, plain: &[u8]) {
        self.insertions += 1;
        if self.insertions >= TRIAL_INSERTIONS {
            if self.hits < self.insertions / 4 {
                self.paused = PAUSE_MISSES;
            }
            (self.insertions, self.hits) = (0, 0);
        }
        let set = self.set_of(page);
        self.next_way = self.next_way.wrapping_add(1);
        let numbers = &mut self.numbers[set];
        let place = |wanted| numbers.iter().position(|&number| number == wanted);
        let way = place(page).or_else(|| place(0)).unwrap_or(usize::from(self.next_way) % WAYS);
        numbers[way] = page;
        match &mut self.entries[set * WAYS + way] {
            Some(entry) => {
                entry.seal = *seal;
                entry.plain.copy_from_slice(plain);
            }
            empty => *empty = Some(Entry { seal: *seal, plain: plain.into() }),
        }
    }

    fn set_of(&self, page: u32) -> usize {
        page as usize % self.numbers.len()
    }

    fn reset(&mut self, page_len: usize) {
        *self = Self::new();
        self.page_len = page_len;
        let sets = (BUDGET_BYTES / page_len.max(1) / WAYS).max(1);
        self.numbers = vec![[0; WAYS]; sets];
        self.entries.resize_with(sets * WAYS, || None);
        self.seen = vec![0; SEEN_ENTRIES];
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.plain.fill(0);
        std::hint::black_box(&self.plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_kept_from_its_second_sighting_and_only_under_its_seal() {
        let mut cache = PageCache::new();
        let (seal, plain, mut out) = ([1; 48], [5; 1024], [0; 1024]);
        cache.offer(9, &seal, &plain);
        assert!(!cache.get(9, &seal, &mut out));
        cache.offer(9, &seal, &plain);
        assert!(cache.get(9, &seal, &mut out));
        assert_eq!(out, plain);
        assert!(!cache.get(9, &[2; 48], &mut out));
        assert!(!cache.get(10, &seal, &mut out));
    }

    #[test]
    fn a_sealed_page_is_kept_at_its_first_read() {
        let mut cache = PageCache::new();
        cache.offer(1, &[0; 48], &[5; 1024]);
        cache.note_sealed(3, &[7; 48]);
        cache.offer(3, &[7; 48], &[6; 1024]);
        assert!(cache.get(3, &[7; 48], &mut [0; 1024]));
    }

    #[test]
    fn a_scan_does_not_fill_the_cache() {
        let mut cache = PageCache::new();
        for _ in 0..3 {
            for page in 1..500 {
                cache.offer(page, &[1; 48], &[5; 4096]);
            }
        }
        let kept = cache.entries.iter().flatten().count();
        assert!(kept <= SCAN_LEN as usize, "{kept}");
    }

    #[test]
    fn a_scan_that_skips_interior_pages_does_not_fill_the_cache() {
        let mut cache = PageCache::new();
        for _ in 0..3 {
            for page in (1..1000).filter(|page| page % 60 != 0) {
                cache.offer(page, &[1; 48], &[5; 4096]);
            }
        }
        let kept = cache.entries.iter().flatten().count();
        assert!(kept <= SCAN_LEN as usize, "{kept}");
        for page in [3, 900, 41, 500, 7] {
            cache.offer(page, &[2; 48], &[5; 4096]);
            cache.offer(page, &[2; 48], &[5; 4096]);
        }
        assert!(cache.get(7, &[2; 48], &mut [0; 4096]));
    }

    #[test]
    fn memory_stays_within_the_budget() {
        let mut cache = PageCache::new();
        for page in 1..10_000 {
            cache.offer(page, &[page.to_le_bytes()[0]; 48], &[5; 4096]);
            cache.offer(page, &[page.to_le_bytes()[0]; 48], &[5; 4096]);
        }
        let kept: usize = cache.entries.iter().flatten().map(|e| e.plain.len()).sum();
        assert!(kept > 0 && kept <= BUDGET_BYTES, "{kept}");
    }
}
