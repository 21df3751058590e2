//! `tdekit doctor`: whether databases, their keys and certificates are in order.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tdekit_key_crypto::Kind;
use tdekit_sqlite_convert::{
    DatabaseError, Examination, FileKind, Finding, Store, databases_in, examine,
};

use crate::commands::status::lazy_store;
use crate::error::CommandError;
use crate::global::GlobalArgs;
use crate::progress::{Shown, heed_signals};
use crate::{output, session};

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
    Failed { path: PathBuf, error: String, findings: Vec<Finding> },
}

/// Runs the command. It changes nothing; a key store that does not open is a finding.
pub(crate) fn run(args: &DoctorArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    let store = lazy_store(global, session::open_unlocked_store);
    let (paths, plain) = wanted(&args.database)?;
    let mut listed = Vec::new();
    for path in paths {
        let examined = one(path, &store)?;
        if !args.json {
            print(&examined)?;
        }
        listed.push(examined);
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

/// The databases named, the encrypted ones of directories, and how many of these are plain.
fn wanted(names: &[PathBuf]) -> Result<(Vec<PathBuf>, usize), CommandError> {
    let (mut paths, mut plain) = (Vec::new(), 0);
    for name in names {
        if !name.is_dir() {
            paths.push(name.clone());
            continue;
        }
        for (path, kind) in databases_in(name)? {
            match kind {
                FileKind::Encrypted => paths.push(path),
                _ => plain += 1,
            }
        }
    }
    Ok((paths, plain))
}

/// Examines one. A database that cannot be examined is a finding, and the next one's turn; only the
/// user's signal ends it all.
fn one(path: PathBuf, store: &Store<'_>) -> Result<Listed, CommandError> {
    match examine(&path, store, &Shown::default()) {
        Ok(found) => Ok(Listed::Examined(Box::new(found))),
        Err(error @ DatabaseError::Interrupted) => Err(error.into()),
        Err(error) => {
            let told = error.to_string();
            let finding = Finding { what: "unreadable", kind: error.kind(), message: told.clone() };
            Ok(Listed::Failed { path, error: told, findings: vec![finding] })
        }
    }
}

impl Listed {
    fn findings(&self) -> &Vec<Finding> {
        match self {
            Self::Examined(found) => &found.findings,
            Self::Failed { findings, .. } => findings,
        }
    }
}

fn print(listed: &Listed) -> Result<(), CommandError> {
    match listed {
        Listed::Failed { path, error, .. } => {
            output::line(path.display())?;
            return output::line(format_args!("  unreadable: {error}"));
        }
        Listed::Examined(found) => {
            output::line(found.status.path.display())?;
            let how = match &found.status.encryption {
                Some(encryption) => encryption.algorithms.join(", "),
                None => "plain".to_owned(),
            };
            let opened = found.pages - found.damaged_pages;
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
        true => output::line("  Nothing is wrong."),
        false => Ok(()),
    }
}
