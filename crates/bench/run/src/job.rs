//! The driver's requests to a worker, one JSON document on each line of standard input, and the
//! worker's answers, one on each line of standard output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tdekit_bench_work::{Cost, CrudRequest, OltpShare};
use tdekit_sqlite_client::Value;
use tdekit_system_use::Use;

use crate::command::shell_line;

/// The SQLite that a worker uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LibraryChoice {
    /// The library linked into this program.
    Bundled,
    /// A shared library, by path or by a name that the dynamic loader finds.
    Shared(PathBuf),
    /// A library whose calls are no-ops: only the driver remains.
    Idle,
}

/// A request. Those answered with a cost or times are measured; the rest is preparation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first request: loads the library and the extension. Answers [`Ready`].
    Setup { library: LibraryChoice, extension: Option<PathBuf> },
    /// Opens the database that later requests work on; `on_open` runs first on every connection.
    /// Answers [`DatabaseState`].
    Open { path: PathBuf, on_open: Vec<String> },
    /// Runs statements. Answers nothing.
    Execute { sql: Vec<String> },
    /// Loops of the CRUD experiment under the control row `control`. Answers [`Cost`].
    Crud(CrudRequest),
    /// Copies the write-ahead log into the database. Answers [`Cost`].
    Checkpoint,
    /// Computes for this time, then waits until the monotonic clock shows `until_ns`: the known
    /// cost of a calibration. Answers [`Cost`].
    Pay { cpu_ns: u64, until_ns: u64 },
    /// Executes each statement and its undo, and reports which can be measured: a [`Rehearsal`]
    /// each.
    Rehearse { statements: Vec<Planned> },
    /// The statements that `Operation` runs. Answers nothing.
    Plan { statements: Vec<Planned> },
    /// Every statement of one operation, each with emptied caches. Answers [`OperationCosts`].
    Operation { operation: Operation, cold: bool, drop_all: bool, round: u32 },
    /// The user's statements that `Script` runs. For each, answers whether it changes the database.
    PlanScript { statements: Vec<String>, undo: Undo },
    /// All of the user's statements in order, `times` times, with emptied caches; their changes are
    /// undone after each time. Answers a [`Cost`] each, all times together.
    Script { times: u64 },
    /// One statement, with SQLite's cache emptied. Answers [`Cost`].
    Scan { sql: String },
    /// A copy by the backup interface to a new file, which is removed again. Answers [`Cost`].
    Backup { to: PathBuf, on_open: Vec<String> },
    /// Copies a database that is only read, by its URI, to a new file. Answers nothing.
    CopyOut { uri: String, to: PathBuf },
    /// Opens `first`, then measures opening `others`, then opening them again: two lists of
    /// nanoseconds. The worker must not have opened a database before.
    OpenProbe { first: PathBuf, others: Vec<PathBuf>, on_open: Vec<String> },
    /// A share of an OLTP block. Answers its result.
    Oltp(OltpShare),
    /// Private memory of the worker, in bytes.
    Memory,
    /// Runs a command to its end. Needs no library. Answers [`Ran`].
    Run(RunSpec),
}

/// How a script's changes are undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Undo {
    /// There are none.
    Nothing,
    /// They are only in the write-ahead log, which is discarded.
    Log,
    /// The database is copied again from here.
    Copy(PathBuf),
}

/// A command to run and to measure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunSpec {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Files and directories that it reads: their pages are dropped from the system's cache first.
    pub(crate) drop_cached: Vec<PathBuf>,
    /// Its output, a file or a directory: written to the device within the measured time.
    pub(crate) output: PathBuf,
}

impl RunSpec {
    /// Returns the command line for errors.
    pub(crate) fn shown(&self) -> String {
        let words = self.arguments.iter().map(|word| word.to_string_lossy().into_owned());
        shell_line(std::iter::once(self.program.display().to_string()).chain(words))
    }
}

/// The cost of a command, from its start until its output is on the device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) elapsed_ns: u64,
    pub(crate) used: Use,
    pub(crate) peak_memory_bytes: u64,
    /// Size of its output; for a directory, of all files in it.
    pub(crate) output_bytes: u64,
    /// The exit status, unless it succeeded.
    pub(crate) failure: Option<String>,
    /// The end of its error output.
    pub(crate) stderr: String,
}

/// An answer: the requested value, or the reason why there is none. Further requests may follow.
pub(crate) type Reply = Result<serde_json::Value, String>;

/// Answers `CopyOut`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CopiedOut {
    /// The reason why the database's key did not open; it was not copied then.
    pub(crate) locked: Option<String>,
}

/// Answers `Setup`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) version: String,
    pub(crate) source_id: String,
    pub(crate) compile_options: Vec<String>,
    /// Kind of counted instructions, or the reason why none are counted.
    pub(crate) instructions: String,
}

/// Answers `Operation`: its cost, and that of the checkpoint after it if measured.
pub(crate) type OperationCosts = (Cost, Option<Cost>);

/// Settings of an open database by their names, which must be equal on every side.
pub(crate) type DatabaseState = BTreeMap<String, String>;

/// Statement types of the operations experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Operation {
    Select,
    Insert,
    Update,
    Delete,
    Reindex,
}

impl Operation {
    pub(crate) const ALL: [Self; 5] =
        [Self::Select, Self::Insert, Self::Update, Self::Delete, Self::Reindex];

    /// Name in class ids.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Reindex => "reindex",
        }
    }

    pub(crate) fn writes(self) -> bool {
        self != Self::Select
    }
}

/// A derived statement with its sets of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub(crate) operation: Operation,
    /// Its table.
    pub(crate) table: String,
    /// A description, in words.
    pub(crate) what: String,
    pub(crate) sql: String,
    /// Statement that undoes the change of one row.
    pub(crate) undo_sql: Option<String>,
    pub(crate) variants: Vec<Variant>,
    /// Number of variants that one block runs.
    pub(crate) per_block: usize,
}

impl Planned {
    /// Returns the variants of a block: those after the last block's, so that a block does not find
    /// the pages of the previous one in a cache.
    pub(crate) fn block(&self, round: u32) -> impl Iterator<Item = &Variant> {
        let count = self.per_block.min(self.variants.len());
        let start = (round as usize * count).checked_rem(self.variants.len()).unwrap_or(0);
        self.variants.iter().cycle().skip(start).take(count)
    }
}

/// One set of values of a statement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Variant {
    pub(crate) parameters: Vec<Value>,
    /// Values of the undo statement, one set for each row that the statement changes.
    pub(crate) undo: Vec<Vec<Value>>,
}

/// The result of rehearsing a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rehearsal {
    /// For each variant, the reason why it cannot be measured, if any.
    pub(crate) failures: Vec<Option<String>>,
    /// Triggers or foreign keys changed further rows.
    pub(crate) side_effects: bool,
}
