//! Relations of a plan: queries, and what they read from.

use std::sync::Arc;

use super::scalar::Scalar;
use super::{Alias, Field};
use crate::ast::SetOp;
use crate::plan::table::Table;

/// A query, after its common table expressions. Its columns are those of its rows, by position.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) with: Vec<Common>,
    pub(crate) rows: Rows,
}

impl Query {
    pub(crate) fn of(rows: Rows) -> Query {
        Query { with: Vec::new(), rows }
    }
}

/// A common table expression.
#[derive(Debug)]
pub(crate) enum Common {
    Plain {
        name: Alias,
        query: Query,
    },
    /// Members that read the expression itself, after an anchor of so many columns. Each row has
    /// its depth.
    Recursive {
        name: Alias,
        width: usize,
        anchor: Query,
        members: Vec<Query>,
    },
}

#[derive(Debug)]
pub(crate) enum Rows {
    Select(Box<Select>),
    Ranked(Box<Ranked>),
    Set {
        op: SetOp,
        left: Converted,
        right: Converted,
    },
    /// The rows of a set in this order.
    Ordered {
        rows: Box<Rows>,
        order: Vec<Sort>,
        limit: Option<Limit>,
    },
    Converted(Converted),
}

/// A filter, a projection and, with keys or aggregates, a grouping of a relation.
#[derive(Debug, Default)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) items: Vec<Item>,
    /// None for one row without columns.
    pub(crate) from: Option<Relation>,
    pub(crate) filter: Option<Scalar>,
    pub(crate) keys: Vec<Scalar>,
    pub(crate) having: Option<Scalar>,
    pub(crate) order: Vec<Sort>,
    pub(crate) limit: Option<Limit>,
}

/// A column of a list.
#[derive(Debug)]
pub(crate) enum Item {
    /// A value, named by its position, compared as T-SQL does.
    Named(Scalar, usize),
    /// A key of ORDER BY beyond the list, by its position among those.
    Key(Scalar, usize),
    /// A value that only the interpreter reads.
    Plain(Scalar),
    /// The depth of a recursive member's row: that of this source plus 1, an error at the limit.
    Depth(Alias, i64),
}

/// TOP .. PERCENT and WITH TIES: the rows of a query, numbered or ranked in this order.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) select: Select,
    /// Number of its columns without those of keys.
    pub(crate) width: usize,
    /// Over its columns.
    pub(crate) order: Vec<Sort>,
    pub(crate) ties: bool,
    pub(crate) percent: bool,
    /// Number of rows, or the share of them.
    pub(crate) count: Scalar,
}

/// A query whose columns are converted to common types, as for a set.
#[derive(Debug)]
pub(crate) struct Converted {
    pub(crate) query: Box<Query>,
    pub(crate) alias: Alias,
    pub(crate) items: Vec<Scalar>,
}

/// A key of an order.
#[derive(Debug)]
pub(crate) struct Sort {
    pub(crate) value: Scalar,
    pub(crate) descending: bool,
}

#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) count: Count,
    pub(crate) offset: Option<Scalar>,
}

#[derive(Debug)]
pub(crate) enum Count {
    All,
    Rows(i64),
    Value(Scalar),
}

impl Limit {
    pub(crate) fn rows(rows: i64) -> Limit {
        Limit { count: Count::Rows(rows), offset: None }
    }
}

/// A part of FROM.
#[derive(Debug)]
pub(crate) enum Relation {
    /// One row without columns.
    One,
    Scan {
        table: Arc<Table>,
        alias: Alias,
    },
    Common {
        name: Alias,
        alias: Alias,
    },
    Derived {
        query: Box<Query>,
        alias: Alias,
    },
    Values {
        rows: Vec<Vec<Scalar>>,
        alias: Alias,
    },
    /// The pieces of a text, or rows: a JSON array.
    Split {
        text: Scalar,
        alias: Alias,
    },
    Join {
        kind: Join,
        left: Box<Relation>,
        right: Box<Relation>,
        on: Option<Scalar>,
    },
    /// A list with commas.
    Product(Vec<Relation>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    Inner,
    Left,
    Right,
    Full,
}

impl Relation {
    /// Returns true if unmatched rows of a right side are kept.
    pub(crate) fn keeps_right(&self) -> bool {
        match self {
            Relation::Join { kind, left, .. } => {
                matches!(kind, Join::Right | Join::Full) || left.keeps_right()
            }
            _ => false,
        }
    }
}

impl Sort {
    /// By a column of the list.
    pub(crate) fn is_item(&self) -> bool {
        self.value.own_field().is_some_and(|field| matches!(field, Field::Item(_) | Field::Key(_)))
    }
}
