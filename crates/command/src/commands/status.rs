//! `tdekit status`: shows the encryption of databases.

use std::cell::LazyCell;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use crate::error::CommandError;
use crate::processor::{Kind, advice};
use tdekit_backup_run::uses::known_databases;
use tdekit_console::{ConsoleError, GlobalArgs, output, session};
use tdekit_key_store::Unlocked;
use tdekit_sqlite_convert::{
    Certificate, DatabaseError, Encryption, Known, Lazy, Search, Status, Store, databases_in,
    lost_in, status,
};

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The databases, or directories: all databases in and below them
    #[arg(required = true)]
    database: Vec<PathBuf>,
    /// Print JSON: a list with an object for each
    #[arg(long)]
    json: bool,
}

/// The output for a file.
#[derive(Serialize)]
#[serde(untagged)]
enum Listed<'a> {
    Told(Box<Status>),
    Failed {
        #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
        path: &'a PathBuf,
        error: String,
    },
}

impl Listed<'_> {
    fn is_faulty(&self) -> bool {
        match self {
            Self::Told(status) => status.problem.is_some(),
            Self::Failed { .. } => true,
        }
    }
}

/// Runs the command. It never prompts and needs no key.
pub(crate) fn run(args: &StatusArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let store = lazy_store(global, session::open_unlocked_store_unasked);
    let mut errors = Vec::new();
    let mut listed = Vec::new();
    let wanted = wanted(&args.database, &store, &mut errors)?;
    for database in &wanted {
        listed.push(match status(database, &store) {
            Ok(status) => {
                if let Some(problem) = status.problem {
                    errors.push(DatabaseError::Lost { path: database.clone(), problem });
                }
                Listed::Told(Box::new(status))
            }
            Err(error) => {
                let failed = Listed::Failed { path: database, error: error.to_string() };
                errors.push(error);
                failed
            }
        });
    }
    if args.json {
        output::json(&listed)?;
    } else {
        // The first failure is the command's error.
        let mut is_reported = false;
        let mut told = false;
        for listed in &listed {
            let is_first = listed.is_faulty() && !std::mem::replace(&mut is_reported, true);
            if is_first && matches!(listed, Listed::Failed { .. }) {
                continue;
            }
            if told {
                output::line("")?;
            }
            print(listed, !is_first)?;
            told = true;
        }
        if let Some(advice) = listed.iter().find_map(advice_of) {
            output::line(format_args!("  {advice}"))?;
        }
    }
    errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
}

/// Returns the databases that are named, and those in directories: plain, encrypted, and lost.
/// Places that cannot be read are added to `errors`.
fn wanted(
    names: &[PathBuf],
    store: &Store<'_>,
    errors: &mut Vec<DatabaseError>,
) -> Result<Vec<PathBuf>, CommandError> {
    let mut wanted = Vec::new();
    for name in names {
        let lost = lost_in(name, store);
        if !name.is_dir() {
            let is_file = lost.is_empty();
            wanted.extend(if is_file { vec![name.clone()] } else { lost });
            continue;
        }
        let Search { found, mut unread } = databases_in(name);
        // A list of databases does not judge files by their names.
        unread.retain(|(_, error)| !matches!(error, DatabaseError::NotADatabase { .. }));
        if found.is_empty() && lost.is_empty() && unread.is_empty() {
            let reason = format!("{} holds no database that tdekit knows", name.display());
            return Err(CommandError::Nothing { reason });
        }
        wanted.extend(found.into_iter().map(|(path, _)| path).chain(lost));
        errors.extend(unread.into_iter().map(|(_, error)| error));
    }
    Ok(wanted)
}

/// Returns the key store of the command, read and opened by `open` when that is first needed.
pub(crate) fn lazy_store(
    global: &GlobalArgs,
    open: fn(&GlobalArgs) -> Result<Unlocked, ConsoleError>,
) -> Store<'_> {
    let said = |error: ConsoleError| error.to_string();
    Store {
        store: Lazy::new(Box::new(move || session::open_store(global).map_err(said))),
        unlocked: Lazy::new(Box::new(move || open(global).map(Arc::new).map_err(said))),
        known: LazyCell::new(Box::new(move || {
            known_databases(global).unwrap_or_else(|error| {
                output::warning(format_args!(
                    "databases that are gone, emptied or replaced are not seen: {error}"
                ));
                Known::new()
            })
        })),
    }
}

