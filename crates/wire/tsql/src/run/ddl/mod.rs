//! Definitions: tables, indexes, views and procedures.

mod alter;
mod check;
mod column;
mod computed;
mod constraint;
mod drop;
mod edit;
mod fill;
mod foreign;
mod function;
mod index;
mod module;
mod rebuild;
mod rename;
mod schema;
mod sequence;
mod table;
mod text;
mod transfer;
mod trigger;
mod trust;
mod types;

use std::sync::Arc;

use tdekit_wire_tds::Column;

use super::db::{Db, failure};
use super::renew::PLANS;
use crate::ast::defined::CreateFunction;
use crate::ast::{CreateTable, Name};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::Table;
use crate::run::gate::Gate;
use crate::run::state::State;
use crate::run::work::Run;

pub(crate) use check::{Checked, checked_rows, shown_columns, shown_rows};
pub(crate) use constraint::shown_key;
pub(crate) use index::{KeyKind, index_columns, is_constraint, shown_name, unique_index};
pub(crate) use rebuild::checkpoint;

/// Our own tables in every database, created when first needed.
const OWN_TABLES: &[(&str, &str)] = &[
    (
        "tsql_identity",
        "table_name TEXT PRIMARY KEY COLLATE NOCASE, column_name TEXT NOT NULL, \
        seed INTEGER NOT NULL, increment INTEGER NOT NULL, last INTEGER",
    ),
    (
        "tsql_default",
        "table_name TEXT COLLATE NOCASE, column_name TEXT NOT NULL, \
        definition TEXT NOT NULL, PRIMARY KEY (table_name, column_name)",
    ),
    (
        "tsql_module",
        "name TEXT COLLATE NOCASE, kind TEXT NOT NULL, definition TEXT NOT NULL, \
        PRIMARY KEY (name, kind)",
    ),
    // computed columns, and those of row versions, which have no definition
    (
        "tsql_column",
        "table_name TEXT COLLATE NOCASE, column_name TEXT COLLATE NOCASE, definition TEXT, \
        persisted INTEGER NOT NULL, PRIMARY KEY (table_name, column_name)",
    ),
    ("tsql_type", "name TEXT PRIMARY KEY COLLATE NOCASE, definition TEXT NOT NULL"),
    // columns of alias types
    (
        "tsql_alias",
        "table_name TEXT COLLATE NOCASE, column_name TEXT COLLATE NOCASE, type TEXT NOT NULL \
        COLLATE NOCASE, PRIMARY KEY (table_name, column_name)",
    ),
    ("tsql_rowversion", "last INTEGER NOT NULL"),
    // sessions that own global temporary tables: in tempdb only
    ("tsql_global", "table_name TEXT PRIMARY KEY COLLATE NOCASE, session INTEGER NOT NULL"),
    // the name without its schema, which is that of the table or view
    (
        "tsql_trigger",
        "table_name TEXT COLLATE NOCASE, name TEXT COLLATE NOCASE, instead INTEGER NOT NULL, \
        events INTEGER NOT NULL, disabled INTEGER NOT NULL, definition TEXT NOT NULL, \
        PRIMARY KEY (table_name, name)",
    ),
    ("tsql_schema", "name TEXT PRIMARY KEY COLLATE NOCASE"),
    (
        "tsql_sequence",
        "name TEXT PRIMARY KEY COLLATE NOCASE, type TEXT NOT NULL, start INTEGER NOT NULL, \
        increment INTEGER NOT NULL, minimum INTEGER NOT NULL, maximum INTEGER NOT NULL, \
        cycle INTEGER NOT NULL, cached INTEGER NOT NULL, cache_size INTEGER, \
        base INTEGER NOT NULL, last INTEGER, id INTEGER NOT NULL",
    ),
    // users and roles; dbo has a row once the database has another owner than the server's
    (
        "tsql_principal",
        "id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE, kind TEXT NOT NULL, \
        sid BLOB",
    ),
    ("tsql_member", "role INTEGER NOT NULL, member INTEGER NOT NULL, PRIMARY KEY (role, member)"),
    // class 0 is the database, 1 an object as SQLite names it, 3 a schema
    (
        "tsql_permission",
        "grantee INTEGER NOT NULL, class INTEGER NOT NULL, object TEXT NOT NULL COLLATE NOCASE, \
        permission TEXT NOT NULL, denied INTEGER NOT NULL, \
        PRIMARY KEY (grantee, class, object, permission)",
    ),
    // extended properties: of the database (D), a schema (S), an object (O), a column (C)
    (
        "tsql_property",
        "kind TEXT NOT NULL, object TEXT NOT NULL COLLATE NOCASE, part TEXT NOT NULL COLLATE \
        NOCASE, name TEXT NOT NULL COLLATE NOCASE, value TEXT, PRIMARY KEY (kind, object, part, \
        name)",
    ),
    // names of constraints, and unique indexes whose text has expressions for columns
    (
        "tsql_constraint",
        "table_name TEXT COLLATE NOCASE, name TEXT COLLATE NOCASE, kind TEXT NOT NULL, \
        columns TEXT NOT NULL, definition TEXT NOT NULL, PRIMARY KEY (table_name, name)",
    ),
    // constraints that rows may violate; disabled ones are not in the table's own text, and of a
    // foreign key the rest of its definition is here
    (
        "tsql_unchecked",
        "table_name TEXT COLLATE NOCASE, name TEXT COLLATE NOCASE, disabled INTEGER NOT NULL, \
        parent TEXT COLLATE NOCASE, parents TEXT, on_delete TEXT, on_update TEXT, \
        PRIMARY KEY (table_name, name)",
    ),
];

