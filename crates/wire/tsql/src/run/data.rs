//! Queries and changes: bound late, run on SQLite.

use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::messages::TriggerError;
use tdekit_wire_tds::{Column, Command, Flow, SqlType, Value, memory};

use super::bound::bind;
use super::compile::{Code, Lazy, Planned};
use super::conditions::refuse_checked;
use super::db::{Db, failure};
use super::plan::{Bound, Effect};
use super::renew::PLANS;
use crate::ast::{Kind, OutputInto};
use crate::bind::Variables;
use crate::error::{Error, Result};
use crate::functions::eval::{Env, eval, test};
use crate::functions::wanted::database_in;
use crate::plan::LookUp;
use crate::plan::access::Right;
use crate::render::{self, Place, Rendered};
use crate::run::state::{Frame, Signal};
use crate::run::target::Target;
use crate::run::work::Run;
use crate::value::{Val, affordable, bulk_bytes, storage};

/// The work done for each row.
type Each<'a> =
    dyn FnMut(&mut dyn tdekit_wire_tds::Sink, &rusqlite::Row<'_>) -> Result<Signal> + 'a;

/// Maximum growth factor of a value on its way to the client: as UTF-16, in packets, encrypted.
pub(super) const SENT: usize = 6;

impl Run<'_> {
    pub(crate) fn bind(&mut self, kind: &Kind, variables: &Variables) -> Result<Bound> {
        bind((&mut self.s.db, &self.s.state), kind, variables, None)
    }

    /// Returns the statement's plan, bound again if the catalog has changed.
    pub(super) fn planned(&mut self, lazy: &Lazy, variables: &Variables) -> Result<Arc<Bound>> {
        self.s.db.look_anew();
        let version = self.s.db.version();
        let database = self.s.state.database.clone();
        let row_limit = self.s.state.options.rowcount;
        let trigger = self.s.db.fired.key();
        let place = (version, &database, row_limit, &trigger);
        let is_known = |plan: &&Planned| {
            (plan.version, &plan.database, plan.row_limit, &plan.trigger) == place
        };
        let plan = lazy.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let known = plan.as_ref().filter(is_known).map(|plan| plan.bound.clone());
        drop(plan);
        if let Some(known) = known {
            // rights may have been revoked since it was bound
            self.s.gate().admit_plan(&known.plan.needs)?;
            return Ok(known);
        }
        self.s.metered.disturb();
        let mut left = PLANS;
        loop {
            left -= 1;
            let shared = self.s.db.shared_version();
            let bound = Arc::new(self.bind(&lazy.kind, variables)?);
            self.s.db.follow();
            // tables that were looked up one after the other are of one schema
            let moved = self.s.db.planned != self.s.db.known;
            if !moved && shared == self.s.db.shared_version() {
                // system views may have attached a database, which changes nothing that was bound
                let version = self.s.db.version();
                *lazy.plan.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Planned { version, database, row_limit, trigger, bound: bound.clone() });
                return Ok(bound);
            }
            if left == 0 {
                return Ok(bound);
            }
            self.s.db.look_anew();
        }
    }

    /// Does `work` with the statement's plan, and again with a new one if it ends with
    /// [`Error::DefinitionChanged`], before which it must not change or send anything.
    pub(super) fn by_plan<F: Borrow<Frame>, T>(
        &mut self,
        lazy: &Lazy,
        mut frame: F,
        mut work: impl FnMut(&mut Self, &Bound, &mut F) -> Result<T>,
    ) -> Result<T> {
        let around = self.s.db.planned;
        let mut left = PLANS;
        let done = loop {
            left -= 1;
            let bound = match self.planned(lazy, &frame.borrow().variables) {
                Ok(bound) => bound,
                Err(error) => break Err(error),
            };
            match work(self, &bound, &mut frame) {
                Err(Error::DefinitionChanged { .. }) if left > 0 => {}
                done => break done,
            }
        };
        self.s.db.planned = around;
        done
    }

    /// Refuses to continue with a plan that was bound to another schema.
    pub(super) fn check_schema(&self) -> Result<()> {
        self.s.db.check_schema(&self.s.state.database)
    }

    /// Returns the value of an expression.
    pub(crate) fn value(&mut self, code: &Code, frame: &Frame) -> Result<Val> {
        match code {
            Code::Ready(ready) => {
                if let Some(program) = &ready.integer
                    && let Some(int) = program.run(&frame.vars)
                {
                    return Ok(Value::Int(int));
                }
                self.look_up(ready.looks_up.as_ref(), frame)?;
                self.s.with_env(frame, |env| {
                    let value = eval(&ready.bound, env)?;
                    affordable(bulk_bytes(&value))?;
                    Ok(value.into_owned())
                })
            }
            Code::Query(lazy) => {
                let mut found = Value::Null;
                self.by_plan(lazy, frame, |run, Bound { plan, .. }, frame| {
                    let ty = plan.columns.first().map_or(SqlType::Int, |column| column.ty);
                    run.s.metered.begin(&run.s.db);
                    let result = run.counting(&plan.needs.sequences, |run| {
                        run.reading(plan, |run| {
                            run.query(plan, frame, &mut |_, row| {
                                let value = row.get_ref(0).map_err(internal)?;
                                found = storage::load_owned(value, ty, "value")?;
                                Ok(Signal::Break)
                            })
                        })
                    });
                    let rows = result.as_ref().ok().map(|(_, rows)| *rows);
                    run.s.measured(lazy, frame, rows);
                    result
                })?;
                Ok(found)
            }
        }
    }

    /// Evaluates a condition: unknown counts as false.
    pub(crate) fn test(&mut self, code: &Code, frame: &Frame) -> Result<bool> {
        match code {
            Code::Ready(ready) => {
                if let Some(program) = &ready.test
                    && let Some(holds) = program.run(&frame.vars)
                {
                    return Ok(holds);
                }
                self.look_up(ready.looks_up.as_ref(), frame)?;
                Ok(self.s.with_env(frame, |env| test(&ready.bound, env))? == Some(true))
            }
            Code::Query(_) => Ok(self.value(code, frame)? == Value::Int(1)),
        }
    }

    /// Reads the objects that an expression looks up: the names it asks for, or whole databases.
    fn look_up(&mut self, wanted: Option<&LookUp>, frame: &Frame) -> Result<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        self.s.metered.disturb();
        let current = self.s.state.database.clone();
        let login = self.s.caller.login.clone();
        let mut databases = wanted.databases.clone();
        let names = if wanted.whole {
            None
        } else {
            let mut names = Vec::new();
            for name in &wanted.names {
                let value = self.s.with_env(frame, |env| eval(name, env).map(Value::into_owned))?;
                if let Value::Text(name) = value {
                    databases.extend(database_in(&name));
                    names.push(name.into_owned());
                }
            }
            Some(names)
        };
        let of = (current.as_str(), login.as_str());
        self.s.looked_up.read(&mut self.s.db, wanted, of, &databases, names.as_deref())
    }

    /// Runs a plan, with one call for each row. The callback may end it early.
    pub(crate) fn query(
        &mut self,
        plan: &Rendered,
        frame: &Frame,
        each: &mut Each<'_>,
    ) -> Result<(Signal, u64)> {
        match catch_unwind(AssertUnwindSafe(|| self.query_rows(plan, frame, each))) {
            Ok(result) => result,
            // rusqlite reports text for which SQLite has no memory in no other way
            Err(_) if memory::was_refused() => Err(Error::OutOfMemory {}),
            Err(fault) => resume_unwind(fault),
        }
    }

    fn query_rows(
        &mut self,
        plan: &Rendered,
        frame: &Frame,
        each: &mut Each<'_>,
    ) -> Result<(Signal, u64)> {
        memory::room(0)?;
        if !plan.needs.system.is_empty() {
            self.s.show();
            let metered = &self.s.metered;
            let known = (metered.sessions(), self.s.locks.all(), metered.tallies());
            self.s.db.fill(&plan.needs.system, &self.s.caller, known)?;
        }
        self.s.ddl().make_locals(&plan.needs.locals)?;
        self.look_up(plan.needs.looks_up.as_ref(), frame)?;
        let options = &self.s.state.options;
        self.s.db.kernels.set_formats(options.dateformat, options.datefirst);
        self.s.db.connection()?;
        let flag = self.sink.cancel_flag();
        let mut params = match self.parameters(plan, frame) {
            // a loop of a function was left
            Err(_) if flag.load(Ordering::Acquire) => {
                return Ok((Signal::Stop, 0));
            }
            params => params?,
        };
        let database = self.s.state.database.clone();
        let kernels = self.s.db.kernels.clone();
        kernels.set_cancel(flag.clone());
        let Run { s, sink } = self;
        kernels.take_failure();
        s.db.lending(&database, |db, connection| {
            let open = (db, connection, database.as_str());
            step_rows(plan, &mut params, open, &flag, &mut |row| each(*sink, row))
        })?
    }

    pub(crate) fn parameters(&self, plan: &Rendered, frame: &Frame) -> Result<Vec<Stored>> {
        let cancel = self.sink.cancel_flag();
        self.s.with_env(frame, |env| {
            let env = &Env { cancel: Some(&*cancel), ..*env };
            let stored = plan.params.iter().map(|param| {
                let value = eval(param, env)?;
                affordable(bulk_bytes(&value).saturating_mul(2))?;
                storage::store(&value, param.ty)
            });
            stored.collect()
        })
    }

    /// Runs a query or a change of a batch.
    pub(crate) fn data(&mut self, lazy: &Lazy, frame: &mut Frame) -> Result<Signal> {
        let signal = self.effect(lazy, frame)?;
        self.s.state.error = 0;
        Ok(signal)
    }

    fn effect(&mut self, lazy: &Lazy, frame: &mut Frame) -> Result<Signal> {
        let signal = self.by_plan(lazy, frame, |run, bound, frame| {
            if run.s.state.options.fmtonly {
                return Ok(run.shape_of(bound, frame));
            }
            run.s.metered.begin(&run.s.db);
            let result = run.carry_out(bound, frame);
            let rows = result.is_ok().then(|| u64::try_from(run.s.state.rowcount).unwrap_or(0));
            run.s.measured(lazy, frame, rows);
            result
        })?;
        let told = self.s.metered.tell_used(lazy, &self.s.state.options, self.sink);
        Ok(if told == Flow::Stop { Signal::Stop } else { signal })
    }

    fn carry_out(&mut self, bound: &Bound, frame: &mut Frame) -> Result<Signal> {
        self.counting(&bound.plan.needs.sequences, |run| run.carry_out_counting(bound, frame))
    }

    fn carry_out_counting(&mut self, bound: &Bound, frame: &mut Frame) -> Result<Signal> {
        let plan = &bound.plan;
        match &bound.effect {
            Effect::Rows => self.reading(plan, |run| run.rows(plan, frame)),
            Effect::Assign(assigned, types) => {
                self.reading(plan, |run| run.assign(plan, frame, assigned, types))
            }
            Effect::Change { table, command, changed, identity, explicit_identity, into } => {
                let filled = (*identity, *explicit_identity);
                let into = self.output_target(into.as_ref(), frame)?;
                self.change(plan, frame, (table, into.as_ref()), (*command, changed), filled)
            }
            Effect::Instead(instead) => self.instead(plan, instead, frame),
            Effect::Rowwise { change, update_row, into } => {
                let into = self.output_target(into.as_ref(), frame)?;
                self.rowwise(plan, (change, update_row.as_deref()), into.as_ref(), frame)
            }
            Effect::Merge { merging, texts, into } => {
                let into = self.output_target(into.as_ref(), frame)?;
                self.merge(plan, (merging, texts), into.as_ref(), frame)
            }
            Effect::Into(name) => self.select_into(plan, frame, name),
        }
    }

    /// SET FMTONLY ON: the columns and no rows.
    fn shape_of(&mut self, bound: &Bound, frame: &Frame) -> Signal {
        let shown = match &bound.effect {
            Effect::Rows => true,
            Effect::Change { into, .. }
            | Effect::Rowwise { into, .. }
            | Effect::Merge { into, .. } => into.is_none() && !bound.plan.columns.is_empty(),
            _ => false,
        };
        if shown && self.sink.columns(&bound.plan.columns) == Flow::Stop {
            return Signal::Stop;
        }
        let command = match &bound.effect {
            Effect::Change { command, .. } => *command,
            Effect::Rowwise { .. } => Command::UPDATE,
            Effect::Merge { .. } => Command::MERGE,
            Effect::Instead(instead) => instead.event.command(),
            _ => Command::SELECT,
        };
        self.counted(frame, command, 0, shown)
    }

    fn rows(&mut self, plan: &Rendered, frame: &Frame) -> Result<Signal> {
        let limit = self.s.state.options.rowcount;
        let (mut given, mut shown) = (0, false);
        let columns = plan.columns.clone();
        let result = self.query(plan, frame, &mut |sink, row| {
            if !std::mem::replace(&mut shown, true) && sink.columns(&columns) == Flow::Stop {
                return Ok(Signal::Stop);
            }
            let mut values = Vec::with_capacity(columns.len());
            for (at, column) in columns.iter().enumerate() {
                let stored = row.get_ref(at).map_err(internal)?;
                values.push(fit(storage::load(stored, column.ty, &column.name)?, column));
            }
            let bytes = values.iter().map(bulk_bytes).fold(0, usize::saturating_add);
            affordable(bytes.saturating_mul(SENT))?;
            if sink.row(&values) == Flow::Stop {
                return Ok(Signal::Stop);
            }
            given += 1;
            Ok(if given == limit { Signal::Break } else { Signal::Next })
        });
        // The columns of an older schema are never shown.
        let moved = matches!(result, Err(Error::DefinitionChanged { .. }));
        if !shown && !moved && self.sink.columns(&plan.columns) == Flow::Stop {
            return Ok(Signal::Stop);
        }
        let (signal, count) = result?;
        if signal == Signal::Stop {
            return Ok(signal);
        }
        Ok(self.counted(frame, Command::SELECT, count, true))
    }

    /// Ends a statement with its count of rows; `result` is true if the client has seen columns of
    /// it.
    pub(crate) fn counted(
        &mut self,
        frame: &Frame,
        command: Command,
        rows: u64,
        result: bool,
    ) -> Signal {
        self.s.state.rowcount = i64::try_from(rows).unwrap_or(i64::MAX);
        self.end(frame, command, Some(rows), result)
    }

    fn assign(
        &mut self,
        plan: &Rendered,
        frame: &mut Frame,
        assigned: &[(usize, crate::plan::scalar::Scalar)],
        types: &[SqlType],
    ) -> Result<Signal> {
        let mut rows: Vec<Vec<Val>> = Vec::new();
        let limit = usize::try_from(self.s.state.options.rowcount).unwrap_or(0);
        // rows are collected before they are assigned, because SQLite reads the parameters once
        let (signal, count) = self.query(plan, frame, &mut |_, row| {
            let mut values = Vec::with_capacity(types.len());
            for (at, ty) in types.iter().enumerate() {
                let stored = row.get_ref(at).map_err(internal)?;
                values.push(storage::load_owned(stored, *ty, "value")?);
            }
            rows.push(values);
            Ok(if rows.len() == limit { Signal::Break } else { Signal::Next })
        })?;
        if signal == Signal::Stop {
            return Ok(signal);
        }
        for values in &rows {
            for (slot, expr) in assigned {
                frame.vars[*slot] = self.s.over_row(expr, values, frame)?;
            }
        }
        // assignments count rows for @@ROWCOUNT, but clients do not receive the count
        self.s.state.rowcount = i64::try_from(count).unwrap_or(i64::MAX);
        Ok(self.end(frame, Command::SELECT, None, false))
    }

    fn output_target(
        &mut self,
        into: Option<&OutputInto>,
        frame: &Frame,
    ) -> Result<Option<Target>> {
        let Some(into) = into else { return Ok(None) };
        let target = self.target(&into.target, &into.columns, &frame.variables, false)?;
        refuse_checked(&mut self.s.db, &target.table)?;
        match self.s.db.triggers_of(&target.table)?.own.is_empty() {
            true => Ok(Some(target)),
            false => Err(TriggerError::OutputInto { table: into.target.text() }.into()),
        }
    }

    fn select_into(
        &mut self,
        plan: &Rendered,
        frame: &Frame,
        name: &crate::ast::Name,
    ) -> Result<Signal> {
        self.may_read(plan)?;
        self.s.gate().admit_new(name, Right::CreateTable)?;
        let current = self.s.state.database.clone();
        let (schema, ..) = self.s.db.place(name, &current)?;
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        if schema != "temp" || plan.needs.reads.iter().any(|read| read != "temp") {
            self.implicit();
        }
        // the table and its rows are one statement: neither stays without the other
        let own = self.begin_own(&[schema], plan.needs.hints.nowait)?;
        let result = self.check_schema().and_then(|()| self.fill_into(plan, frame, name));
        let keep = matches!(result, Ok((Signal::Next | Signal::Break, _)));
        self.after_write(own, keep)?;
        if !keep {
            self.s.db.changed();
        }
        match result? {
            (Signal::Stop, _) => Ok(Signal::Stop),
            (_, count) => Ok(self.counted(frame, Command(0xC1), count, false)),
        }
    }

    fn fill_into(
        &mut self,
        plan: &Rendered,
        frame: &Frame,
        name: &crate::ast::Name,
    ) -> Result<(Signal, u64)> {
        self.lock_hinted(plan)?;
        let columns = &plan.columns;
        let table = self.create_for(name, columns)?;
        let places = table.columns.iter().enumerate();
        let places = places.map(|(at, column)| (column.name.as_str(), Place::Param(at)));
        let insert = render::insert_of_row(&table, places);
        let mut rows: Vec<Vec<Stored>> = Vec::new();
        let width = columns.len();
        let limit = usize::try_from(self.s.state.options.rowcount).unwrap_or(0);
        let (signal, count) = self.query(plan, frame, &mut |_, row| {
            let values = (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<_>>();
            rows.push(values.map_err(internal)?);
            Ok(if rows.len() == limit { Signal::Break } else { Signal::Next })
        })?;
        if signal == Signal::Stop {
            return Ok((signal, count));
        }
        let connection = self.s.db.connection()?;
        let written = connection.prepare_cached(&insert).and_then(|mut statement| {
            rows.into_iter()
                .try_for_each(|row| statement.execute(rusqlite::params_from_iter(row)).map(|_| ()))
        });
        let kernels = self.s.db.kernels.clone();
        written.map_err(|error| failure(&kernels, &error, &table.database))?;
        Ok((signal, count))
    }
}

