//! MERGE: see [`crate::bind::merge`].

use std::collections::HashMap;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::{Command, Flow, Value};

use super::data::internal;
use super::db::failure;
use crate::ast::trigger::Event;
use crate::bind::merge::{Doing, Filling, Merging};
use crate::error::{Error, Result};
use crate::plan::trigger::Changed;
use crate::render::{Rendered, Texts};
use crate::run::catalog::{Table, TableColumn};
use crate::run::refused::write_row;
use crate::run::state::{Frame, Signal};
use crate::run::target::Target;
use crate::run::work::Run;
use crate::value::{Val, storage};

/// A row that takes an action.
struct Found {
    /// The target's row, if there is one.
    row: Option<i64>,
    action: usize,
    values: Vec<Val>,
}

impl Run<'_> {
    pub(crate) fn merge(
        &mut self,
        plan: &Rendered,
        (merging, texts): (&Merging, &Texts),
        into: Option<&Target>,
        frame: &mut Frame,
    ) -> Result<Signal> {
        let returns = !merging.columns.is_empty() && into.is_none();
        let tables = (&*merging.table, into);
        let (done, events) = ((Command::MERGE, returns), events(merging));
        self.changing((plan, tables), (done, &events), frame, |run, frame| {
            run.merge_rows(plan, (merging, texts), into, frame)
        })
    }

    fn merge_rows(
        &mut self,
        plan: &Rendered,
        (merging, texts): (&Merging, &Texts),
        into: Option<&Target>,
        frame: &mut Frame,
    ) -> Result<(Signal, u64)> {
        let mut found: Vec<Found> = Vec::new();
        let (signal, _) = self.query(plan, frame, &mut |_, row| {
            let action: Option<i64> = row.get(1).map_err(internal)?;
            let action = action.and_then(|action| usize::try_from(action).ok());
            let Some(action) = action else { return Ok(Signal::Next) };
            let mut values = Vec::with_capacity(merging.types.len());
            for (at, ty) in merging.types.iter().enumerate() {
                let stored = row.get_ref(at + 2).map_err(internal)?;
                values.push(storage::load_owned(stored, *ty, "value")?);
            }
            found.push(Found { row: row.get(0).map_err(internal)?, action, values });
            Ok(Signal::Next)
        })?;
        if signal == Signal::Stop {
            return Ok((signal, 0));
        }
        let found = once_each(found, &merging.actions)?;
        let shown = !merging.output.is_empty();
        if shown && into.is_none() && self.sink.columns(&merging.columns) == Flow::Stop {
            return Ok((Signal::Stop, 0));
        }
        if merging.identity {
            self.s.db.begin_identity(&merging.table)?;
        }
        let (mut count, mut kept) = (0, Vec::new());
        for row in found {
            let given = self.merge_row((merging, texts), row, frame)?;
            count += 1;
            match into {
                _ if !shown => {}
                Some(_) => kept.push(given),
                None if self.sink.row(&given) == Flow::Stop => return Ok((Signal::Stop, count)),
                None => {}
            }
        }
        let explicit = merging.explicit_identity && count > 0;
        self.end_identity(&merging.table, merging.identity, explicit)?;
        if let Some(target) = into {
            self.put_output(target, &merging.columns, &kept)?;
        }
        Ok((Signal::Next, count))
    }

    /// Changes one row, and returns the values of OUTPUT.
    fn merge_row(
        &mut self,
        (merging, texts): (&Merging, &Texts),
        found: Found,
        frame: &Frame,
    ) -> Result<Vec<Val>> {
        let Found { mut row, action, mut values } = found;
        let Some(doing) = merging.actions.get(action) else { return Ok(Vec::new()) };
        let table = &merging.table;
        let shown = !merging.output.is_empty();
        let width = table.columns.len();
        let absent = || vec![Value::Null; width];
        let before = match row.filter(|_| shown) {
            Some(row) => self.image(table, &texts.image, row)?,
            None => absent(),
        };
        let mut params: Vec<Stored> = Vec::new();
        if !matches!(doing, Doing::Insert(_)) {
            params.push(row.map_or(Stored::Null, Stored::Integer));
        }
        let (name, command) = match doing {
            Doing::Delete => ("DELETE", Command::DELETE),
            Doing::Update(columns) => {
                self.fillings((table, columns), &values, true, frame, &mut params)?;
                ("UPDATE", Command::MERGE)
            }
            Doing::Insert(columns) => {
                self.fillings((table, columns), &values, false, frame, &mut params)?;
                ("INSERT", Command::MERGE)
            }
        };
        let place = (&mut self.s.db, self.s.state.database.as_str());
        write_row(place, (table, command), &texts.actions[action], &params)?;
        if matches!(doing, Doing::Insert(_)) {
            row = Some(self.s.db.connection()?.last_insert_rowid());
        }
        if !shown {
            return Ok(Vec::new());
        }
        let after = match row.filter(|_| !matches!(doing, Doing::Delete)) {
            Some(row) => self.image(table, &texts.image, row)?,
            None => absent(),
        };
        values.extend(before);
        values.extend(after);
        values.push(Value::Text(name.into()));
        merging.output.iter().map(|bound| self.s.over_row(bound, &values, frame)).collect()
    }

    /// Adds the new values of columns to the parameters.
    fn fillings(
        &mut self,
        (table, columns): (&Table, &[(TableColumn, Filling)]),
        values: &[Val],
        versions: bool,
        frame: &Frame,
        params: &mut Vec<Stored>,
    ) -> Result<()> {
        for (column, filling) in columns {
            match filling {
                Filling::Value(value) | Filling::Default(value) => {
                    let value = self.s.over_row(value, values, frame)?;
                    params.push(storage::store(&value, column.ty)?);
                }
                Filling::Version if versions => params.push(self.s.db.next_version(table)?),
                Filling::Version | Filling::Identity => {}
            }
        }
        Ok(())
    }

    /// Reads all columns of a row.
    fn image(&mut self, table: &Table, text: &str, row: i64) -> Result<Vec<Val>> {
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let connection = self.s.db.connection()?;
        let mut statement = connection.prepare_cached(text).map_err(fail)?;
        let mut rows = statement.query([row]).map_err(fail)?;
        let Some(found) = rows.next().map_err(fail)? else {
            return Ok(vec![Value::Null; table.columns.len()]);
        };
        let columns = table.columns.iter().enumerate();
        let values = columns.map(|(at, column)| {
            storage::load_owned(found.get_ref(at).map_err(fail)?, column.ty, &column.name)
        });
        values.collect()
    }
}

