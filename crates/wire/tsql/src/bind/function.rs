//! Functions of a database in FROM: like a view, with arguments in place of parameters.

use tdekit_wire_tds::messages::DefinedError;

use super::apply::Arguments;
use super::from::fields;
use super::query::{Asked, BoundQuery};
use super::{Binder, Parameters, TableOf};
use crate::ast::defined::{CreateFunction, FunctionBody, FunctionCall, TypeKind};
use crate::ast::{Action, Expr, Kind, Query};
use crate::error::{Error, Result};
use crate::functions::typing::convert;
use crate::plan::access::Right;
use crate::plan::label::Label;
use crate::plan::relation::Relation;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Table, TableKind};
use crate::plan::{Alias, ColumnRef, Field};
use crate::value::type_name;

/// The forms of an argument in the place of its parameter, however often that is named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Argument {
    /// The same value each time.
    Plain,
    /// To be computed once.
    Once,
}

/// Returns how an argument can be used.
///
/// # Errors
/// For one that has no place in a query of its own.
pub(super) fn argument_kind(value: &Scalar) -> Result<Argument> {
    let (mut kind, mut refused) = (Argument::Plain, false);
    value.walk(&mut |part| {
        match &part.node {
            Node::Aggregate(_) | Node::Next(..) | Node::Identity | Node::Version(_) => {
                refused = true;
            }
            Node::Query(_) | Node::Shared(_) => kind = Argument::Once,
            Node::Call(func, _) if func.is_random() => kind = Argument::Once,
            _ => {}
        }
        true
    });
    match refused {
        true => Err(Error::feature("an aggregate or a sequence as a function's argument in FROM")),
        false => Ok(kind),
    }
}

/// Parses the text of CREATE FUNCTION.
pub(crate) fn definition(table: &Table) -> Result<CreateFunction> {
    let missing = || Error::InvalidObject { name: table.full_name() };
    let TableKind::Function(text) = &table.kind else {
        return Err(DefinedError::NotAFunction { name: table.object_name() }.into());
    };
    let stmts = crate::parse::parse(text, true).map_err(|at| at.error)?;
    match stmts.into_iter().next().map(|stmt| stmt.kind) {
        Some(Kind::Act(Action::CreateFunction(made))) => Ok(*made),
        _ => Err(missing()),
    }
}

