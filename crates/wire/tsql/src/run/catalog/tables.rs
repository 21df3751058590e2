//! Tables and indexes of SQLite by their names.

use rusqlite::{Connection, OptionalExtension};

/// Finds a table or view of SQLite by its name, regardless of case: the name as written, and the
/// kind. SQLite finds it in the schema that it has in memory.
pub(crate) fn table(
    connection: &Connection,
    schema: &str,
    name: &str,
) -> rusqlite::Result<Option<(String, String)>> {
    let sql = "SELECT name, type FROM pragma_table_list(?1) WHERE schema = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([name, schema], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Returns true if a schema of SQLite has this index, regardless of case.
pub(crate) fn has_index(
    connection: &Connection,
    schema: &str,
    name: &str,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT 1 FROM {}.sqlite_schema WHERE type = 'index' AND name = ?1 COLLATE NOCASE",
        crate::name::quote(schema)
    );
    connection.prepare_cached(&sql)?.exists([name])
}

pub(crate) fn has_table(
    connection: &Connection,
    schema: &str,
    name: &str,
) -> rusqlite::Result<bool> {
    Ok(table(connection, schema, name)?.is_some())
}
