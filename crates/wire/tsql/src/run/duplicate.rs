//! Errors 2601 and 2627. SQLite names the columns of a key that a row would have twice, and not its
//! values: the change runs once more, with a trigger that notes the key of each row. One that
//! inserts a single row of values needs no trigger.

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use rusqlite::types::ValueRef;

use super::ddl::{KeyKind, index_columns, is_constraint, shown_key, shown_name, unique_index};
use crate::error::{Error, Result, Rule};
use crate::name::quote;
use crate::plan::table::TableColumn;
use crate::render::kernels::Counters;
use crate::run::catalog::Table;
use crate::run::db::{Db, failure};

/// A refused change, with the state in which it began.
pub(crate) struct Again<'a> {
    pub(super) text: &'a str,
    pub(super) params: &'a [Stored],
    /// The first identity value, and the increment.
    pub(super) identity: Option<(i64, i64)>,
    pub(super) counters: Counters,
}

/// The session's connection, and its current database.
type Place<'a> = (&'a mut Db, &'a str);

/// Returns the error for a duplicate key, of which SQLite names the columns, or the index if
/// that has expressions for columns.
pub(super) fn duplicate(
    (db, database): Place<'_>,
    place: &str,
    table: &Table,
    again: &Again<'_>,
) -> Error {
    match duplicate_key((db, database), place, table, again) {
        Ok(error) | Err(error) => error,
    }
}

fn duplicate_key(
    (db, database): Place<'_>,
    place: &str,
    table: &Table,
    again: &Again<'_>,
) -> Result<Error> {
    let kernels = db.kernels.clone();
    let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
    let connection = db.connection()?;
    let (kind, name, columns) = match place.strip_prefix("index '") {
        Some(index) => {
            let name = shown_name(table, index.trim_end_matches('\'')).to_owned();
            let constraint = is_constraint(connection, table, &name);
            let kind = if constraint { KeyKind::Unique } else { KeyKind::Index };
            let columns = index_columns(connection, table, index.trim_end_matches('\''));
            (kind, name, columns.map_err(fail)?)
        }
        None => {
            let column = |place: &str| place.rsplit('.').next().unwrap_or(place).to_owned();
            let columns: Vec<String> = place.split(", ").map(column).collect();
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            let found = unique_index(connection, table, &names).map_err(fail)?;
            let (name, kind) = found.unwrap_or((columns.join("_"), KeyKind::Primary));
            (kind, name, columns)
        }
    };
    let key = match refused_key((db, database), place, table, &columns, again)? {
        Some(key) => format!(" The duplicate key value is {key}."),
        None => String::new(),
    };
    let table = table.object_name();
    let kind = match kind {
        KeyKind::Index => return Ok(Error::DuplicateIndexKey { name, table, key }),
        KeyKind::Primary => "PRIMARY KEY".to_owned(),
        KeyKind::Unique => "UNIQUE KEY".to_owned(),
    };
    Ok(Error::DuplicateKey { kind, name, table, key })
}

/// Returns the key of the refused row as shown in messages; None if the change is not refused
/// in the same place again, or that is in another table, which a cascade has reached.
fn refused_key(
    (db, database): Place<'_>,
    place: &str,
    table: &Table,
    columns: &[String],
    again: &Again<'_>,
) -> Result<Option<String>> {
    let found = columns.iter().map(|name| table.columns.iter().find(|own| own.name == *name));
    let Some(key) = found.collect::<Option<Vec<&TableColumn>>>() else { return Ok(None) };
    let own = place.starts_with("index '") || place.starts_with(&format!("{}.", table.name));
    if key.is_empty() || !own {
        return Ok(None);
    }
    let kernels = db.kernels.clone();
    let counters = kernels.counters();
    let stored = match only_row((db, database), table, &key, again) {
        Some(stored) => Ok(Some(stored)),
        None => noted_key((db, database), place, table, &key, again),
    };
    // where all rows are read before the first is inserted, sequences have gone further
    kernels.set_counters(counters);
    let Some(stored) = stored? else { return Ok(None) };
    let stored: Vec<ValueRef<'_>> = stored.iter().map(ValueRef::from).collect();
    Ok(shown_key(&key, &stored).ok())
}

