//! Changes of rows that SQLite refuses, and their errors.

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::Command;

use super::db::{Db, failure};
use super::duplicate::{Again, duplicate};
use super::violated::{violated_check, violated_key};
use crate::error::{Error, Result, Rule};
use crate::run::catalog::Table;

/// Changes a row of a table by a text of its own, in a current database.
pub(super) fn write_row(
    (db, database): (&mut Db, &str),
    (table, command): (&Table, Command),
    text: &str,
    params: &[Stored],
) -> Result<()> {
    #[cfg(debug_assertions)]
    super::trace::Trace::note(text);
    put(db, table, text, params).map_err(|error| {
        let kernels = &db.kernels;
        let identity = kernels.last_identity().map(|last| (last, 1));
        let again = Again { text, params, identity, counters: kernels.counters() };
        refused((db, database), error, (table, command), &again)
    })
}

fn put(db: &mut Db, table: &Table, text: &str, params: &[Stored]) -> Result<()> {
    let kernels = db.kernels.clone();
    kernels.take_failure();
    let connection = db.connection()?;
    let result = connection
        .prepare_cached(text)
        .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(params)));
    result.map(|_| ()).map_err(|error| failure(&kernels, &error, &table.database))
}

/// Converts SQLite's constraint errors to SQL Server's, in a current database. `again` is the
/// refused change, which may run once more.
pub(super) fn refused(
    (db, database): (&mut Db, &str),
    error: Error,
    (table, command): (&Table, Command),
    again: &Again<'_>,
) -> Error {
    let Error::Violation { rule, place, .. } = &error else { return error };
    let verb = match command {
        Command::INSERT => "INSERT",
        Command::UPDATE => "UPDATE",
        Command::MERGE => "MERGE",
        _ => "DELETE",
    };
    let column = |place: &str| place.rsplit('.').next().unwrap_or(place).to_owned();
    match rule {
        Rule::NotNull => Error::CannotInsertNull {
            column: column(place),
            table: table.full_name(),
            verb: verb.to_owned(),
        },
        Rule::Unique => duplicate((db, database), place, table, again),
        Rule::Check => violated_check(db, verb, place, table),
        Rule::ForeignKey => violated_key(db, verb, table),
        _ => error,
    }
}
