//! The binder: names to columns and variables, expressions to static types.

pub(crate) mod call;
pub(crate) mod dml;
pub(crate) mod expr;
pub(crate) mod from;
pub(crate) mod predicate;
pub(crate) mod query;
pub(crate) mod recursive;
pub(crate) mod rowwise;
pub(crate) mod select;
pub(crate) mod tables;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::{Column, SqlType};

use crate::ast::{BinOp, CmpOp};
use crate::catalog::Catalog;
use crate::emit::Kernels;
use crate::error::{Error, Result};
use crate::functions::Func;
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
    /// The bare word NULL, which takes any type; or a parameter that nobody declared, which keeps
    /// the first type that it takes.
    Null(Option<Arc<OnceLock<SqlType>>>),
    Var(usize),
    /// An argument of a kernel.
    Arg(usize),
    /// SQLite computes it: a column, an aggregate, a subquery.
    Leaf(String),
    Convert {
        inner: Box<Bound>,
        style: Option<Box<Bound>>,
        lenient: bool,
    },
    /// Into a column of this table: what does not fit is an error.
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

    /// Calls `see` with every node, this one first; stops going down where it says false.
    pub(crate) fn walk(&self, see: &mut dyn FnMut(&Bound) -> bool) {
        if !see(self) {
            return;
        }
        match &self.node {
            Node::Const(_) | Node::Null(_) | Node::Var(_) | Node::Arg(_) | Node::Leaf(_) => {}
            Node::Convert { inner, style, .. } => {
                inner.walk(see);
                if let Some(style) = style {
                    style.walk(see);
                }
            }
            Node::Assign { inner, .. }
            | Node::Negate(inner)
            | Node::BitNot(inner)
            | Node::Not(inner)
            | Node::IsNull(inner, _) => inner.walk(see),
            Node::Arith(_, a, b) | Node::Concat(a, b) | Node::Compare(_, a, b) => {
                a.walk(see);
                b.walk(see);
            }
            Node::And(items) | Node::Or(items) | Node::Call(_, items) => {
                items.iter().for_each(|item| item.walk(see));
            }
            Node::Like { text, pattern, escape } => {
                text.walk(see);
                pattern.walk(see);
                if let Some(escape) = escape {
                    escape.walk(see);
                }
            }
            Node::InList(left, items) => {
                left.walk(see);
                items.iter().for_each(|item| item.walk(see));
            }
            Node::Case(whens, otherwise) => {
                for (when, then) in whens {
                    when.walk(see);
                    then.walk(see);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.walk(see);
                }
            }
        }
    }

    /// Whether SQLite has a part in it.
    pub(crate) fn has_leaf(&self) -> bool {
        let mut found = false;
        self.walk(&mut |bound| {
            found |= matches!(bound.node, Node::Leaf(_));
            !found
        });
        found
    }
}

/// A variable: its slot and type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Variable {
    pub(crate) slot: usize,
    pub(crate) ty: SqlType,
}

/// Variables of a batch or procedure, by their names in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables {
    by_name: HashMap<String, Variable>,
    /// Table variables: name in lower case to the temporary table that holds it.
    pub(crate) tables: HashMap<String, String>,
    pub(crate) types: Vec<SqlType>,
}

impl Variables {
    pub(crate) fn declare(&mut self, name: &str, ty: SqlType) -> Result<usize> {
        let slot = self.types.len();
        let key = name.to_lowercase();
        if self.tables.contains_key(&key)
            || self.by_name.insert(key, Variable { slot, ty }).is_some()
        {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        self.types.push(ty);
        Ok(slot)
    }

    pub(crate) fn find(&self, name: &str) -> Result<Variable> {
        self.by_name
            .get(&name.to_lowercase())
            .copied()
            .ok_or_else(|| Error::UndeclaredVariable { name: name.to_owned() })
    }
}

/// Parameters that nobody declared, by their names in lower case, and the type that each takes.
pub(crate) type Undeclared = HashMap<String, Arc<OnceLock<SqlType>>>;

/// A column that a source offers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offered {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) identity: bool,
    /// How SQLite's text names it.
    pub(crate) sql: String,
}

/// A table, view or derived table in FROM.
#[derive(Debug, Clone)]
pub(crate) struct SourceScope {
    /// The name that qualifies its columns.
    pub(crate) alias: String,
    /// The table's own name, if it has no alias.
    pub(crate) full: Option<crate::ast::Name>,
    pub(crate) columns: Vec<Offered>,
}

/// Where aggregates may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregates {
    Forbidden,
    Allowed,
    Inside,
}

/// The names of one SELECT.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) sources: Vec<SourceScope>,
    pub(crate) aggregates: Aggregates,
    /// Columns outside of aggregates must be among these, as text and as written.
    pub(crate) groups: Option<Vec<(crate::ast::Expr, Bound)>>,
}

