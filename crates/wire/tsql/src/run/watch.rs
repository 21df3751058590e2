//! The rows that a statement changes, for its triggers.
//!
//! While the statement runs, temporary triggers of SQLite copy each row before and after its change
//! into the tables that T-SQL's triggers see as `inserted` and `deleted`. So every way to change a
//! row is noticed, cascades of foreign keys too. All of it is made within the statement's own
//! transaction or savepoint, and goes with it when it is undone.

use std::collections::HashMap;
use std::sync::Arc;

use super::db::{Db, Temporary, failure};
use super::firing::{Firing, Watch, logical};
use crate::ast::trigger::Event;
use crate::error::Result;
use crate::name::quote;
use crate::plan::trigger::{Changed, Trigger};
use crate::run::catalog::{Table, TableKind};
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

impl Watch {
    /// Begins to copy the rows that a statement changes for AFTER triggers; None if a table has
    /// none. `nest` is the level of the scope that runs the statement.
    pub(super) fn begin(
        db: &mut Db,
        nest: u32,
        table: &Table,
        events: &[(Event, Changed)],
    ) -> Result<Option<Watch>> {
        let mut wanted = firings(db, table, events)?;
        if wanted.is_empty() {
            return Ok(None);
        }
        // those that cascades reach fire first, the furthest before the nearest
        wanted.reverse();
        let level = db.fired.depth();
        let mut firings = Vec::new();
        for (at, (event, table, triggers, changed, direct)) in wanted.into_iter().enumerate() {
            let inserted = logical(&table, "inserted", (level, at));
            let deleted = logical(&table, "deleted", (level, at));
            firings.push(Firing { event, table, triggers, inserted, deleted, changed, direct });
        }
        let watch = Watch { firings };
        if let Err(error) = watch.copy(db, nest) {
            watch.forget(db);
            return Err(error);
        }
        Ok(Some(watch))
    }

    fn copy(&self, db: &mut Db, nest: u32) -> Result<()> {
        let level = db.fired.depth();
        for (at, firing) in self.firings.iter().enumerate() {
            firing.make_tables(db, nest)?;
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
            db.execute(&sql, &table.database)?;
        }
        Ok(())
    }

    /// Ends the copying of rows.
    pub(super) fn end(&self, db: &mut Db) -> Result<()> {
        let level = db.fired.depth();
        for at in 0..self.firings.len() {
            let sql = format!("DROP TRIGGER temp.{}", watcher((level, at)));
            db.execute(&sql, "tempdb")?;
        }
        Ok(())
    }

    /// From now on a ROLLBACK does not keep the rows.
    pub(super) fn forget(&self, db: &mut Db) {
        let made = |known: &Temporary| {
            self.firings.iter().any(|firing| {
                known.stored == firing.inserted.name || known.stored == firing.deleted.name
            })
        };
        db.temporaries.retain(|known| !made(known));
    }

    /// Drops the tables, which are empty or gone where their statement was undone.
    pub(super) fn drop_tables(&self, db: &mut Db) -> Result<()> {
        for firing in &self.firings {
            for logical in [&firing.inserted, &firing.deleted] {
                db.execute(&format!("DROP TABLE IF EXISTS {}", logical.sql()), "tempdb")?;
            }
        }
        Ok(())
    }
}

impl Firing {
    /// Makes its tables, which are like table variables of the scope that runs the statement.
    pub(super) fn make_tables(&self, db: &mut Db, nest: u32) -> Result<()> {
        let columns = logical_columns(db, &self.table)?;
        for logical in [&self.inserted, &self.deleted] {
            let sql = logical.sql();
            db.execute(
                &format!("DROP TABLE IF EXISTS {sql}; CREATE TABLE {sql} ({columns})"),
                "tempdb",
            )?;
            let (name, stored) = (logical.name.to_lowercase(), logical.name.clone());
            let made = Temporary { name, stored, level: nest, lent: false };
            db.temporaries.push(made);
        }
        Ok(())
    }

    /// Returns true if rows of a table have changed.
    pub(super) fn has_rows(&self, db: &mut Db) -> Result<bool> {
        let kernels = db.kernels.clone();
        let (inserted, deleted) = (self.inserted.sql(), self.deleted.sql());
        let sql =
            format!("SELECT EXISTS (SELECT 1 FROM {inserted}) OR EXISTS (SELECT 1 FROM {deleted})");
        let connection = db.connection()?;
        connection
            .query_row(&sql, [], |row| row.get(0))
            .map_err(|error| failure(&kernels, &error, "tempdb"))
    }
}

#[allow(clippy::type_complexity)]
fn firings(
    db: &mut Db,
    table: &Table,
    events: &[(Event, Changed)],
) -> Result<Vec<(Event, Arc<Table>, Vec<Arc<Trigger>>, Changed, bool)>> {
    let known = db.triggers_of(table)?;
    let mut wanted = Vec::new();
    if known.own.is_empty() && known.reached.is_empty() {
        return Ok(wanted);
    }
    let fires = |db: &Db, table: &Table, all: &[Arc<Trigger>], event: Event| {
        let fires = |trigger: &&Arc<Trigger>| {
            !trigger.instead && trigger.events.has(event) && !db.fired.is_running(table, trigger)
        };
        all.iter().filter(fires).cloned().collect::<Vec<_>>()
    };
    for (event, changed) in events.iter().rev() {
        let triggers = fires(db, table, &known.own, *event);
        if !triggers.is_empty() {
            wanted.push((*event, Arc::new(table.clone()), triggers, changed.clone(), true));
        }
    }
    if events.iter().all(|(event, _)| *event == Event::Insert) {
        return Ok(wanted);
    }
    for (reached, all) in &known.reached {
        let found = db.stored(&table.schema, &table.database, &reached.table)?;
        let Some(child) = found else { continue };
        for event in [Event::Update, Event::Delete] {
            let twice = |(known, of, ..): &(Event, Arc<Table>, _, _, _)| {
                *known == event && of.name.eq_ignore_ascii_case(&child.name)
            };
            let triggers = fires(db, &child, all, event);
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

/// The columns of a table as SQLite's text, without what rows would have to fulfil.
fn logical_columns(db: &mut Db, table: &Table) -> Result<String> {
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
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
