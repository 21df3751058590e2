//! Administration of a MySQL server whose keys lie in a tdekit key store: install the keyring
//! component, show the state of encryption, rotate master keys, list keys, take them from MySQL's
//! own keyrings and give them back, and check its files for what is in the clear.
//!
//! The engine does not know the command: it reports finished steps to a closure, and returns a
//! [`MysqlError`] when it stops. Servers are asked through `tdekit-mariadb-admin`'s client.

mod error;
mod install;
mod keys;
mod migrate;
mod rotate;
mod server;
mod status;
mod verify;

pub use error::MysqlError;
pub use install::{Done, Installation, Options};
pub use keys::{KeyShown, NamespaceShown, keys};
pub use migrate::{FileKeyring, export_keyring_file, import_keyring_file, process_with};
pub use rotate::{Outcome, rotate};
pub use server::{CLIENT, refuse_encrypted};
pub use status::{ServerStatus, SpacesShown, Status, status};
pub use verify::{Checked, CheckedFile, Finding, Verify, format, verify};
