//! Why a bench could not run, or not to its end.

use std::path::PathBuf;
use std::process::ExitStatus;

use tdekit_bench_report::JsonError;
use tdekit_private_mariadb::ServerError;

/// Why a bench could not run, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file or directory could not be used.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// What was tried, such as `cannot copy`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The given file is no plain SQLite database.
    #[error("{} is not a plain SQLite database", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// SQLite refused a preparation.
    #[error("{doing}: {source}")]
    Sqlite {
        /// What was tried.
        doing: String,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// A worker process ended or answered nonsense.
    #[error("worker of side {side} is lost: {detail}")]
    WorkerLost {
        /// Its side.
        side: String,
        /// Exit status and last words.
        detail: String,
    },
    /// A worker process could not do what was asked.
    #[error("side {side}: {message}")]
    WorkerFailed {
        /// Its side.
        side: String,
        /// The worker's words.
        message: String,
    },
    /// A command that was needed failed.
    #[error("{command} failed ({status}): {stderr}")]
    Command {
        /// Program and arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// A measured command failed.
    #[error("{command} failed ({status}): {stderr}")]
    Run {
        /// Program and arguments.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        stderr: String,
    },
    /// A command made a backup that is not what was asked for, or restored other data.
    #[error("{what}: {detail}")]
    Mismatch {
        /// The backup.
        what: String,
        /// What differs.
        detail: String,
    },
    /// A command that was needed could not be started.
    #[error("cannot start {command}: {source}")]
    Start {
        /// Program and arguments.
        command: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Too little room for the files of the run.
    #[error(
        "the run needs {needed_bytes} bytes in {}, and {available_bytes} are free",
        path.display()
    )]
    Space {
        /// Directory of the files.
        path: PathBuf,
        /// Estimated need.
        needed_bytes: u64,
        /// Free for this user.
        available_bytes: u64,
    },
    /// An option's value cannot be used.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why not.
        reason: String,
    },
    /// A peer library is not installed.
    #[error("peer library {name} is not installed")]
    PeerMissing {
        /// Its name.
        name: String,
    },
    /// Another backup tool is not installed.
    #[error("{name} is not installed")]
    ToolMissing {
        /// Its name here.
        name: String,
        /// Debian's packages that bring it.
        packages: String,
    },
    /// The extension is not there.
    #[error("the SQLite extension is not at {}", path.display())]
    NoExtension {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The command cannot back up.
    #[error("{} has no command `backup`", command.display())]
    NoBackup {
        /// The command.
        command: PathBuf,
    },
    /// No test is running that could be controlled.
    #[error(
        "no bench is running{}",
        run.map_or_else(String::new, |run| format!(" as process {run}"))
    )]
    NoRun {
        /// The process asked for.
        run: Option<u32>,
    },
    /// Several tests are running.
    #[error(
        "several benches are running, as processes {}",
        runs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    SeveralRuns {
        /// Their processes.
        runs: Vec<u32>,
    },
    /// The running test refused an order.
    #[error("the running bench answers: {reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
    /// An order ended the run.
    #[error("stopped by `--control stop`")]
    Stopped,
    /// No statement and no scan could be derived.
    #[error("{} has no table that statements could be derived from", path.display())]
    NothingDerived {
        /// The database.
        path: PathBuf,
    },
    /// A private server could not be had, or refused.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A results document could not be read.
    #[error("{}: {source}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: JsonError,
    },
    /// A server could not be reached.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A connection to a server ended before its time.
    #[error("the connection to the server is lost: {source}")]
    ConnectionLost {
        /// The system's answer.
        source: std::io::Error,
    },
    /// A server said what its protocol does not allow.
    #[error("the server breaks the protocol: {what}")]
    Protocol {
        /// What it said.
        what: String,
    },
    /// A server refused.
    #[error("Msg {number}, Level {class}, State {state}: {text}")]
    ServerSaid {
        /// Number of the error.
        number: i32,
        /// Its severity.
        class: u8,
        /// Its state.
        state: u8,
        /// Its words.
        text: String,
    },
    /// A statement failed behind a result whose rows are not read.
    #[error("the statement failed (status {status:#06x} at the end of its answer)")]
    StatementFailed {
        /// Status of the final DONE.
        status: u16,
    },
    /// A server does not encrypt as asked for.
    #[error("encryption {mode}: {reason}")]
    Encryption {
        /// What was asked for.
        mode: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// TLS with a server failed.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The report could not be made.
    #[error(transparent)]
    Report(#[from] JsonError),
    /// The user or the system asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotADatabase { .. } => Some(
                "an encrypted database is benched on its plain copy: tdekit decrypt a copy first"
                    .to_owned(),
            ),
            Self::Space { .. } => Some(
                "--dir DIR puts the copies on another file system, --device those of the \
                      backup matrix, and --size makes its database smaller"
                    .to_owned(),
            ),
            Self::ToolMissing { packages, .. } => Some(format!("apt-get install {packages}")),
            Self::Server(ServerError::ProgramMissing { package, .. }) => {
                Some(format!("apt-get install {package}"))
            }
            Self::PeerMissing { name } => Some(format!("tdekit bench peers install {name}")),
            Self::NoExtension { .. } => Some(
                "name it with TDEKIT_EXTENSION, or install it beside the command or in \
                 ../lib/tdekit"
                    .to_owned(),
            ),
            Self::NothingDerived { .. } => {
                Some("--experiment crud runs on a generated database".to_owned())
            }
            Self::NoRun { .. } => Some(
                "--control changes a bench of this user that runs in another terminal".to_owned(),
            ),
            Self::SeveralRuns { .. } => Some("--run PROCESS chooses one".to_owned()),
            Self::Tls(rustls::Error::InvalidCertificate(_)) => Some(
                "--tls-ca FILE names who vouches for the server, --trust accepts any certificate"
                    .to_owned(),
            ),
            Self::Connect { .. }
            | Self::ConnectionLost { .. }
            | Self::Protocol { .. }
            | Self::ServerSaid { .. }
            | Self::StatementFailed { .. }
            | Self::Encryption { .. }
            | Self::Tls(_)
            | Self::Refused { .. }
            | Self::Stopped
            | Self::Document { .. }
            | Self::File { .. }
            | Self::Sqlite { .. }
            | Self::WorkerLost { .. }
            | Self::WorkerFailed { .. }
            | Self::Command { .. }
            | Self::Run { .. }
            | Self::Mismatch { .. }
            | Self::NoBackup { .. }
            | Self::Start { .. }
            | Self::Option { .. }
            | Self::Server(_)
            | Self::Report(_)
            | Self::Interrupted => None,
        }
    }

    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }

    pub(crate) fn sqlite(doing: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> Self {
        let doing = doing.into();
        move |source| match source.sqlite_error_code() {
            // Only a stop request interrupts a statement; see `interrupt::watch`.
            Some(rusqlite::ErrorCode::OperationInterrupted) => Self::Interrupted,
            _ => Self::Sqlite { doing, source },
        }
    }
}
