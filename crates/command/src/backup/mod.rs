//! Shared parts of the commands on backups: arguments, progress, output.

pub(crate) mod archive;
pub(crate) mod binlog_end;
#[cfg(feature = "mariadb")]
pub(crate) mod binlog_gaps;
pub(crate) mod binlogs;
pub(crate) mod keys;
pub(crate) mod many;
pub(crate) mod new_store;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod value;
