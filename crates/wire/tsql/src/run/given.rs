//! What sessions know of values of sequences that were given.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::table::Sequence;

/// The last values of definitions that sessions of this server have given.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenValues(Arc<Mutex<HashMap<i64, i64>>>);

impl GivenValues {
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut HashMap<i64, i64>) -> T) -> T {
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
