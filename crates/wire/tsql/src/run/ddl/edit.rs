//! Changes of SQLite's own texts of tables.

use rusqlite::Connection;

use super::super::db::failure;
use super::Ddl;
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::Table;

impl Ddl<'_> {
    /// Returns the table's text as SQLite keeps it.
    pub(super) fn table_text(&mut self, table: &Table) -> Result<String> {
        let kernels = self.db.kernels.clone();
        let sql = format!(
            "SELECT sql FROM {}.sqlite_schema WHERE type = 'table' AND name = ?1",
            quote(&table.schema)
        );
        let found = self.db.connection()?.query_row(&sql, [&table.name], |row| row.get(0));
        found.map_err(|error| failure(&kernels, &error, &table.database))
    }

    /// Changes `sqlite_schema` by SQLite's documented procedure for changes that do not touch rows:
    /// within the statement's transaction, with a new schema version, so that every connection
    /// reads the schema again. No column may change but `changed`.
    pub(super) fn edit_schema(
        &mut self,
        table: &Table,
        changed: Option<&str>,
        edit: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let own = quote(&table.schema);
        let before = self.columns_text(table, changed)?;
        let connection = self.db.connection()?;
        let version: i32 = connection
            .query_row(&format!("PRAGMA {own}.schema_version"), [], |row| row.get(0))
            .map_err(fail)?;
        let next = version.wrapping_add(1);
        let change = || {
            connection.execute_batch("PRAGMA writable_schema = ON")?;
            edit(connection)?;
            connection.execute_batch(&format!("PRAGMA {own}.schema_version = {next}"))
        };
        let result = change();
        connection.execute_batch("PRAGMA writable_schema = OFF").map_err(fail)?;
        result.map_err(fail)?;
        if self.columns_text(table, changed)? != before {
            let detail = format!("the columns of {} would change", table.name);
            return Err(Error::Internal { detail });
        }
        Ok(())
    }

    /// Returns the columns as SQLite knows them; of `but`, its place and name alone.
    fn columns_text(&mut self, table: &Table, but: Option<&str>) -> Result<Vec<String>> {
        let kernels = self.db.kernels.clone();
        let sql = "SELECT CASE WHEN name = ?3 THEN name ELSE name || char(0) || type || char(0) || \
            \"notnull\" || char(0) || ifnull(dflt_value, '') || hidden END \
            FROM pragma_table_xinfo(?1, ?2)";
        let read = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
            let mut statement = connection.prepare(sql)?;
            let with = rusqlite::params![table.name, table.schema, but];
            statement.query_map(with, |row| row.get(0))?.collect()
        };
        read(self.db.connection()?).map_err(|error| failure(&kernels, &error, &table.database))
    }
}

/// Puts a table's new text into an editable `sqlite_schema`.
pub(super) fn set_text(
    connection: &Connection,
    schema: &str,
    table: &Table,
    text: &str,
) -> rusqlite::Result<()> {
    let sql =
        format!("UPDATE {schema}.sqlite_schema SET sql = ?2 WHERE type = 'table' AND name = ?1");
    connection.execute(&sql, [table.name.as_str(), text]).map(|_| ())
}
