//! `tdekit inspect`: shows what is readable in a media set without a key.

use std::ffi::OsString;

use clap::Args;
use tdekit_backup_run::labels::now_ms;
use tdekit_backup_run::place::{Place, open};
use tdekit_backup_run::{SetInfo, date_of_ms};
use tdekit_console::{Fit, GlobalArgs, output, session};

use crate::backup::binlogs::DescribedLog;
use crate::backup::report::{
    MediaReport, SetReport, compression_of, kind_of, print_keys, ratio, size, warn_findings,
};
use crate::error::CommandError;

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The media set: its file or address, any of its mirrors, all of its stripes
    #[arg(required = true)]
    media: Vec<OsString>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command. It needs no key store and never prompts.
pub(crate) fn run(args: &InspectArgs, global: &GlobalArgs) -> Result<(), CommandError> {
    let opened = open(&Place::all(&args.media)?)?;
    // For the names of certificates that signed.
    let store = session::open_store(global).ok();
    let report = MediaReport::of(&opened, store.as_ref());
    if args.json {
        return Ok(output::json(&report)?);
    }
    let sets = opened.media.sets();
    output::row(format_args!(
        "Media set {}: {} set(s). Read without a key, so unverified.",
        report.media_uuid,
        sets.len()
    ))?;
    if !sets.is_empty() {
        let header = [
            ("POSITION", Fit::Keep),
            ("TYPE", Fit::Keep),
            ("NAME", Fit::CutOrDrop(5)),
            ("DATABASE", Fit::Cut),
            ("BEGUN", Fit::Drop(1)),
            ("FINISHED", Fit::Drop(10)),
            ("SIZE", Fit::Drop(2)),
            ("STORED", Fit::Drop(3)),
            ("RATIO", Fit::Drop(9)),
            ("COMPRESSION", Fit::Drop(8)),
            ("ENCRYPTION", Fit::Cut),
            ("BY", Fit::Drop(7)),
            ("EXPIRES", Fit::Drop(6)),
            ("FLAGS", Fit::Cut),
        ];
        let rows = sets.iter().zip(&report.sets).map(|(info, told)| row(info, told));
        output::fitted_table(&header, rows.collect())?;
    }
    for (info, told) in sets.iter().zip(&report.sets) {
        print_keys(info.position, told)?;
        if let Some(archive) = &told.archive {
            let behind = archive.behind.map(|number| format!(", shipped behind object {number}"));
            output::row(format_args!(
                "Set {}: object {} of an archive{}",
                info.position,
                archive.object,
                behind.unwrap_or_default()
            ))?;
        }
        if let Some(DescribedLog { name, bytes, begun, .. }) = &told.binary_log {
            let begun = begun.as_ref().map(|at| format!(", begun {at}")).unwrap_or_default();
            output::row(format_args!(
                "Set {}: binary log {name} of a MariaDB server, {bytes} bytes{begun}",
                info.position
            ))?;
        } else if !info.description.is_empty() {
            output::row(format_args!("Set {}: {}", info.position, info.description))?;
        }
    }
    warn_findings(opened.media.findings());
    Ok(())
}

fn row(info: &SetInfo, told: &SetReport) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let encryption = match (&told.set.key_algorithm, &told.set.encryptor_type) {
        (Some(algorithm), Some(kind)) => format!("{algorithm} by {kind}"),
        _ => "none".to_owned(),
    };
    vec![
        info.position.to_string(),
        kind_of(info).to_owned(),
        or_dash(&info.name),
        or_dash(&info.database_name),
        date_of_ms(info.begun_ms),
        date_of_ms(info.finished_ms),
        size(info.payload_bytes),
        size(info.record_bytes),
        ratio(info.payload_bytes, info.record_bytes),
        compression_of(info.compression),
        encryption,
        or_dash(&format!("{}@{}", info.user, info.host)),
        if info.expires_ms == 0 { "never".to_owned() } else { date_of_ms(info.expires_ms) },
        or_dash(&flags(info, told).join(", ")),
    ]
}

fn flags(info: &SetInfo, told: &SetReport) -> Vec<String> {
    let mut flags = Vec::new();
    let mut flag = |on: bool, name: &str| {
        if on {
            flags.push(name.to_owned());
        }
    };
    flag(info.copy_only, "copy only");
    flag(info.source_encrypted, "from an encrypted database");
    flag(info.families > 1, "striped");
    flag(info.expires_ms != 0 && info.expires_ms < now_ms(), "expired");
    flag(!told.signatures.is_empty(), "signed");
    if let Some(damage) = &info.damage {
        flags.push(format!("DAMAGED: {damage}"));
    }
    flags
}
