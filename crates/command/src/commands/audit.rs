//! `tdekit audit`: databases, their keys and algorithms, the keys' ages, and the last backups.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tdekit_console::{Fit, GlobalArgs, output, session};
use tdekit_key_crypto::Kind;
use tdekit_key_store::iso8601;
use tdekit_sqlite_convert::{Audited, Policy, unread_list};

use crate::commands::audit_log::{self, AuditCommand};
use crate::commands::status::lazy_store;
use crate::error::CommandError;
use crate::overview::estate::{audit_all, emptied_list};
use crate::when::parse_age;

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Directories, with all databases in and below them, or databases
    #[arg(required = true)]
    path: Vec<PathBuf>,
    /// The oldest that a database's key may be, such as 1y or 90d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    max_key_age: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    /// Keys made before this are too old, if a maximum age was given.
    oldest_key_allowed: Option<String>,
    databases: &'a [Audited],
    /// Databases that break a rule.
    breached: usize,
}

/// Runs the command. It never prompts, needs no key and changes nothing.
pub(crate) fn run(args: &AuditArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    if let Some(command) = &args.command {
        return audit_log::run(command, global);
    }
    let store = lazy_store(global, session::open_unlocked_store_unasked);
    let policy = Policy { oldest_key: args.max_key_age };
    let mut audited = Vec::new();
    for name in &args.path {
        let found = audit_all(name, &store, policy);
        if found.is_empty() {
            let reason = format!("{} holds no database that tdekit knows", name.display());
            return Err(CommandError::Nothing { reason });
        }
        audited.extend(found);
    }
    match unread_list(&store) {
        Some((path, error)) => audited.push(Audited::unread(path, &error)),
        None => audited.extend(emptied_list(&audited, &store)),
    }
    let breached = audited.iter().filter(|one| !one.breaches.is_empty()).count();
    if args.json {
        let oldest_key_allowed = args.max_key_age.map(iso8601);
        output::json(&Report { oldest_key_allowed, databases: &audited, breached })?;
    } else {
        print(&audited)?;
    }
    let findings = audited.iter().map(|one| one.breaches.len()).sum();
    match breached {
        0 => Ok(()),
        databases => Err(CommandError::Findings { kind: Kind::Refused, findings, databases }),
    }
}

fn print(audited: &[Audited]) -> Result<(), CommandError> {
    const HEADER: [(&str, Fit); 7] = [
        ("database", Fit::Cut),
        ("algorithm", Fit::Keep),
        ("key", Fit::Drop(3)),
        ("age", Fit::Keep),
        ("certificates", Fit::CutOrDrop(2)),
        ("certificates saved", Fit::Drop(1)),
        ("expires", Fit::Drop(4)),
    ];
    output::fitted_table(&HEADER, audited.iter().map(row).collect())?;
    for one in audited.iter().filter(|one| !one.breaches.is_empty()) {
        output::line("")?;
        output::line(one.path.display())?;
        for breach in &one.breaches {
            output::line(format_args!("  {}: {}", breach.what, breach.message))?;
        }
    }
    Ok(())
}

fn row(one: &Audited) -> Vec<String> {
    let none = || "-".to_owned();
    let path = one.path.display().to_string();
    let Some(encryption) = one.status.as_ref().and_then(|status| status.encryption.as_ref()) else {
        let what = if one.status.is_some() { "none" } else { "unreadable" };
        return vec![path, what.to_owned(), none(), none(), none(), none(), none()];
    };
    let of = |fact: fn(&tdekit_sqlite_convert::Certificate) -> Option<&str>| {
        let each = encryption.certificates.iter().map(|one| fact(one).unwrap_or("-"));
        each.collect::<Vec<_>>().join(", ")
    };
    let day = |at: Option<&str>| at.map(|at| at.split('T').next().unwrap_or(at).to_owned());
    let days = |fact: fn(&tdekit_sqlite_convert::Certificate) -> Option<&str>| {
        let each = encryption.certificates.iter().map(|one| day(fact(one)).unwrap_or_else(none));
        each.collect::<Vec<_>>().join(", ")
    };
    vec![
        path,
        // During a change to another algorithm, pages have either one.
        encryption.algorithms.join(", "),
        encryption.key_version.to_string(),
        one.key_age_days.map_or_else(none, |days| format!("{days} d")),
        of(|one| one.name.as_deref()),
        days(|one| one.backed_up_at.as_deref()),
        days(|one| one.expires_at.as_deref()),
    ]
}
