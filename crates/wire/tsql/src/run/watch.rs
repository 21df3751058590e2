//! The rows that a statement changes, for its triggers.
//!
//! While the statement runs, temporary triggers of SQLite copy each row before and after its change
//! into the tables that T-SQL's triggers see as `inserted` and `deleted`. So every way to change a
//! row is noticed, cascades of foreign keys too. All of it is made within the statement's own
//! transaction or savepoint, and goes with it when it is undone.

use std::collections::HashMap;
use std::sync::Arc;

use super::db::{Temporary, failure};
use super::firing::{Firing, Watch, logical};
use crate::ast::trigger::Event;
use crate::error::Result;
use crate::name::quote;
use crate::plan::trigger::{Changed, Trigger};
use crate::run::catalog::{Table, TableKind};
use crate::run::state::Signal;
use crate::run::work::Run;
use crate::value::collation::clause;
use crate::value::storage;

/// The name of the temporary trigger that copies rows.
fn watcher((level, at): (usize, usize)) -> String {
    quote(&format!("~watch:{level}.{at}"))
}

fn list(table: &Table, before: &str) -> String {
    let columns = table.columns.iter();
    let names: Vec<_> = columns.map(|own| format!("{before}{}", quote(&own.name))).collect();
    names.join(", ")
}

