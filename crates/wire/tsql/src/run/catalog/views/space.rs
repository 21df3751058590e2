//! Rows and sizes of tables, and what is partitioned or stored in files: each is counted when it is
//! asked for.

use std::collections::HashMap;

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{BIG, BIT, Columns, DESC, INT, NAME, Row, SMALL, Source, TINY, View, int, some, text};
use crate::error::Result;
use crate::name::quote;
use crate::run::catalog::model::{Facts, object_id};
use crate::run::db::{Db, failure};

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.partitions", columns: PARTITIONS, source: Source::Read(partitions) },
    View { name: "sys.~space", columns: SPACE, source: Source::Read(space) },
    View { name: "sys.table_types", columns: TABLE_TYPES, source: Source::Empty },
    View { name: "sys.trigger_events", columns: TRIGGER_EVENTS, source: Source::Empty },
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

/// The tables of a database by the names that SQLite has, with the number of each.
fn tables(db: &mut Db, database: &str) -> Result<Vec<(String, i64)>> {
    let schema = db.schema(database)?;
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let read = || -> rusqlite::Result<Vec<(String, i64)>> {
        let sql = format!(
            "SELECT name FROM {}.sqlite_schema WHERE type = 'table' AND sql NOT LIKE \
            'CREATE VIRTUAL%'",
            quote(&schema)
        );
        let mut statement = connection.prepare(&sql)?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        names.map(|name| name.map(|name| (name.clone(), object_id(&name)))).collect()
    };
    read().map_err(|error| failure(&kernels, &error, database))
}

/// Rows of each table, by its number.
fn counts(db: &mut Db, database: &str) -> Result<HashMap<i64, i64>> {
    let schema = quote(&db.schema(database)?);
    let mut found = HashMap::new();
    for (name, id) in tables(db, database)? {
        if name.starts_with("sqlite_") || name.starts_with("tsql_") {
            continue;
        }
        let sql = format!("SELECT count(*) FROM {schema}.{}", quote(&name));
        let kernels = db.kernels.clone();
        let count = db.connection()?.query_row(&sql, [], |row| row.get(0));
        found.insert(id, count.map_err(|error| failure(&kernels, &error, database))?);
    }
    Ok(found)
}

/// What `sp_spaceused` gives, in bytes; the database as a whole under the number 0.
const SPACE: Columns =
    &[("object_id", INT), ("rows", BIG), ("data", BIG), ("indexes", BIG), ("unused", BIG)];

fn space(db: &mut Db, database: &str, _: &Facts) -> Result<Vec<Row>> {
    let counts = counts(db, database)?;
    let schema = db.schema(database)?;
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let read = || -> rusqlite::Result<Vec<Row>> {
        let sql = format!(
            "SELECT o.tbl_name, sum(CASE WHEN o.type = 'table' THEN s.pgsize ELSE 0 END), \
            sum(CASE WHEN o.type = 'index' THEN s.pgsize ELSE 0 END) FROM dbstat AS s JOIN \
            (SELECT name, tbl_name, type FROM {}.sqlite_schema UNION ALL SELECT 'sqlite_schema', \
            'sqlite_schema', 'table') AS o ON o.name = s.name WHERE s.schema = ?1 AND \
            s.aggregate = 1 GROUP BY o.tbl_name",
            quote(&schema)
        );
        let mut statement = connection.prepare(&sql)?;
        let mut found = statement.query([&schema])?;
        let (mut rows, mut data, mut indexes) = (Vec::new(), 0_i64, 0_i64);
        while let Some(row) = found.next()? {
            let (name, own, beside): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            data += own;
            indexes += beside;
            let id = object_id(&name);
            if let Some(count) = counts.get(&id) {
                rows.push(vec![int(id), int(*count), int(own), int(beside), int(0)]);
            }
        }
        let pragma = |what: &str| {
            let sql = format!("PRAGMA {}.{what}", quote(&schema));
            connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
        };
        let free = pragma("freelist_count")? * pragma("page_size")?;
        rows.push(vec![int(0), Value::Null, int(data), int(indexes), int(free)]);
        Ok(rows)
    };
    read().map_err(|error| failure(&kernels, &error, database))
}

const TABLE_TYPES: Columns = &[
    ("name", NAME),
    ("system_type_id", TINY),
    ("user_type_id", INT),
    ("schema_id", INT),
    ("principal_id", INT),
    ("max_length", SMALL),
    ("precision", TINY),
    ("scale", TINY),
    ("collation_name", NAME),
    ("is_nullable", BIT),
    ("is_user_defined", BIT),
    ("is_assembly_type", BIT),
    ("default_object_id", INT),
    ("rule_object_id", INT),
    ("is_table_type", BIT),
    ("type_table_object_id", INT),
    ("is_memory_optimized", BIT),
];

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
