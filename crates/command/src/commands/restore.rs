//! `tdekit restore`: a database or a stream from a backup set, a database from an archive.

mod binlogs;
mod from_archive;
mod options;
mod readings;
mod report;
mod standby;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tdekit_backup_run::archive::{At, Point};
use tdekit_backup_run::choose::{self, Choice, PassedOver};
use tdekit_backup_run::database::ownership::Ownership;
use tdekit_backup_run::database::publish::{Over, destination};
use tdekit_backup_run::database::sink::{DatabaseSink, Wanted};
use tdekit_backup_run::downgrade::{self, Consent};
use tdekit_backup_run::history;
use tdekit_backup_run::inherit::certificates_for;
use tdekit_backup_run::logged::{key_of, log_restored_stream};
use tdekit_backup_run::place::{Opened, Place};
use tdekit_backup_run::signature::{is_our_own, refuse_wrong, require_signed};
use tdekit_backup_run::stream::StreamFile;
use tdekit_backup_run::{
    CatalogUse, Chain, FindingReport, Keys, Media, Recipient, Run, RunError, SetInfo, SourceKind,
    UnwrapSecret,
};
use tdekit_console::{ConsoleError, GlobalArgs, output, session};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{StoreError, Unlocked, open_ordinary};
use tdekit_sqlite::keyring;
use tdekit_sqlite_convert::{FileKind, Form, find_certificates, read_area};

use self::options::Source;
use self::report::Passed;
use crate::backup::archive::{self, parse_at};
use crate::backup::keys::KeyArgs;
use crate::backup::new_store::store_for;
use crate::backup::progress::{Reporter, run as steer};
use crate::backup::report::warn_reports;
use crate::backup::value::{parse_bytes, parse_mode, parse_threads};
use crate::commands::encrypt::page_algorithms;
use crate::error::CommandError;
use crate::progress::{Shown, heed_signals};
use crate::when::parse_length;

/// The name of standard output.
const STANDARD: &str = "-";

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The media set: its file or address, any of its mirrors, all of its stripes, behind other
    /// media that it stands on; or an archive: its directory, or with --at its prefix
    #[arg(required = true)]
    media: Vec<OsString>,
    /// The set to restore; a differential one with the full one that it stands on [default: the
    /// newest that was ever finished there]
    #[arg(long, value_name = "NUMBER")]
    position: Option<u32>,
    /// Restore from an archive, the directory or prefix that `replicate` ships to, as the database
    /// was then: a time such as '2026-11-22 10:15:00' (UTC), a transaction such as 43.17, latest,
    /// or latest-good: the last point up to which the archive is whole
    #[arg(long, value_name = "POINT", value_parser = parse_at,
        conflicts_with_all = ["position", "latest_readable"])]
    at: Option<At>,
    /// Keep the database as the archive is, until Ctrl-C or SIGTERM; programs read it meanwhile
    #[arg(long, conflicts_with_all = ["at", "position", "latest_readable", "database", "json"])]
    follow: bool,
    /// With --follow: how often the archive is asked for more
    #[arg(long, value_name = "LENGTH", default_value = "1s", value_parser = parse_length,
        requires = "follow", conflicts_with_all = ["at", "position", "latest_readable", "json"])]
    every: Duration,
    /// Restore the newest set of this database, by its name or path in the media set; its place may
    /// be another database's file then. An archive must be of this database
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// Restore the newest set that can still be read whole, and name those that are passed over
    #[arg(long, conflicts_with = "position")]
    latest_readable: bool,
    /// The file to make, or of an archive of binary logs the directory; - writes a stream to
    /// standard output
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Replace the file that is there
    #[arg(long)]
    replace: bool,
    /// Replace what is there even where it is not a database
    #[arg(long, requires = "replace")]
    force: bool,
    #[command(flatten)]
    keys: KeyArgs,
    /// Restore the backup of an encrypted database in the clear, or a plain database over an
    /// encrypted one
    #[arg(long, conflicts_with = "certificate")]
    plain: bool,
    /// Restore sets without a signature that you trust over an encrypted database, sets that
    /// `require` under `[backup]` in config.toml refuses, and sets whose signature does not hold
    #[arg(long, conflicts_with = "signed_by")]
    allow_unauthenticated: bool,
    /// Encrypt the restored database for this certificate, by name or thumbprint; may be given
    /// repeatedly [default: for an encrypted database, its own or those that open the set]
    #[arg(long, value_name = "NAME")]
    certificate: Vec<String>,
    /// Algorithm that seals the pages of an encrypted database [default: AES_256]
    #[arg(long, value_name = "NAME",
        value_parser = PossibleValuesParser::new(page_algorithms()), ignore_case = true,
        conflicts_with = "plain")]
    algorithm: Option<String>,
    /// Owner of the restored file: a user, or a user and a group, by name or number [default: who
    /// runs this, for root the owner of the directory; of a replaced file, its own]
    #[arg(long, value_name = "USER:GROUP", value_parser = Ownership::parse_owner)]
    owner: Option<(u32, u32)>,
    /// Permissions of the restored file, such as 0640 [default: 0600; of a replaced file, its own]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u32>,
    /// Have SQLite check the whole database before the file gets its name
    #[arg(long)]
    check: bool,
    /// Leave that check out for a database from an archive
    #[arg(long, conflicts_with_all = ["check", "follow"])]
    no_check: bool,
    /// Fail unless the set, and its base, are signed by this certificate: its name in the key
    /// store, or its thumbprint
    #[arg(long, value_name = "NAME")]
    signed_by: Option<String>,
    /// Most bytes to restore in a second, such as 50MB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    throttle: Option<u64>,
    /// Threads that open and decompress [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Report on standard error after every PERCENT of the work
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true,
        default_missing_value = "10", value_parser = clap::value_parser!(u8).range(1..=100))]
    stats: Option<u8>,
}

