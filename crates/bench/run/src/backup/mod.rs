//! Backups by the shipped command, one process each, by cipher, compression, source and target
//! device; optionally beside other backup tools.

mod check;
mod matrix;
mod own;
mod places;
mod run;

pub(crate) use own::back_up;
pub(crate) use run::run;
