//! Schemas of a database: the fixed ones, those of CREATE SCHEMA, and those implied by a name in
//! SQLite: the table `sales.t` is in the schema `sales`.

use super::model::FIXED;
use rusqlite::Connection;

use crate::name::quote;
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::named::has_table;

/// Fixed schemas in which nothing can be created.
pub(crate) const SYSTEM: &[&str] = &["INFORMATION_SCHEMA", "sys"];

/// Returns the schemas of an attached database other than the fixed ones.
pub(crate) fn made(connection: &Connection, schema: &str) -> rusqlite::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |name: String| {
        let fixed = FIXED.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name));
        if !fixed && !found.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            found.push(name);
        }
    };
    let own = quote(schema);
    if has_table(connection, schema, "tsql_schema")? {
        let sql = format!("SELECT name FROM {own}.tsql_schema ORDER BY name");
        for name in names(connection, &sql)? {
            add(name);
        }
    }
    let tables = "sqlite_schema WHERE type = 'table' AND";
    let modules = has_table(connection, schema, "tsql_module")?.then_some("tsql_module WHERE");
    for from in std::iter::once(tables).chain(modules) {
        let sql = format!("SELECT name FROM {own}.{from} instr(name, '.') > 1 ORDER BY name");
        for name in names(connection, &sql)? {
            add(schema_and_name(&name).0);
        }
    }
    Ok(found)
}

fn names(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect()
}
