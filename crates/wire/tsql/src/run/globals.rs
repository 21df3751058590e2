//! Global temporary tables, `##t`: tables of tempdb, which all sessions see. Each is dropped at the
//! end of the session that created it. Its owner is a row of tempdb, so that a change that is
//! undone changes no owner. While another session has an open change of tempdb, a table cannot be
//! dropped: it counts as gone at once, and goes when that change has ended.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::db::Db;
use crate::name::quote;
use crate::run::catalog::model::OWN;
use crate::run::catalog::tables::has_table;

/// Their database.
pub(crate) const TEMPDB: &str = "tempdb";
/// The table with their owners.
pub(crate) const OWNERS: &str = "tsql_global";

/// The sessions that have ended and whose tables may still be in the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globals {
    ended: Arc<Mutex<HashSet<u32>>>,
}

/// One session among the owners.
#[derive(Debug)]
pub(crate) struct Mine {
    globals: Globals,
    number: u32,
}

impl Globals {
    fn ended(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self) -> Mine {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Mine { globals: self.clone(), number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Db {
    /// Returns true if a table is only in the file any more, as this session's transaction sees it.
    pub(crate) fn is_leaving(&self, schema: &str, name: &str) -> rusqlite::Result<bool> {
        let Some(open) = self.peek() else { return Ok(false) };
        if self.globals.globals.ended().is_empty() {
            return Ok(false);
        }
        let owner = owner(open, schema, name)?;
        Ok(owner.is_some_and(|owner| self.globals.globals.ended().contains(&owner)))
    }

    /// Makes a name free for a new table of this session, which becomes its owner: in the
    /// transaction that creates the table.
    pub(crate) fn own_global(&self, schema: &str, name: &str) -> rusqlite::Result<()> {
        let Some(open) = self.peek() else { return Ok(()) };
        if self.is_leaving(schema, name)? {
            erase(open, schema, name)?;
        }
        let sql = format!("INSERT OR REPLACE INTO {}.{OWNERS} VALUES (?1, ?2)", quote(schema));
        open.execute(&sql, (name, self.globals.number)).map(drop)
    }

    /// Returns true if a global temporary table of this session is there.
    pub(super) fn has_globals(&self) -> bool {
        let (Some(open), Some(schema)) = (self.peek(), self.attached(TEMPDB)) else { return false };
        owned(open, schema, self.globals.number).map_or(true, |names| !names.is_empty())
    }

    /// Drops the session's global temporary tables; its connection ends afterwards.
    pub(super) fn drop_globals(&mut self) {
        let (Some(open), Some(_)) = (self.peek(), self.attached(TEMPDB)) else { return };
        // the client's last cancel does not count here
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        let ended = open.is_autocommit() || open.execute_batch("ROLLBACK").is_ok();
        if !ended || !self.has_globals() {
            return;
        }
        self.globals.globals.ended().insert(self.globals.number);
        self.changed();
        self.drop_leaving();
    }

    /// Drops what has to go, unless this session is in a transaction, or has no tempdb. Another
    /// session that changes tempdb now does this when it has ended its change.
    pub(super) fn drop_leaving(&self) {
        let (Some(open), Some(schema)) = (self.peek(), self.attached(TEMPDB)) else { return };
        let ended: Vec<u32> = self.globals.globals.ended().iter().copied().collect();
        if ended.is_empty() || !open.is_autocommit() || open.busy_timeout(Duration::ZERO).is_err() {
            return;
        }
        for session in ended {
            if drop_owned(open, schema, session).is_ok() {
                self.globals.globals.ended().remove(&session);
            }
        }
        let _ = open.busy_timeout(super::db::BUSY);
    }
}

fn owner(open: &Connection, schema: &str, name: &str) -> rusqlite::Result<Option<u32>> {
    if !has_table(open, schema, OWNERS)? {
        return Ok(None);
    }
    let sql = format!("SELECT session FROM {}.{OWNERS} WHERE table_name = ?1", quote(schema));
    open.prepare_cached(&sql)?.query_row([name], |row| row.get(0)).optional()
}

/// Returns the tables of a session.
fn owned(open: &Connection, schema: &str, session: u32) -> rusqlite::Result<Vec<String>> {
    if !has_table(open, schema, OWNERS)? {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT table_name FROM {}.{OWNERS} WHERE session = ?1", quote(schema));
    let mut statement = open.prepare_cached(&sql)?;
    statement.query_map([session], |row| row.get(0))?.collect()
}

/// Drops the tables of a session, all or none.
fn drop_owned(open: &Connection, schema: &str, session: u32) -> rusqlite::Result<()> {
    open.execute_batch("BEGIN")?;
    let dropped = owned(open, schema, session)
        .and_then(|names| names.iter().try_for_each(|name| erase(open, schema, name)))
        .and_then(|()| open.execute_batch("COMMIT"));
    if !open.is_autocommit() {
        open.execute_batch("ROLLBACK")?;
    }
    dropped
}

/// Drops a table and the notes about it. Nothing refers to it: a foreign key cannot.
fn erase(open: &Connection, schema: &str, name: &str) -> rusqlite::Result<()> {
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
