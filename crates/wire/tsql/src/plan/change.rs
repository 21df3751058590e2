//! Changes of a plan.

use std::sync::Arc;

use super::Alias;
use super::relation::{Common, Limit, Query, Relation};
use super::scalar::Scalar;
use crate::plan::table::Table;

/// What SQLite runs as one statement.
#[derive(Debug)]
pub(crate) enum Statement {
    Query(Query),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) with: Vec<Common>,
    pub(crate) table: Arc<Table>,
    /// Names of the columns that the rows fill; none for a row of nothing but SQLite's defaults.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Inserted,
    /// True if all rows are computed before the first is inserted: functions read the table.
    pub(crate) beforehand: bool,
    pub(crate) returning: Vec<Scalar>,
}

#[derive(Debug)]
pub(crate) enum Inserted {
    Values {
        rows: Vec<Vec<Scalar>>,
        limit: Option<i64>,
    },
    /// These values over each row of a query.
    Query {
        items: Vec<Scalar>,
        query: Box<Query>,
        alias: Alias,
        limit: Option<i64>,
    },
}

#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) with: Vec<Common>,
    pub(crate) target: Target,
    /// Names of columns and their new values.
    pub(crate) sets: Vec<(String, Scalar)>,
}

#[derive(Debug)]
pub(crate) struct Delete {
    pub(crate) with: Vec<Common>,
    pub(crate) target: Target,
    pub(crate) returning: Vec<Scalar>,
}

/// The rows that a change is for.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) table: Arc<Table>,
    /// The table among those of FROM.
    pub(crate) alias: Alias,
    /// None if the table is alone and all of its matching rows are meant.
    pub(crate) from: Option<Chosen>,
    pub(crate) filter: Option<Scalar>,
}

#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) from: Relation,
    pub(crate) limit: Option<Limit>,
}
