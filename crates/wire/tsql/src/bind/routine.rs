//! Calls of scalar functions of a database. SQLite calls a function for each row; what it reads
//! comes from statements of its own, over its variables.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Length, SqlType};

use super::apply::kept_rows;
use super::cursor::Cursors;
use super::from::fields;
use super::function::definition;
use super::labels::Labels;
use super::select::has_aggregates;
use super::{Binder, Parameters, Variable};
use crate::ast::defined::{CreateFunction, Filling, FunctionBody, FunctionCall, Steps};
use crate::ast::{Action, BinOp, Call, Expr, Item, Kind, Query, Select, SetExpr, Stmt};
use crate::error::{Error, Result};
use crate::functions::typing::{binary, convert};
use crate::name::schema_and_name;
use crate::plan::access::{Access, Right};
use crate::plan::change::Statement;
use crate::plan::func::Func;
use crate::plan::label::Label;
use crate::plan::relation::{self, Relation};
use crate::plan::routine::{Callee, Change, Invoked, Lines, Local, Reader, Routine};
use crate::plan::routine::{Source, Step};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::Table;

/// The body of a function while it is bound.
pub(super) struct Body {
    returns: Returned,
    types: Vec<SqlType>,
    names: HashMap<String, usize>,
    loops: usize,
    labels: Labels,
    pub(super) cursors: Cursors,
    /// Empties its table variables, before everything else: a loop reaches their DECLARE again.
    emptied: Vec<Change>,
}

/// The result of RETURN.
enum Returned {
    Value(SqlType),
    Rows(Arc<Local>),
}

