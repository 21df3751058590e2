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
use crate::run::refused::refused;
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

    /// Ends the identity values of a change: generated ones, or `explicit` ones.
    pub(super) fn end_identity(
        &mut self,
        table: &Table,
        generated: bool,
        explicit: bool,
    ) -> Result<()> {
        let mut last = if generated { self.s.db.end_identity(table)? } else { None };
        if last.is_none() && explicit {
            last = self.s.db.end_explicit_identity(table)?;
        }
        self.s.state.identities.note(last);
        Ok(())
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
            self.s.db.begin_identity(table)?;
        }
        self.s.db.begin_versions(table)?;
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
                let identity = if identity { Some(self.s.db.identity_of(table)?) } else { None };
                let again = Again { text: &text, params: &params, identity, counters };
                let database = &self.s.state.database;
                return Err(refused((&mut self.s.db, database), error, (table, command), &again));
            }
        };
        let changed = match self.s.db.peek() {
            Some(connection) if !output => connection.changes(),
            _ => rows,
        };
        self.s.db.end_versions(table)?;
        self.end_identity(table, identity, explicit_identity && changed > 0)?;
        if let Some(target) = into {
            self.put_output(target, &plan.columns, &kept)?;
        }
        Ok((signal, changed))
    }
}
