//! The command line. Each plane's own arguments are beside its code.

use std::env;
use std::ffi::OsString;

use clap::builder::{OsStr, Resettable};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tdekit_console::GlobalArgs;
use tdekit_console::serve::ServeArgs;

#[cfg(not(all(feature = "manual", feature = "mysql")))]
use crate::commands::absent::AbsentArgs;
use crate::commands::agent::AgentArgs;
use crate::commands::audit::AuditArgs;
use crate::commands::backup::BackupArgs;
use crate::commands::backup_key::BackupKeyCommand;
#[cfg(feature = "manual")]
use crate::commands::complete::CompletionsArgs;
use crate::commands::copy::CopyArgs;
use crate::commands::decrypt::DecryptArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::encrypt::EncryptArgs;
use crate::commands::freshness::FreshnessCommand;
use crate::commands::history::HistoryArgs;
use crate::commands::import::ImportArgs;
use crate::commands::init::InitArgs;
use crate::commands::inspect::InspectArgs;
#[cfg(feature = "manual")]
use crate::commands::manual::ManPagesArgs;
#[cfg(feature = "mariadb")]
use crate::commands::mariadb::MariadbCommand;
#[cfg(feature = "mysql")]
use crate::commands::mysql::MysqlCommand;
use crate::commands::overview::OverviewArgs;
use crate::commands::prune::PruneArgs;
use crate::commands::replicate::ReplicateArgs;
use crate::commands::restore::RestoreArgs;
use crate::commands::rewrap::RewrapArgs;
use crate::commands::rotate::RotateArgs;
use crate::commands::shell_init::ShellInitArgs;
use crate::commands::sqlite::SqliteCommand;
use crate::commands::status::StatusArgs;
use crate::commands::verify::VerifyArgs;
use crate::commands::{cert::CertCommand, key::KeyCommand};
use crate::tips;

const AFTER_HELP: &str = "\
The key store is opened with the first of these that is set:
  --password-file, --key-file, TDEKIT_AGENT_SOCK (where its agent knows the store),
  TDEKIT_PASSWORD, TDEKIT_PASSWORD_FILE, TDEKIT_KEY (hexadecimal), TDEKIT_KEY_FILE,
  TDEKIT_PKCS11_MODULE (with TDEKIT_PKCS11_PIN or TDEKIT_PKCS11_PIN_FILE),
  TDEKIT_VAULT_KEY (with VAULT_ADDR), TDEKIT_AWS_KMS_KEY,
  `password_file`, `key_file` or `pkcs11_module` (with `pkcs11_pin_file`) under [unlock],
  [unlock.vault] or [unlock.aws_kms] in config.toml beside the store, and last a prompt, on a
  terminal only.

Exit codes: 0 done, 1 refused or failed, 2 wrong use, 3 key, password or certificate missing or
wrong, 4 damaged data or of a newer version, 5 locked, in use or changed by another process,
6 not verified (there is no key), 7 input/output or a full disk.";

