//! Targets of rows from another source: a bulk load, OUTPUT .. INTO, INSERT .. EXEC.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;

use super::firing::Watch;
use super::tran::Own;
use crate::error::Result;
use crate::plan::Needs;
use crate::plan::change::Statement;
use crate::plan::relation::{Item, Query, Rows, Select};
use crate::plan::scalar::Scalar;
use crate::plan::table::Sequence;
use crate::render::kernels::Kernels;
use crate::render::{self, Rendered};
use crate::run::catalog::{Table, TableColumn};

/// A table into which rows go, with its columns.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) table: Arc<Table>,
    /// The columns that a row's values are for, each with its DEFAULT.
    pub(super) columns: Vec<(TableColumn, Option<Kept>)>,
    /// DEFAULTs of the other columns.
    pub(super) rest: Vec<Kept>,
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
    /// Of columns whose text was read in another code page than it is in.
    pub(super) pages: Vec<Option<u16>>,
    pub(super) keep_nulls: bool,
    pub(super) own: Own,
    pub(super) rows: u64,
    /// True if its rows are noted for CHECK conditions.
    pub(super) noted: bool,
    /// Of FIRE_TRIGGERS.
    pub(super) watch: Option<Watch>,
}

/// The bulk load of a session, if one is in progress. It is out of here while a row is put: a load
/// whose row fails is over.
#[derive(Debug, Default)]
pub(crate) struct Loading(Option<Load>);

impl Loading {
    /// Begins a load, or continues the one that was taken.
    pub(super) fn put(&mut self, load: Load) {
        self.0 = Some(load);
    }

    pub(super) fn take(&mut self) -> Option<Load> {
        self.0.take()
    }

    /// Forgets a load that nobody ends.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}

/// A DEFAULT, bound.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) value: Scalar,
    /// The query that gives it, if it calls functions that read tables.
    pub(super) plan: Option<Box<Rendered>>,
}

impl Kept {
    /// `needs` are those of the value alone.
    pub(super) fn of(value: Scalar, needs: Needs, kernels: &Kernels) -> Result<Kept> {
        if !needs.nested {
            return Ok(Kept { value, plan: None });
        }
        let items = vec![Item::Named(value.clone(), 0)];
        let select = Select { items, ..Select::default() };
        let query = Query::of(Rows::Select(Box::new(select)));
        let plan = render::statement(&Statement::Query(query), Vec::new(), needs, kernels)?;
        Ok(Kept { value, plan: Some(Box::new(plan)) })
    }
}
