//! Administration of a MariaDB server that encrypts: install the plugin, show the state of
//! encryption, rotate keys, check every page of the data files, read binary logs.
//!
//! The engine does not know the command: it reports finished steps to a closure and its progress to
//! a [`Progress`], and returns a [`MariadbError`] when it stops.

mod archive;
mod binlog;
mod client;
mod error;
mod given;
mod install;
mod keys;
mod needs;
mod others;
mod redo;
mod rotate;
mod status;
mod verify;

pub use archive::{BinaryLog, BinaryLogs, Due, Ended, LogEnd, PlainLog};
pub use binlog::decrypt_to_file;
pub use client::{Client, Connection};
pub use error::MariadbError;
pub use given::{Given, give_to_server};
pub use install::{Done, Installation, Options, Tables, is_same_file, is_whole_elf};
pub use keys::{FIRST_FREE_ID, certificate_or_signer, existing_keys};
pub use rotate::{Outcome, Rotate, Rotated, rotate};
pub use status::{KeyStatus, ServerStatus, SpacesStatus, Status, status};
pub use verify::{Finding, Places, Report, Tablespace, TreesLeft, Verify, VersionPages, verify};

/// The caller's side of long work: receives its progress.
pub trait Progress {
    /// Called when this many more pages are to be checked.
    fn expects(&self, _pages: u64) {}

    /// Called when this many more pages were checked.
    fn looked_at(&self, _pages: u64) {}

    /// Called when this many pages must be checked again, because their file was replaced in the
    /// meantime.
    fn begins_anew(&self, _pages: u64) {}

    /// Called when `done` of `spaces` tablespaces are under new versions; `page` of `pages` if one
    /// is being re-encrypted.
    fn rotated(&self, _done: u64, _spaces: u64, _page: Option<(u64, u64)>) {}

    /// Called when no more reports follow.
    fn ends(&self) {}
}

/// Reports nothing.
#[derive(Debug, Clone, Copy)]
pub struct Untold;

impl Progress for Untold {}
