//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

mod hostile;
mod modes;
mod requests;
mod sessions;
mod storm;
