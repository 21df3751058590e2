//! The triggers that a session knows of the tables that it changes, and those that are running.

use std::collections::HashMap;
use std::sync::Arc;

use tdekit_wire_tds::Value;
use tdekit_wire_tds::messages::TriggerError;

use crate::ast::Name;
use crate::error::{Error, Result};
use crate::plan::trigger::{Changed, Reached, Trigger};
use crate::run::catalog::Table;
use crate::run::catalog::model::object_id;
use crate::value::Val;

/// A trigger whose statements run.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) trigger: Arc<Trigger>,
    /// The table or view.
    pub(crate) table: Arc<Table>,
    pub(crate) inserted: Arc<Table>,
    pub(crate) deleted: Arc<Table>,
    pub(crate) changed: Changed,
    /// Distinguishes it from others, and from the same one at another depth: plans of its
    /// statements depend on that.
    pub(crate) key: Arc<str>,
}

/// The triggers of a table, as far as they are enabled.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Its own.
    pub(crate) own: Vec<Arc<Trigger>>,
    /// Tables with enabled AFTER triggers that cascading foreign keys reach from this one.
    pub(crate) reached: Vec<(Reached, Vec<Arc<Trigger>>)>,
}

/// The triggers of a session.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    /// By names in SQLite, of the database and the table.
    pub(super) known: HashMap<(String, String), Arc<Known>>,
    /// The innermost last.
    pub(crate) running: Vec<Running>,
    /// True while statements of the innermost one itself run, which see `inserted` and `deleted`.
    sees: bool,
    /// The next body to run is that of the innermost one.
    enters: bool,
}

impl Fired {
    /// Begins a trigger, whose body runs next.
    pub(super) fn enter(&mut self, running: Running) {
        self.running.push(running);
        self.enters = true;
    }

    /// Ends the innermost trigger.
    pub(super) fn leave(&mut self) {
        self.running.pop();
        self.enters = false;
    }

    /// Called before a body runs; returns what [`Fired::end_body`] takes.
    pub(super) fn begin_body(&mut self) -> bool {
        let sees = std::mem::take(&mut self.enters);
        std::mem::replace(&mut self.sees, sees)
    }

    pub(super) fn end_body(&mut self, outside: bool) {
        self.sees = outside;
    }

    /// Returns the depth of the triggers that the running statement fires, from 1.
    pub(super) fn depth(&self) -> usize {
        self.running.len() + 1
    }

    /// Clears what an earlier request has left.
    pub(super) fn reset(&mut self) {
        self.running.clear();
        (self.sees, self.enters) = (false, false);
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Identifies the innermost running trigger.
    pub(crate) fn key(&self) -> Option<Arc<str>> {
        self.running.last().map(|running| running.key.clone())
    }

    fn current(&self) -> Option<&Running> {
        self.running.last().filter(|_| self.sees)
    }

    /// Returns `inserted` or `deleted`.
    pub(crate) fn logical(&self, name: &Name) -> Option<Arc<Table>> {
        let running = self.current().filter(|_| name.0.len() == 1)?;
        let known = [("inserted", &running.inserted), ("deleted", &running.deleted)];
        let found = known.into_iter().find(|(word, _)| name.object().eq_ignore_ascii_case(word));
        found.map(|(_, table)| table.clone())
    }

    /// Returns true for the trigger whose statements run, also those of procedures that it calls.
    pub(crate) fn is_running(&self, table: &Table, trigger: &Trigger) -> bool {
        self.running.last().is_some_and(|running| {
            running.table.schema == table.schema
                && running.trigger.table.eq_ignore_ascii_case(&trigger.table)
                && running.trigger.name.eq_ignore_ascii_case(&trigger.name)
        })
    }

    /// The number of the running trigger, 0 outside of one.
    pub(crate) fn procedure_id(&self) -> i64 {
        self.current().map_or(0, |running| object_id(&running.trigger.stored()))
    }

    /// `TRIGGER_NESTLEVEL`, `UPDATE` and `COLUMNS_UPDATED`.
    pub(crate) fn call(&self, name: &str, args: &[Value<'_>]) -> Result<Val> {
        match name {
            "TRIGGER_NESTLEVEL" => self.level(args),
            "UPDATE" => {
                let running = self.current().ok_or(TriggerError::UpdateOutside {})?;
                let Some(Value::Text(column)) = args.first() else { return Ok(Value::Null) };
                let found = running.table.column(column);
                let found = found.ok_or_else(|| Error::InvalidColumn { name: column.to_string() });
                Ok(Value::Int(i64::from(running.changed.has(&found?.name))))
            }
            _ => Ok(self.current().map_or(Value::Null, |running| {
                let mut bytes = vec![0_u8; running.table.columns.len().div_ceil(8)];
                for (at, column) in running.table.columns.iter().enumerate() {
                    if running.changed.has(&column.name) {
                        bytes[at / 8] |= 1 << (at % 8);
                    }
                }
                Value::Binary(bytes.into())
            })),
        }
    }

    fn level(&self, args: &[Value<'_>]) -> Result<Val> {
        let word = |at: usize| match args.get(at) {
            Some(Value::Text(word)) => word.to_uppercase(),
            _ => String::new(),
        };
        let id = match args.first() {
            Some(Value::Int(id)) if *id != 0 => Some(*id),
            _ => None,
        };
        let (kind, category) = (word(1), word(2));
        if !matches!(kind.as_str(), "" | "AFTER" | "IOT") || !matches!(&*category, "" | "DML") {
            return Err(Error::feature("this kind of trigger in TRIGGER_NESTLEVEL"));
        }
        let counts = |running: &&Running| {
            id.is_none_or(|id| id == object_id(&running.trigger.stored()))
                && (kind.is_empty() || running.trigger.instead == (kind == "IOT"))
        };
        let count = self.running.iter().filter(counts).count();
        Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
    }
}
