//! The constraint that a change has violated. Of a foreign key SQLite says only that there is one:
//! it is named where the change can violate no other.

use rusqlite::Connection;

use super::db::{Db, failure};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::facts::{constraints, primary_names};
use crate::run::catalog::model::made_name;
use crate::run::catalog::{Table, triggers};

/// A foreign key; names are those in SQLite.
struct Key {
    child: String,
    parent: String,
    /// Column of the child, column of the parent; none for its primary key's.
    columns: Vec<(String, Option<String>)>,
    on_update: String,
    on_delete: String,
}

/// A foreign key that may be violated, and true if that is by a change of its parent.
type Candidate = (Key, bool);

/// Returns error 547 for a CHECK.
pub(super) fn violated_check(db: &mut Db, verb: &str, name: &str, table: &Table) -> Error {
    let connection = db.connection().ok();
    let named = connection.and_then(|connection| constraints(connection, table).ok());
    let found = named.and_then(|named| named.into_iter().find(|found| found.name == name));
    let uses = |column: &str| found.as_ref().is_some_and(|found| found.uses(column));
    let columns = table.columns.iter().map(|own| own.name.clone());
    conflict(verb, "CHECK", name, table, &columns.filter(|own| uses(own)).collect::<Vec<_>>())
}

/// Returns error 547 for a foreign key.
pub(super) fn violated_key(db: &mut Db, verb: &str, table: &Table) -> Error {
    let named = candidates(db, verb, table).and_then(|mut found| match found.pop() {
        Some(only) if found.is_empty() => named_conflict(db, verb, table, &only),
        _ => Ok(None),
    });
    named.ok().flatten().unwrap_or_else(|| Error::ConstraintConflict {
        verb: verb.to_owned(),
        kind: if verb == "DELETE" { "REFERENCE" } else { "FOREIGN KEY" }.to_owned(),
        name: format!(" of table \"{}\"", table.full_name()),
    })
}

/// Returns the foreign keys that such a change of a table can violate; none if that depends on
/// what the keys' actions do to other tables, or on which of its changes MERGE was at.
fn candidates(db: &mut Db, verb: &str, table: &Table) -> Result<Vec<Candidate>> {
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let found = match verb {
        "INSERT" => as_child(connection, table),
        "DELETE" => as_parent(connection, table),
        "UPDATE" => as_either(connection, table),
        _ => Ok(Vec::new()),
    };
    found.map_err(|error| failure(&kernels, &error, &table.database))
}

fn named_conflict(
    db: &mut Db,
    verb: &str,
    table: &Table,
    (key, as_parent): &Candidate,
) -> Result<Option<Error>> {
    let kernels = db.kernels.clone();
    let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
    let mut stored = |name: &str| db.stored(&table.schema, &table.database, name);
    let (Some(child), Some(parent)) = (stored(&key.child)?, stored(&key.parent)?) else {
        return Ok(None);
    };
    let connection = db.connection()?;
    let own: Vec<String> = key.columns.iter().map(|(from, _)| from.clone()).collect();
    let named = constraints(connection, &child).map_err(fail)?;
    let named = named.into_iter().find(|found| found.kind == "F" && found.columns == own);
    let name = match named {
        Some(named) => named.name,
        None => made_name("FK", &child.name, &own.join("_")),
    };
    let kind = match (as_parent, key.child.eq_ignore_ascii_case(&key.parent)) {
        (false, false) => "FOREIGN KEY",
        (false, true) => "FOREIGN KEY SAME TABLE",
        (true, false) => "REFERENCE",
        (true, true) => "SAME TABLE REFERENCE",
    };
    Ok(Some(if *as_parent {
        conflict(verb, kind, &name, &child, &own)
    } else {
        let there = parent_columns(connection, &parent, key).map_err(fail)?;
        conflict(verb, kind, &name, &parent, &there)
    }))
}