/// Returns the key of a change that inserts one row of VALUES: that is a query too.
fn only_row(
    (db, database): Place<'_>,
    table: &Table,
    key: &[&TableColumn],
    again: &Again<'_>,
) -> Option<Vec<Stored>> {
    let rest = again.text.strip_prefix("INSERT INTO ")?.strip_prefix(table.sql().as_str())?;
    let mut rest = rest.strip_prefix(" (")?;
    let mut places = vec![None; key.len()];
    for at in 0.. {
        let found = table.columns.iter().find_map(|own| {
            let after = rest.strip_prefix(quote(&own.name).as_str())?;
            after.starts_with([',', ')']).then_some((own, after))
        });
        let (column, after) = found?;
        if let Some(of) = key.iter().position(|own| own.name == column.name) {
            places[of] = Some(at);
        }
        match after.strip_prefix(", ") {
            Some(after) => rest = after,
            None => {
                rest = after.strip_prefix(") ").filter(|rest| rest.starts_with("VALUES ("))?;
                break;
            }
        }
    }
    let places = places.into_iter().collect::<Option<Vec<usize>>>()?;
    match rerun((db, database), table, rest, again).ok()?.as_slice() {
        [only] => places.into_iter().map(|at| only.get(at).cloned()).collect(),
        _ => None,
    }
}

/// Returns the key of the row at which a change is refused in the same place again.
fn noted_key(
    (db, database): Place<'_>,
    place: &str,
    table: &Table,
    key: &[&TableColumn],
    again: &Again<'_>,
) -> Result<Option<Vec<Stored>>> {
    let values = key.iter().map(|own| format!("NEW.{}", quote(&own.name)));
    let (on, values) = (table.sql(), values.collect::<Vec<_>>().join(", "));
    let trigger = |event: &str| {
        format!(
            "CREATE TEMP TRIGGER \"~key:{event}\" BEFORE {event} ON {on} BEGIN SELECT \
             tsql_key({values}); END;"
        )
    };
    let kernels = db.kernels.clone();
    kernels.take_key();
    db.execute("SAVEPOINT \"~key\"", database)?;
    let made = db.execute(&(trigger("INSERT") + &trigger("UPDATE")), database);
    // with the triggers all rows are chosen first: a row behind the refused one, at which the
    // change never was, may have values that cannot be computed
    let result =
        made.and_then(|()| kernels.leniently(|| rerun((db, database), table, again.text, again)));
    if db.in_transaction() {
        db.execute("ROLLBACK TO \"~key\"; RELEASE \"~key\"", database)?;
    }
    let stored = kernels.take_key();
    Ok(match result {
        Err(Error::Violation { rule: Rule::Unique, place: there, .. }) if there == place => {
            Some(stored)
        }
        _ => None,
    })
}

/// Runs a text with the parameters of a refused change. Returns its first two rows.
fn rerun(
    (db, database): Place<'_>,
    table: &Table,
    text: &str,
    again: &Again<'_>,
) -> Result<Vec<Vec<Stored>>> {
    let kernels = db.kernels.clone();
    kernels.take_failure();
    kernels.set_counters(again.counters.clone());
    if let Some((next, step)) = again.identity {
        kernels.begin_identity(next, step);
    }
    let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
    let run = |_: &Db, open: &Connection| first_rows(open, text, again.params);
    db.lending(database, run)?.map_err(fail)
}

/// Runs a text, and returns its first two rows.
fn first_rows(
    connection: &Connection,
    text: &str,
    params: &[Stored],
) -> rusqlite::Result<Vec<Vec<Stored>>> {
    let mut statement = connection.prepare(text)?;
    let width = statement.column_count();
    let params = params.iter().take(statement.parameter_count());
    let mut rows = statement.query(rusqlite::params_from_iter(params))?;
    let mut found: Vec<Vec<Stored>> = Vec::new();
    while let Some(row) = rows.next()? {
        if found.len() < 2 {
            let values = (0..width).map(|at| row.get(at));
            found.push(values.collect::<rusqlite::Result<_>>()?);
        }
    }
    Ok(found)
}