/// The statements from which a function is bound.
enum Statements<'s> {
    Steps(&'s Steps),
    Filling(&'s Filling),
}

impl Body {
    /// A variable that has no name.
    pub(super) fn hidden(&mut self, ty: SqlType) -> usize {
        self.types.push(ty);
        self.types.len() - 1
    }

    /// Adds a change that empties a table variable.
    pub(super) fn empties(&mut self, change: Change) {
        self.emptied.push(change);
    }
}

impl Binder<'_> {
    /// Binds a call of a function of a database.
    pub(super) fn invoked(&mut self, call: &Call) -> Result<Scalar> {
        if let Some((made, routine)) = self.routines.defined(&call.name) {
            return self.invocation(call, &made, |_, _| Ok(Callee::Within(routine)));
        }
        let mut name = call.name.clone();
        if let (Some(database), None) = (self.expansion.database(), name.part(2)) {
            name.0.insert(0, database.to_owned());
        }
        let table = self.catalog.scalar_function(&name)?.ok_or_else(|| {
            let first = call.name.0.first().cloned().unwrap_or_default();
            DefinedError::NoFunction { first, name: call.name.text() }
        })?;
        let access = Access::of(&table, Right::Execute, self.expansion.database());
        self.needs.access.extend(access);
        let made = definition(&table)?;
        self.invocation(call, &made, |binder, steps| {
            let full = table.full_name();
            match binder.routines.again(&full) {
                Some(routine) => Ok(Callee::Within(routine)),
                None => {
                    let database = Some(table.database.clone());
                    let statements = Statements::Steps(steps);
                    let name = schema_and_name(&table.name).1;
                    let names = (full.as_str(), name.as_str());
                    binder.bind_routine(&made, &statements, names, database).map(Callee::Own)
                }
            }
        })
    }

    /// A call of a function that is known.
    fn invocation(
        &mut self,
        call: &Call,
        made: &CreateFunction,
        find: impl FnOnce(&mut Self, &Steps) -> Result<Callee>,
    ) -> Result<Scalar> {
        let shown = call.name.text();
        let steps = made.steps().ok_or_else(|| Error::InvalidObject { name: shown.clone() })?;
        if call.args.len() > made.params.len() {
            return Err(Error::TooManyArguments { procedure: shown });
        }
        if call.args.len() < made.params.len() {
            return Err(DefinedError::FewArguments { name: shown }.into());
        }
        let mut args = Vec::new();
        for (param, arg) in made.params.iter().zip(&call.args) {
            let arg = match (arg, &param.default) {
                (Expr::Default, Some(default)) => default,
                (Expr::Default, None) => {
                    return Err(DefinedError::FewArguments { name: shown }.into());
                }
                (arg, _) => arg,
            };
            args.push(convert(self.scalar(arg)?, param.ty)?);
        }
        let callee = find(self, steps)?;
        Ok(Scalar::new(steps.returns, true, self.invoke(callee, args)))
    }

    fn invoke(&mut self, callee: Callee, mut args: Vec<Scalar>) -> Node {
        let outermost = self.routines.is_empty();
        if outermost {
            args.append(&mut self.routines.take_given());
        }
        let reads = match &callee {
            Callee::Own(routine) => routine.get().is_some_and(Routine::reads),
            // it may turn out to
            Callee::Within(_) => true,
        };
        self.needs.nested |= outermost && reads;
        Node::Invoke(Box::new(Invoked { callee, outermost, reads, args }))
    }

    /// Adds the rows with which a function fills its table; `met` is true if its arguments name
    /// columns of the tables to the left.
    #[inline(never)]
    pub(super) fn filled_rows(
        &mut self,
        made: &CreateFunction,
        filling: &Filling,
        table: &Table,
        (args, met): (Vec<Scalar>, bool),
        call: &FunctionCall,
    ) -> Result<Relation> {
        for arg in &args {
            super::function::argument_kind(arg)?;
        }
        let full = table.full_name();
        if self.routines.runs(&full) {
            return Err(Error::feature("a function that fills a table and calls itself"));
        }
        let database = Some(table.database.clone());
        let name = schema_and_name(&table.name).1;
        let statements = Statements::Filling(filling);
        let routine = self.bind_routine(made, &statements, (&full, &name), database)?;
        let Some(local) = routine.get().and_then(|routine| routine.fills.clone()) else {
            return Err(Error::InvalidObject { name: full });
        };
        let node = self.invoke(Callee::Own(routine), args);
        let text = Scalar::new(SqlType::NVarChar(Length::Max), true, node);
        let columns = &local.table.columns;
        let columns = columns.iter().map(|own| {
            let label = Label::Implicit(own.collation);
            ((own.name.as_str(), own.ty), (own.nullable, label))
        });
        let columns: Vec<_> = columns.collect();
        if met {
            return self.offer_rows(text, &columns, (&call.alias, &call.columns));
        }
        // rows that are the same for all of the tables beside it
        let (query, columns) = kept_rows(&mut self.names, text, &columns)?;
        let alias = self.offer(&call.alias, None, &fields(columns), &call.columns)?;
        Ok(Relation::Derived { query: Box::new(query), alias })
    }

    /// Binds a function that is being defined, with the rights of who defines it.
    pub(crate) fn defined_routine(&mut self, made: &CreateFunction) -> Result<()> {
        let statements = match &made.body {
            FunctionBody::Query(_) => return Ok(()),
            FunctionBody::Steps(steps) => Statements::Steps(steps),
            FunctionBody::Filled(filling) => Statements::Filling(filling),
        };
        self.routines.define(made);
        self.bind_routine(made, &statements, ("", made.name.object()), None).map(|_| ())
    }

    fn bind_routine(
        &mut self,
        made: &CreateFunction,
        statements: &Statements<'_>,
        (full, name): (&str, &str),
        database: Option<String>,
    ) -> Result<Arc<OnceLock<Routine>>> {
        self.running(full, |binder| {
            let bind = |binder: &mut Self| {
                let own = Parameters::default();
                binder.with_parameters(own, |binder| binder.body(made, statements, name))
            };
            binder.apart(|binder| binder.in_database(database, bind))
        })
    }

    fn body(
        &mut self,
        made: &CreateFunction,
        statements: &Statements<'_>,
        name: &str,
    ) -> Result<Routine> {
        let mut body = Body {
            returns: Returned::Value(SqlType::Int),
            types: Vec::new(),
            names: HashMap::new(),
            loops: 0,
            labels: Labels::default(),
            cursors: Cursors::default(),
            emptied: Vec::new(),
        };
        for param in &made.params {
            self.declare(&mut body, &param.name, param.ty)?;
        }
        let row_count = body.hidden(SqlType::Int);
        if let Some(parameters) = self.expansion.parameters_mut() {
            parameters.set_row_count(row_count);
        }
        let mut bound = Vec::new();
        let (stmts, null_on_null) = match statements {
            Statements::Steps(steps) => {
                body.returns = Returned::Value(steps.returns);
                (&steps.stmts, steps.null_on_null)
            }
            Statements::Filling(filling) => {
                let local = self.declare_local(&filling.table, &mut body)?;
                body.returns = Returned::Rows(local);
                (&filling.stmts, false)
            }
        };
        body.labels = Labels::of(stmts).map_err(|at| at.error)?;
        self.steps(stmts, &mut body, &mut bound)?;
        let fills = match body.returns {
            Returned::Rows(local) => Some(local),
            Returned::Value(_) => None,
        };
        Ok(Routine {
            name: name.to_owned(),
            params: made.params.len(),
            variables: body.types.len(),
            null_on_null,
            row_count,
            fetch_status: self.expansion.parameters().and_then(Parameters::fetch_status),
            fills,
            emptied: body.emptied,
            steps: bound,
        })
    }

    fn declare(&mut self, body: &mut Body, name: &str, ty: SqlType) -> Result<usize> {
        let slot = body.types.len();
        if self.expansion.parameters().is_some_and(|known| known.local(name).is_some()) {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        if body.names.insert(name.to_lowercase(), slot).is_some() {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        body.types.push(ty);
        let value = Scalar::new(ty, true, Node::Var(slot));
        if let Some(parameters) = self.expansion.parameters_mut() {
            parameters.add(name, value);
        }
        Ok(slot)
    }

    fn steps(&mut self, stmts: &[Stmt], body: &mut Body, out: &mut Lines) -> Result<()> {
        stmts.iter().try_for_each(|stmt| self.one_step(stmt, body, out))
    }

    fn one_step(&mut self, stmt: &Stmt, body: &mut Body, out: &mut Lines) -> Result<()> {
        let part = |binder: &mut Self, body: &mut Body, stmt: &Stmt| -> Result<Lines> {
            let mut steps = Vec::new();
            binder.one_step(stmt, body, &mut steps)?;
            Ok(steps)
        };
        let line = stmt.line;
        match &stmt.kind {
            Kind::Declare(variables) => {
                for (name, ty, value) in variables {
                    let value = match value {
                        Some(value) => Some(self.computed_step(value, *ty)?),
                        None => None,
                    };
                    let slot = self.declare(body, name, *ty)?;
                    out.extend(value.map(|value| (line, Step::Set(slot, value))));
                }
            }
            Kind::Set(name, op, value) => {
                let value = match op {
                    Some(op) => {
                        let own = Box::new(Expr::Var(name.clone()));
                        &Expr::Binary(*op, own, Box::new(value.clone()))
                    }
                    None => value,
                };
                out.push((line, self.assigned_step(name, value, body)?));
            }
            Kind::If(test, then, otherwise) => {
                let test = self.tested_step(test)?;
                let then = part(self, body, then)?;
                let otherwise = match otherwise {
                    Some(otherwise) => part(self, body, otherwise)?,
                    None => Vec::new(),
                };
                out.push((line, Step::If(test, then, otherwise)));
            }
            Kind::While(test, inner) => {
                let test = self.tested_step(test)?;
                body.loops += 1;
                let inner = part(self, body, inner);
                body.loops -= 1;
                out.push((line, Step::While(test, inner?)));
            }
            Kind::Block(stmts) => self.steps(stmts, body, out)?,
            Kind::Break if body.loops == 0 => return Err(Error::BreakOutside {}),
            Kind::Continue if body.loops == 0 => return Err(Error::ContinueOutside {}),
            Kind::Break => out.push((line, Step::Break)),
            Kind::Continue => out.push((line, Step::Continue)),
            Kind::Cursor(cursor) => {
                let step = self.cursor_step(cursor, body)?;
                out.push((line, Step::Cursor(Box::new(step))));
            }
            Kind::Label(_) => out.push((line, Step::Label(body.labels.meet()))),
            Kind::Goto(name) => out.push((line, Step::Goto(body.labels.target(name)?))),
            Kind::Return(value) => {
                let source = match (&body.returns, value) {
                    (Returned::Value(ty), Some(value)) => self.computed_step(value, *ty)?,
                    (Returned::Rows(local), None) => self.filled(&local.clone())?,
                    _ => return Err(Error::feature("this RETURN in a function")),
                };
                out.push((line, Step::Return(source)));
            }
            Kind::Act(Action::DeclareTable(made)) => {
                self.declare_local(made, body)?;
            }
            Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) => {
                out.push((line, self.changed_step(&stmt.kind)?));
            }
            Kind::Query(query) => {
                let mut steps = Vec::new();
                self.query_step(query, body, &mut steps)?;
                out.extend(steps.into_iter().map(|step| (line, step)));
            }
            Kind::Nothing => {}
            _ => return Err(Error::feature("this statement in a function")),
        }
        Ok(())
    }

    fn assigned_step(&mut self, name: &str, value: &Expr, body: &mut Body) -> Result<Step> {
        let slot = body.names.get(&name.to_lowercase()).copied();
        let slot = slot.ok_or_else(|| Error::UndeclaredVariable { name: name.to_owned() })?;
        let ty = body.types[slot];
        Ok(Step::Set(slot, self.computed_step(value, ty)?))
    }

    fn query_step(&mut self, query: &Query, body: &mut Body, out: &mut Vec<Step>) -> Result<()> {
        if matches!(&query.body, SetExpr::Select(select) if select.into.is_some()) {
            return Err(DefinedError::SideEffect { name: "SELECT INTO".to_owned() }.into());
        }
        let select = assigning(query)?;
        if is_alone(query, select) {
            for item in &select.items {
                let Item::Assign(name, op, value) = item else { continue };
                let value = match op {
                    Some(op) => {
                        let own = Box::new(Expr::Var(name.clone()));
                        &Expr::Binary(*op, own, Box::new(value.clone()))
                    }
                    None => value,
                };
                out.push(self.assigned_step(name, value, body)?);
            }
            return Ok(());
        }
        let (query, assigned, types) = self.select_assign(query, select)?;
        let reader = Box::new(Reader::new(Statement::Query(query), types));
        out.push(Step::Each(reader, assigned));
        Ok(())
    }

    /// The variable to which a SELECT assigns.
    pub(super) fn assigned_variable(&self, name: &str) -> Result<Variable> {
        let Some(parameters) = self.expansion.parameters() else {
            return self.variables.find(name);
        };
        match parameters.find(name)? {
            Scalar { ty, node: Node::Var(slot), .. } => Ok(Variable { slot, ty }),
            _ => Err(Error::SelectAssignMixed {}),
        }
    }

    fn computed_step(&mut self, value: &Expr, ty: SqlType) -> Result<Source> {
        let bound = self.scalar(value)?;
        Ok(source(convert(bound, ty)?))
    }

    fn tested_step(&mut self, test: &Expr) -> Result<Source> {
        self.condition(test).map(source)
    }

    /// Takes a value of the session from the call of a statement, where a function is bound.
    pub(super) fn given(&mut self, mut bound: Scalar) -> Result<Scalar> {
        let session = matches!(&bound.node, Node::Call(func, _) if func.is_session());
        if self.routines.is_empty() || !session || bound.has_leaf() {
            return Ok(bound);
        }
        self.routines.as_called(&mut bound);
        let mut fixed = true;
        bound.walk(&mut |part| {
            fixed &= !matches!(part.node, Node::Var(_) | Node::Arg(_) | Node::Invoke(_));
            fixed
        });
        if !fixed {
            return Err(Error::feature("this function over variables of a scalar function"));
        }
        let deeper = matches!(&bound.node, Node::Call(Func::Session("@@NESTLEVEL"), _));
        let at = self.routines.give(&bound);
        let value = Scalar { node: Node::Given(at), ..bound };
        if !deeper {
            return Ok(value);
        }
        // that of the statement, and the functions in it
        let own = Scalar::new(value.ty, false, Node::Call(Func::Nesting, Vec::new()));
        binary(BinOp::Add, value, own)
    }
}

/// A value of a step: by a query, if SQLite computes a part of it.
fn source(bound: Scalar) -> Source {
    let mut read = false;
    bound.walk(&mut |part| {
        read |= part.node.is_of_sqlite();
        !read
    });
    if !read {
        return Source::Plain(bound);
    }
    let types = vec![bound.ty];
    let items = vec![relation::Item::Named(bound, 0)];
    let select = relation::Select { items, ..relation::Select::default() };
    let query = relation::Query::of(relation::Rows::Select(Box::new(select)));
    Source::Read(Box::new(Reader::new(Statement::Query(query), types)))
}

/// Refuses a function that reads tables, where it would see them in the middle of a change.
pub(super) fn refuse_reader(bound: &Scalar, place: &str) -> Result<()> {
    let mut found = false;
    bound.walk(&mut |part| {
        found |= matches!(&part.node, Node::Invoke(invoked) if invoked.reads);
        !found
    });
    match found {
        true => Err(Error::feature(format!("a function that reads tables in {place}"))),
        false => Ok(()),
    }
}

/// Returns a SELECT that does nothing but assign.
fn assigning(query: &Query) -> Result<&Select> {
    match &query.body {
        SetExpr::Select(select)
            if select.items.iter().all(|item| matches!(item, Item::Assign(..))) =>
        {
            Ok(select)
        }
        _ => Err(DefinedError::ReturnsRows {}.into()),
    }
}

/// Returns true for a SELECT of one row that is nothing but its list.
fn is_alone(query: &Query, select: &Select) -> bool {
    select.from.is_empty()
        && select.filter.is_none()
        && select.group.is_empty()
        && select.having.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && query.ctes.is_empty()
        && query.order.is_empty()
        && query.offset.is_none()
        && !query.is_document()
        && !has_aggregates(select, &[])
}
