//! Tables as the binder sees them, and the interface to a database that resolves their names.

use std::sync::Arc;

use tdekit_wire_tds::{Collation, Generated, SqlType};

use super::trigger::{LOGICAL, Trigger};
pub(crate) use crate::ast::Filled;
use crate::ast::defined::UserType;
use crate::ast::{CreateTable, Name};
use crate::error::Result;

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) identity: bool,
    /// DEFAULT as written in T-SQL.
    pub(crate) default: Option<String>,
    pub(crate) filled: Filled,
    /// Of text.
    pub(crate) collation: Collation,
}

impl TableColumn {
    /// Returns whether the table gives the column its values.
    pub(crate) fn generated(&self) -> Generated {
        match self.filled {
            _ if self.identity => Generated::Identity,
            Filled::Given => Generated::No,
            Filled::Computed { .. } => Generated::Computed,
            Filled::Version => Generated::Version,
        }
    }

    /// Returns true for a computed column.
    pub(crate) fn is_computed(&self) -> bool {
        matches!(self.filled, Filled::Computed { .. })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TableKind {
    Table,
    /// The text of CREATE VIEW, whose names are resolved in the view's own database.
    View(String),
    /// The text of CREATE FUNCTION, as of a view.
    Function(String),
    /// Its rows are collected on demand: the name as `sys.tables`.
    System(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// The name of the database in SQLite's text; `temp` for temporary tables.
    pub(crate) schema: String,
    /// The database's own name.
    pub(crate) database: String,
    /// The name in SQLite.
    pub(crate) name: String,
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) kind: TableKind,
}

impl Table {
    pub(crate) fn sql(&self) -> String {
        format!("{}.{}", crate::name::quote(&self.schema), crate::name::quote(&self.name))
    }

    /// Returns the name as in messages: `db.dbo.t`.
    pub(crate) fn full_name(&self) -> String {
        let name =
            if self.name.contains('.') { self.name.clone() } else { format!("dbo.{}", self.name) };
        if self.schema == "temp" {
            format!("tempdb.{name}")
        } else {
            format!("{}.{name}", self.database)
        }
    }

    /// Returns the name as in messages, without its database: `dbo.t`.
    pub(crate) fn object_name(&self) -> String {
        if self.name.contains('.') { self.name.clone() } else { format!("dbo.{}", self.name) }
    }

    pub(crate) fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn identity(&self) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.identity)
    }

    /// Returns true for `inserted` and `deleted` of a trigger.
    pub(crate) fn is_logical(&self) -> bool {
        self.schema == "temp" && self.name.starts_with(LOGICAL)
    }

    /// Returns the `rowversion` column.
    pub(crate) fn version(&self) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.filled == Filled::Version)
    }
}

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// The name of the database in SQLite's text.
    pub(crate) schema: String,
    /// The database's own name.
    pub(crate) database: String,
    /// The name in `tsql_sequence`.
    pub(crate) name: String,
    pub(crate) ty: SqlType,
}

/// Resolves names.
pub(crate) trait Catalog {
    /// Returns the sequence; None if there is none.
    fn sequence(&mut self, name: &Name) -> Result<Option<Arc<Sequence>>>;
    /// Returns the table or view; None if there is none.
    fn table(&mut self, name: &Name) -> Result<Option<Arc<Table>>>;
    /// Returns the user-defined type of a database, by its name there; None if there is none.
    fn user_type(&mut self, database: &str, stored: &str) -> Result<Option<Arc<UserType>>>;
    /// Returns true if SET IDENTITY_INSERT is ON for it.
    fn identity_insert(&self, table: &Table) -> bool;

    /// Returns the scalar function: its text, as a table without columns; None if there is none.
    fn scalar_function(&mut self, _: &Name) -> Result<Option<Arc<Table>>> {
        Ok(None)
    }

    /// Returns the number of a definition of a table variable in functions.
    fn local_number(&mut self, _: &CreateTable) -> usize {
        0
    }

    /// Returns the enabled triggers of a table or view that its changes fire: not the one whose
    /// statements run.
    fn triggers(&mut self, _: &Table) -> Result<Vec<Arc<Trigger>>> {
        Ok(Vec::new())
    }
}
