//! What a restore reports.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tdekit_backup_run::archive::PassedObject;
use tdekit_backup_run::choose::PassedOver;
use tdekit_backup_run::{FindingReport, RestoreOutcome, SetInfo, date_of_ms};
use tdekit_console::output;
use tdekit_sqlite_convert::Form;

use super::Work;
use crate::backup::report::{kind_of, size};
use crate::error::CommandError;

/// Result of a restore, as JSON.
#[derive(Serialize)]
struct Restored {
    #[serde(serialize_with = "tdekit_sqlite_convert::path_text")]
    path: Option<PathBuf>,
    media_uuid: String,
    /// Positions of the sets that were used.
    positions: Vec<u32>,
    backup_set_uuid: String,
    /// The database of the set, or the stream's name.
    database_name: String,
    bytes: u64,
    page_size: u32,
    pages: u64,
    /// Algorithm of the restored database; null for a plain one.
    encrypted_with: Option<String>,
    certificates: Vec<String>,
    healed_blocks: u64,
    elapsed_s: f64,
    /// True if SQLite checked the whole database.
    checked: bool,
    /// Faults of the media set other than those of the restored set.
    findings: Vec<FindingReport>,
    /// What is newer and could not be read, for --latest-readable and --at latest-good.
    passed_over: Vec<Passed>,
    /// The archive, if it is from one.
    archive: Option<String>,
    /// The last transaction that is in it, and when that was seen.
    transaction: Option<String>,
    transaction_time: Option<String>,
    /// The time up to which the archive is known to have everything, if the time of --at is later
    /// and nothing behind it is there.
    known_to: Option<String>,
}

/// What was passed over.
#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Passed {
    /// A set of a media set.
    Set(PassedOver),
    /// An object of an archive.
    Object(PassedObject),
}

impl Work<'_> {
    pub(super) fn tell(
        &self,
        path: &Path,
        outcome: &RestoreOutcome,
        elapsed_s: f64,
        form: &Form,
    ) -> Result<(), CommandError> {
        let (algorithm, certificates) = match form {
            Form::Plain => (None, Vec::new()),
            Form::Encrypted { certificates, algorithm } => (
                Some(algorithm.name().to_owned()),
                certificates.iter().map(|info| info.name.clone()).collect(),
            ),
        };
        if self.args.json {
            let hex = |id: [u8; 16]| hex::encode(id);
            return Ok(output::json(&Restored {
                path: Some(path.to_owned()),
                media_uuid: hex(self.opened.media.id()),
                positions: outcome.positions.clone(),
                backup_set_uuid: hex(self.set.set_id),
                database_name: self.set.database_name.clone(),
                bytes: outcome.bytes,
                page_size: outcome.page_size,
                pages: outcome.pages,
                encrypted_with: algorithm,
                certificates,
                healed_blocks: outcome.healed_blocks,
                elapsed_s,
                checked: self.is_checked(),
                findings: self.findings.clone(),
                passed_over: self.passed_over.clone(),
                archive: self.point.as_ref().map(|(archive, _)| archive.clone()),
                transaction: self.point.as_ref().map(|(_, point)| point.name()),
                transaction_time: self.point.as_ref().map(|(_, it)| date_of_ms(it.time_ms)),
                known_to: self.known_to.map(date_of_ms),
            })?);
        }
        let media = &self.opened.media;
        let named = |set: &SetInfo| {
            let of = media.media_of(set);
            match of.id() == media.id() {
                true => set.position.to_string(),
                false => format!("{} of {}", set.position, of.names().join(", ")),
            }
        };
        let positions: Vec<_> = self.chain.sets().map(named).collect();
        let sealed = match algorithm {
            Some(algorithm) => {
                format!("encrypted with {algorithm}, certificate {}", certificates.join(", "))
            }
            None => "not encrypted".to_owned(),
        };
        if let Some((archive, point)) = &self.point {
            return Ok(output::row(format_args!(
                "Restored {} from {archive} up to transaction {point}, of {}: {}, {elapsed_s:.1} \
                 s, {sealed}, {}",
                path.display(),
                self.set.database_name,
                size(outcome.bytes),
                if self.is_checked() { "integrity_check ok" } else { "not checked" },
            ))?);
        }
        output::row(format_args!(
            "Restored {} from set {}, {}, of {}: {}, {elapsed_s:.1} s, {sealed}",
            path.display(),
            positions.join(" and "),
            kind_of(self.set),
            self.set.database_name,
            size(outcome.bytes),
        ))?;
        if outcome.healed_blocks > 0 {
            output::warning(format_args!(
                "{} blocks were damaged in one mirror and read from another",
                outcome.healed_blocks
            ));
        }
        Ok(())
    }
}
