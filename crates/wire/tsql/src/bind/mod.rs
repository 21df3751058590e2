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
    /// How many of the first ones are out of sight: inside of a join's ON.
    pub(crate) hidden: usize,
    pub(crate) aggregates: Aggregates,
    /// Columns outside of aggregates must be among these: in the form that
    /// [`Binder::canonical`] gives, and as text.
    pub(crate) groups: Option<Vec<(crate::ast::Expr, Bound)>>,
}

impl Scope {
    pub(crate) fn new() -> Scope {
        let sources = Vec::new();
        Scope { sources, hidden: 0, aggregates: Aggregates::Forbidden, groups: None }
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

/// Binds one statement and gathers everything needed to run it.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a mut dyn Catalog,
    pub(crate) variables: &'a Variables,
    pub(crate) kernels: &'a Kernels,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) ctes: Vec<CteScope>,
    /// Parameters of the statement, ?1 first; they have no leaves.
    pub(crate) params: Vec<Bound>,
    /// Where among them variables are.
    pub(crate) variable_params: std::collections::HashMap<usize, usize>,
    pub(crate) guards: Vec<crate::emit::kernels::Guard>,
    /// System views to fill before the statement runs.
    pub(crate) system: Vec<String>,
    /// Databases that the statement reads.
    pub(crate) reads: Vec<String>,
    /// The requests of its tables' hints.
    pub(crate) hints: Hints,
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
    /// How many INTO may still come: one, of the statement's first query.
    pub(crate) into_left: usize,
    /// The database that names without one are in, inside of a view.
    pub(crate) context: Option<String>,
    /// None when no function looks objects up.
    pub(crate) looks_up: Option<LookUp>,
}

/// The state that the functions of a statement look objects up in.
#[derive(Debug, Default)]
pub(crate) struct LookUp {
    /// Databases, the current one as an empty name.
    pub(crate) databases: Vec<String>,
    /// The names that OBJECT_ID asks for.
    pub(crate) names: Vec<Bound>,
    /// Whether more than those names must be known.
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
    /// The text for SQLite, for these values of its parameters. Ranges that LIKE implies are in it
    /// where their bounds are known: each stands between zero characters, behind the number of its
    /// lower bound. Names have no zero character: see [`quote`].
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
            hints: self.hints,
            looks_up: self.looks_up,
        }
    }
}
