//! INSERT, UPDATE and DELETE as one statement of SQLite.

use std::sync::Arc;

use tdekit_wire_tds::{Command, Flow, Value};

use super::data::{fit, internal};
use super::duplicate::Again;
use crate::ast::trigger::Event;
use crate::error::Result;
use crate::plan::trigger::Changed;
use crate::render::Rendered;
use crate::run::catalog::Table;
use crate::run::state::{Frame, Signal};
use crate::run::target::Target;
use crate::run::work::Run;
use crate::value::{Val, storage};

impl Run<'_> {
    pub(super) fn change(
        &mut self,
        plan: &Rendered,
        frame: &Frame,
        (table, into): (&Arc<Table>, Option<&Target>),
        (command, changed): (Command, &Changed),
        filled: (bool, bool),
    ) -> Result<Signal> {
        self.may_read(plan)?;
        let own = self.before_write((&**table, into), Some(plan))?;
        let event = Event::ALL.into_iter().find(|event| event.command() == command);
        let events: Vec<_> = event.map(|event| (event, changed.clone())).into_iter().collect();
        let result = self.check_schema().and_then(|()| {
            self.watched(table, &events, |run| {
                run.run_change(plan, frame, (table, into), command, filled)
            })
        });
        let returns = !plan.columns.is_empty() && into.is_none();
        self.ended(own, result, (command, returns), frame)
    }

    fn run_change(
        &mut self,
        plan: &Rendered,
        frame: &Frame,
        (table, into): (&Arc<Table>, Option<&Target>),
        command: Command,
        (identity, explicit_identity): (bool, bool),
    ) -> Result<(Signal, u64)> {
        if identity {
            let (next, step) = self.identity_of(table)?;
            self.s.db.kernels.begin_identity(next, step);
        }
        self.begin_versions(table)?;
        let output = !plan.columns.is_empty();
        if output && into.is_none() && self.sink.columns(&plan.columns) == Flow::Stop {
            return Ok((Signal::Stop, 0));
        }
        let columns = plan.columns.clone();
        let mut kept: Vec<Vec<Val>> = Vec::new();
        let counters = self.s.db.kernels.counters();
        let result = self.query(plan, frame, &mut |sink, row| {
            let mut values = Vec::with_capacity(columns.len());
            for (at, column) in columns.iter().enumerate() {
                let stored = row.get_ref(at).map_err(internal)?;
                values.push(fit(storage::load(stored, column.ty, &column.name)?, column));
            }
            if into.is_some() {
                kept.push(values.into_iter().map(Value::into_owned).collect());
                return Ok(Signal::Next);
            }
            Ok(if sink.row(&values) == Flow::Stop { Signal::Stop } else { Signal::Next })
        });
        let (signal, rows) = match result {
            Ok(done) => done,
            Err(error) => {
                let params = self.parameters(plan, frame)?;
                let text = plan.sql.text(&params);
                let identity = if identity { Some(self.identity_of(table)?) } else { None };
                let again = Again { text: &text, params: &params, identity, counters };
                return Err(self.constraint(error, table, command, &again));
            }
        };
        let changed = match self.s.db.peek() {
            Some(connection) if !output => connection.changes(),
            _ => rows,
        };
        self.end_versions(table)?;
        if identity && let Some(last) = self.s.db.kernels.last_identity() {
            self.store_identity(table, last)?;
            self.s.state.identity = Some(last);
            self.s.state.scope_identity = Some(last);
        } else if explicit_identity && changed > 0 {
            self.note_explicit_identity(table)?;
        }
        if let Some(target) = into {
            self.put_output(target, &plan.columns, &kept)?;
        }
        Ok((signal, changed))
    }
}
