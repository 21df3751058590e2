//! What sessions know of values of sequences that were given.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::table::Sequence;

/// The last values that sessions of this server have given, by database and definition. A restored
/// copy of a database has the same definitions.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenValues(Arc<Mutex<HashMap<(String, i64), i64>>>);

impl GivenValues {
    /// Returns the last value of a definition; None if this server has given none.
    pub(super) fn last(&self, database: &str, id: i64) -> Option<i64> {
        self.with(|given| given.get(&(database.to_lowercase(), id)).copied())
    }

    pub(super) fn note(&self, database: &str, id: i64, last: i64) {
        self.with(|given| given.insert((database.to_lowercase(), id), last));
    }

    /// Forgets the values of a database in whose place another state was put.
    pub(super) fn forget(&self, database: &str) {
        let database = database.to_lowercase();
        self.with(|given| given.retain(|(of, _), _| *of != database));
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<(String, i64), i64>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A value that was given in a transaction that is still open.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(super) sequence: Arc<Sequence>,
    pub(super) id: i64,
    pub(super) last: i64,
}
