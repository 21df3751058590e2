//! The command's errors, what is printed of them, and the exit code of each.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tdekit_backup_run::RunError;
use tdekit_cost_bench::BenchError;
use tdekit_key_store::StoreError;
use tdekit_wire_endpoint::EndpointError;

use crate::backup::error::{BackupError, run_exit, run_hint};
use crate::convert::error::DatabaseError;
use crate::mariadb::error::MariadbError;

/// What stops a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The key store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A database file.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The engine of backups.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A backup.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// MariaDB.
    #[error(transparent)]
    Mariadb(#[from] MariadbError),
    /// The endpoint.
    #[error("{}", with_cause(.0))]
    Endpoint(#[from] EndpointError),
    /// The bench.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// Arguments that do not go together, beyond what the parser knows.
    #[error("{0}")]
    Usage(String),
    /// A password was typed twice, differently.
    #[error("the two passwords differ")]
    PasswordsDiffer,
    /// A password is needed and there is no terminal to ask for it.
    #[error("there is no {what}")]
    NoSecret {
        /// What is needed, such as "password for the backup".
        what: &'static str,
        /// The ways to give it.
        ways: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Standard output or the terminal failed.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// An error and what caused it, in one line.
fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The command's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was refused or failed.
    Error = 1,
    /// It was used wrongly; the argument parser exits with this code, too.
    Usage = 2,
    /// A key, password or certificate is missing or wrong.
    Key = 3,
    /// Data is damaged, or of a newer version.
    Damaged = 4,
    /// Another process holds a lock or changed the data.
    Busy = 5,
    /// Input or output failed, or the disk is full.
    Io = 6,
}

/// Prints the error, and a hint where there is one, and gives the exit code.
pub(crate) fn report(error: &CommandError) -> ExitCode {
    if let CommandError::Output(source) = error
        && source.kind() == io::ErrorKind::BrokenPipe
    {
        // Whoever read the output had enough of it.
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error}");
    if let Some(hint) = hint(error) {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(exit(error) as u8)
}

fn exit(error: &CommandError) -> Exit {
    match error {
        CommandError::Store(error) => store_exit(error),
        CommandError::Database(error) => error.exit(),
        CommandError::Run(error) => run_exit(error),
        CommandError::Backup(error) => error.exit(),
        CommandError::Mariadb(error) => error.exit(),
        CommandError::Endpoint(error) => crate::commands::serve::exit(error),
        CommandError::Bench(_) => Exit::Error,
        CommandError::Usage(_) => Exit::Usage,
        CommandError::PasswordsDiffer | CommandError::NoSecret { .. } => Exit::Key,
        CommandError::Io { .. } | CommandError::Output(_) => Exit::Io,
    }
}

/// The exit code of what the key store says.
pub(crate) fn store_exit(error: &StoreError) -> Exit {
    match error {
        StoreError::NoHome | StoreError::Config { .. } | StoreError::InvalidValue { .. } => {
            Exit::Usage
        }
        StoreError::AlreadyExists { .. }
        | StoreError::CertificateExists { .. }
        | StoreError::DifferentStore { .. }
        | StoreError::Crypto(_) => Exit::Error,
        StoreError::Missing { .. }
        | StoreError::WrongPassword
        | StoreError::WrongKey { .. }
        | StoreError::NoProvider { .. }
        | StoreError::ProviderMismatch { .. }
        | StoreError::BadSecret { .. }
        | StoreError::InsecureFile { .. }
        | StoreError::CertificateMissing { .. }
        | StoreError::PrivateKeyMissing { .. }
        | StoreError::CertificateExpired { .. }
        | StoreError::CertificateInUse { .. }
        | StoreError::NotBackedUp { .. }
        | StoreError::WrongBackupPassword { .. }
        | StoreError::KeyMismatch { .. } => Exit::Key,
        StoreError::BadCertificate { .. }
        | StoreError::UnknownMechanism { .. }
        | StoreError::WrappedKeyDamaged { .. }
        | StoreError::Corrupt { .. }
        | StoreError::FutureVersion { .. } => Exit::Damaged,
        StoreError::Locked { .. } | StoreError::MasterKeyChanged => Exit::Busy,
        StoreError::Io { .. } => Exit::Io,
    }
}

fn hint(error: &CommandError) -> Option<String> {
    match error {
        CommandError::Store(error) => store_hint(error),
        CommandError::Database(error) => error.hint().map(str::to_owned),
        CommandError::Run(error) => run_hint(error),
        CommandError::Backup(error) => error.hint().map(str::to_owned),
        CommandError::Mariadb(error) => error.hint().map(str::to_owned),
        CommandError::Bench(error) => error.hint(),
        CommandError::NoSecret { ways, .. } => Some((*ways).to_owned()),
        CommandError::Endpoint(error) => crate::commands::serve::hint(error).map(str::to_owned),
        CommandError::Usage(_)
        | CommandError::PasswordsDiffer
        | CommandError::Io { .. }
        | CommandError::Output(_) => None,
    }
}

/// What the user may do about what the key store says.
pub(crate) fn store_hint(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::NoHome => "name the directory with --store or TDEKIT_HOME",
        StoreError::Missing { .. } => {
            "make one with `tdekit key init`, or name another directory with --store or TDEKIT_HOME"
        }
        StoreError::AlreadyExists { .. } => {
            "`tdekit key status` shows it; `tdekit key rotate` changes its master key or password"
        }
        StoreError::WrongPassword => {
            "if it is lost, `tdekit key restore` sets a new one from a backup of the master key"
        }
        StoreError::NoProvider { .. } | StoreError::ProviderMismatch { .. } => {
            "`tdekit --help` lists the ways to give a password or key"
        }
        StoreError::InsecureFile { path, threat, .. } => {
            let bits = if *threat == "read" { "600" } else { "go-w" };
            return Some(format!("chmod {bits} {}", path.display()));
        }
        StoreError::CertificateMissing { .. } => {
            "`tdekit cert list` shows what is there; `tdekit cert restore` takes one from a backup"
        }
        StoreError::PrivateKeyMissing { .. } => {
            "`tdekit cert restore` with the private key's backup adds it"
        }
        StoreError::CertificateExpired { .. } => {
            "`tdekit cert rotate` makes a new one under the same name"
        }
        StoreError::CertificateInUse { .. } => {
            "wrap these files' keys by another certificate first; --force drops it all the same, \
             and then nothing opens them but a backup of the certificate"
        }
        StoreError::NotBackedUp { .. } => {
            "back it up with `tdekit cert backup`, or lose it for good with --force"
        }
        StoreError::CertificateExists { .. } => {
            "`tdekit cert list` shows it; `tdekit cert rotate` makes a new one under its name"
        }
        StoreError::Corrupt { .. } => {
            "`tdekit key restore --replace` puts a backup in its place and keeps the damaged file"
        }
        StoreError::FutureVersion { .. } => "use the newer tdekit that wrote it",
        StoreError::Locked { .. } => "try again when it is done",
        StoreError::MasterKeyChanged => "run the command again",
        StoreError::DifferentStore { .. } => {
            "it may also be of the same store, from before its master key was rotated; --replace \
             puts the backup in its place and keeps the store that is there under another name"
        }
        StoreError::WrongKey { .. }
        | StoreError::BadSecret { .. }
        | StoreError::Config { .. }
        | StoreError::BadCertificate { .. }
        | StoreError::WrongBackupPassword { .. }
        | StoreError::KeyMismatch { .. }
        | StoreError::InvalidValue { .. }
        | StoreError::UnknownMechanism { .. }
        | StoreError::WrappedKeyDamaged { .. }
        | StoreError::Io { .. }
        | StoreError::Crypto(_) => return None,
    };
    Some(hint.to_owned())
}
