//! The objects of databases: their records, their names and ids, and the system's views of them.

pub(crate) mod defaults;
pub(crate) mod facts;
pub(crate) mod lookup;
pub(crate) mod model;
pub(crate) mod named;
mod named_types;
pub(crate) mod principal;
pub(crate) mod schemas;
pub(crate) mod system;
pub(crate) mod tables;
pub(crate) mod texts;
pub(crate) mod triggers;
pub(crate) mod types;
pub(crate) mod user_types;
pub(crate) mod views;

pub(crate) use crate::plan::table::{Table, TableColumn, TableKind};
