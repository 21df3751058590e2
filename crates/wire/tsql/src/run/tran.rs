//! State of a session's transaction.

use std::sync::atomic::{AtomicU64, Ordering};

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The open transaction, if any. `depth` is the value of `@@TRANCOUNT`, 1 or more. A doomed one can
/// only be rolled back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// Each statement is a transaction by itself.
    #[default]
    None,
    /// The transaction of INSERT .. EXEC itself, or of a statement with its triggers, and of BEGINs
    /// within: no client is notified.
    Hidden { depth: i32, doomed: bool },
    /// The client's, by the number and the name of its outermost BEGIN; the name is in lower case.
    Client { number: u64, name: String, depth: i32, doomed: bool },
}

/// The transaction or savepoint that a statement began for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// A transaction: it ends with the statement.
    Transaction,
    /// A savepoint in the client's transaction.
    Savepoint,
}

impl Transaction {
    /// Returns a client's transaction with a new number.
    fn client(name: &str, depth: i32) -> (Transaction, u64) {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = name.to_lowercase();
        (Transaction::Client { number, name, depth, doomed: false }, number)
    }

    pub(crate) fn depth(&self) -> i32 {
        match self {
            Transaction::None => 0,
            Transaction::Hidden { depth, .. } | Transaction::Client { depth, .. } => *depth,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        *self != Transaction::None
    }

    /// Returns true if the client has one open: that of INSERT .. EXEC counts once its procedure
    /// has begun another.
    pub(crate) fn is_open_outside(&self) -> bool {
        match self {
            Transaction::None => false,
            Transaction::Hidden { depth, .. } => *depth > 1,
            Transaction::Client { .. } => true,
        }
    }

    pub(crate) fn is_doomed(&self) -> bool {
        match self {
            Transaction::None => false,
            Transaction::Hidden { doomed, .. } | Transaction::Client { doomed, .. } => *doomed,
        }
    }

    /// Returns the number of an open transaction: 0 for one that clients do not see.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Transaction::None => None,
            Transaction::Hidden { .. } => Some(0),
            Transaction::Client { number, .. } => Some(*number),
        }
    }

    /// Returns true for the name of the outermost transaction, which means all of it.
    pub(crate) fn is_named(&self, wanted: &str) -> bool {
        matches!(self, Transaction::Client { name, .. } if *name == wanted.to_lowercase())
    }

    /// Marks an open transaction, which can then only be rolled back.
    pub(crate) fn doom(&mut self) {
        match self {
            Transaction::None => {}
            Transaction::Hidden { doomed, .. } | Transaction::Client { doomed, .. } => {
                *doomed = true;
            }
        }
    }

    /// BEGIN TRANSACTION. Returns the number if clients must be notified.
    pub(crate) fn begin(&mut self, name: &str) -> Option<u64> {
        match self {
            Transaction::None => {
                let (begun, number) = Transaction::client(name, 1);
                *self = begun;
                Some(number)
            }
            Transaction::Hidden { depth, .. } | Transaction::Client { depth, .. } => {
                *depth += 1;
                None
            }
        }
    }

    /// COMMIT of one level. Returns the number if this ends a transaction that clients know of.
    pub(crate) fn commit(&mut self) -> Option<u64> {
        match self {
            Transaction::Hidden { depth, .. } | Transaction::Client { depth, .. } if *depth > 1 => {
                *depth -= 1;
                None
            }
            _ => self.end(),
        }
    }

    /// Ends all levels. Returns the number if clients know of the transaction.
    pub(crate) fn end(&mut self) -> Option<u64> {
        match std::mem::take(self) {
            Transaction::Client { number, .. } => Some(number),
            Transaction::None | Transaction::Hidden { .. } => None,
        }
    }

    /// Called before an INSERT .. EXEC, or before triggers fire, outside of a transaction.
    pub(crate) fn hide(&mut self) {
        *self = Transaction::Hidden { depth: 1, doomed: false };
    }

    /// Called after an INSERT .. EXEC whose rows are kept. A transaction that its procedure has
    /// begun and left open becomes the client's, with the number that this returns.
    pub(crate) fn reveal(&mut self) -> Option<u64> {
        let Transaction::Hidden { depth, .. } = self else { return None };
        let left = *depth - 1;
        if left == 0 {
            *self = Transaction::None;
            return None;
        }
        let (begun, number) = Transaction::client("", left);
        *self = begun;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::Transaction;

    #[test]
    fn levels_names_and_doom() {
        let mut open = Transaction::default();
        assert!(open.begin("Outer").is_some() && open.begin("inner").is_none());
        assert!(open.is_named("OUTER") && !open.is_named("inner"));
        assert_eq!(open.depth(), 2);
        open.doom();
        assert!(open.commit().is_none() && open.is_doomed());
        assert!(open.commit().is_some() && !open.is_open() && !open.is_doomed());
        // the next one inherits neither the name nor the doom of the last
        assert!(open.begin("").is_some());
        assert!(!open.is_named("outer") && !open.is_doomed());
        open.end();
        open.doom();
        assert_eq!(open, Transaction::None);
    }

    #[test]
    fn clients_do_not_see_that_of_insert_exec() {
        let mut open = Transaction::default();
        open.hide();
        assert!(open.is_open() && !open.is_open_outside() && !open.is_named(""));
        assert_eq!(open.begin("x"), None);
        assert!(open.is_open_outside());
        assert!(open.reveal().is_some());
        assert_eq!(open.depth(), 1);
        let mut open = Transaction::default();
        open.hide();
        assert_eq!((open.reveal(), open.depth()), (None, 0));
        open.hide();
        assert_eq!((open.end(), open), (None, Transaction::None));
    }
}
