//! `tdekit audit log`: the events of keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_key_store::{AuditKey, AuditRecord, AuditReport, open_ordinary};
use tdekit_sqlite_convert::{header_of, read_area};

use crate::error::CommandError;

/// The verbs of `tdekit audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show who made, rotated, backed up, restored or exported which key, and when
    Log(LogArgs),
}

/// Arguments of `audit log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Open the master key and check that no entry was changed, moved or removed
    #[arg(long)]
    verify: bool,
    /// Show the entries of this database alone, by its path, and by its file's identifier where it
    /// is there and encrypted; may be given repeatedly
    #[arg(long, value_name = "FILE")]
    database: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs a verb.
pub(crate) fn run(command: &AuditCommand, global: &GlobalArgs) -> Result<(), CommandError> {
    match command {
        AuditCommand::Log(args) => log(args, global),
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    verified: bool,
    kept: bool,
    begins_after: u64,
    torn_bytes: usize,
    faults: Vec<String>,
    entries: Vec<&'a AuditRecord>,
}

/// The databases whose entries are shown: their paths, and the identifiers of their files.
struct Wanted {
    paths: Vec<String>,
    ids: Vec<String>,
}

impl Wanted {
    fn of(databases: &[PathBuf]) -> Self {
        let mut wanted = Self { paths: Vec::new(), ids: Vec::new() };
        for name in databases {
            let path = name.canonicalize().or_else(|_| std::path::absolute(name));
            wanted.paths.push(path.as_ref().unwrap_or(name).to_string_lossy().into_owned());
            let area = open_ordinary(name).and_then(|file| read_area(&file));
            let header = area.ok().and_then(|area| header_of(name, &area).ok());
            wanted.ids.extend(header.map(|header| hex::encode(header.file_id)));
        }
        wanted
    }

    fn has(&self, entry: &AuditRecord) -> bool {
        self.paths.is_empty() || self.paths.contains(&entry.name) || self.ids.contains(&entry.id)
    }
}

fn log(args: &LogArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let report = match args.verify {
        true => session::open_unlocked_store(global)?.verify_audit_log()?,
        false => session::open_store(global)?.audit_log()?,
    };
    let wanted = Wanted::of(&args.database);
    let shown: Vec<_> = report.entries.iter().filter(|entry| wanted.has(entry)).collect();
    match args.json {
        true => output::json(&Shown {
            verified: args.verify && report.kept,
            kept: report.kept,
            begins_after: report.begins_after,
            torn_bytes: report.torn_bytes,
            faults: report.faults.iter().map(ToString::to_string).collect(),
            entries: shown,
        })?,
        false => print(args, &report, &shown)?,
    }
    match report.faults.len() {
        0 => Ok(()),
        faults => Err(CommandError::AuditLog { faults }),
    }
}

fn print(args: &LogArgs, report: &AuditReport, shown: &[&AuditRecord]) -> Result<(), CommandError> {
    let row = |entry: &&AuditRecord| {
        let user = if entry.user.is_empty() { entry.uid.to_string() } else { entry.user.clone() };
        vec![
            entry.seq.to_string(),
            entry.at.clone(),
            user,
            format!("{} ({})", entry.program, entry.pid),
            word(&entry.action),
            word(&entry.subject),
            entry.name.clone(),
            entry.id.clone(),
            entry.key.as_ref().map(details).unwrap_or_default(),
        ]
    };
    if !shown.is_empty() {
        let header =
            ["entry", "time", "user", "program", "action", "key", "name", "identifier", "more"];
        output::table(&header, shown.iter().map(row).collect())?;
    }
    if !report.kept {
        output::line("The key store keeps no audit log yet; its next change begins one.")?;
    }
    if report.begins_after > 0 {
        output::line(format_args!(
            "The key store was restored: entries 1 to {} are in the log of another directory.",
            report.begins_after
        ))?;
    }
    if report.torn_bytes > 0 {
        output::warning("the last line has no end: its writer was killed, or the disk was full");
    }
    for fault in &report.faults {
        output::warning(fault);
    }
    let entries = report.entries.len();
    match (args.verify && report.kept, report.faults.is_empty()) {
        (true, true) => Ok(output::line(format_args!("{entries} entries, whole and untampered."))?),
        (true, false) => Ok(()),
        (false, _) => {
            Ok(output::line(format_args!("{entries} entries, not verified (--verify)."))?)
        }
    }
}

/// Returns the log's details about a database's key.
fn details(key: &AuditKey) -> String {
    let version = key.version.map(|version| format!("key version {version}"));
    let names = key.certificates.iter().map(|one| match one.name.is_empty() {
        true => one.id.clone(),
        false => one.name.clone(),
    });
    let mut names: Vec<_> = names.collect();
    if key.certificates_left_out > 0 {
        names.push(format!("{} more", key.certificates_left_out));
    }
    let certificates = (!names.is_empty()).then(|| format!("certificate {}", names.join(", ")));
    let media = (!key.media.is_empty()).then(|| format!("backup {}", key.media));
    let parts = [version, Some(key.algorithm.clone()), certificates, media];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns its JSON word.
fn word(value: &impl Serialize) -> String {
    let text = serde_json::to_value(value).ok();
    text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}
