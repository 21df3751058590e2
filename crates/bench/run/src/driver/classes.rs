//! The classes of a run, with the work that each block of them does.

use tdekit_bench_report::{Class, Experiment, StatementInfo};

use crate::derive::Scans;
use crate::experiment::class;
use crate::generate::Mix;
use crate::job::{Operation, Planned};
use crate::plan::Config;
use crate::script::brief;
use crate::speedtest::{ROWS, Row};

/// A class and how to run a block of it.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) class: Class,
    pub(super) work: Work,
}

/// Work of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// Loops by all processes under a control row.
    Crud { control: i64, loops: u64, writes: bool },
    /// All statements of an operation.
    Operation { operation: Operation, cold: bool },
    /// One statement.
    Scan { sql: String },
    /// A copy by the backup interface.
    Backup,
    /// The user's statements, this many times.
    Script { times: u64 },
    /// A row of SQLite's `speedtest1`.
    Speedtest { row: Row },
    /// A full backup by the shipped command, of base and encrypted side only.
    FullBackup { compression: &'static str },
}

/// The worker of a side that does the work, each on its own copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seat {
    /// That of the mixes, which has several processes.
    Mixes,
    /// Derived statements in the system's warm cache.
    Warm,
    /// Separate, because dropping its pages from the system's cache must not affect the others.
    Cold,
    /// The user's statements, whose changes are discarded.
    Script,
    /// A separate program, with a separate database.
    Apart,
}

impl Seat {
    /// Returns the name of its copy.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Mixes => "crud.db",
            Self::Warm => "subject.db",
            Self::Cold => "cold.db",
            Self::Script => "script.db",
            Self::Apart => "speedtest.db",
        }
    }
}

impl Work {
    /// Returns the worker that does it; for a full backup the one that has the database open during
    /// it.
    pub(super) fn seat(&self) -> Seat {
        match self {
            Self::Crud { .. } => Seat::Mixes,
            Self::Operation { cold: true, .. } => Seat::Cold,
            Self::Script { .. } => Seat::Script,
            Self::Speedtest { .. } => Seat::Apart,
            Self::Operation { .. } | Self::Scan { .. } | Self::Backup | Self::FullBackup { .. } => {
                Seat::Warm
            }
        }
    }
}

/// Returns the id of the class for the checkpoint after an index rebuild.
pub(super) fn checkpoint_id(cold: bool) -> String {
    format!("operations/checkpoint/{}", cache_name(cold))
}

fn cache_name(cold: bool) -> &'static str {
    if cold { "cold" } else { "warm" }
}

/// Returns the classes of the mixes; `loops` holds the loops of each process for each.
pub(super) fn crud(config: &Config, loops: &[u64]) -> Vec<Task> {
    (1_i64..)
        .zip(config.mixes.iter().zip(loops))
        .map(|(control, (mix, loops))| crud_task(config, mix, (control, *loops)))
        .collect()
}

/// Returns the id of a mix's class.
pub(super) fn crud_id(mix: &Mix) -> String {
    format!("crud/{}", mix.id())
}

/// Returns the class of a mix, which runs under the control row `control`.
pub(super) fn crud_task(config: &Config, mix: &Mix, (control, loops): (i64, u64)) -> Task {
    let (names, what) = ((crud_id(mix), crud_label(mix)), crud_what(mix, config, loops));
    let size = (loops * u64::from(config.processes), "loop");
    Task {
        class: class(Experiment::Crud, names, what, size),
        work: Work::Crud { control, loops, writes: mix.writes() },
    }
}

/// Id of the class with all of the user's statements.
pub(super) const SCRIPT: &str = "script/all";

/// Returns the id of the class of one of the user's statements, counted from 1.
pub(super) fn script_id(number: usize) -> String {
    format!("script/{number}")
}

/// Returns the user's statements: all together, which is the unit that runs, and each alone.
pub(super) fn script(statements: &[String], writes: &[bool], times: u64) -> (Task, Vec<Class>) {
    let class = |id: &str, label: &str, what: String| {
        class(Experiment::Script, (id, label), what, (times, "run"))
    };
    // Comparisons read it: it has no number that differs from run to run.
    let how = "several times a block, SQLite's cache emptied before each statement, a fresh \
               connection each time; changes are taken back outside the clock.";
    let all = class(
        SCRIPT,
        "the whole script",
        format!("The script from its first to its last statement, {how}"),
    );
    let each = (1..)
        .zip(statements.iter().zip(writes))
        .map(|(number, (sql, writes))| {
            let kind = if *writes { "changes the database" } else { "reads" };
            let label = format!("{number}: {}", brief(sql));
            let what = format!("Statement {number}, which {kind}, {how}");
            class(&script_id(number), &label, what)
        })
        .collect();
    (Task { class: all, work: Work::Script { times } }, each)
}

fn crud_label(mix: &Mix) -> String {
    if mix.load {
        return "load".to_owned();
    }
    let name = match (mix.reads, mix.updates + mix.inserts) {
        (_, 0) => "read",
        (0, _) => "write",
        _ => "mix",
    };
    format!("{name} {}/{}/{}", mix.reads, mix.updates, mix.inserts)
}

