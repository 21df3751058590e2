//! Row versions: the numbers of a database's changes, for `rowversion` columns and `@@DBTS`.

use rusqlite::OptionalExtension;
use rusqlite::types::Value as Stored;

use super::db::{Db, failure};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::Table;
use crate::run::catalog::named::has_table;

/// `@@DBTS` of a database without changes.
pub(crate) const FIRST_VERSION: i64 = 2000;

impl Db {
    /// Returns the last row version of a database that is open; None if it has none.
    pub(crate) fn last_version(&self, database: &str) -> Option<i64> {
        let (connection, schema) = (self.peek()?, self.attached(database)?);
        if !has_table(connection, schema, "tsql_rowversion").unwrap_or(false) {
            return None;
        }
        let sql = format!("SELECT last FROM {}.tsql_rowversion", quote(schema));
        connection.query_row(&sql, [], |row| row.get(0)).optional().ok().flatten()
    }

    /// Returns the next row version, as it is stored.
    pub(crate) fn next_version(&mut self, table: &Table) -> Result<Stored> {
        let next = self.kernels.next_version(&table.schema);
        let next = next.ok_or_else(|| Error::ResultOverflow { to: "rowversion".to_owned() })?;
        Ok(Stored::Blob(next.to_be_bytes().to_vec()))
    }

    /// Called before rows of a table change.
    pub(crate) fn begin_versions(&mut self, table: &Table) -> Result<()> {
        let kernels = self.kernels.clone();
        if table.version().is_none() || kernels.has_versions(&table.schema) {
            return Ok(());
        }
        let sql = format!("SELECT last FROM {}.tsql_rowversion", quote(&table.schema));
        let last = self.connection()?.prepare_cached(&sql);
        let last: Option<i64> = last
            .and_then(|mut read| read.query_row([], |row| row.get(0)).optional())
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        kernels.set_versions(&table.schema, last.unwrap_or(FIRST_VERSION));
        Ok(())
    }

    /// Called after rows of a table have changed.
    pub(crate) fn end_versions(&mut self, table: &Table) -> Result<()> {
        let kernels = self.kernels.clone();
        let Some(last) = kernels.last_version(&table.schema).filter(|_| table.version().is_some())
        else {
            return Ok(());
        };
        let sql = format!("UPDATE {}.tsql_rowversion SET last = ?1", quote(&table.schema));
        let connection = self.connection()?;
        let update = connection.prepare_cached(&sql);
        update
            .and_then(|mut update| update.execute([last]))
            .map(|_| ())
            .map_err(|error| failure(&kernels, &error, &table.database))
    }
}