impl Binder<'_> {
    /// Adds the rows of a function. After APPLY, its arguments see the tables to the left, from
    /// position `first` on.
    pub(super) fn called(&mut self, call: &FunctionCall, apply: Option<usize>) -> Result<Relation> {
        let table = self.find_table(&call.name, &[Right::Select])?;
        let mut made = definition(&table)?;
        self.find_types(&mut made, &table.database)?;
        let shown = call.name.text();
        if call.args.len() > made.params.len() {
            return Err(Error::TooManyArguments { procedure: shown });
        }
        if call.args.len() < made.params.len() {
            return Err(DefinedError::FewArguments { name: shown }.into());
        }
        let mut parameters = Parameters::default();
        let bind = |binder: &mut Self| binder.arguments(&made, call, &mut parameters);
        let (values, met) = match apply {
            Some(first) => self.watching(first, bind)?,
            None => {
                // the tables beside it are not in scope
                (self.beside(bind)?, false)
            }
        };
        if let FunctionBody::Filled(filling) = &made.body {
            let values = values.into_iter().map(|(_, value)| value).collect();
            return self.filled_rows(&made, filling, &table, (values, met), call);
        }
        let mut kind = Argument::Plain;
        for (_, value) in &values {
            kind = kind.max(argument_kind(value)?);
        }
        let mut once = None;
        if kind == Argument::Once {
            let alias = self.fresh(Alias::Query);
            let mut all = Vec::new();
            for (at, (name, value)) in values.into_iter().enumerate() {
                let column = ColumnRef::of(alias, Field::Item(at));
                let column = Scalar::column(value.ty, true, column);
                let column = Scalar { label: Label::Coercible, ..column };
                parameters.add(&name, column);
                all.push(value);
            }
            once = Some(Arguments { alias, values: all });
        } else {
            values.into_iter().for_each(|(name, value)| parameters.add(&name, value));
        }
        let bound = self.function_query(&made, &table, parameters)?;
        let columns = fields(bound.columns);
        let names = (call.alias.as_str(), call.columns.as_slice());
        if !met && once.is_none() {
            let alias = self.offer(names.0, None, &columns, names.1)?;
            return Ok(Relation::Derived { query: Box::new(bound.query), alias });
        }
        let inner = self.fresh(Alias::Query);
        let from = Relation::Derived { query: Box::new(bound.query), alias: inner };
        self.lateral(from, (inner, &columns), names, once)
    }

    /// Finds the user-defined types of parameters.
    pub(crate) fn find_types(&mut self, made: &mut CreateFunction, database: &str) -> Result<()> {
        for (at, param) in made.params.iter_mut().enumerate() {
            let Some(named) = param.user_type.as_ref().map(|of| of.name.clone()) else { continue };
            let Some(found) = self.catalog.user_type(database, &named)? else {
                return Err(DefinedError::NoType { number: at + 1, name: named }.into());
            };
            if let TypeKind::Alias { ty, .. } = found.kind {
                param.ty = ty;
            }
            param.user_type = Some(found);
        }
        Ok(())
    }

    /// The arguments, in the types of their parameters; tables go to `parameters`.
    #[inline(never)]
    fn arguments(
        &mut self,
        made: &CreateFunction,
        call: &FunctionCall,
        parameters: &mut Parameters,
    ) -> Result<Vec<(String, Scalar)>> {
        let mut values = Vec::new();
        for (param, arg) in made.params.iter().zip(&call.args) {
            let table = match arg {
                Some(Expr::Var(name)) => self.table_variable(name),
                _ => None,
            };
            match (param.table(), table) {
                (None, None) => {}
                (Some(of), Some(found)) if found.1.of.is(of) => {
                    parameters.add_table(&param.name, found);
                    continue;
                }
                (of, found) => {
                    let left = found.map_or("table".to_owned(), |(_, own)| own.of.name.clone());
                    let right = of.map_or(type_name(param.ty), |of| &of.name).to_owned();
                    return Err(Error::OperandClash { left, right });
                }
            }
            let value = match (arg, &param.default) {
                (Some(arg), _) => self.scalar(arg)?,
                (None, Some(default)) => self.outside(|binder| binder.scalar(default))?,
                (None, None) => {
                    return Err(DefinedError::FewArguments { name: call.name.text() }.into());
                }
            };
            let value = convert(value, param.ty)?;
            // a parameter has no collation of its own
            let value = Scalar { nullable: true, label: Label::Coercible, ..value };
            values.push((param.name.clone(), value));
        }
        Ok(values)
    }

    /// Returns the table of a variable or parameter, and its type.
    fn table_variable(&self, name: &str) -> Option<(String, TableOf)> {
        match self.expansion.parameters() {
            Some(parameters) => parameters.table(name).cloned(),
            None => {
                let key = name.to_lowercase();
                let typed = self.variables.typed.get(&key)?;
                Some((self.variables.tables.get(&key)?.clone(), typed.clone()))
            }
        }
    }

    /// Binds a function's query in its own database.
    pub(crate) fn function_query(
        &mut self,
        made: &CreateFunction,
        table: &Table,
        parameters: Parameters,
    ) -> Result<BoundQuery> {
        self.expand(table, |binder| {
            binder.with_parameters(parameters, |binder| {
                binder.query(table_query(made)?, Asked::default())
            })
        })
    }

    /// Binds the query of a function that is being defined, with the rights of who defines it.
    pub(crate) fn defined_query(&mut self, made: &CreateFunction) -> Result<BoundQuery> {
        self.with_parameters(Parameters::open(made), |binder| {
            binder.query(table_query(made)?, Asked::default())
        })
    }
}

/// The query of a function that gives a table.
fn table_query(made: &CreateFunction) -> Result<&Query> {
    match &made.body {
        FunctionBody::Query(query) => Ok(query),
        FunctionBody::Steps(_) | FunctionBody::Filled(_) => {
            Err(Error::InvalidObject { name: made.name.text() })
        }
    }
}
