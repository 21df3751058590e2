//! Stop requests: Ctrl-C, or a termination signal.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use crate::error::{BenchError, Result};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static INSTALL: Once = Once::new();

/// From now on, notes signals instead of ending the process, so that copies are removed and
/// measurements are kept. If the program already has a handler, that one stays in charge.
pub(crate) fn install() {
    INSTALL.call_once(|| {
        let _own_handler_stays = ctrlc::set_handler(|| {
            if REQUESTED.swap(true, Ordering::SeqCst) {
                // Second request: whatever blocks is not waited for.
                std::process::exit(130);
            }
        });
    });
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
