//! Fault suites for MySQL with the keyring component: real private servers, never the system's.
//!
//! | suite | test |
//! |---|---|
//! | the C interface, without a server | `library` |
//! | tables, logs, restarts, rotation, reloads, leaks; two servers; a store away | `life` |
//! | keys that are damaged, foreign or gone | `damage` |
//! | a remote clone and a group, each server with a store of its own | `groups` |
//! | killed while keys are made and stored, and in each call that stores them | `killed` |
//! | a key store that Vault opens, and Vault away | `service` |
//! | the verbs of `tdekit mysql` | `verbs` |
//!
//! Where no MySQL server was fetched (`cargo xtask mysql true` does), all but `library` skip, and
//! say so. Environment:
//! - `TDEKIT_MYSQL_DIR`: the directory of the unpacked server; by default `target/mysql/root`;
//! - `TDEKIT_COMMAND`: the command; by default the newer one of the release and debug builds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests only: a rig that cannot be built fails its test"
)]

pub mod rig;

pub use rig::{CERTIFICATE, Keys, NAMESPACE, Rig, Run, library, plugins, text};
