//! Databases, schemas, principals, settings, and running requests.

use tdekit_wire_tds::{Length, SqlType, Value, product};

use super::objects;
use super::tasks::{ADDRESS, task_address};
use super::{
    BIG, BIT, Columns, DESC, INT, NAME, Row, SMALL, Server, Source, TIME, TINY, View, bit, epoch,
    int, text,
};
use crate::ast::Name;
use crate::error::Result;
use crate::run::activity::Activity;
use crate::run::catalog::model::{FIXED, Facts, Object, object_id, schema_id};
use crate::run::catalog::texts;
use crate::run::db::Db;
use crate::run::locks::Seen;
use crate::value::datetime;

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.databases", columns: DATABASES, source: Source::Server(databases) },
    View { name: "sys.schemas", columns: SCHEMAS, source: Source::Facts(schemas) },
    View { name: "sys.configurations", columns: SETTINGS, source: Source::Server(|_| settings()) },
    View {
        name: "sys.dm_exec_connections",
        columns: CONNECTIONS,
        source: Source::Server(connections),
    },
    View { name: "sys.dm_exec_sessions", columns: SESSIONS, source: Source::Server(sessions) },
    View { name: "sys.dm_exec_requests", columns: REQUESTS, source: Source::Server(requests) },
    View {
        name: "sys.dm_os_waiting_tasks",
        columns: WAITING_TASKS,
        source: Source::Server(waiting_tasks),
    },
    View {
        name: "sys.system_objects",
        columns: NAMES,
        source: Source::Server(|_| system_objects()),
    },
    View { name: "sys.system_columns", columns: objects::COLUMNS, source: Source::Read(columns) },
    View { name: "sys.system_views", columns: NAMES, source: Source::Server(|_| system_views()) },
];

const DATABASES: Columns = &[
    ("name", NAME),
    ("database_id", INT),
    ("source_database_id", INT),
    ("owner_sid", SqlType::VarBinary(Length::Of(85))),
    ("create_date", TIME),
    ("compatibility_level", TINY),
    ("collation_name", NAME),
    ("user_access", TINY),
    ("user_access_desc", DESC),
    ("is_read_only", BIT),
    ("is_auto_close_on", BIT),
    ("is_auto_shrink_on", BIT),
    ("state", TINY),
    ("state_desc", DESC),
    ("is_in_standby", BIT),
    ("snapshot_isolation_state", TINY),
    ("snapshot_isolation_state_desc", DESC),
    ("is_read_committed_snapshot_on", BIT),
    ("recovery_model", TINY),
    ("recovery_model_desc", DESC),
    ("is_ansi_nulls_on", BIT),
    ("is_quoted_identifier_on", BIT),
    ("is_master_key_encrypted_by_server", BIT),
    ("is_encrypted", BIT),
    ("containment", TINY),
    ("containment_desc", DESC),
];

fn databases(server: &Server) -> Vec<Row> {
    let row = |database: &crate::host::Database| {
        vec![
            text(database.name.clone()),
            int(database.id),
            Value::Null,
            Value::Binary(vec![1].into()),
            epoch(),
            int(150),
            text(product::COLLATION),
            int(0),
            text("MULTI_USER"),
            bit(false),
            bit(false),
            bit(false),
            int(database.state.number()),
            text(database.state.name()),
            bit(false),
            int(1),
            text("ON"),
            bit(true),
            int(database.recovery.number()),
            text(database.recovery.name()),
            bit(true),
            bit(true),
            bit(database.id == 1),
            bit(database.encrypted),
            int(0),
            text("NONE"),
        ]
    };
    server.databases.iter().map(row).collect()
}

const SCHEMAS: Columns = &[("name", NAME), ("schema_id", INT), ("principal_id", INT)];

fn schemas(facts: &Facts) -> Vec<Row> {
    // each fixed schema belongs to the principal of the same name and id
    let fixed = FIXED.iter().map(|(name, id)| vec![text(*name), int(*id), int(*id)]);
    let made = facts.schemas.iter().map(|name| vec![text(name), int(schema_id(name)), int(1)]);
    fixed.chain(made).collect()
}

const SETTINGS: Columns = &[
    ("configuration_id", INT),
    ("name", SqlType::NVarChar(Length::Of(35))),
    ("value", INT),
    ("minimum", INT),
    ("maximum", INT),
    ("value_in_use", INT),
    ("description", SqlType::NVarChar(Length::Of(255))),
    ("is_dynamic", BIT),
    ("is_advanced", BIT),
];

