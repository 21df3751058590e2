//! Statements of the operations experiment: each runs with emptied caches, is measured alone, and
//! is undone outside of the timing, so that every statement of every side finds the same state.

use tdekit_sqlite_client::{Connection, Library, SqliteError, Statement, Value};

use super::command::write_out;
use super::{Database, WorkerError};
use crate::error::BenchError;
use crate::job::{Operation, OperationCosts as Costs, Planned, Rehearsal, Variant};
use tdekit_bench_work::{Cost, Meter};

/// Prepared statements of the plan: the measured ones and their undo.
pub(super) struct Operations {
    prepared: Vec<(Statement, Option<Statement>)>,
}

fn prepare(
    connection: &Connection,
    planned: &Planned,
) -> Result<(Statement, Option<Statement>), SqliteError> {
    let undo = planned.undo_sql.as_ref().map(|sql| connection.prepare(sql)).transpose()?;
    Ok((connection.prepare(&planned.sql)?, undo))
}

fn undo(statement: Option<&Statement>, variant: &Variant) -> Result<(), SqliteError> {
    let Some(statement) = statement else { return Ok(()) };
    for values in &variant.undo {
        statement.bind_all(values.iter().map(Value::borrowed))?;
        statement.run()?;
    }
    Ok(())
}

/// Runs the block's variants of every statement of `operation`; SQLite's cache is emptied before
/// each, the system's stays warm.
pub(super) fn run_warm(
    database: &mut Database,
    plan: &[Planned],
    operation: Operation,
    round: u32,
) -> Result<Costs, WorkerError> {
    let Database { operations, connection, .. } = database;
    let operations = match operations {
        Some(operations) => operations,
        none => none.insert(Operations {
            prepared: plan
                .iter()
                .map(|planned| prepare(connection, planned))
                .collect::<Result<_, _>>()?,
        }),
    };
    let mut meter = Meter::start();
    let mut statements = Vec::new();
    for (planned, (statement, undo_statement)) in plan.iter().zip(&operations.prepared) {
        if planned.operation != operation {
            continue;
        }
        let mut sum = (0, 0);
        for variant in planned.block(round) {
            statement.bind_all(variant.parameters.iter().map(Value::borrowed))?;
            connection.release_memory();
            let (result, elapsed, cpu) = meter.part(connection, || statement.run());
            result?;
            sum = (sum.0 + elapsed, sum.1 + cpu);
            undo(undo_statement.as_ref(), variant)?;
        }
        statements.push(sum);
    }
    let work = Cost { operations: statements.len() as u64, statements, ..meter.finish() };
    finish(connection, operation, work)
}

/// Measures the checkpoint after a rebuild of the indexes, which fills the log with known pages;
/// after other writes the log is only emptied, since it holds the undone changes too.
fn finish(connection: &Connection, operation: Operation, work: Cost) -> Result<Costs, WorkerError> {
    let measured = (operation == Operation::Reindex).then(|| checkpoint(connection)).transpose()?;
    if operation.writes() {
        connection.execute("PRAGMA wal_checkpoint(RESTART)")?;
    }
    Ok((work, measured))
}

/// A checkpoint, measured.
pub(super) fn checkpoint(connection: &Connection) -> Result<Cost, WorkerError> {
    let statement = connection.prepare("PRAGMA wal_checkpoint(PASSIVE)")?;
    Ok(Meter::whole(connection, || statement.run())?.1)
}

/// Runs one variant of every statement of `operation`, on a fresh connection, after the file's
/// pages were dropped from the system's cache, or all pages of all files. `round` selects the
/// variant.
pub(super) fn run_cold(
    library: Library,
    database: &mut Database,
    plan: &[Planned],
    operation: Operation,
    (round, drop_all): (u32, bool),
) -> Result<Costs, WorkerError> {
    let mut meter = Meter::start();
    let mut statements = Vec::new();
    for planned in plan.iter().filter(|planned| planned.operation == operation) {
        let Some(variant) = planned.block(round).next() else { continue };
        reopen_cold(library, database, drop_all)?;
        let (statement, undo_statement) = prepare(&database.connection, planned)?;
        statement.bind_all(variant.parameters.iter().map(Value::borrowed))?;
        database.connection.release_memory();
        let (result, elapsed, cpu) = meter.part(&database.connection, || statement.run());
        result?;
        statements.push((elapsed, cpu));
        undo(undo_statement.as_ref(), variant)?;
    }
    let work = Cost { operations: statements.len() as u64, statements, ..meter.finish() };
    finish(&database.connection, operation, work)
}

/// Closes, empties the log, drops the file's pages from the system's cache, and opens again. The
/// connection must be closed first: pages that a process has mapped stay in the cache.
fn reopen_cold(
    library: Library,
    database: &mut Database,
    drop_all: bool,
) -> Result<(), WorkerError> {
    database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")?;
    database.reopen(library, |path| {
        write_out(path, true)?;
        if drop_all { drop_all_pages() } else { Ok(()) }
    })
}

/// Drops the clean pages of every file from the system's cache, with its directory entries and
/// inodes. Only root may.
fn drop_all_pages() -> Result<(), WorkerError> {
    const SWITCH: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    let dropped = std::fs::write(SWITCH, "3");
    Ok(dropped.map_err(BenchError::file("cannot drop the system's whole cache by", SWITCH))?)
}

/// Executes and undoes each statement and compares the changed rows with the expected ones. The
/// database must not be used for anything else afterwards.
pub(super) fn rehearse(connection: &Connection, statements: &[Planned]) -> Vec<Rehearsal> {
    statements.iter().map(|planned| rehearse_one(connection, planned)).collect()
}

fn rehearse_one(connection: &Connection, planned: &Planned) -> Rehearsal {
    let mut side_effects = false;
    let (statement, undo_statement) = match prepare(connection, planned) {
        Ok(prepared) => prepared,
        Err(error) => {
            let failures = vec![Some(error.to_string()); planned.variants.len()];
            return Rehearsal { failures, side_effects };
        }
    };
    let failures = planned
        .variants
        .iter()
        .map(|variant| {
            let before = connection.total_changes();
            try_variant(connection, &statement, undo_statement.as_ref(), variant)
                .map(|changed| {
                    side_effects |= connection.total_changes() - before > 2 * changed;
                })
                .err()
        })
        .collect();
    Rehearsal { failures, side_effects }
}

/// Returns the rows that the statement changed itself.
fn try_variant(
    connection: &Connection,
    statement: &Statement,
    undo: Option<&Statement>,
    variant: &Variant,
) -> Result<i64, String> {
    let text = |error: SqliteError| error.to_string();
    statement.bind_all(variant.parameters.iter().map(Value::borrowed)).map_err(text)?;
    statement.run().map_err(text)?;
    let Some(undo) = undo else { return Ok(0) };
    let changed = connection.changes();
    let expected = i64::try_from(variant.undo.len()).unwrap_or(i64::MAX);
    let mut undone = 0;
    for values in &variant.undo {
        undo.bind_all(values.iter().map(Value::borrowed)).map_err(text)?;
        undo.run().map_err(text)?;
        undone += connection.changes();
    }
    if changed == expected && undone == expected {
        Ok(changed)
    } else {
        Err(format!("{changed} rows changed and {undone} undone where {expected} were expected"))
    }
}
