//! Private MariaDB servers from the system's packages, and MySQL servers from where they were
//! unpacked, for the bench and for tests.
//!
//! Each runs on a data directory of its own, reads no option file of the system, listens on a
//! socket in a temporary directory (and on loopback only if asked), and ends with the value that
//! started it. Nothing here knows what is encrypted: options and environment come from outside.

mod error;
mod mysql;
mod programs;
mod server;
mod tree;

pub use error::ServerError;
pub use programs::{Programs, find_on_path, find_program};
pub use server::{Server, ServerConfig, initialise};
pub use tree::copy_tree;
