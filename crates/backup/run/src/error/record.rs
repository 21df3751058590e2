//! Faults of the record beside a database.

/// Why the record beside a database shows nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// Bytes of it changed, or are missing.
    #[error("is damaged")]
    Damaged,
    /// Another file has its name.
    #[error("is not a record of replication")]
    OtherFile,
    /// It was put beside a database it is not of.
    #[error("is another database's")]
    OfAnother,
    /// The system does not open it.
    #[error("cannot be opened: {reason}")]
    NotOpened {
        /// The system's reason.
        reason: String,
    },
}

/// The hint for a record that the system does not open. Nothing shows whether a process has its
/// lock, so no other file is put in its place.
pub(super) const CLOSED: &str = "end each `tdekit replicate` of the database, then give the file \
     to the user who runs it (`chown`, `chmod u+rw`), or remove it: a new chain begins then";

/// The hint for another file that has the name of a record.
pub(super) const OTHER_FILE: &str =
    "give that file another name; the next `tdekit replicate` begins a new chain";

impl RecordFault {
    /// Returns the hint for the user.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Damaged | Self::OfAnother => {
                "the next `tdekit replicate` of the database makes it anew, and begins a new chain"
            }
            Self::OtherFile => OTHER_FILE,
            Self::NotOpened { .. } => CLOSED,
        }
    }
}
