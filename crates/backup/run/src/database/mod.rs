//! SQLite databases during backup and restore: opening, writing beside their name, renaming.

pub mod ownership;
pub mod publish;
pub mod sink;
pub mod source;
