//! The values of a column that ALTER TABLE adds, in the rows that are there.

use std::sync::Arc;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::Value;
use tdekit_wire_tds::messages::SchemaError;

use super::super::db::{View, failure};
use super::Ddl;
use crate::ast::{ColumnDef, Filled};
use crate::bind::{Binder, Variables};
use crate::error::{Error, Result};
use crate::functions::eval::eval;
use crate::name::{ROW_ID, quote, schema_and_name};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::Sequence;
use crate::render::literal;
use crate::run::catalog::{Table, TableColumn};
use crate::run::state::Frame;
use crate::run::target::Kept;
use crate::run::work::Inner;
use crate::value::{Val, storage};

/// Rows that get values at a time.
const CHUNK: usize = 1000;

/// What the rows get.
pub(super) enum Fill {
    Null,
    /// The value that the DEFAULT has now, as SQLite's text.
    Value(String),
    /// The value that this has now.
    Kept(Box<Kept>),
    /// Another value of the DEFAULT for each row.
    Rows {
        value: Box<Scalar>,
        sequences: Vec<Arc<Sequence>>,
    },
}

impl Ddl<'_> {
    /// Returns the values that rows get: those of the DEFAULT with NOT NULL, or WITH VALUES.
    pub(super) fn fill_of(&mut self, table: &Table, column: &ColumnDef) -> Result<Fill> {
        let nullable = column.nullable != Some(false);
        if nullable && !column.with_values {
            return Ok(Fill::Null);
        }
        if column.default.is_none() {
            if !self.holds_rows(table)? {
                return Ok(Fill::Null);
            }
            let (column, table) = (column.name.clone(), schema_and_name(&table.name).1);
            return Err(SchemaError::NotNullAdded { column, table }.into());
        }
        let described = TableColumn {
            name: column.name.clone(),
            ty: column.ty,
            nullable,
            identity: false,
            default: column.default.clone(),
            filled: Filled::Given,
            collation: column.collation,
        };
        let variables = Variables::default();
        let database = &self.state.database;
        let mut view = View { db: self.db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        let bound = binder.default(table, &described)?;
        let mut needs = binder.take_needs();
        let sequences = std::mem::take(&mut needs.sequences);
        let mut one = true;
        bound.walk(&mut |part| {
            one &= match &part.node {
                Node::Call(func, _) => !func.is_random(),
                Node::Next(..) => false,
                _ => true,
            };
            one
        });
        if !one {
            return Ok(Fill::Rows { value: Box::new(bound), sequences });
        }
        let kept = Kept::of(bound, needs, &self.db.kernels)?;
        Ok(Fill::Kept(Box::new(kept)))
    }

    /// Returns the values that rows get from this one of the DEFAULT.
    pub(super) fn fill_with(
        &mut self,
        table: &Table,
        column: &ColumnDef,
        value: &Val,
    ) -> Result<Fill> {
        let nullable = column.nullable != Some(false);
        match value {
            Value::Null if nullable => Ok(Fill::Null),
            Value::Null if self.holds_rows(table)? => Err(Error::CannotInsertNull {
                column: column.name.clone(),
                table: table.full_name(),
                verb: "UPDATE".to_owned(),
            }),
            Value::Null => Ok(Fill::Null),
            value => literal(value, column.ty).map(Fill::Value),
        }
    }

    fn holds_rows(&mut self, table: &Table) -> Result<bool> {
        self.finds(&format!("SELECT 1 FROM {} LIMIT 1", table.sql()), table)
    }

    /// Gives the rows their values. A value that SQLite's own DEFAULT has is there already, and
    /// would be there in later rows too: so a column that takes NULL has none.
    pub(super) fn fill(&mut self, table: &Table, column: &ColumnDef, fill: &Fill) -> Result<()> {
        match fill {
            Fill::Value(value) if column.nullable != Some(false) => {
                let name = quote(&column.name);
                self.db
                    .sql(&format!("UPDATE {} SET {name} = {value}", table.sql()), &table.database)
            }
            Fill::Null | Fill::Value(_) | Fill::Kept(_) | Fill::Rows { .. } => Ok(()),
        }
    }
}

/// Gives each row another value.
pub(super) fn fill_rows(
    session: &mut Inner,
    (table, column): (&Table, &ColumnDef),
    value: &Scalar,
) -> Result<()> {
    let (name, own) = (quote(&column.name), table.sql());
    let read =
        format!("SELECT {ROW_ID} FROM {own} WHERE {ROW_ID} > ?1 ORDER BY {ROW_ID} LIMIT {CHUNK}");
    let write = format!("UPDATE {own} SET {name} = ?2 WHERE {ROW_ID} = ?1");
    let kernels = session.db.kernels.clone();
    let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
    let mut after = i64::MIN;
    loop {
        let rows = || -> rusqlite::Result<Vec<i64>> {
            let connection = session.db.peek();
            let Some(connection) = connection else { return Ok(Vec::new()) };
            let mut statement = connection.prepare_cached(&read)?;
            statement.query_map([after], |row| row.get(0))?.collect()
        };
        let rows = rows().map_err(fail)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = *last;
        for rowid in rows {
            let made =
                session.with_env(&Frame::empty(), |env| eval(value, env).map(Value::into_owned))?;
            let with = [Stored::Integer(rowid), storage::store(&made, column.ty)?];
            let connection = session.db.connection()?;
            let statement = connection.prepare_cached(&write);
            statement.and_then(|mut update| update.execute(with)).map_err(fail)?;
        }
    }
}
