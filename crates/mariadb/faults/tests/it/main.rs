//! Integration tests of the crate in one program, with one module for each subject.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod backup;
mod bench;
mod bench_server;
mod binlogs;
mod cluster;
mod crash;
mod documents;
mod idle;
mod ivs;
mod keys;
mod leak;
mod life;
mod moves;
mod redo;
mod replica;
mod tamper;
mod token;
mod verify;
mod verify_trees;
