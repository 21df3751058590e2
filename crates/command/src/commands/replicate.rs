//! `tdekit replicate`: ships what is committed to a database, and shows how far that is.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tdekit_backup_run::archive::{
    Archive, ArchivePlace, Event, Follower, Settings, State, state_of,
};
use tdekit_backup_run::database::source::{
    Chosen, Database, EncryptionChoice, Wrapping, choose, look, open as open_database,
};
use tdekit_backup_run::labels::{host, now_ms, program, user};
use tdekit_backup_run::signature::Signer;
use tdekit_backup_run::{
    CertificateNames, Compression, Encryption, Labels, RunError, Sign, date_of_ms, downgrade,
};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_key_store::Unlocked;
use tdekit_sqlite_convert::{FileKind, database_path};

use crate::backup::report::size;
use crate::backup::value::{parse_bytes, parse_compression, parse_encryption};
use crate::error::CommandError;
use crate::open::open_store_for;
use crate::progress::{heed_signals, stop_flag};
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
    /// The database, plain or encrypted, in WAL mode; programs go on using it
    #[arg(required = true)]
    database: Option<PathBuf>,
    /// The archive: a directory, or a prefix such as s3://BUCKET/NAME; it is made if there is none
    #[arg(long, value_name = "ARCHIVE", required = true)]
    to: Option<OsString>,
    /// Certificate that opens the archive, by name or thumbprint; may be given repeatedly, and then
    /// each opens it [default: those of an encrypted database]
    #[arg(long, value_name = "NAME")]
    certificate: Vec<String>,
    /// AES_128, AES_192, AES_256, AEGIS_128X2, AEGIS_256X2 or none [default: AES_256 for an
    /// encrypted database or with --certificate, else none]
    #[arg(long, value_name = "ALGORITHM", value_parser = parse_encryption)]
    encryption: Option<EncryptionChoice>,
    /// How often transactions are shipped; a long log is shipped at once
    #[arg(long, value_name = "LENGTH", default_value = "1s", value_parser = parse_length)]
    every: Duration,
    /// Age of a full set at which the next one is made
    #[arg(long, value_name = "LENGTH", default_value = "1d", value_parser = parse_length)]
    snapshot_every: Duration,
    /// Ship what is there now, and end
    #[arg(long)]
    once: bool,
    /// Length of the log up to which it is kept while the archive cannot be reached
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = parse_bytes)]
    log_limit: u64,
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

/// Arguments of `replicate status`.
#[derive(Debug, Args)]
struct StatusArgs {
    /// A database that is followed, or an archive
    place: OsString,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ReplicateArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    match &args.command {
        Some(ReplicateCommand::Status(args)) => status(args),
        None => args.follow.run(global),
    }
}

impl FollowArgs {
    fn run(&self, global: &GlobalArgs) -> Result<(), CommandError> {
        heed_signals();
        let (Some(name), Some(to)) = (&self.database, &self.to) else {
            return Err(CommandError::usage("a database and --to ARCHIVE"));
        };
        let place = ArchivePlace::of(to);
        let (path, area) = look(name)?;
        let unlocked = match FileKind::of(&area) {
            FileKind::Encrypted => Some(open_store_for(name, global)?),
            _ => None,
        };
        let database = open_with(&path, unlocked.as_ref())?;
        let chosen = choose(
            self.encryption,
            &self.certificate,
            Some(&database),
            None,
            (global, || Wrapping::open(global)),
        )?;
        // Before the file is opened again: closing that would drop the locks of this connection.
        drop(database);
        let policy = downgrade::policy(global)?;
        let signer = self.signer(global, &place, policy.signed_by.as_ref(), chosen.as_ref())?;
        downgrade::refuse_backup(&policy, chosen.is_some(), signer.as_ref())?;
        let names: Vec<_> = chosen.iter().flat_map(|(chosen, _)| &chosen.certificates).collect();
        let names: Vec<_> = names.iter().map(|info| info.thumbprint()).collect();
        let recipients = chosen
            .as_ref()
            .map(|(_, wrapping)| CertificateNames { store: wrapping.store(), names: &names });
        let encryption = chosen.as_ref().zip(recipients.as_ref());
        let file_name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let settings = Settings {
            every: self.every,
            snapshot_every: self.snapshot_every,
            max_log_bytes: self.log_limit,
            compression: self.compression,
            encryption: encryption.map(|((chosen, _), recipients)| Encryption {
                algorithm: chosen.algorithm,
                recipients,
            }),
            signer: signer.as_ref().map(|signer| signer as &dyn Sign),
            labels: Labels {
                database_name: file_name.into_owned(),
                path: path.to_string_lossy().into_owned(),
                host: host(),
                user: user(),
                program: program(),
                ..Labels::default()
            },
            take_over: self.take_over,
            stop: stop_flag(),
        };
        let open = Box::new(move || open_with(&path, unlocked.as_ref()));
        let mut follower = Follower::begin(&place, open, settings)?;
        if let Some((chosen, wrapping)) = &chosen {
            let warn = |info| output::warn_of_certificate(wrapping.store(), info);
            chosen.certificates.iter().for_each(warn);
        }
        Ok(follower.run(self.once, stop_flag(), &mut |event| self.tell(&place, &event))?)
    }

