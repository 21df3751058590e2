//! Plans that are bound again, because another process changed the schema of a database.
//!
//! SQLite notices such a change when a statement takes its first lock, and prepares the text again;
//! but the text was generated for the earlier columns. So the schema is checked after a statement's
//! first step, and before a change, while the lock keeps the schema as it is.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use rusqlite::Connection;

use super::db::Db;
use crate::name::quote;
use crate::sqlite_pages::data_version;

/// A statement that meets a new schema each time fails after this many plans. Where many sessions
/// define at once, each change that one makes costs every other that waits a plan.
pub(super) const PLANS: usize = 200;

/// The last known version of each attached database, by its name in SQLite's text.
#[derive(Debug, Default)]
pub(super) struct Seen {
    versions: RefCell<HashMap<String, Versions>>,
    moves: Cell<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Versions {
    /// Changes when SQLite notices another connection's commit; costs no read.
    data: u32,
    /// Changes with the schema.
    schema: i64,
}

impl Seen {
    /// Notes the current version of a database.
    pub(super) fn note(&self, connection: &Connection, schema: &str) -> rusqlite::Result<()> {
        let versions = Versions {
            data: data_version(connection, schema),
            schema: schema_version(connection, schema)?,
        };
        self.versions.borrow_mut().insert(schema.to_owned(), versions);
        Ok(())
    }

    pub(super) fn forget(&self, schema: &str) {
        self.versions.borrow_mut().remove(schema);
    }

    pub(super) fn forget_all(&self) {
        self.versions.borrow_mut().clear();
    }

    /// Returns how often a noted database was found to have another schema. One that the connection
    /// changed itself may count once more.
    pub(super) fn moves(&self, connection: Option<&Connection>) -> u64 {
        let Some(connection) = connection else { return self.moves.get() };
        let mut moved = false;
        for (schema, seen) in &mut *self.versions.borrow_mut() {
            let data = data_version(connection, schema);
            if data == seen.data {
                continue;
            }
            // If it cannot be read now, the next statement reads it, and reports the cause.
            if let Ok(version) = schema_version(connection, schema) {
                moved |= version != seen.schema;
                *seen = Versions { data, schema: version };
            }
        }
        self.moves.set(self.moves.get() + u64::from(moved));
        self.moves.get()
    }
}

fn schema_version(connection: &Connection, schema: &str) -> rusqlite::Result<i64> {
    let sql = format!("PRAGMA {}.schema_version", quote(schema));
    connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}

impl Db {
    /// What is looked up from here on is compared with the schemas as they are now.
    pub(super) fn look_anew(&mut self) {
        self.follow();
        self.planned = self.known;
    }
}
