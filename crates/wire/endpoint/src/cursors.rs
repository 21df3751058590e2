//! Server cursors as drivers open them (`sp_cursoropen` and related procedures): static and
//! read-only; the connection keeps their rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tdekit_wire_tds::messages::SessionError;
use tdekit_wire_tds::rpc::KnownProcedure;
use tdekit_wire_tds::{
    Collation, Column, Command, DoneKind, EnvChange, Flow, Generated, Message, Parameter, Sink,
    SqlType, Value,
};

use crate::answer::Answer;
use crate::connection::Connection;
use crate::prepared::Statement;
use crate::procedures::{
    int_at, name_at, not_supported, optional_text_at, ordinal, statement_at, stops, text_at,
    too_many,
};

/// Maximum size of the rows of a connection's cursors, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Size of a value in addition to its text.
const VALUE_BYTES: usize = std::mem::size_of::<Value<'static>>();
const FIRST_HANDLE: i32 = 180_150_003;

/// The server's interpretation of the options that the client requested.
const STATIC: i32 = 8;
const READ_ONLY: i32 = 1;
/// Bits of the requested options.
const PARAMETERIZED: i64 = 0x1000;
const AUTO_FETCH: i64 = 0x2000;
const AUTO_CLOSE: i64 = 0x4000;

/// Kinds of fetches.
mod fetch {
    pub(super) const FIRST: i64 = 0x01;
    pub(super) const NEXT: i64 = 0x02;
    pub(super) const PREVIOUS: i64 = 0x04;
    pub(super) const LAST: i64 = 0x08;
    pub(super) const ABSOLUTE: i64 = 0x10;
    pub(super) const RELATIVE: i64 = 0x20;
    pub(super) const REFRESH: i64 = 0x80;
    pub(super) const INFO: i64 = 0x100;
    pub(super) const PREVIOUS_UNADJUSTED: i64 = 0x200;
    pub(super) const KINDS: i64 = 0x3FF;
}

/// The open cursors of a connection.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    open: HashMap<i32, Cursor>,
    bytes: usize,
    opened: i32,
}

#[derive(Debug, Default)]
struct Cursor {
    columns: Vec<Column>,
    rows: Vec<Vec<Value<'static>>>,
    bytes: usize,
    /// The first row of the last fetch, from 1; 0 before the first row.
    at: i64,
    /// Number of rows of the last fetch.
    fetched: i64,
}

impl Cursors {
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.bytes = 0;
    }

    fn add(&mut self, cursor: Cursor) -> i32 {
        self.opened = self.opened.wrapping_add(2) & 0x00FF_FFFF;
        let handle = FIRST_HANDLE + self.opened;
        self.bytes += cursor.bytes;
        self.open.insert(handle, cursor);
        handle
    }

    fn close(&mut self, handle: i32) -> Result<(), Message> {
        let cursor = self.open.remove(&handle).ok_or_else(|| no_cursor(handle))?;
        self.bytes -= cursor.bytes;
        Ok(())
    }
}

impl Cursor {
    fn count(&self) -> i64 {
        i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }

    /// Moves, and returns the fetched rows: the first, from 1, and their number.
    fn go(&mut self, kind: i64, row: i64, wanted: i64) -> Result<(), Message> {
        let count = self.count();
        let mut wanted = wanted.max(0);
        let at = match kind & fetch::KINDS {
            fetch::FIRST => 1,
            fetch::NEXT if self.at == 0 => 1,
            fetch::NEXT => self.at + self.fetched.max(i64::from(self.at <= count)),
            fetch::PREVIOUS => match self.at - wanted {
                before if before < 1 && self.at > 1 => 1,
                before => before,
            },
            fetch::PREVIOUS_UNADJUSTED => {
                // No row is returned twice: near the first, only the rows before it.
                wanted = wanted.min(self.at - 1).max(0);
                if wanted == 0 { 0 } else { self.at - wanted }
            }
            fetch::LAST => (count - wanted + 1).max(1),
            fetch::ABSOLUTE if row < 0 => count + 1 + row,
            fetch::ABSOLUTE => row,
            fetch::RELATIVE => self.at + row,
            fetch::REFRESH => self.at,
            _ => return Err(SessionError::FetchType {}.message()),
        };
        if at < 1 {
            (self.at, self.fetched) = (0, 0);
        } else {
            self.at = at.min(count + 1);
            self.fetched = wanted.min(count + 1 - self.at).max(0);
        }
        Ok(())
    }

