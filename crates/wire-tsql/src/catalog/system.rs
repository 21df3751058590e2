//! System views: their columns, and where their rows come from. Rows are put into a temporary
//! table just before the statement that reads them.

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::{Caller, Length, SqlType, Value};

use super::{Table, TableColumn, TableKind};
use crate::ast::Name;
use crate::bind::quote;
use crate::error::{Error, Result};
use crate::host::Rows;
use crate::run::calls::object_id;
use crate::run::db::{Db, failure};
use crate::value::{length_of, storage, type_name};

const NAME: SqlType = SqlType::NVarChar(Length::Of(128));

/// Views that the front end fills by itself: name and columns.
pub(crate) const OWN: &[(&str, &[(&str, SqlType)])] = &[
    (
        "sys.databases",
        &[
            ("name", NAME),
            ("database_id", SqlType::Int),
            ("create_date", SqlType::DateTime),
            ("compatibility_level", SqlType::TinyInt),
            ("collation_name", NAME),
            ("user_access_desc", NAME),
            ("is_read_only", SqlType::Bit),
            ("state", SqlType::TinyInt),
            ("state_desc", NAME),
            ("snapshot_isolation_state", SqlType::TinyInt),
            ("is_read_committed_snapshot_on", SqlType::Bit),
            ("recovery_model_desc", NAME),
            ("is_encrypted", SqlType::Bit),
        ],
    ),
    ("sys.schemas", &[("name", NAME), ("schema_id", SqlType::Int), ("principal_id", SqlType::Int)]),
    ("sys.objects", OBJECT_COLUMNS),
    ("sys.tables", OBJECT_COLUMNS),
    ("sys.views", OBJECT_COLUMNS),
    ("sys.procedures", OBJECT_COLUMNS),
    (
        "sys.columns",
        &[
            ("object_id", SqlType::Int),
            ("name", NAME),
            ("column_id", SqlType::Int),
            ("system_type_id", SqlType::TinyInt),
            ("user_type_id", SqlType::Int),
            ("max_length", SqlType::SmallInt),
            ("precision", SqlType::TinyInt),
            ("scale", SqlType::TinyInt),
            ("is_nullable", SqlType::Bit),
            ("is_identity", SqlType::Bit),
            ("is_computed", SqlType::Bit),
        ],
    ),
    (
        "information_schema.tables",
        &[
            ("TABLE_CATALOG", NAME),
            ("TABLE_SCHEMA", NAME),
            ("TABLE_NAME", NAME),
            ("TABLE_TYPE", SqlType::VarChar(Length::Of(10))),
        ],
    ),
    (
        "information_schema.columns",
        &[
            ("TABLE_CATALOG", NAME),
            ("TABLE_SCHEMA", NAME),
            ("TABLE_NAME", NAME),
            ("COLUMN_NAME", NAME),
            ("ORDINAL_POSITION", SqlType::Int),
            ("COLUMN_DEFAULT", SqlType::NVarChar(Length::Of(4000))),
            ("IS_NULLABLE", SqlType::VarChar(Length::Of(3))),
            ("DATA_TYPE", NAME),
            ("CHARACTER_MAXIMUM_LENGTH", SqlType::Int),
            ("NUMERIC_PRECISION", SqlType::TinyInt),
            ("NUMERIC_SCALE", SqlType::Int),
        ],
    ),
    (
        "sys.dm_exec_connections",
        &[
            ("session_id", SqlType::Int),
            ("net_transport", NAME),
            ("protocol_type", NAME),
            ("encrypt_option", NAME),
            ("auth_scheme", NAME),
            ("client_net_address", SqlType::VarChar(Length::Of(48))),
        ],
    ),
    (
        "sys.dm_exec_sessions",
        &[
            ("session_id", SqlType::SmallInt),
            ("login_name", NAME),
            ("host_name", NAME),
            ("program_name", NAME),
            ("transaction_isolation_level", SqlType::SmallInt),
            ("is_user_process", SqlType::Bit),
        ],
    ),
];

const OBJECT_COLUMNS: &[(&str, SqlType)] = &[
    ("name", NAME),
    ("object_id", SqlType::Int),
    ("principal_id", SqlType::Int),
    ("schema_id", SqlType::Int),
    ("parent_object_id", SqlType::Int),
    ("type", SqlType::Char(2)),
    ("type_desc", NAME),
    ("is_ms_shipped", SqlType::Bit),
];