/// Runs the command.
pub(crate) fn run(args: &RestoreArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    if let Some(found) = crate::backup::binlogs::found(&args.media)? {
        return binlogs::restore(args, global, found);
    }
    if let Some(archive) = archive::place_of(&args.media, args.at.is_some() || args.follow)? {
        args.refuse_unheeded(Source::Archive)?;
        return match args.follow {
            true => standby::follow(args, global, &archive),
            false => from_archive::restore(args, global, &archive).map(drop),
        };
    }
    args.refuse_unheeded(Source::Media)?;
    let places = Place::all(&args.media)?;
    readings::restore(global, &places, |opened, asked| {
        restore_from(args, global, (&places, opened), asked)
    })
}

/// Restores a set; `asked` receives it once it is chosen.
fn restore_from<'a>(
    args: &RestoreArgs,
    global: &GlobalArgs,
    (places, opened): (&[Place], &'a Opened),
    asked: &mut Option<&'a SetInfo>,
) -> Result<(), CommandError> {
    let media = &opened.media;
    if args.position.is_none() && !args.latest_readable {
        refuse_newer_elsewhere(media)?;
    }
    let findings = FindingReport::all(global, media);
    warn_reports(&findings);
    let named = match args.latest_readable {
        true => None,
        false => Some(choose::named_or_newest(media, args.choice(), &findings)?),
    };
    if let Some(set) = named.filter(|_| !args.to_standard()) {
        // Before a password is requested.
        destination(&args.to, args.over(set.source))?;
    }
    *asked = named;
    let keys = args.open_keys(global, media, named)?;
    let unwrap = keys.as_ref().map(|keys| keys as &dyn UnwrapSecret);
    let (chain, passed_over) = match named {
        Some(set) => (media.chain(Some(set.position), unwrap)?, Vec::new()),
        None => args.latest_readable(media, unwrap)?,
    };
    let Some(set) = chain.sets().last() else {
        return Err(RunError::Internal("a chain of no set").into());
    };
    *asked = Some(set);
    if let Some(keys) = &keys {
        warn_expired(keys, &chain, global);
    }
    let passed_over = passed_over.into_iter().map(Passed::Set).collect();
    let keys = keys.as_ref();
    let mut work = Work {
        args,
        global,
        opened,
        set,
        keys,
        chain,
        signed: false,
        findings,
        passed_over,
        point: None,
        known_to: None,
    };
    work.check_policy()?;
    match set.source {
        SourceKind::Stream => work.stream(places),
        SourceKind::Database => work.database(places),
    }
}

impl RestoreArgs {
    fn ownership(&self) -> Ownership {
        Ownership { owner: self.owner, mode: self.mode }
    }

