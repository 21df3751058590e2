//! Changes of databases' keys, which go on in the background after their statement.
//!
//! A scan of the server ends with the server, in order: the database then has both keys, and
//! `SET ENCRYPTION RESUME` or `tdekit rotate` goes on with it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use tdekit_backup_run::RunError;
use tdekit_key_store::Unlocked;
use tdekit_sqlite_convert::{CancelledBy, DatabaseError, State, is_paused, rotate};

/// How often the statement looks whether the scan has begun.
const LOOK: Duration = Duration::from_millis(5);

/// Scans by their databases' paths.
#[derive(Default)]
pub(crate) struct Scans {
    running: Mutex<HashMap<PathBuf, Scan>>,
    stop: Arc<AtomicBool>,
}

/// A scan. One that is over and whose database still has both keys was cut short.
struct Scan {
    thread: JoinHandle<Result<(), DatabaseError>>,
}

impl Scans {
    /// Begins a change of the key of the database at `path`, or goes on with one, and returns when
    /// `has_begun` says so. False when one runs already.
    ///
    /// # Errors
    /// What ended the scan before it had begun.
    pub(crate) fn start(
        &self,
        path: &Path,
        unlocked: Arc<Unlocked>,
        has_begun: impl Fn() -> bool,
    ) -> Result<bool, RunError> {
        let mut running = self.scans();
        if running.get(path).is_some_and(|scan| !scan.thread.is_finished()) {
            return Ok(false);
        }
        let (own, watch) = (path.to_owned(), CancelledBy(Arc::clone(&self.stop)));
        let work = move || rotate(&own, &unlocked, &watch).map(drop);
        let thread = std::thread::Builder::new().name("key scan".to_owned()).spawn(work);
        let thread = thread.map_err(|source| {
            let path = path.to_owned();
            RunError::Io { action: "start a thread for", path, source }
        })?;
        while !thread.is_finished() && !has_begun() {
            sleep(LOOK);
        }
        if thread.is_finished() {
            // It was over at once, well or not.
            return match thread.join() {
                Ok(ended) => ended.map(|()| true).map_err(RunError::DatabaseFile),
                Err(_) => Ok(true),
            };
        }
        running.insert(path.to_owned(), Scan { thread });
        Ok(true)
    }

    /// What is going on with a change that the database's header shows: a scan of another process
    /// counts as running, one of ours that failed does not.
    pub(crate) fn state(&self, path: &Path) -> State {
        if is_paused(path) {
            return State::Paused;
        }
        match self.scans().get(path) {
            Some(scan) if scan.thread.is_finished() => State::Waiting,
            _ => State::Running,
        }
    }

    fn scans(&self) -> MutexGuard<'_, HashMap<PathBuf, Scan>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Scans {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, scan) in self.scans().drain() {
            // It has ended in order, or the database has both keys.
            let _ended = scan.thread.join();
        }
    }
}
