//! `tdekit encrypt`: converts a plain database to an encrypted one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_key_crypto::Algorithm;
use tdekit_key_store::{StoreError, Unlocked, open_ordinary};
use tdekit_sqlite_convert::{
    Change, DatabaseError, FileKind, Form, Options, Unknown, change_freshness, convert,
    database_path, encrypt_online, find_certificates, read_area,
};
use tdekit_sqlite_page::PageSize;

use crate::commands::followed::name_follower;
use crate::commands::freshness;
use crate::error::CommandError;
use crate::processor::{Kind, advice};
use crate::progress::{Shown, StopAfter, heed_signals, stop_flag};

/// The suffix of a kept original's name.
const KEEP_SUFFIX: &str = ".plain";

/// Arguments of `encrypt`.
#[derive(Debug, Args)]
pub(crate) struct EncryptArgs {
    /// The databases
    #[arg(required = true)]
    database: Vec<PathBuf>,
    /// Certificate that wraps the database's key, by name or thumbprint; may be given repeatedly,
    /// and then each opens the database
    #[arg(long, value_name = "NAME")]
    certificate: Vec<String>,
    /// Algorithm that seals its pages
    #[arg(long, value_name = "NAME", default_value = Algorithm::Aes256.name(),
        value_parser = PossibleValuesParser::new(page_algorithms()), ignore_case = true)]
    algorithm: String,
    /// Keep the plain original [default: DATABASE.plain]
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    keep_plain: Option<Option<PathBuf>>,
    /// Page size of the encrypted database, bytes [default: as it is, at least 1024]
    #[arg(long, value_name = "BYTES", value_parser = parse_page_size)]
    page_size: Option<PageSize>,
    /// Check the copy's structure and compare every row before the original is replaced
    #[arg(long)]
    verify: bool,
    /// Let processes that have the extension loaded go on reading and writing meanwhile
    #[arg(long, conflicts_with = "keep_plain")]
    online: bool,
    /// Have it detect that an older state of it was put back; see `tdekit freshness`
    #[arg(long, conflicts_with = "online")]
    freshness: bool,
    #[command(flatten)]
    stop_after: StopAfter,
}

/// Runs the command.
pub(crate) fn run(args: &EncryptArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    if args.database.len() > 1 && matches!(args.keep_plain, Some(Some(_))) {
        return Err(CommandError::usage("--keep-plain=PATH names one file, for one database"));
    }
    // A misspelt name, or an option's value without its `=`, changes nothing and asks for nothing.
    for database in &args.database {
        database_path(database)?;
    }
    if args.certificate.is_empty() {
        // Without a key store its absence is the reason.
        session::open_store(global)?;
        return Err(CommandError::usage("--certificate NAME is missing: see `tdekit cert list`"));
    }
    if let [database] = args.database.as_slice() {
        refuse_encrypted(database)?;
    }
    run_with(args, &Arc::new(session::open_unlocked_store(global)?))
}

/// Encrypts with an open key store. What fails does not keep the other databases from being
/// encrypted; the first failure is returned, and the others are warnings.
pub(crate) fn run_with(args: &EncryptArgs, unlocked: &Arc<Unlocked>) -> Result<(), CommandError> {
    let algorithm = args.algorithm.parse::<Algorithm>().map_err(StoreError::Crypto)?;
    let certificates = find_certificates(unlocked, &args.certificate)?;
    let form = Form::Encrypted { certificates: certificates.clone(), algorithm };
    heed_signals();
    let (mut failed, mut encrypted) = (None, false);
    for database in &args.database {
        match one(args, database, &form, unlocked) {
            Ok(()) => encrypted = true,
            Err(error) if stop_flag().load(Ordering::Relaxed) => return Err(error),
            Err(error) if failed.is_none() => failed = Some(error),
            Err(error) => output::warning(error),
        }
    }
    if let Some(advice) = advice(algorithm.name(), Kind::here()).filter(|_| encrypted) {
        output::line(format_args!("  {advice}"))?;
    }
    certificates.iter().for_each(|info| output::warn_of_certificate(unlocked.store(), info));
    failed.map_or(Ok(()), Err)
}

