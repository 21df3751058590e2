//! Transparent encryption for SQLite in programs that load no extension: `LD_PRELOAD` puts this
//! library before theirs.
//!
//! It stands in for the functions that open a database or make SQLite ready, has the extension
//! registered with the library that the caller is bound to, and passes the call on to it. The
//! extension is the one that other programs load; nothing of it is in here.
//!
//! A program whose SQLite is a part of itself, and does not export these functions, never calls
//! them here: it runs as without this library.

mod hooks;
mod host;
mod register;
