//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

mod backup;
mod bench;
mod method;
mod oltp;