/// Encrypt a database at rest, in its backups and on the wire, and know what each costs.
#[derive(Debug, Parser)]
#[command(name = "tdekit", version, about, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The planes of the command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The master key: make, show, rotate, back up, restore
    #[command(subcommand)]
    Key(KeyCommand),
    /// Open the key store once by its password, for many small processes
    Agent(AgentArgs),
    /// Certificates: make, list, back up, restore, rotate, drop
    #[command(subcommand)]
    Cert(CertCommand),
    /// Begin: a key store, a certificate with its backup, and encrypted databases in one go
    Init(InitArgs),
    /// Encrypt databases
    Encrypt(EncryptArgs),
    /// Decrypt a database
    Decrypt(DecryptArgs),
    /// Make an encrypted database of one that SQLCipher or SQLite3 Multiple Ciphers encrypted
    Import(Box<ImportArgs>),
    /// Show whether and how databases are encrypted
    Status(StatusArgs),
    /// Examine databases: every page, the header, keys and certificates
    Doctor(DoctorArgs),
    /// Tell which databases are encrypted, by which keys, how old and backed up when, and what of
    /// it breaks a rule; show what happened to keys
    Audit(AuditArgs),
    /// Show how all databases stand: encrypted, backed up, verified; read only, without a key
    Overview(Box<OverviewArgs>),
    /// Wrap databases' keys by other certificates, such as one that was rotated
    Rewrap(RewrapArgs),
    /// Give a database a new key, under its readers and writers
    Rotate(RotateArgs),
    /// Have a database detect that an older state of it was put back
    #[command(subcommand)]
    Freshness(FreshnessCommand),
    /// Make a backup set of a database or of standard input
    Backup(Box<BackupArgs>),
    /// Follow a database and ship what is committed to an archive, second by second
    Replicate(Box<ReplicateArgs>),
    /// Restore a database or a stream from a backup set, or a database from an archive
    Restore(Box<RestoreArgs>),
    /// Check that backup sets, or an archive, hold what was written
    Verify(VerifyArgs),
    /// Show what can be seen of a media set without a key
    Inspect(InspectArgs),
    /// Show the backup history, or make it anew
    History(HistoryArgs),
    /// Copy a media set, and verify the copy; its content is not opened for that
    Copy(CopyArgs),
    /// Remove media sets that no rule keeps, and that no kept set needs
    Prune(PruneArgs),
    /// Who can open existing backup sets
    #[command(subcommand)]
    BackupKey(BackupKeyCommand),
    /// The plugin for MariaDB, its keys and its binary logs
    #[cfg(feature = "mariadb")]
    #[command(subcommand)]
    Mariadb(MariadbCommand),
    /// The plugin for MariaDB, which this build does not know
    #[cfg(not(feature = "mariadb"))]
    Mariadb(AbsentArgs),
    /// The keyring component for MySQL, and its keys
    #[cfg(feature = "mysql")]
    #[command(subcommand)]
    Mysql(MysqlCommand),
    /// The keyring component for MySQL, which this build does not know
    #[cfg(not(feature = "mysql"))]
    Mysql(AbsentArgs),
    /// Serve databases to clients of SQL Server (TDS), and manage who may log in
    Serve(Box<ServeArgs>),
    /// The SQLite extension
    #[command(subcommand)]
    Sqlite(SqliteCommand),
    /// Print how a shell or a language loads the SQLite extension
    ShellInit(ShellInitArgs),
    /// Print what completes this command's words in a shell
    #[cfg(feature = "manual")]
    Completions(CompletionsArgs),
    /// Print what completes this command's words in a shell, which this build cannot
    #[cfg(not(feature = "manual"))]
    Completions(AbsentArgs),
    /// Write the manual pages into a directory, for packages
    #[cfg(feature = "manual")]
    #[command(hide = true)]
    ManPages(ManPagesArgs),
    /// Ask a key service what standard input says, for a process that opens a key store
    #[command(hide = true)]
    KeyService,
    /// Tell what encryption costs, on a database of yours or on one made for it
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the bench; `tdekit bench --help` shows them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
}

/// Parses the command line, or ends the process with its help or error.
pub(crate) fn parse() -> Cli {
    let words: Vec<OsString> = env::args_os().collect();
    let matches = without_empty(Cli::command()).try_get_matches_from(&words);
    let matches = matches.unwrap_or_else(|mut error| {
        tips::add(&mut error, &words, &Cli::command());
        error.exit()
    });
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Makes a variable that is set but empty count as unset.
fn without_empty(command: clap::Command) -> clap::Command {
    let is_empty = |name: &std::ffi::OsStr| env::var_os(name).is_some_and(|it| it.is_empty());
    let unset = |argument: clap::Arg| match argument.get_env().is_some_and(is_empty) {
        true => argument.env(Resettable::<OsStr>::Reset),
        false => argument,
    };
    command.mut_args(unset).mut_subcommands(without_empty)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
