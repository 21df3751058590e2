//! OLTP workloads by threads, on sysbench's tables.
//!
//! On MySQL-protocol servers the real sysbench drives ([`mariadb`] starts private servers,
//! [`remote`] uses one that is there); on SQLite our own worker processes do. [`ground`] is the
//! same for all.

mod client;
mod dry_run;
mod ground;
mod home;
mod mariadb;
mod options;
mod own;
mod remote;
mod sqlite;
mod swap;
mod sysbench;
mod tls;
mod worker;

pub(crate) use dry_run::dry_run;
pub(crate) use ground::run;
pub(crate) use options::{AnyPeer, OltpPlan, OltpTarget};
pub(crate) use worker::{Oltp, OltpShare};
