//! Integration tests of the component in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod groups;
mod killed;
mod library;
mod life;
mod service;
// The stand-in for Vault.
#[path = "../../../../command/tests/it/service/mod.rs"]
mod vault;
mod verbs;
