//! `tdekit backup`: a backup set of a database, or of standard input.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serde::Serialize;
use tdekit_backup_run::database::source::{
    Chosen, Database, EncryptionChoice, Wrapping, choose, look, open as open_database,
};
use tdekit_backup_run::downgrade;
use tdekit_backup_run::elsewhere::{self, bases_read};
use tdekit_backup_run::history;
use tdekit_backup_run::inherit::{Inherited, refuse_downgrade};
use tdekit_backup_run::input::Input;
use tdekit_backup_run::labels::{host, now_ms, program, user};
use tdekit_backup_run::logged::BackupEntry;
use tdekit_backup_run::needed::{refuse_binary_log, refuse_needed, refuse_unexpired};
use tdekit_backup_run::place;
use tdekit_backup_run::place::{Opened, Place, is_missing, open, targets_kept};
use tdekit_backup_run::signature::Signer;
use tdekit_backup_run::uses::{forget_uses, known_databases, note_uses, uses_of};
use tdekit_backup_run::{
    BackupJob, BackupOutcome, CertificateNames, Checked, Compression, Encryption, Labels, Layout,
    Media, Mode, RunError, SetKind, Sign, Source, StreamSource, UnwrapSecret, backup, date_of_ms,
    sign,
};
use tdekit_console::storage::StorageArgs;
use tdekit_console::{ConsoleError, Failure, GlobalArgs, output, session};
use tdekit_key_store::{BackupPolicy, KeyStore, Unlocked};
use tdekit_sqlite_convert::{FileKind, header_of, is_another, refuse_lost};

use crate::backup::many::{self, Subject};
use crate::backup::progress::{Reporter, rate, run as steer};
use crate::backup::report::{SetReport, compression_of, ratio, size, warn_findings};
use crate::backup::value::{
    parse_bytes, parse_compression, parse_encryption, parse_expire, parse_threads, warn_of_legacy,
};
use crate::error::CommandError;
use crate::open::open_store_for;
use crate::progress::{heed_signals, stop_flag};
use crate::when::parse_length;

/// The name of standard output.
const STANDARD: &str = "-";

/// Arguments of `backup`.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("source").required(true).args(["databases", "stdin"])))]
#[command(group(ArgGroup::new("onto").args(["append", "init"])))]
pub(crate) struct BackupArgs {
    /// The databases, plain or encrypted; they may be in use
    #[arg(value_name = "DATABASE")]
    databases: Vec<PathBuf>,
    /// Back up the bytes of standard input
    #[arg(long, requires = "name", conflicts_with_all = ["differential", "log", "copy_only"])]
    stdin: bool,
    /// Name of the set; with --stdin also the name under which the bytes are listed
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The media set: a file, an address such as s3://BUCKET/NAME, or - for standard output; given
    /// repeatedly, each gets the same bytes (mirrors), or its share with --stripe; {name} stands
    /// for the name of the database's file without its ending, {date} for the day (UTC)
    #[arg(long, value_name = "FILE", required = true)]
    to: Vec<OsString>,
    /// Split the set over the files of --to
    #[arg(long)]
    stripe: bool,
    /// Append the set to the media set, which is made if it does not exist
    #[arg(long)]
    append: bool,
    /// Make a new media set in place of one whose sets have all expired
    #[arg(long)]
    init: bool,
    /// With --init: replace whatever is there, expired or not
    #[arg(long, requires = "init")]
    replace: bool,
    /// none, lz4, zstd or zstd:LEVEL (-7 to 19)
    #[arg(long, value_name = "HOW", default_value = "zstd", value_parser = parse_compression)]
    compression: Compression,
    /// AES_128, AES_192, AES_256, AEGIS_128X2, AEGIS_256X2, TRIPLE_DES_3KEY (legacy), or none
    /// [default: AES_256 for an encrypted database or with --certificate, else none]
    #[arg(long, value_name = "ALGORITHM", value_parser = parse_encryption)]
    encryption: Option<EncryptionChoice>,
    /// Certificate that opens the set, by name or thumbprint; may be given repeatedly, and then
    /// each opens it [default: those of the encrypted database]
    #[arg(long, value_name = "NAME")]
    certificate: Vec<String>,
    /// Description, kept in the set's header, which anyone can read
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// When the set may be overwritten: a number of days, 90d, 2y, 2036-11-21 [default: never]
    #[arg(long, value_name = "WHEN", value_parser = parse_expire)]
    expire: Option<i64>,
    /// Make a set that differential sets do not build on
    #[arg(long, conflicts_with = "differential")]
    copy_only: bool,
    /// Back up only the pages that changed since the last full set of the same media set; appends
    #[arg(long, conflicts_with = "init")]
    differential: bool,
    /// Make a log backup: the pages that changed since the last full set or log backup of the same
    /// media set; appends
    #[arg(long, conflicts_with_all = ["init", "differential", "copy_only"])]
    log: bool,
    /// Make a differential set if the newest full one at the targets is younger than this, such as
    /// 7d, and a full one otherwise; with {date} in them, a full set begins a new media set
    #[arg(long, value_name = "AGE", value_parser = parse_length,
        conflicts_with_all = ["stdin", "differential", "log", "copy_only", "init", "append"])]
    differential_after: Option<Duration>,
    /// Most bytes of the source to read in a second, such as 50MB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    throttle: Option<u64>,
    /// Threads that compress and seal [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Sign the set with this certificate [default: an encrypted set with the first of its
    /// certificates whose private key is in the key store, where that opens by itself]
    #[arg(long, value_name = "NAME")]
    sign: Option<String>,
    /// Do not sign the set; to restore it over an encrypted database then takes
    /// --allow-unauthenticated
    #[arg(long, conflicts_with = "sign")]
    no_sign: bool,
    /// Back up a database without SQLite's quick_check of what was read
    #[arg(long, conflicts_with = "stdin")]
    no_check: bool,
    /// Allow plain and encrypted sets in one media set; anyone who has the file can read the plain
    /// ones
    #[arg(long)]
    mixed: bool,
    #[command(flatten)]
    storage: StorageArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Report on standard error after every PERCENT of the work
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true,
        default_missing_value = "10", value_parser = clap::value_parser!(u8).range(1..=100))]
    stats: Option<u8>,
}