/// The changes that its clauses make, whether or not rows take them.
fn events(merging: &Merging) -> Vec<(Event, Changed)> {
    let has = |wanted: fn(&Doing) -> bool| merging.actions.iter().any(wanted);
    let mut events = Vec::new();
    if has(|doing| matches!(doing, Doing::Insert(_))) {
        events.push((Event::Insert, Changed::All));
    }
    if has(|doing| matches!(doing, Doing::Update(_))) {
        let sets = merging.actions.iter().flat_map(|doing| match doing {
            Doing::Update(sets) => sets.as_slice(),
            _ => &[],
        });
        let given = sets.filter(|(_, filling)| !matches!(filling, Filling::Version));
        let names = given.map(|(column, _)| column.name.clone()).collect();
        events.push((Event::Update, Changed::Named(names)));
    }
    if has(|doing| matches!(doing, Doing::Delete)) {
        events.push((Event::Delete, Changed::None));
    }
    events
}

/// Returns the rows in the order of their changes: rows that go make room for others.
///
/// # Errors
/// 8672 if a row of the target would be updated and changed once more.
fn once_each(found: Vec<Found>, actions: &[Doing]) -> Result<Vec<Found>> {
    let mut deleted: HashMap<i64, bool> = HashMap::new();
    let mut kept = Vec::with_capacity(found.len());
    for row in found {
        let deletes = matches!(actions.get(row.action), Some(Doing::Delete));
        if let Some(id) = row.row {
            match deleted.insert(id, deletes) {
                // deleted once
                Some(true) if deletes => continue,
                Some(_) => return Err(Error::MergeTwice {}),
                None => {}
            }
        }
        kept.push(row);
    }
    kept.sort_by_key(|row| match actions.get(row.action) {
        Some(Doing::Delete) => 0,
        Some(Doing::Update(_)) => 1,
        _ => 2,
    });
    Ok(kept)
}