/// Returns what AEGIS would save, for an encrypted database.
fn advice_of(listed: &Listed<'_>) -> Option<String> {
    let Listed::Told(status) = listed else { return None };
    advice(status.encryption.as_ref()?.algorithm, Kind::here())
}

/// Prints a file. `has_problem` is false if the command's error reports its problem.
fn print(listed: &Listed<'_>, has_problem: bool) -> Result<(), CommandError> {
    match listed {
        Listed::Told(status) => {
            print_status(status)?;
            match status.problem.filter(|_| has_problem) {
                Some(problem) => Ok(output::line(format_args!("  {:<14}it {problem}", "Problem"))?),
                None => Ok(()),
            }
        }
        Listed::Failed { path, error } => {
            output::line(path.display())?;
            Ok(output::line(format_args!("  {error}"))?)
        }
    }
}

fn print_status(status: &Status) -> Result<(), CommandError> {
    let fact = |name: &str, value: &str| Ok(output::line(format_args!("  {name:<14}{value}"))?);
    output::line(status.path.display())?;
    let (number, name) = (status.encryption_state, status.encryption_state_desc);
    fact("State", &format!("{number} {name}"))?;
    if status.percent_complete > 0 {
        fact("Changed", &format!("{} % of its pages", status.percent_complete))?;
    }
    if let Some(encryption) = &status.encryption {
        print_encryption(encryption, &fact)?;
    }
    if let Some(size) = status.page_size {
        fact("Page size", &size.to_string())?;
    }
    fact("File size", &format!("{} bytes", status.size_bytes))?;
    for (name, bytes) in [("WAL", status.wal_bytes), ("Journal", status.journal_bytes)] {
        if let Some(bytes) = bytes {
            fact(name, &format!("{bytes} bytes"))?;
        }
    }
    let library = &status.library;
    let fips = match (library.fips_build, library.fips_module) {
        (true, true) => "FIPS module; what FIPS 140-3 does not approve is refused",
        (true, false) => "NO FIPS module, though this is a FIPS build",
        (false, _) => "not a FIPS build",
    };
    fact("Library", &format!("{}, {fips}", library.version))?;
    fact("AES-GCM", &format!("by {}, chosen for this processor", library.aes_gcm))?;
    match status.sqlite.as_ref().and_then(|sqlite| Some((sqlite.library, sqlite.fault.as_ref()?))) {
        Some((library, fault)) => Ok(fact("SQLite", &format!("{library}: {fault}"))?),
        None => Ok(()),
    }
}

fn print_encryption(
    encryption: &Encryption,
    fact: &dyn Fn(&str, &str) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let algorithm = match encryption.algorithms.as_slice() {
        [new, older @ ..] if !older.is_empty() => {
            format!("{new}; pages under older keys: {}", older.join(", "))
        }
        _ => encryption.algorithm.to_owned(),
    };
    fact("Algorithm", &algorithm)?;
    let version = encryption.key_version;
    fact("Key version", &format!("{version}, made {}", encryption.key_created_at))?;
    for certificate in &encryption.certificates {
        fact("Certificate", &describe(certificate))?;
    }
    match &encryption.key_problem {
        None => fact("Key", "opens here")?,
        Some(problem) => fact("Key", &format!("does not open here: {problem}"))?,
    }
    if encryption.freshness {
        fact("Freshness", "on: an older state that is put back is detected")?;
    }
    fact("File id", &encryption.file_id)?;
    if encryption.intact_header_slots < 2 {
        fact("Header", "one of its two copies is damaged; the other serves")?;
    }
    Ok(())
}

fn describe(certificate: &Certificate) -> String {
    let Some(name) = &certificate.name else {
        return format!("{}, not in the key store", certificate.thumbprint);
    };
    let generation = match (certificate.generation, certificate.active) {
        (Some(generation), Some(false)) => format!(" (generation {generation}, rotated since)"),
        _ => String::new(),
    };
    let backup = match (&certificate.backed_up_at, certificate.has_private_key) {
        (Some(at), _) => format!("backed up {at}"),
        (None, true) => "never backed up".to_owned(),
        (None, false) => "without its private key".to_owned(),
    };
    let expires = match (certificate.expires_in_days, &certificate.expires_at) {
        (Some(days), Some(at)) => format!(", EXPIRES in {days} day(s), at {at}"),
        _ => String::new(),
    };
    format!("{name}{generation}, {}, {backup}{expires}", certificate.thumbprint)
}
