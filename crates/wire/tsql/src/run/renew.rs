//! Plans that are bound again, because another process changed the schema of a database.
//!
//! SQLite notices such a change when a statement takes its first lock, and prepares the text again;
//! but the text was generated for the earlier columns. So the schema is checked after a statement's
//! first step, and before a change, while the lock keeps the schema as it is.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::Connection;

use super::compile::Lazy;
use super::plan::Bound;
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::state::Frame;
use crate::run::work::Run;
use crate::sqlite_pages::data_version;

/// A statement that meets a new schema each time fails after this many plans.
const PLANS: usize = 4;

/// The last known version of each attached database, by its name in SQLite's text.
#[derive(Debug, Default)]
pub(super) struct Seen(RefCell<HashMap<String, Versions>>);

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
        self.0.borrow_mut().insert(schema.to_owned(), versions);
        Ok(())
    }

    pub(super) fn forget(&self, schema: &str) {
        self.0.borrow_mut().remove(schema);
    }

    pub(super) fn forget_all(&self) {
        self.0.borrow_mut().clear();
    }

    /// Returns true if a noted database has another schema than at the last call. A schema that the
    /// connection changed itself may count once more.
    pub(super) fn moved(&self, connection: &Connection) -> bool {
        let mut moved = false;
        for (schema, seen) in &mut *self.0.borrow_mut() {
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
        moved
    }
}

fn schema_version(connection: &Connection, schema: &str) -> rusqlite::Result<i64> {
    let sql = format!("PRAGMA {}.schema_version", quote(schema));
    connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}

impl Run<'_> {
    /// Does `work` with the statement's plan, and again with a new one if it ends with
    /// [`Error::DefinitionChanged`], before which it must not change or send anything.
    pub(super) fn by_plan<F: Borrow<Frame>, T>(
        &mut self,
        lazy: &Lazy,
        mut frame: F,
        mut work: impl FnMut(&mut Self, &Bound, &mut F) -> Result<T>,
    ) -> Result<T> {
        for _ in 1..PLANS {
            let bound = self.planned(lazy, &frame.borrow().variables)?;
            match work(self, &bound, &mut frame) {
                Err(Error::DefinitionChanged { .. }) => self.s.db.renew(),
                done => return done,
            }
        }
        let bound = self.planned(lazy, &frame.borrow().variables)?;
        work(self, &bound, &mut frame)
    }

    /// Refuses to continue with a plan that was bound to another schema.
    pub(super) fn check_schema(&self) -> Result<()> {
        self.s.db.check_schema(&self.s.state.database)
    }
}
