//! Resources used by statements: `sys.dm_exec_query_stats`, and the texts that contain them.

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{BIG, BIT, Columns, INT, LONG, Row, SMALL, Server, Source, TIME, View, bit, int, text};
use crate::run::tallies::{Figure, Statement, Text};
use crate::value::Val;

const HANDLE: SqlType = SqlType::VarBinary(Length::Of(64));

/// The rows for `sys.dm_exec_sql_text`: its columns, after the handle.
pub(crate) const SQL_TEXTS: &str = "sys.~dm_exec_sql_text";

pub(crate) const VIEWS: &[View] = &[
    View {
        name: "sys.dm_exec_query_stats",
        columns: QUERY_STATS,
        source: Source::Server(query_stats),
    },
    View { name: SQL_TEXTS, columns: TEXTS, source: Source::Server(sql_texts) },
];

const QUERY_STATS: Columns = &[
    ("sql_handle", HANDLE),
    ("statement_start_offset", INT),
    ("statement_end_offset", INT),
    ("plan_generation_num", BIG),
    ("plan_handle", HANDLE),
    ("creation_time", TIME),
    ("last_execution_time", TIME),
    ("execution_count", BIG),
    ("total_worker_time", BIG),
    ("last_worker_time", BIG),
    ("min_worker_time", BIG),
    ("max_worker_time", BIG),
    ("total_physical_reads", BIG),
    ("last_physical_reads", BIG),
    ("min_physical_reads", BIG),
    ("max_physical_reads", BIG),
    ("total_logical_writes", BIG),
    ("last_logical_writes", BIG),
    ("min_logical_writes", BIG),
    ("max_logical_writes", BIG),
    ("total_logical_reads", BIG),
    ("last_logical_reads", BIG),
    ("min_logical_reads", BIG),
    ("max_logical_reads", BIG),
    ("total_elapsed_time", BIG),
    ("last_elapsed_time", BIG),
    ("min_elapsed_time", BIG),
    ("max_elapsed_time", BIG),
    ("query_hash", SqlType::Binary(8)),
    ("total_rows", BIG),
    ("last_rows", BIG),
    ("min_rows", BIG),
    ("max_rows", BIG),
];

/// Returns `sql_handle`: its first byte marks it as that of a text.
fn handle(kind: u8, number: u64) -> Val {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(number.to_be_bytes());
    Value::Binary(bytes.into())
}

fn big(number: u64) -> Val {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns total, last, minimum and maximum, in this unit.
fn four(figure: &Figure, unit: u64) -> [Val; 4] {
    [figure.total, figure.last, figure.min, figure.max].map(|value| big(value / unit))
}

/// Returns the number of a database that the caller can see.
fn seen(server: &Server, name: &str) -> Option<i32> {
    let found = server.databases.iter().find(|known| known.name.eq_ignore_ascii_case(name));
    found.map(|database| database.id)
}

fn query_stats(server: &Server) -> Vec<Row> {
    let row = |statement: &Statement| {
        seen(server, &statement.database)?;
        let Statement { totals, .. } = statement;
        let mut row = vec![
            handle(2, statement.handle),
            int(i64::from(i32::try_from(statement.start).unwrap_or(i32::MAX))),
            int(i64::from(i32::try_from(statement.end).unwrap_or(i32::MAX))),
            int(1),
            handle(6, statement.handle),
            super::server::moment(totals.created),
            super::server::moment(totals.executed),
            big(totals.count),
        ];
        row.extend(four(&totals.cpu_ns, 1000));
        row.extend(four(&totals.physical_reads, 1));
        row.extend(four(&totals.writes, 1));
        row.extend(four(&totals.logical_reads, 1));
        row.extend(four(&totals.elapsed_ns, 1000));
        row.push(Value::Binary(statement.hash.to_be_bytes().to_vec().into()));
        row.extend(four(&totals.rows, 1));
        Some(row)
    };
    server.tallies.statements().iter().filter_map(row).collect()
}

const TEXTS: Columns = &[
    ("handle", HANDLE),
    ("dbid", SMALL),
    ("objectid", INT),
    ("number", SMALL),
    ("encrypted", BIT),
    ("text", LONG),
];

fn sql_texts(server: &Server) -> Vec<Row> {
    let row = |known: &Text| {
        let id = seen(server, &known.database)?;
        let rest = |kind: u8| {
            vec![
                handle(kind, known.handle),
                // a text outside of a procedure has no database
                if known.procedure { int(id) } else { Value::Null },
                Value::Null,
                if known.procedure { int(1) } else { Value::Null },
                bit(false),
                text(&*known.text),
            ]
        };
        // the handle of the text, and the handle of its plan
        Some([rest(2), rest(6)])
    };
    server.tallies.texts().iter().filter_map(row).flatten().collect()
}
