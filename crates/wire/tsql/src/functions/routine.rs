//! Runs scalar functions of a database.

use std::sync::atomic::Ordering;

use tdekit_wire_tds::Value;

use super::cursor::{Cursors, Moved};
use super::eval::{Env, eval, test};
use crate::error::{Error, Result, Rule};
use crate::plan::routine::place_of;
use crate::plan::routine::{Callee, Change, Invoked, Lines, Reader, Routine, Source, Step};
use crate::plan::scalar::Scalar;
use crate::value::{Val, affordable, bulk_bytes};

/// Maximum nesting of functions.
const MAX_NESTING: usize = 32;
/// Maximum stack that running functions take, in bytes.
const MAX_STACK: usize = 704 << 10;

/// What a running function has.
struct Own<'r> {
    vars: Vec<Val>,
    cursors: Cursors<'r>,
}

/// What follows a statement.
enum Next {
    Step,
    Break,
    Continue,
    /// The statements behind the label of this number come next.
    Goto(u32),
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
        routine.count(0, &mut vars);
        let here = std::ptr::from_ref(&env).addr();
        let base = if env.depth.0 == 0 { here } else { env.depth.1 };
        let depth = (env.depth.0 + 1, base);
        if depth.0 > MAX_NESTING || here.abs_diff(base) > MAX_STACK {
            return Err(Error::NestLevel {});
        }
        left(env)?;
        let around = Env { vars: &[], args: &[], given, depth, ..*env };
        routine.empty(&mut vars, &around)?;
        let mut own = Own { vars, cursors: Cursors::default() };
        let next = routine.run(&routine.steps, None, &mut own, &around);
        let emptied = routine.empty(&mut own.vars, &around);
        let next = next?;
        emptied?;
        match next {
            Next::Return(value) => Ok(value),
            _ => Ok(Value::Null),
        }
    }
}

/// Leaves a function once the client cancels; its statement then ends without an error.
pub(super) fn left(env: &Env<'_>) -> Result<()> {
    match env.cancel.is_some_and(|cancel| cancel.load(Ordering::Acquire)) {
        true => Err(Error::Internal { detail: "cancelled".to_owned() }),
        false => Ok(()),
    }
}

fn unbound() -> Error {
    Error::Internal { detail: "a function that is not bound".to_owned() }
}

impl Routine {
    /// Runs statements, from a label in them on if there is one.
    fn run<'r>(
        &'r self,
        steps: &'r Lines,
        mut label: Option<u32>,
        own: &mut Own<'r>,
        around: &Env<'_>,
    ) -> Result<Next> {
        let mut at = label.and_then(|label| place_of(steps, label)).unwrap_or(0);
        while let Some((line, step)) = steps.get(at) {
            let vars = &mut own.vars;
            let next = match step {
                Step::Set(slot, value) => computed(value, vars, around).map(|value| {
                    if let Some(variable) = vars.get_mut(*slot) {
                        *variable = value;
                    }
                    self.count(1, vars);
                    Next::Step
                }),
                Step::Return(value) => computed(value, vars, around).map(Next::Return),
                Step::If(condition, then, otherwise) => {
                    let entered = label.take();
                    let chosen = match entered {
                        Some(label) => Ok(place_of(then, label).is_some()),
                        None => holds(condition, vars, around),
                    };
                    chosen.and_then(|chosen| {
                        self.run(if chosen { then } else { otherwise }, entered, own, around)
                    })
                }
                Step::While(condition, steps) => {
                    self.repeat(condition, steps, label.take(), own, around)
                }
                Step::Each(reader, assigned) => {
                    assign_each(reader, assigned, vars, around).map(|rows| {
                        self.count(rows, vars);
                        Next::Step
                    })
                }
                Step::Change(change) => changed(change, vars, around).map(|rows| {
                    self.count(rows, vars);
                    Next::Step
                }),
                Step::Cursor(step) => own.cursors.step(step, vars, around).map(|moved| {
                    self.moved(moved, vars);
                    Next::Step
                }),
                Step::Break => Ok(Next::Break),
                Step::Continue => Ok(Next::Continue),
                Step::Label(_) => {
                    label = None;
                    Ok(Next::Step)
                }
                // a loop may consist of it alone
                Step::Goto(label) => left(around).map(|()| Next::Goto(*label)),
            };
            match next.map_err(|error| self.placed(error, *line))? {
                Next::Step => at += 1,
                Next::Goto(to) => match place_of(steps, to) {
                    Some(place) => (at, label) = (place, Some(to)),
                    None => return Ok(Next::Goto(to)),
                },
                next => return Ok(next),
            }
        }
        Ok(Next::Step)
    }

    /// The error of a statement, which has the place of the innermost one.
    #[inline(never)]
    fn placed(&self, error: Error, line: u32) -> Error {
        match &error {
            // not for clients, or the end of a statement that was cancelled
            Error::Internal { .. } => error,
            Error::Raised(message) if message.line != 0 => error,
            _ => Error::Raised(Box::new(error.message(line, &self.name))),
        }
    }

    /// Sets the variables, `@@ROWCOUNT` and `@@FETCH_STATUS` behind a statement about a cursor.
    fn moved(&self, moved: Moved, vars: &mut [Val]) {
        let row = match moved {
            Moved::None => return self.count(0, vars),
            Moved::Declared => {
                if let Some(status @ Value::Null) = self.fetch_status(vars) {
                    *status = Value::Int(0);
                }
                return self.count(1, vars);
            }
            Moved::Fetched(row) => row,
        };
        self.count(u64::from(row.is_some()), vars);
        if let Some(status) = self.fetch_status(vars) {
            *status = Value::Int(if row.is_some() { 0 } else { -1 });
        }
        for (slot, value) in row.into_iter().flatten() {
            if let Some(variable) = vars.get_mut(slot) {
                *variable = value;
            }
        }
    }

    fn fetch_status<'v>(&self, vars: &'v mut [Val]) -> Option<&'v mut Val> {
        self.fetch_status.and_then(|slot| vars.get_mut(slot))
    }

    /// Empties the table variables.
    fn empty(&self, vars: &mut [Val], around: &Env<'_>) -> Result<()> {
        self.emptied.iter().try_for_each(|change| changed(change, vars, around).map(|_| ()))
    }

    /// Sets `@@ROWCOUNT`.
    fn count(&self, rows: u64, vars: &mut [Val]) {
        if let Some(count) = vars.get_mut(self.row_count) {
            *count = Value::Int(i64::try_from(rows).unwrap_or(i64::MAX));
        }
    }

    fn repeat<'r>(
        &'r self,
        condition: &Source,
        steps: &'r Lines,
        mut label: Option<u32>,
        own: &mut Own<'r>,
        around: &Env<'_>,
    ) -> Result<Next> {
        while label.is_some() || holds(condition, &own.vars, around)? {
            left(around)?;
            match self.run(steps, label.take(), own, around)? {
                Next::Step | Next::Continue => {}
                Next::Break => break,
                other @ (Next::Return(_) | Next::Goto(_)) => return Ok(other),
            }
        }
        Ok(Next::Step)
    }
}

