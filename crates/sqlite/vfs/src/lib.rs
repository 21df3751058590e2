//! Transparent encryption for SQLite: a VFS in a loadable extension.
//!
//! The VFS `tdekit` is between the host's SQLite library and its own default VFS. A database is
//! recognised by its header; everything that SQLite writes for it (pages, WAL, journals, temporary
//! files) is sealed below this point. Plain databases pass through.

mod api;
mod base;
mod cache;
mod child;
mod children;
mod entry;
mod error;
mod ffi;
mod file;
mod follow;
mod fresh;
pub mod freshness;
mod functions;
pub mod given;
mod guard;
pub mod host;
mod journal;
mod kept;
pub mod keyring;
mod kind;
mod live_keys;
pub mod logged;
mod main_db;
mod mapping;
mod new_db;
mod open_store;
mod opened;
mod page_one;
mod passage;
mod plain;
mod ranges;
mod reading;
mod refused;
mod reserve;
mod resize;
pub mod scratch;
mod shared;
mod side;
mod sigbus;
mod slabs;
mod temp;
mod uri;
mod vfs;
mod wal;

pub use entry::{sqlite3_extension_init, sqlite3_tdekitsqlite_init};
pub use error::VfsError;
pub use ffi::FCNTL_TDEKIT_SLOTS;
pub use functions::last_error_of;
pub use live_keys::{FILE_ID_AT, SlotIds};

/// Name under which the VFS is registered.
pub const VFS_NAME: &str = "tdekit";
