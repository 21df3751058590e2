//! The progress bar, and the user's wish to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rusqlite::Connection;

use crate::convert::error::DatabaseError;

const POLL: Duration = Duration::from_millis(100);
const TEMPLATE: &str =
    "{msg:9} {bar:24} {percent:>3} %  {binary_bytes:>11} of {binary_total_bytes}  {eta}";

static STOP: AtomicBool = AtomicBool::new(false);

/// Has Ctrl-C, `SIGTERM` and `SIGHUP` end the work in order. Where no handler can be set, they end
/// the process at once, which leaves a temporary file for the next run to remove.
pub(crate) fn heed_signals() {
    let _ = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
}

/// Fails when the user wants to stop.
pub(crate) fn go_on() -> Result<(), DatabaseError> {
    match STOP.load(Ordering::Relaxed) {
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
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                show(bar);
                if STOP.load(Ordering::Relaxed) {
                    interrupt.interrupt();
                }
            }
        });
        let result = work();
        drop(ended);
        result
    })
}
