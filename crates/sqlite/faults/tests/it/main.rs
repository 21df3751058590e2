//! Integration tests of the crate in one program, with one module for each subject.
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
