//! SQLite's C interface from a library chosen at run time, so that every side of a comparison is
//! driven by the same code.
//!
//! This is the crate's only module that calls C functions of SQLite.
#![allow(unsafe_code)]

mod api;
mod connection;
mod statement;

pub(crate) use api::LibraryError;
pub(crate) use connection::{BUSY_WAIT, Connection, Library, SqliteError, retries};
pub(crate) use statement::Statement;
