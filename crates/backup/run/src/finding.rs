//! Faults of a media set other than those of its sets, as reported to users.

use serde::Serialize;

use crate::archive::ObjectFinding;
use crate::history;
use crate::operator::Operator;
use crate::{CatalogSet, Finding, Media, RunError};

const NOT_COMPARED: &str = "history_not_read";
/// As [`NOT_COMPARED`]: another program writes the history.
const IN_USE: &str = "history_in_use";

/// The record of replication cannot be read.
const RECORD: &str = "record_not_read";

/// Objects of an archive were lost before a newer chain began, which does not need them.
const LOST: &str = "archive_lost";

/// The history knows a signature that is not there.
const SIGNATURE_GONE: &str = "signature_gone";

/// A finding of a reader.
#[derive(Debug, Clone, Serialize)]
pub struct FindingReport {
    /// The kind, such as `unfinished_tail`.
    pub kind: &'static str,
    /// The text for the user.
    pub message: String,
}

impl FindingReport {
    /// Describes a finding.
    #[must_use]
    pub fn of(finding: &Finding) -> Self {
        let (kind, message) = match finding {
            Finding::UnfinishedTail { media, offset, bytes } => (
                "unfinished_tail",
                format!(
                    "{media}: {bytes} bytes from offset {offset} on are of a set that was never \
                     finished, or was cut short; the next append cuts them off"
                ),
            ),
            Finding::DamagedRecord { media, ordinal, offset, reason } => {
                let which = ordinal.map_or("a record".to_owned(), |n| format!("record {n}"));
                ("damaged_record", format!("{media}: {which} at offset {offset}: {reason}"))
            }
            Finding::BrokenChain { media, ordinal } => (
                "broken_chain",
                format!("{media}: the record before record {ordinal} is not the one it followed"),
            ),
            Finding::UnreadableFile { reason, .. } => {
                ("unreadable_file", format!("{reason}; it is left out"))
            }
            Finding::MissingFamily { family, families } => (
                "missing_family",
                format!(
                    "file {} of the {families} of this striped media set is missing",
                    family + 1
                ),
            ),
            Finding::MirrorsDiffer { media, records, of } => {
                ("mirrors_differ", format!("{media} has {records} records, its mirror {of}"))
            }
            Finding::MirrorsConflict { first, media, ordinal } => (
                "mirrors_conflict",
                format!("{first} and {media} hold different records {ordinal}"),
            ),
            Finding::StripesDiffer { media, newer, interrupted: true, .. } => (
                "stripes_differ",
                format!(
                    "the last record was being finished when that was interrupted: it counts in \
                     {newer} and not yet in {media}; all of it is there, and the next `backup \
                     --append` finishes it"
                ),
            ),
            Finding::StripesDiffer { media, records, newer, of, .. } => (
                "stripes_differ",
                format!("{media} is older than {newer}: it has {records} records, that one {of}"),
            ),
            Finding::MissingSets { first, last } if first == last => {
                ("missing_sets", format!("set {first} is missing"))
            }
            Finding::MissingSets { first, last } => {
                ("missing_sets", format!("sets {first} to {last} are missing"))
            }
            Finding::WrongPosition { position, says } => (
                "wrong_position",
                format!("the header of set {position} says that it is set {says}"),
            ),
            Finding::NoSets { media } => ("no_sets", format!("{media} holds no set")),
        };
        Self { kind, message }
    }

    /// Describes a set that the history knows and that is newer than all sets in the media set.
    fn newer(set: &CatalogSet) -> Self {
        let CatalogSet { position, database_name, backup_finish_date, .. } = set;
        let message = format!(
            "the backup history knows set {position} of {database_name}, finished \
             {backup_finish_date}, and it is not here"
        );
        Self { kind: "newer_in_history", message }
    }

    /// Describes a set that has lost its signature.
    fn unsigned(set: &CatalogSet) -> Self {
        let message = format!(
            "the backup history knows a signature on set {} of {}, and it is not here",
            set.position, set.database_name
        );
        Self { kind: SIGNATURE_GONE, message }
    }

    /// Returns all findings of a media set: of its files, and of the comparison with the history.
    #[must_use]
    pub fn all(operator: &dyn Operator, media: &Media) -> Vec<Self> {
        let mut findings: Vec<Self> = media.findings().iter().map(Self::of).collect();
        match history::newer(operator, media) {
            Ok(newer) => findings.extend(newer.iter().map(Self::newer)),
            Err(error) => findings.push(Self::not_compared(&error)),
        }
        // Of a history that cannot be read, that is said once.
        let unsigned = history::unsigned_here(operator, media).unwrap_or_default();
        findings.extend(unsigned.iter().map(Self::unsigned));
        findings
    }

    /// The history cannot be read: a set that was removed from the end cannot be detected.
    fn not_compared(error: &RunError) -> Self {
        let message = format!(
            "the backup history cannot be read, so nothing shows whether newer sets were removed: \
             {error}"
        );
        Self { kind: if error.is_busy() { IN_USE } else { NOT_COMPARED }, message }
    }

    /// The record beside a database that is replicated is there and cannot be read: whether the
    /// newest objects of its archive are missing cannot be detected.
    #[must_use]
    pub fn record_not_read(message: String) -> Self {
        Self { kind: RECORD, message }
    }

    /// The fault of an object of an archive.
    #[must_use]
    pub fn of_object(finding: ObjectFinding) -> Self {
        let kind = if finding.is_loss { LOST } else { "archive_object" };
        Self { kind, message: finding.message }
    }

    /// Returns true if it says that objects of an archive were lost before a newer chain began.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.kind == LOST
    }

    /// Returns true if it says that something was not checked, and not that it is wrong.
    #[must_use]
    pub fn is_not_compared(&self) -> bool {
        [NOT_COMPARED, RECORD].contains(&self.kind) || self.is_in_use()
    }

    /// Returns true if the sets that are there may be whole all the same: it concerns what comes
    /// behind them, no set, or one set's signature.
    #[must_use]
    pub fn spares_sets(&self) -> bool {
        let of_one = [SIGNATURE_GONE, "unfinished_tail"].contains(&self.kind);
        of_one || self.is_newer() || self.is_not_compared()
    }

    /// Returns true if it says that another program writes the history.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.kind == IN_USE
    }

    /// Returns true if it says that the history knows a newer set.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        self.kind == "newer_in_history"
    }
}
