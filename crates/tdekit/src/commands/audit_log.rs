//! `tdekit audit log`: what happened to keys.

use clap::{Args, Subcommand};
use serde::Serialize;
use tdekit_key_store::{AuditRecord, AuditReport};

use crate::error::CommandError;
use crate::global::GlobalArgs;
use crate::{output, session};

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
    entries: &'a [AuditRecord],
}

fn log(args: &LogArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let report = match args.verify {
        true => session::open_unlocked_store(global)?.verify_audit_log()?,
        false => session::open_store(global)?.audit_log()?,
    };
    match args.json {
        true => output::json(&Shown {
            verified: args.verify && report.kept,
            kept: report.kept,
            begins_after: report.begins_after,
            torn_bytes: report.torn_bytes,
            faults: report.faults.iter().map(ToString::to_string).collect(),
            entries: &report.entries,
        })?,
        false => print(args, &report)?,
    }
    match report.faults.len() {
        0 => Ok(()),
        faults => Err(CommandError::AuditLog { faults }),
    }
}

fn print(args: &LogArgs, report: &AuditReport) -> Result<(), CommandError> {
    let row = |entry: &AuditRecord| {
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
        ]
    };
    if !report.entries.is_empty() {
        let header = ["entry", "time", "user", "program", "action", "key", "name", "identifier"];
        output::table(&header, report.entries.iter().map(row).collect())?;
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
        (true, true) => output::line(format_args!("{entries} entries, whole and untampered.")),
        (true, false) => Ok(()),
        (false, _) => output::line(format_args!("{entries} entries, not verified (--verify).")),
    }
}

/// The word that JSON has for it.
fn word(value: &impl Serialize) -> String {
    let text = serde_json::to_value(value).ok();
    text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}
