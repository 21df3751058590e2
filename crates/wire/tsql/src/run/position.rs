//! Where a session is.

use tdekit_wire_tds::Message;

use crate::error::Error;

/// The database to which a session returns, and the line of the running statement.
#[derive(Debug)]
pub(crate) struct Position {
    home: String,
    line: u32,
}

impl Position {
    /// A session that was opened in this database.
    pub(super) fn new(home: &str) -> Position {
        Position { home: home.to_owned(), line: 1 }
    }

    /// Returns the database in which the session was opened.
    pub(super) fn home(&self) -> &str {
        &self.home
    }

    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Called before a statement runs.
    pub(super) fn enter(&mut self, line: u32) {
        self.line = line;
    }

    /// Returns an error of the running statement as a message; `procedure` is empty in a batch.
    pub(super) fn message(&self, error: &Error, procedure: &str) -> Message {
        error.message(self.line, procedure)
    }
}
