//! The interpreter: sessions, compiled batches, and their connection to SQLite.

pub(crate) mod activity;
pub(crate) mod applock;
mod bound;
pub(crate) mod bulk;
pub(crate) mod called;
pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod catalog;
mod change;
mod checks;
pub(crate) mod compile;
mod conditions;
pub(crate) mod cursor;
mod cursors;
pub(crate) mod data;
pub(crate) mod db;
pub(crate) mod dbcc;
mod ddl;
pub(crate) mod describe;
pub(crate) mod duplicate;
pub(crate) mod exec;
mod fire;
pub(crate) mod fired;
pub(crate) mod firing;
pub(crate) mod gate;
pub(crate) mod given;
mod globals;
mod guards;
pub(crate) mod holder;
mod identities;
mod identity;
pub(crate) mod instead;
mod integers;
mod known;
mod language;
pub(crate) mod locking;
pub(crate) mod locks;
mod looked_up;
pub(crate) mod merge;
pub(crate) mod messages;
pub(crate) mod meter;
pub(crate) mod metered;
mod operands;
pub(crate) mod options;
pub(crate) mod plan;
mod position;
mod principals;
pub(crate) mod procedure;
mod properties;
mod refused;
pub(crate) mod renew;
mod rowwise;
pub(crate) mod security;
pub(crate) mod sequence;
pub(crate) mod session;
pub(crate) mod silent;
pub(crate) mod state;
pub(crate) mod system_procedures;
pub(crate) mod tallies;
pub(crate) mod target;
pub(crate) mod temporary;
pub(crate) mod texts;
#[cfg(debug_assertions)]
pub(crate) mod trace;
pub(crate) mod tran;
pub(crate) mod transaction;
pub(crate) mod typed;
pub(crate) mod types;
pub(crate) mod version;
pub(crate) mod versions;
mod violated;
mod watch;
pub(crate) mod work;

#[cfg(test)]
mod tests;

use tdekit_wire_tds::{Command, Flow};

use crate::ast::defined::CreateIndex;
use crate::ast::{Action, ObjectKind};
use crate::error::{Error, Result};
use compile::{Op, Step};
use state::{Frame, Signal};
use work::Run;