fn settings() -> Vec<Row> {
    let known = [
        (115, "nested triggers", 1, 0, 1, false),
        (124, "default language", 0, 0, 9999, false),
        (1126, "default full-text language", 1033, 0, i64::from(i32::MAX), true),
        (1536, "max text repl size (B)", 65536, -1, i64::from(i32::MAX), false),
        (1538, "cursor threshold", -1, -1, i64::from(i32::MAX), true),
        (103, "user connections", 0, 0, 32767, true),
        (16384, "xp_cmdshell", 0, 0, 1, true),
        (1562, "clr enabled", 0, 0, 1, false),
        (16397, "show advanced options", 0, 0, 1, false),
    ];
    let row = |(id, name, value, least, most, advanced): &(i64, &str, i64, i64, i64, bool)| {
        vec![
            int(*id),
            text(*name),
            int(*value),
            int(*least),
            int(*most),
            int(*value),
            text(*name),
            bit(true),
            bit(*advanced),
        ]
    };
    known.iter().map(row).collect()
}

pub(super) fn moment(at: datetime::Moment) -> crate::value::Val {
    datetime::to_type(at, SqlType::DateTime, "datetime").unwrap_or(Value::Null)
}

const CONNECTIONS: Columns = &[
    ("session_id", INT),
    ("most_recent_session_id", INT),
    ("connect_time", TIME),
    ("net_transport", SqlType::NVarChar(Length::Of(40))),
    ("protocol_type", SqlType::NVarChar(Length::Of(40))),
    ("protocol_version", INT),
    ("encrypt_option", SqlType::NVarChar(Length::Of(40))),
    ("auth_scheme", SqlType::NVarChar(Length::Of(40))),
    ("client_net_address", SqlType::VarChar(Length::Of(48))),
];

fn connections(server: &Server) -> Vec<Row> {
    let row = |own: &Activity| {
        let caller = &own.caller;
        vec![
            int(caller.spid),
            int(caller.spid),
            moment(own.since),
            text("TCP"),
            text("TSQL"),
            int(0x7400_0004),
            text(if caller.encrypted { "TRUE" } else { "FALSE" }),
            text("SQL"),
            text(caller.address.clone()),
        ]
    };
    server.sessions.iter().map(row).collect()
}

const SESSIONS: Columns = &[
    ("session_id", SMALL),
    ("login_time", TIME),
    ("host_name", NAME),
    ("program_name", NAME),
    ("login_name", NAME),
    ("original_login_name", NAME),
    ("status", SqlType::NVarChar(Length::Of(30))),
    ("cpu_time", INT),
    ("total_elapsed_time", INT),
    ("last_request_start_time", TIME),
    ("last_request_end_time", TIME),
    ("reads", BIG),
    ("writes", BIG),
    ("logical_reads", BIG),
    ("is_user_process", BIT),
    ("transaction_isolation_level", SMALL),
    ("row_count", BIG),
    ("open_transaction_count", INT),
    ("database_id", SMALL),
];

fn milliseconds(ns: u64) -> crate::value::Val {
    int(i32::try_from(ns / 1_000_000).unwrap_or(i32::MAX))
}

