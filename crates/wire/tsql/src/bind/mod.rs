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
mod limits;
mod local;
pub(crate) mod merge;
mod names;
mod pivot;
pub(crate) mod predicate;
pub(crate) mod query;
pub(crate) mod recursive;
mod routine;
pub(crate) mod rowwise;
pub(crate) mod select;
pub(crate) mod tables;
mod through;
mod variables;
mod xml;

use std::sync::Arc;

use tdekit_wire_tds::{Generated, SqlType};

use self::limits::Limits;
use self::names::Names;
pub(crate) use self::names::Scope;
pub(crate) use self::variables::{TableOf, Undeclared, Variable, Variables, parameter_table};
use crate::error::Result;
use crate::plan::label::Label;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Catalog, Filled, Table, TableColumn};
use crate::plan::{Alias, ColumnRef, Needs};
use crate::value::is_text;

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
        let scope = Scope::of(vec![SourceScope { alias, full: None, id, columns }]);
        self.only_in(scope, |binder| binder.kept(&expr, table, |binder| binder.scalar(&expr)))
    }
}

/// Binds one statement and collects everything needed to run it.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a mut dyn Catalog,
    pub(crate) variables: &'a Variables,
    names: Names,
    pub(crate) needs: Needs,
    /// Views that are being expanded.
    pub(crate) expanding: Vec<String>,
    /// Undeclared parameters, if they are allowed.
    open: Option<Arc<Undeclared>>,
    limits: Limits,
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
}

impl<'a> Binder<'a> {
    pub(crate) fn new(catalog: &'a mut dyn Catalog, variables: &'a Variables) -> Binder<'a> {
        Binder {
            catalog,
            variables,
            names: Names::default(),
            needs: Needs::default(),
            expanding: Vec::new(),
            open: None,
            limits: Limits::new(None),
            into_left: 0,
            context: None,
            json_auto: false,
            parameters: None,
            routines: routine::Routines::default(),
            numbers_rows: false,
            bases: Vec::new(),
        }
    }

    /// Allows these undeclared parameters.
    pub(crate) fn allowing(self, open: Option<Arc<Undeclared>>) -> Binder<'a> {
        Binder { open, ..self }
    }

    /// Sets the limit of SET ROWCOUNT.
    pub(crate) fn limited(self, rows: Option<i64>) -> Binder<'a> {
        Binder { limits: Limits::new(rows), ..self }
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
            self.limits.spend(parts)?;
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
        self.names.fresh(kind)
    }
}
