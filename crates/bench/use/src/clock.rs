//! The clocks of this process.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use crate::usage::in_ns;

/// Readings of the clock that tell its step, steps among them at least (one may hold the time that
/// another process had), and how many readings are made where it stands still.
const READINGS: u32 = 5_000;
const STEPS: u32 = 8;
const MOST_READINGS: u32 = 20_000_000;
/// Monotonic clock.
#[must_use]
pub fn wall_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// CPU of all threads of this process.
#[must_use]
pub fn cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// The smallest step that the wall clock makes here, of some thousand readings; of more where it
/// hardly moves for so long.
#[must_use]
pub fn clock_step_ns() -> u64 {
    let (mut least, mut steps) = (u64::MAX, 0_u32);
    let mut last = wall_ns();
    for reading in 0..MOST_READINGS {
        if reading >= READINGS && steps >= STEPS {
            break;
        }
        let now = wall_ns();
        if now > last {
            least = least.min(now - last);
            steps += 1;
        }
        last = now;
    }
    // A clock that stood still all the while: its own word for its resolution.
    if least == u64::MAX { time_ns(clock_getres(ClockId::Monotonic)) } else { least }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = time_ns(clock_gettime(clock));
    now - now % COARSENESS_NS.load(Ordering::Relaxed)
}

fn time_ns(time: Timespec) -> u64 {
    in_ns(time.tv_sec, time.tv_nsec)
}

/// The step that both clocks are made to move in: 1, but in tests of coarse clocks.
static COARSENESS_NS: AtomicU64 = AtomicU64::new(1);

/// Makes both clocks coarse, so that a run on such can be tested.
pub fn set_clock_step(step_ns: u64) {
    COARSENESS_NS.store(step_ns.max(1), Ordering::Relaxed);
}