    fn signer(
        &self,
        global: &GlobalArgs,
        place: &ArchivePlace,
        required: Option<&String>,
        chosen: Option<&(Chosen, Wrapping)>,
    ) -> Result<Option<Signer>, CommandError> {
        if self.no_sign {
            return Ok(None);
        }
        let selector = self.sign.as_ref().or(required);
        if let ArchivePlace::Prefix(_) = place {
            return match selector {
                Some(_) => Err(CommandError::usage(
                    "sets on an object store are not signed: an archive in a directory is",
                )),
                None => Ok(None),
            };
        }
        let Some(selector) = selector else { return Ok(Signer::of_sealed(chosen)?) };
        let unlocked = match chosen {
            Some((_, Wrapping::Unlocked(unlocked))) => Arc::clone(unlocked),
            _ => Arc::new(session::open_unlocked_store(global)?),
        };
        Ok(Some(Signer::new(unlocked, selector, global)?))
    }

    fn tell(&self, place: &ArchivePlace, event: &Event) {
        let at = date_of_ms(now_ms());
        let archive = place.shown();
        match event {
            Event::NewChain(why) => {
                output::note(format_args!("{at} a full set begins a new chain: {why}"));
            }
            Event::Full { number, bytes, pages } => output::note(format_args!(
                "{at} {archive}: object {number}, a full set of {pages} pages, {}",
                size(*bytes)
            )),
            Event::Log { end, bytes } if !self.quiet => output::note(format_args!(
                "{at} {archive}: up to transaction {end}, {}",
                size(*bytes)
            )),
            Event::Log { .. } => {}
            Event::Failed(error, wait) => output::warning(format_args!(
                "{at} not shipped: {error}; again in {:.1} s",
                wait.as_secs_f64()
            )),
            Event::KeyChange => output::note(format_args!(
                "{at} the key of the database is being changed, which needs the log"
            )),
            Event::Goes(number) => {
                output::note(format_args!("{at} {archive} goes on behind object {number}"));
            }
        }
    }
}

/// Opens the database at a path.
fn open_with(
    path: &std::path::Path,
    unlocked: Option<&Arc<Unlocked>>,
) -> Result<Database, RunError> {
    let (path, area) = look(path)?;
    open_database(path.clone(), &area, || {
        unlocked.cloned().ok_or(RunError::SourceChanged {
            path,
            reason: "it is encrypted now, and was not when the process began".to_owned(),
        })
    })
}

/// What is known of a database that is followed, as JSON.
#[derive(Serialize)]
struct Followed<'a> {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    database: Option<PathBuf>,
    /// Milliseconds between now and the last time when everything was shipped, or something was.
    last_shipped: Option<String>,
    last_transaction: Option<String>,
    #[serde(flatten)]
    state: &'a State,
}

/// An archive, as JSON.
#[derive(Serialize)]
struct Held {
    archive: String,
    objects: usize,
    bytes: u64,
    chains: Vec<HeldChain>,
}

#[derive(Serialize)]
struct HeldChain {
    first: u64,
    last: u64,
    bytes: u64,
    begun: String,
    finished: String,
    encrypted: bool,
    host: String,
    database: String,
}

fn status(args: &StatusArgs) -> Result<(), CommandError> {
    let place = ArchivePlace::of(&args.place);
    match &place {
        ArchivePlace::Directory(path) if !path.is_dir() => database_status(path, args.json),
        _ => archive_status(&place, args.json),
    }
}

fn database_status(path: &std::path::Path, json: bool) -> Result<(), CommandError> {
    let path = database_path(path)?;
    let Some(state) = state_of(&path)? else {
        return Err(CommandError::usage(format!(
            "nothing was shipped from {}: tdekit replicate {} --to ARCHIVE",
            path.display(),
            path.display()
        )));
    };
    let shipped = state.shipped.as_ref();
    let last_shipped = shipped.map(|shipped| date_of_ms(shipped.shipped_ms));
    let last_transaction = shipped.map(|shipped| date_of_ms(shipped.time_ms));
    if json {
        let database = Some(path);
        return Ok(output::json(&Followed {
            database,
            last_shipped,
            last_transaction,
            state: &state,
        })?);
    }
    output::line(format_args!("{} to {}", path.display(), state.archive))?;
    if let Some(shipped) = shipped {
        output::line(format_args!(
            "  object {} shipped at {}, its last transaction of {}",
            shipped.number,
            date_of_ms(shipped.shipped_ms),
            date_of_ms(shipped.time_ms)
        ))?;
        output::line(format_args!(
            "  the chain begins with object {} of {}: {}, and {} of log sets",
            shipped.first,
            date_of_ms(shipped.snapshot_ms),
            size(shipped.full_bytes),
            size(shipped.log_bytes)
        ))?;
    }
    match &state.error {
        Some(error) => Ok(output::line(format_args!("  the last try failed: {error}"))?),
        None => Ok(()),
    }
}

fn archive_status(place: &ArchivePlace, json: bool) -> Result<(), CommandError> {
    let archive = Archive::open(place)?;
    let chains = archive.chains()?;
    let bytes = archive.objects().values().sum();
    let held = |chain: tdekit_backup_run::archive::HeldChain| HeldChain {
        first: chain.first,
        last: chain.last,
        bytes: chain.bytes,
        begun: date_of_ms(chain.begun_ms),
        finished: date_of_ms(chain.finished_ms),
        encrypted: chain.encrypted,
        host: chain.host,
        database: chain.database,
    };
    let chains: Vec<_> = chains.into_iter().map(held).collect();
    let objects = archive.objects().len();
    if json {
        return Ok(output::json(&Held { archive: archive.shown(), objects, bytes, chains })?);
    }
    for chain in &chains {
        output::line(format_args!(
            "Objects {} to {}: {} from {} to {}, {}, {}",
            chain.first,
            chain.last,
            chain.database,
            chain.begun,
            chain.finished,
            size(chain.bytes),
            if chain.encrypted { "encrypted" } else { "plain" }
        ))?;
    }
    Ok(output::line(format_args!("{}: {objects} objects, {}", archive.shown(), size(bytes)))?)
}
