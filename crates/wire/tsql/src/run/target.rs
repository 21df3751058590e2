//! Targets of rows from another source: a bulk load, OUTPUT .. INTO, INSERT .. EXEC.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;

use super::firing::Watch;
use super::tran::Own;
use crate::plan::scalar::Scalar;
use crate::plan::table::Sequence;
use crate::run::catalog::{Table, TableColumn};

/// A table into which rows go, with its columns.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) table: Arc<Table>,
    /// The columns that a row's values are for, each with its DEFAULT.
    pub(super) columns: Vec<(TableColumn, Option<Scalar>)>,
    /// DEFAULTs of the other columns.
    pub(super) rest: Vec<Scalar>,
    pub(super) sql: String,
    /// True if the identity column is generated here, rather than supplied by the rows.
    pub(super) made: bool,
    pub(super) given: bool,
    /// Sequences whose values its DEFAULTs take.
    pub(super) sequences: Vec<Arc<Sequence>>,
}

/// A bulk load in progress.
#[derive(Debug)]
pub(crate) struct Load {
    pub(super) target: Target,
    pub(super) from: Vec<SqlType>,
    pub(super) keep_nulls: bool,
    pub(super) own: Own,
    pub(super) rows: u64,
    /// True if its rows are noted for CHECK conditions.
    pub(super) noted: bool,
    /// Of FIRE_TRIGGERS.
    pub(super) watch: Option<Watch>,
}
