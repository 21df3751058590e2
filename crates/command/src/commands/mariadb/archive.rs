//! `tdekit mariadb archive`: ships binary logs, each as a media set of one stream.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tdekit_backup_run::archive::wait_after;
use tdekit_backup_run::database::source::{Chosen, Wrapping, choose};
use tdekit_backup_run::labels::{host, program, user};
use tdekit_backup_run::needed::damaged_sets;
use tdekit_backup_run::place::{self, Place, targets_kept};
use tdekit_backup_run::signature::Signer;
use tdekit_backup_run::uses::note_uses;
use tdekit_backup_run::{
    BackupJob, CertificateNames, Compression, Encryption, Labels, Mode, ObjectFault, Root,
    RunError, Sign, Source, StreamSource, backup, downgrade, history, sign,
};
use tdekit_console::storage::StorageArgs;
use tdekit_console::{Failure, GlobalArgs, output, session};
use tdekit_key_crypto::Kind;
use tdekit_mariadb::Keyring;
use tdekit_mariadb_admin::{
    BinaryLog, BinaryLogs, Client, Connection, Ended, MariadbError, PlainLog,
};

use super::connection::ConnectionArgs;
use crate::backup::binlog_gaps::{Gap, ReportedGaps};
use crate::backup::binlogs::{Held, HeldLog, SUFFIX, description_of, gaps, held, is_log_named};
use crate::backup::progress::run as steer;
use crate::backup::report::size;
use crate::backup::value::parse_compression;
use crate::error::CommandError;
use crate::progress::{heed_signals, stop_flag};
use crate::when::parse_length;

/// Interval of questions to the server.
const LOOK: Duration = Duration::from_secs(2);
/// Interval of looks at the flag that ends the process.
const NAP: Duration = Duration::from_millis(100);

/// Arguments of `mariadb archive`.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The archive: a directory, or a prefix such as s3://BUCKET/NAME; it is made if there is none
    #[arg(long, value_name = "ARCHIVE")]
    to: OsString,
    /// Certificate that opens the archive, by name or thumbprint; may be given repeatedly, and then
    /// each opens it
    #[arg(long, value_name = "NAME", required = true)]
    certificate: Vec<String>,
    /// Have the server begin a new log so often, if anything was committed [default: never]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    every: Option<Duration>,
    /// Ship the logs that are closed now, and end; with --every, begin a new log first
    #[arg(long)]
    once: bool,
    /// none, lz4, zstd or zstd:LEVEL (-7 to 19)
    #[arg(long, value_name = "HOW", default_value = "zstd", value_parser = parse_compression)]
    compression: Compression,
    /// Do not sign the sets
    #[arg(long)]
    no_sign: bool,
    #[command(flatten)]
    storage: StorageArgs,
    /// Say nothing of single logs
    #[arg(long)]
    quiet: bool,
    /// Print JSON when everything is shipped
    #[arg(long, requires = "once")]
    json: bool,
}

/// Result of a run with --once, as JSON.
#[derive(Debug, Default, Serialize)]
struct Report {
    archive: String,
    shipped: Vec<ShippedLog>,
    /// Ranges of logs that are not in the archive and were purged on the server.
    gaps: Vec<ReportedGap>,
    /// What is in the place of a log and does not hold it.
    damaged: Vec<String>,
}

/// A log that was shipped.
#[derive(Debug, Serialize)]
struct ShippedLog {
    name: String,
    bytes: u64,
    stored_bytes: u64,
    /// True if it was gone from the middle of the archive.
    again: bool,
}

#[derive(Debug, Serialize)]
struct ReportedGap {
    first: u64,
    last: u64,
    /// False if an earlier run reported it.
    new: bool,
}

