//! Runs scalar functions of a database.

use std::sync::atomic::Ordering;

use tdekit_wire_tds::Value;

use super::eval::{Env, eval, test};
use crate::error::{Error, Result};
use crate::plan::routine::{Callee, Invoked, Reader, Routine, Source, Step};
use crate::plan::scalar::Scalar;
use crate::value::{Val, affordable, bulk_bytes};

/// Maximum nesting of functions.
const MAX_NESTING: usize = 32;
/// Maximum stack that running functions take, in bytes.
const MAX_STACK: usize = 704 << 10;

/// What follows a statement.
enum Next {
    Step,
    Break,
    Continue,
    Return(Val),
}

impl Invoked {
    /// Returns the value of the call.
    #[inline(never)]
    pub(crate) fn value<'v>(&self, env: &Env<'_>) -> Result<Value<'v>> {
        let kept;
        let routine = match &self.callee {
            Callee::Own(routine) => routine,
            Callee::Within(routine) => {
                kept = routine.upgrade();
                kept.as_ref().ok_or_else(unbound)?
            }
        };
        let routine = routine.get().ok_or_else(unbound)?;
        let mut vars: Vec<Val> = Vec::with_capacity(routine.variables);
        for arg in &self.args {
            vars.push(eval(arg, env)?.into_owned());
        }
        let given = vars.split_off(routine.params.min(vars.len()));
        let given = if self.outermost { given.as_slice() } else { env.given };
        if routine.null_on_null && vars.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        vars.resize(routine.variables, Value::Null);
        let here = std::ptr::from_ref(&env).addr();
        let base = if env.depth.0 == 0 { here } else { env.depth.1 };
        let depth = (env.depth.0 + 1, base);
        if depth.0 > MAX_NESTING || here.abs_diff(base) > MAX_STACK {
            return Err(Error::NestLevel {});
        }
        left(env)?;
        let around = Env { vars: &[], args: &[], given, depth, ..*env };
        match routine.run(&routine.steps, &mut vars, &around)? {
            Next::Return(value) => Ok(value),
            _ => Ok(Value::Null),
        }
    }
}

/// Leaves a function once the client cancels; its statement then ends without an error.
fn left(env: &Env<'_>) -> Result<()> {
    match env.cancel.is_some_and(|cancel| cancel.load(Ordering::Acquire)) {
        true => Err(Error::Internal { detail: "cancelled".to_owned() }),
        false => Ok(()),
    }
}

fn unbound() -> Error {
    Error::Internal { detail: "a function that is not bound".to_owned() }
}

impl Routine {
    fn run(&self, steps: &[Step], vars: &mut Vec<Val>, around: &Env<'_>) -> Result<Next> {
        for step in steps {
            let next = match step {
                Step::Set(slot, value) => {
                    let value = computed(value, vars, around)?;
                    if let Some(variable) = vars.get_mut(*slot) {
                        *variable = value;
                    }
                    Next::Step
                }
                Step::Return(value) => Next::Return(computed(value, vars, around)?),
                Step::If(condition, then, otherwise) => {
                    let steps = if holds(condition, vars, around)? { then } else { otherwise };
                    self.run(steps, vars, around)?
                }
                Step::While(condition, steps) => self.repeat(condition, steps, vars, around)?,
                Step::Each(reader, assigned) => {
                    assign_each(reader, assigned, vars, around)?;
                    Next::Step
                }
                Step::Break => Next::Break,
                Step::Continue => Next::Continue,
            };
            if !matches!(next, Next::Step) {
                return Ok(next);
            }
        }
        Ok(Next::Step)
    }

    fn repeat(
        &self,
        condition: &Source,
        steps: &[Step],
        vars: &mut Vec<Val>,
        around: &Env<'_>,
    ) -> Result<Next> {
        while holds(condition, vars, around)? {
            left(around)?;
            match self.run(steps, vars, around)? {
                Next::Step | Next::Continue => {}
                Next::Break => break,
                returned @ Next::Return(_) => return Ok(returned),
            }
        }
        Ok(Next::Step)
    }
}

fn computed(value: &Source, vars: &[Val], around: &Env<'_>) -> Result<Val> {
    let env = Env { vars, ..*around };
    let value = match value {
        Source::Plain(value) => eval(value, &env)?,
        Source::Read(reader) => return read(reader, &env),
    };
    affordable(bulk_bytes(&value))?;
    Ok(value.into_owned())
}

fn holds(condition: &Source, vars: &[Val], around: &Env<'_>) -> Result<bool> {
    let env = Env { vars, ..*around };
    match condition {
        Source::Plain(condition) => Ok(test(condition, &env)? == Some(true)),
        Source::Read(reader) => Ok(read(reader, &env)? == Value::Bit(true)),
    }
}

/// Returns the first value of a query's first row, or NULL.
#[inline(never)]
fn read(reader: &Reader, env: &Env<'_>) -> Result<Val> {
    let mut found = Value::Null;
    rows(reader, env, &mut |row| {
        found = row.into_iter().next().unwrap_or(Value::Null);
        Ok(false)
    })?;
    Ok(found)
}

/// Assigns to variables for each row of a query, which sees their values before the first.
#[inline(never)]
fn assign_each(
    reader: &Reader,
    assigned: &[(usize, Scalar)],
    vars: &mut [Val],
    around: &Env<'_>,
) -> Result<()> {
    let before = vars.to_vec();
    rows(reader, &Env { vars: &before, ..*around }, &mut |row| {
        left(around)?;
        for (slot, value) in assigned {
            let env = Env { vars, args: &row, ..*around };
            let value = eval(value, &env)?;
            affordable(bulk_bytes(&value))?;
            let value = value.into_owned();
            if let Some(variable) = vars.get_mut(*slot) {
                *variable = value;
            }
        }
        Ok(true)
    })
}

fn rows(
    reader: &Reader,
    env: &Env<'_>,
    each: &mut dyn FnMut(Vec<Val>) -> Result<bool>,
) -> Result<()> {
    match env.reads {
        Some(reads) => reads.rows(reader, env, each),
        None => Err(Error::feature("a function that reads tables in this place")),
    }
}
