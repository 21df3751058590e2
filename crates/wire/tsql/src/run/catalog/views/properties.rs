//! Extended properties: of a database, its schemas, its objects, and their columns.

use rusqlite::Connection;
use tdekit_wire_tds::{Length, SqlType, Value};

use super::{Columns, DESC, INT, LONG, NAME, Row, Source, TINY, View, int, text};
use crate::error::Result;
use crate::name::quote;
use crate::run::catalog::model::{Facts, Object, object_id, schema_id};
use crate::run::catalog::named::has_table;
use crate::run::db::{Db, failure};
use crate::value::Val;

/// The rows for `fn_listextendedproperty`, with the levels that it is asked for.
pub(crate) const LISTED: &str = "sys.~fn_listextendedproperty";

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.extended_properties", columns: PROPERTIES, source: Source::Read(properties) },
    View { name: LISTED, columns: LEVELS, source: Source::Read(listed) },
];

const PROPERTIES: Columns = &[
    ("class", TINY),
    ("class_desc", DESC),
    ("major_id", INT),
    ("minor_id", INT),
    ("name", NAME),
    ("value", LONG),
];

const TYPE: SqlType = SqlType::NVarChar(Length::Of(128));

const LEVELS: Columns = &[
    ("objtype", TYPE),
    ("objname", NAME),
    ("name", NAME),
    ("value", LONG),
    ("level0type", TYPE),
    ("level0name", NAME),
    ("level1type", TYPE),
    ("level1name", NAME),
    ("level2type", TYPE),
    ("level2name", NAME),
];

/// A row of `tsql_property`, if what it belongs to exists.
struct Property<'f> {
    of: Of<'f>,
    name: String,
    value: Val,
}

enum Of<'f> {
    Database,
    Schema(String),
    Object(&'f Object),
    /// A column, by its number and name.
    Column(&'f Object, i64, String),
}

fn read<'f>(db: &mut Db, database: &str, facts: &'f Facts) -> Result<Vec<Property<'f>>> {
    let schema = db.schema(database)?;
    let kernels = db.kernels.clone();
    let found =
        rows(db.connection()?, &schema).map_err(|error| failure(&kernels, &error, database))?;
    let known = |(kind, object, column, name, value): Stored| {
        let id = object_id(&object);
        let of = match kind.as_str() {
            "D" => Of::Database,
            "S" => Of::Schema(object),
            "O" => Of::Object(facts.object(id).filter(|object| !object.hidden)?),
            _ => {
                let own = facts.object(id).filter(|object| !object.hidden)?;
                let mut columns = facts.columns.iter().filter(|found| found.object == id);
                let found =
                    columns.find(|found| found.column.name.eq_ignore_ascii_case(&column))?;
                Of::Column(own, found.id, found.column.name.clone())
            }
        };
        Some(Property { of, name, value: value.map_or(Value::Null, text) })
    };
    Ok(found.into_iter().filter_map(known).collect())
}

/// Kind, object, column, name, value.
type Stored = (String, String, String, String, Option<String>);

fn rows(connection: &Connection, schema: &str) -> rusqlite::Result<Vec<Stored>> {
    if !has_table(connection, schema, "tsql_property")? {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT kind, object, part, name, value FROM {}.tsql_property ORDER BY rowid",
        quote(schema)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    rows.collect()
}

fn properties(db: &mut Db, database: &str, facts: &Facts) -> Result<Vec<Row>> {
    let row = |found: Property<'_>| {
        let (class, described, major, minor) = match &found.of {
            Of::Database => (0, "DATABASE", 0, 0),
            Of::Schema(name) => (3, "SCHEMA", schema_id(name), 0),
            Of::Object(object) => (1, "OBJECT_OR_COLUMN", object.id, 0),
            Of::Column(object, column, _) => (1, "OBJECT_OR_COLUMN", object.id, *column),
        };
        vec![int(class), text(described), int(major), int(minor), text(found.name), found.value]
    };
    Ok(read(db, database, facts)?.into_iter().map(row).collect())
}

fn listed(db: &mut Db, database: &str, facts: &Facts) -> Result<Vec<Row>> {
    let row = |found: Property<'_>| {
        let of_object = |object: &Object| {
            let kind = match object.kind {
                "U" => "TABLE",
                "V" => "VIEW",
                _ => "PROCEDURE",
            };
            vec![("SCHEMA", object.schema.clone()), (kind, object.name.clone())]
        };
        let levels = match found.of {
            Of::Database => Vec::new(),
            Of::Schema(name) => vec![("SCHEMA", name)],
            Of::Object(object) => of_object(object),
            Of::Column(object, _, column) => {
                let mut levels = of_object(object);
                levels.push(("COLUMN", column));
                levels
            }
        };
        let cells = |level: Option<&(&str, String)>| match level {
            Some((kind, name)) => [text(*kind), text(name.clone())],
            None => [Value::Null, Value::Null],
        };
        let mut row = Vec::from(cells(levels.last()));
        row.extend([text(found.name), found.value]);
        for at in 0..3 {
            row.extend(cells(levels.get(at)));
        }
        row
    };
    Ok(read(db, database, facts)?.into_iter().map(row).collect())
}
