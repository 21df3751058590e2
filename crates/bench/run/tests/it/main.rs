//! The crate's integration tests, one program: a module a subject.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

mod backup;
mod bench;
mod method;
mod oltp;
