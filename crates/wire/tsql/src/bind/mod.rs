//! The binder: names to columns and variables, expressions to static types.

mod apply;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod dml;
pub(crate) mod expr;
pub(crate) mod from;
pub(crate) mod function;
mod grouping;
pub(crate) mod instead;
pub(crate) mod json;
mod local;
pub(crate) mod merge;
mod pivot;
pub(crate) mod predicate;
pub(crate) mod query;
pub(crate) mod recursive;
mod routine;
pub(crate) mod rowwise;
pub(crate) mod select;
pub(crate) mod tables;
mod through;
mod xml;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::{Generated, SqlType};

use tdekit_wire_tds::messages::DefinedError;

use crate::ast::Name;
use crate::ast::defined::UserType;
use crate::error::{Error, Result};
use crate::plan::label::Label;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Catalog, Filled, Table, TableColumn};
use crate::plan::{Alias, ColumnRef, Needs};
use crate::value::is_text;

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
    /// The types of table variables that have one.
    pub(crate) typed: HashMap<String, TableOf>,
    pub(crate) types: Vec<SqlType>,
}

/// Returns the name of the table of a parameter at this position.
pub(crate) fn parameter_table(name: &str, at: usize) -> String {
    format!("#{name}~p{at}")
}

/// The type of a table variable or parameter.
#[derive(Debug, Clone)]
pub(crate) struct TableOf {
    pub(crate) of: Arc<UserType>,
    /// A parameter.
    pub(crate) readonly: bool,
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

