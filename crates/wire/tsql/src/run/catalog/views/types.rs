//! Types: those of T-SQL, and those that users define.

use tdekit_wire_tds::{Value, product};

use super::{BIT, Columns, INT, NAME, Row, SMALL, Source, TINY, View, bit, int, text};
use crate::name::schema_and_name;
use crate::run::catalog::model::{Facts, NamedType, schema_id};
use crate::run::catalog::types::{ODBC, type_facts};

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.types", columns: TYPES, source: Source::Facts(types) },
    View { name: "sys.table_types", columns: TABLE_TYPES, source: Source::Facts(table_types) },
];

/// The number of all table types.
pub(crate) const TABLE_TYPE: i64 = 243;

const TYPES: Columns = &[
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
];

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

fn collation(system_type_id: i64) -> crate::value::Val {
    let is_text = matches!(system_type_id, 35 | 99 | 167 | 175 | 231 | 239);
    if is_text { text(product::COLLATION) } else { Value::Null }
}

fn types(facts: &Facts) -> Vec<Row> {
    let row = |own: &crate::run::catalog::types::Odbc| {
        vec![
            text(own.name),
            int(own.system_type_id),
            int(own.user_type_id),
            int(4),
            Value::Null,
            int(own.max_length),
            int(own.precision),
            int(own.scale),
            collation(own.system_type_id),
            bit(!matches!(own.name, "sysname" | "timestamp")),
            bit(false),
            bit(false),
            int(0),
            int(0),
            bit(false),
        ]
    };
    ODBC.iter().map(row).chain(facts.types.iter().map(named)).collect()
}

fn named(own: &NamedType) -> Row {
    let (schema, name) = schema_and_name(&own.stored);
    let (id, length, precision, scale) = own.ty.map_or((TABLE_TYPE, -1, 0, 0), type_facts);
    vec![
        text(name),
        int(id),
        int(own.id),
        int(schema_id(&schema)),
        Value::Null,
        int(length),
        int(precision),
        int(scale),
        collation(id),
        bit(own.nullable),
        bit(true),
        bit(false),
        int(0),
        int(0),
        bit(own.ty.is_none()),
    ]
}

fn table_types(facts: &Facts) -> Vec<Row> {
    let tables = facts.types.iter().filter(|own| own.ty.is_none());
    let row = |own: &NamedType| {
        let mut row = named(own);
        row.extend([int(own.table), bit(false)]);
        row
    };
    tables.map(row).collect()
}
