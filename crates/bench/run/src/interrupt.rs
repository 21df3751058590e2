//! Stop requests: Ctrl-C, or a termination signal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{BenchError, Result};
use crate::removal::remove_or_name;

static REQUESTED: AtomicBool = AtomicBool::new(false);
static INSTALL: Once = Once::new();
static LEFT: Mutex<Left> = Mutex::new(Left { directories: BTreeSet::new(), groups: Vec::new() });

/// What a run would leave if it ended now.
pub(crate) struct Left {
    /// Directories with copies.
    pub(crate) directories: BTreeSet<PathBuf>,
    /// Process groups of workers that are not reaped.
    pub(crate) groups: Vec<Pid>,
}

/// Returns what a run would leave, for additions and removals. It blocks once the process ends.
pub(crate) fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, notes signals instead of ending the process, so that copies are removed and
/// measurements are kept. If the program already has a handler, that one stays in charge.
pub(crate) fn install() {
    INSTALL.call_once(|| {
        let _own_handler_stays = ctrlc::set_handler(|| {
            if REQUESTED.swap(true, Ordering::SeqCst) {
                end();
            }
        });
    });
}

/// Ends the process after a second stop request: whatever blocks is not waited for, but the copies
/// are removed, some of which are plain. Further requests wait for that.
fn end() -> ! {
    // Held to the end: nothing is made any more, and nobody else ends the process.
    let left = left();
    for group in &left.groups {
        let _gone = kill_process_group(*group, Signal::KILL);
    }
    // The second time for what somebody made meanwhile.
    for _ in 0..2 {
        left.directories.iter().for_each(|path| remove_or_name(path));
    }
    std::process::exit(130);
}

/// Ends long statements of a connection early after a stop request.
pub(crate) fn watch(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.progress_handler(10_000, Some(requested))
}

/// Returns true after a stop request.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Fails after a stop request.
pub(crate) fn check() -> Result<()> {
    if requested() { Err(BenchError::Interrupted) } else { Ok(()) }
}
