//! Errors in bytes from a client, or in a value to be sent.

use crate::types::SqlType;

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes are missing: the message is truncated, or a length in it is wrong.
    #[error("{what}: {need} more bytes needed, {have} there")]
    Truncated {
        /// The item being read.
        what: &'static str,
        /// Number of bytes needed.
        need: u64,
        /// Number of bytes left.
        have: u64,
    },
    /// A length that the protocol or this endpoint does not allow.
    #[error("{what}: length {length} is beyond {limit}")]
    TooLong {
        /// The item being read.
        what: &'static str,
        /// The given length.
        length: u64,
        /// The maximum length.
        limit: u64,
    },
    /// A number that has no meaning in its place.
    #[error("{what}: {value:#x} is not allowed")]
    Invalid {
        /// The item being read.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// Text that is invalid in its encoding.
    #[error("{what}: not text")]
    NotText {
        /// The item being read.
        what: &'static str,
    },
    /// Bytes after the end.
    #[error("{what}: {bytes} bytes too many")]
    Trailing {
        /// The item being read.
        what: &'static str,
        /// Number of bytes left.
        bytes: u64,
    },
    /// A part of the protocol that this endpoint does not support.
    #[error("{what} is not supported")]
    Unsupported {
        /// The item's name.
        what: &'static str,
    },
    /// A parameter whose bytes are not a value of its type, in an otherwise complete message.
    #[error("parameter {number} ({name:?}) is no {ty:?}")]
    Parameter {
        /// Its position in the call, from 1.
        number: usize,
        /// Its name; empty when it was passed by position.
        name: String,
        /// The type that the client declared.
        ty: SqlType,
    },
    /// More parameters of a call than allowed.
    #[error("more than {limit} parameters of a call")]
    TooManyParameters {
        /// Maximum number of parameters.
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
    /// Returns true if more bytes could complete it.
    pub fn is_truncated(&self) -> bool {
        matches!(self, Error::Truncated { .. })
    }
}
