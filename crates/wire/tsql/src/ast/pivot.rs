//! PIVOT and UNPIVOT.

use super::{Name, TableRef};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pivot {
    pub(crate) source: TableRef,
    pub(crate) kind: PivotKind,
    /// The new columns of PIVOT by the values that they stand for; the columns that UNPIVOT makes
    /// rows of.
    pub(crate) names: Vec<String>,
    pub(crate) alias: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PivotKind {
    /// The aggregate, its argument, and the column whose values become columns.
    Columns { aggregate: Name, argument: Name, by: Name },
    /// The columns of the value, and of the name of the column that it was in.
    Rows { value: String, name: String },
}

impl Pivot {
    /// The word of the statement.
    pub(crate) fn word(&self) -> &'static str {
        match self.kind {
            PivotKind::Columns { .. } => "PIVOT",
            PivotKind::Rows { .. } => "UNPIVOT",
        }
    }
}
