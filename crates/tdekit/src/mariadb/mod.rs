//! MariaDB: the plugin installed, keys rotated, binary logs read.

pub(crate) mod binlog;
pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod install;
pub(crate) mod keys;
pub(crate) mod rotate;
pub(crate) mod status;