fn crud_what(mix: &Mix, config: &Config, loops: u64) -> String {
    let work = if mix.load {
        "one new row of Vendor, Card and Purchase each".to_owned()
    } else {
        format!(
            "of every 10 loops {} reads of a Card, {} updates of a Vendor and {} inserts of a \
             Purchase on random rows",
            mix.reads, mix.updates, mix.inserts
        )
    };
    let end =
        if mix.writes() && config.given.journal_mode == "wal" { ", then a checkpoint" } else { "" };
    format!(
        "{} processes, {loops} loops each; every loop reads the control table, then {work}; each \
         statement is a transaction{end}.",
        config.processes
    )
}

/// Classes of the derived statements, warm and cold.
pub(super) fn operations(config: &Config, plan: &[Planned]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for cold in [false, true] {
        for operation in Operation::ALL {
            let statements: Vec<&Planned> =
                plan.iter().filter(|planned| planned.operation == operation).collect();
            if statements.is_empty() {
                continue;
            }
            let runs: usize = statements
                .iter()
                .map(|planned| if cold { 1 } else { planned.per_block.min(planned.variants.len()) })
                .sum();
            tasks.push(Task {
                class: operation_class(config, operation, cold, statements.len(), runs),
                work: Work::Operation { operation, cold },
            });
        }
    }
    tasks
}

fn operation_class(
    config: &Config,
    operation: Operation,
    cold: bool,
    statements: usize,
    runs: usize,
) -> Class {
    let cache = cache_name(cold);
    let (label, unit) = match operation {
        Operation::Reindex => (format!("rebuild of {statements} indexes, {cache}"), "index"),
        _ => (format!("{statements} {}, {cache}", operation.name().to_uppercase()), "statement"),
    };
    let emptied = if cold {
        "SQLite's cache and the system's cache of the file emptied before each"
    } else {
        "SQLite's cache emptied before each, the system's left warm"
    };
    let commit = if operation.writes() {
        format!("; each commits ({})", config.given.journal_mode)
    } else {
        String::new()
    };
    let what = format!(
        "{runs} runs of {statements} statements, {emptied}{commit}; changes are taken back outside \
         the clock."
    );
    let id = format!("operations/{}/{cache}", operation.name());
    class(Experiment::Operations, (id, label), what, (runs as u64, unit))
}

/// Full backups through the command: a plain database to a plain backup, an encrypted one to an
/// encrypted backup.
pub(super) fn full_backups() -> Vec<Task> {
    [("backup-compressed", "full backup, zstd", "zstd"), ("backup-plain", "full backup", "none")]
        .map(|(id, label, compression)| {
            let id = format!("operations/{id}/warm");
            let what = format!(
                "`tdekit backup` with compression {compression}, from the start of its process \
                 until the backup is on the device: of a plain database without encryption, and \
                 of an encrypted one with encryption."
            );
            let class = class(Experiment::Operations, (id, label), what, (1, "backup"));
            Task { class, work: Work::FullBackup { compression } }
        })
        .into()
}

/// Returns the class of the checkpoint after an index rebuild, if there is one.
pub(super) fn checkpoint(tasks: &[Task], cold: bool) -> Option<Class> {
    let id = format!("operations/{}/{}", Operation::Reindex.name(), cache_name(cold));
    tasks.iter().find(|task| task.class.id == id)?;
    let label = format!("checkpoint after rebuild, {}", cache_name(cold));
    let what = "The write-ahead log of all rebuilt indexes is copied into the database.".to_owned();
    Some(class(Experiment::Operations, (checkpoint_id(cold), label), what, (1, "checkpoint")))
}

/// Classes of `speedtest1`.
pub(super) fn speedtest(size: u32) -> impl Iterator<Item = Task> {
    ROWS.into_iter().map(move |row| Task {
        class: class(
            Experiment::Speedtest,
            (format!("speedtest1/{}", row.id), format!("speedtest1, {}", row.label)),
            format!("SQLite's speedtest1 --size {size} as a process of its own, {}.", row.label),
            (1, "run"),
        ),
        work: Work::Speedtest { row },
    })
}

/// Classes of the scans.
pub(super) fn scans(scans: &Scans, pages: u64) -> Vec<Task> {
    let (table, rows) = (&scans.table, (scans.rows, "row"));
    let sum = format!("Sum over a column of {table}, reading the whole table; caches as above.");
    let count =
        format!("Count of the rows of {table}; SQLite reads its smallest index or the table.");
    let copy = "The whole database is copied to a new file by SQLite's backup interface.";
    let (sum_sql, count_sql) = (scans.sum_sql.clone(), scans.count_sql.clone());
    [
        (("scans/sum", "SUM over all rows"), sum, rows, Work::Scan { sql: sum_sql }),
        (("scans/count", "count(*)"), count, rows, Work::Scan { sql: count_sql }),
        (("scans/backup", "backup API copy"), copy.to_owned(), (pages, "page"), Work::Backup),
    ]
    .map(|(names, what, size, work)| Task {
        class: class(Experiment::Scans, names, what, size),
        work,
    })
    .into()
}

/// Returns the plan as listed in the report: statements numbered within their operation.
pub(super) fn statement_infos(plan: &[Planned]) -> Vec<StatementInfo> {
    let mut next = std::collections::HashMap::new();
    plan.iter()
        .map(|planned| {
            let index = next.entry(planned.operation).or_insert(0_u32);
            let info = StatementInfo {
                index: *index,
                operation: planned.operation.name().to_owned(),
                what: planned.what.clone(),
                sql: planned.sql.clone(),
                variants: u32::try_from(planned.variants.len()).unwrap_or(u32::MAX),
            };
            *index += 1;
            info
        })
        .collect()
}