impl Run<'_> {
    /// The depth of the triggers that the running statement fires, from 1.
    pub(super) fn trigger_level(&self) -> usize {
        self.s.db.fired.running.len() + 1
    }

    /// Does `work`, which changes a table, and returns the triggers that its changes fire.
    pub(super) fn watched(
        &mut self,
        table: &Table,
        events: &[(Event, Changed)],
        work: impl FnOnce(&mut Self) -> Result<(Signal, u64)>,
    ) -> Result<((Signal, u64), Option<Watch>)> {
        let noted = self.note_rows(table, events)?;
        let watch = self.watch(table, events)?;
        let result = work(self).and_then(|mut done| {
            if noted && done.0 != Signal::Stop && self.check_rows(table, events)? == Signal::Stop {
                done.0 = Signal::Stop;
            }
            // a cancelled one is undone with all that was made for it
            if let (Some(watch), true) = (&watch, done.0 != Signal::Stop) {
                self.unwatch(watch)?;
            }
            Ok(done)
        });
        if result.is_err()
            && let Some(watch) = &watch
        {
            self.forget_logical(watch);
        }
        result.map(|done| (done, watch))
    }

    /// Begins to copy the rows of a statement for its AFTER triggers; None if it has none.
    pub(super) fn watch(
        &mut self,
        table: &Table,
        events: &[(Event, Changed)],
    ) -> Result<Option<Watch>> {
        let mut wanted = self.firings(table, events)?;
        if wanted.is_empty() {
            return Ok(None);
        }
        // those that cascades reach fire first, the furthest before the nearest
        wanted.reverse();
        let level = self.trigger_level();
        let mut firings = Vec::new();
        for (at, (event, table, triggers, changed, direct)) in wanted.into_iter().enumerate() {
            let inserted = logical(&table, "inserted", (level, at));
            let deleted = logical(&table, "deleted", (level, at));
            firings.push(Firing { event, table, triggers, inserted, deleted, changed, direct });
        }
        let watch = Watch { firings };
        if let Err(error) = self.begin_watch(&watch, level) {
            self.forget_logical(&watch);
            return Err(error);
        }
        Ok(Some(watch))
    }

    #[allow(clippy::type_complexity)]
    fn firings(
        &mut self,
        table: &Table,
        events: &[(Event, Changed)],
    ) -> Result<Vec<(Event, Arc<Table>, Vec<Arc<Trigger>>, Changed, bool)>> {
        let known = self.s.db.triggers_of(table)?;
        let mut wanted = Vec::new();
        if known.own.is_empty() && known.reached.is_empty() {
            return Ok(wanted);
        }
        let fires = |run: &Self, table: &Table, all: &[Arc<Trigger>], event: Event| {
            let fires = |trigger: &&Arc<Trigger>| {
                !trigger.instead
                    && trigger.events.has(event)
                    && !run.s.db.fired.is_running(table, trigger)
            };
            all.iter().filter(fires).cloned().collect::<Vec<_>>()
        };
        for (event, changed) in events.iter().rev() {
            let triggers = fires(self, table, &known.own, *event);
            if !triggers.is_empty() {
                wanted.push((*event, Arc::new(table.clone()), triggers, changed.clone(), true));
            }
        }
        if events.iter().all(|(event, _)| *event == Event::Insert) {
            return Ok(wanted);
        }
        for (reached, all) in &known.reached {
            let found = self.s.db.stored(&table.schema, &table.database, &reached.table)?;
            let Some(child) = found else { continue };
            for event in [Event::Update, Event::Delete] {
                let twice = |(known, of, ..): &(Event, Arc<Table>, _, _, _)| {
                    *known == event && of.name.eq_ignore_ascii_case(&child.name)
                };
                let triggers = fires(self, &child, all, event);
                if triggers.is_empty() || wanted.iter().any(twice) {
                    continue;
                }
                let changed = match event {
                    Event::Delete => Changed::None,
                    _ => Changed::Named(reached.columns.clone()),
                };
                wanted.push((event, child.clone(), triggers, changed, false));
            }
        }
        Ok(wanted)
    }

    fn begin_watch(&mut self, watch: &Watch, level: usize) -> Result<()> {
        for (at, firing) in watch.firings.iter().enumerate() {
            self.make_logical(firing)?;
            let Firing { event, table, inserted, deleted, .. } = firing;
            let copy = |into: &Table, row: &str| {
                let (names, values) = (list(table, ""), list(table, row));
                format!("INSERT INTO {} ({names}) VALUES ({values});", quote(&into.name))
            };
            let body = match event {
                Event::Insert => copy(inserted, "NEW."),
                Event::Update => copy(deleted, "OLD.") + &copy(inserted, "NEW."),
                Event::Delete => copy(deleted, "OLD."),
            };
            let (name, event, on) = (watcher((level, at)), event.word(), table.sql());
            let sql = format!("CREATE TEMP TRIGGER {name} AFTER {event} ON {on} BEGIN {body} END");
            self.watch_sql(&sql, &table.database)?;
        }
        Ok(())
    }

    /// Makes the tables of a firing. They are like table variables of the scope that runs the
    /// statement.
    pub(super) fn make_logical(&mut self, firing: &Firing) -> Result<()> {
        let columns = self.logical_columns(&firing.table)?;
        for logical in [&firing.inserted, &firing.deleted] {
            let sql = logical.sql();
            self.watch_sql(
                &format!("DROP TABLE IF EXISTS {sql}; CREATE TABLE {sql} ({columns})"),
                "tempdb",
            )?;
            let (name, level) = (logical.name.to_lowercase(), self.s.state.nest);
            let made = Temporary { name, stored: logical.name.clone(), level, lent: false };
            self.s.db.temporaries.push(made);
        }
        Ok(())
    }

    /// The columns of a table as SQLite's text, without what rows would have to fulfil.
    fn logical_columns(&mut self, table: &Table) -> Result<String> {
        let kernels = self.s.db.kernels.clone();
        let connection = self.s.db.connection()?;
        let read = || -> rusqlite::Result<HashMap<String, String>> {
            let sql = "SELECT name, type FROM pragma_table_info(?1, ?2)";
            let mut statement = connection.prepare_cached(sql)?;
            let with = [&table.name, &table.schema];
            statement.query_map(with, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let mut declared = HashMap::new();
        if table.kind == TableKind::Table {
            declared = read().map_err(|error| failure(&kernels, &error, &table.database))?;
        }
        let column = |own: &crate::plan::table::TableColumn| {
            let ours = storage::declared_column(own.ty, own.collation);
            let ty = declared.get(&own.name).unwrap_or(&ours);
            let name = quote(&own.name);
            let collate = match ty.starts_with("tsql") {
                true => clause(own.ty, own.collation),
                false => String::new(),
            };
            if ty.is_empty() { name } else { format!("{name} {}{collate}", quote(ty)) }
        };
        let columns: Vec<String> = table.columns.iter().map(column).collect();
        Ok(columns.join(", "))
    }

    /// Ends the copying of rows.
    pub(super) fn unwatch(&mut self, watch: &Watch) -> Result<()> {
        let level = self.trigger_level();
        for at in 0..watch.firings.len() {
            let sql = format!("DROP TRIGGER temp.{}", watcher((level, at)));
            self.watch_sql(&sql, "tempdb")?;
        }
        Ok(())
    }

    /// From now on a ROLLBACK does not keep the rows.
    pub(super) fn forget_logical(&mut self, watch: &Watch) {
        let made = |known: &Temporary| {
            watch.firings.iter().any(|firing| {
                known.stored == firing.inserted.name || known.stored == firing.deleted.name
            })
        };
        self.s.db.temporaries.retain(|known| !made(known));
    }

    /// Drops the tables, which are empty or gone where their statement was undone.
    pub(super) fn drop_logical(&mut self, watch: &Watch) -> Result<()> {
        for firing in &watch.firings {
            for logical in [&firing.inserted, &firing.deleted] {
                self.watch_sql(&format!("DROP TABLE IF EXISTS {}", logical.sql()), "tempdb")?;
            }
        }
        Ok(())
    }

    /// Returns true if rows of a table have changed.
    pub(super) fn has_rows(&mut self, firing: &Firing) -> Result<bool> {
        let kernels = self.s.db.kernels.clone();
        let (inserted, deleted) = (firing.inserted.sql(), firing.deleted.sql());
        let sql =
            format!("SELECT EXISTS (SELECT 1 FROM {inserted}) OR EXISTS (SELECT 1 FROM {deleted})");
        let connection = self.s.db.connection()?;
        connection
            .query_row(&sql, [], |row| row.get(0))
            .map_err(|error| failure(&kernels, &error, "tempdb"))
    }

    fn watch_sql(&mut self, sql: &str, database: &str) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        let result = self.s.db.connection()?.execute_batch(sql);
        result.map_err(|error| failure(&kernels, &error, database))
    }
}
