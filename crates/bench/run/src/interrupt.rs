//! A request to stop: Ctrl-C, or a termination signal.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use crate::error::{BenchError, Result};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static INSTALL: Once = Once::new();

/// Notes signals from now on instead of ending the process, so that copies are removed and what was
/// measured is kept. When the program has a handler of its own, that one stays in charge.
pub(crate) fn install() {
    INSTALL.call_once(|| {
        let _own_handler_stays = ctrlc::set_handler(|| {
            if REQUESTED.swap(true, Ordering::SeqCst) {
                // Asked twice: whatever blocks is not worth waiting for.
                std::process::exit(130);
            }
        });
    });
}

/// Makes long statements of a connection end early once a stop was asked for.
pub(crate) fn watch(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.progress_handler(10_000, Some(requested))
}

/// Whether a stop was asked for.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Fails once a stop was asked for.
pub(crate) fn check() -> Result<()> {
    if requested() { Err(BenchError::Interrupted) } else { Ok(()) }
}
