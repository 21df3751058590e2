//! SQL Server and other servers with its protocol: operations, mixes and backups on databases of
//! the run, one under transparent data encryption and one plain.
//!
//! [`names`] has the statements that create and drop objects, [`operations`] the measured ones;
//! [`home`] owns the created objects; [`server`] has the server and its counters; [`sides`] and
//! [`backup`] are run by the schedule; [`script`] is the same as a file, for users who may not run
//! a program against the server.

mod backup;
mod data;
mod dry_run;
mod home;
mod mixes;
mod names;
mod operations;
mod run;
mod script;
mod server;
mod sides;

use tdekit_tds_client as tds;

pub(crate) use dry_run::dry_run;
pub(crate) use run::run;
pub(crate) use script::{import, imported, sealed, write as script};
