//! Objects, columns, parameters, types.

use tdekit_wire_tds::{SqlType, Value};

use super::types::TABLE_TYPE;
use super::{
    BIG, BIT, Columns, DESC, INT, LONG, NAME, Row, SMALL, Source, TIME, TINY, View, bit, epoch,
    int, some, text,
};
use crate::ast::{Action, Kind};
use crate::plan::table::{Filled, TableColumn};
use crate::run::catalog::model::schema_id;
use crate::run::catalog::model::{Facts, Object};
use crate::run::catalog::types::{ODBC, TIMESTAMP, described, entry, public_name, type_facts};
use crate::value::is_text;

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.objects", columns: OBJECTS, source: Source::Facts(objects) },
    View { name: "sys.columns", columns: COLUMNS, source: Source::Facts(columns) },
    View { name: "sys.sql_modules", columns: MODULES, source: Source::Facts(modules) },
    View { name: "sys.parameters", columns: PARAMETERS, source: Source::Facts(parameters) },
    View { name: "sys.identity_columns", columns: IDENTITY, source: Source::Facts(identity) },
    View { name: "sys.computed_columns", columns: COMPUTED, source: Source::Facts(computed) },
    View { name: "sys.spt_columns", columns: DESCRIBED, source: Source::Facts(spt_columns) },
    View { name: "sys.spt_parameters", columns: DESCRIBED, source: Source::Facts(spt_parameters) },
    View { name: "sys.spt_datatype_info", columns: DATATYPES, source: Source::Server(|_| infos()) },
];

const OBJECTS: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("principal_id", INT),
    ("schema_id", INT),
    ("parent_object_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_ms_shipped", BIT),
    ("is_published", BIT),
    ("is_schema_published", BIT),
];

fn kind_name(kind: &str) -> &'static str {
    match kind {
        "U" => "USER_TABLE",
        "V" => "VIEW",
        "P" => "SQL_STORED_PROCEDURE",
        "SO" => "SEQUENCE_OBJECT",
        "IF" => "SQL_INLINE_TABLE_VALUED_FUNCTION",
        "TF" => "SQL_TABLE_VALUED_FUNCTION",
        "FN" => "SQL_SCALAR_FUNCTION",
        "TT" => "TYPE_TABLE",
        "TR" => "SQL_TRIGGER",
        "PK" => "PRIMARY_KEY_CONSTRAINT",
        "UQ" => "UNIQUE_CONSTRAINT",
        "F" => "FOREIGN_KEY_CONSTRAINT",
        "C" => "CHECK_CONSTRAINT",
        _ => "DEFAULT_CONSTRAINT",
    }
}

pub(super) fn object_row(object: &Object) -> Row {
    vec![
        text(object.name.clone()),
        int(object.id),
        Value::Null,
        int(schema_id(&object.schema)),
        int(object.parent),
        text(format!("{:<2}", object.kind)),
        text(kind_name(object.kind)),
        epoch(),
        epoch(),
        bit(object.kind == "TT"),
        bit(false),
        bit(false),
    ]
}

fn objects(facts: &Facts) -> Vec<Row> {
    facts.objects.iter().filter(|object| !object.hidden).map(object_row).collect()
}

pub(super) const COLUMNS: Columns = &[
    ("object_id", INT),
    ("name", NAME),
    ("column_id", INT),
    ("system_type_id", TINY),
    ("user_type_id", INT),
    ("max_length", SMALL),
    ("precision", TINY),
    ("scale", TINY),
    ("collation_name", NAME),
    ("is_nullable", BIT),
    ("is_ansi_padded", BIT),
    ("is_rowguidcol", BIT),
    ("is_identity", BIT),
    ("is_computed", BIT),
    ("is_filestream", BIT),
    ("is_xml_document", BIT),
    ("xml_collection_id", INT),
    ("default_object_id", INT),
    ("rule_object_id", INT),
    ("is_sparse", BIT),
    ("is_column_set", BIT),
    ("generated_always_type", TINY),
    ("generated_always_type_desc", DESC),
    ("encryption_type", INT),
    ("encryption_type_desc", DESC),
    ("encryption_algorithm_name", NAME),
    ("column_encryption_key_id", INT),
    ("is_hidden", BIT),
    ("is_masked", BIT),
];

