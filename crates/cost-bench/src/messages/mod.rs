//! Experiment D: messages over TDS, encrypted connections against plain ones to the same server.
//!
//! [`tds`] drains answers; [`process`] finds the server's process and reads what it used; [`own`]
//! starts a server where none is named; [`run`] decides the order.

mod options;
mod own;
mod process;
mod run;
mod tds;
mod url;

pub(crate) use options::{MessagesArgs, MessagesPlan, Shared};
pub(crate) use run::run;
pub(crate) use url::MssqlUrl;
