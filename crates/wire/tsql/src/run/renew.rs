//! Plans that are bound anew, because another process changed the schema of a database.
//!
//! SQLite notices such a change when a statement takes its first lock, and prepares the text
//! again; but the text was made for the columns that were there before. So a statement is asked
//! after its first step, and a change before it, while the lock holds the schema as it is.

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

/// A statement that meets ever new schemas is an error after so many plans.
const PLANS: usize = 4;

/// What was last seen of each attached database, by its name in SQLite's text.
#[derive(Debug, Default)]
pub(super) struct Seen(RefCell<HashMap<String, Versions>>);

#[derive(Debug, Clone, Copy)]
struct Versions {
    /// Changes when SQLite notices another connection's commit, and costs no read.
    data: u32,
    /// Changes with the schema.
    schema: i64,
}

impl Seen {
    /// Notes how a database is now.
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

    /// Whether a noted database has another schema than when this was last asked. A schema that
    /// the connection changed by itself may count once more.
    pub(super) fn moved(&self, connection: &Connection) -> bool {
        let mut moved = false;
        for (schema, seen) in &mut *self.0.borrow_mut() {
            let data = data_version(connection, schema);
            if data == seen.data {
                continue;
            }
            // What cannot be read now is read by the next statement, which tells the cause.
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
    /// Does `work` by the statement's plan, and again by a new one where it ends with
    /// [`Error::DefinitionChanged`], before which it may neither change nor send anything.
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

    /// Refuses to go on by a plan that was bound to another schema.
    pub(super) fn check_schema(&self) -> Result<()> {
        self.s.db.check_schema(&self.s.state.database)
    }
}