fn collation(column: &TableColumn) -> crate::value::Val {
    let is_collated = is_text(column.ty) && column.ty != SqlType::Xml;
    if is_collated { text(column.collation.name()) } else { Value::Null }
}

pub(super) fn columns(facts: &Facts) -> Vec<Row> {
    let shown = |object: i64| facts.object(object).is_some_and(|object| !object.hidden);
    let own = facts.columns.iter().filter(|found| shown(found.object));
    own.map(|found| {
        let column = &found.column;
        let (id, length, precision, scale) = type_facts(column.ty);
        let id = if column.filled == Filled::Version { TIMESTAMP } else { id };
        let alias = facts.aliases.iter().find(|(object, name, _)| {
            *object == found.object && name.eq_ignore_ascii_case(&column.name)
        });
        vec![
            int(found.object),
            text(column.name.clone()),
            int(found.id),
            int(id),
            int(alias.map_or(id, |(.., alias)| *alias)),
            int(length),
            int(precision),
            int(scale),
            collation(column),
            bit(column.nullable),
            bit(true),
            bit(false),
            bit(column.identity),
            bit(column.is_computed()),
            bit(false),
            bit(false),
            int(0),
            int(found.default_id),
            int(0),
            bit(false),
            bit(false),
            int(0),
            text("NOT_APPLICABLE"),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            bit(false),
            bit(false),
        ]
    })
    .collect()
}

const MODULES: Columns = &[
    ("object_id", INT),
    ("definition", LONG),
    ("uses_ansi_nulls", BIT),
    ("uses_quoted_identifier", BIT),
    ("is_schema_bound", BIT),
    ("is_recompiled", BIT),
];

/// Returns true for a function WITH SCHEMABINDING.
fn is_bound(text: &str) -> bool {
    let stmts = crate::parse::parse(text, true).unwrap_or_default();
    let made = stmts.into_iter().next().map(|stmt| stmt.kind);
    matches!(made, Some(Kind::Act(Action::CreateFunction(made))) if made.bound)
}

fn modules(facts: &Facts) -> Vec<Row> {
    let with_text = facts.objects.iter().filter_map(|object| {
        let definition = object.text.clone()?;
        let bound = matches!(object.kind, "IF" | "TF" | "FN") && is_bound(&definition);
        Some(vec![int(object.id), text(definition), bit(true), bit(true), bit(bound), bit(false)])
    });
    with_text.collect()
}

const PARAMETERS: Columns = &[
    ("object_id", INT),
    ("name", NAME),
    ("parameter_id", INT),
    ("system_type_id", TINY),
    ("user_type_id", INT),
    ("max_length", SMALL),
    ("precision", TINY),
    ("scale", TINY),
    ("is_output", BIT),
    ("has_default_value", BIT),
    ("is_readonly", BIT),
    ("is_nullable", BIT),
];

fn parameters(facts: &Facts) -> Vec<Row> {
    let row = |own: &crate::run::catalog::model::ProcedureParameter| {
        let (id, length, precision, scale) = match own.user_type {
            Some((_, true)) => (TABLE_TYPE, -1, 0, 0),
            _ => type_facts(own.ty),
        };
        vec![
            int(own.object),
            text(own.name.clone()),
            int(own.id),
            int(id),
            int(own.user_type.map_or(id, |(named, _)| named)),
            int(length),
            int(precision),
            int(scale),
            bit(own.output),
            // SQL Server reports it for CLR procedures only
            bit(false),
            bit(own.user_type.is_some_and(|(_, table)| table)),
            bit(true),
        ]
    };
    facts.parameters.iter().map(row).collect()
}

