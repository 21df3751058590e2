//! The crate's one error type.

use crate::{Algorithm, Kind};

/// An error of a cryptographic operation.
///
/// No variant carries key, plaintext or password bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// A key has the wrong length.
    #[error("{algorithm} takes a key of {expected} bytes, not {actual}")]
    KeyLength {
        /// Algorithm that was requested.
        algorithm: Algorithm,
        /// Key length of the algorithm, in bytes.
        expected: usize,
        /// Length given, in bytes.
        actual: usize,
    },
    /// An argument has a length outside its bounds.
    #[error("{what} must be {min} to {max} bytes long, not {actual}")]
    Length {
        /// Name of the argument.
        what: &'static str,
        /// Minimum length, in bytes.
        min: usize,
        /// Maximum length, in bytes.
        max: usize,
        /// Length given, in bytes.
        actual: usize,
    },
    /// Input and output buffers differ in length.
    #[error("input of {input_len} bytes and output of {output_len} bytes differ in length")]
    BufferMismatch {
        /// Length of the input, in bytes.
        input_len: usize,
        /// Length of the output, in bytes.
        output_len: usize,
    },
    /// The algorithm or function is not available in a FIPS build.
    #[error("{what} is not approved by FIPS 140-3, and this build of tdekit offers only what is")]
    NotApproved {
        /// The algorithm or function.
        what: &'static str,
    },
    /// This build does not support the format.
    #[error("this build of tdekit is without {what}")]
    NotBuilt {
        /// The format.
        what: &'static str,
    },
    /// A FIPS build runs with a library that is not a FIPS module.
    #[error("this is a FIPS build of tdekit, and its library is no FIPS module")]
    NoFipsModule,
    /// The algorithm cannot seal pages (it exists for backups only).
    #[error("{0} cannot seal pages")]
    NotForPages(Algorithm),
    /// The name is not that of an algorithm.
    #[error("unknown algorithm {0:?}")]
    UnknownAlgorithm(String),
    /// A stored parameter is outside the bounds that this version accepts.
    #[error("{what} is {actual}; accepted are {min} to {max}")]
    Parameter {
        /// Name of the parameter.
        what: &'static str,
        /// Minimum value.
        min: u64,
        /// Maximum value.
        max: u64,
        /// Value given.
        actual: u64,
    },
    /// The data or its associated data was changed, or the key is the wrong one.
    #[error("authentication failed: wrong key, or the data was changed")]
    Authentication,
    /// A subkey has reached its limit of sealed messages.
    #[error("a subkey sealed {limit} messages, its limit; draw a new nonce prefix")]
    SealLimit {
        /// The limit, in messages.
        limit: u64,
    },
    /// The system's random generator failed.
    #[error("the system's random generator failed")]
    Random,
    /// The system has no memory for a secret, or for deriving one from a password.
    #[error(
        "no memory: {len} bytes were asked for to hold or derive a secret (os error {os_error})"
    )]
    Memory {
        /// Bytes requested.
        len: usize,
        /// `errno` of the failing call.
        os_error: i32,
    },
    /// Input does not have the form that its standard prescribes.
    #[error("malformed {what}: {reason}")]
    Malformed {
        /// The item that was being read.
        what: &'static str,
        /// Reason for the refusal.
        reason: String,
    },
    /// A library refused an operation although its input had been checked.
    #[error("the cryptographic library failed to {operation}")]
    Library {
        /// The operation, as a verb.
        operation: &'static str,
    },
    /// A PKCS#11 module cannot be loaded or started.
    #[error("PKCS#11 module {module}: {reason}")]
    TokenModule {
        /// Path of the module.
        module: String,
        /// The loader's or the module's reason.
        reason: String,
    },
    /// No slot of a PKCS#11 module has the token.
    #[error("the PKCS#11 module {module} has no token {token:?}")]
    TokenMissing {
        /// Path of the module.
        module: String,
        /// The token's label.
        token: String,
    },
    /// A token refused its PIN.
    #[error("token {token:?}: {reason}")]
    TokenPin {
        /// The token's label.
        token: String,
        /// Reason for the refusal, in words.
        reason: &'static str,
    },
    /// A token does not have exactly one suitable key.
    #[error("token {token:?} has {count} keys {key:?} for {operation}, where {wanted} is needed")]
    TokenKey {
        /// The token's label.
        token: String,
        /// The key's label.
        key: String,
        /// The operation, as a noun.
        operation: &'static str,
        /// Number of keys with that label and use.
        count: usize,
        /// Number of keys that the operation needs.
        wanted: usize,
    },
    /// A token's key does not unwrap the secret.
    #[error(
        "key {key:?} of token {token:?} does not open what was wrapped: it is another key of the \
         same name, or the wrapped bytes were changed ({reason})"
    )]
    TokenUnwrap {
        /// The token's label.
        token: String,
        /// The key's label.
        key: String,
        /// The token's answer.
        reason: String,
    },
    /// A token refused an operation.
    #[error("token {token:?} cannot {operation}: {reason}")]
    Token {
        /// The token's label.
        token: String,
        /// The operation, as a verb.
        operation: &'static str,
        /// The token's answer.
        reason: String,
    },
}

impl CryptoError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::TokenModule { .. }
            | Self::TokenMissing { .. }
            | Self::TokenPin { .. }
            | Self::TokenKey { .. }
            | Self::TokenUnwrap { .. } => Kind::Key,
            Self::Token { .. } => Kind::Io,
            Self::KeyLength { .. }
            | Self::Length { .. }
            | Self::BufferMismatch { .. }
            | Self::NotApproved { .. }
            | Self::NotBuilt { .. }
            | Self::NoFipsModule
            | Self::NotForPages(_)
            | Self::UnknownAlgorithm(_)
            | Self::Parameter { .. }
            | Self::Authentication
            | Self::SealLimit { .. }
            | Self::Random
            | Self::Memory { .. }
            | Self::Malformed { .. }
            | Self::Library { .. } => Kind::Refused,
        }
    }
}
