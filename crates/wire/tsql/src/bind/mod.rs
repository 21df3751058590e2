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
pub(crate) mod typing;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::{Column, SqlType};

use crate::ast::Hints;
use crate::bound::{Bound, Node};
use crate::catalog::Catalog;
use crate::emit::kernels::Kernels;
use crate::error::{Error, Result};

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

/// Undeclared parameters, by their names in lower case, with the type that each gets.
pub(crate) type Undeclared = HashMap<String, Arc<OnceLock<SqlType>>>;

/// A column that a source offers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offered {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) identity: bool,
    /// Its name in SQLite's text.
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

/// Where aggregates are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregates {
    Forbidden,
    Allowed,
    Inside,
}

/// The names in the scope of one SELECT.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) sources: Vec<SourceScope>,
    /// Number of leading sources that are not visible: inside of a join's ON.
    pub(crate) hidden: usize,
    pub(crate) aggregates: Aggregates,
    /// Columns outside of aggregates must be among these: in the form of [`Binder::canonical`], and
    /// as text.
    pub(crate) groups: Option<Vec<(crate::ast::Expr, Bound)>>,
}

impl Scope {
    pub(crate) fn new() -> Scope {
        let sources = Vec::new();
        Scope { sources, hidden: 0, aggregates: Aggregates::Forbidden, groups: None }
    }
}

/// A common table expression in scope.
#[derive(Debug, Clone)]
pub(crate) struct CteScope {
    pub(crate) name: String,
    pub(crate) sql_name: String,
    pub(crate) columns: Vec<Offered>,
    /// References inside of its own definition count the recursion depth.
    pub(crate) recursive: bool,
}

/// Maximum number of expressions of one statement. Those that are bound repeatedly count each time:
/// CASE with an operand and BETWEEN bind theirs again and again.
const MAX_EXPRESSIONS: u32 = 400_000;
/// Maximum number of tables of one statement, with those inside of its views.
const MAX_TABLES: u32 = 256;
/// Recursion limit of a common table expression unless a statement sets another.
const DEFAULT_RECURSION: i64 = 100;

/// Binds one statement and collects everything needed to run it.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a mut dyn Catalog,
    pub(crate) variables: &'a Variables,
    pub(crate) kernels: &'a Kernels,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) ctes: Vec<CteScope>,
    /// Parameters of the statement, starting with ?1; they have no leaves.
    pub(crate) params: Vec<Bound>,
    /// Positions of variables among them.
    pub(crate) variable_params: std::collections::HashMap<usize, usize>,
    pub(crate) guards: Vec<crate::emit::kernels::Guard>,
    /// System views to fill before the statement runs.
    pub(crate) system: Vec<String>,
    /// Databases that the statement reads.
    pub(crate) reads: Vec<String>,
    /// What its tables' hints ask for.
    pub(crate) hints: Hints,
    pub(crate) next: usize,
    /// Views that are being expanded.
    pub(crate) expanding: Vec<String>,
    /// True if constants are written out and kernels are impossible: for text in a schema.
    pub(crate) inline: bool,
    /// Index of the scope at which a recursive member's references begin to count.
    pub(crate) recursion: Option<String>,
    /// OPTION (MAXRECURSION), 0 for no limit.
    pub(crate) max_recursion: i64,
    /// Undeclared parameters, if they are allowed.
    pub(crate) open: Option<Arc<Undeclared>>,
    /// Number of expressions and tables that the statement may still have.
    pub(crate) expressions_left: u32,
    pub(crate) tables_left: u32,
    /// SET ROWCOUNT, for changes.
    pub(crate) row_limit: Option<i64>,
    /// Number of INTO still allowed: one, of the statement's first query.
    pub(crate) into_left: usize,
    /// The database of unqualified names inside of a view.
    pub(crate) context: Option<String>,
    /// None if no function looks up objects.
    pub(crate) looks_up: Option<LookUp>,
}

/// The state in which the functions of a statement look up objects.
#[derive(Debug, Default)]
pub(crate) struct LookUp {
    /// Databases, the current one as an empty name.
    pub(crate) databases: Vec<String>,
    /// The names passed to OBJECT_ID.
    pub(crate) names: Vec<Bound>,
    /// True if more than those names must be known.
    pub(crate) whole: bool,
}

/// A statement for SQLite, ready to run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) sql: String,
    pub(crate) params: Vec<Bound>,
    pub(crate) columns: Vec<Column>,
    /// Keeps the kernels that the text calls.
    #[allow(dead_code)]
    pub(crate) guards: Vec<crate::emit::kernels::Guard>,
    pub(crate) system: Vec<String>,
    pub(crate) reads: Vec<String>,
    pub(crate) hints: Hints,
    pub(crate) looks_up: Option<LookUp>,
}

impl Plan {
    /// Returns the text for SQLite, for these values of its parameters. It includes ranges that
    /// LIKE implies if their bounds are known: each is enclosed in zero characters, after the
    /// number of its lower bound. Names have no zero character: see [`quote`].
    pub(crate) fn text(&self, params: &[rusqlite::types::Value]) -> std::borrow::Cow<'_, str> {
        if !self.sql.contains('\0') {
            return self.sql.as_str().into();
        }
        let mut text = String::with_capacity(self.sql.len());
        let mut parts = self.sql.split('\0');
        while let Some(plain) = parts.next() {
            text.push_str(plain);
            let (Some(number), Some(range)) = (parts.next(), parts.next()) else { break };
            let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let known = at.and_then(|at| params.get(at));
            if known.is_some_and(|bound| *bound != rusqlite::types::Value::Null) {
                text.push_str(range);
            }
        }
        text.into()
    }
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
            variable_params: std::collections::HashMap::new(),
            guards: Vec::new(),
            system: Vec::new(),
            reads: Vec::new(),
            hints: Hints::default(),
            next: 0,
            expanding: Vec::new(),
            inline: false,
            recursion: None,
            max_recursion: DEFAULT_RECURSION,
            open: None,
            expressions_left: MAX_EXPRESSIONS,
            tables_left: MAX_TABLES,
            row_limit: None,
            into_left: 0,
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

    /// Binds a variable, or an undeclared parameter.
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

    /// Returns a name that no column or table has.
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
            hints: self.hints,
            looks_up: self.looks_up,
        }
    }
}
