//! Rows and sizes of tables, and what is partitioned or stored in files: each is counted when it is
//! asked for.

use std::collections::HashMap;

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{BIG, BIT, Columns, DESC, INT, Row, SMALL, Source, TINY, View, bit, int, some, text};
use crate::ast::trigger::Event;
use crate::error::Result;
use crate::name::quote;
use crate::run::catalog::model::{Facts, object_id};
use crate::run::db::{Db, failure};

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.partitions", columns: PARTITIONS, source: Source::Read(partitions) },
    View { name: "sys.~space", columns: SPACE, source: Source::Read(space) },
    View {
        name: "sys.trigger_events",
        columns: TRIGGER_EVENTS,
        source: Source::Facts(trigger_events),
    },
];

const PARTITIONS: Columns = &[
    ("partition_id", BIG),
    ("object_id", INT),
    ("index_id", INT),
    ("partition_number", INT),
    ("hobt_id", BIG),
    ("rows", BIG),
    ("filestream_filegroup_id", SMALL),
    ("data_compression", TINY),
    ("data_compression_desc", DESC),
];

/// One partition for each index: a number of our own, made of the index's. The rows of a filtered
/// index are not known.
fn partitions(db: &mut Db, database: &str, facts: &Facts) -> Result<Vec<Row>> {
    let counts = counts(db, database)?;
    let mut rows = Vec::new();
    for index in &facts.indexes {
        let Some(object) = facts.object(index.object).filter(|object| !object.hidden) else {
            continue;
        };
        let id = index.object << 16 | index.id;
        let known = counts.get(&object.id).copied().filter(|_| index.filter.is_none());
        rows.push(vec![
            int(id),
            int(index.object),
            int(index.id),
            int(1),
            int(id),
            some(known),
            int(0),
            int(0),
            text("NONE"),
        ]);
    }
    Ok(rows)
}

/// A table of a database, as it is now.
pub(crate) struct Sized {
    /// With its schema, unless that is dbo.
    pub(crate) name: String,
    pub(crate) rows: i64,
    pub(crate) data_bytes: i64,
    pub(crate) index_bytes: i64,
}

/// Counts the rows and pages of a database's tables.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn tables(db: &mut Db, database: &str) -> Result<Vec<Sized>> {
    let counts = counts(db, database)?;
    let named = |(name, data_bytes, index_bytes): (String, i64, i64)| {
        let rows = counts.get(&object_id(&name)).copied()?;
        Some(Sized { name, rows, data_bytes, index_bytes })
    };
    Ok(bytes(db, database)?.into_iter().filter_map(named).collect())
}

/// Rows of each table, by its number.
fn counts(db: &mut Db, database: &str) -> Result<HashMap<i64, i64>> {
    let schema = quote(&db.schema(database)?);
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let read = || -> rusqlite::Result<HashMap<i64, i64>> {
        let sql = format!(
            "SELECT name FROM {schema}.sqlite_schema WHERE type = 'table' AND sql NOT LIKE \
            'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' AND name NOT LIKE \
            'tsql~_%' ESCAPE '~'"
        );
        let mut statement = connection.prepare(&sql)?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        let mut found = HashMap::new();
        for name in names {
            let name = name?;
            let sql = format!("SELECT count(*) FROM {schema}.{}", quote(&name));
            found.insert(object_id(&name), connection.query_row(&sql, [], |row| row.get(0))?);
        }
        Ok(found)
    };
    read().map_err(|error| failure(&kernels, &error, database))
}

/// Bytes of the pages of each table, and of its indexes; our own tables and SQLite's with them.
fn bytes(db: &mut Db, database: &str) -> Result<Vec<(String, i64, i64)>> {
    let schema = db.schema(database)?;
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let read = || -> rusqlite::Result<Vec<(String, i64, i64)>> {
        let sql = format!(
            "SELECT o.tbl_name, sum(CASE WHEN o.type = 'table' THEN s.pgsize ELSE 0 END), \
            sum(CASE WHEN o.type = 'index' THEN s.pgsize ELSE 0 END) FROM dbstat AS s JOIN \
            (SELECT name, tbl_name, type FROM {}.sqlite_schema UNION ALL SELECT 'sqlite_schema', \
            'sqlite_schema', 'table') AS o ON o.name = s.name WHERE s.schema = ?1 AND \
            s.aggregate = 1 GROUP BY o.tbl_name ORDER BY o.tbl_name",
            quote(&schema)
        );
        let mut statement = connection.prepare(&sql)?;
        let rows =
            statement.query_map([&schema], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    };
    read().map_err(|error| failure(&kernels, &error, database))
}

/// What `sp_spaceused` gives, in bytes; the database as a whole under the number 0.
const SPACE: Columns =
    &[("object_id", INT), ("rows", BIG), ("data", BIG), ("indexes", BIG), ("unused", BIG)];

fn space(db: &mut Db, database: &str, facts: &Facts) -> Result<Vec<Row>> {
    let row = |table: Sized| {
        let id = object_id(&table.name);
        vec![int(id), int(table.rows), int(table.data_bytes), int(table.index_bytes), int(0)]
    };
    let seen = |table: &Sized| facts.object(object_id(&table.name)).is_some();
    let mut rows: Vec<Row> = tables(db, database)?.into_iter().filter(seen).map(row).collect();
    let all = bytes(db, database)?;
    let sum = |which: fn(&(String, i64, i64)) -> i64| int(all.iter().map(which).sum::<i64>());
    let schema = quote(&db.schema(database)?);
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let pragma = |what: &str| {
        let sql = format!("PRAGMA {schema}.{what}");
        connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .map_err(|error| failure(&kernels, &error, database))
    };
    let free = pragma("freelist_count")? * pragma("page_size")?;
    rows.push(vec![int(0), Value::Null, sum(|own| own.1), sum(|own| own.2), int(free)]);
    Ok(rows)
}

const TRIGGER_EVENTS: Columns = &[
    ("object_id", INT),
    ("type", INT),
    ("type_desc", DESC),
    ("is_trigger_event", BIT),
    ("is_first", BIT),
    ("is_last", BIT),
    ("event_group_type", INT),
    ("event_group_type_desc", SqlType::NVarChar(Length::Of(60))),
];

fn trigger_events(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (id, trigger) in &facts.triggers {
        for (number, event) in (1..).zip(Event::ALL) {
            if trigger.events.has(event) {
                rows.push(vec![
                    int(*id),
                    int(number),
                    text(event.word()),
                    bit(true),
                    bit(false),
                    bit(false),
                    Value::Null,
                    Value::Null,
                ]);
            }
        }
    }
    rows
}
