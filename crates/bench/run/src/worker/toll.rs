//! A known cost, for calibration: computing and waiting beside the work.

use std::time::Duration;

use tdekit_system_use::{cpu_ns, wall_ns};

/// Iterations between two readings of the clock; some hundreds of nanoseconds.
const TURNS: u32 = 256;

/// Computes until this process has used `cpu` nanoseconds more, then waits until the monotonic
/// clock shows `until`.
pub(super) fn pay(cpu: u64, until: u64) {
    let enough = cpu_ns().saturating_add(cpu);
    let mut state = enough | 1;
    while cpu_ns() < enough {
        for _ in 0..TURNS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).rotate_left(23);
        }
    }
    std::hint::black_box(state);
    while let left @ 1.. = until.saturating_sub(wall_ns()) {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process use CPU too, so only a lower bound can be checked.
    #[test]
    fn it_is_paid_in_computing_and_in_waiting() {
        let (cpu, wall) = (cpu_ns(), wall_ns());
        pay(3_000_000, wall + 20_000_000);
        assert!(cpu_ns() - cpu >= 3_000_000, "{}", cpu_ns() - cpu);
        assert!(wall_ns() - wall >= 20_000_000, "{}", wall_ns() - wall);
        pay(0, 0);
    }
}