/// Runs the command.
pub(crate) fn run(args: &BackupArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    let several = args.databases.len() > 1;
    if !several {
        let made = back_up(args, global, args.databases.first())?;
        return match made {
            Some(made) if args.json => Ok(output::json(&made)?),
            _ => Ok(()),
        };
    }
    if !args.append && !many::have_names(&args.to) {
        let told = "several databases take {name} in each --to, or --append";
        return Err(CommandError::usage(told));
    }
    let same = many::namesake(&args.databases).filter(|_| many::have_names(&args.to));
    if let Some((one, other)) = same {
        let told = format!("{} and {} have one {{name}}", one.display(), other.display());
        return Err(CommandError::usage(told));
    }
    let (mut ends, mut failures) = (Vec::new(), Vec::new());
    for database in &args.databases {
        match back_up(args, global, Some(database)) {
            Ok(made) => ends.extend(made.map(|made| End::Made(Box::new(made)))),
            Err(error) => {
                output::note(format_args!("error: {}: {error}", database.display()));
                if let Some(hint) = error.hint() {
                    output::note(format_args!("hint: {hint}"));
                }
                failures.push(error.kind());
                ends.push(End::Failed { database: database.clone(), error: error.to_string() });
            }
        }
        if stop_flag().load(Ordering::Relaxed) {
            break;
        }
    }
    if args.json {
        output::json(&ends)?;
    }
    let all = args.databases.len();
    match many::worst(&failures) {
        Some(kind) => Err(CommandError::NotBackedUp { kind, failed: failures.len(), all }),
        None => Ok(()),
    }
}

