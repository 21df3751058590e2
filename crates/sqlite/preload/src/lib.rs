//! Transparent encryption for SQLite in programs that load no extension: `LD_PRELOAD` puts this
//! library before theirs.
//!
//! It replaces the functions that open a database or initialize SQLite, registers the extension
//! with the library that the caller is bound to, and passes the call on to that library. The
//! extension is the same one that other programs load; this library contains none of it.
//!
//! A program with a built-in SQLite that does not export these functions never calls them here: it
//! runs as without this library.

mod hooks;
mod host;
mod register;
