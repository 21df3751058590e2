//! A known cost, for calibration: a side that is the base made dearer by a share of what it does.
//!
//! The work is real: the process computes until it has used the share of its own CPU, in the middle
//! of its loop; and at the end of a measured part it waits for the share of the time in which it
//! used none. So CPU and elapsed time are both dearer by the share, whatever they are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::measure::{cpu_ns, wall_ns};

/// The share in thousandths; 0 for none.
static PER_MILLE: AtomicU64 = AtomicU64::new(0);
/// CPU clock at the start of the part.
static STARTED: AtomicU64 = AtomicU64::new(0);
/// CPU paid since then.
static PAID: AtomicU64 = AtomicU64::new(0);

/// Makes everything that is measured from now on in this process dearer.
pub(crate) fn set(per_mille: u64) {
    PER_MILLE.store(per_mille, Ordering::Relaxed);
}

/// Begins a measured part.
#[inline]
pub(crate) fn start() {
    if PER_MILLE.load(Ordering::Relaxed) > 0 {
        PAID.store(0, Ordering::Relaxed);
        STARTED.store(cpu_ns(), Ordering::Relaxed);
    }
}

/// Computes for the share of the CPU used since the last time.
#[inline]
pub(crate) fn pay() {
    let per_mille = PER_MILLE.load(Ordering::Relaxed);
    if per_mille > 0 {
        pay_share(per_mille);
    }
}

#[cold]
fn pay_share(per_mille: u64) {
    let now = cpu_ns();
    let used = now.saturating_sub(STARTED.load(Ordering::Relaxed));
    let paid = PAID.load(Ordering::Relaxed);
    let owed = (used.saturating_sub(paid) * per_mille / 1000).saturating_sub(paid);
    let mut state = now | 1;
    let mut last = now;
    while last < now + owed {
        for _ in 0..64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).rotate_left(23);
        }
        last = cpu_ns();
    }
    std::hint::black_box(state);
    PAID.store(paid + (last - now), Ordering::Relaxed);
}

/// Ends a measured part that began at these readings: pays the rest, and waits for the share of the
/// time that was spent without CPU.
pub(crate) fn finish(wall_start: u64, cpu_start: u64) {
    let per_mille = PER_MILLE.load(Ordering::Relaxed);
    if per_mille == 0 {
        return;
    }
    pay_share(per_mille);
    let now = wall_ns();
    let used = cpu_ns().saturating_sub(cpu_start);
    let waited = now.saturating_sub(wall_start).saturating_sub(used);
    let end = now + waited * per_mille / 1000;
    while let left @ 1.. = end.saturating_sub(wall_ns()) {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process use CPU too, so only the least can be said.
    #[test]
    fn the_share_is_paid_in_computing_and_in_waiting() {
        set(500);
        start();
        let (wall, cpu) = (wall_ns(), cpu_ns());
        while cpu_ns() < cpu + 4_000_000 {
            std::hint::black_box(0);
        }
        pay();
        assert!(cpu_ns() - cpu >= 5_900_000, "{}", cpu_ns() - cpu);
        std::thread::sleep(Duration::from_millis(20));
        finish(wall, cpu);
        let elapsed = wall_ns() - wall;
        set(0);
        assert!(elapsed >= 24_000_000, "{elapsed}");
    }
}
