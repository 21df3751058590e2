//! Fault suites for encrypted SQLite databases.
//!
//! Layers, top first: SQLite, the VFS under test ([`top::Top`]), the VFS `crash`
//! ([`ffi::crash_vfs`]), the system's `unix` VFS. `crash` keeps a totally ordered log of every
//! write, truncation, sync, creation and deletion ([`record`]); [`disk`] replays a log up to any
//! point and produces the files that a killed process or a power cut could have left behind. The
//! shipped command is recorded by [`trace`] instead, from outside. All suites run on plain SQLite
//! too, which checks the harness itself.
//!
//! | suite | module | test |
//! |---|---|---|
//! | crashes at every operation | [`crash`], [`matrix`], [`ledger`] | `crash` |
//! | flipped bits | [`flip`] | `flip` |
//! | moved, foreign, old, cut pages and files | [`flip`] | `tamper` |
//! | killed, racing, forked processes | [`crowd`] | `kill` |
//! | full disk, broken calls | [`inject`] | `inject` |
//! | a failed call within a transaction that goes on | [`statement`] | `statement` |
//! | a planted marker | [`leak`] | `leak` |
//! | random scripts against plain SQLite | [`differential`] | `differential` |
//!
//! Environment:
//! - `TDEKIT_FULL=1`, `TDEKIT_EXHAUSTIVE=1`: more of every suite, or all of it ([`form`]);
//! - `TDEKIT_FAULTS_SQLITE=libsqlite3.so.0`: this shared library instead of the bundled SQLite;
//! - `TDEKIT_FAULTS_ONLY=text`: only the configurations of the crash matrix whose name contains the
//!   text;
//! - `TDEKIT_FAULTS_LOG=dir`: writes every failure of the crash suite, in full, to a file there;
//! - `TDEKIT_FAULTS_KEEP=dir`: keeps the files of each failing crash state for inspection.

pub mod crash;
pub mod crowd;
pub mod differential;
pub mod disk;
pub mod error;
pub mod ffi;
pub mod flip;
pub mod form;
pub mod inject;
pub mod leak;
pub mod ledger;
pub mod matrix;
pub mod record;
pub mod rng;
pub mod statement;
pub mod top;
pub mod trace;
