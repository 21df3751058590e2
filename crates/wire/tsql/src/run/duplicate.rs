//! Errors 2601 and 2627. SQLite names the columns of a key that a row would have twice, and not its
//! values: the change runs once more, with a trigger that notes the key of each row.

use rusqlite::types::Value as Stored;
use rusqlite::types::ValueRef;
use tdekit_wire_tds::Command;

use super::ddl::{KeyKind, index_columns, is_constraint, shown_key, shown_name, unique_index};
use crate::error::{Error, Result, Rule};
use crate::name::quote;
use crate::plan::table::TableColumn;
use crate::run::catalog::Table;
use crate::run::db::failure;
use crate::run::work::Run;

/// Runs a refused change once more.
pub(super) type Again<'a> = dyn FnMut(&mut Run<'_>) -> Result<()> + 'a;

impl Run<'_> {
    /// Changes a row by a text of its own.
    pub(super) fn write_row(
        &mut self,
        table: &Table,
        text: &str,
        params: &[Stored],
        command: Command,
    ) -> Result<()> {
        #[cfg(debug_assertions)]
        super::trace::Trace::note(text);
        self.put(table, text, params).map_err(|error| {
            self.constraint(error, table, command, &mut |run| {
                let kernels = &run.s.db.kernels;
                if let Some(last) = kernels.last_identity() {
                    kernels.begin_identity(last, 1);
                }
                run.put(table, text, params)
            })
        })
    }

    fn put(&mut self, table: &Table, text: &str, params: &[Stored]) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        kernels.take_failure();
        let connection = self.s.db.connection()?;
        let result = connection
            .prepare_cached(text)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(params)));
        result.map(|_| ()).map_err(|error| failure(&kernels, &error, &table.database))
    }

    /// Returns the error for a duplicate key, of which SQLite names the columns, or the index if
    /// that has expressions for columns.
    pub(super) fn duplicate(&mut self, place: &str, table: &Table, again: &mut Again<'_>) -> Error {
        match self.duplicate_key(place, table, again) {
            Ok(error) | Err(error) => error,
        }
    }

    fn duplicate_key(
        &mut self,
        place: &str,
        table: &Table,
        again: &mut Again<'_>,
    ) -> Result<Error> {
        let kernels = self.s.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let connection = self.s.db.connection()?;
        let (kind, name, columns) = match place.strip_prefix("index '") {
            Some(index) => {
                let name = shown_name(table, index.trim_end_matches('\'')).to_owned();
                let constraint = is_constraint(connection, table, &name);
                let kind = if constraint { KeyKind::Unique } else { KeyKind::Index };
                let columns = index_columns(connection, table, index.trim_end_matches('\''));
                (kind, name, columns.map_err(fail)?)
            }
            None => {
                let column = |place: &str| place.rsplit('.').next().unwrap_or(place).to_owned();
                let columns: Vec<String> = place.split(", ").map(column).collect();
                let names: Vec<&str> = columns.iter().map(String::as_str).collect();
                let found = unique_index(connection, table, &names).map_err(fail)?;
                let (name, kind) = found.unwrap_or((columns.join("_"), KeyKind::Primary));
                (kind, name, columns)
            }
        };
        let key = match self.refused_key(place, table, &columns, again)? {
            Some(key) => format!(" The duplicate key value is {key}."),
            None => String::new(),
        };
        let table = table.object_name();
        let kind = match kind {
            KeyKind::Index => return Ok(Error::DuplicateIndexKey { name, table, key }),
            KeyKind::Primary => "PRIMARY KEY".to_owned(),
            KeyKind::Unique => "UNIQUE KEY".to_owned(),
        };
        Ok(Error::DuplicateKey { kind, name, table, key })
    }

    /// Returns the key of the refused row as shown in messages; None if the change is not refused
    /// in the same place again, or that is in another table, which a cascade has reached.
    fn refused_key(
        &mut self,
        place: &str,
        table: &Table,
        columns: &[String],
        again: &mut Again<'_>,
    ) -> Result<Option<String>> {
        let found = columns.iter().map(|name| table.columns.iter().find(|own| own.name == *name));
        let Some(key) = found.collect::<Option<Vec<&TableColumn>>>() else { return Ok(None) };
        let own = place.starts_with("index '") || place.starts_with(&format!("{}.", table.name));
        if key.is_empty() || !own {
            return Ok(None);
        }
        let values: Vec<String> =
            key.iter().map(|own| format!("NEW.{}", quote(&own.name))).collect();
        let (on, values) = (table.sql(), values.join(", "));
        let trigger = |event: &str| {
            format!(
                "CREATE TEMP TRIGGER \"~key:{event}\" BEFORE {event} ON {on} BEGIN SELECT \
                 tsql_key({values}); END;"
            )
        };
        let kernels = self.s.db.kernels.clone();
        kernels.take_key();
        // with a trigger, SQLite reads all rows before it inserts the first
        let counters = kernels.counters();
        self.run_sql("SAVEPOINT \"~key\"")?;
        let made = self.run_sql(&(trigger("INSERT") + &trigger("UPDATE")));
        let result = made.and_then(|()| again(self));
        if self.in_sqlite() {
            self.run_sql("ROLLBACK TO \"~key\"; RELEASE \"~key\"")?;
        }
        kernels.set_counters(counters);
        let stored = kernels.take_key();
        let again = match &result {
            Err(Error::Violation { rule: Rule::Unique, place, .. }) => Some(place.as_str()),
            _ => None,
        };
        if again != Some(place) {
            return Ok(None);
        }
        let stored: Vec<ValueRef<'_>> = stored.iter().map(ValueRef::from).collect();
        shown_key(&key, &stored).map(Some)
    }
}
