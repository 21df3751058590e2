//! Cursors of T-SQL. OPEN copies the rows of the query into a database in memory of the cursor's
//! own, which counts as the session's memory: no rollback changes them, and CLOSE gives the memory
//! back.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::messages::CursorError;
use tdekit_wire_tds::{Command, Flow, Value, memory};

use super::compile::{Code, CursorOp, Lazy};
use super::cursors::{Cursor, Held};
use super::data::{fit, internal};
use super::db::failure;
use super::plan::{Bound, Effect};
use super::state::{Frame, Signal};
use super::work::Run;
use crate::ast::cursor::{CursorName, FetchPlace};
use crate::ast::walk::Child;
use crate::ast::{Expr, Kind, Query};
use crate::bind::{Variable, Variables};
use crate::error::{Error, Result};
use crate::value::{Val, affordable, bulk_bytes, convert, implicit, type_name};

/// `@@FETCH_STATUS` of a FETCH that failed, or went beyond the rows.
const FAILED: i32 = -1;

/// Returns the text that creates the table for rows of this width.
fn creation(width: usize) -> String {
    let columns: Vec<String> = (0..width).map(|at| format!("c{at}")).collect();
    format!("CREATE TABLE held ({})", columns.join(", "))
}

impl Run<'_> {
    pub(super) fn cursor(&mut self, op: &CursorOp, frame: &mut Frame) -> Result<Signal> {
        let level = self.s.state.nest;
        match op {
            CursorOp::Declare { name, local, scroll, query } => {
                self.declare_cursor(name, (*local, *scroll), query, frame)?;
                self.s.state.rowcount = 1;
            }
            CursorOp::Variable => return Ok(Signal::Next),
            CursorOp::Open(name) => {
                if self.open_cursor(name)? == Signal::Stop {
                    return Ok(Signal::Stop);
                }
                self.s.state.rowcount = 0;
            }
            CursorOp::Fetch { place, from, into } => {
                let fetched = self.fetch(place, from, into.as_deref(), frame);
                if fetched.is_err() {
                    self.s.state.cursors.fetch_status = FAILED;
                }
                return fetched;
            }
            CursorOp::Close(name) => {
                let cursor = self.s.state.cursors.find(name, level)?;
                cursor.rows.take().ok_or(CursorError::NotOpen {})?;
                self.s.state.cursors.count_last();
                self.s.state.rowcount = 0;
            }
            CursorOp::Deallocate(name) => {
                let number = self.s.state.cursors.find(name, level)?.number;
                self.s.state.cursors.known.retain(|cursor| cursor.number != number);
                self.s.state.cursors.count_last();
                self.s.state.rowcount = 0;
            }
        }
        Ok(self.done(frame))
    }

    fn declare_cursor(
        &mut self,
        name: &CursorName,
        (local, scroll): (bool, bool),
        query: &Arc<Lazy>,
        frame: &Frame,
    ) -> Result<()> {
        memory::room(0)?;
        let level = Some(self.s.state.nest).filter(|_| local);
        let key = name.name.to_lowercase();
        let same = |cursor: &Cursor| cursor.name == key && cursor.level == level;
        if !name.is_variable() && self.s.state.cursors.known.iter().any(same) {
            return Err(CursorError::Exists { name: name.name.clone() }.into());
        }
        // errors of the query come here
        let bound = self.planned(query, &frame.variables)?;
        if !matches!(bound.effect, Effect::Rows) {
            return Err(Error::feature("a cursor whose SELECT assigns or has INTO"));
        }
        let used = used(&query.kind, &frame.variables);
        let kept = |(slot, value): (usize, &Val)| match used.contains(&slot) {
            true => value.clone(),
            false => Value::Null,
        };
        let frame = Frame {
            vars: frame.vars.iter().enumerate().map(kept).collect(),
            variables: frame.variables.clone(),
            kind: frame.kind,
            procedure: frame.procedure.clone(),
            origin: frame.origin.clone(),
        };
        let (database, chain) = (self.s.state.database.clone(), self.s.state.chain.clone());
        let cursors = &mut self.s.state.cursors;
        cursors.declared += 1;
        let cursor = Cursor {
            number: cursors.declared,
            name: key,
            level,
            scroll,
            query: query.clone(),
            frame: Arc::new(frame),
            database,
            chain,
            rows: None,
        };
        // a variable lets go of its former cursor
        cursors.known.retain(|known| (&known.name, known.level) != (&cursor.name, level));
        cursors.known.push(cursor);
        cursors.count_last();
        Ok(())
    }

    fn open_cursor(&mut self, name: &CursorName) -> Result<Signal> {
        let level = self.s.state.nest;
        let cursor = self.s.state.cursors.find(name, level)?;
        if cursor.rows.is_some() {
            return Err(CursorError::AlreadyOpen {}.into());
        }
        let (query, frame) = (cursor.query.clone(), cursor.frame.clone());
        let (database, chain) = (cursor.database.clone(), cursor.chain.clone());
        // It reads what it could read where it was declared; by the rights of a procedure's owner
        // only within such a procedure, since the caller's to call it may be revoked.
        let chain = chain.filter(|declared| self.s.state.chain.as_ref() == Some(declared));
        let current = std::mem::replace(&mut self.s.state.database, database);
        let around = std::mem::replace(&mut self.s.state.chain, chain);
        self.s.gate().renew_rights();
        let held =
            self.by_plan(&query, &*frame, |run, bound, frame| run.hold(&query, bound, frame));
        self.s.state.database = current;
        self.s.state.chain = around;
        self.s.gate().renew_rights();
        let Some(held) = held? else { return Ok(Signal::Stop) };
        let cursors = &mut self.s.state.cursors;
        let cursor = cursors.find(name, level)?;
        cursor.rows = Some(held);
        cursors.last = cursor.number;
        cursors.count_last();
        Ok(Signal::Next)
    }

    /// Copies the rows of a query; None if the client has cancelled.
    fn hold(&mut self, query: &Lazy, bound: &Bound, frame: &Frame) -> Result<Option<Held>> {
        let plan = &bound.plan;
        self.s.metered.begin(&self.s.db);
        let open = self.s.db.host.connect()?;
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, "tempdb");
        let width = plan.columns.len();
        open.execute_batch("PRAGMA journal_mode = OFF; BEGIN").map_err(fail)?;
        open.execute_batch(&creation(width)).map_err(fail)?;
        let places = vec!["?"; width].join(", ");
        let sql = format!("INSERT INTO held VALUES ({places})");
        let mut insert = open.prepare(&sql).map_err(fail)?;
        let limit = self.s.state.options.rowcount;
        let mut count = 0;
        let result = self.reading(plan, |run| {
            run.query(plan, frame, &mut |_, row| {
                let values = (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<_>>();
                let values: Vec<Stored> = values.map_err(internal)?;
                insert.execute(rusqlite::params_from_iter(values)).map_err(fail)?;
                count += 1;
                Ok(if count == limit { Signal::Break } else { Signal::Next })
            })
        });
        let rows = result.as_ref().ok().map(|(_, rows)| *rows);
        self.s.measured(query, frame, rows);
        drop(insert);
        let (signal, _) = result?;
        if signal == Signal::Stop {
            return Ok(None);
        }
        open.execute_batch("COMMIT").map_err(fail)?;
        Ok(Some(Held { open, columns: plan.columns.clone(), count, at: 0 }))
    }

    fn fetch(
        &mut self,
        place: &FetchPlace<Code>,
        from: &CursorName,
        into: Option<&[Variable]>,
        frame: &mut Frame,
    ) -> Result<Signal> {
        let place = place.map(|code| {
            Ok::<i64, Error>(match self.value(code, frame)? {
                Value::Int(number) => number,
                _ => 0,
            })
        })?;
        let cursor = self.s.state.cursors.find(from, self.s.state.nest)?;
        let scroll = cursor.scroll;
        let held = cursor.rows.as_mut().ok_or(CursorError::NotOpen {})?;
        if !scroll && place != FetchPlace::Next {
            return Err(CursorError::ForwardOnly { fetch: place.word() }.into());
        }
        if into.is_some_and(|into| into.len() != held.columns.len()) {
            return Err(CursorError::IntoCount {}.into());
        }
        let row = if held.go(&place) { Some(held.row()?) } else { None };
        let columns = if into.is_none() || row.is_some() { held.columns.clone() } else { vec![] };
        let given = u64::from(row.is_some());
        let order = self.s.state.options.dateformat;
        match (into, row) {
            (None, row) => {
                if self.sink.columns(&columns) == Flow::Stop {
                    return Ok(Signal::Stop);
                }
                if let Some(values) = row {
                    let bytes = values.iter().map(bulk_bytes).fold(0, usize::saturating_add);
                    affordable(bytes.saturating_mul(super::data::SENT))?;
                    let values: Vec<Value<'_>> =
                        values.into_iter().zip(&columns).map(|(v, of)| fit(v, of)).collect();
                    if self.sink.row(&values) == Flow::Stop {
                        return Ok(Signal::Stop);
                    }
                }
            }
            (Some(into), Some(values)) => {
                let mut converted = Vec::with_capacity(values.len());
                for ((value, column), variable) in values.iter().zip(&columns).zip(into) {
                    if !implicit(column.ty, variable.ty) {
                        let name = |ty| type_name(ty).to_owned();
                        let (from, to) = (name(column.ty), name(variable.ty));
                        return Err(CursorError::NoConversion { from, to }.into());
                    }
                    converted.push(convert::convert(value, column.ty, variable.ty, 0, order)?);
                }
                for (value, variable) in converted.into_iter().zip(into) {
                    frame.vars[variable.slot] = value;
                }
            }
            (Some(_), None) => {}
        }
        self.s.state.cursors.fetch_status = if given == 1 { 0 } else { FAILED };
        self.s.state.error = 0;
        if into.is_none() {
            return Ok(self.counted(frame, Command::SELECT, given, true));
        }
        self.s.state.rowcount = i64::from(given == 1);
        Ok(self.end(frame, Command::SELECT, None, false))
    }
}

/// Returns the slots of the variables that a query names.
fn used(kind: &Kind, variables: &Variables) -> HashSet<usize> {
    let mut slots = HashSet::new();
    if let Kind::Query(query) = kind {
        of_query(query, variables, &mut slots);
    }
    slots
}

fn of_query(query: &Query, variables: &Variables, slots: &mut HashSet<usize>) {
    query.children(&mut |child| match child {
        Child::Expr(expr) => of_expr(expr, variables, slots),
        Child::Query(query) => of_query(query, variables, slots),
        Child::Table(_) => {}
    });
}

fn of_expr(expr: &Expr, variables: &Variables, slots: &mut HashSet<usize>) {
    if let Expr::Var(name) = expr
        && let Ok(variable) = variables.find(name)
    {
        slots.insert(variable.slot);
    }
    if let Some(query) = expr.query() {
        of_query(query, variables, slots);
    }
    expr.children(&mut |part| of_expr(part, variables, slots));
}
