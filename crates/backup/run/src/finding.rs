//! Faults of a media set other than those of its sets, as reported to users.

use serde::Serialize;

use crate::info::Finding;

/// The history cannot be read.
pub(crate) const NOT_COMPARED: &str = "history_not_read";
/// As [`NOT_COMPARED`]: another program writes the history.
pub(crate) const IN_USE: &str = "history_in_use";

/// The history knows a set that is newer than all sets that are there.
pub(crate) const NEWER: &str = "newer_in_history";

/// Bytes behind the last set are of none.
const TAIL: &str = "unfinished_tail";

/// The record of replication cannot be read.
const RECORD: &str = "record_not_read";

/// Objects of an archive were lost before a newer chain began, which does not need them.
const LOST: &str = "archive_lost";

/// The history knows a signature that is not there.
pub(crate) const SIGNATURE_GONE: &str = "signature_gone";

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
                TAIL,
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

    /// Describes a finding of a media set that is an object of an archive, where `in_archive`.
    pub(crate) fn of_media(finding: &Finding, in_archive: bool) -> Self {
        match finding {
            Finding::UnfinishedTail { media, offset, bytes } if in_archive => Self {
                kind: TAIL,
                message: format!(
                    "{media}: {bytes} bytes from offset {offset} on are of no set: an object of \
                     an archive ends with its only set"
                ),
            },
            finding => Self::of(finding),
        }
    }

    /// Returns true if it says that the record beside a database cannot be read.
    #[must_use]
    pub fn is_of_record(&self) -> bool {
        self.kind == RECORD
    }

    /// The record beside a database that is replicated is there and cannot be read: whether the
    /// newest objects of its archive are missing cannot be detected.
    #[must_use]
    pub fn record_not_read(message: String) -> Self {
        Self { kind: RECORD, message }
    }

    /// The fault of an object of an archive; a loss, if the object was lost before a newer chain
    /// began.
    #[must_use]
    pub fn of_object(message: String, is_loss: bool) -> Self {
        let kind = if is_loss { LOST } else { "archive_object" };
        Self { kind, message }
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
        let of_one = [SIGNATURE_GONE, TAIL].contains(&self.kind);
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
        self.kind == NEWER
    }
}
