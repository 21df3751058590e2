//! The progress bar, and the user's wish to stop.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rusqlite::Connection;

use crate::convert::error::DatabaseError;

const POLL: Duration = Duration::from_millis(50);
const TEMPLATE: &str =
    "{msg:9} {bar:24} {percent:>3} %  {binary_bytes:>11} of {binary_total_bytes}  {eta}";

static STOP: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What stops the work of this thread alone.
    static CANCEL: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`, which stops as by a signal when `cancel` becomes true: in a server, where one
/// client's work is not the process's.
pub(crate) fn cancelled_by<T>(cancel: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            CANCEL.with_borrow_mut(|own| *own = None);
        }
    }
    CANCEL.with_borrow_mut(|own| *own = Some(cancel));
    let _reset = Reset;
    work()
}

fn stops(cancel: Option<&Arc<AtomicBool>>) -> bool {
    STOP.load(Ordering::Relaxed) || cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
}

/// Has Ctrl-C, `SIGTERM` and `SIGHUP` end the work in order. Where no handler can be set, they end
/// the process at once, which leaves a temporary file for the next run to remove.
pub(crate) fn heed_signals() {
    let _ = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
}

/// Fails when the user wants to stop.
pub(crate) fn go_on() -> Result<(), DatabaseError> {
    match CANCEL.with_borrow(|cancel| stops(cancel.as_ref())) {
        true => Err(DatabaseError::Interrupted),
        false => Ok(()),
    }
}

/// Becomes true when the user wants to stop.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    &STOP
}

/// A bar over `total_bytes` on a terminal; nothing elsewhere.
pub(crate) fn bar(what: &'static str, total_bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style);
    }
    bar.with_message(what)
}

/// Something that moves, on a terminal, while work runs whose end is not known.
pub(crate) fn spinner(what: String) -> ProgressBar {
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        .with_style(ProgressStyle::default_spinner())
        .with_message(what)
}

/// Runs `work`, a statement on `db`, and meanwhile shows on `bar` what `show` says, and interrupts
/// the statement when the user wants to stop.
pub(crate) fn watch<T>(
    db: &Connection,
    bar: &ProgressBar,
    show: impl Fn(&ProgressBar) + Send,
    work: impl FnOnce() -> T,
) -> T {
    let interrupt = db.get_interrupt_handle();
    let cancel = CANCEL.with_borrow(Clone::clone);
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                show(bar);
                if stops(cancel.as_ref()) {
                    interrupt.interrupt();
                }
            }
        });
        let result = work();
        drop(ended);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_threads_work_is_cancelled() {
        let cancel = Arc::new(AtomicBool::new(true));
        let stopped = cancelled_by(Arc::clone(&cancel), || {
            // Another thread's work goes on.
            let other = thread::scope(|scope| scope.spawn(|| go_on().is_ok()).join());
            (go_on().is_err(), other.unwrap())
        });
        assert_eq!(stopped, (true, true));
        assert!(go_on().is_ok(), "it was for that work only");
    }

    #[test]
    fn a_statement_is_interrupted() {
        let db = Connection::open_in_memory().unwrap();
        let bar = ProgressBar::hidden();
        let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
            SELECT count(*) FROM n";
        let counted = cancelled_by(Arc::new(AtomicBool::new(true)), || {
            watch(&db, &bar, |_| {}, || db.query_row(endless, [], |row| row.get::<_, i64>(0)))
        });
        assert!(counted.is_err());
    }
}