const IDENTITY: Columns = &[
    ("object_id", INT),
    ("name", NAME),
    ("column_id", INT),
    ("system_type_id", TINY),
    ("user_type_id", INT),
    ("is_nullable", BIT),
    ("is_identity", BIT),
    ("seed_value", BIG),
    ("increment_value", BIG),
    ("last_value", BIG),
    ("is_not_for_replication", BIT),
];

fn identity(facts: &Facts) -> Vec<Row> {
    let own = facts.columns.iter().filter_map(|found| {
        let (seed, increment, last) = found.identity?;
        let id = type_facts(found.column.ty).0;
        Some(vec![
            int(found.object),
            text(found.column.name.clone()),
            int(found.id),
            int(id),
            int(id),
            bit(false),
            bit(true),
            int(seed),
            int(increment),
            some(last),
            bit(false),
        ])
    });
    own.collect()
}

const COMPUTED: Columns = &[
    ("object_id", INT),
    ("name", NAME),
    ("column_id", INT),
    ("definition", LONG),
    ("is_persisted", BIT),
    ("is_computed", BIT),
    ("is_nullable", BIT),
    ("uses_database_collation", BIT),
];

/// The definition of a computed column; NULL for one that the caller may not read.
fn readable_computed(definition: &str) -> crate::value::Val {
    match definition {
        "" => Value::Null,
        readable => text(format!("({readable})")),
    }
}

fn computed(facts: &Facts) -> Vec<Row> {
    let shown = |object: i64| facts.object(object).is_some_and(|object| !object.hidden);
    let own = facts.columns.iter().filter(|found| shown(found.object)).filter_map(|found| {
        let Filled::Computed { text: definition, persisted } = &found.column.filled else {
            return None;
        };
        Some(vec![
            int(found.object),
            text(found.column.name.clone()),
            int(found.id),
            readable_computed(definition),
            bit(*persisted),
            bit(true),
            bit(true),
            bit(true),
        ])
    });
    own.collect()
}

/// The description of columns and parameters for ODBC's catalog procedures: our own view.
const DESCRIBED: Columns = &[
    ("object_id", INT),
    ("name", NAME),
    ("ordinal", INT),
    ("data_type", SMALL),
    ("data_type2", SMALL),
    ("type_name", NAME),
    ("precision", INT),
    ("length", INT),
    ("scale", SMALL),
    ("radix", SMALL),
    ("nullable", SMALL),
    ("definition", SqlType::NVarChar(tdekit_wire_tds::Length::Of(4000))),
    ("sql_data_type", SMALL),
    ("sql_datetime_sub", SMALL),
    ("char_octet_length", INT),
    ("is_nullable", SqlType::VarChar(tdekit_wire_tds::Length::Of(254))),
    ("is_identity", SMALL),
    ("ss_data_type", TINY),
    ("is_output", SMALL),
];

struct Shown<'a> {
    object: i64,
    name: &'a str,
    ordinal: i64,
    ty: SqlType,
    nullable: bool,
    definition: Option<String>,
    identity: bool,
    version: bool,
    output: bool,
}

fn shown_row(own: &Shown<'_>) -> Row {
    let (listed, told) = (entry(own.ty), described(own.ty));
    let suffix = if own.identity { " identity" } else { "" };
    let name = if own.version { "timestamp" } else { public_name(own.ty) };
    vec![
        int(own.object),
        text(own.name),
        int(own.ordinal),
        int(listed.odbc),
        int(listed.odbc2),
        text(format!("{name}{suffix}")),
        int(told.precision),
        int(told.length),
        some(told.scale),
        some(told.radix),
        int(i64::from(own.nullable)),
        own.definition.clone().map_or(Value::Null, text),
        int(told.verbose.0),
        some(told.verbose.1),
        some(told.octets),
        text(if own.nullable { "YES" } else { "NO" }),
        int(i64::from(own.identity)),
        int(if own.nullable { listed.token.1 } else { listed.token.0 }),
        int(i64::from(own.output)),
    ]
}

