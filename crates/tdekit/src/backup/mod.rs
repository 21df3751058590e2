//! What the commands on backups share: arguments, progress, what is printed.

pub(crate) mod keys;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod value;