/// Makes a set of a database, or of standard input, at the targets that its name and the date give.
fn back_up(
    args: &BackupArgs,
    global: &GlobalArgs,
    database: Option<&PathBuf>,
) -> Result<Option<Made>, CommandError> {
    let name = match (database, &args.name) {
        (Some(database), _) => many::name_of(database),
        (None, name) => name.clone().unwrap_or_default().into(),
    };
    let mut one = args.clone();
    one.to = many::expanded(&args.to, &name, now_ms())?;
    one.databases = database.cloned().into_iter().collect();
    let Some((age, database)) = args.differential_after.zip(database) else {
        return back_up_one(&one, global);
    };
    // A full set begins a media set, or is appended to the one that is there.
    one.append = true;
    let (path, area) = look(database)?;
    let file_name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let file_id = header_of(&path, &area).map_or([0; 16], |header| header.file_id);
    let subject = Subject { name: &file_name, file_id };
    if let Some(to) = many::differential(&args.to, (&name, subject), age)? {
        let differential = BackupArgs { to, differential: true, append: false, ..one.clone() };
        match back_up_one(&differential, global) {
            Err(CommandError::Console(ConsoleError::Run(RunError::NoBase { reason }))) => {
                output::note(format_args!("note: a full set is made: {reason}"));
            }
            made => return made,
        }
    }
    back_up_one(&one, global)
}

/// Makes a set; returns what was made, if JSON was asked for.
fn back_up_one(args: &BackupArgs, global: &GlobalArgs) -> Result<Option<Made>, CommandError> {
    let places = Place::all(&args.to)?;
    args.check(&places)?;
    let database = match args.databases.first() {
        Some(name) => {
            let (path, area) = look(name)?;
            refuse_remains(&path, &area, global)?;
            Some(open_database(path, &area, || open_store_for(name, global))?)
        }
        None => None,
    };
    let mode = args.mode(global, &places)?;
    let bases = args.bases(global, &places, database.as_ref())?;
    let inherited = match mode {
        Mode::Append => Inherited::of_chain(&places, &bases)?,
        Mode::Create | Mode::Replace => None,
    };
    if mode == Mode::Append {
        history::refuse_cut(global, &places)?;
    }
    let chosen = choose(
        args.encryption,
        &args.certificate,
        database.as_ref(),
        inherited.as_ref(),
        (global, || Wrapping::open(global)),
    )?;
    args.heed_downgrade(global, &places, chosen.is_some(), inherited.is_some())?;
    let policy = downgrade::policy(global)?;
    let signer = args.signer(global, &policy, database.as_ref(), chosen.as_ref())?;
    downgrade::refuse_backup(&policy, chosen.is_some(), signer.as_ref())?;
    let replaced = if mode == Mode::Replace { uses_of(&places) } else { Vec::new() };
    let entry = BackupEntry::of(database.as_ref(), chosen.as_ref(), &places);
    let log = || entry.as_ref().map_or(Ok(()), |entry| entry.write(global));
    let (source, labels, unlocked) = args.source(database)?;
    let base_keys = args.base_keys(global, unlocked, &bases)?;
    let names: Vec<_> = chosen.iter().flat_map(|(chosen, _)| &chosen.certificates).collect();
    let names: Vec<_> = names.iter().map(|info| info.thumbprint()).collect();
    let recipients = chosen
        .as_ref()
        .map(|(_, wrapping)| CertificateNames { store: wrapping.store(), names: &names });
    let job = BackupJob {
        before_publish: Some(&log),
        layout: if args.stripe { Layout::Stripes } else { Layout::Mirrors },
        mode,
        differential: args.differential,
        log: args.log,
        copy_only: args.copy_only,
        check: !args.no_check,
        compression: args.compression,
        encryption: chosen.as_ref().zip(recipients.as_ref()).map(|((chosen, _), recipients)| {
            Encryption { algorithm: chosen.algorithm, recipients }
        }),
        bases,
        base_keys: base_keys.as_deref().map(|keys| keys as &dyn UnwrapSecret),
        allow_mixed: args.mixed,
        signer: signer.as_ref().map(|signer| signer as &dyn Sign),
        expires_ms: args.expire.map_or(0, |seconds| seconds.saturating_mul(1000)),
        labels,
        ..BackupJob::new(source)
    };
    let expected = args.databases.first().and_then(|path| fs::metadata(path).ok());
    let expected = expected.map_or(0, |file| file.len());
    let reporter = Reporter::new("backup", args.stats);
    let report = |progress| reporter.at(progress);
    let storage = args.storage.storage();
    let to = targets_kept(&places, expected, &storage)?;
    let outcome =
        backup(job, to, &steer(args.threads.unwrap_or_default(), args.throttle, &report))?;
    let elapsed = reporter.end();
    if let Some(signer) = signer.as_ref().filter(|_| !outcome.signed) {
        sign(targets_kept(&places, 0, &storage)?, &outcome, signer)?;
    }
    let chosen = chosen.as_ref().map(|(chosen, wrapping)| (chosen, wrapping.store()));
    forget_uses(global, &replaced);
    let made = (&outcome, elapsed, signer.as_ref());
    args.tell(global, &places, made, chosen)
}

