//! Faults of bytes from a client, or of a value to be sent.

use crate::types::SqlType;

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes are missing: the message is cut off, or a length in it lies.
    #[error("{what}: {need} more bytes needed, {have} there")]
    Truncated {
        /// The item being read.
        what: &'static str,
        /// Bytes that it takes.
        need: u64,
        /// Bytes that are left.
        have: u64,
    },
    /// A length that the protocol or this endpoint does not allow.
    #[error("{what}: length {length} is beyond {limit}")]
    TooLong {
        /// The item being read.
        what: &'static str,
        /// The length that was told.
        length: u64,
        /// The largest length.
        limit: u64,
    },
    /// A number that has no meaning where it stands.
    #[error("{what}: {value:#x} is not allowed")]
    Invalid {
        /// The item being read.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// Text that is not text in its encoding.
    #[error("{what}: not text")]
    NotText {
        /// The item being read.
        what: &'static str,
    },
    /// Bytes behind the end.
    #[error("{what}: {bytes} bytes too many")]
    Trailing {
        /// The item being read.
        what: &'static str,
        /// How many bytes are left.
        bytes: u64,
    },
    /// Something of the protocol that this endpoint does not do.
    #[error("{what} is not supported")]
    Unsupported {
        /// The item's name.
        what: &'static str,
    },
    /// A parameter whose bytes are no value of its type, in a message that is whole otherwise.
    #[error("parameter {number} ({name:?}) is no {ty:?}")]
    Parameter {
        /// Its place in the call, from 1.
        number: usize,
        /// Its name; empty when it was passed by position.
        name: String,
        /// The type that the client declared.
        ty: SqlType,
    },
    /// More parameters of a call than there may be.
    #[error("more than {limit} parameters of a call")]
    TooManyParameters {
        /// How many there may be.
        limit: usize,
    },
    /// A value that its type cannot carry.
    #[error("a value that {ty:?} cannot carry")]
    Unfit {
        /// The type.
        ty: SqlType,
    },
}

impl Error {
    /// Whether more bytes could make it whole.
    pub fn is_truncated(&self) -> bool {
        matches!(self, Error::Truncated { .. })
    }
}
