//! `tdekit mysql verify`.

use std::path::PathBuf;

use clap::Args;
use tdekit_console::{GlobalArgs, output, session};
use tdekit_mysql_admin::{Checked, MysqlError, Verify, verify};

use crate::error::CommandError;

/// Arguments of `mysql verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Data directory of the server
    #[arg(long, value_name = "DIR")]
    datadir: PathBuf,
    /// Directory of the redo log, if it is outside that one (innodb_log_group_home_dir)
    #[arg(long, value_name = "DIR")]
    redo_directory: Option<PathBuf>,
    /// Tablespaces, redo log and binary logs that are not encrypted at all are right
    #[arg(long)]
    allow_plain: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks a server's files. It needs no key; with a key store, the names of master keys are looked
/// up there.
pub(crate) fn run(args: &VerifyArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    // A store that was named must be there.
    let home = std::env::var_os("TDEKIT_HOME").filter(|home| !home.is_empty());
    let is_named = global.store.is_some() || home.is_some();
    let store = match is_named || session::store_dir(global).is_ok_and(|dir| dir.is_dir()) {
        true => Some(session::open_store(global)?),
        false => None,
    };
    let how = Verify {
        allow_plain: args.allow_plain,
        redo: args.redo_directory.as_deref(),
        store: store.as_ref(),
    };
    let report = verify(&args.datadir, &how)?;
    match args.json {
        true => output::json(&report)?,
        false => print(&report)?,
    }
    match report.findings.len() {
        0 => Ok(()),
        findings => Err(MysqlError::Findings { findings, path: args.datadir.clone() }.into()),
    }
}

fn print(report: &Checked) -> Result<(), CommandError> {
    let rows = report.files.iter().map(|file| {
        let is_log = file.kind == "binary log";
        let state = match (file.encrypted, file.pages_encrypted + file.pages_in_the_clear) {
            (true, _) => "encrypted",
            (false, 0) if !is_log => "empty",
            (false, _) => "in the clear",
        };
        let counts = match is_log {
            true => [const { String::new() }; 2],
            false => [file.pages_encrypted, file.pages_in_the_clear].map(|count| count.to_string()),
        };
        let key = file.master_key.clone().unwrap_or_default();
        [vec![file.file.clone(), file.kind.to_owned(), state.to_owned()], counts.into(), vec![key]]
            .concat()
    });
    let heads = ["file", "kind", "state", "encrypted pages", "in the clear", "key"];
    output::table(&heads, rows.collect())?;
    output::line("")?;
    for finding in &report.findings {
        output::line(format_args!("{}: {}: {}", finding.file, finding.what, finding.message))?;
    }
    for what in &report.not_checked {
        output::line(format_args!("Not checked: {what}"))?;
    }
    if !report.clean {
        return Ok(());
    }
    let encrypted = report.files.iter().filter(|file| file.encrypted).count();
    let others = report.files.len() - encrypted;
    Ok(output::line(format_args!(
        "Nothing is wrong: {encrypted} file(s) are encrypted, {others} are empty or may be in the \
         clear."
    ))?)
}
