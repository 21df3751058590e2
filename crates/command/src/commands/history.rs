//! `tdekit history`: shows or rebuilds the backup history.

use std::path::PathBuf;

use clap::Args;
use tdekit_backup_run::rescan::{self, Unreadable};
use tdekit_backup_run::{Catalog, CatalogFilter, CatalogSet, Finding};
use tdekit_console::{Fit, GlobalArgs, output, session};

use crate::backup::report::{ratio, size, warn_findings};
use crate::error::CommandError;
use crate::progress::{Shown, heed_signals};

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only of this database: its path, or its name
    #[arg(long, value_name = "FILE", conflicts_with = "scan")]
    database: Option<PathBuf>,
    /// Take up every set of the media sets in this directory and those below it; may be given
    /// repeatedly
    #[arg(long, value_name = "DIR")]
    scan: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command. It needs no key.
pub(crate) fn run(args: &HistoryArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    heed_signals();
    match args.scan.is_empty() {
        true => list(args, global),
        false => scan(args, global),
    }
}

fn list(args: &HistoryArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let catalog = Catalog::open_existing(&session::store_dir(global)?)?;
    let sets = match (&catalog, &args.database) {
        (Some(catalog), Some(database)) => catalog.sets_of(database)?,
        (Some(catalog), None) => catalog.sets(&CatalogFilter::default())?,
        (None, _) => Vec::new(),
    };
    for undated in catalog.as_ref().map_or_else(|| Ok(Vec::new()), Catalog::undated)? {
        output::warning(format_args!("history: {undated}"));
    }
    if args.json {
        return Ok(output::json(&sets)?);
    }
    if sets.is_empty() {
        return Ok(output::row("There are no backups in the history.")?);
    }
    let header = [
        ("DATABASE", Fit::Cut),
        ("TYPE", Fit::Keep),
        ("BEGUN", Fit::Keep),
        ("SIZE", Fit::Drop(4)),
        ("STORED", Fit::Drop(5)),
        ("RATIO", Fit::Drop(7)),
        ("ENCRYPTION", Fit::Keep),
        ("CERTIFICATE", Fit::CutOrDrop(2)),
        ("EXPIRES", Fit::Drop(6)),
        ("POSITION", Fit::Drop(3)),
        ("MEDIA", Fit::CutOrDrop(1)),
    ];
    Ok(output::fitted_table(&header, sets.iter().map(row).collect())?)
}

fn row(set: &CatalogSet) -> Vec<String> {
    let kind = match (set.is_stream, set.kind.as_str()) {
        (true, _) => "stream",
        (false, "I") => "differential",
        (false, "L") => "log",
        (false, _) => "full",
    };
    let devices: Vec<_> =
        set.devices.iter().map(|device| device.physical_device_name.as_str()).collect();
    let media = match &set.prune_date {
        Some(date) => format!("removed {date}: {}", devices.join(", ")),
        None => devices.join(", "),
    };
    let names: Vec<_> =
        set.encryptors.iter().map(|encryptor| encryptor.certificate_name.as_str()).collect();
    let or = |text: Option<&str>, none: &str| text.unwrap_or(none).to_owned();
    vec![
        set.database_name.clone(),
        kind.to_owned(),
        set.backup_start_date.clone(),
        size(set.backup_size),
        size(set.compressed_backup_size),
        ratio(set.backup_size, set.compressed_backup_size),
        or(set.key_algorithm.as_deref(), "none"),
        if names.is_empty() { "-".to_owned() } else { names.join(", ") },
        or(set.expiration_date.as_deref(), "never"),
        set.position.to_string(),
        media,
    ]
}

fn scan(args: &HistoryArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let mut catalog = Catalog::open(&session::kept_dir(global)?)?;
    let mut tell = |findings: &[Finding]| {
        if !args.json {
            warn_findings(findings);
        }
    };
    let found = rescan::scan(&mut catalog, &args.scan, &Shown::default(), &mut tell)?;
    if args.json {
        output::json(&found)?;
        return Ok(found.refuse_unsound()?);
    }
    for Unreadable { path, error } in &found.unreadable {
        output::warning(format_args!("{}: {error}", path.display()));
    }
    for place in &found.left {
        output::row(format_args!("{place}: moved from there"))?;
    }
    output::row(format_args!(
        "{} set(s) in {} media set(s) ({} file(s)); {} new in {}",
        found.sets,
        found.media_sets,
        found.files,
        found.new,
        catalog.path().display()
    ))?;
    Ok(found.refuse_unsound()?)
}