/// Refuses what is left of an encrypted database, and warns of another one in its place.
fn refuse_remains(path: &Path, area: &[u8], global: &GlobalArgs) -> Result<(), CommandError> {
    let known = known_databases(global);
    if FileKind::of(area) != FileKind::Encrypted {
        return Ok(refuse_lost(path, area, known?.contains_key(path))?);
    }
    refuse_lost(path, area, true)?;
    // Its header says what is needed to open it; the list serves only the warning.
    if known.is_ok_and(|known| is_another(path, area, &known)) {
        output::warning(format_args!(
            "{} is not the encrypted database that the key store knows there",
            path.display()
        ));
    }
    Ok(())
}

impl BackupArgs {
    /// Checks rules that the parser cannot check.
    fn check(&self, places: &[Place]) -> Result<(), CommandError> {
        let usage = |told: &str| Err(CommandError::usage(told));
        if self.to.iter().any(|to| to.is_empty()) {
            return usage("--to names no file");
        }
        if places.contains(&Place::Standard) {
            if places.len() > 1 || self.append || self.init || self.builds_on() {
                return usage("--to - makes one new media set, and nothing beside it");
            }
            if self.json || self.sign.is_some() {
                return usage("--to - does not go together with --json or --sign");
            }
        }
        if self.stripe && places.len() < 2 {
            return usage("--stripe needs several files: give --to repeatedly");
        }
        if self.stdin && io::stdin().is_terminal() {
            return usage("--stdin: standard input is a terminal");
        }
        warn_of_legacy(self.encryption);
        Ok(())
    }

    /// Returns true for a set that stands on another one of the same media set.
    fn builds_on(&self) -> bool {
        self.differential || self.log
    }

    /// Returns media sets beside the places that the set may stand on.
    fn bases(
        &self,
        global: &GlobalArgs,
        places: &[Place],
        database: Option<&Database>,
    ) -> Result<Vec<Media>, CommandError> {
        let Some(Database { source, .. }) = database.filter(|_| self.builds_on()) else {
            return Ok(Vec::new());
        };
        let path = &source.path;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let database_id = source.encrypted_file_id;
        let (made_ms, own) = (None, None);
        let subject = elsewhere::Subject { path, name: &name, database_id, made_ms, own };
        let reporter = Reporter::new("read the base", None);
        let report = |progress| reporter.at(progress);
        let run = steer(self.threads.unwrap_or_default(), self.throttle, &report);
        let bases = bases_read(global, places, subject, (self.log, &run));
        reporter.end();
        Ok(bases?)
    }

    /// Returns the treatment of existing files at the places.
    fn mode(&self, global: &GlobalArgs, places: &[Place]) -> Result<Mode, CommandError> {
        let appends = self.append || self.builds_on();
        if !appends && !self.init {
            return Ok(Mode::Create);
        }
        let kept = refuse_binary_log(places);
        let needed = || refuse_needed(global, places);
        if appends {
            kept?;
            // Nothing is taken away; but from then on the newest set is here.
            needed().unwrap_or_else(output::warning);
            return Ok(Mode::Append);
        }
        if self.replace {
            kept.and_then(|()| needed()).unwrap_or_else(output::warning);
            return Ok(Mode::Replace);
        }
        history::refuse_emptied(global, places)?;
        let unexpired = refuse_unexpired(places, now_ms());
        let is_media = !matches!(unexpired, Err(RunError::NotMedia { .. }));
        if is_media {
            kept.and_then(|()| needed())?;
        }
        unexpired?;
        Ok(Mode::Replace)
    }

