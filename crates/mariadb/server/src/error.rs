//! Errors of finding or using a server.

use std::path::PathBuf;
use std::process::ExitStatus;

/// Reason why a server could not be found or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A program of the system's packages is missing.
    #[error("{program} is not installed")]
    ProgramMissing {
        /// Its name.
        program: &'static str,
        /// Debian's package that contains it.
        package: &'static str,
    },
    /// No MySQL server was found.
    #[error("no MySQL server with its keyring component is below {}", directory.display())]
    NoMysql {
        /// The searched directory.
        directory: PathBuf,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file or directory could not be used.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// The operation that failed, such as `cannot copy`.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server ended before it answered.
    #[error("the server ended ({status}): {log}")]
    Ended {
        /// Its exit status.
        status: ExitStatus,
        /// The end of its error log.
        log: String,
    },
    /// The server runs but does not answer.
    #[error("the server does not answer after {waited_s} s: {log}")]
    Silent {
        /// Duration of the wait, in seconds.
        waited_s: u64,
        /// The end of its error log.
        log: String,
    },
    /// The server refused a statement.
    #[error("{message}")]
    Sql {
        /// The client's message, with the server's error number.
        message: String,
    },
    /// A program failed.
    #[error("{program} failed ({status}): {stderr}")]
    Program {
        /// The program.
        program: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its error output.
        stderr: String,
    },
}

impl ServerError {
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}
