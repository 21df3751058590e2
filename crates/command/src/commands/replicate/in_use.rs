//! Programs that have a database open whose file was exchanged, when a process begins to follow it:
//! they see the log of the file that was there before, and it cannot be put aside.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tdekit_backup_run::RunError;
use tdekit_console::ConsoleError;
use tdekit_key_crypto::Kind;
use tdekit_sqlite_convert::{DatabaseError, has_log_users};

use super::again::wait_to_follow;
use super::follow::Wanted;
use crate::error::CommandError;

/// Interval of looks whether they have ended.
const LOOK: Duration = Duration::from_millis(500);

/// The programs.
#[derive(Default)]
pub(super) struct Programs {
    path: PathBuf,
    are_known: bool,
}

impl Programs {
    /// Returns true if `error`, of opening the database, may pass once programs have ended that
    /// use its log.
    pub(super) fn are_at(&mut self, database: &Path, error: &CommandError) -> bool {
        let CommandError::Console(error) = error else { return false };
        let Ok(path) = fs::canonicalize(database) else { return false };
        let is_of_them = match error {
            ConsoleError::Run(RunError::Locked { path: locked }) => *locked == path,
            // By the index of the old log, SQLite looks for frames that the new one lacks.
            ConsoleError::Database(error @ DatabaseError::Sqlite { .. }) => {
                error.kind() == Kind::Io
            }
            _ => false,
        };
        self.path = path;
        is_of_them && self.are_there()
    }

    /// Returns true the first time.
    pub(super) fn are_new(&mut self) -> bool {
        !std::mem::replace(&mut self.are_known, true)
    }

    /// Waits until they have ended; returns false if the process is to end.
    pub(super) fn wait(&self, wanted: &Wanted) -> bool {
        loop {
            if !wait_to_follow(wanted, LOOK) {
                return false;
            }
            if !self.are_there() {
                return true;
            }
        }
    }

    /// This process has no connection to the database, whose locks that would drop.
    fn are_there(&self) -> bool {
        has_log_users(&self.path).unwrap_or(false)
    }
}
