//! Calls of scalar functions of a database. A function computes over its arguments and variables:
//! SQLite calls it for each row, where no other statement can run.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::DefinedError;

use super::Binder;
use super::function::{Parameters, definition};
use crate::ast::defined::{CreateFunction, Steps};
use crate::ast::{BinOp, Call, Expr, Item, Kind, Query, SetExpr, Stmt};
use crate::error::{Error, Result};
use crate::functions::typing::{binary, convert};
use crate::plan::access::{Access, Right};
use crate::plan::func::Func;
use crate::plan::routine::{Callee, Invoked, Routine, Step};
use crate::plan::scalar::{Node, Scalar};

/// Maximum nesting of functions that call each other.
const MAX_NESTING: usize = 32;

/// Maximum stack that the functions take while they are bound, in bytes.
const MAX_STACK: usize = 512 << 10;

/// The functions that are being bound.
#[derive(Debug, Default)]
pub(super) struct Routines {
    /// Full names, and where each will be.
    running: Vec<(String, Arc<OnceLock<Routine>>)>,
    /// The values that the session gives to them.
    given: Vec<Scalar>,
    /// The place of the outermost on the stack.
    base: usize,
    /// The one that is being defined, which may call itself.
    defined: Option<Arc<CreateFunction>>,
}

/// The body of a function while it is bound.
struct Body {
    returns: SqlType,
    types: Vec<SqlType>,
    names: HashMap<String, usize>,
    loops: usize,
}

