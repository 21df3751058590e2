//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod base_vfs;
mod basic;
mod copies;
mod cut_file;
mod deaf_shim;
mod given;
mod host_fault;
mod journal;
mod journal_replaced;
mod key_versions;
mod keyring;
mod new_db;
mod page_size;
mod reason;
mod refused;
mod register;
mod reserve;
mod scratch;
mod shutdown;
mod temporary;
mod tenants;
mod uri;
mod wal;
