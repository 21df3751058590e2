//! Definitions: tables, indexes, views and procedures.

mod alter;
mod constraint;
mod drop;
mod foreign;
mod index;
mod module;
mod schema;
mod table;
mod text;

use std::sync::Arc;

use tdekit_wire_tds::Command;

use super::db::failure;
use super::exec::Run;
use super::{Frame, Signal};
use crate::ast::{Kind, Name, ObjectKind};
use crate::bind::quote;
use crate::catalog::Table;
use crate::error::{Error, Result};

pub(crate) use index::{KeyKind, is_constraint, shown_name, unique_index};

/// Tables of ours in every database, made when they are first needed.
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
    ("tsql_schema", "name TEXT PRIMARY KEY COLLATE NOCASE"),
    // names of constraints, and unique indexes whose text has expressions for columns
    (
        "tsql_constraint",
        "table_name TEXT COLLATE NOCASE, name TEXT COLLATE NOCASE, kind TEXT NOT NULL, \
        columns TEXT NOT NULL, definition TEXT NOT NULL, PRIMARY KEY (table_name, name)",
    ),
];

impl Run<'_> {
    pub(super) fn sql(&mut self, sql: &str, database: &str) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        self.s
            .db
            .connection()?
            .execute_batch(sql)
            .map_err(|error| failure(&kernels, &error, database))
    }

    pub(super) fn own_table(&mut self, schema: &str, name: &str) -> Result<()> {
        let Some((_, columns)) = OWN_TABLES.iter().find(|(known, _)| *known == name) else {
            return Ok(());
        };
        let sql = format!("CREATE TABLE IF NOT EXISTS {}.{name} ({columns})", quote(schema));
        self.sql(&sql, schema)
    }

    /// Runs a definition as one statement.
    pub(super) fn define(
        &mut self,
        schema: &str,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if self.s.state.doomed {
            return Err(Error::Doomed {});
        }
        if schema != "temp"
            && self.s.state.options.implicit_transactions
            && self.s.state.trancount == 0
        {
            self.begin_transaction();
        }
        let own = self.begin_own()?;
        let result = work(self);
        self.after_write(own, result.is_ok())?;
        self.s.db.changed();
        result
    }

    pub(crate) fn find(&mut self, name: &Name) -> Result<Option<Arc<Table>>> {
        let database = self.s.state.database.clone();
        self.s.db.find(name, &database)
    }

    /// A definition, by its kind.
    pub(crate) fn definition(&mut self, kind: &Kind, frame: &mut Frame) -> Result<Signal> {
        let command = match kind {
            Kind::CreateTable(table) => {
                self.create_table(table)?;
                if table.name.object().starts_with('#') && super::exec::is_inner(frame.kind) {
                    frame.tables.push(table.name.object().to_owned());
                }
                Command::CREATE_TABLE
            }
            Kind::DeclareTable(table) => {
                let name = quote(table.name.object());
                self.s.db.connection()?;
                self.sql(&format!("DROP TABLE IF EXISTS temp.{name}"), "tempdb")?;
                self.create_table(table)?;
                frame.tables.push(table.name.object().to_owned());
                return Ok(Signal::Next);
            }
            Kind::AlterTable(name, change) => {
                self.alter_table(name, change)?;
                Command::OTHER
            }
            Kind::CreateIndex { name, table, unique, columns, filter } => {
                self.create_index(name, table, *unique, columns, filter.as_ref())?;
                Command::OTHER
            }
            Kind::CreateView { name, text, may_replace, .. } => {
                self.create_view(kind, name, text, *may_replace)?;
                Command::OTHER
            }
            Kind::CreateProc(made) => {
                self.create_module(&made.name, "P", &made.text, made.may_create, made.may_replace)?;
                Command::OTHER
            }
            Kind::CreateSchema(name, owner) => {
                self.create_schema(name, owner.as_deref())?;
                Command::OTHER
            }
            Kind::Truncate(name) => {
                self.truncate(name)?;
                Command::OTHER
            }
            Kind::Drop { kind, names, if_exists, on } => {
                for name in names {
                    self.drop_object(*kind, name, *if_exists, on.as_ref())?;
                }
                if *kind == ObjectKind::Table { Command::DROP_TABLE } else { Command::OTHER }
            }
            _ => return Err(Error::feature("this definition")),
        };
        Ok(self.finished(frame, command))
    }
}
