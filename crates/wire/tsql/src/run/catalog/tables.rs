//! Tables, indexes and modules as a database's file has them, by their names.

use rusqlite::{Connection, OptionalExtension};

use super::{Table, TableColumn, TableKind};
use crate::name::quote;
use crate::plan::table::Filled;

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
        quote(schema)
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

pub(crate) fn module(
    connection: &Connection,
    schema: &str,
    name: &str,
    kind: &str,
) -> rusqlite::Result<Option<String>> {
    if !has_table(connection, schema, "tsql_module")? {
        return Ok(None);
    }
    let sql = format!(
        "SELECT definition FROM {}.tsql_module WHERE name = ?1 COLLATE NOCASE AND kind = ?2",
        quote(schema)
    );
    connection.prepare_cached(&sql)?.query_row([name, kind], |row| row.get(0)).optional()
}

pub(crate) fn load(
    connection: &Connection,
    schema: &str,
    database: &str,
    name: &str,
) -> rusqlite::Result<Option<Table>> {
    let made = |kind, name: String, columns| Table {
        schema: schema.to_owned(),
        database: database.to_owned(),
        name,
        columns,
        kind,
    };
    if let Some(text) = module(connection, schema, name, "V")? {
        return Ok(Some(made(TableKind::View(text), name.to_owned(), Vec::new())));
    }
    for kind in ["IF", "TF"] {
        if let Some(text) = module(connection, schema, name, kind)? {
            return Ok(Some(made(TableKind::Function(text), name.to_owned(), Vec::new())));
        }
    }
    let real = table(connection, schema, name)?.map(|(real, _)| real);
    let Some(real) = real.filter(|real| !real.starts_with("sqlite_")) else { return Ok(None) };
    let sql = "SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1, ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    let mut columns: Vec<TableColumn> = statement
        .query_map([real.as_str(), schema], |row| {
            let ty: String = row.get(1)?;
            let not_null: bool = row.get::<_, i64>(2)? != 0;
            let (ty, collation) = crate::parse::column_from_declared(&ty).map_err(|error| {
                let found = rusqlite::types::Type::Text;
                rusqlite::Error::FromSqlConversionFailure(1, found, Box::new(error))
            })?;
            Ok(TableColumn {
                name: row.get(0)?,
                ty,
                nullable: !not_null,
                identity: false,
                default: None,
                filled: Filled::Given,
                collation,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    if columns.is_empty() {
        // another session has dropped it since its name was read
        return Ok(None);
    }
    for (table, field) in [("tsql_identity", "NULL"), ("tsql_default", "definition")] {
        if !has_table(connection, schema, table)? {
            continue;
        }
        let sql = format!(
            "SELECT column_name, {field} FROM {}.{table} WHERE table_name = ?1 COLLATE NOCASE",
            quote(schema)
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([&real])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let text: Option<String> = row.get(1)?;
            for column in columns.iter_mut().filter(|column| column.name == name) {
                match &text {
                    Some(text) => column.default = Some(text.clone()),
                    None => column.identity = true,
                }
            }
        }
    }
    load_filled(connection, schema, &real, &mut columns)?;
    Ok(Some(made(TableKind::Table, real, columns)))
}

/// Reads which columns are computed, or are row versions.
fn load_filled(
    connection: &Connection,
    schema: &str,
    table: &str,
    columns: &mut [TableColumn],
) -> rusqlite::Result<()> {
    if !has_table(connection, schema, "tsql_column")? {
        return Ok(());
    }
    let sql = format!(
        "SELECT column_name, definition, persisted FROM {}.tsql_column WHERE table_name = ?1",
        quote(schema)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([table])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let text: Option<String> = row.get(1)?;
        let persisted: bool = row.get(2)?;
        if let Some(column) = columns.iter_mut().find(|own| own.name.eq_ignore_ascii_case(&name)) {
            column.filled = match text {
                Some(text) => Filled::Computed { text, persisted },
                None => Filled::Version,
            };
        }
    }
    Ok(())
}
