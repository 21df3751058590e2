//! The clocks of this process.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use crate::usage::in_ns;

/// Number of readings to determine the clock's step, minimum number of steps among them (one may
/// include the time slice of another process), and number of readings if the clock stands still.
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

/// Returns the smallest observed step of the wall clock, from some thousand readings; from more if
/// it hardly moves in that time.
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
    // A clock that never moved: its reported resolution.
    if least == u64::MAX { time_ns(clock_getres(ClockId::Monotonic)) } else { least }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = time_ns(clock_gettime(clock));
    now - now % COARSENESS_NS.load(Ordering::Relaxed)
}

fn time_ns(time: Timespec) -> u64 {
    in_ns(time.tv_sec, time.tv_nsec)
}

/// The step of both clocks: 1, except in tests of coarse clocks.
static COARSENESS_NS: AtomicU64 = AtomicU64::new(1);

/// Makes both clocks coarse, to test runs on such machines.
pub fn set_clock_step(step_ns: u64) {
    COARSENESS_NS.store(step_ns.max(1), Ordering::Relaxed);
}
