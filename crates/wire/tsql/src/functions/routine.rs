//! Runs scalar functions of a database.

use std::sync::atomic::Ordering;

use tdekit_wire_tds::Value;

use super::eval::{Env, eval, test};
use crate::error::{Error, Result};
use crate::plan::routine::{Callee, Invoked, Routine, Step};
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
        let args = if self.outermost { given.as_slice() } else { env.args };
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
        let around = Env { vars: &[], args, depth, ..*env };
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
        condition: &Scalar,
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

fn computed(value: &Scalar, vars: &[Val], around: &Env<'_>) -> Result<Val> {
    let env = Env { vars, ..*around };
    let value = eval(value, &env)?;
    affordable(bulk_bytes(&value))?;
    Ok(value.into_owned())
}

fn holds(condition: &Scalar, vars: &[Val], around: &Env<'_>) -> Result<bool> {
    Ok(test(condition, &Env { vars, ..*around })? == Some(true))
}
