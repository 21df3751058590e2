//! Identity values of tables: `tsql_identity` has the last one of each.

use rusqlite::OptionalExtension;
use tdekit_wire_tds::{SqlType, Value};

use super::db::{Db, failure};
use crate::error::{Error, Result};
use crate::name::{ROW_ID, quote};
use crate::run::catalog::Table;
use crate::value::convert;
use crate::value::dateparse::DateText;

impl Db {
    /// Called before rows of a table get identity values.
    pub(crate) fn begin_identity(&mut self, table: &Table) -> Result<()> {
        let (next, step) = self.identity_of(table)?;
        self.kernels.begin_identity(next, step);
        Ok(())
    }

    /// Called after rows of a table have got them: stores the last one, and returns it.
    pub(crate) fn end_identity(&mut self, table: &Table) -> Result<Option<i64>> {
        let last = self.kernels.last_identity();
        if let Some(last) = last {
            self.store_identity(table, last)?;
        }
        Ok(last)
    }

    /// Returns the next identity value of a table, and its increment.
    pub(crate) fn identity_of(&mut self, table: &Table) -> Result<(i64, i64)> {
        let kernels = self.kernels.clone();
        let sql = format!(
            "SELECT seed, increment, last FROM {}.tsql_identity WHERE table_name = ?1",
            quote(&table.schema)
        );
        let connection = self.connection()?;
        let found: Option<(i64, i64, Option<i64>)> = connection
            .prepare_cached(&sql)
            .and_then(|mut statement| {
                statement
                    .query_row([&table.name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                    .optional()
            })
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        let (seed, step, last) =
            found.ok_or_else(|| Error::NoIdentity { table: table.name.clone() })?;
        let next = match last {
            Some(last) => last.checked_add(step),
            None => Some(seed),
        };
        let next = next.ok_or(Error::ResultOverflow { to: "bigint".to_owned() })?;
        let ty = table.identity().map_or(SqlType::BigInt, |column| column.ty);
        let from = SqlType::BigInt;
        convert::convert(&Value::Int(next), from, ty, 0, DateText::default())?;
        Ok((next, step))
    }

    fn identity_step(&mut self, table: &Table) -> Result<i64> {
        let kernels = self.kernels.clone();
        let sql = format!(
            "SELECT increment FROM {}.tsql_identity WHERE table_name = ?1",
            quote(&table.schema)
        );
        let connection = self.connection()?;
        connection
            .query_row(&sql, [&table.name], |row| row.get(0))
            .map_err(|error| failure(&kernels, &error, &table.database))
    }

    pub(crate) fn store_identity(&mut self, table: &Table, last: i64) -> Result<()> {
        let kernels = self.kernels.clone();
        let sql = format!(
            "UPDATE {}.tsql_identity SET last = ?2 WHERE table_name = ?1",
            quote(&table.schema)
        );
        let connection = self.connection()?;
        connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(rusqlite::params![table.name, last]))
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        Ok(())
    }

    /// Called after rows were inserted under SET IDENTITY_INSERT: a value beyond all earlier ones
    /// moves the next one. Returns the last of them.
    pub(crate) fn end_explicit_identity(&mut self, table: &Table) -> Result<Option<i64>> {
        let Some(column) = table.identity().cloned() else { return Ok(None) };
        let kernels = self.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let connection = self.connection()?;
        let sql =
            format!("SELECT {} FROM {} WHERE {ROW_ID} = ?1", quote(&column.name), table.sql());
        let rowid = connection.last_insert_rowid();
        let last: i64 = connection.query_row(&sql, [rowid], |row| row.get(0)).map_err(fail)?;
        let step = self.identity_step(table)?;
        let far = if step > 0 { "max" } else { "min" };
        let sql = format!("SELECT {far}({}) FROM {}", quote(&column.name), table.sql());
        let far: i64 = self.connection()?.query_row(&sql, [], |row| row.get(0)).map_err(fail)?;
        // after the last number of its type there is no next one, and nothing to compare with
        let moved = match self.identity_of(table) {
            Ok((next, _)) if step > 0 => far >= next,
            Ok((next, _)) => far <= next,
            Err(_) => false,
        };
        if moved {
            self.store_identity(table, far)?;
        }
        Ok(Some(last))
    }
}
