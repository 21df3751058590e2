//! A known cost, for calibration: a side that is the base, slowed down by a share of its work.
//!
//! The share is of the current block: when it has ended, its processes compute until they have used
//! the share of its CPU, all at once as during the block, and wait until the share of its elapsed
//! time is over. A cost in the middle of the work would not be known: where processes wait for each
//! other, for a lock or for a processor, a part of it would be hidden or counted twice.

use tdekit_system_use::wall_ns;

use crate::error::Result;
use crate::job::Request;
use crate::numbers::float;
use crate::process::WorkerProcess;
use tdekit_bench_work::Cost;

use super::block::at_once;

/// The debt of one class's blocks. A payment is never exact; the difference is carried to the next,
/// so that the share over several blocks is exact.
pub(super) struct Debt {
    per_mille: u64,
    cpu_ns: i64,
    elapsed_ns: i64,
    added: Added,
}

/// Work and the added work, all blocks together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Added {
    worked_cpu_ns: u64,
    worked_elapsed_ns: u64,
    paid_cpu_ns: u64,
    paid_elapsed_ns: u64,
}

impl Added {
    /// Adds another one.
    pub(super) fn add(&mut self, other: Self) {
        self.worked_cpu_ns += other.worked_cpu_ns;
        self.worked_elapsed_ns += other.worked_elapsed_ns;
        self.paid_cpu_ns += other.paid_cpu_ns;
        self.paid_elapsed_ns += other.paid_elapsed_ns;
    }

    /// Returns the added shares of elapsed time and of CPU; zeros if there was no work.
    pub(super) fn shares(&self) -> (f64, f64) {
        let share = |paid: u64, worked: u64| float(paid) / float(worked.max(1));
        (
            share(self.paid_elapsed_ns, self.worked_elapsed_ns),
            share(self.paid_cpu_ns, self.worked_cpu_ns),
        )
    }
}

impl Debt {
    pub(super) fn new(per_mille: u64) -> Self {
        Self { per_mille, cpu_ns: 0, elapsed_ns: 0, added: Added::default() }
    }

    /// Returns the work added so far.
    pub(super) fn added(&self) -> Added {
        self.added
    }

    /// Pays for a block that has just ended; returns the cost of the payment.
    pub(super) fn pay(&mut self, workers: &mut [WorkerProcess], worked: &Cost) -> Result<Cost> {
        let (cpu_ns, elapsed_ns) = self.owe(worked);
        let each = cpu_ns / (workers.len() as u64).max(1);
        let until_ns = wall_ns().saturating_add(elapsed_ns);
        let paid = at_once(workers, |_| Request::Pay { cpu_ns: each, until_ns }, &mut || Ok(()))?;
        self.take(&paid);
        Ok(paid)
    }

    /// Adds a block's share; returns CPU and time to pay now.
    fn owe(&mut self, worked: &Cost) -> (u64, u64) {
        let share = |ns: u64| signed(ns.saturating_mul(self.per_mille) / 1000);
        self.added.worked_cpu_ns += worked.used.cpu_ns;
        self.added.worked_elapsed_ns += worked.elapsed_ns;
        self.cpu_ns = self.cpu_ns.saturating_add(share(worked.used.cpu_ns));
        self.elapsed_ns = self.elapsed_ns.saturating_add(share(worked.elapsed_ns));
        (self.cpu_ns.max(0).unsigned_abs(), self.elapsed_ns.max(0).unsigned_abs())
    }

    fn take(&mut self, paid: &Cost) {
        self.added.paid_cpu_ns += paid.used.cpu_ns;
        self.added.paid_elapsed_ns += paid.elapsed_ns;
        self.cpu_ns = self.cpu_ns.saturating_sub(signed(paid.used.cpu_ns));
        self.elapsed_ns = self.elapsed_ns.saturating_sub(signed(paid.elapsed_ns));
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tdekit_system_use::Use;

    use super::*;

    #[test]
    fn what_a_payment_exceeds_is_taken_off_the_next() {
        let cost = |cpu_ns, elapsed_ns| {
            let used = Use { cpu_ns, ..Use::default() };
            Cost { used, elapsed_ns, ..Cost::default() }
        };
        let mut debt = Debt::new(30);
        assert_eq!(debt.owe(&cost(1_000_000, 2_000_000)), (30_000, 60_000));
        debt.take(&cost(31_000, 55_000));
        assert_eq!(debt.owe(&cost(1_000_000, 2_000_000)), (29_000, 65_000));
        debt.take(&cost(200_000, 65_000));
        assert_eq!(debt.owe(&cost(1_000_000, 0)), (0, 0));
        // Over many blocks the share is exact, however each payment comes out.
        let mut debt = Debt::new(30);
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..1_000 {
            let block = cost(1_000_000 + rng.u64(..500_000), 1_000_000);
            let (owed, _) = debt.owe(&block);
            debt.take(&cost(owed * rng.u64(90..130) / 100, 0));
        }
        let (elapsed, cpu) = debt.added().shares();
        assert!((cpu - 0.03).abs() < 1e-5 && elapsed == 0.0, "{cpu}");
        assert_eq!(Added::default().shares(), (0.0, 0.0));
    }
}