pub(super) fn computed(value: &Source, vars: &[Val], around: &Env<'_>) -> Result<Val> {
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
) -> Result<u64> {
    let before = vars.to_vec();
    let mut count = 0;
    rows(reader, &Env { vars: &before, ..*around }, &mut |row| {
        left(around)?;
        count += 1;
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
    })?;
    Ok(count)
}

/// Changes a table of the function; returns the number of rows.
#[inline(never)]
fn changed(change: &Change, vars: &mut [Val], around: &Env<'_>) -> Result<u64> {
    left(around)?;
    let Some(reads) = around.reads else { return Err(misplaced()) };
    let local = &change.table;
    let identity = local.made.columns.iter().find_map(|column| column.identity);
    let identity = identity.filter(|_| change.identity).map(|(seed, step)| {
        let next = match vars.get(local.next) {
            Some(Value::Int(next)) => *next,
            _ => seed,
        };
        (next, step)
    });
    let env = Env { vars, ..*around };
    let result = reads.change(&change.reader, &env, identity);
    let (rows, last) = result.map_err(|error| violated(error, change))?;
    if let (Some(last), Some((_, step)), Some(next)) = (last, identity, vars.get_mut(local.next)) {
        let overflow = || Error::ResultOverflow { to: "bigint".to_owned() };
        *next = Value::Int(last.checked_add(step).ok_or_else(overflow)?);
    }
    Ok(rows)
}

/// Returns the error for a row that violates a constraint of a table variable.
fn violated(error: Error, change: &Change) -> Error {
    let Error::Violation { rule, place, detail } = error else { return error };
    let shown = change.table.made.name.object();
    let column = || place.rsplit('.').next().unwrap_or(&place).to_owned();
    match rule {
        Rule::NotNull => Error::CannotInsertNull {
            column: column(),
            table: shown.to_owned(),
            verb: change.verb.to_owned(),
        },
        Rule::Unique => {
            let primary = change.table.made.is_primary(&column());
            Error::DuplicateKey {
                kind: if primary { "PRIMARY KEY" } else { "UNIQUE KEY" }.to_owned(),
                name: format!("{}_{shown}", if primary { "PK" } else { "UQ" }),
                table: format!("dbo.{shown}"),
                key: String::new(),
            }
        }
        Rule::Check => Error::ConstraintConflict {
            verb: change.verb.to_owned(),
            kind: "CHECK".to_owned(),
            name: format!(
                " \"{place}\". The conflict occurred in database \"tempdb\", table \"{shown}\""
            ),
        },
        _ => Error::Violation { rule, place, detail },
    }
}

fn misplaced() -> Error {
    Error::feature("a function that reads tables in this place")
}

pub(super) fn rows(
    reader: &Reader,
    env: &Env<'_>,
    each: &mut dyn FnMut(Vec<Val>) -> Result<bool>,
) -> Result<()> {
    match env.reads {
        Some(reads) => reads.rows(reader, env, each),
        None => Err(misplaced()),
    }
}
