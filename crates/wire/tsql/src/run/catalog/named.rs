//! Objects by their names, without reading the rest of their database: for OBJECT_ID.

use rusqlite::{Connection, OptionalExtension};

use super::facts::{self};
pub(crate) use super::tables::{has_index, has_table, table};
use super::triggers;
use crate::error::Result;
use crate::functions::wanted::parts;
use crate::name::is_global;
use crate::name::quote;
use crate::run::catalog::model::object_id;
use crate::run::catalog::model::{
    CONSTRAINT_SCHEMA, Facts, Object, constraint_place, schema_and_name,
};
use crate::run::db::{Db, failure};
use crate::run::gate::Hidden;
use crate::run::globals::TEMPDB;

/// Prefixes of generated names: see [`super::model::made_name`].
const MADE: [&str; 5] = ["pk__", "uq__", "fk__", "ck__", "df__"];

/// Reads these objects of a database, without their dependents.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn read(db: &mut Db, database: &str, names: &[String]) -> Result<Facts> {
    let schema = db.schema(database)?;
    let mut found = Facts { database: database.to_owned(), ..Facts::default() };
    for text in names {
        let name = parts(text);
        let object = name.object();
        let known = if is_global(object) {
            let schema = db.attach(TEMPDB)?;
            let leaving = db.is_leaving(&schema, object);
            !leaving.map_err(|error| failure(&db.kernels, &error, TEMPDB))?
                && add(db, &mut found, (&schema, TEMPDB), object)?
        } else if object.starts_with('#') {
            let stored = db.temporary(object);
            let known = add(db, &mut found, ("temp", "tempdb"), &stored)?;
            if let (true, Some(made)) = (known, found.objects.last_mut()) {
                // as named in its scope
                object.clone_into(&mut made.name);
            }
            known
        } else {
            let part = name.part(1).filter(|part| !part.eq_ignore_ascii_case("dbo"));
            let stored = part.map_or(object.to_owned(), |part| format!("{part}.{object}"));
            add(db, &mut found, (&schema, database), &stored)?
        };
        let lower = object.to_lowercase();
        if !known && MADE.iter().any(|made| lower.starts_with(made)) {
            // such a name may be stored nowhere
            return facts::read(db, database);
        }
    }
    found.hide(&*db.rights(database)?);
    Ok(found)
}

fn add(
    db: &mut Db,
    found: &mut Facts,
    (schema, database): (&str, &str),
    stored: &str,
) -> Result<bool> {
    let own = found.database.eq_ignore_ascii_case("tempdb");
    let kernels = db.kernels.clone();
    let one = one(db.connection()?, schema, stored)
        .map_err(|error| failure(&kernels, &error, database))?;
    let Some((stored, kind, text, table)) = one else { return Ok(false) };
    let hidden = database == TEMPDB && !own;
    if let Some(table) = table {
        // a constraint is in its table's schema
        let (schema, name) = schema_and_name(&table);
        let (id, parent, text) = (object_id(&table), 0, None);
        found.objects.push(Object { id, schema, name, kind: "U", parent, text, hidden });
        found.add_constraint(id, &stored, kind);
        return Ok(true);
    }
    let id = object_id(&stored);
    let (schema, name) = schema_and_name(&stored);
    found.objects.push(Object { id, schema, name, kind, parent: 0, text, hidden });
    Ok(true)
}

/// Name, kind, the text of a module, the table of a constraint.
pub(crate) type One = (String, &'static str, Option<String>, Option<String>);

/// Finds an object by its name in SQLite, regardless of case.
pub(crate) fn one(
    connection: &Connection,
    schema: &str,
    stored: &str,
) -> rusqlite::Result<Option<One>> {
    if let Some((real, kind)) = table(connection, schema, stored)?
        && kind == "table"
        && !real.starts_with("sqlite_")
        && !real.starts_with("tsql_")
    {
        return Ok(Some((real, "U", None, None)));
    }
    let own = quote(schema);
    if has_table(connection, schema, "tsql_module")? {
        let sql = format!("SELECT name, kind, definition FROM {own}.tsql_module WHERE name = ?1");
        let found = connection
            .prepare_cached(&sql)?
            .query_row([stored], |row| {
                let kind: String = row.get(1)?;
                let kind =
                    ["V", "IF", "TF", "FN"].into_iter().find(|known| *known == kind).unwrap_or("P");
                Ok((row.get(0)?, kind, row.get(2)?, None))
            })
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    if has_table(connection, schema, "tsql_sequence")? {
        let sql = format!("SELECT name FROM {own}.tsql_sequence WHERE name = ?1");
        let found = connection
            .prepare_cached(&sql)?
            .query_row([stored], |row| Ok((row.get(0)?, "SO", None, None)))
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    if let Some(trigger) = triggers::named(connection, schema, stored)? {
        return Ok(Some((trigger.stored(), "TR", Some(trigger.text), None)));
    }
    if !has_table(connection, schema, "tsql_constraint")? {
        return Ok(None);
    }
    let (place, name) = constraint_place(stored);
    let sql = format!(
        "SELECT name, kind, table_name FROM {own}.tsql_constraint WHERE name = ?1 \
         AND kind <> 'I' AND {CONSTRAINT_SCHEMA} = ?2"
    );
    connection
        .prepare_cached(&sql)?
        .query_row([name, place], |row| {
            let kind: String = row.get(1)?;
            let known = ["PK", "UQ", "F", "C", "D"].into_iter().find(|known| *known == kind);
            Ok((row.get(0)?, known.unwrap_or("C"), None, Some(row.get(2)?)))
        })
        .optional()
}
