//! Global temporary tables, `##t`: tables of tempdb, which all sessions see and which ends with the
//! process. Each is dropped at the end of the session that created it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::db::Db;
use super::ddl::rename::OWN;
use crate::name::quote;
use crate::run::catalog::named::has_table;

/// Their database.
pub(crate) const TEMPDB: &str = "tempdb";

/// The sessions that created global temporary tables, by the names in lower case. A name stays
/// after its table was dropped, which may be undone; whoever creates the next one takes it over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globals {
    owners: Arc<Mutex<HashMap<String, u64>>>,
}

/// One session among the owners.
#[derive(Debug)]
pub(crate) struct Mine {
    globals: Globals,
    number: u64,
}

impl Globals {
    fn owners(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self) -> Mine {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Mine { globals: self.clone(), number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Mine {
    /// Notes that this session has created a table.
    pub(crate) fn add(&self, name: &str) {
        self.globals.owners().insert(name.to_lowercase(), self.number);
    }

    fn names(&self) -> Vec<String> {
        let owners = self.globals.owners();
        let own = owners.iter().filter(|(_, number)| **number == self.number);
        own.map(|(name, _)| name.clone()).collect()
    }

    fn forget(&self) {
        self.globals.owners().retain(|_, number| *number != self.number);
    }
}

impl Db {
    /// Returns true if a global temporary table of this session is there.
    pub(super) fn has_globals(&self) -> bool {
        let (Some(open), Some(schema)) = (self.peek(), self.attached(TEMPDB)) else { return false };
        self.globals.names().iter().any(|name| has_table(open, schema, name).unwrap_or(true))
    }

    /// Drops the session's global temporary tables; its connection ends afterwards. One that others
    /// use for longer than a statement waits stays until it is dropped by hand, or until nobody has
    /// tempdb open.
    pub(super) fn drop_globals(&mut self) {
        let names = self.globals.names();
        self.globals.forget();
        let (Some(open), Some(schema)) = (self.peek(), self.attached(TEMPDB)) else { return };
        if names.is_empty() {
            return;
        }
        // the client's last cancel does not count here
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        let undo = if open.is_autocommit() { "" } else { "ROLLBACK;" };
        if open.execute_batch(&format!("{undo} PRAGMA foreign_keys = OFF")).is_ok() {
            for name in names {
                let _ = drop_one(open, schema, &name);
            }
        }
        self.changed();
    }
}

fn drop_one(open: &Connection, schema: &str, name: &str) -> rusqlite::Result<()> {
    let schema_text = quote(schema);
    open.execute_batch(&format!("DROP TABLE IF EXISTS {schema_text}.{}", quote(name)))?;
    for own in OWN {
        if has_table(open, schema, own)? {
            let sql =
                format!("DELETE FROM {schema_text}.{own} WHERE table_name = ?1 COLLATE NOCASE");
            open.execute(&sql, [name])?;
        }
    }
    Ok(())
}
