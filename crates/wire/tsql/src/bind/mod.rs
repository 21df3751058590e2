//! The binder: names to columns and variables, expressions to static types.

mod apply;
pub(crate) mod call;
pub(crate) mod check;
mod computed;
mod cursor;
pub(crate) mod dml;
mod expansion;
pub(crate) mod expr;
pub(crate) mod from;
pub(crate) mod function;
mod grouping;
pub(crate) mod instead;
pub(crate) mod json;
pub(crate) mod labels;
pub(crate) mod later;
mod limits;
mod local;
pub(crate) mod merge;
mod names;
mod parameters;
mod pivot;
pub(crate) mod predicate;
pub(crate) mod query;
pub(crate) mod recursive;
mod routine;
mod routines;
pub(crate) mod rowwise;
pub(crate) mod select;
pub(crate) mod tables;
mod through;
mod variables;
mod xml;

use std::sync::Arc;

use tdekit_wire_tds::{Generated, SqlType};

use self::expansion::Expansion;
use self::limits::Limits;
use self::names::Names;
pub(crate) use self::names::Scope;
pub(crate) use self::parameters::Parameters;
use self::routines::Routines;
pub(crate) use self::variables::{TableOf, Undeclared, Variable, Variables, parameter_table};
use crate::error::Result;
use crate::plan::label::Label;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Catalog, Table};
use crate::plan::{Alias, ColumnRef, Needs};

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
    pub(crate) value: Option<later::Computed>,
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

/// Binds one statement and collects everything needed to run it.
pub(crate) struct Binder<'a> {
    catalog: &'a mut dyn Catalog,
    variables: &'a Variables,
    /// Undeclared parameters, if they are allowed.
    open: Option<Arc<Undeclared>>,
    needs: Needs,
    limits: Limits,
    names: Names,
    expansion: Expansion,
    routines: Routines,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(catalog: &'a mut dyn Catalog, variables: &'a Variables) -> Binder<'a> {
        Binder {
            catalog,
            variables,
            open: None,
            needs: Needs::default(),
            limits: Limits::new(None),
            names: Names::default(),
            expansion: Expansion::default(),
            routines: Routines::default(),
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

    /// Takes what the statement needs to run.
    pub(crate) fn take_needs(&mut self) -> Needs {
        std::mem::take(&mut self.needs)
    }

    /// Returns true if a statement gives the identity column of a table its values.
    pub(crate) fn identity_insert(&self, table: &Table) -> bool {
        self.catalog.identity_insert(table)
    }

    /// Binds a variable, or an undeclared parameter.
    pub(crate) fn variable(&mut self, name: &str) -> Result<Scalar> {
        if let Some(parameters) = self.expansion.parameters() {
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
    pub(super) fn fresh(&mut self, kind: fn(usize) -> Alias) -> Alias {
        self.names.fresh(kind)
    }
}
