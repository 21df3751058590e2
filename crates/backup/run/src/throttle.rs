//! A limit on bytes per second.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Run, RunError};

/// Distributes a number of bytes per second among threads.
pub(crate) struct Throttle {
    bytes_per_s: Option<u64>,
    /// Time at which the bytes taken so far are paid for.
    paid_at: Mutex<Option<Instant>>,
}

/// Maximum delay until it is noticed that a run was cancelled, or its throttle lifted.
const NAP: Duration = Duration::from_millis(50);

impl Throttle {
    pub(crate) fn new(bytes_per_s: Option<u64>) -> Self {
        Self { bytes_per_s, paid_at: Mutex::new(None) }
    }

    /// Waits until `bytes` may be taken. Idle time does not accumulate.
    pub(crate) fn take(&self, bytes: u64, run: &Run<'_>) -> Result<(), RunError> {
        let Some(rate) = self.bytes_per_s.filter(|rate| *rate > 0) else { return run.check() };
        let begin = {
            let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let begin = paid_at.map_or(now, |paid| paid.max(now));
            *paid_at = begin.checked_add(cost(bytes, rate));
            begin
        };
        loop {
            run.check()?;
            let left = begin.saturating_duration_since(Instant::now());
            if left.is_zero() || run.is_lifted() {
                return Ok(());
            }
            thread::sleep(left.min(NAP));
        }
    }
}

fn cost(bytes: u64, rate: u64) -> Duration {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn bytes_cost_their_time() {
        assert_eq!(cost(1 << 20, 1 << 20), Duration::from_secs(1));
        assert_eq!(cost(1, 1_000_000), Duration::from_micros(1));
        assert_eq!(cost(u64::MAX, 1), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn a_throttle_that_was_lifted_lets_everything_through() {
        static LIFT: AtomicBool = AtomicBool::new(false);
        let (end, ended) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let run = Run { lift: Some(&LIFT), ..Run::default() };
            let throttle = Throttle::new(Some(1));
            throttle.take(1 << 40, &run).unwrap();
            // These wait.
            (0..2).for_each(|_| end.send(throttle.take(1 << 40, &run)).unwrap());
        });
        assert!(ended.recv_timeout(NAP * 3).is_err());
        LIFT.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            ended.recv_timeout(Duration::from_secs(10)).expect("it waits").unwrap();
        }
    }

    #[test]
    fn a_cancelled_run_does_not_wait_for_its_bytes() {
        let cancel = AtomicBool::new(true);
        let run = Run { cancel: Some(&cancel), ..Run::default() };
        let throttle = Throttle::new(Some(1));
        assert!(matches!(throttle.take(1 << 40, &run), Err(RunError::Cancelled)));
        assert!(matches!(throttle.take(1, &run), Err(RunError::Cancelled)));
        assert!(Throttle::new(None).take(1 << 40, &Run::default()).is_ok());
    }
}
