//! The amount of a sweep's work per transaction, and the pauses in which others work undisturbed.

use std::time::{Duration, Instant};

/// Bytes of a stretch, which is read at once to find pages of an older version.
pub(crate) const CHUNK_LEN: usize = 8 << 20;
/// The shortest pause while others write.
pub(crate) const SHORTEST_YIELD: Duration = Duration::from_millis(5);
/// Maximum number of pages of a transaction while no other connection is active: at most a stretch.
const MOST_PAGES: usize = 8192;
/// A sweep that has seen no other connection for this time is alone.
const ALONE_AFTER: Duration = Duration::from_secs(1);
/// The pause after a transaction, while no other connection was seen, is its duration divided by
/// this.
const GAP: u32 = 8;

/// Factor for pauses: after a transaction while others write, times the duration of the lock, and
/// after a checkpoint, times its duration. One in this many of the others' transactions meets one
/// of ours and waits, far fewer than the one in a hundred of a 99th percentile.
const YIELD: u32 = 300;

/// Maximum pause after a checkpoint, whose syncs keep the disk from others' commits.
const LONGEST_COPY_YIELD: Duration = Duration::from_secs(5);

/// Limits while others write.
struct Polite {
    /// Pages of a transaction.
    pages: usize,
    longest: Duration,
}

/// The lock is held for less than a millisecond.
const WITH_LOG: Polite = Polite { pages: 32, longest: Duration::from_millis(500) };
/// Syncs hold the lock, whatever is written: for less than a millisecond, or for many.
const WITH_JOURNAL: Polite = Polite { pages: 128, longest: Duration::from_secs(2) };

/// The pace of a sweep.
pub(crate) struct Pace {
    polite: Polite,
    pages: usize,
    /// The current pause for others.
    pub(crate) pause: Duration,
    others: bool,
    /// Time at which another connection was last seen.
    seen: Option<Instant>,
    /// SQLite's `data_version` after the last transaction.
    pub(crate) data_version: i64,
    /// Frames in the log when a checkpoint was last due.
    pub(crate) asked_at: i64,
    /// Time at which others have worked long enough since the last checkpoint.
    copy_from: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(wal: bool, data_version: i64) -> Self {
        let polite = if wal { WITH_LOG } else { WITH_JOURNAL };
        Self {
            pages: polite.pages,
            polite,
            pause: Duration::ZERO,
            others: false,
            seen: None,
            data_version,
            asked_at: 0,
            copy_from: None,
        }
    }

    /// Returns the number of pages for the next transaction.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// Returns true if others are active: seen just now, or recently.
    pub(crate) fn others(&self) -> bool {
        self.others
    }

    /// Returns the time until the next checkpoint may run.
    pub(crate) fn until_copy(&self) -> Duration {
        let from = self.copy_from.filter(|_| self.others);
        from.map_or(Duration::ZERO, |from| from.saturating_duration_since(Instant::now()))
    }

    /// Records the duration of a checkpoint.
    pub(crate) fn has_copied(&mut self, took: Duration) {
        let pause = (took * YIELD).min(LONGEST_COPY_YIELD);
        self.copy_from = Some(Instant::now() + pause);
    }

    /// Records whether a transaction saw another connection, and that it held the lock for `held`,
    /// zero if it did not get it.
    pub(crate) fn adapt(&mut self, seen: bool, held: Duration) {
        if seen {
            self.seen = Some(Instant::now());
        }
        self.others = self.seen.is_some_and(|seen| seen.elapsed() < ALONE_AFTER);
        if self.others {
            self.pages = self.polite.pages;
            self.pause = (held * YIELD).clamp(SHORTEST_YIELD, self.polite.longest);
        } else {
            self.pages = (self.pages * 2).min(MOST_PAGES);
            // A new connection asks for the lock once in some milliseconds, and must find it free.
            self.pause = held / GAP;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_the_lock_nearly_always() {
        for (wal, held_ms) in [(true, 1), (false, 5)] {
            let mut pace = Pace::new(wal, 0);
            for _ in 0..10 {
                pace.adapt(false, Duration::from_millis(30));
            }
            assert_eq!((pace.pages(), pace.others()), (MOST_PAGES, false));
            pace.has_copied(Duration::from_millis(10));
            assert_eq!(pace.until_copy(), Duration::ZERO, "alone");
            let held = Duration::from_millis(held_ms);
            pace.adapt(true, held);
            assert!(pace.others() && pace.pages() < 200);
            assert!(pace.pause >= held * 299, "{:?}", pace.pause);
            pace.has_copied(Duration::from_millis(10));
            let wait = pace.until_copy();
            assert!(wait > Duration::from_secs(2) && wait <= Duration::from_secs(3), "{wait:?}");
            pace.has_copied(Duration::from_mins(1));
            assert!(pace.until_copy() <= LONGEST_COPY_YIELD);
            // A transaction that did not get the lock retries soon.
            pace.adapt(true, Duration::ZERO);
            assert_eq!(pace.pause, SHORTEST_YIELD);
        }
    }
}
