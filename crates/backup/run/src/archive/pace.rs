//! Sizes of log sets: shipping one should take little time, as the log is looked at between two.
//!
//! A limit of bytes a second gives the size. Without one, the time that sets took does: a store may
//! take less than is committed.

use std::time::Duration;

use super::ship::MAX_PAGES;

/// Longest time that shipping a set should take.
pub(super) const LONGEST_SET: Duration = Duration::from_secs(1);
/// Fewest pages of a set without a limit, however long it took: with fewer, a store whose answers
/// take long would be given nothing but requests.
const FEWEST_PAGES: u64 = MAX_PAGES / 16;

/// Pages of a set that is shipped in [`LONGEST_SET`], by the time that those before took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    pages: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pages: MAX_PAGES }
    }
}

impl Pace {
    /// Returns the most pages of the next set, at least one.
    pub(super) fn most(self, page_size: u32, throttle_bytes_per_s: Option<u64>) -> u64 {
        let limit = throttle_bytes_per_s.map_or(u64::MAX, |bytes_per_s| {
            bytes_per_s.saturating_mul(LONGEST_SET.as_secs()) / u64::from(page_size.max(1))
        });
        self.pages.min(limit).max(1)
    }

    /// Notes that a set of so many pages took this time. Half of the longest time, or less, allows
    /// for twice as many pages.
    pub(super) fn shipped(&mut self, pages: u64, took: Duration) {
        if took > LONGEST_SET {
            let longest = u128::from(pages) * LONGEST_SET.as_millis() / took.as_millis().max(1);
            let longest = u64::try_from(longest).unwrap_or(u64::MAX);
            self.pages = self.pages.min(longest).max(FEWEST_PAGES);
        } else if took <= LONGEST_SET / 2 && pages >= self.pages / 2 {
            self.pages = self.pages.saturating_mul(2).min(MAX_PAGES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_gives_the_pages_of_a_second() {
        let pace = Pace::default();
        assert_eq!(pace.most(4096, None), MAX_PAGES);
        assert_eq!(pace.most(4096, Some(4_096_000)), 1000);
        assert_eq!(pace.most(4096, Some(u64::MAX)), MAX_PAGES);
        assert_eq!(pace.most(65536, Some(1)), 1, "a set has a page");
    }

    #[test]
    fn sets_become_smaller_while_they_take_long_and_larger_again() {
        let mut pace = Pace::default();
        pace.shipped(MAX_PAGES, Duration::from_secs(4));
        assert_eq!(pace.most(4096, None), MAX_PAGES / 4);
        // A set of a few pages shows nothing of larger ones.
        pace.shipped(3, Duration::from_millis(1));
        assert_eq!(pace.most(4096, None), MAX_PAGES / 4);
        // As does one that took as long as it may.
        pace.shipped(MAX_PAGES / 4, Duration::from_millis(750));
        assert_eq!(pace.most(4096, None), MAX_PAGES / 4);
        pace.shipped(MAX_PAGES / 4, Duration::from_millis(450));
        assert_eq!(pace.most(4096, None), MAX_PAGES / 2);
        pace.shipped(3, Duration::from_secs(60));
        assert_eq!(pace.most(4096, None), FEWEST_PAGES);
        for _ in 0..9 {
            pace.shipped(MAX_PAGES, Duration::from_millis(1));
        }
        assert_eq!(pace.most(4096, None), MAX_PAGES);
    }
}