    fn put_columns(&self, answer: &mut Answer) -> Flow {
        let status = Column {
            name: "ROWSTAT".to_owned(),
            ty: SqlType::Int,
            nullable: false,
            generated: Generated::No,
            collation: Collation::default(),
        };
        let columns: Vec<_> = self.columns.iter().cloned().chain([status]).collect();
        answer.columns(&columns)
    }

    /// Sends the rows of the last fetch, each with the status that it exists.
    fn put_rows(&self, answer: &mut Answer) {
        if stops(self.put_columns(answer)) {
            return;
        }
        let skip = usize::try_from(self.at - 1).unwrap_or(usize::MAX);
        let take = usize::try_from(self.fetched).unwrap_or_default();
        let mut sent = 0;
        for row in self.rows.iter().skip(skip).take(take) {
            let row: Vec<_> = row.iter().cloned().chain([Value::Int(1)]).collect();
            if stops(answer.row(&row)) {
                return;
            }
            sent += 1;
        }
        let _flow = answer.done(DoneKind::InProcedure, Command::SELECT, Some(sent));
    }
}

/// Positions of the parameters of the opening procedures.
struct OpenForm {
    procedure: &'static str,
    cursor: usize,
    scroll: usize,
    concurrency: usize,
    rows: usize,
    first: usize,
}

const OPEN: OpenForm = OpenForm {
    procedure: "sp_cursoropen",
    cursor: 0,
    scroll: 2,
    concurrency: 3,
    rows: 4,
    first: 6,
};
const EXECUTE: OpenForm = OpenForm {
    procedure: "sp_cursorexecute",
    cursor: 1,
    scroll: 2,
    concurrency: 3,
    rows: 4,
    first: 5,
};
const PREPARE_EXECUTE: OpenForm = OpenForm {
    procedure: "sp_cursorprepexec",
    cursor: 1,
    scroll: 4,
    concurrency: 5,
    rows: 6,
    first: 7,
};

impl Connection {
    pub(crate) fn cursor_call(
        &mut self,
        known: KnownProcedure,
        parameters: &[Parameter],
        answer: &mut Answer,
    ) -> Result<(), Message> {
        match known {
            KnownProcedure::CursorOpen => {
                let text = text_at(parameters, 1, OPEN.procedure, "@stmt")?;
                let parameterized = number_at(parameters, OPEN.scroll) & PARAMETERIZED != 0;
                let declarations = match parameterized {
                    true => optional_text_at(parameters, 5, OPEN.procedure, "@paramdef")?,
                    false => "",
                };
                let statement = Statement {
                    text: Arc::from(text),
                    declarations: Arc::from(declarations),
                    is_call: false,
                };
                self.open_cursor(&OPEN, &statement, parameters, answer)
            }
            KnownProcedure::CursorExecute => {
                let handle = int_at(parameters, 0, EXECUTE.procedure, "@prepared_handle")?;
                let statement = self.prepared.find(handle).ok_or_else(|| no_cursor(handle))?;
                self.open_cursor(&EXECUTE, &statement, parameters, answer)
            }
            KnownProcedure::CursorPrepare | KnownProcedure::CursorPrepExec => {
                let prepare_only = known == KnownProcedure::CursorPrepare;
                // After the handle of the statement, and that of the cursor.
                let at = if prepare_only { 1 } else { 2 };
                let statement = statement_at(parameters, at, known.name())?;
                let handle = self.prepared.add(statement.clone()).ok_or_else(too_many)?;
                answer.give_back(0, name_at(parameters, 0), handle);
                if prepare_only {
                    return Ok(());
                }
                self.open_cursor(&PREPARE_EXECUTE, &statement, parameters, answer)
            }
            KnownProcedure::CursorUnprepare => {
                let handle = int_at(parameters, 0, known.name(), "@handle")?;
                match self.prepared.remove(handle) {
                    true => Ok(()),
                    false => Err(no_cursor(handle)),
                }
            }
            KnownProcedure::CursorFetch => self.fetch(parameters, answer),
            KnownProcedure::CursorClose => {
                self.cursors.close(int_at(parameters, 0, known.name(), "@cursor")?)
            }
            // Names and texts of cursors, which nothing here uses.
            KnownProcedure::CursorOption => Ok(()),
            KnownProcedure::Cursor => Err(SessionError::ReadOnlyCursor {}.message()),
            _ => Err(not_supported(known)),
        }
    }

