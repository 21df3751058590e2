//! OLTP workloads by threads, on sysbench's tables.
//!
//! Servers with the MySQL protocol are driven by the real sysbench ([`mariadb`] starts private
//! servers, [`remote`] uses an existing one); SQLite by our own worker processes. [`ground`] is the
//! same for all.

mod client;
mod dry_run;
mod ground;
mod home;
mod mariadb;
mod own;
mod remote;
mod sqlite;
mod swap;
mod sysbench;
mod tls;

pub(crate) use dry_run::dry_run;
pub(crate) use ground::run;
