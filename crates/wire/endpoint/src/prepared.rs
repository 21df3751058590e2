//! Prepared statements: a number stands for a text and its declarations.

use std::collections::HashMap;
use std::sync::Arc;

/// Maximum size of a connection's prepared statements, in bytes of text.
const MAX_BYTES: usize = 32 << 20;
/// Cost of a statement in addition to its text.
const ENTRY_BYTES: usize = 64;

/// A statement to run with parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) text: Arc<str>,
    pub(crate) declarations: Arc<str>,
    /// The text is the name of a procedure, which is called.
    pub(crate) is_call: bool,
}

impl Statement {
    fn bytes(&self) -> usize {
        self.text.len() + self.declarations.len() + ENTRY_BYTES
    }
}

/// The prepared statements of a connection.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    statements: HashMap<i32, Statement>,
    bytes: usize,
    last: i32,
}

impl Prepared {
    /// Adds a statement; returns `None` if too much is stored.
    pub(crate) fn add(&mut self, statement: Statement) -> Option<i32> {
        if self.bytes + statement.bytes() > MAX_BYTES || self.last == i32::MAX {
            return None;
        }
        self.last += 1;
        self.bytes += statement.bytes();
        self.statements.insert(self.last, statement);
        Some(self.last)
    }

    pub(crate) fn find(&self, handle: i32) -> Option<Statement> {
        self.statements.get(&handle).cloned()
    }

    /// Removes a statement; returns true if it existed.
    pub(crate) fn remove(&mut self, handle: i32) -> bool {
        match self.statements.remove(&handle) {
            Some(statement) => {
                self.bytes -= statement.bytes();
                true
            }
            None => false,
        }
    }

    /// Removes all. Numbers are not reused: a client that missed the reset gets an error.
    pub(crate) fn clear(&mut self) {
        self.statements.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_not_used_again_and_memory_is_bounded() {
        let statement = |bytes: usize| Statement {
            text: "x".repeat(bytes).into(),
            declarations: "".into(),
            is_call: false,
        };
        let mut prepared = Prepared::default();
        assert_eq!(prepared.add(statement(10)), Some(1));
        assert!(prepared.remove(1) && !prepared.remove(1));
        assert_eq!(prepared.add(statement(MAX_BYTES)), None);
        assert_eq!(prepared.add(statement(10)), Some(2));
        prepared.clear();
        assert_eq!((prepared.find(2), prepared.bytes), (None, 0));
        assert_eq!(prepared.add(statement(10)), Some(3));
    }
}
