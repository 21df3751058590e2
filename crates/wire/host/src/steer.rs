//! Runs work of the backup engine on a separate thread, and reports its progress to the client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tdekit_backup_run::{Progress as At, Run, RunError};
use tdekit_wire_tds::messages::Told;
use tdekit_wire_tsql::Progress;

/// Interval between checks whether the client has cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// Runs `work`. Each time that `stats` percent more is done, reports it to `out`. The work is
/// cancelled when that wants no more, and when the client cancels.
pub(crate) fn steer<T: Send>(
    stats: Option<u32>,
    out: &mut Progress<'_>,
    work: impl FnOnce(&Run<'_>) -> Result<T, RunError> + Send,
) -> Result<T, RunError> {
    let cancel = AtomicBool::new(false);
    let client = out.cancel_flag();
    let (told, tell) = channel();
    thread::scope(|scope| {
        let cancelled = &cancel;
        let worker = scope.spawn(move || {
            let steps = stats.map(|step| Mutex::new(Steps::new(step)));
            let report = |at: At| {
                let Some(steps) = &steps else { return };
                let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(percent) = steps.due(at) {
                    let _ = told.send(percent);
                }
            };
            let run = Run { progress: Some(&report), cancel: Some(cancelled), ..Run::default() };
            work(&run)
        });
        loop {
            let goes_on = match tell.recv_timeout(LOOK) {
                Ok(percent) => out.tell(Told::PercentProcessed { percent }.message()),
                Err(RecvTimeoutError::Timeout) => !client.load(Ordering::Relaxed),
                // The worker has dropped its end.
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if !goes_on {
                cancel.store(true, Ordering::Relaxed);
            }
        }
        worker.join().unwrap_or_else(|_| Err(RunError::Internal("a thread failed")))
    })
}

/// Percentages that are reported to the client.
struct Steps {
    step: u64,
    next: u64,
}

impl Steps {
    fn new(step: u32) -> Self {
        let step = u64::from(step.clamp(1, 100));
        Self { step, next: step }
    }

    fn due(&mut self, at: At) -> Option<u64> {
        let total = at.total_bytes.filter(|total| *total > 0)?;
        let percent = u128::from(at.done_bytes.min(total)) * 100 / u128::from(total);
        let percent = u64::try_from(percent).unwrap_or(100);
        if percent < self.next {
            return None;
        }
        // The last step may be a short one; after it nothing is due.
        self.next = match percent {
            100 => u64::MAX,
            _ => (percent / self.step * self.step + self.step).min(100),
        };
        Some(percent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn percents_are_told_by_steps_and_the_end_once() {
        let mut steps = Steps::new(30);
        let mut at =
            |done_bytes| steps.due(At { done_bytes, total_bytes: Some(100), media_bytes: 0 });
        let told: Vec<_> = [10, 30, 40, 75, 90, 99, 100, 100].map(&mut at).into();
        let expected = [None, Some(30), None, Some(75), Some(90), None, Some(100), None];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_client_cancels_work_that_tells_nothing() {
        let flag = Arc::new(AtomicBool::new(false));
        let mut nothing = |_| true;
        let mut out = Progress::new(&mut nothing, Arc::clone(&flag));
        let worked = steer(None, &mut out, |run| {
            flag.store(true, Ordering::Relaxed);
            while !run.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                thread::yield_now();
            }
            Err::<(), _>(RunError::Cancelled)
        });
        assert!(matches!(worked, Err(RunError::Cancelled)));
    }

    #[test]
    fn a_client_that_wants_no_more_cancels_the_work() {
        let mut told = Vec::new();
        let mut tell = |message: tdekit_wire_tds::Message| {
            told.push((message.number, message.text));
            false
        };
        let mut out = Progress::new(&mut tell, Arc::default());
        let worked = steer(Some(50), &mut out, |run| {
            if let Some(progress) = run.progress {
                progress(At { done_bytes: 50, total_bytes: Some(100), media_bytes: 0 });
            }
            while !run.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                thread::yield_now();
            }
            Err::<(), _>(RunError::Cancelled)
        });
        assert!(matches!(worked, Err(RunError::Cancelled)));
        assert_eq!(told, [(3211, "50 percent processed.".to_owned())]);
    }
}
