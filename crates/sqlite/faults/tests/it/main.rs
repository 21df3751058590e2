//! The crate's integration tests, one program: a module a subject.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod crash;
mod differential;
mod flip;
mod full_disk;
mod inject;
mod kept_journal;
mod kill;
mod large;
mod leak;
mod savepoint;
mod statement;
mod tamper;
