//! The cursors of a session, and the rows of those that are open.

use std::sync::Arc;

use rusqlite::Connection;
use tdekit_wire_tds::Column;
use tdekit_wire_tds::messages::CursorError;

use super::compile::Lazy;
use super::state::Frame;
use crate::ast::cursor::{CursorName, FetchPlace};
use crate::error::{Error, Result};
use crate::value::{Val, storage};

/// The cursors of a session.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    pub(super) known: Vec<Cursor>,
    /// `@@FETCH_STATUS`.
    pub(crate) fetch_status: i32,
    /// `@@CURSOR_ROWS`: of the cursor opened last, while it is open.
    pub(crate) last_rows: i64,
    /// The number of the cursor opened last, and of the last one declared.
    pub(super) last: u64,
    pub(super) declared: u64,
}

#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) number: u64,
    /// In lower case.
    pub(super) name: String,
    /// The level of the batch or procedure that a local cursor ends with.
    pub(super) level: Option<u32>,
    pub(super) scroll: bool,
    pub(super) query: Arc<Lazy>,
    /// The state at its declaration: variables, database, and whose objects it reaches.
    pub(super) frame: Arc<Frame>,
    pub(super) database: String,
    pub(super) chain: Option<String>,
    pub(super) rows: Option<Held>,
}

/// The rows of an open cursor.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) open: Connection,
    pub(super) columns: Vec<Column>,
    pub(super) count: i64,
    /// The current row: 0 before the first one, one more than `count` behind the last one.
    pub(super) at: i64,
}

impl Cursors {
    fn position(&self, name: &CursorName, level: u32) -> Option<usize> {
        let key = name.name.to_lowercase();
        let at = |level: Option<u32>| {
            self.known.iter().position(|cursor| cursor.name == key && cursor.level == level)
        };
        if name.global { at(None) } else { at(Some(level)).or_else(|| at(None)) }
    }

    pub(super) fn find(&mut self, name: &CursorName, level: u32) -> Result<&mut Cursor> {
        let missing = || -> Error {
            let shown = name.name.clone();
            match name.is_variable() {
                true => CursorError::Unallocated { name: shown }.into(),
                false => CursorError::Missing { name: shown }.into(),
            }
        };
        let at = self.position(name, level);
        at.and_then(|at| self.known.get_mut(at)).ok_or_else(missing)
    }

    /// Ends the local cursors of a level and of those within.
    pub(crate) fn end(&mut self, level: u32) {
        self.known.retain(|cursor| cursor.level.is_none_or(|own| own < level));
        self.count_last();
    }

    /// The last cursor counts in `@@CURSOR_ROWS` while it is open.
    pub(super) fn count_last(&mut self) {
        let last = self.known.iter().find(|cursor| cursor.number == self.last);
        let rows = last.and_then(|cursor| cursor.rows.as_ref());
        self.last_rows = rows.map_or(0, |rows| rows.count);
    }

    /// Returns the value of `CURSOR_STATUS`; None for an unknown kind.
    pub(crate) fn status(&self, kind: &str, name: &str, level: u32) -> Option<i32> {
        let variable = kind.eq_ignore_ascii_case("variable");
        let level = match kind.to_ascii_lowercase().as_str() {
            "global" => None,
            "local" | "variable" => Some(level),
            _ => return None,
        };
        let key = name.to_lowercase();
        let fits = |cursor: &&Cursor| {
            cursor.name == key && cursor.level == level && key.starts_with('@') == variable
        };
        Some(match self.known.iter().find(fits) {
            None if variable => -2,
            None => -3,
            Some(cursor) => match &cursor.rows {
                None => -1,
                Some(rows) => i32::from(rows.count > 0),
            },
        })
    }
}

impl Held {
    /// Goes to another row, and returns true if there is one.
    pub(super) fn go(&mut self, place: &FetchPlace<i64>) -> bool {
        self.at = place.from(self.at, self.count);
        (1..=self.count).contains(&self.at)
    }

    pub(super) fn row(&self) -> Result<Vec<Val>> {
        let internal = |error: rusqlite::Error| Error::Internal { detail: error.to_string() };
        let mut statement = self.open.prepare_cached(ROW).map_err(internal)?;
        let mut rows = statement.query([self.at]).map_err(internal)?;
        let Some(row) = rows.next().map_err(internal)? else {
            return Err(Error::Internal { detail: "a row of a cursor is not there".to_owned() });
        };
        let mut values = Vec::with_capacity(self.columns.len());
        for (at, column) in self.columns.iter().enumerate() {
            let stored = row.get_ref(at).map_err(internal)?;
            values.push(storage::load_owned(stored, column.ty, &column.name)?);
        }
        Ok(values)
    }
}

/// A row by its number.
const ROW: &str = "SELECT * FROM held WHERE rowid = ?1";
