//! The triggers that a statement fires, and the names of their tables.

use std::sync::Arc;

use crate::ast::trigger::Event;
use crate::plan::trigger::{Changed, LOGICAL, Trigger};
use crate::run::catalog::{Table, TableKind};

/// The triggers that a statement fires.
#[derive(Debug)]
pub(crate) struct Watch {
    /// In the order in which they fire.
    pub(super) firings: Vec<Firing>,
}

/// The triggers of one table that fire for one event.
#[derive(Debug)]
pub(crate) struct Firing {
    pub(super) event: Event,
    pub(super) table: Arc<Table>,
    pub(super) triggers: Vec<Arc<Trigger>>,
    pub(super) inserted: Arc<Table>,
    pub(super) deleted: Arc<Table>,
    pub(super) changed: Changed,
    /// False for a table that cascades reach: its triggers fire if rows have changed.
    pub(super) direct: bool,
}

/// Returns `inserted` or `deleted` for a table, by the depth of its triggers and their number in
/// the statement.
pub(super) fn logical(table: &Table, word: &str, (level, at): (usize, usize)) -> Arc<Table> {
    let mut columns = table.columns.clone();
    // rows of INSTEAD OF are as the statement has them
    columns.iter_mut().for_each(|column| column.nullable |= !column.identity);
    Arc::new(Table {
        schema: "temp".to_owned(),
        // its computed columns call the functions that those of the table call
        database: table.database.clone(),
        name: format!("{LOGICAL}{word}:{level}.{at}"),
        columns,
        kind: TableKind::Table,
    })
}
