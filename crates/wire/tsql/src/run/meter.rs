//! Measurement of a session's resources: time, the processor time of the thread that works for it,
//! and SQLite's own page counts.
//!
//! Everything between one mark and the next belongs to the session. A statement begins at the last
//! mark, or at a new one if something else has run since; so consecutive statements cost one
//! reading each. The clock of processor time is a system call, so it is read only if more than
//! [`SHORT_NS`] have passed: a shorter time counts in full, until the next reading corrects the
//! sum.

use crate::sqlite_pages::Pages;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// A time that a thread exceeds if it blocks on anything.
const SHORT_NS: u64 = 20_000;

/// Resources used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cpu_ns: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) pages: Pages,
    pub(crate) rows: u64,
}

impl Used {
    fn plus(self, other: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns.wrapping_add(other.cpu_ns),
            elapsed_ns: self.elapsed_ns.wrapping_add(other.elapsed_ns),
            pages: self.pages.plus(other.pages),
            rows: self.rows.wrapping_add(other.rows),
        }
    }

    /// Returns the difference from `before`.
    pub(crate) fn since(self, before: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            elapsed_ns: self.elapsed_ns.saturating_sub(before.elapsed_ns),
            pages: self.pages.minus(before.pages),
            rows: self.rows.saturating_sub(before.rows),
        }
    }
}

/// A session's figures as seen by other sessions: written by its own thread, at each mark.
#[derive(Debug, Default)]
pub(crate) struct Live {
    total: [AtomicU64; 6],
    at_request: [AtomicU64; 6],
}

impl Live {
    /// Returns everything that the session has used.
    pub(crate) fn total(&self) -> Used {
        load(&self.total)
    }

    /// Returns what it had used when its last request began.
    pub(crate) fn at_request(&self) -> Used {
        load(&self.at_request)
    }
}

fn store(cells: &[AtomicU64; 6], used: &Used) {
    let Pages { asked, read, written } = used.pages;
    let values = [used.cpu_ns, used.elapsed_ns, asked, read, written, used.rows];
    for (cell, value) in cells.iter().zip(values) {
        cell.store(value, Ordering::Relaxed);
    }
}

fn load(cells: &[AtomicU64; 6]) -> Used {
    let [cpu_ns, elapsed_ns, asked, read, written, rows] =
        [0, 1, 2, 3, 4, 5].map(|at: usize| cells[at].load(Ordering::Relaxed));
    Used { cpu_ns, elapsed_ns, pages: Pages { asked, read, written }, rows }
}

/// Returns the processor time of this thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The figures of one session.
#[derive(Debug)]
pub(crate) struct Meter {
    live: Arc<Live>,
    total: Used,
    cpu_ns: u64,
    at: Instant,
    pages: Pages,
    /// Since the last mark, something other than a statement has run.
    stale: bool,
    /// SQLite may have been asked for pages.
    read: bool,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter {
            live: Arc::default(),
            total: Used::default(),
            cpu_ns: 0,
            at: Instant::now(),
            pages: Pages::default(),
            stale: false,
            read: false,
        }
    }

    pub(crate) fn live(&self) -> Arc<Live> {
        self.live.clone()
    }

    /// Begins a request, on any thread; the time since the last one is not counted.
    pub(crate) fn begin_request(&mut self, cpu_ns: u64, at: Instant) {
        (self.cpu_ns, self.at) = (cpu_ns, at);
        store(&self.live.at_request, &self.total);
    }

    /// Notes that something other than a measured statement runs.
    pub(crate) fn disturb(&mut self) {
        (self.stale, self.read) = (true, true);
    }

    /// As [`Self::disturb`], if SQLite is asked for nothing.
    pub(crate) fn pause(&mut self) {
        self.stale = true;
    }

    /// Begins a statement; `pages` counts if needed.
    pub(crate) fn begin(&mut self, pages: impl FnOnce() -> Pages) {
        if self.stale {
            let pages = if self.read { pages() } else { self.pages };
            self.pass(pages, 0);
        }
    }

    /// Adds the resources used since the last mark, and sets a new one.
    pub(crate) fn pass(&mut self, pages: Pages, rows: u64) -> Used {
        let at = Instant::now();
        let elapsed = at.saturating_duration_since(self.at).as_nanos();
        let elapsed_ns = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let cpu_ns = match elapsed_ns {
            0..SHORT_NS => self.cpu_ns + elapsed_ns,
            _ => thread_cpu_ns().max(self.cpu_ns),
        };
        let used =
            Used { cpu_ns: cpu_ns - self.cpu_ns, elapsed_ns, pages: pages.minus(self.pages), rows };
        self.total = self.total.plus(used);
        (self.cpu_ns, self.at, self.pages) = (cpu_ns, at, pages);
        (self.stale, self.read) = (false, false);
        store(&self.live.total, &self.total);
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_uses_no_processor_time_and_a_short_time_is_put_right() {
        let mut meter = Meter::new();
        meter.begin_request(thread_cpu_ns(), Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(30));
        let waited = meter.pass(Pages::default(), 0);
        assert!(waited.cpu_ns < 15_000_000 && waited.elapsed_ns >= 30_000_000, "{waited:?}");
        // Overestimates of short times are subtracted from the next long one.
        let begun = thread_cpu_ns();
        meter.begin_request(begun, Instant::now());
        let before = meter.live().total();
        meter.cpu_ns += 1_000_000;
        let until = Instant::now() + std::time::Duration::from_millis(40);
        while Instant::now() < until {}
        meter.pass(Pages::default(), 0);
        let used = meter.live().total().since(before);
        assert!(used.cpu_ns + 1_000_000 <= thread_cpu_ns() - begun, "{used:?}");
    }

    #[test]
    fn a_session_has_what_passes_within_requests_and_nothing_else() {
        let mut meter = Meter::new();
        let live = meter.live();
        meter.begin_request(thread_cpu_ns(), Instant::now());
        let until = Instant::now() + std::time::Duration::from_millis(20);
        while Instant::now() < until {}
        let pages = Pages { asked: 5, read: 2, written: 1 };
        let used = meter.pass(pages, 3);
        assert!(used.elapsed_ns >= 20_000_000, "{used:?}");
        assert!(used.cpu_ns > 0 && used.cpu_ns <= used.elapsed_ns + 1_000_000, "{used:?}");
        assert_eq!((used.pages, used.rows), (pages, 3));
        std::thread::sleep(std::time::Duration::from_millis(20));
        meter.begin_request(thread_cpu_ns(), Instant::now());
        assert_eq!(live.at_request(), live.total());
        let more = meter.pass(Pages { asked: 7, read: 2, written: 1 }, 0);
        assert!(more.elapsed_ns < 20_000_000, "the pause is nobody's: {more:?}");
        assert_eq!(more.pages, Pages { asked: 2, read: 0, written: 0 });
        assert_eq!(live.total().pages.asked, 7);
        assert_eq!(live.total().since(live.at_request()), more);
    }
}
