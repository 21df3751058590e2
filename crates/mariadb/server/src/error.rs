//! Why a server could not be had, or not be used.

use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a server could not be had, or not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A program of the system's packages is not there.
    #[error("{program} is not installed")]
    ProgramMissing {
        /// Its name.
        program: &'static str,
        /// Debian's package that brings it.
        package: &'static str,
    },
    /// No MySQL server is where one was looked for.
    #[error("no MySQL server with its keyring component is below {}", directory.display())]
    NoMysql {
        /// Where.
        directory: PathBuf,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file or directory could not be used.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// The operation that failed, such as `cannot copy`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The server ended before it answered.
    #[error("the server ended ({status}): {log}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of its error log.
        log: String,
    },
    /// The server runs and does not answer.
    #[error("the server does not answer after {waited_s} s: {log}")]
    Silent {
        /// How long it was waited for.
        waited_s: u64,
        /// The end of its error log.
        log: String,
    },
    /// The server refused a statement.
    #[error("{message}")]
    Sql {
        /// The client's words, with the server's error number.
        message: String,
    },
    /// A program failed.
    #[error("{program} failed ({status}): {stderr}")]
    Program {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said.
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
