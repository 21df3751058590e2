//! Functions of a database in FROM: like a view, with arguments in place of parameters.

use std::collections::HashMap;
use std::sync::Arc;

use tdekit_wire_tds::messages::DefinedError;

use super::apply::Arguments;
use super::from::fields;
use super::query::BoundQuery;
use super::{Binder, TableOf, parameter_table};
use crate::ast::defined::{CreateFunction, FunctionBody, FunctionCall, TypeKind};
use crate::ast::{Action, Expr, Kind, Query};
use crate::error::{Error, Result};
use crate::functions::typing::convert;
use crate::plan::access::Right;
use crate::plan::label::Label;
use crate::plan::relation::Relation;
use crate::plan::routine::Local;
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Table, TableKind};
use crate::plan::{Alias, ColumnRef, Field};
use crate::value::type_name;

/// Maximum nesting of views and functions.
const MAX_NESTING: usize = 30;

/// The parameters of the function whose query is being bound, by their names in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    pub(super) values: HashMap<String, Scalar>,
    /// Table-valued ones: the table, and its type.
    pub(crate) tables: HashMap<String, (String, TableOf)>,
    /// Table variables of a function of statements.
    pub(super) locals: HashMap<String, Arc<Local>>,
    /// The variable that has `@@ROWCOUNT` in a function of statements.
    pub(super) row_count: Option<usize>,
}

impl Parameters {
    /// Parameters of which nothing is known but their types.
    pub(crate) fn open(made: &CreateFunction) -> Parameters {
        let mut parameters = Parameters::default();
        for (at, param) in made.params.iter().enumerate() {
            let key = param.name.to_lowercase();
            if let Some(of) = param.table().cloned() {
                let table = (parameter_table(&param.name, at), TableOf { of, readonly: true });
                parameters.tables.insert(key, table);
            } else {
                parameters.values.insert(key, Scalar::new(param.ty, true, Node::Var(at)));
            }
        }
        parameters
    }

    /// Returns true if a variable or a table has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        let key = name.to_lowercase();
        self.values.contains_key(&key) || self.locals.contains_key(&key)
    }

    pub(super) fn find(&self, name: &str) -> Result<Scalar> {
        let found = self.values.get(&name.to_lowercase()).cloned();
        found.ok_or_else(|| Error::UndeclaredVariable { name: name.to_owned() })
    }
}

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
                parameters.values.insert(name, column);
                all.push(value);
            }
            once = Some(Arguments { alias, values: all });
        } else {
            parameters.values.extend(values);
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
    fn arguments(
        &mut self,
        made: &CreateFunction,
        call: &FunctionCall,
        parameters: &mut Parameters,
    ) -> Result<Vec<(String, Scalar)>> {
        let mut values = Vec::new();
        for (param, arg) in made.params.iter().zip(&call.args) {
            let key = param.name.to_lowercase();
            let table = match arg {
                Some(Expr::Var(name)) => self.table_variable(name),
                _ => None,
            };
            match (param.table(), table) {
                (None, None) => {}
                (Some(of), Some(found)) if found.1.of.is(of) => {
                    parameters.tables.insert(key, found);
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
            values.push((key, value));
        }
        Ok(values)
    }

    /// Returns the table of a variable or parameter, and its type.
    fn table_variable(&self, name: &str) -> Option<(String, TableOf)> {
        let key = name.to_lowercase();
        match &self.parameters {
            Some(parameters) => parameters.tables.get(&key).cloned(),
            None => {
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
        let name = table.full_name();
        if self.expanding.contains(&name) || self.expanding.len() > MAX_NESTING {
            return Err(Error::NestLevel {});
        }
        self.expanding.push(name);
        let json_auto = std::mem::replace(&mut self.json_auto, false);
        let context = self.context.replace(table.database.clone());
        let outer = self.parameters.replace(parameters);
        let bind = |query| self.apart(|binder| binder.query(query, false));
        let result = table_query(made).and_then(bind);
        self.parameters = outer;
        self.context = context;
        self.json_auto = json_auto;
        self.expanding.pop();
        result
    }

    /// Binds the query of a function that is being defined, with the rights of who defines it.
    pub(crate) fn defined_query(&mut self, made: &CreateFunction) -> Result<BoundQuery> {
        self.parameters = Some(Parameters::open(made));
        table_query(made).and_then(|query| self.query(query, false))
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