fn big(count: u64) -> crate::value::Val {
    int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn database_id(server: &Server, name: &str) -> crate::value::Val {
    let found = server.databases.iter().find(|known| known.name.eq_ignore_ascii_case(name));
    found.map_or(Value::Null, |database| int(database.id))
}

fn isolation(level: &str) -> i64 {
    match level {
        "READ UNCOMMITTED" => 1,
        "REPEATABLE READ" => 3,
        "SERIALIZABLE" => 4,
        "SNAPSHOT" => 5,
        _ => 2,
    }
}

fn sessions(server: &Server) -> Vec<Row> {
    let row = |own: &Activity| {
        let used = own.total();
        vec![
            int(own.caller.spid),
            moment(own.since),
            text(own.caller.host.clone()),
            text(own.caller.application.clone()),
            text(own.caller.login.clone()),
            text(own.caller.login.clone()),
            text(if own.request.is_some() { "running" } else { "sleeping" }),
            milliseconds(used.cpu_ns),
            milliseconds(used.elapsed_ns),
            moment(own.started),
            own.ended().map_or(Value::Null, moment),
            big(used.pages.read),
            big(used.pages.written),
            big(used.pages.asked),
            bit(true),
            int(isolation(&own.isolation)),
            big(used.rows),
            int(own.trancount),
            database_id(server, &own.database),
        ]
    };
    server.sessions.iter().map(row).collect()
}

const REQUESTS: Columns = &[
    ("session_id", SMALL),
    ("request_id", INT),
    ("start_time", TIME),
    ("status", SqlType::NVarChar(Length::Of(30))),
    ("command", SqlType::NVarChar(Length::Of(32))),
    ("database_id", SMALL),
    ("user_id", INT),
    ("blocking_session_id", SMALL),
    ("wait_type", DESC),
    ("wait_time", INT),
    ("last_wait_type", DESC),
    ("open_transaction_count", INT),
    ("percent_complete", SqlType::Real),
    ("cpu_time", INT),
    ("total_elapsed_time", INT),
    ("scheduler_id", INT),
    ("reads", BIG),
    ("writes", BIG),
    ("logical_reads", BIG),
    ("transaction_isolation_level", SMALL),
    ("row_count", BIG),
    ("task_address", ADDRESS),
];

fn requests(server: &Server) -> Vec<Row> {
    let running = server.sessions.iter().filter(|own| own.request.is_some());
    running
        .map(|own| {
            let used = own.of_request();
            vec![
                int(own.caller.spid),
                int(0),
                moment(own.started),
                text(if own.wait.is_some() { "suspended" } else { "running" }),
                text(own.command.clone()),
                database_id(server, &own.database),
                int(1),
                int(own.wait.and_then(|wait| wait.blocker).unwrap_or(0)),
                own.wait.map_or(Value::Null, |wait| text(wait.wait_type)),
                own.wait.map_or(int(0), |wait| waited(&wait)),
                text(own.wait.map_or("SOS_SCHEDULER_YIELD", |wait| wait.wait_type)),
                int(own.trancount),
                Value::Float(0.0),
                milliseconds(used.cpu_ns),
                milliseconds(used.elapsed_ns),
                int(0),
                big(used.pages.read),
                big(used.pages.written),
                big(used.pages.asked),
                int(isolation(&own.isolation)),
                big(used.rows),
                task_address(own),
            ]
        })
        .collect()
}

fn waited(wait: &Seen) -> crate::value::Val {
    milliseconds(u64::try_from(wait.since.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

const WAITING_TASKS: Columns = &[
    ("waiting_task_address", ADDRESS),
    ("session_id", SMALL),
    ("exec_context_id", INT),
    ("wait_duration_ms", BIG),
    ("wait_type", DESC),
    ("resource_address", ADDRESS),
    ("blocking_task_address", ADDRESS),
    ("blocking_session_id", SMALL),
    ("blocking_exec_context_id", INT),
    ("resource_description", SqlType::NVarChar(Length::Of(3072))),
];

fn waiting_tasks(server: &Server) -> Vec<Row> {
    let row = |own: &Activity| {
        let wait = own.wait.as_ref()?;
        let blocker = wait.blocker.map_or(Value::Null, int);
        let none = Value::Null;
        Some(vec![
            task_address(own),
            int(own.caller.spid),
            int(0),
            waited(wait),
            text(wait.wait_type),
            none.clone(),
            none.clone(),
            blocker,
            none.clone(),
            none,
        ])
    };
    server.sessions.iter().filter_map(row).collect()
}

const NAMES: Columns = &[
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

/// Returns all system views of this list and of the texts beside it.
fn system_views() -> Vec<Row> {
    let row = |full: String| {
        let (schema, name) = shown(&full)?;
        Some(system_object(&full, name, schema, ("V ", "VIEW")))
    };
    system_names().into_iter().filter_map(row).collect()
}

/// As above, with the system's procedures.
fn system_objects() -> Vec<Row> {
    let procedures = crate::run::system_procedures::PROCEDURES.iter();
    let procedures = procedures.chain(texts::PROCEDURES.iter().map(|(name, _)| name));
    let row = |name: &&str| {
        let kind = match name.starts_with("xp_") {
            true => ("X ", "EXTENDED_STORED_PROCEDURE"),
            false => ("P ", "SQL_STORED_PROCEDURE"),
        };
        system_object(&format!("sys.{name}"), (*name).to_owned(), 4, kind)
    };
    let mut rows = system_views();
    rows.extend(procedures.map(row));
    rows
}

/// Names of the system views: schema and name in lower case.
fn system_names() -> Vec<String> {
    let names = super::all().map(|view| view.name);
    let names = names.chain(texts::VIEWS.iter().map(|(name, _)| *name));
    let hosts = ["sys.dm_os_wait_stats", "sys.dm_os_schedulers", "sys.certificates"];
    let listed = |name: &&str| !name.starts_with("sys.spt_") && !name.contains('~');
    names.chain(hosts).filter(listed).map(str::to_owned).collect()
}

/// The number of its schema, and its name as SQL Server writes it.
fn shown(full: &str) -> Option<(i64, String)> {
    let (schema, name) = full.split_once('.')?;
    Some(match schema {
        "information_schema" => (3, name.to_uppercase()),
        _ => (4, name.to_owned()),
    })
}

fn system_object(full: &str, name: String, schema: i64, (kind, described): (&str, &str)) -> Row {
    vec![
        text(name),
        int(-object_id(full)),
        Value::Null,
        int(schema),
        int(0),
        text(kind),
        text(described),
        epoch(),
        epoch(),
        bit(true),
        bit(false),
        bit(false),
    ]
}

/// The columns of the system views.
fn columns(db: &mut Db, database: &str, _: &Facts) -> Result<Vec<Row>> {
    let mut found = Facts { database: database.to_owned(), ..Facts::default() };
    for full in system_names() {
        let Some((_, name)) = shown(&full) else { continue };
        let id = -object_id(&full);
        let schema = String::new();
        let (kind, parent, hidden) = ("V", 0, false);
        found.objects.push(Object { id, schema, name, kind, parent, text: None, hidden });
        let mut place = vec![database.to_owned()];
        place.extend(full.split('.').map(str::to_owned));
        found.add_view(db, database, id, &Name(place));
    }
    Ok(objects::columns(&found))
}