    fn open_cursor(
        &mut self,
        form: &OpenForm,
        statement: &Statement,
        parameters: &[Parameter],
        answer: &mut Answer,
    ) -> Result<(), Message> {
        let asked = number_at(parameters, form.scroll);
        let wanted = number_at(parameters, form.rows);
        let room = MAX_BYTES.saturating_sub(self.cursors.bytes);
        let rest = parameters.get(form.first..).unwrap_or_default();
        let mut rows = Collected { answer, cursor: Cursor::default(), room, failed: None };
        self.run(statement, rest, &mut rows);
        let Collected { cursor, failed, .. } = rows;
        if let Some(message) = failed {
            return Err(message);
        }
        // The client would not learn of the cursor.
        if answer.any_failed() || answer.cancelled() {
            return Ok(());
        }
        let mut cursor = cursor;
        let is_result = !cursor.columns.is_empty();
        let count = i32::try_from(cursor.count()).unwrap_or(i32::MAX);
        let mut whole = false;
        if is_result && asked & AUTO_FETCH != 0 {
            cursor.go(fetch::NEXT, 0, wanted.max(1))?;
            whole = cursor.at + cursor.fetched > cursor.count();
            cursor.put_rows(answer);
        } else if is_result && !stops(cursor.put_columns(answer)) {
            let _flow = answer.done(DoneKind::InProcedure, Command::SELECT, Some(0));
        }
        let closed = !is_result || (whole && asked & AUTO_CLOSE != 0) || answer.cancelled();
        let handle = if closed { 0 } else { self.cursors.add(cursor) };
        let given = [
            (form.cursor, handle),
            (form.scroll, STATIC),
            (form.concurrency, READ_ONLY),
            (form.rows, count),
        ];
        for (at, value) in given {
            if parameters.get(at).is_some_and(|parameter| parameter.output) {
                answer.give_back(ordinal(at), name_at(parameters, at), value);
            }
        }
        Ok(())
    }

    fn fetch(&mut self, parameters: &[Parameter], answer: &mut Answer) -> Result<(), Message> {
        let handle = int_at(parameters, 0, "sp_cursorfetch", "@cursor")?;
        let cursor = self.cursors.open.get_mut(&handle).ok_or_else(|| no_cursor(handle))?;
        let kind = match number_at(parameters, 1) {
            0 => fetch::NEXT,
            kind => kind,
        };
        if kind & fetch::INFO != 0 {
            for (at, value) in [(2, cursor.at), (3, cursor.count())] {
                if parameters.get(at).is_some_and(|parameter| parameter.output) {
                    let value = i32::try_from(value).unwrap_or(i32::MAX);
                    answer.give_back(ordinal(at), name_at(parameters, at), value);
                }
            }
            return Ok(());
        }
        let wanted = match parameters.len() {
            0..=3 => 1,
            _ => number_at(parameters, 3),
        };
        cursor.go(kind, number_at(parameters, 2), wanted)?;
        cursor.put_rows(answer);
        Ok(())
    }
}

fn number_at(parameters: &[Parameter], at: usize) -> i64 {
    match parameters.get(at).map(|parameter| &parameter.value) {
        Some(Value::Int(int)) => *int,
        _ => 0,
    }
}

fn no_cursor(handle: i32) -> Message {
    SessionError::NoCursor { handle }.message()
}

/// Collects the rows of a cursor; messages go to the client.
struct Collected<'a> {
    answer: &'a mut Answer,
    cursor: Cursor,
    room: usize,
    failed: Option<Message>,
}

