//! `tdekit doctor`: checks databases, their keys and certificates.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tdekit_backup_run::{CheckedKind, history};
use tdekit_console::{GlobalArgs, output, session};
use tdekit_key_crypto::Kind;
use tdekit_sqlite_convert::{
    DatabaseError, Examination, FileKind, Finding, Search, Store, databases_in, examine, lost_in,
    resolved_path, unread_list,
};

use crate::commands::status::lazy_store;
use crate::error::CommandError;
use crate::progress::{Shown, heed_signals};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Databases, or directories: all encrypted databases in and below them
    #[arg(required = true)]
    database: Vec<PathBuf>,
    /// Print JSON: a list with an object for each
    #[arg(long)]
    json: bool,
}

/// The output for a database.
#[derive(Serialize)]
#[serde(untagged)]
enum Listed {
    Examined(Box<Examination>),
    Failed {
        #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
        path: PathBuf,
        error: String,
        findings: Vec<Finding>,
    },
}

/// Runs the command. It changes no database; a key store that does not open is a finding.
pub(crate) fn run(args: &DoctorArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    let store = lazy_store(global, session::open_unlocked_store);
    let Wanted { paths, plain, unread } = wanted(&args.database, &store);
    if paths.is_empty() && unread.is_empty() && plain == 0 {
        let named: Vec<_> = args.database.iter().map(|path| path.display().to_string()).collect();
        let reason = format!("no database that tdekit knows is in {}", named.join(", "));
        return Err(CommandError::Nothing { reason });
    }
    let mut listed = Vec::new();
    let examined = paths.into_iter().map(|path| one(path, &store));
    let unread = unread.into_iter().map(|(path, error)| Ok(Listed::failed(path, &error)));
    for told in examined.chain(unread) {
        let told = told?;
        record(&told, global);
        if !args.json {
            print(&told)?;
        }
        listed.push(told);
    }
    if args.json {
        output::json(&listed)?;
    } else if plain > 0 {
        output::line(format_args!("{plain} plain database(s) in the directories are left out."))?;
    }
    let faulty: Vec<&Vec<Finding>> =
        listed.iter().map(Listed::findings).filter(|found| !found.is_empty()).collect();
    let has = |kind| faulty.iter().any(|found| found.iter().any(|one| one.kind == kind));
    let worst = [Kind::Damaged, Kind::Key, Kind::Io, Kind::Busy].into_iter().find(|it| has(*it));
    let findings = faulty.iter().map(|found| found.len()).sum();
    match faulty.len() {
        0 => Ok(()),
        databases => {
            let kind = worst.unwrap_or(Kind::Refused);
            Err(CommandError::Findings { kind, findings, databases })
        }
    }
}

/// The databases to examine.
#[derive(Default)]
struct Wanted {
    /// The named databases, and the encrypted ones of directories: existing ones, and those that
    /// the key store knows but that are gone or overwritten.
    paths: Vec<PathBuf>,
    /// Number of plain databases in directories.
    plain: usize,
    /// Places in directories that could not be read. Their content is not known, so they count as
    /// findings.
    unread: Vec<(PathBuf, DatabaseError)>,
}

fn wanted(names: &[PathBuf], store: &Store<'_>) -> Wanted {
    let mut wanted = Wanted::default();
    wanted.unread.extend(unread_list(store));
    for name in names {
        let lost = lost_in(name, store);
        if !name.is_dir() {
            let is_file = lost.is_empty();
            wanted.paths.extend(if is_file { vec![name.clone()] } else { lost });
            continue;
        }
        wanted.paths.extend(lost);
        let Search { found, unread } = databases_in(name);
        wanted.unread.extend(unread);
        for (path, kind) in found {
            match kind {
                FileKind::Encrypted => wanted.paths.push(path),
                _ if is_known(&path, store) => wanted.paths.push(path),
                _ => wanted.plain += 1,
            }
        }
    }
    wanted
}

/// Returns true if the key store knows an encrypted database at the place of a plain one.
fn is_known(path: &Path, store: &Store<'_>) -> bool {
    !store.known.is_empty() && resolved_path(path).is_some_and(|it| store.known.contains_key(&it))
}

/// Examines one database. If it cannot be examined, that is a finding, and the next one follows;
/// only the user's signal stops everything.
fn one(path: PathBuf, store: &Store<'_>) -> Result<Listed, CommandError> {
    match examine(&path, store, &Shown::default()) {
        Ok(found) => Ok(Listed::Examined(Box::new(found))),
        Err(error @ DatabaseError::Interrupted) => Err(error.into()),
        Err(error) => Ok(Listed::failed(path, &error)),
    }
}

impl Listed {
    fn failed(path: PathBuf, error: &DatabaseError) -> Self {
        let told = error.to_string();
        let finding =
            Finding { what: error.finding_name(), kind: error.kind(), message: told.clone() };
        Self::Failed { path, error: told, findings: vec![finding] }
    }

    fn findings(&self) -> &Vec<Finding> {
        match self {
            Self::Examined(found) => &found.findings,
            Self::Failed { findings, .. } => findings,
        }
    }
}

/// Returns the number of faults that the examination found in the database itself. `None` if it had
/// no key, or could not read: then it does not know.
fn faults(findings: &[Finding]) -> Option<usize> {
    let has = |kind| findings.iter().filter(|one| one.kind == kind).count();
    match has(Kind::Damaged) {
        0 if has(Kind::Key) + has(Kind::Io) + has(Kind::Busy) > 0 => None,
        0 => Some(findings.len()),
        damaged => Some(damaged),
    }
}

/// Stores the number of faults for `tdekit overview`, if there is a place for it already.
fn record(listed: &Listed, global: &GlobalArgs) {
    let path = match listed {
        Listed::Examined(found) => found.status.path.clone(),
        Listed::Failed { path, .. } => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
    };
    let faults = faults(listed.findings());
    if let Some(found) = faults.filter(|_| session::store_dir(global).is_ok_and(|it| it.is_dir())) {
        let path = path.to_string_lossy();
        history::record_check(global, CheckedKind::Database, &path, found as u64, None);
    }
}

fn print(listed: &Listed) -> Result<(), CommandError> {
    match listed {
        Listed::Failed { path, error, findings } => {
            output::line(path.display())?;
            return Ok(output::line(format_args!(
                "  {}: {error}",
                findings.first().map_or("unreadable", |one| one.what)
            ))?);
        }
        Listed::Examined(found) => {
            output::line(found.status.path.display())?;
            let how = match &found.status.encryption {
                Some(encryption) => encryption.algorithms.join(", "),
                None => "plain".to_owned(),
            };
            // A page that does not open may make their number unknown.
            let opened = found.pages.saturating_sub(found.damaged_pages);
            output::line(format_args!("  {how}: {opened} of {} pages open", found.pages))?;
            for (version, pages) in &found.pages_by_key_version {
                output::line(format_args!("  {pages} page(s) in the file under key {version}"))?;
            }
        }
    }
    for finding in listed.findings() {
        output::line(format_args!("  {}: {}", finding.what, finding.message))?;
    }
    match listed.findings().is_empty() {
        true => Ok(output::line("  Nothing is wrong.")?),
        false => Ok(()),
    }
}
