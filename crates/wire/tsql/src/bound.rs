//! Typed expressions: the binder's output, which is then evaluated.

use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::SqlType;

use crate::ast::{BinOp, CmpOp};
use crate::functions::func::Func;
use crate::value::Val;

/// An expression with its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) node: Node,
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
    /// Computed by SQLite: a column, an aggregate, a subquery.
    Leaf(String),
    Convert {
        inner: Box<Bound>,
        style: Option<Box<Bound>>,
        lenient: bool,
    },
    /// Into a column of this table: a value that does not fit is an error.
    Assign {
        inner: Box<Bound>,
        table: String,
        column: String,
    },
    Arith(BinOp, Box<Bound>, Box<Bound>),
    Concat(Box<Bound>, Box<Bound>),
    Negate(Box<Bound>),
    BitNot(Box<Bound>),
    Compare(CmpOp, Box<Bound>, Box<Bound>),
    And(Vec<Bound>),
    Or(Vec<Bound>),
    Not(Box<Bound>),
    IsNull(Box<Bound>, bool),
    Like {
        text: Box<Bound>,
        pattern: Box<Bound>,
        escape: Option<Box<Bound>>,
    },
    InList(Box<Bound>, Vec<Bound>),
    Case(Vec<(Bound, Bound)>, Option<Box<Bound>>),
    Call(Func, Vec<Bound>),
}

/// The children of an expression, to read or to change.
macro_rules! children {
    ($(#[$doc:meta])* $name:ident $(, $mutable:tt)?) => {
        $(#[$doc])*
        pub(crate) fn $name(&$($mutable)? self, see: &mut dyn FnMut(&$($mutable)? Bound)) {
            match &$($mutable)? self.node {
                Node::Const(_) | Node::Null(_) | Node::Var(_) | Node::Arg(_) | Node::Leaf(_) => {}
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
                Node::Arith(_, a, b) | Node::Concat(a, b) | Node::Compare(_, a, b) => {
                    see(a);
                    see(b);
                }
                Node::And(items) | Node::Or(items) | Node::Call(_, items) => {
                    for item in items {
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
}

impl Bound {
    pub(crate) fn new(ty: SqlType, nullable: bool, node: Node) -> Bound {
        Bound { ty, nullable, node }
    }

    pub(crate) fn constant(ty: SqlType, value: Val) -> Bound {
        Bound { ty, nullable: crate::value::is_null(&value), node: Node::Const(value) }
    }

    /// A condition: TRUE, FALSE or unknown.
    pub(crate) fn condition(node: Node) -> Bound {
        Bound { ty: SqlType::Bit, nullable: true, node }
    }

    children! {
        /// Calls `see` with every direct child of this expression.
        children
    }
    children! {
        /// As [`Bound::children`], to change them.
        children_mut, mut
    }

    /// Calls `see` with every node, this one first; does not descend where it returns false.
    pub(crate) fn walk(&self, see: &mut dyn FnMut(&Bound) -> bool) {
        if see(self) {
            self.children(&mut |part| part.walk(see));
        }
    }

    /// Calls `change` with every node, this one first; then with its children after that change.
    pub(crate) fn each(&mut self, change: &mut dyn FnMut(&mut Bound)) {
        change(self);
        self.children_mut(&mut |part| part.each(change));
    }

    /// Returns true if SQLite computes a part of it.
    pub(crate) fn has_leaf(&self) -> bool {
        let mut found = false;
        self.walk(&mut |bound| {
            found |= matches!(bound.node, Node::Leaf(_));
            !found
        });
        found
    }
}