impl Db {
    pub(super) fn sql(&mut self, sql: &str, database: &str) -> Result<()> {
        #[cfg(debug_assertions)]
        crate::run::trace::Trace::note(sql);
        let kernels = self.kernels.clone();
        self.connection()?.execute_batch(sql).map_err(|error| failure(&kernels, &error, database))
    }

    pub(crate) fn own_table(&mut self, schema: &str, name: &str) -> Result<()> {
        let Some((_, columns)) = OWN_TABLES.iter().find(|(known, _)| *known == name) else {
            return Ok(());
        };
        let sql = format!("CREATE TABLE IF NOT EXISTS {}.{name} ({columns})", quote(schema));
        self.sql(&sql, schema)?;
        if name == "tsql_constraint" {
            // by name only: for OBJECT_ID, and for the check of free names
            let index = "tsql_constraint_name ON tsql_constraint (name)";
            let sql = format!("CREATE INDEX IF NOT EXISTS {}.{index}", quote(schema));
            self.sql(&sql, schema)?;
        }
        Ok(())
    }
}

/// The definitions of databases, as the running statement reads and changes them: by names from its
/// current database, by the rights of its login. It reads the session's state, and changes nothing
/// there.
pub(crate) struct Ddl<'a> {
    db: &'a mut Db,
    state: &'a State,
}

/// A change of definitions that has been prepared. [`Run::apply`] makes it, as one statement.
pub(crate) struct Definition<'d> {
    /// The database's name in SQLite's text.
    schema: String,
    work: Box<Work<'d>>,
}

type Work<'d> = dyn FnOnce(&mut Ddl<'_>) -> Result<()> + 'd;

impl<'d> Definition<'d> {
    /// `schema` is the name in SQLite's text of the database that changes.
    pub(super) fn of(
        schema: &str,
        work: impl FnOnce(&mut Ddl<'_>) -> Result<()> + 'd,
    ) -> Definition<'d> {
        Definition { schema: schema.to_owned(), work: Box::new(work) }
    }
}

impl<'a> Ddl<'a> {
    pub(super) fn new(db: &'a mut Db, state: &'a State) -> Ddl<'a> {
        Ddl { db, state }
    }

    pub(super) fn db(&mut self) -> &mut Db {
        self.db
    }

    fn gate(&mut self) -> Gate<'_> {
        Gate::new(self.db, self.state)
    }

    fn find(&mut self, name: &Name) -> Result<Option<Arc<Table>>> {
        self.db.find(name, &self.state.database)
    }

    /// Runs a statement of SQLite's that would check rows that are there against every CHECK of
    /// their table.
    fn ignoring_checks<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.db.ignore_checks(true, &self.state.database)?;
        let result = work(self);
        self.db.ignore_checks(false, &self.state.database)?;
        result
    }
}

impl Run<'_> {
    /// Makes a change of definitions that has been prepared, if there is one.
    pub(super) fn apply<'d>(&mut self, made: impl Into<Option<Definition<'d>>>) -> Result<()> {
        match made.into() {
            Some(Definition { schema, work }) => self.define(&schema, |run| work(&mut run.s.ddl())),
            None => Ok(()),
        }
    }

    /// Prepares a change of definitions, and makes it.
    pub(super) fn make<'d, T: Into<Option<Definition<'d>>>>(
        &mut self,
        prepare: impl FnOnce(&mut Ddl<'_>) -> Result<T>,
    ) -> Result<()> {
        let made = prepare(&mut self.s.ddl())?;
        self.apply(made)
    }

    /// Runs a definition as one statement.
    pub(crate) fn define(
        &mut self,
        schema: &str,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        if schema != "temp" {
            self.implicit();
        }
        let own = self.begin_own(&[schema.to_owned()], false)?;
        // what was looked up before the lock was taken has to be what is there now
        let current = if schema == "temp" { Ok(()) } else { self.check_schema() };
        let result = current.and_then(|()| work(self));
        self.after_write(own, result.is_ok())?;
        // a temporary table that a statement makes to try something is gone before it is done again
        self.s.db.defined += u64::from(result.is_ok() && schema != "temp");
        self.s.db.changed();
        result
    }

    /// Does `work`, which looks things up and then changes definitions, and again if a schema has
    /// changed in between: while it waited for the write lock, for example.
    pub(super) fn defining<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let around = self.s.db.planned;
        let mut left = PLANS;
        let done = loop {
            left -= 1;
            self.s.db.look_anew();
            let before = self.s.db.defined;
            match work(self) {
                // what is done is not done again
                Err(Error::DefinitionChanged { .. }) if left > 0 && before == self.s.db.defined => {
                }
                done => break done,
            }
        };
        self.s.db.planned = around;
        done
    }

    pub(crate) fn find(&mut self, name: &Name) -> Result<Option<Arc<Table>>> {
        self.s.db.find(name, &self.s.state.database)
    }

    pub(crate) fn create_table(&mut self, table: &CreateTable) -> Result<()> {
        self.make(|ddl| ddl.new_table(table))
    }

    pub(crate) fn drop_table(&mut self, table: &Arc<Table>) -> Result<()> {
        self.make(|ddl| Ok(ddl.dropped_table(table)))
    }

    /// The table of SELECT INTO.
    pub(crate) fn create_for(&mut self, name: &Name, columns: &[Column]) -> Result<Arc<Table>> {
        self.create_table(&Ddl::table_for(name, columns)?)?;
        self.find(name)?.ok_or_else(|| Error::InvalidObject { name: name.text() })
    }

    pub(crate) fn create_function(&mut self, made: &CreateFunction) -> Result<()> {
        self.s.ddl().admit_function(made)?;
        if made.letters() == "IF" {
            // parameters that are tables are there while its query is bound
            self.with_empty_tables(&made.params, |run| run.s.ddl().check_query_of(made))?;
        }
        self.make(|ddl| ddl.new_function(made))
    }
}