    fn choice(&self) -> Choice<'_> {
        Choice { position: self.position, database: self.database.as_deref() }
    }

    fn to_standard(&self) -> bool {
        self.to.as_os_str() == STANDARD
    }

    /// What a set of a database, or of a stream, may replace.
    fn over(&self, source: SourceKind) -> Over {
        match (self.replace, self.force, source) {
            (false, ..) => Over::Nothing,
            (true, true, _) => Over::Anything,
            (true, false, SourceKind::Database) => Over::Database,
            (true, false, SourceKind::Stream) => Over::File,
        }
    }

    /// Returns the key, if the set or its base is encrypted; for all sets if none is named.
    fn open_keys(
        &self,
        global: &GlobalArgs,
        media: &Media,
        named: Option<&SetInfo>,
    ) -> Result<Option<Keys>, CommandError> {
        let mut wanted: Box<dyn Iterator<Item = &SetInfo>> = match named {
            Some(set) => Box::new(media.with_base(set)),
            None => Box::new(media.all().flat_map(Media::sets)),
        };
        if let Some(sealed) = wanted.find(|set| set.algorithm.is_some()) {
            return match self.keys.open(global) {
                Ok(keys) => Ok(Some(keys)),
                Err(error) => Err(without_store(error, sealed)),
            };
        }
        self.keys.refuse_unused("the set is not encrypted")?;
        Ok(None)
    }

    fn latest_readable<'a>(
        &self,
        media: &'a Media,
        keys: Option<&dyn UnwrapSecret>,
    ) -> Result<(Chain<'a>, Vec<PassedOver>), CommandError> {
        let reporter = Reporter::new("verify", None);
        let report = |progress| reporter.at(progress);
        let steered = steer(self.threads.unwrap_or_default(), self.throttle, &report);
        let found = choose::latest_readable(media, self.choice(), keys, &steered);
        reporter.end();
        let (chain, passed_over) = found?;
        for PassedOver { position, reason, .. } in &passed_over {
            output::warning(format_args!("set {position} is passed over: {reason}"));
        }
        Ok((chain, passed_over))
    }
}

/// Names the certificates that would open the set, if the error is that there is no key store.
fn without_store(error: CommandError, set: &SetInfo) -> CommandError {
    match error {
        CommandError::Console(ConsoleError::Store(StoreError::Missing { .. })) => {
            let certificates = set.certificates();
            RunError::NoStoreHere { position: set.position, certificates }.into()
        }
        error => error,
    }
}

/// Refuses a newest set if another media set that is named has a newer one of the database.
fn refuse_newer_elsewhere(media: &Media) -> Result<(), CommandError> {
    let Some(newest) = media.sets().last() else { return Ok(()) };
    let is_newer = |set: &&SetInfo| {
        set.database_name == newest.database_name
            && set.path == newest.path
            && set.begun_ms > newest.begun_ms
    };
    let newer = media.all().skip(1).find(|other| other.sets().iter().any(|set| is_newer(&set)));
    match newer.and_then(|other| other.names().into_iter().next()) {
        None => Ok(()),
        Some(other) => {
            let media = media.names().into_iter().next().unwrap_or_default();
            let reason = format!("{other} has a newer set: name that media set last");
            Err(RunError::NewestUnknown { media, reason }.into())
        }
    }
}

/// Returns true if a database is at a place.
fn is_database(path: &Path) -> bool {
    let area = open_ordinary(path).and_then(|file| read_area(&file));
    area.is_ok_and(|area| matches!(FileKind::of(&area), FileKind::Plain | FileKind::Encrypted))
}

fn warn_expired(keys: &Keys, chain: &Chain<'_>, global: &GlobalArgs) {
    let recipients: Vec<Recipient> =
        chain.sets().flat_map(|set| set.recipients.iter().cloned()).collect();
    keys.warn_of_ends(&recipients, global);
}

/// A restore in progress.
struct Work<'a> {
    args: &'a RestoreArgs,
    global: &'a GlobalArgs,
    opened: &'a Opened,
    set: &'a SetInfo,
    keys: Option<&'a Keys>,
    /// The set and its base, to verify and restore.
    chain: Chain<'a>,
    /// True if everything has the requested signature.
    signed: bool,
    findings: Vec<FindingReport>,
    passed_over: Vec<Passed>,
    /// The archive and its point that is restored.
    point: Option<(String, Point)>,
    /// The time up to which the archive is known to have everything, where a later one is asked
    /// for; milliseconds since 1970.
    known_to: Option<i64>,
}

