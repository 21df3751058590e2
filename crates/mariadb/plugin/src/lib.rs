//! Transparent encryption for MariaDB: an encryption plugin for the stock server.
//!
//! The server asks the plugin for the newest version of a numbered key, and uses it to encrypt and
//! decrypt all data on disk: InnoDB pages and redo log, Aria, binary logs, temporary files. The
//! ciphers of the calls, and the bytes, are specified in `docs/format/mariadb.md`.

mod abi;
pub mod binlog;
mod cache;
mod call;
pub mod datafile;
mod derive;
mod entry;
mod error;
mod keyring;
mod mark;
mod page;
mod report;
mod stream;
mod variables;
mod wide;

pub use derive::{Derivation, HANDLE_LEN, ServerKey};
pub use error::PluginError;
pub use keyring::Keyring;
pub use tdekit_key_store::MARK_FILE;

/// Name of the plugin, and prefix of the names of its options.
pub const PLUGIN_NAME: &str = "tdekit";

/// Number of the key that the server uses for its own files: redo log, binary logs, Aria, and
/// tables for which no other was requested.
pub const SYSTEM_KEY_ID: u32 = 1;

/// Number of the key for temporary files.
pub const TEMPORARY_KEY_ID: u32 = 2;
