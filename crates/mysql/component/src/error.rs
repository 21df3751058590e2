//! The crate's error type.

use std::path::PathBuf;

use tdekit_key_crypto::{CryptoError, Kind};
use tdekit_key_store::StoreError;

/// An error of the component. No variant carries a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentError {
    /// The configuration file does not exist.
    #[error("there is no configuration at {}: `tdekit mysql install` writes it", .path.display())]
    NoConfig {
        /// Its expected path.
        path: PathBuf,
    },
    /// The configuration file is not valid.
    #[error("{}: {reason}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The fault, in words.
        reason: String,
    },
    /// The server has not loaded the keyring, or could not.
    #[error("the keyring is not open")]
    NotOpen,
    /// A certificate other than the configured one signed the keys.
    #[error("the named keys were not signed by certificate {wanted}")]
    OtherSigner {
        /// The configured name.
        wanted: String,
    },
    /// The data directory belongs to other keys.
    #[error(
        "the data was encrypted with the keys {found}, as {} says, and the key store has {ours} in \
         namespace {namespace}",
        .path.display()
    )]
    OtherKeys {
        /// The data directory's mark.
        path: PathBuf,
        /// The id in the mark.
        found: String,
        /// The id of the configured keys, or "none".
        ours: String,
        /// The configured namespace.
        namespace: String,
    },
    /// The stored keys are an older state than the one in use.
    #[error("the named keys were put back to an older state ({found}; {known} is in use)")]
    Older {
        /// The number of the state on disk.
        found: u64,
        /// The number of the state in use.
        known: u64,
    },
    /// The stored keys are gone or were replaced by others while they are in use.
    #[error("the named keys in use are not in the key store any more")]
    Gone,
    /// The server passed an argument that the component does not take.
    #[error("the server passed {what} that the component does not take")]
    Argument {
        /// The argument.
        what: &'static str,
    },
    /// There is a key of this name, which stays.
    #[error("there is a key {id:?} already, which stays")]
    Taken {
        /// Its identifier.
        id: String,
    },
    /// A key that a cipher needs does not exist, or is not for it.
    #[error("there is no AES key {id:?}")]
    NoAesKey {
        /// Its identifier.
        id: String,
    },
    /// An error of the key store, or of its named keys.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A cryptographic library refused something that should not fail.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

impl ComponentError {
    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoConfig { .. } | Self::Config { .. } => Kind::Usage,
            Self::NotOpen
            | Self::OtherSigner { .. }
            | Self::OtherKeys { .. }
            | Self::Gone
            | Self::NoAesKey { .. } => Kind::Key,
            Self::Older { .. } => Kind::Damaged,
            Self::Argument { .. } | Self::Taken { .. } => Kind::Refused,
            Self::Store(error) => error.kind(),
            Self::Crypto(error) => error.kind(),
        }
    }
}