    /// Refuses a plain set among encrypted ones unless the user agrees.
    fn heed_downgrade(
        &self,
        global: &GlobalArgs,
        places: &[Place],
        encrypted: bool,
        joins_encrypted: bool,
    ) -> Result<(), CommandError> {
        if encrypted {
            return Ok(());
        }
        if (self.append || self.builds_on()) && self.encryption.is_none() {
            return Ok(refuse_downgrade(global, places)?);
        }
        if self.mixed && joins_encrypted {
            let pages = if self.builds_on() { "each page that changed" } else { "each page" };
            output::warning(format_args!(
                "this set is plain, in a media set that is encrypted: whoever has the file reads \
                 {pages} of the database, names of tables, and all that the set holds"
            ));
        }
        Ok(())
    }

    fn source(
        &self,
        database: Option<Database>,
    ) -> Result<(Source, Labels, Option<Arc<Unlocked>>), CommandError> {
        let mut labels = Labels {
            set_name: self.name.clone().unwrap_or_default(),
            host: host(),
            user: user(),
            description: self.description.clone(),
            program: program(),
            ..Labels::default()
        };
        let Some(database) = database else {
            labels.database_name.clone_from(&labels.set_name);
            let reader = Box::new(Input::standard()?);
            return Ok((Source::Stream(StreamSource { reader }), labels, None));
        };
        let path = &database.source.path;
        let name = path.file_name().unwrap_or(path.as_os_str());
        labels.database_name = name.to_string_lossy().into_owned();
        labels.path = path.to_string_lossy().into_owned();
        Ok((Source::Database(database.source), labels, database.unlocked))
    }

    /// Returns the store that signs, after checking that it can.
    fn signer(
        &self,
        global: &GlobalArgs,
        policy: &BackupPolicy,
        database: Option<&Database>,
        chosen: Option<&(Chosen, Wrapping)>,
    ) -> Result<Option<Signer>, CommandError> {
        // Nothing can be appended to output that was written to standard output.
        if self.no_sign || self.to.iter().any(|to| to.as_os_str() == STANDARD) {
            return Ok(None);
        }
        let Some(selector) = self.sign.as_ref().or(policy.signed_by.as_ref()) else {
            let signer = Signer::of_sealed(chosen)?;
            if signer.is_none() && chosen.is_some() {
                output::note(
                    "note: the set is not signed: no private key of its certificates is at hand. \
                     In the place of an encrypted database, restore takes it only with \
                     --allow-unauthenticated",
                );
            }
            return Ok(signer);
        };
        let unlocked = match (database.and_then(|each| each.unlocked.as_ref()), chosen) {
            (Some(unlocked), _) | (None, Some((_, Wrapping::Unlocked(unlocked)))) => {
                Arc::clone(unlocked)
            }
            _ => Arc::new(session::open_unlocked_store(global)?),
        };
        Ok(Some(Signer::new(unlocked, selector, global)?))
    }

    /// Returns the key of the base of a differential set or of a log backup, if that is encrypted:
    /// the key store, if it opens.
    fn base_keys(
        &self,
        global: &GlobalArgs,
        unlocked: Option<Arc<Unlocked>>,
        bases: &[Media],
    ) -> Result<Option<Arc<Unlocked>>, CommandError> {
        if !self.builds_on() || unlocked.is_some() {
            return Ok(unlocked);
        }
        let places = Place::all(&self.to)?;
        let sealed = |media: &Media| media.sets().iter().any(|set| set.algorithm.is_some());
        let encrypted = match open(&places) {
            Ok(opened) => sealed(&opened.media) || bases.iter().any(sealed),
            // The engine reports that there is no base.
            Err(error) if is_missing(&error) => bases.iter().any(sealed),
            Err(error) => return Err(error.into()),
        };
        match encrypted {
            true => Ok(Some(Arc::new(session::open_unlocked_store(global)?))),
            false => Ok(None),
        }
    }