fn one(
    args: &EncryptArgs,
    database: &Path,
    form: &Form,
    unlocked: &Arc<Unlocked>,
) -> Result<(), CommandError> {
    let keep = args.keep_plain.as_ref().map(|path| match path {
        Some(path) => path.clone(),
        None => {
            let mut name = database.to_owned().into_os_string();
            name.push(KEEP_SUFFIX);
            name.into()
        }
    });
    let options = Options { page_size: args.page_size, keep: keep.clone(), verify: args.verify };
    let shown = Shown::stopping_after(args.stop_after);
    if args.online {
        let done =
            encrypt_online(database, form, &options, unlocked, &shown).map_err(name_follower)?;
        tell_encrypted(&done.path, form)?;
        output::line(format_args!(
            "  Others were kept out for {} ms; writers waited {} ms at most before that.",
            done.locked.as_millis(),
            done.writers_held.as_millis()
        ))?;
        warn_unsettled(done.not_synced.as_ref(), done.not_recorded);
        return Ok(());
    }
    let done = convert(database, form, &options, unlocked, &shown).map_err(name_follower)?;
    tell_encrypted(&done.path, form)?;
    if done.page_size != done.old_page_size {
        output::line(format_args!(
            "  Its pages have {} bytes now, {} before.",
            done.page_size, done.old_page_size
        ))?;
    }
    if let Some(keep) = keep {
        output::line(format_args!("  The plain database is kept as {}", keep.display()))?;
    }
    warn_unchecked(args.verify, &done.unknown);
    warn_unsettled(done.not_synced.as_ref(), done.not_recorded);
    if args.freshness {
        let on = change_freshness(&done.path, Change::On, unlocked, &shown)?;
        freshness::say(on, Change::On)?;
    }
    Ok(())
}

impl EncryptArgs {
    /// Databases for one certificate, and else as without options.
    pub(crate) fn new(database: Vec<PathBuf>, certificate: String) -> Self {
        Self {
            database,
            certificate: vec![certificate],
            algorithm: Algorithm::Aes256.name().to_owned(),
            keep_plain: None,
            page_size: None,
            verify: false,
            online: false,
            freshness: false,
            stop_after: StopAfter::default(),
        }
    }
}

/// Reports that there is nothing to do before a password is requested.
pub(crate) fn refuse_encrypted(database: &Path) -> Result<(), CommandError> {
    let area = open_ordinary(database).and_then(|file| read_area(&file));
    match area.is_ok_and(|area| FileKind::of(&area) == FileKind::Encrypted) {
        true => Err(DatabaseError::AlreadyEncrypted { path: database.to_owned() }.into()),
        false => Ok(()),
    }
}

fn tell_encrypted(path: &Path, form: &Form) -> Result<(), CommandError> {
    let Form::Encrypted { certificates, algorithm } = form else { return Ok(()) };
    let names: Vec<_> = certificates.iter().map(|info| info.name.as_str()).collect();
    output::line(format_args!(
        "Encrypted {} with {algorithm}, certificate {}",
        path.display(),
        names.join(", ")
    ))?;
    Ok(output::line(format_args!(
        "  To open it: eval \"$(tdekit shell-init bash)\"; sqlite3 {}",
        output::shell_path(path)
    ))?)
}

pub(crate) fn warn_unsettled(not_synced: Option<&DatabaseError>, not_recorded: Option<StoreError>) {
    if let Some(error) = not_synced {
        output::warning(format_args!("a power cut now may bring the old database back: {error}"));
    }
    if let Some(error) = not_recorded {
        output::warning(format_args!("the key store could not note the file: {error}"));
    }
}

/// Lists the checks that `--verify` omitted.
pub(crate) fn warn_unchecked(verify: bool, unknown: &Unknown) {
    let names = [unknown.functions.as_slice(), unknown.collations.as_slice()].concat().join(", ");
    if verify && !unknown.functions.is_empty() {
        output::warning(format_args!(
            "every row was compared, but SQLite's own integrity_check was left out: it needs what \
             only your application has ({names})"
        ));
    } else if verify && !unknown.collations.is_empty() {
        output::warning(format_args!(
            "the order of indexes was not checked: only your application has it ({names})"
        ));
    }
}

/// Names of the algorithms that seal pages.
pub(crate) fn page_algorithms() -> Vec<&'static str> {
    Algorithm::offered().filter(|algorithm| algorithm.seals_pages()).map(Algorithm::name).collect()
}

fn parse_page_size(text: &str) -> Result<PageSize, String> {
    let size = text.parse().ok().and_then(|bytes| PageSize::new(bytes).ok());
    size.ok_or_else(|| "not a power of two from 1024 to 65536".to_owned())
}
