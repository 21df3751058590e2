//! Typed expressions: the binder's output, which is rendered for SQLite or evaluated.

use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::{Collation, SqlType};

use super::label::{Label, label_of};
use super::relation::{Query, Sort};
use super::{Alias, ColumnRef, Field};
use crate::ast::{BinOp, CmpOp};
use crate::plan::func::Func;
use crate::plan::routine::Invoked;
use crate::plan::table::Sequence;
use crate::value::{Val, is_text};

/// An expression with its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) node: Node,
    /// Of text: its collation.
    pub(crate) label: Label,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Const(Val),
    /// The bare word NULL, which takes any type; or an undeclared parameter, which keeps the first
    /// type that it gets.
    Null(Option<Arc<OnceLock<SqlType>>>),
    Var(usize),
    /// An argument of a kernel.
    Arg(usize),
    /// A value that the session gives to the functions of a statement.
    Given(usize),
    /// A column; SQLite computes it, and the six after it.
    Column(ColumnRef),
    /// An expression that several places share: a key of GROUP BY, an argument of two aggregates,
    /// a DEFAULT of several rows. It is rendered once.
    Shared(Shared<Scalar>),
    Aggregate(Shared<Aggregate>),
    Query(Shared<Subquery>),
    /// The next value of the identity column that is being filled.
    Identity,
    /// The next row version of a database, by its name in SQLite.
    Version(Arc<str>),
    /// The row's value of a sequence, at this place of the row.
    Next(Arc<Sequence>, usize),
    Convert {
        inner: Box<Scalar>,
        style: Option<Box<Scalar>>,
        lenient: bool,
    },
    /// Into a column of this table: a value that does not fit is an error.
    Assign {
        inner: Box<Scalar>,
        table: String,
        column: String,
    },
    Arith(BinOp, Box<Scalar>, Box<Scalar>),
    Concat(Box<Scalar>, Box<Scalar>),
    Negate(Box<Scalar>),
    BitNot(Box<Scalar>),
    Compare(CmpOp, Box<Scalar>, Box<Scalar>),
    /// True if both are stored alike: SQLite's own equality, also of types that have none.
    Same(Box<Scalar>, Box<Scalar>),
    And(Vec<Scalar>),
    Or(Vec<Scalar>),
    Not(Box<Scalar>),
    IsNull(Box<Scalar>, bool),
    Like {
        text: Box<Scalar>,
        pattern: Box<Scalar>,
        escape: Option<Box<Scalar>>,
    },
    InList(Box<Scalar>, Vec<Scalar>),
    Case(Vec<(Scalar, Scalar)>, Option<Box<Scalar>>),
    Call(Func, Vec<Scalar>),
    /// A call of a scalar function of a database.
    Invoke(Box<Invoked>),
}

