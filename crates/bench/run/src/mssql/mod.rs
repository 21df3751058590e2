//! SQL Server and whatever speaks its protocol: operations, mixes and backups on databases of the
//! run's own, one under transparent data encryption and one plain.
//!
//! [`names`] has the statements that make and drop things, [`operations`] those that are measured;
//! [`home`] owns what the run made; [`server`] knows the server and its counters; [`sides`] and
//! [`backup`] are what the schedule runs; [`script`] is the same as a file, for whoever may not run
//! a program against the server.

mod backup;
mod data;
mod dry_run;
mod home;
mod mixes;
mod names;
mod operations;
mod options;
mod run;
mod script;
mod server;
mod sides;

use tdekit_tds_client as tds;

pub(crate) use dry_run::dry_run;
pub(crate) use options::{Bounds, MssqlPlan};
pub(crate) use run::run;
pub(crate) use script::{import, imported, sealed, write as script};
