//! Backups through the shipped command, a process each, by cipher, compression,
//! source and target device; other backup tools beside it if asked for.

mod check;
mod matrix;
mod options;
mod own;
mod places;
mod run;
mod tools;

pub(crate) use options::BackupPlan;
pub(crate) use own::back_up;
pub(crate) use run::run;
pub(crate) use tools::TOOLS;