/// Runs a plan with these parameters on a connection that is lent, in this current database.
fn step_rows(
    plan: &Rendered,
    params: &mut Vec<Stored>,
    (db, connection, database): (&Db, &rusqlite::Connection, &str),
    flag: &AtomicBool,
    each: &mut dyn FnMut(&rusqlite::Row<'_>) -> Result<Signal>,
) -> Result<(Signal, u64)> {
    let kernels = &db.kernels;
    let failed = |error: rusqlite::Error| match db.check_schema_of(connection, database) {
        Ok(()) => failure(kernels, &error, database),
        Err(moved) => moved,
    };
    let text = plan.sql.text(params);
    #[cfg(debug_assertions)]
    let mut trace = super::trace::Trace::begin(&text, params, kernels);
    let mut statement = connection.prepare_cached(&text).map_err(failed)?;
    // bounds of ranges that were omitted
    params.truncate(statement.parameter_count());
    let mut rows = statement.query(rusqlite::params_from_iter(&*params)).map_err(failed)?;
    let mut count = 0;
    loop {
        let next = rows.next();
        if count == 0 {
            db.check_schema_of(connection, database)?;
        }
        match next {
            Ok(Some(row)) => {
                count += 1;
                #[cfg(debug_assertions)]
                if let Some(trace) = &mut trace {
                    trace.row(row);
                }
                memory::room(0)?;
                let signal = each(row)?;
                if signal != Signal::Next {
                    return Ok((signal, count));
                }
            }
            Ok(None) => return Ok((Signal::Next, count)),
            Err(_) if flag.load(Ordering::Acquire) => {
                return Ok((Signal::Stop, count));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

pub(super) fn internal(error: rusqlite::Error) -> Error {
    Error::Internal { detail: error.to_string() }
}

/// Fits a value to its column's type: decimals with the column's scale.
pub(super) fn fit<'a>(value: Value<'a>, column: &Column) -> Value<'a> {
    match (value, column.ty) {
        (Value::Int(int), SqlType::Bit) => Value::Bit(int != 0),
        (value, _) => value,
    }
}