/// The view behind a name: the database and the view, with a bar between; None for other names.
pub(crate) fn find(name: &Name, current: &str) -> Option<String> {
    let schema = name.part(1)?.to_lowercase();
    let object = name.object().to_lowercase();
    let database = name.part(2).unwrap_or(current);
    match schema.as_str() {
        "sys" | "information_schema" => Some(format!("{database}|{schema}.{object}")),
        "dbo" if database.eq_ignore_ascii_case("msdb") && object.starts_with("backup") => {
            Some(format!("msdb|msdb.dbo.{object}"))
        }
        _ => None,
    }
}

fn split(view: &str) -> (&str, &str) {
    view.split_once('|').unwrap_or(("master", view))
}

fn named(columns: &[(String, SqlType)]) -> Vec<TableColumn> {
    columns
        .iter()
        .map(|(name, ty)| TableColumn {
            name: name.clone(),
            ty: *ty,
            nullable: true,
            identity: false,
            default: None,
        })
        .collect()
}

fn own_columns(name: &str) -> Option<Vec<(String, SqlType)>> {
    let (_, columns) = OWN.iter().find(|(known, _)| *known == name)?;
    Some(columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect())
}

/// The host's rows of a view; of connections it knows more than what is known here.
fn of_host(name: &str, db: &Db, spid: u16) -> Result<Option<Rows>> {
    let own = own_columns(name).is_some() && name != "sys.dm_exec_connections";
    if own { Ok(None) } else { db.host.view(name, spid) }
}

/// The view as a table.
pub(crate) fn table(view: &str, db: &mut Db) -> Result<Table> {
    let (database, name) = split(view);
    let columns = match (of_host(name, db, 0)?, own_columns(name)) {
        (Some(rows), _) => rows.columns,
        (None, Some(columns)) => columns,
        (None, None) => return Err(Error::InvalidObject { name: name.to_owned() }),
    };
    Ok(Table {
        schema: "temp".to_owned(),
        database: database.to_owned(),
        name: format!("~{view}"),
        columns: named(&columns),
        kind: TableKind::System(view.to_owned()),
    })
}

fn text(value: impl Into<String>) -> Value<'static> {
    Value::Text(value.into().into())
}

/// Fills the temporary table of a view.
pub(crate) fn fill(view: &str, db: &mut Db, caller: &Caller) -> Result<()> {
    let (database, name) = split(view);
    let rows = match (of_host(name, db, caller.spid)?, own_columns(name)) {
        (Some(rows), _) => rows,
        (None, Some(columns)) => Rows { columns, rows: own_rows(database, name, db, caller)? },
        (None, None) => return Err(Error::InvalidObject { name: name.to_owned() }),
    };
    let table = format!("temp.{}", quote(&format!("~{view}")));
    let columns: Vec<String> = rows
        .columns
        .iter()
        .map(|(name, ty)| format!("{} {}", quote(name), quote(&storage::declared(*ty))))
        .collect();
    let mut stored: Vec<Vec<Stored>> = Vec::new();
    for row in &rows.rows {
        let values = row.iter().zip(&rows.columns);
        stored.push(
            values.map(|(value, (_, ty))| storage::store(value, *ty)).collect::<Result<_>>()?,
        );
    }
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let places: Vec<String> = (1..=columns.len()).map(|at| format!("?{at}")).collect();
    let run = || -> rusqlite::Result<()> {
        let create = format!("CREATE TABLE IF NOT EXISTS {table} ({})", columns.join(", "));
        connection.execute_batch(&create)?;
        connection.prepare_cached(&format!("DELETE FROM {table}"))?.execute([])?;
        let insert = format!("INSERT INTO {table} VALUES ({})", places.join(", "));
        let mut insert = connection.prepare_cached(&insert)?;
        for row in stored {
            insert.execute(rusqlite::params_from_iter(row))?;
        }
        Ok(())
    };
    run().map_err(|error| failure(&kernels, &error, "tempdb"))
}

