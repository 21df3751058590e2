//! Progress of the work, and requests to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::error::DatabaseError;
use crate::step::Step;

const POLL: Duration = Duration::from_millis(50);

/// The caller's side of the work: receives its progress and decides whether it continues. Called
/// from several threads.
pub trait Watch: Sync {
    /// Returns true if the work must stop. It then fails with `Interrupted` and leaves nothing.
    fn stops(&self) -> bool {
        false
    }

    /// Called when a phase begins. `what` names it in words; its length in bytes may be unknown.
    fn begins(&self, _what: &str, _total_bytes: Option<u64>) {}

    /// Called when the phase has reached this byte; its length may be unknown.
    fn at(&self, _done_bytes: u64) {}

    /// Called when the phase ends.
    fn ends(&self) {}

    /// Called after a step at which a crash may leave the old or the new database.
    fn done(&self, _step: Step) {}
}

/// A watch that ignores progress and never stops the work.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// A watch that stops the work when the flag becomes true: in a server, one client's work is not
/// the whole process.
#[derive(Debug)]
pub struct CancelledBy(pub Arc<AtomicBool>);

impl Watch for CancelledBy {
    fn stops(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A phase that ends when this is dropped.
pub struct Phase<'a>(&'a dyn Watch);

impl<'a> Phase<'a> {
    /// Begins a phase.
    pub fn begin(watch: &'a dyn Watch, what: &str, total_bytes: Option<u64>) -> Self {
        watch.begins(what, total_bytes);
        Self(watch)
    }

    /// Reports its progress.
    pub fn at(&self, done_bytes: u64) {
        self.0.at(done_bytes);
    }
}

impl Drop for Phase<'_> {
    fn drop(&mut self) {
        self.0.ends();
    }
}

/// Fails if the work must stop.
///
/// # Errors
/// `Interrupted`.
pub fn go_on(watch: &dyn Watch) -> Result<(), DatabaseError> {
    match watch.stops() {
        true => Err(DatabaseError::Interrupted),
        false => Ok(()),
    }
}

/// Runs `work`, a statement on `db`. Meanwhile reports `done_bytes` to `watch`, and interrupts the
/// statement when `watch` wants it to stop.
pub fn interruptible<T>(
    db: &Connection,
    watch: &dyn Watch,
    done_bytes: impl Fn() -> u64 + Send,
    work: impl FnOnce() -> T,
) -> T {
    let interrupt = db.get_interrupt_handle();
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                watch.at(done_bytes());
                if watch.stops() {
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
    fn a_statement_is_interrupted() {
        let db = Connection::open_in_memory().unwrap();
        let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
            SELECT count(*) FROM n";
        let cancelled = CancelledBy(Arc::new(AtomicBool::new(true)));
        let counted = interruptible(
            &db,
            &cancelled,
            || 0,
            || db.query_row(endless, [], |row| row.get::<_, i64>(0)),
        );
        assert!(counted.is_err());
        assert!(go_on(&cancelled).is_err() && go_on(&Unwatched).is_ok());
    }
}
