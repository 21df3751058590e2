//! Private MariaDB servers from the system's packages, and MySQL servers from an unpacked archive,
//! for the bench and for tests.
//!
//! Each runs on a separate data directory, reads no option file of the system, listens on a socket
//! in a temporary directory (and on loopback only if requested), and ends with the value that
//! started it. Nothing here depends on encryption: options and environment come from outside.

mod error;
mod mysql;
mod programs;
mod server;
mod tree;

pub use error::ServerError;
pub use programs::{Programs, find_on_path, find_program};
pub use server::{Server, ServerConfig, initialise};
pub use tree::copy_tree;
