//! Columns that constraints use.

use super::{Columns, NAME, Row, Source, View, text};
use crate::run::catalog::model::{Facts, Object};
use crate::value::Val;

pub(crate) const VIEWS: &[View] = &[View {
    name: "information_schema.constraint_column_usage",
    columns: USAGE,
    source: Source::Facts(usage),
}];

const USAGE: Columns = &[
    ("TABLE_CATALOG", NAME),
    ("TABLE_SCHEMA", NAME),
    ("TABLE_NAME", NAME),
    ("COLUMN_NAME", NAME),
    ("CONSTRAINT_CATALOG", NAME),
    ("CONSTRAINT_SCHEMA", NAME),
    ("CONSTRAINT_NAME", NAME),
];

fn usage(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for index in facts.indexes.iter().filter(|index| index.constraint) {
        let columns = index.columns.iter().map(|(column, _)| *column);
        add(&mut rows, facts, index.object, index.name.as_deref().unwrap_or_default(), columns);
    }
    for key in &facts.foreign_keys {
        add(&mut rows, facts, key.object, &key.name, key.columns.iter().map(|(here, _)| *here));
    }
    for check in &facts.checks {
        add(&mut rows, facts, check.object, &check.name, check.columns.iter().copied());
    }
    rows
}

/// Adds a row for each column of a constraint.
fn add(
    rows: &mut Vec<Row>,
    facts: &Facts,
    table: i64,
    constraint: &str,
    columns: impl Iterator<Item = i64>,
) {
    let Some(object) = facts.object(table).filter(|object| !object.hidden) else { return };
    for id in columns {
        let found = facts.columns.iter().find(|own| own.object == table && own.id == id);
        if let Some(found) = found {
            rows.push(row(facts, object, &found.column.name, constraint));
        }
    }
}

fn row(facts: &Facts, table: &Object, column: &str, constraint: &str) -> Row {
    let (database, schema) = (&facts.database, &table.schema);
    let values = [database, schema, &table.name, column, database, schema, constraint];
    values.into_iter().map(text).collect::<Vec<Val>>()
}