/// A part of a plan that its copies have in common. It equals its copies, and nothing else: another
/// one like it may have another value, as with NEWID.
#[derive(Debug)]
pub(crate) struct Shared<T>(pub(crate) Arc<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }

    /// Identifies it while it lives.
    pub(crate) fn place(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns true if there are copies.
    pub(crate) fn has_copies(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A call over the rows of a group or of a window.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunction,
    pub(crate) distinct: bool,
    pub(crate) args: Vec<Scalar>,
    /// WITHIN GROUP.
    pub(crate) order: Vec<Sort>,
    pub(crate) over: Option<Shared<Window>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    CountAll,
    Count,
    Min,
    Max,
    /// In the type of the result.
    Sum(SqlType),
    Stdev,
    StdevP,
    Var,
    VarP,
    /// STRING_AGG.
    Join,
    /// Rows as a JSON array of arrays: the kinds of the columns in one text, then the columns.
    Rows,
    /// The objects of FOR JSON: the members of each, and behind them, for each array within, its
    /// name and the members of its objects.
    Json,
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    NTile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
}

/// OVER.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) partition: Vec<Sort>,
    pub(crate) order: Vec<Sort>,
    /// ROWS or RANGE, in words that both languages share.
    pub(crate) frame: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Subquery {
    /// The value of a query of one row at most.
    One(Query),
    /// The value of a query whose rows are counted: a second one is an error.
    Single {
        query: Query,
        alias: Alias,
    },
    Exists(Query),
    /// Over a query of one column.
    In {
        left: Scalar,
        query: Query,
    },
}

impl Subquery {
    /// Returns the only item of its list, where it is one SELECT.
    pub(crate) fn only_item(&self) -> Option<&Scalar> {
        use super::relation::{Item, Rows};
        let Subquery::One(Query { rows: Rows::Select(select), .. }) = self else { return None };
        match select.items.as_slice() {
            [Item::Named(item, _)] => Some(item),
            _ => None,
        }
    }
}

/// The children of an expression, to read or to change.
macro_rules! children {
    ($(#[$doc:meta])* $name:ident $(, $mutable:tt)?) => {
        $(#[$doc])*
        pub(crate) fn $name(&$($mutable)? self, see: &mut dyn FnMut(&$($mutable)? Scalar)) {
            match &$($mutable)? self.node {
                Node::Const(_) | Node::Null(_) | Node::Var(_) => {}
                Node::Arg(_) | Node::Given(_) => {}
                Node::Column(_) | Node::Shared(_) | Node::Aggregate(_) | Node::Query(_) => {}
                Node::Identity | Node::Version(_) | Node::Next(..) => {}
                Node::Convert { inner, style, .. } => {
                    see(inner);
                    if let Some(style) = style {
                        see(style);
                    }
                }
                Node::Assign { inner, .. }
                | Node::Negate(inner)
                | Node::BitNot(inner)
                | Node::Not(inner)
                | Node::IsNull(inner, _) => see(inner),
                Node::Arith(_, a, b)
                | Node::Concat(a, b)
                | Node::Compare(_, a, b)
                | Node::Same(a, b) => {
                    see(a);
                    see(b);
                }
                Node::And(items) | Node::Or(items) | Node::Call(_, items) => {
                    for item in items {
                        see(item);
                    }
                }
                Node::Invoke(invoked) => {
                    for item in &$($mutable)? invoked.args {
                        see(item);
                    }
                }
                Node::Like { text, pattern, escape } => {
                    see(text);
                    see(pattern);
                    if let Some(escape) = escape {
                        see(escape);
                    }
                }
                Node::InList(left, items) => {
                    see(left);
                    for item in items {
                        see(item);
                    }
                }
                Node::Case(whens, otherwise) => {
                    for (when, then) in whens {
                        see(when);
                        see(then);
                    }
                    if let Some(otherwise) = otherwise {
                        see(otherwise);
                    }
                }
            }
        }
    };
}

impl Node {
    pub(crate) fn is_untyped(&self) -> bool {
        matches!(self, Node::Null(_))
    }

    pub(crate) fn is_typed(&self) -> bool {
        !self.is_untyped()
    }

    /// Returns true if it takes SQLite to compute it: a function that reads tables is called from
    /// there.
    pub(crate) fn is_leaf(&self) -> bool {
        self.is_of_sqlite() || matches!(self, Node::Invoke(invoked) if invoked.reads)
    }

    /// Returns true if SQLite itself computes it.
    pub(crate) fn is_of_sqlite(&self) -> bool {
        matches!(
            self,
            Node::Column(_)
                | Node::Shared(_)
                | Node::Aggregate(_)
                | Node::Query(_)
                | Node::Identity
                | Node::Version(_)
                | Node::Next(..)
        )
    }
}

impl Scalar {
    pub(crate) fn new(ty: SqlType, nullable: bool, node: Node) -> Scalar {
        let label = label_of(ty, &node);
        Scalar { ty, nullable, node, label }
    }

    pub(crate) fn constant(ty: SqlType, value: Val) -> Scalar {
        let nullable = crate::value::is_null(&value);
        Scalar { ty, nullable, node: Node::Const(value), label: Label::Coercible }
    }

    /// A condition: TRUE, FALSE or unknown.
    pub(crate) fn condition(node: Node) -> Scalar {
        Scalar { ty: SqlType::Bit, nullable: true, node, label: Label::Coercible }
    }

    pub(crate) fn column(ty: SqlType, nullable: bool, column: ColumnRef) -> Scalar {
        Scalar::new(ty, nullable, Node::Column(column))
    }

    /// The same value as one that has this collation by itself, as a column does.
    pub(crate) fn of_collation(self, collation: Collation) -> Scalar {
        match is_text(self.ty) {
            true => Scalar { label: Label::Implicit(collation), ..self },
            false => self,
        }
    }

    /// The collation of a text.
    pub(crate) fn collation(&self) -> Collation {
        self.label.collation()
    }

    /// Returns an expression that is rendered once, however often it is used.
    pub(crate) fn shared(self) -> Scalar {
        match self.node {
            Node::Column(_) | Node::Shared(_) => self,
            _ => {
                let (ty, nullable, label) = (self.ty, self.nullable, self.label);
                Scalar { ty, nullable, node: Node::Shared(Shared::new(self)), label }
            }
        }
    }

    /// Returns the column, if it is one.
    pub(crate) fn as_column(&self) -> Option<&ColumnRef> {
        match &self.node {
            Node::Column(column) => Some(column),
            _ => None,
        }
    }

    /// Returns the column of the statement's own row, if it is one.
    pub(crate) fn own_field(&self) -> Option<&Field> {
        self.as_column().filter(|column| column.source.is_none()).map(|column| &column.field)
    }

    children! {
        /// Calls `see` with every direct child of this expression.
        children
    }
    children! {
        /// As [`Scalar::children`], to change them.
        children_mut, mut
    }

    /// Calls `see` with every node, this one first; does not descend where it returns false.
    pub(crate) fn walk(&self, see: &mut dyn FnMut(&Scalar) -> bool) {
        if see(self) {
            self.children(&mut |part| part.walk(see));
        }
    }

    /// Calls `change` with every node, this one first; then with its children after that change.
    pub(crate) fn each(&mut self, change: &mut dyn FnMut(&mut Scalar)) {
        change(self);
        self.children_mut(&mut |part| part.each(change));
    }

    /// Returns true if a column is a part of it, outside of its queries.
    pub(crate) fn names_column(&self) -> bool {
        let mut found = false;
        self.walk(&mut |bound| {
            found |= matches!(bound.node, Node::Column(_));
            !found
        });
        found
    }

    /// Returns true if SQLite computes a part of it.
    pub(crate) fn has_leaf(&self) -> bool {
        let mut found = false;
        self.walk(&mut |bound| {
            found |= bound.node.is_leaf();
            !found
        });
        found
    }
}
