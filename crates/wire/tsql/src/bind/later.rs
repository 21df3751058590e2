//! Values of computed columns: bound already, or when they are read.

use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::SqlType;

use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Table, TableColumn};
use crate::plan::{Alias, ColumnRef, Field};

/// The value of a computed column, over others of its table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Computed {
    Bound(Box<Scalar>),
    Later(Arc<Later>),
}

/// A value that is bound when it is read for the first time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Later {
    table: Table,
    /// The column's position.
    at: usize,
    id: Option<Alias>,
    /// True on the outer side of a join.
    may_miss: bool,
    value: OnceLock<Scalar>,
}

impl Computed {
    /// Makes it NULL where its table has no row.
    pub(super) fn or_null(&mut self, id: Option<Alias>) {
        match self {
            Computed::Bound(value) => or_null(value, id),
            Computed::Later(later) => {
                let later = Later { may_miss: true, value: OnceLock::new(), ..(**later).clone() };
                *self = Computed::Later(Arc::new(later));
            }
        }
    }
}

impl Later {
    /// The value of the column at a position of a table.
    pub(super) fn new(table: &Table, at: usize, id: Option<Alias>) -> Later {
        Later { table: table.clone(), at, id, may_miss: false, value: OnceLock::new() }
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn column(&self) -> Option<&TableColumn> {
        self.table.columns.get(self.at)
    }

    /// The table's alias in the statement.
    pub(super) fn id(&self) -> Option<Alias> {
        self.id
    }

    /// The value, if it was read before.
    pub(super) fn value(&self) -> Option<&Scalar> {
        self.value.get()
    }

    /// Takes the value of the column, and returns it as it is read.
    pub(super) fn bound(&self, mut value: Scalar) -> Scalar {
        if self.may_miss {
            or_null(&mut value, self.id);
        }
        self.value.get_or_init(|| value).clone()
    }
}

/// Makes a value NULL where its table has no row: on the outer side of a join.
fn or_null(value: &mut Scalar, id: Option<Alias>) {
    value.nullable = true;
    let Some(id) = id else { return };
    let row = Scalar::column(SqlType::BigInt, true, ColumnRef::of(id, Field::RowId));
    let absent = Scalar::condition(Node::IsNull(Box::new(row), false));
    let null = Scalar::constant(value.ty, tdekit_wire_tds::Value::Null);
    let there = value.clone();
    value.node = Node::Case(vec![(absent, null)], Some(Box::new(there)));
}
