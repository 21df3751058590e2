//! Processes that wait to follow a database again.

use std::path::Path;

use tdekit_key_store::led_to;

use super::state::{StateFile, record_of};

/// The lock of a database's record, for a process that waits between two tries to follow it: it
/// counts as the one that follows.
pub struct Waiting {
    /// The lock ends with it.
    _record: StateFile,
}

impl Waiting {
    /// Takes the lock; `None` where there is no record, which none is made for, or where another
    /// process has the lock.
    #[must_use]
    pub fn of(database: &Path) -> Option<Self> {
        let database = led_to(database).ok()?;
        if !record_of(&database).is_file() {
            return None;
        }
        StateFile::open(&database).ok().map(|record| Self { _record: record })
    }
}
