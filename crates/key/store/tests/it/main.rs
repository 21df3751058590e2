//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

mod audit;
mod audit_fixture;
mod damage;
mod fixture;
mod hierarchy;
mod named_keys;
mod server_keys;
mod transfer;
mod uses;
