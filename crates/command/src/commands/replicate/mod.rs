//! `tdekit replicate`: ships what is committed to databases, and shows how far that is.

mod again;
mod config;
mod exec;
mod follow;
mod in_use;
mod keep;
mod many;
mod prometheus;
mod status;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tdekit_backup_run::Compression;
use tdekit_backup_run::database::source::EncryptionChoice;
use tdekit_console::GlobalArgs;
use tdekit_console::storage::StorageArgs;

use self::again::follow;
use self::exec::Alarm;
pub(crate) use self::follow::open_with;
use self::follow::{Shared, Wanted, tell};
use self::status::StatusArgs;
use super::prune::KeepArgs;
use crate::backup::value::{parse_bytes, parse_compression, parse_encryption, warn_of_legacy};
use crate::error::CommandError;
use crate::progress::heed_signals;
use crate::when::parse_length;

/// Arguments of `replicate`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ReplicateArgs {
    #[command(subcommand)]
    command: Option<ReplicateCommand>,
    #[command(flatten)]
    follow: FollowArgs,
}

/// Commands beside following.
#[derive(Debug, Subcommand)]
enum ReplicateCommand {
    /// Show what an archive holds, or how far the log of a database is shipped
    Status(StatusArgs),
}

/// Arguments of `replicate` itself.
#[derive(Debug, Args)]
struct FollowArgs {
    /// The database, plain or encrypted, best in WAL mode; programs go on using it
    #[arg(required_unless_present = "config")]
    database: Option<PathBuf>,
    /// The archive: a directory, which is made if there is none, in one that is there; or a prefix
    /// such as s3://BUCKET/NAME
    #[arg(long, value_name = "ARCHIVE", required_unless_present = "config")]
    to: Option<OsString>,
    /// Follow the databases of this file, which has for each what is an option here
    #[arg(long, value_name = "FILE", conflicts_with_all = ["database", "to", "certificate",
        "encryption", "every", "differential_every", "snapshot_every", "log_limit", "throttle",
        "compression", "sign", "no_sign", "take_over", "object_lock", "storage_class", "exec",
        "keep", "keep_last", "keep_daily", "keep_weekly", "keep_monthly"])]
    config: Option<PathBuf>,
    /// Certificate that opens the archive, by name or thumbprint; may be given repeatedly, and then
    /// each opens it [default: those of an encrypted database]
    #[arg(long, value_name = "NAME")]
    certificate: Vec<String>,
    /// AES_128, AES_192, AES_256, AEGIS_128X2, AEGIS_256X2, TRIPLE_DES_3KEY (legacy), or none
    /// [default: AES_256 for an encrypted database or with --certificate, else none]
    #[arg(long, value_name = "ALGORITHM", value_parser = parse_encryption)]
    encryption: Option<EncryptionChoice>,
    /// How often transactions are shipped; a long log is shipped at once
    #[arg(long, value_name = "LENGTH", default_value = "1s", value_parser = parse_length)]
    every: Duration,
    /// How often a database that is not in WAL mode is read, if it was written to: what differs is
    /// shipped as one transaction
    #[arg(long, value_name = "LENGTH", default_value = "10m", value_parser = parse_length)]
    differential_every: Duration,
    /// Age of a full set at which the next one is made
    #[arg(long, value_name = "LENGTH", default_value = "1d", value_parser = parse_length)]
    snapshot_every: Duration,
    /// Ship what is there now, and end
    #[arg(long)]
    once: bool,
    /// Length of the log up to which it is kept while the archive cannot be reached or takes too
    /// little
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = parse_bytes)]
    log_limit: u64,
    /// Most bytes of pages to ship in a second, before compression, such as 5MB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    throttle: Option<u64>,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Command of the shell to run when a failure begins, and when it ends: variables say which
    #[arg(long, value_name = "COMMAND")]
    exec: Option<OsString>,
    /// none, lz4, zstd or zstd:LEVEL (-7 to 19)
    #[arg(long, value_name = "HOW", default_value = "zstd", value_parser = parse_compression)]
    compression: Compression,
    /// Sign the sets with this certificate [default: encrypted sets in a directory with the first
    /// of their certificates whose private key is in the key store, where that opens by itself]
    #[arg(long, value_name = "NAME")]
    sign: Option<String>,
    /// Do not sign the sets
    #[arg(long, conflicts_with = "sign")]
    no_sign: bool,
    /// Begin a chain behind the objects of another process, which then stops
    #[arg(long)]
    take_over: bool,
    /// Say nothing of single sets
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ReplicateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    match &args.command {
        Some(ReplicateCommand::Status(args)) => status::run(args),
        None => args.follow.run(global),
    }
}

impl FollowArgs {
    fn run(&self, global: &GlobalArgs) -> Result<(), CommandError> {
        heed_signals();
        if let Some(file) = &self.config {
            return many::run(file, (self.once, self.quiet), global);
        }
        let (Some(database), Some(to)) = (&self.database, &self.to) else {
            return Err(CommandError::usage("a database and --to ARCHIVE"));
        };
        warn_of_legacy(self.encryption);
        let wanted = Wanted {
            database: database.clone(),
            to: config::named(to, database)?,
            certificates: self.certificate.clone(),
            encryption: self.encryption,
            every: self.every,
            differential_every: self.differential_every,
            snapshot_every: self.snapshot_every,
            log_limit: self.log_limit,
            throttle: self.throttle,
            storage: self.storage.storage(),
            exec: self.exec.clone(),
            keep: self.keep.given(),
            compression: self.compression,
            sign: self.sign.clone(),
            no_sign: self.no_sign,
            take_over: self.take_over,
        };
        let shared = Shared::new(global, 1);
        let (mut alarm, which) = (Alarm::new(&wanted), (0, self.once));
        let mut heed = |event| tell(&wanted, "", self.quiet, &event);
        follow(&wanted, which, (&shared, ""), &mut alarm, &mut heed)
    }
}