/// Ships until the process is told to end; with --once what is there.
pub(crate) fn run(args: &ArchiveArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    let connection = args.connection.connection();
    let mut shipper = Shipper::new(args, global, &connection)?;
    if args.once {
        if args.every.is_some() {
            shipper.begin_log()?;
        }
        shipper.ship()?;
        if args.json {
            output::json(&shipper.report)?;
        }
        return shipper.occupied.map_or(Ok(()), Err);
    }
    let (mut failures, mut due) = (0, Instant::now());
    let mut flushes = args.every.map(|every| Instant::now() + every);
    while !stop_flag().load(Ordering::Relaxed) {
        if Instant::now() < due {
            sleep(NAP);
            continue;
        }
        let flush = flushes.is_some_and(|at| at <= Instant::now());
        let shipped = match flush {
            true => shipper.begin_log().and_then(|()| shipper.ship()),
            false => shipper.ship(),
        };
        match shipped {
            Ok(()) => {
                (failures, due) = (0, Instant::now() + LOOK);
                if let Some(every) = args.every.filter(|_| flush) {
                    flushes = Some(Instant::now() + every);
                }
            }
            Err(error) if may_pass(&error) => {
                let wait = wait_after(failures);
                output::warning(format_args!("{error}; the next try follows in {wait:.0?}"));
                (failures, due) = (failures.saturating_add(1), Instant::now() + wait);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true for a failure of the network, of a disk, or of a server that is away.
fn may_pass(error: &CommandError) -> bool {
    let away = matches!(error, CommandError::Mariadb(MariadbError::Server(_)));
    away || matches!(error.kind(), Kind::Io | Kind::Busy)
}

/// Ships the logs of a server.
struct Shipper<'a> {
    args: &'a ArchiveArgs,
    global: &'a GlobalArgs,
    client: Client<'a>,
    /// The certificates that open the sets, and the store that wraps for them.
    seals: (Chosen, Wrapping),
    signer: Option<Signer>,
    /// Keys of encrypted logs, once they are needed.
    keyring: OnceCell<Arc<Keyring>>,
    /// The archive's last log.
    last: Option<BinaryLog>,
    /// The numbers of the archive's logs.
    held: BTreeSet<u64>,
    /// Gaps that this run reported.
    reported: BTreeSet<Gap>,
    /// Those that earlier runs reported.
    before: ReportedGaps,
    report: Report,
    /// The first error of a missing log whose place in the archive holds something else.
    occupied: Option<CommandError>,
    /// The last transaction when a new log was begun.
    begun_at: Option<String>,
}

impl<'a> Shipper<'a> {
    fn new(
        args: &'a ArchiveArgs,
        global: &'a GlobalArgs,
        connection: &'a Connection,
    ) -> Result<Self, CommandError> {
        // Before the server is asked: that the certificates are there.
        let wrapping = || Wrapping::open(global);
        let seals = choose(None, &args.certificate, None, None, (global, wrapping))?;
        let seals = seals.ok_or(RunError::CertificateNeeded)?;
        let signer = match args.no_sign {
            true => None,
            false => Signer::of_sealed(Some(&seals))?,
        };
        downgrade::refuse_backup(&downgrade::policy(global)?, true, signer.as_ref())?;
        let place = Place::of(&object_of(&args.to, "binlog.000001"));
        targets_kept(&[place], 0, &args.storage.storage())?;
        let client = connection.client().ok_or(MariadbError::NoServer)?;
        if let Place::File(path) = Place::of(&args.to)
            && !path.exists()
        {
            let mut dir = std::fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut dir, 0o700);
            dir.create(&path).map_err(|error| CommandError::io("make", &path, error))?;
        }
        let root = match Place::of(&args.to) {
            Place::Object(address) => Root::Prefix(format!("{}/", address.trim_end_matches('/'))),
            _ => Root::of(&args.to)?,
        };
        if matches!(root, Root::Media(_)) {
            return Err(CommandError::usage("--to takes a directory or a prefix"));
        }
        let Held { logs, unreadable } = held(&root)?;
        for reason in unreadable {
            output::warning(format_args!("{reason}"));
        }
        warn_of_damaged(global, logs.values())?;
        let held = logs.keys().copied().collect();
        let last = logs.into_values().next_back();
        let last =
            last.map(|log| BinaryLog { name: log.name, bytes: log.bytes, begins: log.begins });
        Ok(Self {
            args,
            global,
            client,
            seals,
            signer,
            keyring: OnceCell::new(),
            last,
            held,
            reported: BTreeSet::new(),
            before: ReportedGaps::of(global, &Place::of(&args.to)),
            report: Report { archive: root.shown(), ..Report::default() },
            occupied: None,
            begun_at: None,
        })
    }

    /// Has the server begin a new log, if there is a transaction in the one that it writes.
    fn begin_log(&mut self) -> Result<(), CommandError> {
        let rows = self.client.rows("SELECT @@gtid_binlog_pos")?;
        let at = rows.first().and_then(|row| row.first()).cloned().unwrap_or_default();
        if self.begun_at.as_ref() == Some(&at) {
            return Ok(());
        }
        self.client.rows("FLUSH LOCAL BINARY LOGS")?;
        self.begun_at = Some(at);
        Ok(())
    }

    /// Ships the closed logs that the archive lacks: new ones, then those that are gone from its
    /// middle. Logs before its first one may have been removed on purpose.
    fn ship(&mut self) -> Result<(), CommandError> {
        let server = BinaryLogs::of(&self.client)?;
        let due = server.due(self.last.as_ref(), &gaps(self.held.iter().copied()))?;
        self.tell_gaps(&due.gaps);
        for log in due.logs {
            if let Some(log) = self.ship_one(&server, log)? {
                self.last = Some(log);
            }
        }
        for log in due.again {
            match self.ship_one(&server, log) {
                // A damaged object in the middle must not keep later logs from being shipped.
                Err(error @ CommandError::DamagedLog { .. }) => {
                    output::warning(format_args!("{error}"));
                    self.report.damaged.push(error.to_string());
                    self.occupied.get_or_insert(error);
                    self.held.extend(log.number());
                }
                shipped => {
                    if let Some(BinaryLog { name, .. }) = shipped? {
                        if let Some(last) = self.report.shipped.last_mut() {
                            last.again = true;
                        }
                        let what = "was gone from the archive, and was shipped again";
                        output::warning(format_args!("{name} {what}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// A gap is a warning of the first run that finds it, and a status of those after it.
    fn tell_gaps(&mut self, gaps: &[Gap]) {
        let args = self.args;
        for gap in gaps.iter().filter(|gap| self.reported.insert(**gap)) {
            let ((first, last), new) = (*gap, !self.before.has(*gap));
            self.report.gaps.push(ReportedGap { first, last, new });
            if new {
                output::warning(format_args!(
                    "binary logs {first} to {last} are not in the archive, and were purged on the \
                     server: nothing is replayed across that. Make a new full backup of the server"
                ));
            } else if !args.quiet && !args.json {
                output::note(format_args!(
                    "note: as reported before, nothing is replayed across the missing binary logs \
                     {first} to {last}"
                ));
            }
        }
        if let Err(error) = self.before.record(gaps) {
            output::warning(format_args!("the next run warns of the gaps again: {error}"));
        }
    }

    /// Ships a log, unless the process is to end.
    fn ship_one(
        &mut self,
        server: &BinaryLogs,
        log: &BinaryLog,
    ) -> Result<Option<BinaryLog>, CommandError> {
        if stop_flag().load(Ordering::Relaxed) {
            return Ok(None);
        }
        let log = BinaryLog { begins: Some(server.begins(&log.name)?), ..log.clone() };
        self.ship_log(&server.directory.join(&log.name), &log)?;
        self.held.extend(log.number());
        Ok(Some(log))
    }

    fn ship_log(&mut self, path: &Path, log: &BinaryLog) -> Result<(), CommandError> {
        let (args, global) = (self.args, self.global);
        let plain = PlainLog::open(path, || self.keyring())?;
        let (reader, end) = plain.split();
        let (chosen, wrapping) = &self.seals;
        let signer = self.signer.as_ref();
        let names: Vec<_> = chosen.certificates.iter().map(|info| info.thumbprint()).collect();
        let recipients = CertificateNames { store: wrapping.store(), names: &names };
        let places = [Place::of(&object_of(&args.to, &log.name))];
        let (end, ended) = (Mutex::new(Some(end)), Mutex::new(None));
        let take = |it: &Mutex<Option<_>>| it.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The set counts only if its bytes are those of the whole log.
        let whole = || {
            let Some(end) = take(&end) else { return Err(RunError::Internal("a log of two ends")) };
            let result = end.wait();
            let failed = result.is_err();
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            if failed { Err(RunError::Cancelled) } else { Ok(()) }
        };
        let job = BackupJob {
            before_publish: Some(&whole),
            mode: Mode::Create,
            compression: args.compression,
            encryption: Some(Encryption { algorithm: chosen.algorithm, recipients: &recipients }),
            signer: signer.map(|signer| signer as &dyn Sign),
            labels: Labels {
                set_name: log.name.clone(),
                database_name: log.name.clone(),
                path: path.to_string_lossy().into_owned(),
                host: host(),
                user: user(),
                description: description_of(log.bytes, log.begins.as_deref().unwrap_or_default()),
                program: program(),
            },
            ..BackupJob::new(Source::Stream(StreamSource { reader: Box::new(reader) }))
        };
        let storage = args.storage.storage();
        let to = targets_kept(&places, log.bytes, &storage)?;
        let made = backup(job, to, &steer(0, None, &|_| {}));
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended = ended.transpose().map_err(CommandError::from)?;
        let outcome = made.map_err(|error| taken(error, &places, &log.name))?;
        if let Some(signer) = signer.filter(|_| !outcome.signed) {
            sign(targets_kept(&places, 0, &storage)?, &outcome, signer)?;
        }
        note_uses(global, wrapping.store(), &chosen.certificates, (outcome.media_id, &places));
        let opened = place::open(&places)?;
        history::record(global, &opened.media, &opened.devices, &[outcome.position]);
        if ended == Some(Ended::Short) {
            output::warning(format_args!(
                "{} ends inside an event, as when a server was stopped hard; what is before that \
                 was shipped",
                log.name
            ));
        }
        self.report.shipped.push(ShippedLog {
            name: log.name.clone(),
            bytes: outcome.payload_bytes,
            stored_bytes: outcome.media_bytes,
            again: false,
        });
        if !args.quiet && !args.json {
            let (bytes, stored) = (size(outcome.payload_bytes), size(outcome.media_bytes));
            output::line(format_args!("Shipped {}: {bytes}, {stored} stored", log.name))?;
        }
        Ok(())
    }

    fn keyring(&self) -> Result<Arc<Keyring>, CommandError> {
        if let Some(keyring) = self.keyring.get() {
            return Ok(Arc::clone(keyring));
        }
        let store = session::open_unlocked_store(self.global)?;
        let keyring = Arc::new(Keyring::of(store).map_err(MariadbError::from)?);
        Ok(Arc::clone(self.keyring.get_or_init(|| keyring)))
    }
}

/// Warns of logs of the archive that were damaged when they were last read: what is shipped behind
/// one can be replayed only when it was shipped again, or behind a new backup.
fn warn_of_damaged<'a>(
    global: &GlobalArgs,
    logs: impl Iterator<Item = &'a HeldLog>,
) -> Result<(), CommandError> {
    let damaged = damaged_sets(global)?;
    let is_damaged =
        |log: &&HeldLog| log.set().is_some_and(|set| damaged.contains(&hex::encode(set.set_id)));
    for log in logs.filter(is_damaged) {
        let object = log.places.first().map(Place::shown).unwrap_or_default();
        output::warning(format_args!(
            "{object} was damaged when it was last read: nothing is replayed across it. Move it to \
             another place, and the log is shipped again while the server has it; otherwise make a \
             new full backup of the server"
        ));
    }
    Ok(())
}

/// Returns the place of a log in an archive.
fn object_of(archive: &OsStr, name: &str) -> OsString {
    match Place::of(archive) {
        Place::Object(address) => {
            format!("{}/{name}{SUFFIX}", address.trim_end_matches('/')).into()
        }
        _ => Path::new(archive).join(format!("{name}{SUFFIX}")).into(),
    }
}

/// Returns the error for a log that cannot be shipped. Where its name is taken, but not by the log,
/// what is there is damaged: it is named, with the way out.
fn taken(error: RunError, places: &[Place], name: &str) -> CommandError {
    let exists = matches!(
        error,
        RunError::Exists { .. }
            | RunError::Taken { .. }
            | RunError::Object { fault: ObjectFault::Exists, .. }
    );
    if !exists {
        return error.into();
    }
    let reason = match place::open(places) {
        Ok(opened) if is_log_named(&opened.media, name) => {
            let object = places.first().map(Place::shown).unwrap_or_default();
            return CommandError::LogTaken { object };
        }
        Ok(_) => "it does not hold the log of its name".to_owned(),
        Err(found) => found.to_string(),
    };
    let object = places.first().map(Place::shown).unwrap_or_default();
    CommandError::DamagedLog { object, reason }
}
