//! Answers of an object store, as facts that a user can act on.

use tdekit_key_crypto::Kind;

/// Why an object store did not do what was asked. No text holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectFault {
    /// The bucket or container is not there.
    #[error("there is no such bucket")]
    NoBucket,
    /// The object is not there.
    #[error("there is no such object")]
    NoObject,
    /// Something stands there already.
    #[error("something stands there already")]
    Exists,
    /// Another writer is about to publish there.
    #[error("another process writes there, or one that was killed has left its claim")]
    Claimed,
    /// The object is not the one that was opened.
    #[error("it was changed or replaced meanwhile")]
    Changed,
    /// The credentials are wrong, or not enough.
    #[error("access denied: {reason}")]
    Denied {
        /// The store's answer.
        reason: String,
    },
    /// No connection, or one that was dropped each time.
    #[error("the store cannot be reached: {reason}")]
    Unreachable {
        /// The last event.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer within {after_s} s")]
    TimedOut {
        /// How long the last try waited, in seconds.
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
    /// The store does not do this.
    #[error("the store refused: {reason}")]
    Refused {
        /// Its message.
        reason: String,
    },
    /// The address, the credentials' settings or the endpoint's are not usable.
    #[error("{reason}")]
    Configuration {
        /// The fault, and the remedy.
        reason: String,
    },
    /// The parts uploaded so far could not be removed.
    #[error("{fault}; what was uploaded so far could not be removed: {hint}")]
    Leftover {
        /// The first error.
        fault: Box<ObjectFault>,
        /// How to find what is left.
        hint: String,
    },
}

impl ObjectFault {
    /// The kind of the error, which decides exit codes and hints.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Configuration { .. } => Kind::Usage,
            Self::Changed | Self::Claimed => Kind::Busy,
            Self::Exists => Kind::Refused,
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

    /// Whether the same request may succeed later.
    #[cfg(feature = "object-stores")]
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Failed { .. })
    }
}