/// A table, view or procedure: name in SQLite, its letter.
fn objects(database: &str, db: &mut Db) -> Result<Vec<(String, char)>> {
    let schema = db.schema(database)?;
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let run = || -> rusqlite::Result<Vec<(String, char)>> {
        let mut found = Vec::new();
        let sql = format!(
            "SELECT name FROM {}.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' \
            ESCAPE '~' ORDER BY name",
            quote(&schema)
        );
        let mut modules = false;
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            modules |= name == "tsql_module";
            if !name.starts_with("tsql_") {
                found.push((name, 'U'));
            }
        }
        if modules {
            let sql =
                format!("SELECT name, kind FROM {}.tsql_module ORDER BY name", quote(&schema));
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let kind: String = row.get(1)?;
                found.push((row.get(0)?, kind.chars().next().unwrap_or('V')));
            }
        }
        Ok(found)
    };
    run().map_err(|error| failure(&kernels, &error, database))
}

fn schema_and_name(name: &str) -> (String, String) {
    match name.split_once('.') {
        Some((schema, name)) => (schema.to_owned(), name.to_owned()),
        None => ("dbo".to_owned(), name.to_owned()),
    }
}

fn object_row(stored: &str, letter: char) -> Vec<Value<'static>> {
    let (schema, name) = schema_and_name(stored);
    let description = match letter {
        'U' => "USER_TABLE",
        'V' => "VIEW",
        _ => "SQL_STORED_PROCEDURE",
    };
    let schema_id = if schema == "dbo" { 1 } else { object_id(&schema) };
    vec![
        text(name),
        Value::Int(object_id(stored)),
        Value::Null,
        Value::Int(schema_id),
        Value::Int(0),
        text(format!("{letter} ")),
        text(description),
        Value::Bit(false),
    ]
}

/// `system_type_id`, length in bytes, precision and scale.
fn type_facts(ty: SqlType) -> (i64, i64, i64, i64) {
    use SqlType as T;
    let bytes = |double: i64| match length_of(ty) {
        Some(Length::Of(n)) => i64::from(n) * double,
        _ => -1,
    };
    match ty {
        T::Bit => (104, 1, 1, 0),
        T::TinyInt => (48, 1, 3, 0),
        T::SmallInt => (52, 2, 5, 0),
        T::Int => (56, 4, 10, 0),
        T::BigInt => (127, 8, 19, 0),
        T::Real => (59, 4, 24, 0),
        T::Float => (62, 8, 53, 0),
        T::Decimal { precision, scale } => {
            let size = match precision {
                0..=9 => 5,
                10..=19 => 9,
                20..=28 => 13,
                _ => 17,
            };
            (106, size, i64::from(precision), i64::from(scale))
        }
        T::Money => (60, 8, 19, 4),
        T::SmallMoney => (122, 4, 10, 4),
        T::Char(_) => (175, bytes(1), 0, 0),
        T::VarChar(_) => (167, bytes(1), 0, 0),
        T::NChar(_) => (239, bytes(2), 0, 0),
        T::NVarChar(_) => (231, bytes(2), 0, 0),
        T::Binary(_) => (173, bytes(1), 0, 0),
        T::VarBinary(_) => (165, bytes(1), 0, 0),
        T::Text => (35, 16, 0, 0),
        T::NText => (99, 16, 0, 0),
        T::Image => (34, 16, 0, 0),
        T::Xml => (241, -1, 0, 0),
        T::Date => (40, 3, 10, 0),
        T::Time(scale) => (41, 5, 16, i64::from(scale)),
        T::DateTime => (61, 8, 23, 3),
        T::SmallDateTime => (58, 4, 16, 0),
        T::DateTime2(scale) => (42, 8, 27, i64::from(scale)),
        T::DateTimeOffset(scale) => (43, 10, 34, i64::from(scale)),
        T::UniqueIdentifier => (36, 16, 0, 0),
        T::SqlVariant => (98, 8016, 0, 0),
    }
}

fn public_type(ty: SqlType) -> &'static str {
    match ty {
        SqlType::Decimal { .. } => "decimal",
        _ => type_name(ty),
    }
}

fn column_rows(
    database: &str,
    db: &mut Db,
    row: impl Fn(&str, usize, &TableColumn) -> Vec<Value<'static>>,
) -> Result<Vec<Vec<Value<'static>>>> {
    let mut rows = Vec::new();
    for (stored, letter) in objects(database, db)? {
        if letter != 'U' {
            continue;
        }
        let (schema, name) = schema_and_name(&stored);
        let full = Name(vec![database.to_owned(), schema, name]);
        let Some(table) = db.find(&full, database)? else { continue };
        for (at, column) in table.columns.iter().enumerate() {
            rows.push(row(&stored, at + 1, column));
        }
    }
    Ok(rows)
}