impl Binder<'_> {
    /// Binds a call of a function of a database.
    pub(super) fn invoked(&mut self, call: &Call) -> Result<Scalar> {
        let is_it = |made: &&Arc<CreateFunction>| {
            let same = made.name.stored().eq_ignore_ascii_case(&call.name.stored());
            same && call.name.part(2).is_none()
        };
        if let Some(made) = self.routines.defined.as_ref().filter(is_it).cloned() {
            let first = self.routines.running.first().map(|(_, routine)| Arc::downgrade(routine));
            let callee = Callee::Within(first.unwrap_or_default());
            return self.invocation(call, &made, |_, _| Ok(callee));
        }
        let mut name = call.name.clone();
        if let (Some(context), None) = (&self.context, name.part(2)) {
            name.0.insert(0, context.clone());
        }
        let table = self.catalog.scalar_function(&name)?.ok_or_else(|| {
            let first = call.name.0.first().cloned().unwrap_or_default();
            DefinedError::NoFunction { first, name: call.name.text() }
        })?;
        let access = Access::of(&table, Right::Execute, self.context.as_deref());
        self.needs.access.extend(access);
        let made = definition(&table)?;
        self.invocation(call, &made, |binder, steps| {
            let full = table.full_name();
            let mut running = binder.routines.running.iter();
            match running.find(|(known, _)| known.eq_ignore_ascii_case(&full)) {
                Some((_, routine)) => Ok(Callee::Within(Arc::downgrade(routine))),
                None => {
                    let context = Some(table.database.clone());
                    binder.bind_routine(&made, steps, &full, context).map(Callee::Own)
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
        let outermost = self.routines.running.is_empty();
        if outermost {
            args.append(&mut self.routines.given);
        }
        let node = Node::Invoke(Box::new(Invoked { callee, outermost, args }));
        Ok(Scalar::new(steps.returns, true, node))
    }

    /// Binds a function that is being defined, with the rights of who defines it.
    pub(crate) fn defined_routine(&mut self, made: &CreateFunction) -> Result<()> {
        let Some(steps) = made.steps() else { return Ok(()) };
        self.routines.defined = Some(Arc::new(made.clone()));
        self.bind_routine(made, steps, "", None).map(|_| ())
    }

    fn bind_routine(
        &mut self,
        made: &CreateFunction,
        steps: &Steps,
        full: &str,
        context: Option<String>,
    ) -> Result<Arc<OnceLock<Routine>>> {
        let marker = 0_u8;
        let here = std::ptr::from_ref(&marker).addr();
        if self.routines.running.is_empty() {
            self.routines.base = here;
        }
        let deep = here.abs_diff(self.routines.base) > MAX_STACK;
        if deep || self.routines.running.len() >= MAX_NESTING {
            return Err(Error::NestLevel {});
        }
        let cell = Arc::new(OnceLock::new());
        self.routines.running.push((full.to_owned(), cell.clone()));
        let scopes = std::mem::take(&mut self.scopes);
        let ctes = std::mem::take(&mut self.ctes);
        let watched = std::mem::take(&mut self.watched);
        let recursion = self.recursion.take();
        let json_auto = std::mem::replace(&mut self.json_auto, false);
        let around = match context {
            Some(database) => self.context.replace(database),
            None => self.context.take(),
        };
        let outer = self.parameters.replace(Parameters::default());
        let result = self.body(made, steps);
        self.parameters = outer;
        self.context = around;
        self.json_auto = json_auto;
        self.recursion = recursion;
        self.watched = watched;
        self.ctes = ctes;
        self.scopes = scopes;
        self.routines.running.pop();
        let routine = result?;
        cell.get_or_init(|| routine);
        Ok(cell)
    }

    fn body(&mut self, made: &CreateFunction, steps: &Steps) -> Result<Routine> {
        let mut body =
            Body { returns: steps.returns, types: Vec::new(), names: HashMap::new(), loops: 0 };
        for param in &made.params {
            self.declare(&mut body, &param.name, param.ty)?;
        }
        let mut bound = Vec::new();
        self.steps(&steps.stmts, &mut body, &mut bound)?;
        Ok(Routine {
            params: made.params.len(),
            variables: body.types.len(),
            null_on_null: steps.null_on_null,
            steps: bound,
        })
    }

    fn declare(&mut self, body: &mut Body, name: &str, ty: SqlType) -> Result<usize> {
        let slot = body.types.len();
        let key = name.to_lowercase();
        if body.names.insert(key.clone(), slot).is_some() {
            return Err(Error::DuplicateVariable { name: name.to_owned() });
        }
        body.types.push(ty);
        let value = Scalar::new(ty, true, Node::Var(slot));
        if let Some(parameters) = &mut self.parameters {
            parameters.values.insert(key, value);
        }
        Ok(slot)
    }

    fn steps(&mut self, stmts: &[Stmt], body: &mut Body, out: &mut Vec<Step>) -> Result<()> {
        stmts.iter().try_for_each(|stmt| self.one_step(stmt, body, out))
    }

    fn one_step(&mut self, stmt: &Stmt, body: &mut Body, out: &mut Vec<Step>) -> Result<()> {
        let part = |binder: &mut Self, body: &mut Body, stmt: &Stmt| -> Result<Vec<Step>> {
            let mut steps = Vec::new();
            binder.one_step(stmt, body, &mut steps)?;
            Ok(steps)
        };
        match &stmt.kind {
            Kind::Declare(variables) => {
                for (name, ty, value) in variables {
                    let value = match value {
                        Some(value) => Some(self.computed_step(value, *ty)?),
                        None => None,
                    };
                    let slot = self.declare(body, name, *ty)?;
                    out.extend(value.map(|value| Step::Set(slot, value)));
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
                out.push(self.assigned_step(name, value, body)?);
            }
            Kind::If(test, then, otherwise) => {
                let test = self.tested_step(test)?;
                let then = part(self, body, then)?;
                let otherwise = match otherwise {
                    Some(otherwise) => part(self, body, otherwise)?,
                    None => Vec::new(),
                };
                out.push(Step::If(test, then, otherwise));
            }
            Kind::While(test, inner) => {
                let test = self.tested_step(test)?;
                body.loops += 1;
                let inner = part(self, body, inner);
                body.loops -= 1;
                out.push(Step::While(test, inner?));
            }
            Kind::Block(stmts) => self.steps(stmts, body, out)?,
            Kind::Break if body.loops == 0 => return Err(Error::BreakOutside {}),
            Kind::Continue if body.loops == 0 => return Err(Error::ContinueOutside {}),
            Kind::Break => out.push(Step::Break),
            Kind::Continue => out.push(Step::Continue),
            Kind::Return(Some(value)) => {
                out.push(Step::Return(self.computed_step(value, body.returns)?));
            }
            Kind::Query(query) => {
                for (name, value) in assignments(query)? {
                    out.push(self.assigned_step(name, &value, body)?);
                }
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

    fn computed_step(&mut self, value: &Expr, ty: SqlType) -> Result<Scalar> {
        let bound = self.scalar(value)?;
        self.own_step(convert(bound, ty)?)
    }

    fn tested_step(&mut self, test: &Expr) -> Result<Scalar> {
        let bound = self.condition(test)?;
        self.own_step(bound)
    }

    /// Takes values of the session from the statement's call, and refuses those of tables.
    fn own_step(&mut self, mut bound: Scalar) -> Result<Scalar> {
        if bound.has_leaf() {
            return Err(Error::feature("a scalar function that reads tables"));
        }
        let (mut refused, mut failed) = (false, None);
        let given = &mut self.routines.given;
        bound.each(&mut |part| {
            if !matches!(&part.node, Node::Call(func, _) if func.is_session()) {
                return;
            }
            let mut fixed = true;
            part.walk(&mut |inner| {
                fixed &= !matches!(inner.node, Node::Var(_) | Node::Arg(_) | Node::Invoke(_));
                fixed
            });
            if !fixed {
                refused = true;
                return;
            }
            let at = given.iter().position(|known| known == part).unwrap_or_else(|| {
                given.push(part.clone());
                given.len() - 1
            });
            let deeper = matches!(&part.node, Node::Call(Func::Session("@@NESTLEVEL"), _));
            part.node = Node::Arg(at);
            if deeper {
                // that of the statement, and the functions in it
                let own = Scalar::new(part.ty, false, Node::Call(Func::Nesting, Vec::new()));
                match binary(BinOp::Add, part.clone(), own) {
                    Ok(sum) => *part = sum,
                    Err(error) => failed = Some(error),
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if refused {
            return Err(Error::feature("this function over variables of a scalar function"));
        }
        Ok(bound)
    }
}

/// The variables that a SELECT without a table assigns, with their values.
fn assignments(query: &Query) -> Result<Vec<(&str, Expr)>> {
    let tables = || Error::feature("a scalar function that reads tables");
    let SetExpr::Select(select) = &query.body else {
        return Err(DefinedError::ReturnsRows {}.into());
    };
    let mut made = Vec::new();
    for item in &select.items {
        let Item::Assign(name, op, value) = item else {
            return Err(DefinedError::ReturnsRows {}.into());
        };
        let value = match op {
            Some(op) => {
                let own = Box::new(Expr::Var(name.clone()));
                Expr::Binary(*op, own, Box::new(value.clone()))
            }
            None => value.clone(),
        };
        made.push((name.as_str(), value));
    }
    let alone = select.from.is_empty()
        && select.filter.is_none()
        && select.group.is_empty()
        && select.having.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && query.ctes.is_empty()
        && query.order.is_empty()
        && query.offset.is_none()
        && !query.is_document();
    if alone { Ok(made) } else { Err(tables()) }
}
