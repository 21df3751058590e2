//! The typed plan of a statement: what the binder makes of T-SQL, before any of SQLite's text.
//! Expressions are in [`scalar`], tables and queries in [`relation`], changes in [`change`].

pub(crate) mod access;
pub(crate) mod change;
pub(crate) mod cursor;
pub(crate) mod func;
pub(crate) mod label;
pub(crate) mod relation;
pub(crate) mod routine;
pub(crate) mod scalar;
pub(crate) mod table;
pub(crate) mod trigger;

use std::sync::Arc;

use crate::ast::Hints;
use scalar::Scalar;

/// A source of columns in one statement; its number is unique there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Alias {
    /// A table, view or derived table of FROM.
    Source(usize),
    /// A query that the binder puts around another.
    Query(usize),
    /// A common table expression.
    Common(usize),
    /// The row before the change of an UPDATE row by row.
    Deleted,
    /// The row after it.
    Inserted,
}

/// A column by its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnRef {
    /// None for the statement's own row: its list, RETURNING, a CHECK.
    pub(crate) source: Option<Alias>,
    pub(crate) field: Field,
}

/// A column among those of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    /// Of a table.
    Named(Arc<str>),
    /// Of a query: its position in the list, from 0.
    Item(usize),
    /// Of VALUES: its position, from 0.
    Value(usize),
    /// A key of ORDER BY that is not in the list: its position among those, from 0.
    Key(usize),
    /// The number of a table's row.
    RowId,
    /// A piece of STRING_SPLIT.
    Piece,
    /// Its position, from 1.
    Ordinal,
    /// A value of a row of OPENJSON, by its position from 0.
    Cell(usize, Cell),
}

/// How a value is written in a row of OPENJSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    Plain,
    /// Bytes, in hexadecimal.
    Blob,
    /// A float, as the integer of its bits.
    Real,
}

impl ColumnRef {
    pub(crate) fn of(source: Alias, field: Field) -> ColumnRef {
        ColumnRef { source: Some(source), field }
    }

    /// A column of the statement's own row.
    pub(crate) fn own(field: Field) -> ColumnRef {
        ColumnRef { source: None, field }
    }

    pub(crate) fn named(source: Option<Alias>, name: &str) -> ColumnRef {
        ColumnRef { source, field: Field::Named(name.into()) }
    }
}

/// What a statement needs before it runs.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Permissions, apart from those on system views.
    pub(crate) access: Vec<access::Access>,
    /// System views to fill.
    pub(crate) system: Vec<String>,
    /// Databases that it reads.
    pub(crate) reads: Vec<String>,
    /// What its tables' hints ask for.
    pub(crate) hints: Hints,
    /// True if functions that it calls read tables.
    pub(crate) nested: bool,
    /// Tables of the functions that it calls.
    pub(crate) locals: Vec<Arc<routine::Local>>,
    /// Sequences whose values it takes.
    pub(crate) sequences: Vec<Arc<table::Sequence>>,
    /// None if no function looks up objects.
    pub(crate) looks_up: Option<LookUp>,
}

impl Needs {
    /// Notes that a system view is read.
    pub(crate) fn fill(&mut self, view: &str) {
        if !self.system.iter().any(|known| known == view) {
            self.system.push(view.to_owned());
        }
    }

    /// Notes that a table is read.
    pub(crate) fn read(&mut self, table: &table::Table) {
        if !self.reads.contains(&table.schema) {
            self.reads.push(table.schema.clone());
        }
    }
}

/// The state in which the functions of a statement look up objects.
#[derive(Debug, Default)]
pub(crate) struct LookUp {
    /// Databases, the current one as an empty name.
    pub(crate) databases: Vec<String>,
    /// The names passed to OBJECT_ID.
    pub(crate) names: Vec<Scalar>,
    /// True if more than those names must be known.
    pub(crate) whole: bool,
    /// True if logins and the principals of the current database must be known.
    pub(crate) principals: bool,
    /// True if the rights in other databases must be known.
    pub(crate) access: bool,
}
