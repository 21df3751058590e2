//! Experiments that price encryption: base against encrypted, in interleaved pairs.
//!
//! Every side is driven as its users drive it: processes of its own, SQLite's C interface, a
//! database opened by its path. Nothing of the encrypting code is linked here; the extension and
//! the command are given as files ([`Tools`]).
//!
//! The program `tdekit-bench` gives [`cli::run`] its arguments, and serves the hidden word
//! `bench-worker` by [`worker_main`].

mod backup;
pub mod cli;
mod command;
mod config;
mod control;
mod derive;
mod driver;
mod environment;
mod error;
mod generate;
mod instructions;
mod interrupt;
mod job;
mod key_store;
mod latency;
mod measure;
mod messages;
mod noise;
mod oltp;
mod peers;
mod percent;
mod private;
mod process;
mod progress;
mod schedule;
mod script;
mod sqlite;
mod subject;
mod sys;
mod tools;
mod value;
mod worker;

pub use cli::{BenchArgs, Outcome, Tools};
pub use error::BenchError;

/// Serves a worker on standard input and output until the input ends.
///
/// # Errors
/// Fails when the output cannot be written.
pub fn worker_main() -> std::io::Result<()> {
    worker::serve(std::io::stdin().lock(), std::io::stdout().lock())
}
