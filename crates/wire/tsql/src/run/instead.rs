//! Changes whose rows INSTEAD OF triggers get: see [`crate::bind::instead`].

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::types::Value as Stored;

use super::data::internal;
use super::db::{Db, failure};
use super::firing::{Firing, Watch, logical};
use crate::ast::trigger::Event;
use crate::bind::instead::Instead;
use crate::error::Result;
use crate::render::{Place, Rendered, insert_of_row};
use crate::run::catalog::Table;
use crate::run::state::{Frame, Signal};
use crate::run::work::Run;

impl Run<'_> {
    pub(super) fn instead(
        &mut self,
        plan: &Rendered,
        instead: &Instead,
        frame: &Frame,
    ) -> Result<Signal> {
        self.may_read(plan)?;
        let own = self.before_write((&*instead.table, None), Some(plan))?;
        let level = self.s.db.fired.depth();
        let watch = Watch {
            firings: vec![Firing {
                event: instead.event,
                table: instead.table.clone(),
                triggers: vec![instead.trigger.clone()],
                inserted: logical(&instead.table, "inserted", (level, 0)),
                deleted: logical(&instead.table, "deleted", (level, 0)),
                changed: instead.changed.clone(),
                direct: true,
            }],
        };
        let result = self.check_schema().and_then(|()| {
            watch.firings[0].make_tables(&mut self.s.db, self.s.state.nest)?;
            self.fill_logical(plan, instead, &watch.firings[0], frame)
        });
        if result.is_err() {
            watch.forget(&mut self.s.db);
        }
        let result = result.map(|done| (done, Some(watch)));
        self.ended(own, result, (instead.event.command(), false), frame)
    }

    /// Fills `inserted` and `deleted`; returns the number of rows of the statement.
    fn fill_logical(
        &mut self,
        plan: &Rendered,
        instead: &Instead,
        firing: &Firing,
        frame: &Frame,
    ) -> Result<(Signal, u64)> {
        if instead.event == Event::Insert {
            let (signal, _) = self.query(plan, frame, &mut |_, _| Ok(Signal::Next))?;
            let count = self.s.db.peek().map_or(0, rusqlite::Connection::changes);
            return Ok((signal, count));
        }
        let width = instead.columns.len();
        let first = usize::from(instead.numbered);
        let images = if instead.event == Event::Update { 2 } else { 1 };
        let mut rows: Vec<Vec<Stored>> = Vec::new();
        let mut seen = HashSet::new();
        let (signal, _) = self.query(plan, frame, &mut |_, row| {
            // a row that joins with several is changed once
            if instead.numbered && !seen.insert(row.get::<_, i64>(0).map_err(internal)?) {
                return Ok(Signal::Next);
            }
            let values = (first..first + images * width).map(|at| row.get(at));
            rows.push(values.collect::<rusqlite::Result<_>>().map_err(internal)?);
            Ok(Signal::Next)
        })?;
        if signal == Signal::Stop {
            return Ok((signal, 0));
        }
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let after: Vec<Vec<Stored>> = rows.iter_mut().map(|row| row.split_off(width)).collect();
        put_images(&mut self.s.db, &firing.deleted, &instead.columns, rows)?;
        if instead.event == Event::Update {
            put_images(&mut self.s.db, &firing.inserted, &instead.columns, after)?;
        }
        Ok((Signal::Next, count))
    }
}

/// Puts rows into `inserted` or `deleted`.
fn put_images(
    db: &mut Db,
    into: &Arc<Table>,
    columns: &[String],
    rows: Vec<Vec<Stored>>,
) -> Result<()> {
    let places = columns.iter().enumerate();
    let places = places.map(|(at, name)| (name.as_str(), Place::Param(at)));
    let sql = insert_of_row(into, places);
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let put = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(&sql)?;
        for row in rows {
            statement.execute(rusqlite::params_from_iter(row))?;
        }
        Ok(())
    };
    put().map_err(|error| failure(&kernels, &error, &into.database))
}