impl Sink for Collected<'_> {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        if !self.cursor.columns.is_empty() {
            self.failed = Some(SessionError::SeveralResults {}.message());
            return Flow::Stop;
        }
        self.cursor.columns = columns.to_vec();
        Flow::Continue
    }

    fn row(&mut self, values: &[Value<'_>]) -> Flow {
        let long = |value: &Value<'_>| match value {
            Value::Text(text) => text.len(),
            Value::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        let bytes: usize = values.iter().map(|value| VALUE_BYTES + long(value)).sum();
        self.cursor.bytes += bytes;
        if self.cursor.bytes > self.room {
            self.failed = Some(SessionError::CursorTooLarge {}.message());
            return Flow::Stop;
        }
        self.cursor.rows.push(values.iter().map(|value| value.clone().into_owned()).collect());
        if self.answer.cancelled() { Flow::Stop } else { Flow::Continue }
    }

    fn done(&mut self, _: DoneKind, _: Command, _: Option<u64>) -> Flow {
        if self.failed.is_some() { Flow::Stop } else { Flow::Continue }
    }

    fn message(&mut self, message: &Message) -> Flow {
        self.answer.message(message)
    }

    fn return_status(&mut self, _: i32) {}

    fn return_value(&mut self, _: u16, _: &str, _: SqlType, _: &Value<'_>) {}

    fn env_change(&mut self, change: EnvChange<'_>) {
        self.answer.env_change(change);
    }

    fn flush(&mut self) {}

    fn cancelled(&self) -> bool {
        self.answer.cancelled()
    }

    fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.answer.cancel_flag()
    }

    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        self.answer.waiting(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(rows: i64) -> Cursor {
        let rows = (1..=rows).map(|row| vec![Value::Int(row)]).collect();
        Cursor { rows, ..Cursor::default() }
    }

    fn went(cursor: &mut Cursor, kind: i64, row: i64, wanted: i64) -> (i64, i64) {
        cursor.go(kind, row, wanted).unwrap();
        (cursor.at, cursor.fetched)
    }

    #[test]
    fn a_cursor_goes_to_and_fro() {
        let mut cursor = cursor(10);
        assert_eq!(went(&mut cursor, fetch::NEXT, 0, 4), (1, 4));
        assert_eq!(went(&mut cursor, fetch::NEXT, 0, 4), (5, 4));
        assert_eq!(went(&mut cursor, fetch::NEXT, 0, 4), (9, 2));
        assert_eq!(went(&mut cursor, fetch::NEXT, 0, 4), (11, 0));
        assert_eq!(went(&mut cursor, fetch::NEXT, 0, 4), (11, 0));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS, 0, 4), (7, 4));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS, 0, 4), (3, 4));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS, 0, 4), (1, 4));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS, 0, 4), (0, 0));
        assert_eq!(went(&mut cursor, fetch::LAST, 0, 3), (8, 3));
        assert_eq!(went(&mut cursor, fetch::FIRST, 0, 3), (1, 3));
        assert_eq!(went(&mut cursor, fetch::ABSOLUTE, 5, 1), (5, 1));
        assert_eq!(went(&mut cursor, fetch::ABSOLUTE, -2, 5), (9, 2));
        assert_eq!(went(&mut cursor, fetch::RELATIVE, -3, 1), (6, 1));
        assert_eq!(went(&mut cursor, fetch::REFRESH, 0, 1), (6, 1));
        assert_eq!(went(&mut cursor, fetch::ABSOLUTE, 99, 1), (11, 0));
        assert!(cursor.go(0x40, 0, 1).is_err());
    }

    #[test]
    fn the_rows_before_are_no_others_near_the_first() {
        let mut cursor = cursor(10);
        assert_eq!(went(&mut cursor, fetch::ABSOLUTE, 8, 4), (8, 3));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS_UNADJUSTED, 0, 4), (4, 4));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS_UNADJUSTED, 0, 4), (1, 3));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS_UNADJUSTED, 0, 4), (0, 0));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS_UNADJUSTED, 0, 4), (0, 0));
        assert_eq!(went(&mut cursor, fetch::NEXT, 0, 4), (1, 4));
        assert_eq!(went(&mut cursor, fetch::PREVIOUS_UNADJUSTED, 0, 4), (0, 0));
    }

    #[test]
    fn an_empty_cursor_has_no_rows() {
        let mut cursor = cursor(0);
        for kind in [fetch::NEXT, fetch::FIRST, fetch::LAST, fetch::REFRESH, fetch::NEXT] {
            assert_eq!(went(&mut cursor, kind, 0, 4).1, 0, "{kind}");
        }
    }
}
