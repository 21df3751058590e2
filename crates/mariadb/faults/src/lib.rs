//! Fault suites for MariaDB with the encryption plugin: real private servers, never the system's.
//!
//! | suite | test |
//! |---|---|
//! | every kind of table, restarts | `life` |
//! | a planted marker in every file | `leak` |
//! | killed under load, keys rotated under load | `crash` |
//! | flipped bits with mended checksums | `tamper` |
//! | pages in the clear, damaged or exchanged, found by the command | `verify` |
//! | pages that are right by themselves and do not fit together | `verify_trees` |
//! | the commands of docs/mariadb.md, word for word | `documents` |
//! | the redo log, read and changed without a key | `redo` |
//! | IVs as the server gives them, counted | `ivs` |
//! | key store gone or wrong | `keys` |
//! | mariadb-backup, full and incremental | `backup` |
//! | replication, binary logs read offline | `replica` |
//! | background threads that have nothing to do | `idle` |
//! | the bench on private servers and on one that was there | `bench` |
//! | what a run asks of a server, by which connections, and what ends it early | `bench_server` |
//!
//! Environment:
//! - `TDEKIT_COMMAND`: the command; by default the newer one of the release and debug builds;
//! - `TDEKIT_FAULTS_PLUGIN=file_key_management`: the server's own key plugin instead of ours, which
//!   checks the harness itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests only: a rig that cannot be built fails its test"
)]

pub mod ledger;
pub mod page;
pub mod pricing;
pub mod raw;
pub mod redo;
pub mod rig;

pub use rig::{Keeper, Rig, Run};