impl Run<'_> {
    /// Executes a statement: the only place that lists every kind.
    fn dispatch(&mut self, step: &Step, frame: &mut Frame) -> Result<Signal> {
        match &step.op {
            Op::Data(_) => {}
            op if op.is_control() => self.s.metered.pause(),
            _ => self.s.metered.disturb(),
        }
        match &step.op {
            Op::Declare(slot, code) => self.declare(*slot, code, frame),
            Op::Set(slot, code) => self.set(*slot, code, frame),
            Op::If(test, then, otherwise) => self.branch(test, then, otherwise, frame),
            Op::While(test, body) => self.repeat(test, body, None, frame),
            Op::Block(steps) => self.steps(steps, frame),
            Op::Try(tried, caught) => self.guarded(tried, caught, frame),
            Op::Break => Ok(Signal::Break),
            Op::Continue => Ok(Signal::Continue),
            Op::Return(code) => self.returned(code.as_ref(), frame),
            Op::Print(code) => self.print(code, step.line, frame),
            Op::Raiserror { parts, nowait, set_error, log } => {
                self.raiserror(parts, (*nowait, *set_error, *log), step.line, frame)
            }
            Op::Throw(parts) => self.throw(parts.as_ref(), step.line, frame),
            Op::Wait(delay, code) => self.wait(*delay, code, frame),
            Op::Exec { exec, args, text, status } => {
                self.exec(exec, args, text.as_ref(), *status, frame)
            }
            Op::InsertExec { into, columns, call } => self.insert_exec(into, columns, call, frame),
            Op::Data(lazy) => self.data(lazy, frame),
            Op::Cursor(op) => self.timed(|run| run.cursor(op, frame)),
            Op::Label => Ok(Signal::Next),
            Op::Goto(label) => Ok(Signal::Goto(*label)),
            Op::Act(action) => self.timed(|run| run.defining(|run| run.act(action, frame))),
            Op::Nothing => Ok(self.done(frame)),
        }
    }

    fn act(&mut self, action: &Action, frame: &mut Frame) -> Result<Signal> {
        if !self.s.gate().admit_action(action, frame)? {
            return Ok(self.finished(frame, Command::OTHER));
        }
        self.refuse_within(action)?;
        self.reset_row_count(action);
        let mut command = Command::OTHER;
        match action {
            Action::Tran(op, name) => return self.tran(op, name.as_ref(), frame),
            Action::Use(name) => {
                let signal = self.use_database(name, frame);
                self.s.gate().renew_rights();
                return signal;
            }
            Action::SetOption(names, value) => return self.set_option(names, value, frame),
            Action::InsertBulk(insert) => return self.announce(insert, frame),
            Action::Dbcc { name, args, options } => return self.dbcc(name, args, options, frame),
            Action::Security(security) => return self.security(security, frame),
            Action::DeclareTable(table) => {
                self.create_table(table)?;
                return Ok(Signal::Next);
            }
            Action::DeclareTyped(made) => {
                self.declare_typed(&made.of, &made.table.name)?;
                return Ok(Signal::Next);
            }
            Action::CreateTable(table) => {
                let made = self.create_table(table);
                made.map_err(|error| self.refused_constraint(error, Some(&table.name), frame))?;
                command = Command::CREATE_TABLE;
            }
            Action::AlterTable(name, change) => {
                let altered = self.alter_table(name, change, frame);
                let altered = altered.map_err(|error| self.s.gate().hide_values_of(name, error));
                altered.map_err(|error| self.refused_constraint(error, None, frame))?;
            }
            Action::CreateIndex(index) => self.create_index(index)?,
            Action::CreateView { name, columns, query, text, may_replace } => {
                self.make(|ddl| ddl.new_view((name, columns), query, text, *may_replace))?;
            }
            Action::CreateType(made) => self.create_type(made)?,
            Action::CreateFunction(made) => self.create_function(made)?,
            Action::CreateProc(made) => {
                called::check_body(&made.params, &made.body)?;
                let may = (made.may_create, made.may_replace);
                self.make(|ddl| ddl.new_module(&made.name, "P", &made.text, may))?;
            }
            Action::Trigger(action) => self.make(|ddl| ddl.trigger_action(action))?,
            Action::CreateDatabase(made) => {
                if let Some(signal) = self.create_database(made)? {
                    return Ok(signal);
                }
            }
            Action::CreateSchema(name, owner) => {
                self.make(|ddl| ddl.new_schema(name, owner.as_deref()))?;
            }
            Action::Transfer(schema, object) => self.make(|ddl| ddl.transferred(schema, object))?,
            Action::Sequence { name, options, create: true } => {
                self.make(|ddl| ddl.new_sequence(name, options))?;
            }
            Action::Sequence { name, options, .. } => self.alter_sequence(name, options)?,
            Action::Truncate(name) => self.make(|ddl| ddl.truncated(name))?,
            Action::Drop { kind, names, if_exists, on } => {
                self.drop(*kind, names, *if_exists, on.as_ref())?;
                if *kind == ObjectKind::Table {
                    command = Command::DROP_TABLE;
                }
            }
            Action::Principals(principals) => {
                self.principals(principals)?;
                self.s.gate().renew_rights();
            }
            Action::Kill(spid) => self.kill(*spid)?,
            Action::Checkpoint => self.checkpoint()?,
            Action::Rebuild { index, table } => {
                self.make(|ddl| ddl.rebuilt(index.as_deref(), table))?;
            }
        }
        Ok(self.finished(frame, command))
    }

    fn create_index(&mut self, index: &CreateIndex) -> Result<()> {
        let made = self.make(|ddl| ddl.new_index(index));
        made.map_err(|error| self.s.gate().hide_values_of(&index.table, error))
    }

    /// Source: the documentation of `@@ROWCOUNT`.
    fn reset_row_count(&mut self, action: &Action) {
        if matches!(action, Action::Tran(..) | Action::Use(_) | Action::SetOption(..)) {
            self.s.state.rowcount = 0;
        }
    }

    fn checkpoint(&mut self) -> Result<()> {
        if self.s.state.transaction.is_open() {
            return Err(Error::feature("CHECKPOINT within a transaction"));
        }
        ddl::checkpoint(&mut self.s.db, &self.s.state.database, self.sink)
    }

    /// Runs a statement that is neither a query nor a change, under SET STATISTICS TIME.
    fn timed(&mut self, work: impl FnOnce(&mut Self) -> Result<Signal>) -> Result<Signal> {
        if !self.s.state.options.statistics_time {
            return work(self);
        }
        self.s.metered.begin(&self.s.db);
        let signal = work(self)?;
        let flow = self.s.metered.end_timed(&self.s.db, self.sink);
        Ok(if flow == Flow::Stop { Signal::Stop } else { signal })
    }

    /// A statement about principals that a procedure stands for.
    fn act_for(&mut self, action: &Action) -> Result<()> {
        match action {
            _ if !self.s.gate().admit_action(action, &Frame::empty())? => Ok(()),
            Action::Principals(principals) => self.principals(principals),
            _ => Err(Error::Internal { detail: "no statement about principals".to_owned() }),
        }
    }

    /// A database is created and removed at once: no ROLLBACK undoes that.
    fn refuse_within(&self, action: &Action) -> Result<()> {
        let statement = match action {
            Action::CreateDatabase(_) => "CREATE DATABASE",
            Action::Drop { kind: ObjectKind::Database, .. } => "DROP DATABASE",
            _ => return Ok(()),
        };
        match self.s.state.transaction.is_open_outside() || self.in_sqlite() {
            true => Err(Error::WithinTransaction { statement }),
            false => Ok(()),
        }
    }
}