/// Returns error 547 for a constraint that conflicts with rows of a table, in these columns.
pub(super) fn conflict(
    verb: &str,
    kind: &str,
    name: &str,
    table: &Table,
    columns: &[String],
) -> Error {
    let column = match columns {
        [only] => format!(", column '{only}'"),
        _ => String::new(),
    };
    let (database, table) = (&table.database, table.object_name());
    Error::ConstraintConflict {
        verb: verb.to_owned(),
        kind: kind.to_owned(),
        name: format!(
            " \"{name}\". The conflict occurred in database \"{database}\", table \
             \"{table}\"{column}"
        ),
    }
}

fn as_child(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<Candidate>> {
    let keys = keys_of(connection, &table.schema, &table.name)?.into_iter();
    let own = keys.filter(|key| key.child.eq_ignore_ascii_case(&table.name));
    Ok(own.map(|key| (key, false)).collect())
}

/// A deletion reaches the tables whose keys delete or change rows with it.
fn as_parent(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<Candidate>> {
    let reached = triggers::reached(connection, &table.schema, &table.name)?;
    let mut parents: Vec<&str> = reached.iter().map(|reached| reached.table.as_str()).collect();
    parents.retain(|parent| !parent.eq_ignore_ascii_case(&table.name));
    parents.push(&table.name);
    let mut found = Vec::new();
    for parent in parents {
        let keys = keys_of(connection, &table.schema, parent)?.into_iter();
        let refusing = keys.filter(|key| {
            key.parent.eq_ignore_ascii_case(parent)
                && !matches!(key.on_delete.as_str(), "CASCADE" | "SET NULL")
        });
        found.extend(refusing.map(|key| (key, true)));
    }
    Ok(found)
}

/// An UPDATE never changes an identity column, to which most keys refer.
fn as_either(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<Candidate>> {
    let mut found = as_child(connection, table)?;
    let identity = table.identity().map(|column| column.name.as_str());
    for key in keys_of(connection, &table.schema, &table.name)? {
        if !key.parent.eq_ignore_ascii_case(&table.name) {
            continue;
        }
        let columns = parent_columns(connection, table, &key)?;
        if columns.iter().all(|column| Some(column.as_str()) == identity) {
            continue;
        }
        if key.on_update != "NO ACTION" && key.on_update != "RESTRICT" {
            return Ok(Vec::new());
        }
        found.push((key, true));
    }
    Ok(found)
}

fn parent_columns(
    connection: &Connection,
    parent: &Table,
    key: &Key,
) -> rusqlite::Result<Vec<String>> {
    let named: Vec<String> = key.columns.iter().filter_map(|(_, there)| there.clone()).collect();
    if named.is_empty() { primary_names(connection, parent) } else { Ok(named) }
}

/// Returns the foreign keys of a table, and those that refer to it.
fn keys_of(connection: &Connection, schema: &str, table: &str) -> rusqlite::Result<Vec<Key>> {
    let sql = format!(
        "SELECT m.name, f.id, f.\"table\", f.\"from\", f.\"to\", f.on_update, f.on_delete \
         FROM {}.sqlite_schema AS m JOIN pragma_foreign_key_list(m.name, ?2) AS f \
         WHERE m.type = 'table' AND ?1 COLLATE NOCASE IN (m.name, f.\"table\") \
         ORDER BY m.name, f.id, f.seq",
        quote(schema)
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([table, schema])?;
    let mut keys: Vec<(i64, Key)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (child, id): (String, i64) = (row.get(0)?, row.get(1)?);
        let columns = (row.get(3)?, row.get(4)?);
        match keys.last_mut().filter(|(known, key)| *known == id && key.child == child) {
            Some((_, key)) => key.columns.push(columns),
            None => {
                let (parent, columns) = (row.get(2)?, vec![columns]);
                let (on_update, on_delete) = (row.get(5)?, row.get(6)?);
                keys.push((id, Key { child, parent, columns, on_update, on_delete }));
            }
        }
    }
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}
