//! SQLite databases as they are backed up and restored: opened, written beside their name, given
//! it.

pub mod publish;
pub mod sink;
pub mod source;
