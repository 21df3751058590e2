//! Changes of databases' keys, which continue in the background after their statement.
//!
//! They run in this process, through descriptors that stay open: closing one would drop the locks
//! of the sessions (see `kept`). A separate process would need the master key. A scan ends with the
//! server, in an orderly way; the database then has both keys, and the next start of the server,
//! `SET ENCRYPTION RESUME` or `tdekit rotate` continues it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime};

use tdekit_key_crypto::Algorithm;
use tdekit_key_store::Unlocked;
use tdekit_sqlite_convert::{
    DatabaseError, Rotation, Watch, halted_since, io_error, is_key_changing, pause_through,
    resume_through, rotate,
};
use tdekit_sqlite_page::Header;

use super::kept;

/// Maximum wait for a halted scan, which ends before its next transaction.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// The states of `encryption_scan_state`, for a key change that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scan {
    Running,
    /// Halted since this time.
    Suspended(SystemTime),
    /// Nobody is working on it.
    Aborted,
}

/// The scans of this server.
#[derive(Default)]
pub(crate) struct Scans {
    running: Mutex<HashMap<PathBuf, JoinHandle<Result<(), DatabaseError>>>>,
    stop: Arc<AtomicBool>,
}

impl Scans {
    /// Starts or continues a change of the key of the database at `path`, and returns when the new
    /// key is in force. Returns false if a scan of this server is already running. `cancel` stops
    /// it until then.
    ///
    /// # Errors
    /// Those that ended it before the new key was in force.
    pub(crate) fn start(
        &self,
        path: &Path,
        algorithm: Option<Algorithm>,
        unlocked: &Arc<Unlocked>,
        cancel: Arc<AtomicBool>,
    ) -> Result<bool, DatabaseError> {
        let path = resolved(path)?;
        let Some(begun) = self.spawn(&path, algorithm, unlocked, cancel)? else {
            return Ok(false);
        };
        if begun.recv().is_ok() {
            return Ok(true);
        }
        let ended = self.running().remove(&path);
        match ended.map(JoinHandle::join) {
            Some(Ok(Err(failure))) => Err(failure),
            _ => Ok(true),
        }
    }

    /// Continues the change in `header` in the background, unless it is halted or another process
    /// is working on it. If it fails, the view shows it as aborted.
    pub(crate) fn go_on(&self, path: &Path, header: &Header, unlocked: &Arc<Unlocked>) {
        if header.deks.len() > 1 && matches!(self.state(path, header), Ok(Scan::Aborted)) {
            let Ok(path) = resolved(path) else { return };
            let _begun = self.spawn(&path, None, unlocked, Arc::default());
        }
    }

    fn spawn(
        &self,
        path: &Path,
        algorithm: Option<Algorithm>,
        unlocked: &Arc<Unlocked>,
        cancel: Arc<AtomicBool>,
    ) -> Result<Option<mpsc::Receiver<()>>, DatabaseError> {
        let mut running = self.running();
        if running.get(path).is_some_and(|scan| !scan.is_finished()) {
            return Ok(None);
        }
        let file = kept::open_to_write(path).map_err(io_error("open", path))?;
        let how = Rotation { algorithm, file: Some(file) };
        let (begun, told) = mpsc::sync_channel(1);
        let stop = Arc::clone(&self.stop);
        let watch = Watched { stop, cancel, begun, in_force: AtomicBool::new(false) };
        let (own, unlocked) = (path.to_owned(), Arc::clone(unlocked));
        let work = move || rotate(&own, &how, &unlocked, &watch).map(drop);
        let thread = std::thread::Builder::new().name("key scan".to_owned()).spawn(work);
        running.insert(path.to_owned(), thread.map_err(io_error("start a scan of", path))?);
        Ok(Some(told))
    }

    /// Returns true if a scan of this server is running.
    pub(crate) fn is_running(&self, path: &Path) -> bool {
        let running = |path: PathBuf| self.running().get(&path).map(|scan| !scan.is_finished());
        resolved(path).ok().and_then(running).unwrap_or(false)
    }

    /// Halts the change of the key of the database at `path`, in whatever process: no further step
    /// of it starts. Returns false if a scan of this server is still in its last one.
    ///
    /// # Errors
    /// `NoKeyChange` if none has begun; `Io`.
    pub(crate) fn suspend(&self, path: &Path) -> Result<bool, DatabaseError> {
        let path = resolved(path)?;
        let file = kept::open(&path).map_err(io_error("open", &path))?;
        pause_through(&file, &path)?;
        let until = Instant::now() + ENDS_WITHIN;
        while self.is_running(&path) && Instant::now() < until {
            sleep(LOOK);
        }
        Ok(!self.is_running(&path))
    }

    /// Cancels a halt. Returns false if another process is working on the change.
    ///
    /// # Errors
    /// `NoKeyChange` if none has begun; `Io`.
    pub(crate) fn release(&self, path: &Path) -> Result<bool, DatabaseError> {
        let path = resolved(path)?;
        let file = kept::open(&path).map_err(io_error("open", &path))?;
        resume_through(&file, &path)?;
        Ok(self.is_running(&path) || !is_key_changing(&file).unwrap_or(false))
    }

    /// Returns the state of the key change in `header`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn state(&self, path: &Path, header: &Header) -> Result<Scan, DatabaseError> {
        let path = resolved(path)?;
        if let Some(since) = halted_since(&path, header) {
            return Ok(Scan::Suspended(since));
        }
        let file = kept::open(&path).map_err(io_error("open", &path))?;
        // If the file system has no such marks, only scans of this server are known.
        let at_work = is_key_changing(&file).unwrap_or(false) || self.is_running(&path);
        Ok(if at_work { Scan::Running } else { Scan::Aborted })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<PathBuf, JoinHandle<Result<(), DatabaseError>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops all scans, and waits until they have ended in an orderly way.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let scans: Vec<_> = self.running().drain().collect();
        for (_, scan) in scans {
            let _ended = scan.join();
        }
    }
}

impl Drop for Scans {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the name beside which notes are made: that of a link differs.
fn resolved(path: &Path) -> Result<PathBuf, DatabaseError> {
    fs::canonicalize(path).map_err(io_error("open", path))
}

/// Learns when the new key is in force, and stops the scan.
struct Watched {
    stop: Arc<AtomicBool>,
    cancel: Arc<AtomicBool>,
    begun: SyncSender<()>,
    in_force: AtomicBool,
}

impl Watch for Watched {
    fn begins(&self, _what: &str, _total_bytes: Option<u64>) {
        self.in_force.store(true, Ordering::Relaxed);
        // It was reported already, or nobody waits.
        let _ = self.begun.try_send(());
    }

    fn stops(&self) -> bool {
        let begins = !self.in_force.load(Ordering::Relaxed);
        self.stop.load(Ordering::Relaxed) || (begins && self.cancel.load(Ordering::Relaxed))
    }
}
