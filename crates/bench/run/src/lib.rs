//! Experiments that measure the cost of encryption: base against encrypted, in interleaved pairs.
//!
//! Every side is driven as by its users: separate processes, SQLite's C interface, a database
//! opened by its path. None of the encrypting code is linked here; the extension and the command
//! are given as files.
//!
//! The program `tdekit-bench` is [`main`].

// Code that only the experiments on SQL Server use.
#![cfg_attr(not(feature = "servers"), allow(dead_code, unused_imports))]

#[cfg(not(feature = "servers"))]
mod absent;
mod address;
mod backup;
mod backup_tools;
mod cli;
mod command;
mod control;
mod derive;
mod directory;
mod driver;
mod environment;
mod error;
mod experiment;
mod generate;
mod interrupt;
mod job;
mod key_store;
#[cfg(feature = "servers")]
mod messages;
#[cfg(feature = "servers")]
mod mssql;
mod noise;
mod numbers;
mod oltp;
mod peers;
mod plan;
mod private;
mod process;
mod progress;
mod removal;
mod replicate;
mod results;
mod schedule;
mod script;
mod server_options;
mod sides;
mod speedtest;
mod sql_text;
mod subject;
mod tools;
mod twin;
mod worker;

#[cfg(not(feature = "servers"))]
use absent::{messages, mssql};

pub use cli::main;
#[cfg(feature = "servers")]
#[doc(hidden)]
pub use cli::{script_output, script_record};
