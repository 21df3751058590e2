//! Global temporary tables, `##t`: tables of tempdb, which all sessions see. Each is dropped at the
//! end of the session that created it. While another session has an open change of tempdb, a table
//! cannot be dropped: it counts as gone at once, and goes when that change has ended.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::db::Db;
use crate::name::quote;
use crate::run::catalog::model::OWN;
use crate::run::catalog::tables::has_table;

/// Their database.
pub(crate) const TEMPDB: &str = "tempdb";

/// What the sessions know of each other's global temporary tables, by names in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globals {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// The sessions that created them. A name stays after its table was dropped, which may be
    /// undone; whoever creates the next one takes it over.
    owners: HashMap<String, u64>,
    /// Those whose session has ended, and which are still in the file.
    leaving: HashSet<String>,
}

/// One session among the owners.
#[derive(Debug)]
pub(crate) struct Mine {
    globals: Globals,
    number: u64,
}

impl Globals {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self) -> Mine {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Mine { globals: self.clone(), number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Mine {
    /// Notes that this session has created a table.
    pub(crate) fn add(&self, name: &str) {
        self.globals.known().owners.insert(name.to_lowercase(), self.number);
    }

    /// Returns true for a table that is only in the file any more.
    pub(crate) fn is_leaving(&self, name: &str) -> bool {
        let known = self.globals.known();
        !known.leaving.is_empty() && known.leaving.contains(&name.to_lowercase())
    }

    fn names(&self) -> Vec<String> {
        let known = self.globals.known();
        let own = known.owners.iter().filter(|(_, number)| **number == self.number);
        own.map(|(name, _)| name.clone()).collect()
    }

    /// This session's tables leave. Returns true if it had any.
    fn leave(&self) -> bool {
        let mut known = self.globals.known();
        let Known { owners, leaving } = &mut *known;
        let before = owners.len();
        owners.retain(|name, number| {
            let own = *number == self.number;
            if own {
                leaving.insert(name.clone());
            }
            !own
        });
        owners.len() < before
    }

    fn leaving(&self) -> Vec<String> {
        self.globals.known().leaving.iter().cloned().collect()
    }

    fn left(&self, name: &str) {
        self.globals.known().leaving.remove(name);
    }
}

impl Db {
    /// Returns true if a global temporary table of this session is there.
    pub(super) fn has_globals(&self) -> bool {
        let (Some(open), Some(schema)) = (self.peek(), self.attached(TEMPDB)) else { return false };
        self.globals.names().iter().any(|name| has_table(open, schema, name).unwrap_or(true))
    }

    /// Drops the session's global temporary tables; its connection ends afterwards.
    pub(super) fn drop_globals(&mut self) {
        if !self.globals.leave() {
            return;
        }
        self.changed();
        let Some(open) = self.peek() else { return };
        // the client's last cancel does not count here
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        if open.is_autocommit() || open.execute_batch("ROLLBACK").is_ok() {
            self.drop_leaving();
        }
    }

    /// Drops what has to go, unless this session is in a transaction, or has no tempdb. Another
    /// session that changes tempdb now does this when it has ended its change.
    pub(super) fn drop_leaving(&self) {
        let (Some(open), Some(schema)) = (self.peek(), self.attached(TEMPDB)) else { return };
        let names = self.globals.leaving();
        if names.is_empty() || !open.is_autocommit() {
            return;
        }
        for name in names {
            if open.busy_timeout(Duration::ZERO).is_ok() && drop_one(open, schema, &name).is_ok() {
                self.globals.left(&name);
            }
        }
        let _ = open.busy_timeout(super::db::BUSY);
    }
}

/// Drops a table and the notes about it, together. Nothing refers to it: a foreign key cannot.
fn drop_one(open: &Connection, schema: &str, name: &str) -> rusqlite::Result<()> {
    open.execute_batch("BEGIN")?;
    let schema_text = quote(schema);
    let dropped = || -> rusqlite::Result<()> {
        open.execute_batch(&format!("DROP TABLE IF EXISTS {schema_text}.{}", quote(name)))?;
        for own in OWN {
            if has_table(open, schema, own)? {
                let sql =
                    format!("DELETE FROM {schema_text}.{own} WHERE table_name = ?1 COLLATE NOCASE");
                open.execute(&sql, [name])?;
            }
        }
        open.execute_batch("COMMIT")
    };
    let result = dropped();
    if !open.is_autocommit() {
        open.execute_batch("ROLLBACK")?;
    }
    result
}
