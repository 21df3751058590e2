//! The crate's integration tests, one program: a module a subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

mod hostile;
mod modes;
mod requests;
mod sessions;
mod storm;
