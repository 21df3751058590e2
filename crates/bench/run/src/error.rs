//! Reasons why a bench cannot run, or cannot complete.

use std::path::PathBuf;

use tdekit_bench_report::JsonError;
use tdekit_private_mariadb::ServerError;
#[cfg(feature = "servers")]
use tdekit_tds_client::TdsError;

/// Result of most functions here.
pub(crate) type Result<T, E = BenchError> = std::result::Result<T, E>;

/// Reason why a bench could not run, or could not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A file or directory could not be used.
    #[error("{doing} {}: {source}", path.display())]
    File { doing: &'static str, path: PathBuf, source: std::io::Error },
    /// The given file is not a plain SQLite database.
    #[error("{} is not a plain SQLite database", path.display())]
    NotADatabase { path: PathBuf },
    /// A database that tdekit encrypted could not be read.
    #[error("{} is encrypted, and does not open: {message}", path.display())]
    Sealed { path: PathBuf, message: String },
    /// A database that tdekit encrypted opens, and could not be read whole.
    #[error("{} is encrypted, and cannot be read: {message}", path.display())]
    Damaged { path: PathBuf, message: String },
    /// SQLite refused a preparation.
    #[error("{doing}: {source}")]
    Sqlite { doing: String, source: rusqlite::Error },
    /// A worker process ended or sent an invalid reply.
    #[error("worker of side {side} is lost: {detail}")]
    WorkerLost { side: String, detail: String },
    /// A worker process could not execute a request.
    #[error("side {side}: {message}")]
    WorkerFailed { side: String, message: String },
    /// A required command failed.
    #[error("{command} failed ({status}): {stderr}")]
    Command { command: String, status: String, stderr: String },
    /// A command produced a backup with other properties than requested, or restored different
    /// data.
    #[error("{what}: {detail}")]
    Mismatch { what: String, detail: String },
    /// A required command could not be started.
    #[error("cannot start {command}: {source}")]
    Start { command: String, source: std::io::Error },
    /// Not enough space for the files of the run.
    #[error(
        "the run needs {needed_bytes} bytes in {}, and {available_bytes} are free",
        path.display()
    )]
    Space { path: PathBuf, needed_bytes: u64, available_bytes: u64 },
    /// An option's value is invalid.
    #[error("{option}: {reason}")]
    Option { option: &'static str, reason: String },
    /// A peer library or another tool is not installed.
    #[error("{name} is not installed")]
    ToolMissing {
        name: String,
        /// The command that installs it.
        remedy: String,
    },
    /// The extension does not exist.
    #[error("the SQLite extension is not at {}", path.display())]
    NoExtension { path: PathBuf },
    /// The command cannot back up.
    #[error("{} has no command `backup`", command.display())]
    NoBackup { command: PathBuf },
    /// No running test to control.
    #[error(
        "no bench is running{}",
        run.map_or_else(String::new, |run| format!(" as process {run}"))
    )]
    NoRun { run: Option<u32> },
    /// Several tests are running.
    #[error(
        "several benches are running, as processes {}",
        runs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    SeveralRuns { runs: Vec<u32> },
    /// The running test refused an order.
    #[error("the running bench answers: {reason}")]
    Refused { reason: String },
    /// An order ended the run.
    #[error("stopped by `--control stop`")]
    Stopped,
    /// No statement and no scan could be derived.
    #[error("{} has no table that statements could be derived from", path.display())]
    NothingDerived { path: PathBuf },
    /// A private server could not be started, or refused.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A results document could not be read.
    #[error("{}: {source}", path.display())]
    Document { path: PathBuf, source: JsonError },
    /// The output of a script could not be read.
    #[error(
        "{}{}: {reason}",
        path.display(),
        line.map_or_else(String::new, |line| format!(", line {line}"))
    )]
    Output { path: PathBuf, line: Option<usize>, reason: String },
    /// A script measured nothing.
    #[error("{}: {reason}", path.display())]
    NothingScripted { path: PathBuf, reason: String },
    /// A database was not encrypted in time.
    #[error("encrypting the database takes longer than {limit_s} s, and is at {percent} %")]
    Scan { limit_s: u64, percent: i64 },
    /// An object with one of the run's names already exists on the server.
    #[error("{name} is there already on the server, and is not this run's")]
    NameTaken { name: String },
    /// An experiment or a client that is not included in this build.
    #[cfg(not(all(feature = "servers", feature = "object-stores")))]
    #[error("this build of the bench is without {what}")]
    NotBuilt { what: &'static str },
    /// An object store refused, or cannot be reached.
    #[cfg(feature = "object-stores")]
    #[error("{doing} {address}: {message}")]
    Store { doing: &'static str, address: String, message: String },
    /// A connection to a SQL Server could not be made, or broke.
    #[cfg(feature = "servers")]
    #[error(transparent)]
    Tds(TdsError),
    /// A MySQL server refused, or the client library did.
    #[error("{message} (error {number})")]
    MySql { number: u32, message: String },
    /// The report could not be made.
    #[error(transparent)]
    Report(#[from] JsonError),
    /// The user or the system asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Returns the remedy for an error of SQL Server.
#[cfg(feature = "servers")]
fn of_number(number: i32) -> Option<&'static str> {
    match number {
        18456 => Some(
            "the login or its password is wrong: --login-password-file, or TDEKIT_LOGIN_PASSWORD",
        ),
        1801 => Some(TAKEN),
        262 | 5011 => Some("the login needs the role dbcreator, and for all experiments sysadmin"),
        1101 | 1105 | 3257 | 5149 | 9002 => Some(FULL),
        3201 => Some(
            "--server-dir names a directory of the server that is there and that it may write to",
        ),
        3241 => Some(
            "a file of that name is there on the server and holds no backups: move it away, or \
             choose another place by --server-dir",
        ),
        _ => None,
    }
}

/// The remedy for an object store that refuses, or cannot be reached.
#[cfg(feature = "object-stores")]
const STORE: &str = "AWS_ENDPOINT_URL names the server, with AWS_ALLOW_HTTP=true for one without \
                     TLS; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are its keys";

/// The remedy for a server without enough disk space.
#[cfg(feature = "servers")]
const FULL: &str = "the server has too little room: fewer --rows make smaller databases";
/// The remedy if an object of the run's name already exists.
const TAKEN: &str = "a run that was killed left it, or another one is going on; tdekit bench \
                     --target mssql://... --dry-run prints what drops it, at its end";

/// Where MySQL's server is searched.
pub(crate) const NO_MYSQL: &str = "--peer mysql:DIR or TDEKIT_MYSQL_DIR names the directory that \
                                   MySQL's archive was unpacked into, with bin/mysqld, or /usr \
                                   where its packages are installed; MariaDB's mysqld is another";

/// Returns the remedy for an error of MySQL or MariaDB, or of their client library.
fn of_mysql(number: u32) -> Option<&'static str> {
    match number {
        1045 | 1698 => Some(
            "the user or the password is wrong: --login-password-file, or TDEKIT_LOGIN_PASSWORD",
        ),
        1044 | 1142 | 1227 | 1370 => Some(
            "the user needs CREATE, DROP, ALTER, INSERT, SELECT, UPDATE, DELETE and INDEX on the \
             database of the address, or on a database of the run's own",
        ),
        1049 => Some("the database of the address must be there, though it stays as it is"),
        3 | 1021 | 1030 | 1114 => {
            Some("the server has too little room: fewer --rows or --tables make smaller tables")
        }
        1040 | 1203 | 1226 => Some("the server has too few connections left: fewer --threads"),
        2026 => Some(
            "--tls-ca FILE names who vouches for the server, --trust accepts any certificate, \
             --plain does without TLS",
        ),
        2002 | 2003 | 2005 => {
            Some("--target mysql://USER@HOST:PORT/DATABASE says where the server listens")
        }
        _ => None,
    }
}

#[cfg(feature = "servers")]
impl From<TdsError> for BenchError {
    fn from(error: TdsError) -> Self {
        match error {
            TdsError::Stopped => Self::Interrupted,
            TdsError::Target { reason } => Self::Option { option: "--target", reason },
            TdsError::Authority { reason } => Self::Option { option: "--tls-ca", reason },
            error => Self::Tds(error),
        }
    }
}

impl BenchError {
    /// Returns the remedy, if there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        let said = |text: &str| Some(text.to_owned());
        match self {
            Self::NotADatabase { .. } => said(
                "a database of SQLite is priced, plain or encrypted by tdekit; tdekit import takes \
                 over what other programs encrypted",
            ),
            Self::Sealed { .. } => said(
                "the key store is opened as by other programs: TDEKIT_HOME, and TDEKIT_PASSWORD, \
                 TDEKIT_PASSWORD_FILE, TDEKIT_KEY_FILE or `tdekit agent`",
            ),
            Self::Damaged { .. } => said("tdekit doctor DATABASE names what is damaged"),
            Self::Space { .. } => said(
                "--dir DIR puts the copies on another file system, --device those of the \
                 backup matrix, and --size makes its database smaller",
            ),
            Self::ToolMissing { remedy, .. } => Some(remedy.clone()),
            Self::Server(ServerError::ProgramMissing { package, .. }) => {
                Some(format!("apt-get install {package}"))
            }
            Self::Server(ServerError::NoMysql { .. }) => said(NO_MYSQL),
            Self::NoExtension { .. } => said(
                "name it with TDEKIT_EXTENSION, or install it beside the command or in \
                 ../lib/tdekit",
            ),
            Self::NothingDerived { .. } => said("--experiment crud runs on a generated database"),
            Self::NoRun { .. } => {
                said("--control changes a bench of this user that runs in another terminal")
            }
            Self::SeveralRuns { .. } => said("--run PROCESS chooses one"),
            #[cfg(feature = "servers")]
            Self::Tds(error) if error.is_distrust() => said(
                "--tls-ca FILE names who vouches for the server (of tdekit serve its own \
                 certificate, which it names when it makes it), --trust accepts any certificate",
            ),
            Self::NameTaken { .. } => said(TAKEN),
            Self::Output { .. } => said(
                "a file holds the whole output of one run of the script, as sqlcmd -i run.sql -o \
                 result.txt writes it",
            ),
            Self::Scan { .. } => said(
                "--scan-time gives it more, fewer --rows less to do; a scan that does not move may \
                 be suspended: sys.dm_database_encryption_keys tells",
            ),
            Self::NothingScripted { .. } => said(
                "where an error stopped it, mend that and run the script again: it dropped what it \
                 had made",
            ),
            // A device of a backup: ERROR_DISK_FULL.
            #[cfg(feature = "servers")]
            Self::Tds(TdsError::ServerSaid { number: 3201 | 3202, text, .. })
                if text.contains("error 112(") =>
            {
                said(FULL)
            }
            #[cfg(feature = "servers")]
            Self::Tds(TdsError::ServerSaid { number, .. }) => of_number(*number).map(str::to_owned),
            #[cfg(feature = "servers")]
            Self::Tds(_) => None,
            #[cfg(not(all(feature = "servers", feature = "object-stores")))]
            Self::NotBuilt { .. } => said("`make build` builds all of it"),
            #[cfg(feature = "object-stores")]
            Self::Store { .. } => said(STORE),
            Self::MySql { number, .. } => of_mysql(*number).map(str::to_owned),
            Self::Refused { .. }
            | Self::Stopped
            | Self::Document { .. }
            | Self::File { .. }
            | Self::Sqlite { .. }
            | Self::WorkerLost { .. }
            | Self::WorkerFailed { .. }
            | Self::Command { .. }
            | Self::Mismatch { .. }
            | Self::NoBackup { .. }
            | Self::Start { .. }
            | Self::Option { .. }
            | Self::Server(_)
            | Self::Report(_)
            | Self::Interrupted => None,
        }
    }

    /// Returns the exit code, as the command has them: 3 without a key, 7 for a file that cannot be
    /// read or written, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Sealed { .. } => 3,
            Self::File { .. } | Self::NotADatabase { .. } | Self::Damaged { .. } => 7,
            _ => 1,
        }
    }

    pub(crate) fn option(option: &'static str, reason: impl Into<String>) -> Self {
        Self::Option { option, reason: reason.into() }
    }

    pub(crate) fn start(command: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let command = command.into();
        move |source| Self::Start { command, source }
    }

    pub(crate) fn mismatch(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Mismatch { what: what.into(), detail: detail.into() }
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
