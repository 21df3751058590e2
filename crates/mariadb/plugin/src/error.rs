//! The crate's error type.

use tdekit_key_crypto::{CryptoError, Kind};
use tdekit_key_store::StoreError;

/// An error of the plugin. No variant carries key or page bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The option that names the key store is not set.
    #[error("the option tdekit-key-store names no directory")]
    NoKeyStore,
    /// The option for the page length has a value that InnoDB does not support.
    #[error("the option tdekit-page-size is {text:?}, not a page size of InnoDB: 4k to 64k")]
    PageSize {
        /// The option's value.
        text: String,
    },
    /// An error of the key store, or of its server keys.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key that the server asks for does not exist.
    #[error("the key store has no version {version} of key {id}")]
    NoKey {
        /// The key's number.
        id: u32,
        /// The version.
        version: u32,
    },
    /// This version of the plugin does not know the derivation of the version's keys.
    #[error("version {version} of key {id} is of derivation {number}, which is not known here")]
    Derivation {
        /// The key's number.
        id: u32,
        /// The version.
        version: u32,
        /// The derivation's number.
        number: u8,
    },
    /// The key that every server needs does not exist.
    #[error("the key store has no key {id}; `tdekit mariadb key create --key-id {id}` makes it")]
    NoSystemKey {
        /// The key's number.
        id: u32,
    },
    /// The data directory was written with the server keys of another store.
    #[error(
        "the data was written with server keys {found}, and the key store has server keys {ours}: \
         name the store that it was written with in tdekit-key-store, or, if nothing of it is \
         encrypted, remove {}",
        .path.display()
    )]
    OtherKeys {
        /// The mark in the data directory.
        path: std::path::PathBuf,
        /// The `file_id` that the mark names.
        found: String,
        /// The `file_id` of the store's server keys.
        ours: String,
    },
    /// The server keys were signed by another certificate than the required one.
    #[error("the server keys are not signed by certificate {wanted}")]
    OtherSigner {
        /// The name in the option.
        wanted: String,
    },
    /// A page's content does not match its place, or it was changed.
    #[error(
        "page {page} of tablespace {space} is damaged, was changed, or is of another key \
         (key {id}, version {version})"
    )]
    PageRefused {
        /// The tablespace's number.
        space: u32,
        /// The page's number.
        page: u32,
        /// The key's number.
        id: u32,
        /// The version.
        version: u32,
    },
    /// Sealed bytes were changed, or belong to another key.
    #[error("a temporary file is damaged, or was changed")]
    SealRefused,
    /// The server called in an order or with lengths that none of its versions uses.
    #[error("the server passed {what} that the plugin does not take: {len}")]
    Call {
        /// The argument.
        what: &'static str,
        /// Its length or value.
        len: usize,
    },
    /// A file is not a binary log, or is damaged.
    #[error("byte {offset}: {reason}")]
    Binlog {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The fault, in words.
        reason: &'static str,
    },
    /// Reading or writing of a binary log failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A cryptographic library refused something that should not fail.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

impl PluginError {
    /// Returns true for a binary log that ends inside an event: what was read before is whole.
    #[must_use]
    pub fn is_short_binlog(&self) -> bool {
        matches!(self, Self::Binlog { reason, .. } if *reason == crate::binlog::SHORT)
    }

    /// Returns the kind of the error, by which a caller decides how to react.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoKeyStore
            | Self::NoKey { .. }
            | Self::NoSystemKey { .. }
            | Self::OtherSigner { .. }
            | Self::OtherKeys { .. } => Kind::Key,
            Self::Binlog { .. } | Self::PageRefused { .. } | Self::SealRefused => Kind::Damaged,
            Self::Io(_) => Kind::Io,
            Self::Store(error) => error.kind(),
            Self::PageSize { .. }
            | Self::Derivation { .. }
            | Self::Call { .. }
            | Self::Crypto(_) => Kind::Refused,
        }
    }
}