fn ordinal(at: usize) -> Value<'static> {
    Value::Int(i64::try_from(at).unwrap_or(0))
}

#[allow(clippy::too_many_lines)]
fn own_rows(
    database: &str,
    name: &str,
    db: &mut Db,
    caller: &Caller,
) -> Result<Vec<Vec<Value<'static>>>> {
    let all = |letter: Option<char>, db: &mut Db| -> Result<Vec<Vec<Value<'static>>>> {
        let found = objects(database, db)?;
        let wanted = found.iter().filter(|(_, own)| letter.is_none_or(|letter| letter == *own));
        Ok(wanted.map(|(stored, own)| object_row(stored, *own)).collect())
    };
    match name {
        "sys.databases" => databases(db),
        "sys.schemas" => {
            let fixed =
                [("dbo", 1, 1), ("guest", 2, 2), ("INFORMATION_SCHEMA", 3, 3), ("sys", 4, 4)];
            Ok(fixed
                .iter()
                .map(|(name, id, owner)| vec![text(*name), Value::Int(*id), Value::Int(*owner)])
                .collect())
        }
        "sys.objects" => all(None, db),
        "sys.tables" => all(Some('U'), db),
        "sys.views" => all(Some('V'), db),
        "sys.procedures" => all(Some('P'), db),
        "sys.columns" => column_rows(database, db, |stored, at, column| {
            let (id, length, precision, scale) = type_facts(column.ty);
            vec![
                Value::Int(object_id(stored)),
                text(column.name.clone()),
                ordinal(at),
                Value::Int(id),
                Value::Int(id),
                Value::Int(length),
                Value::Int(precision),
                Value::Int(scale),
                Value::Bit(column.nullable),
                Value::Bit(column.identity),
                Value::Bit(false),
            ]
        }),
        "information_schema.tables" => Ok(objects(database, db)?
            .into_iter()
            .filter(|(_, letter)| *letter != 'P')
            .map(|(stored, letter)| {
                let (schema, name) = schema_and_name(&stored);
                let kind = if letter == 'U' { "BASE TABLE" } else { "VIEW" };
                vec![text(database), text(schema), text(name), text(kind)]
            })
            .collect()),
        "information_schema.columns" => column_rows(database, db, |stored, at, column| {
            let (schema, name) = schema_and_name(stored);
            let (_, _, precision, scale) = type_facts(column.ty);
            let length = match length_of(column.ty) {
                Some(Length::Of(n)) => Value::Int(i64::from(n)),
                Some(Length::Max) => Value::Int(-1),
                None => Value::Null,
            };
            let numeric = crate::value::is_numeric(column.ty);
            let number = |value: i64| if numeric { Value::Int(value) } else { Value::Null };
            vec![
                text(database),
                text(schema),
                text(name),
                text(column.name.clone()),
                ordinal(at),
                column.default.clone().map_or(Value::Null, |found| text(format!("({found})"))),
                text(if column.nullable { "YES" } else { "NO" }),
                text(public_type(column.ty)),
                length,
                number(precision),
                number(scale),
            ]
        }),
        "sys.dm_exec_connections" => Ok(vec![vec![
            Value::Int(i64::from(caller.spid)),
            text("TCP"),
            text("TSQL"),
            text(if caller.encrypted { "TRUE" } else { "FALSE" }),
            text("SQL"),
            text(caller.address.clone()),
        ]]),
        "sys.dm_exec_sessions" => Ok(vec![vec![
            Value::Int(i64::from(caller.spid)),
            text(caller.login.clone()),
            text(caller.host.clone()),
            text(caller.application.clone()),
            Value::Int(2),
            Value::Bit(true),
        ]]),
        _ => Err(Error::InvalidObject { name: name.to_owned() }),
    }
}

fn databases(db: &mut Db) -> Result<Vec<Vec<Value<'static>>>> {
    let rows = db.host.databases()?.into_iter().map(|database| {
        vec![
            text(database.name),
            Value::Int(i64::from(database.id)),
            Value::DateTime { days: 36_524, ticks: 0 },
            Value::Int(150),
            text(tdekit_wire_tds::product::COLLATION),
            text("MULTI_USER"),
            Value::Bit(false),
            Value::Int(0),
            text("ONLINE"),
            Value::Int(1),
            Value::Bit(true),
            text("SIMPLE"),
            Value::Bit(database.encrypted),
        ]
    });
    Ok(rows.collect())
}
