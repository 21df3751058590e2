//! An administrator's work on a MariaDB server that encrypts: installs the plugin, shows what is
//! encrypted, rotates keys, looks at every page of the data files, reads binary logs.
//!
//! The engine knows no command: it tells a closure what it has done and a [`Progress`] how far it
//! is, and says in a [`MariadbError`] what stopped it.

mod binlog;
mod client;
mod error;
mod install;
mod keys;
mod redo;
mod rotate;
mod status;
mod verify;

pub use binlog::decrypt_to_file;
pub use client::{Client, Connection};
pub use error::MariadbError;
pub use install::{Done, Installation, Options, Tables};
pub use keys::{FIRST_FREE_ID, certificate_or_signer, existing_keys};
pub use rotate::{Outcome, Rotate, Rotated, rotate};
pub use status::{KeyStatus, ServerStatus, SpacesStatus, Status, status};
pub use verify::{Finding, Places, Report, Tablespace, Verify, VersionPages, verify};

/// Whoever asked for work that takes long, and is told how far it is.
pub trait Progress {
    /// So many pages more are to be looked at.
    fn expects(&self, _pages: u64) {}

    /// So many pages more were looked at.
    fn looked_at(&self, _pages: u64) {}

    /// So many pages are looked at once more: their file was replaced meanwhile.
    fn begins_anew(&self, _pages: u64) {}

    /// `done` of `spaces` tablespaces are under new versions; `page` of `pages` where one is being
    /// encrypted anew.
    fn rotated(&self, _done: u64, _spaces: u64, _page: Option<(u64, u64)>) {}

    /// Nothing more is told.
    fn ends(&self) {}
}

/// Nobody is told.
#[derive(Debug, Clone, Copy)]
pub struct Untold;

impl Progress for Untold {}