    /// Declares a table-valued parameter, which is in this table; its place among the values stays
    /// empty.
    pub(crate) fn declare_table(
        &mut self,
        name: &str,
        real: String,
        of: &Arc<UserType>,
    ) -> Result<()> {
        let key = name.to_lowercase();
        if self.by_name.contains_key(&key) || self.tables.insert(key.clone(), real).is_some() {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        self.typed.insert(key, TableOf { of: of.clone(), readonly: true });
        self.types.push(SqlType::Int);
        Ok(())
    }

    /// Refuses a change of a READONLY parameter.
    pub(crate) fn refuse_readonly(&self, target: &Name) -> Result<()> {
        let typed = self.typed.get(&target.object().to_lowercase());
        match typed.is_some_and(|typed| typed.readonly) {
            true => Err(DefinedError::ReadOnly { name: target.object().to_owned() }.into()),
            false => Ok(()),
        }
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
    pub(crate) generated: Generated,
    pub(crate) column: ColumnRef,
    /// Of text: its collation.
    pub(crate) label: Label,
    /// The value of a computed column, over others of its table.
    pub(crate) value: Option<Box<Scalar>>,
}

impl Offered {
    /// The column as a value.
    pub(crate) fn scalar(&self) -> Scalar {
        match &self.value {
            Some(value) => (**value).clone(),
            None => {
                let label = self.label;
                let column = Scalar::column(self.ty, self.nullable, self.column.clone());
                if is_text(self.ty) { Scalar { label, ..column } } else { column }
            }
        }
    }
}

/// A table, view or derived table in FROM.
#[derive(Debug, Clone)]
pub(crate) struct SourceScope {
    /// The name that qualifies its columns.
    pub(crate) alias: String,
    /// The table's own name, if it has no alias.
    pub(crate) full: Option<crate::ast::Name>,
    /// None for a pseudo-table: its columns are the statement's own.
    pub(crate) id: Option<Alias>,
    pub(crate) columns: Vec<Offered>,
}

impl Binder<'_> {
    /// The columns of a table under this name.
    pub(crate) fn scope_of(
        &mut self,
        alias: &str,
        table: &Table,
        id: Option<Alias>,
    ) -> Result<SourceScope> {
        let mut columns = Vec::new();
        for column in &table.columns {
            columns.push(Offered {
                name: column.name.clone(),
                ty: column.ty,
                nullable: column.nullable,
                generated: column.generated(),
                column: ColumnRef::named(id, &column.name),
                label: Label::Implicit(column.collation),
                value: self.computed(table, column, id)?.map(Box::new),
            });
        }
        Ok(SourceScope { alias: alias.to_owned(), full: None, id, columns })
    }

    /// The value of a computed column, in its type; None for any other column.
    pub(crate) fn computed(
        &mut self,
        table: &Table,
        column: &TableColumn,
        id: Option<Alias>,
    ) -> Result<Option<Scalar>> {
        let Filled::Computed { text, .. } = &column.filled else { return Ok(None) };
        let value = self.computed_value(table, text, id)?;
        let value = crate::functions::typing::convert(value, column.ty)?;
        Ok(Some(value.of_collation(column.collation)))
    }

    /// The value of an expression over the columns of a table that are not computed.
    pub(crate) fn computed_value(
        &mut self,
        table: &Table,
        text: &str,
        id: Option<Alias>,
    ) -> Result<Scalar> {
        let expr = crate::parse::default_expression(text)?;
        let plain = table.columns.iter().filter(|column| !column.is_computed());
        let columns = plain.map(|column| Offered {
            name: column.name.clone(),
            ty: column.ty,
            nullable: column.nullable,
            generated: Generated::No,
            column: ColumnRef::named(id, &column.name),
            label: Label::Implicit(column.collation),
            value: None,
        });
        let (alias, columns) = (String::new(), columns.collect());
        let mut scope = Scope::new();
        scope.sources.push(SourceScope { alias, full: None, id, columns });
        let scopes = std::mem::replace(&mut self.scopes, vec![scope]);
        let bound = self.kept(&expr, table, |binder| binder.scalar(&expr));
        self.scopes = scopes;
        bound
    }
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
    /// as they are used.
    pub(crate) groups: Option<Vec<(crate::ast::Expr, Scalar)>>,
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
    pub(crate) id: Alias,
    /// Without a source.
    pub(crate) columns: Vec<Offered>,
    /// References inside of its own definition count the recursion depth.
    pub(crate) recursive: bool,
}

/// Maximum number of expressions of one statement. Those that are bound repeatedly count each time:
/// CASE with an operand and BETWEEN bind theirs again and again.
const MAX_EXPRESSIONS: u32 = 400_000;
/// Maximum number of tables of one statement, with those inside of its views.
const MAX_TABLES: u32 = 256;
/// So many UNION ALL of a statement, those of its views among them, allow one more table each.
const MAX_UNIONS: u32 = 4000;
/// Recursion limit of a common table expression unless a statement sets another.
const DEFAULT_RECURSION: i64 = 100;

/// Binds one statement and collects everything needed to run it.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a mut dyn Catalog,
    pub(crate) variables: &'a Variables,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) ctes: Vec<CteScope>,
    pub(crate) needs: Needs,
    /// Number of aliases given.
    next: usize,
    /// Views that are being expanded.
    pub(crate) expanding: Vec<String>,
    /// The source of a recursive member that is its expression itself.
    pub(crate) recursion: Option<Alias>,
    /// OPTION (MAXRECURSION), 0 for no limit.
    pub(crate) max_recursion: i64,
    /// Undeclared parameters, if they are allowed.
    pub(crate) open: Option<Arc<Undeclared>>,
    /// Number of expressions and tables that the statement may still have.
    expressions_left: u32,
    pub(crate) tables_left: u32,
    pub(crate) unions_left: u32,
    /// SET ROWCOUNT, for changes.
    pub(crate) row_limit: Option<i64>,
    /// Number of INTO still allowed: one, of the statement's first query.
    pub(crate) into_left: usize,
    /// The database of unqualified names inside of a view.
    pub(crate) context: Option<String>,
    /// True while the query of FOR JSON AUTO is bound.
    pub(crate) json_auto: bool,
    /// The parameters of the function whose query is bound.
    pub(crate) parameters: Option<function::Parameters>,
    /// The scalar functions that are being bound, the outermost first.
    routines: routine::Routines,
    /// True before the query of a common table expression that the statement changes: it gives the
    /// number of each row behind its columns.
    pub(crate) numbers_rows: bool,
    /// The columns of its table that this query has.
    pub(crate) bases: Vec<Option<String>>,
    /// Depths of scopes, each with true once one of its columns was named.
    watched: Vec<(usize, bool)>,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(catalog: &'a mut dyn Catalog, variables: &'a Variables) -> Binder<'a> {
        Binder {
            catalog,
            variables,
            scopes: Vec::new(),
            ctes: Vec::new(),
            needs: Needs::default(),
            next: 0,
            expanding: Vec::new(),
            recursion: None,
            max_recursion: DEFAULT_RECURSION,
            open: None,
            expressions_left: MAX_EXPRESSIONS,
            tables_left: MAX_TABLES,
            unions_left: MAX_UNIONS,
            row_limit: None,
            into_left: 0,
            context: None,
            json_auto: false,
            parameters: None,
            routines: routine::Routines::default(),
            numbers_rows: false,
            bases: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Counts an expression.
    pub(crate) fn spend(&mut self) -> Result<()> {
        self.spend_all(1)
    }

    fn spend_all(&mut self, expressions: u32) -> Result<()> {
        let left = self.expressions_left.checked_sub(expressions);
        self.expressions_left = left.ok_or(Error::TooComplex {})?;
        Ok(())
    }

    /// Binds a variable, or an undeclared parameter.
    pub(crate) fn variable(&mut self, name: &str) -> Result<Scalar> {
        if let Some(parameters) = &self.parameters {
            let value = parameters.find(name)?;
            // each use is a copy, and an argument of another function may consist of several
            let mut parts = 0;
            value.walk(&mut |_| {
                parts += 1;
                true
            });
            self.spend_all(parts)?;
            return Ok(value);
        }
        let error = match self.variables.find(name) {
            Ok(found) => return Ok(Scalar::new(found.ty, true, Node::Var(found.slot))),
            Err(error) => error,
        };
        let open = self.open.as_ref().and_then(|open| open.get(&name.to_lowercase()));
        match open {
            Some(cell) => Ok(Scalar::new(SqlType::Int, true, Node::Null(Some(cell.clone())))),
            None => Err(error),
        }
    }

    /// Returns an alias of this kind that is not in use.
    pub(crate) fn fresh(&mut self, kind: fn(usize) -> Alias) -> Alias {
        self.next += 1;
        kind(self.next)
    }
}
