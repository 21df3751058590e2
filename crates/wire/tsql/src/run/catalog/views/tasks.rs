//! Running requests as tasks, workers and threads: one of each for a request, as a thread of the
//! system works on it from its beginning to its end.

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{BIT, Columns, DESC, INT, Row, SMALL, Server, Source, View, bit, int, text};
use crate::run::activity::Activity;
use crate::value::Val;

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.dm_os_tasks", columns: TASKS, source: Source::Server(tasks) },
    View { name: "sys.dm_os_workers", columns: WORKERS, source: Source::Server(workers) },
    View { name: "sys.dm_os_threads", columns: THREADS, source: Source::Server(threads) },
];

pub(crate) const ADDRESS: SqlType = SqlType::VarBinary(Length::Of(8));

/// Kinds of what has an address.
#[derive(Clone, Copy)]
enum Of {
    Task = 1,
    Worker = 2,
    Thread = 3,
    Scheduler = 4,
}

/// A number of our own: the kind, then the number of the system's thread.
fn address(of: Of, thread: i32) -> Val {
    let mut bytes = [0; 8];
    bytes[0] = of as u8;
    bytes[4..].copy_from_slice(&thread.to_be_bytes());
    Value::Binary(bytes.to_vec().into())
}

/// Returns the address of a session's task; NULL if no request is running.
pub(crate) fn task_address(own: &Activity) -> Val {
    own.thread().map_or(Value::Null, |thread| address(Of::Task, thread))
}

fn state(own: &Activity) -> Val {
    text(if own.wait.is_some() { "SUSPENDED" } else { "RUNNING" })
}

/// Returns a row for each session whose request is running.
fn running(server: &Server, row: fn(&Activity, i32) -> Row) -> Vec<Row> {
    let running = |own: &Activity| own.thread().map(|thread| row(own, thread));
    server.sessions.iter().filter_map(running).collect()
}

const TASKS: Columns = &[
    ("task_address", ADDRESS),
    ("task_state", DESC),
    ("context_switches_count", INT),
    ("pending_io_count", INT),
    ("pending_io_byte_count", SqlType::BigInt),
    ("pending_io_byte_average", INT),
    ("scheduler_id", INT),
    ("session_id", SMALL),
    ("exec_context_id", INT),
    ("request_id", INT),
    ("worker_address", ADDRESS),
    ("host_address", ADDRESS),
    ("parent_task_address", ADDRESS),
];

fn tasks(server: &Server) -> Vec<Row> {
    running(server, |own, thread| {
        vec![
            address(Of::Task, thread),
            state(own),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            int(0),
            int(own.caller.spid),
            int(0),
            int(0),
            address(Of::Worker, thread),
            Value::Null,
            Value::Null,
        ]
    })
}

const WORKERS: Columns = &[
    ("worker_address", ADDRESS),
    ("status", INT),
    ("is_preemptive", BIT),
    ("is_fiber", BIT),
    ("is_sick", BIT),
    ("is_in_cc_exception", BIT),
    ("is_fatal_exception", BIT),
    ("is_inside_catch", BIT),
    ("last_wait_type", DESC),
    ("return_code", INT),
    ("state", DESC),
    ("task_address", ADDRESS),
    ("scheduler_address", ADDRESS),
    ("thread_address", ADDRESS),
];

fn workers(server: &Server) -> Vec<Row> {
    running(server, |own, thread| {
        vec![
            address(Of::Worker, thread),
            Value::Null,
            // The system interrupts threads as it likes.
            bit(true),
            bit(false),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            own.wait.map_or(Value::Null, |wait| text(wait.wait_type)),
            Value::Null,
            state(own),
            address(Of::Task, thread),
            address(Of::Scheduler, 0),
            address(Of::Thread, thread),
        ]
    })
}

const THREADS: Columns = &[
    ("thread_address", ADDRESS),
    ("started_by_sqlservr", BIT),
    ("os_thread_id", INT),
    ("status", INT),
    ("kernel_time", SqlType::BigInt),
    ("usermode_time", SqlType::BigInt),
    ("priority", INT),
    ("affinity", SqlType::BigInt),
    ("worker_address", ADDRESS),
    ("scheduler_address", ADDRESS),
];

fn threads(server: &Server) -> Vec<Row> {
    running(server, |_, thread| {
        vec![
            address(Of::Thread, thread),
            bit(true),
            int(thread),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            address(Of::Worker, thread),
            address(Of::Scheduler, 0),
        ]
    })
}