fn spt_columns(facts: &Facts) -> Vec<Row> {
    let row = |found: &crate::run::catalog::model::ObjectColumn| {
        let column = &found.column;
        shown_row(&Shown {
            object: found.object,
            name: &column.name,
            ordinal: found.id,
            ty: column.ty,
            nullable: column.nullable,
            definition: column.default.as_deref().map(crate::run::catalog::defaults::shown),
            identity: column.identity,
            version: column.filled == Filled::Version,
            output: false,
        })
    };
    let of_type = |object: i64| facts.object(object).is_some_and(|object| object.kind == "TT");
    facts.columns.iter().filter(|found| !of_type(found.object)).map(row).collect()
}

fn spt_parameters(facts: &Facts) -> Vec<Row> {
    let row = |own: &crate::run::catalog::model::ProcedureParameter| {
        shown_row(&Shown {
            object: own.object,
            name: &own.name,
            ordinal: own.id,
            ty: own.ty,
            nullable: true,
            definition: None,
            identity: false,
            version: false,
            output: own.output,
        })
    };
    facts.parameters.iter().map(row).collect()
}

const DATATYPES: Columns = &[
    ("type_name", NAME),
    ("data_type", SMALL),
    ("data_type2", SMALL),
    ("precision", INT),
    ("literal_prefix", SqlType::VarChar(tdekit_wire_tds::Length::Of(32))),
    ("literal_suffix", SqlType::VarChar(tdekit_wire_tds::Length::Of(32))),
    ("create_params", SqlType::VarChar(tdekit_wire_tds::Length::Of(32))),
    ("searchable", SMALL),
    ("unsigned_attribute", SMALL),
    ("money", SMALL),
    ("minimum_scale", SMALL),
    ("maximum_scale", SMALL),
    ("sql_data_type", SMALL),
    ("sql_datetime_sub", SMALL),
    ("num_prec_radix", INT),
    ("usertype", SMALL),
];

fn infos() -> Vec<Row> {
    let mark = |mark: Option<&'static str>| mark.map_or(Value::Null, text);
    let row = |own: &crate::run::catalog::types::Odbc| {
        let name = if own.name == "sysname" { "nvarchar(128)" } else { own.name };
        let ty = crate::parse::parse_type(name).unwrap_or(SqlType::Int);
        let told = described(ty);
        let number = crate::value::is_numeric(ty) && ty != SqlType::Bit;
        let scales = match ty {
            SqlType::Decimal { .. } => (Some(0), Some(38)),
            SqlType::Time(_) | SqlType::DateTime2(_) | SqlType::DateTimeOffset(_) => {
                (Some(0), Some(7))
            }
            _ => (told.scale, told.scale),
        };
        let precision = match own.name {
            "char" | "varchar" | "binary" | "varbinary" => 8000,
            "nchar" | "nvarchar" => 4000,
            "sysname" => 128,
            "decimal" | "numeric" => 38,
            _ => told.precision,
        };
        let searchable = match own.name {
            "text" | "ntext" => 1,
            "image" | "xml" => 0,
            _ if is_text(ty) || told.verbose.1.is_some() => 3,
            _ => 2,
        };
        vec![
            text(own.name),
            int(own.odbc),
            int(own.odbc2),
            int(precision),
            mark(own.prefix),
            mark(own.suffix),
            mark(own.parameters),
            int(searchable),
            some(number.then_some(i64::from(own.name == "tinyint"))),
            int(i64::from(own.name.ends_with("money"))),
            some(scales.0),
            some(scales.1),
            int(told.verbose.0),
            some(told.verbose.1),
            some(told.radix),
            int(0),
        ]
    };
    ODBC.iter().map(row).collect()
}