impl Work<'_> {
    /// Reads every block of the sets once before anything is restored.
    fn check_signatures(&mut self, certificate: &str) -> Result<(), CommandError> {
        let store = session::open_store(&self.args.keys.for_store(self.global)).ok();
        self.read_once(|chain, run| require_signed(chain, certificate, store.as_ref(), run))?;
        self.signed = true;
        Ok(())
    }

    /// Checks the sets before they are restored, as `verify` does.
    fn read_once<T>(
        &mut self,
        look: impl FnOnce(&mut Chain<'_>, &Run<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let reporter = Reporter::new("verify", None);
        let report = |progress| reporter.at(progress);
        let steered = steer(self.args.threads.unwrap_or_default(), self.args.throttle, &report);
        let found = look(&mut self.chain, &steered);
        reporter.end();
        found
    }

    /// Checks the requirements of the user and the configuration before anything is restored.
    fn check_policy(&mut self) -> Result<(), CommandError> {
        let policy = downgrade::policy(&self.args.keys.for_store(self.global))?;
        if self.args.allow_unauthenticated {
            return Ok(());
        }
        downgrade::refuse_plain(&policy, &self.chain.sets().collect::<Vec<_>>())?;
        match self.args.signed_by.as_ref().or(policy.signed_by.as_ref()) {
            Some(certificate) => self.check_signatures(certificate),
            // Sets chosen by --latest-readable were checked already.
            None if self.args.latest_readable => Ok(()),
            None => Ok(self.read_once(refuse_wrong)?),
        }
    }

    /// Refuses to lower the protection of the existing file, unless the user agrees.
    fn refuse_downgrade(
        &mut self,
        path: &Path,
        form: &Form,
        unlocked: Option<&Unlocked>,
    ) -> Result<(), CommandError> {
        let consent = Consent {
            plain: self.args.plain,
            unauthenticated: self.args.allow_unauthenticated,
            signed: self.signed,
        };
        let store = self.args.keys.for_store(self.global);
        if !self.args.plain {
            downgrade::warn(path, form, &store);
        }
        let refused = downgrade::refuse(path, form, consent, || match unlocked {
            Some(unlocked) => self.read_once(|chain, run| is_our_own(chain, unlocked, run)),
            None => Ok(false),
        });
        Ok(refused?)
    }

    /// Returns true if SQLite checks the database: always one from an archive, unless asked not to.
    fn is_checked(&self) -> bool {
        self.args.check || (self.point.is_some() && !self.args.no_check)
    }

    /// Resolves the name, and checks that it is not that of the backup.
    fn destination(&self, places: &[Place]) -> Result<PathBuf, CommandError> {
        let path = destination(&self.args.to, self.args.over(self.set.source))?;
        match places.iter().any(|place| place.is_file(&path)) {
            true => Err(RunError::OntoMedia { path }.into()),
            false => Ok(path),
        }
    }

    fn stream(&self, places: &[Place]) -> Result<(), CommandError> {
        let args = self.args;
        args.refuse_unheeded(Source::Stream)?;
        let reporter = Reporter::new("restore", args.stats);
        let report = |progress| reporter.at(progress);
        let steered = steer(args.threads.unwrap_or_default(), args.throttle, &report);
        let media = &self.opened.media;
        if self.args.to_standard() {
            if args.ownership() != Ownership::default() {
                let told = "--owner and --mode are of files, and standard output is none";
                return Err(CommandError::usage(told));
            }
            self.log_stream(places, None)?;
            let mut out = io::stdout();
            self.chain.restore_stream(&mut out, &steered)?;
            reporter.end();
            history::record_use(self.global, media, self.set.position, CatalogUse::Stream, None);
            return Ok(());
        }
        let path = self.destination(places)?;
        let mut file = StreamFile::create(&path, args.replace)?;
        file.own(args.ownership())?;
        let outcome = self.chain.restore_stream(&mut file, &steered)?;
        self.log_stream(places, Some(&path))?;
        let not_synced = file.publish()?;
        let elapsed = reporter.end();
        warn_not_synced(not_synced.as_ref());
        self.tell(&path, &outcome, elapsed.as_secs_f64(), &Form::Plain)?;
        let done = CatalogUse::Stream;
        history::record_use(self.global, media, self.set.position, done, Some(&path));
        Ok(())
    }

    /// Returns the key store whose key opens the set.
    fn store_of_set(&self) -> Option<&Arc<Unlocked>> {
        match (self.keys, self.set.algorithm) {
            (Some(Keys::Store(unlocked)), Some(_)) => Some(unlocked),
            _ => None,
        }
    }

    fn log_stream(&self, places: &[Place], path: Option<&Path>) -> Result<(), CommandError> {
        let Some(unlocked) = self.store_of_set() else { return Ok(()) };
        if let Some(error) = log_restored_stream(unlocked, self.set, places, path)? {
            output::warning(format_args!("the key store's audit log lacks it: {error}"));
        }
        Ok(())
    }

    fn database(&mut self, places: &[Place]) -> Result<(), CommandError> {
        if self.args.to_standard() {
            let told = "a database is restored to a file, not to standard output";
            return Err(CommandError::usage(told));
        }
        let path = self.destination(places)?;
        if !self.args.force || is_database(&path) {
            choose::refuse_other_database(&path, self.set, self.args.choice())?;
        }
        let (form, unlocked) = self.form(&path)?;
        self.refuse_downgrade(&path, &form, unlocked.as_deref())?;
        let wanted = Wanted {
            path: path.clone(),
            replace: self.args.replace,
            form: form.clone(),
            sealable: self.set.source_encrypted,
            ownership: self.args.ownership(),
            check: self.is_checked(),
            set_key: key_of(self.set, places),
        };
        // A plain one is logged too, if a key of the store opened the set.
        let logs = unlocked.clone().or_else(|| self.store_of_set().cloned());
        let shown = Shown::default();
        let mut sink = DatabaseSink::new(wanted, logs, &shown)?;
        let reporter = Reporter::new("restore", self.args.stats);
        let report = |progress| reporter.at(progress);
        let steered = steer(self.args.threads.unwrap_or_default(), self.args.throttle, &report);
        let media = &self.opened.media;
        let restored = self.chain.restore_database(&mut sink, &steered);
        let elapsed = reporter.end();
        let outcome = restored?;
        let published = sink.publish()?;
        warn_not_synced(published.not_synced.as_ref());
        if let Some(error) = published.not_recorded {
            output::warning(format_args!("the key store could not note the file: {error}"));
        }
        self.tell(&path, &outcome, elapsed.as_secs_f64(), &form)?;
        if let Form::Plain = form {
            self.forget_encrypted(&path);
        }
        if let (Form::Encrypted { certificates, .. }, Some(unlocked)) = (&form, &unlocked) {
            certificates
                .iter()
                .for_each(|info| output::warn_of_certificate(unlocked.store(), info));
        }
        let done = CatalogUse::Database;
        history::record_use(self.global, media, self.set.position, done, Some(&path));
        Ok(())
    }

    /// The key store no longer expects an encrypted database where a plain one was requested.
    fn forget_encrypted(&self, path: &Path) {
        let forgotten = match session::open_store(&self.args.keys.for_store(self.global)) {
            Ok(store) if store.uses().is_ok_and(|uses| uses.iter().any(|it| it.path == path)) => {
                store.forget_files(&[path.to_owned()])
            }
            _ => return,
        };
        if let Err(error) = forgotten {
            output::warning(format_args!("the key store could not note the file: {error}"));
        }
    }

    /// Returns the form of the restored database, and the store that encrypts it. An encrypted one
    /// stays encrypted unless `--plain` is given.
    fn form(&self, path: &Path) -> Result<(Form, Option<Arc<Unlocked>>), CommandError> {
        let args = self.args;
        let again = self.set.source_encrypted && !args.plain;
        if !again && args.certificate.is_empty() {
            return Ok((Form::Plain, None));
        }
        let unlocked = match self.keys {
            Some(Keys::Store(unlocked)) => Arc::clone(unlocked),
            Some(Keys::Certificate(backup)) if args.certificate.is_empty() => {
                let global = args.keys.for_store(self.global);
                Arc::new(store_for(backup, self.set, path, &global)?)
            }
            _ => match session::open_unlocked_store(&args.keys.for_store(self.global)) {
                Ok(unlocked) => Arc::new(unlocked),
                Err(ConsoleError::Store(StoreError::Missing { .. }))
                    if args.certificate.is_empty() =>
                {
                    return Err(RunError::NoCertificate { path: path.to_owned() }.into());
                }
                Err(error) => return Err(error.into()),
            },
        };
        keyring::set_unlocked(Arc::clone(&unlocked));
        let selectors = match args.certificate.is_empty() {
            false => args.certificate.clone(),
            true => certificates_for(self.set, unlocked.store()),
        };
        if selectors.is_empty() {
            return Err(RunError::NoCertificate { path: path.to_owned() }.into());
        }
        let certificates = find_certificates(&unlocked, &selectors)?;
        let algorithm = match &args.algorithm {
            Some(name) => name.parse().map_err(StoreError::Crypto)?,
            None => Algorithm::Aes256,
        };
        Ok((Form::Encrypted { certificates, algorithm }, Some(unlocked)))
    }
}

fn warn_not_synced(error: Option<&RunError>) {
    if let Some(error) = error {
        output::warning(format_args!("a power cut now may take the file back: {error}"));
    }
}
