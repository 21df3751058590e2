//! Faults of an object store, in a form that a user can act on.

use tdekit_key_crypto::Kind;

/// Reason why an object store did not perform an operation. No text contains a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectFault {
    /// The bucket or container does not exist.
    #[error("there is no such bucket")]
    NoBucket,
    /// The object does not exist.
    #[error("there is no such object")]
    NoObject,
    /// An object exists already.
    #[error("something stands there already")]
    Exists,
    /// Another writer is about to publish there.
    #[error("another process writes there, or one that was killed has left its claim")]
    Claimed,
    /// The object is not the one that was opened.
    #[error("it was changed or replaced meanwhile")]
    Changed,
    /// The credentials are wrong or insufficient.
    #[error("access denied: {reason}")]
    Denied {
        /// The store's answer.
        reason: String,
    },
    /// No connection, or every connection was dropped.
    #[error("the store cannot be reached: {reason}")]
    Unreachable {
        /// The last failure.
        reason: String,
    },
    /// The caller ended the operation.
    #[error("cancelled")]
    Cancelled,
    /// There was no answer in time.
    #[error("no answer within {after_s} s")]
    TimedOut {
        /// Duration of the last try, in seconds.
        after_s: u64,
    },
    /// The store is busy or broken.
    #[error("the store failed with status {status}: {reason}")]
    Failed {
        /// The HTTP status.
        status: u16,
        /// The store's answer.
        reason: String,
    },
    /// The store does not support the operation.
    #[error("the store refused: {reason}")]
    Refused {
        /// Its message.
        reason: String,
    },
    /// The address or the settings for credentials or endpoint are not usable.
    #[error("{reason}")]
    Configuration {
        /// The fault, and the remedy.
        reason: String,
    },
    /// The uploaded parts could not be removed.
    #[error("{fault}; what was uploaded so far could not be removed: {hint}")]
    Leftover {
        /// The first error.
        fault: Box<ObjectFault>,
        /// A description of where the remains are.
        hint: String,
    },
}

impl ObjectFault {
    /// Returns the kind of the error, which determines exit codes and hints.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Configuration { .. } => Kind::Usage,
            Self::Changed | Self::Claimed => Kind::Busy,
            Self::Exists | Self::Cancelled => Kind::Refused,
            Self::Leftover { fault, .. } => fault.kind(),
            Self::NoBucket
            | Self::NoObject
            | Self::Denied { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Failed { .. }
            | Self::Refused { .. } => Kind::Io,
        }
    }

    /// Returns true if the same request may succeed later.
    #[cfg(feature = "object-stores")]
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Failed { .. })
    }
}