    /// Reports the new set, and records it in the history and the key store.
    fn tell(
        &self,
        global: &GlobalArgs,
        places: &[Place],
        (outcome, elapsed, signer): (&BackupOutcome, Duration, Option<&Signer>),
        chosen: Option<(&Chosen, &KeyStore)>,
    ) -> Result<Option<Made>, CommandError> {
        let mut made = None;
        warn_findings(&outcome.findings);
        if let Checked::Failed(reason) = &outcome.checked {
            output::warning(format_args!("SQLite's quick_check could not be run: {reason}"));
        }
        if places.contains(&Place::Standard) {
            output::note(summary(outcome, elapsed, self.compression, chosen));
        } else {
            let opened = place::open(places)?;
            made = self.print(&opened, (outcome, elapsed, signer), chosen)?;
            history::record(global, &opened.media, &opened.devices, &[outcome.position]);
        }
        if let Some((chosen, store)) = chosen {
            note_uses(global, store, &chosen.certificates, (outcome.media_id, places));
            chosen.certificates.iter().for_each(|info| output::warn_of_certificate(store, info));
        }
        Ok(made)
    }

    fn print(
        &self,
        opened: &Opened,
        (outcome, elapsed, signer): (&BackupOutcome, Duration, Option<&Signer>),
        chosen: Option<(&Chosen, &KeyStore)>,
    ) -> Result<Option<Made>, CommandError> {
        let Opened { media, devices } = opened;
        if self.json {
            let store = chosen.map(|(_, store)| store);
            return Ok(Some(Made {
                set: SetReport::of(media.set(Some(outcome.position))?, media, devices, store),
                differential_base_position: outcome.base_position,
                differential_base_media: outcome.base_media.clone(),
                pages_stored: outcome.pages_stored,
                checked: matches!(outcome.checked, Checked::Sound),
                elapsed_s: elapsed.as_secs_f64(),
            }));
        }
        output::line(summary(outcome, elapsed, self.compression, chosen))?;
        for device in devices {
            output::line(format_args!("  {}", device.physical_device_name))?;
        }
        if let Some(base) = outcome.base_position {
            let media = outcome.base_media.as_ref().map(|media| format!(" of {media}"));
            output::line(format_args!(
                "  {} of {} pages changed since set {base}{}",
                outcome.pages_stored,
                outcome.pages,
                media.unwrap_or_default()
            ))?;
        }
        if let Some(expires) = self.expire {
            let at = date_of_ms(expires.saturating_mul(1000));
            output::line(format_args!("  It may be overwritten after {at}"))?;
        }
        if let Some(signer) = signer {
            output::line(format_args!("  Signed by certificate {}", signer.name()))?;
        }
        Ok(None)
    }
}

/// The end of one of several backups, as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum End {
    Made(Box<Made>),
    Failed {
        #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
        database: PathBuf,
        error: String,
    },
}

/// The result of a backup, as JSON.
#[derive(Serialize)]
struct Made {
    #[serde(flatten)]
    set: SetReport,
    differential_base_position: Option<u32>,
    /// File or object of the base, if it is in another media set.
    #[serde(skip_serializing_if = "Option::is_none")]
    differential_base_media: Option<String>,
    /// Pages in the set.
    pages_stored: u64,
    /// True if SQLite's quick_check found nothing.
    checked: bool,
    elapsed_s: f64,
}

fn summary(
    outcome: &BackupOutcome,
    elapsed: Duration,
    compression: Compression,
    chosen: Option<(&Chosen, &KeyStore)>,
) -> String {
    let kind = match (outcome.page_size, outcome.kind) {
        (0, _) => "stream",
        (_, SetKind::Full) => "full set",
        (_, SetKind::Differential) => "differential set",
        (_, SetKind::Log) => "log backup",
    };
    let sealed = match chosen {
        None => "not encrypted".to_owned(),
        Some((chosen, _)) => {
            let names: Vec<_> = chosen.certificates.iter().map(|info| info.name.as_str()).collect();
            format!("{}, certificate {}", chosen.algorithm, names.join(", "))
        }
    };
    let checked = match outcome.checked {
        Checked::Sound => ", quick_check ok",
        Checked::NotAsked | Checked::Failed(_) => "",
    };
    format!(
        "Backed up {kind} at position {}: {} in {} (ratio {}, {}), {:.1} s, {:.1} MB/s, \
         {sealed}{checked}",
        outcome.position,
        size(outcome.source_bytes),
        size(outcome.media_bytes),
        ratio(outcome.payload_bytes, outcome.media_bytes),
        compression_of(compression),
        elapsed.as_secs_f64(),
        rate(outcome.source_bytes, elapsed) / 1e6
    )
}