impl Scope {
    pub(crate) fn new() -> Scope {
        Scope { sources: Vec::new(), aggregates: Aggregates::Forbidden, groups: None }
    }
}

/// A common table expression in sight.
#[derive(Debug, Clone)]
pub(crate) struct CteScope {
    pub(crate) name: String,
    pub(crate) sql_name: String,
    pub(crate) columns: Vec<Offered>,
    /// References inside of its own definition count their depth.
    pub(crate) recursive: bool,
}

/// Expressions of one statement, those that are bound more than once counted as often: CASE with an
/// operand and BETWEEN bind theirs again and again.
const MAX_EXPRESSIONS: u32 = 400_000;
/// Tables of one statement, those inside of its views among them.
const MAX_TABLES: u32 = 256;
/// How deep a recursive common table expression goes unless a statement says otherwise.
const DEFAULT_RECURSION: i64 = 100;

/// Binds one statement and gathers what running it needs.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a mut dyn Catalog,
    pub(crate) variables: &'a Variables,
    pub(crate) kernels: &'a Kernels,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) ctes: Vec<CteScope>,
    /// Parameters of the statement, ?1 first; they have no leaves.
    pub(crate) params: Vec<Bound>,
    pub(crate) guards: Vec<crate::emit::Guard>,
    /// System views to fill before the statement runs.
    pub(crate) system: Vec<String>,
    /// Databases that the statement reads.
    pub(crate) reads: Vec<String>,
    pub(crate) next: usize,
    /// Views that are being expanded.
    pub(crate) expanding: Vec<String>,
    /// Constants are written out, and kernels are not possible: for text in a schema.
    pub(crate) inline: bool,
    /// Where in the scopes a recursive member's references begin to count.
    pub(crate) recursion: Option<String>,
    /// OPTION (MAXRECURSION), 0 for no limit.
    pub(crate) max_recursion: i64,
    /// Parameters that nobody declared, where they are allowed.
    pub(crate) open: Option<Arc<Undeclared>>,
    /// Expressions and tables that the statement may still have.
    pub(crate) expressions_left: u32,
    pub(crate) tables_left: u32,
    /// SET ROWCOUNT, for changes.
    pub(crate) row_limit: Option<i64>,
    /// The database that names without one are in, inside of a view.
    pub(crate) context: Option<String>,
    /// Databases that functions look objects up in, the current one as an empty name; None when
    /// there are no such functions.
    pub(crate) looks_up: Option<Vec<String>>,
}

/// A statement for SQLite, ready to run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) sql: String,
    pub(crate) params: Vec<Bound>,
    pub(crate) columns: Vec<Column>,
    /// Keeps the kernels that the text calls.
    #[allow(dead_code)]
    pub(crate) guards: Vec<crate::emit::Guard>,
    pub(crate) system: Vec<String>,
    pub(crate) reads: Vec<String>,
    pub(crate) looks_up: Option<Vec<String>>,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(
        catalog: &'a mut dyn Catalog,
        variables: &'a Variables,
        kernels: &'a Kernels,
    ) -> Binder<'a> {
        Binder {
            catalog,
            variables,
            kernels,
            scopes: Vec::new(),
            ctes: Vec::new(),
            params: Vec::new(),
            guards: Vec::new(),
            system: Vec::new(),
            reads: Vec::new(),
            next: 0,
            expanding: Vec::new(),
            inline: false,
            recursion: None,
            max_recursion: DEFAULT_RECURSION,
            open: None,
            expressions_left: MAX_EXPRESSIONS,
            tables_left: MAX_TABLES,
            row_limit: None,
            context: None,
            looks_up: None,
        }
    }

    /// Counts an expression.
    pub(crate) fn spend(&mut self) -> Result<()> {
        let left = self.expressions_left.checked_sub(1);
        self.expressions_left = left.ok_or(Error::TooComplex {})?;
        Ok(())
    }

    /// A variable, or a parameter that nobody declared.
    pub(crate) fn variable(&mut self, name: &str) -> Result<Bound> {
        let error = match self.variables.find(name) {
            Ok(found) => return Ok(Bound::new(found.ty, true, Node::Var(found.slot))),
            Err(error) => error,
        };
        let open = self.open.as_ref().and_then(|open| open.get(&name.to_lowercase()));
        match open {
            Some(cell) => Ok(Bound::new(SqlType::Int, true, Node::Null(Some(cell.clone())))),
            None => Err(error),
        }
    }

    /// A name that no column or table has.
    pub(crate) fn fresh(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("~{prefix}{}", self.next)
    }

    pub(crate) fn plan(self, sql: String, columns: Vec<Column>) -> Plan {
        Plan {
            sql,
            params: self.params,
            columns,
            guards: self.guards,
            system: self.system,
            reads: self.reads,
            looks_up: self.looks_up,
        }
    }
}

/// A name in SQLite's text.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}
