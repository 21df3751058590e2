//! UPDATE row by row: see [`crate::bind::rowwise`].

use std::collections::HashSet;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::{Command, Flow};

use super::data::internal;
use crate::ast::Filled;
use crate::ast::trigger::Event;
use crate::bind::rowwise::Rowwise;
use crate::error::Result;
use crate::plan::trigger::Changed;
use crate::render::Rendered;
use crate::run::catalog::Table;
use crate::run::refused::write_row;
use crate::run::state::{Frame, Signal};
use crate::run::target::Target;
use crate::run::work::Run;
use crate::value::{Val, convert, storage};

impl Run<'_> {
    pub(crate) fn rowwise(
        &mut self,
        plan: &Rendered,
        (change, update): (&Rowwise, Option<&str>),
        into: Option<&Target>,
        frame: &mut Frame,
    ) -> Result<Signal> {
        let returns = !change.columns.is_empty() && into.is_none();
        let tables = (&*change.table, into);
        let set = change.sets.iter().filter_map(|set| set.column.as_ref());
        let set = set.filter(|column| column.filled != Filled::Version);
        let changed = Changed::Named(set.map(|column| column.name.clone()).collect());
        let done = (Command::UPDATE, returns);
        let events = [(Event::Update, changed)];
        self.changing((plan, tables), (done, &events), frame, |run, frame| {
            run.rowwise_rows(plan, (change, update), into, frame)
        })
    }

    /// Runs a change of a table, whose OUTPUT may go into another, by `work`, which handles the
    /// plan's rows one by one and returns their number. `returns` is true if the statement has a
    /// result; `events` fire triggers.
    pub(super) fn changing(
        &mut self,
        (plan, tables): (&Rendered, (&Table, Option<&Target>)),
        (done, events): ((Command, bool), &[(Event, Changed)]),
        frame: &mut Frame,
        work: impl FnOnce(&mut Self, &mut Frame) -> Result<(Signal, u64)>,
    ) -> Result<Signal> {
        self.may_read(plan)?;
        let table = tables.0;
        let own = self.before_write(tables, Some(plan))?;
        let result = self.check_schema().and_then(|()| {
            self.watched(table, events, |run| {
                run.s.db.begin_versions(table)?;
                let done = work(run, frame)?;
                run.s.db.end_versions(table).map(|()| done)
            })
        });
        self.ended(own, result, done, frame)
    }

    fn rowwise_rows(
        &mut self,
        plan: &Rendered,
        (change, update): (&Rowwise, Option<&str>),
        into: Option<&Target>,
        frame: &mut Frame,
    ) -> Result<(Signal, u64)> {
        let mut found: Vec<(i64, Vec<Val>)> = Vec::new();
        let mut seen = HashSet::new();
        let (signal, _) = self.query(plan, frame, &mut |_, row| {
            let rowid: i64 = row.get(0).map_err(internal)?;
            // a row that joins with several is changed once
            if seen.insert(rowid) {
                let mut values = Vec::with_capacity(change.types.len());
                for (at, ty) in change.types.iter().enumerate() {
                    let stored = row.get_ref(at + 1).map_err(internal)?;
                    values.push(storage::load_owned(stored, *ty, "value")?);
                }
                found.push((rowid, values));
            }
            Ok(Signal::Next)
        })?;
        if signal == Signal::Stop {
            return Ok((signal, 0));
        }
        let shown = !change.output.is_empty();
        if shown && into.is_none() && self.sink.columns(&change.columns) == Flow::Stop {
            return Ok((Signal::Stop, 0));
        }
        if let Some(target) = into {
            self.begin_rows(target)?;
        }
        let types: Vec<_> = change.columns.iter().map(|column| column.ty).collect();
        let mut count = 0;
        for (rowid, mut values) in found {
            let new = self.rowwise_values(change, &values, frame)?;
            if let Some(update) = update {
                self.rowwise_write(change, update, rowid, &new)?;
            }
            count += 1;
            if !shown {
                continue;
            }
            values.extend(new);
            let mut given = Vec::with_capacity(change.output.len());
            for bound in &change.output {
                given.push(self.s.over_row(bound, &values, frame)?);
            }
            match into {
                Some(target) => self.put_row(target, &types, &given, false)?,
                None if self.sink.row(&given) == Flow::Stop => return Ok((Signal::Stop, count)),
                None => {}
            }
        }
        if let Some(target) = into {
            self.end_rows(target)?;
        }
        Ok((Signal::Next, count))
    }

    /// Returns the new values of a row, one for each set; variables change as they are set.
    fn rowwise_values(
        &mut self,
        change: &Rowwise,
        values: &[Val],
        frame: &mut Frame,
    ) -> Result<Vec<Val>> {
        let order = self.s.state.options.dateformat;
        let mut new = Vec::with_capacity(change.sets.len());
        for set in &change.sets {
            let value = self.s.over_row(&set.value, values, frame)?;
            if let Some((slot, ty)) = set.variable {
                frame.vars[slot] = convert::convert(&value, set.value.ty, ty, 0, order)?;
            }
            new.push(value);
        }
        Ok(new)
    }

    fn rowwise_write(
        &mut self,
        change: &Rowwise,
        update: &str,
        rowid: i64,
        new: &[Val],
    ) -> Result<()> {
        let mut params = vec![Stored::Integer(rowid)];
        for (set, value) in change.sets.iter().zip(new) {
            if let Some(column) = &set.column {
                params.push(storage::store(value, column.ty)?);
            }
        }
        let place = (&mut self.s.db, self.s.state.database.as_str());
        write_row(place, (&change.table, Command::UPDATE), update, &params)
    }
}
