//! The expressions that SQLite calls, and a connection's state for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::SqlType;

use crate::error::{Error, Result};
use crate::functions::eval::SessionCalls;
use crate::host::{Host, SharedHost};
use crate::plan::scalar::Scalar;
use crate::plan::table::Sequence;
use crate::render::sql::Sql;
use crate::value::dateparse::{DateText, Order};
use crate::value::language::Language;
use crate::value::sequence::Counter;

/// An expression that SQLite calls, with the types of its arguments.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) expr: Scalar,
    pub(crate) args: Vec<SqlType>,
    /// True if it looks up objects.
    pub(crate) looks_up: bool,
    /// True if it calls functions of a database.
    pub(crate) invokes: bool,
}

/// A statement of a function.
#[derive(Debug)]
pub(crate) struct Text {
    pub(super) sql: Sql,
    /// Over variables of the function.
    pub(super) params: Vec<Scalar>,
    /// Keeps the kernels that it calls.
    #[allow(dead_code)]
    pub(super) guards: Vec<Guard>,
}

/// The state in which functions over columns look up objects.
struct Seen(Arc<dyn SessionCalls + Send + Sync>);

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seen")
    }
}

/// The counters of sequences, by the names of the database and the sequence.
pub(crate) type Counters = HashMap<(String, String), Counter>;

/// The next value of an identity column with its increment, and the last value.
type Identities = (Option<(i64, i64)>, Option<i64>);

#[derive(Debug, Default)]
struct Registry {
    next: i64,
    kernels: HashMap<i64, Arc<Kernel>>,
    texts: HashMap<i64, Arc<Text>>,
    /// The error of a statement that SQLite ended because a function failed.
    failure: Option<Error>,
    /// The next value of the identity column that is being filled, and its increment.
    identity: Option<(i64, i64)>,
    last_identity: Option<i64>,
    /// The last row versions of databases that are being changed, by their names in SQLite.
    versions: HashMap<String, i64>,
    /// Sequences whose values are being taken, by the names of the database and the sequence.
    counters: Counters,
    /// The state in which functions over columns look up objects.
    snapshot: Option<Seen>,
    /// The key of the last row that a change has reached.
    key: Vec<Stored>,
    /// True while a value that cannot be computed is NULL.
    lenient: bool,
    /// True once the client cancels the running statement.
    cancel: Arc<AtomicBool>,
}

/// The kernels of one connection, its session's date settings, and its host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kernels(Arc<Mutex<Registry>>, Arc<Formats>, Outside);

#[derive(Clone, Default)]
struct Outside(Option<SharedHost>);

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outside")
    }
}

/// SET DATEFORMAT, SET DATEFIRST and SET LANGUAGE, for kernels.
#[derive(Debug, Default)]
struct Formats {
    order: AtomicU8,
    datefirst: AtomicU8,
    language: AtomicU8,
}

/// Keeps a kernel, or a statement of a function, alive.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(super) id: i64,
    kernels: Kernels,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let gone = self
            .kernels
            .with(|registry| (registry.kernels.remove(&self.id), registry.texts.remove(&self.id)));
        // it may have guards itself
        drop(gone);
    }
}

impl Kernels {
    pub(crate) fn of(host: SharedHost) -> Kernels {
        Kernels(Arc::default(), Arc::default(), Outside(Some(host)))
    }

    /// The host, for functions that ask it.
    pub(crate) fn host(&self) -> Option<&dyn Host> {
        self.2.0.as_deref()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Registry) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn register(&self, kernel: Kernel) -> Guard {
        let id = self.with(|registry| {
            registry.next += 1;
            registry.kernels.insert(registry.next, Arc::new(kernel));
            registry.next
        });
        Guard { id, kernels: self.clone() }
    }

    pub(super) fn register_text(&self, text: Text) -> Guard {
        let id = self.with(|registry| {
            registry.next += 1;
            registry.texts.insert(registry.next, Arc::new(text));
            registry.next
        });
        Guard { id, kernels: self.clone() }
    }

    pub(super) fn text(&self, id: i64) -> Option<Arc<Text>> {
        self.with(|registry| registry.texts.get(&id).cloned())
    }

    pub(crate) fn find(&self, id: i64) -> Option<Arc<Kernel>> {
        self.with(|registry| registry.kernels.get(&id).cloned())
    }

    pub(crate) fn fail(&self, error: Error) {
        self.with(|registry| registry.failure.get_or_insert(error).clone());
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.with(|registry| registry.failure.take())
    }

    pub(crate) fn set_formats(&self, how: DateText, datefirst: i64) {
        let order = match how.order {
            Order::Mdy => 0,
            Order::Dmy => 1,
            Order::Ymd => 2,
        };
        self.1.order.store(order, Ordering::Relaxed);
        self.1.language.store(how.language.id, Ordering::Relaxed);
        self.1.datefirst.store(u8::try_from(datefirst).unwrap_or(7), Ordering::Relaxed);
    }

    pub(crate) fn formats(&self) -> (DateText, i64) {
        let order = match self.1.order.load(Ordering::Relaxed) {
            1 => Order::Dmy,
            2 => Order::Ymd,
            _ => Order::Mdy,
        };
        let language = Language::of(self.1.language.load(Ordering::Relaxed));
        let how = DateText { order, language };
        match self.1.datefirst.load(Ordering::Relaxed) {
            0 => (how, 7),
            day => (how, i64::from(day)),
        }
    }

    pub(crate) fn set_snapshot(&self, snapshot: Option<Arc<dyn SessionCalls + Send + Sync>>) {
        self.with(|registry| registry.snapshot = snapshot.map(Seen));
    }

    pub(crate) fn snapshot(&self) -> Option<Arc<dyn SessionCalls + Send + Sync>> {
        self.with(|registry| registry.snapshot.as_ref().map(|seen| seen.0.clone()))
    }

    pub(crate) fn set_cancel(&self, cancel: Arc<AtomicBool>) {
        self.with(|registry| registry.cancel = cancel);
    }

    pub(crate) fn cancel(&self) -> Arc<AtomicBool> {
        self.with(|registry| registry.cancel.clone())
    }

    pub(crate) fn begin_identity(&self, next: i64, step: i64) {
        self.with(|registry| {
            registry.identity = Some((next, step));
            registry.last_identity = None;
        });
    }

    /// Returns the next identity value; None beyond 64 bits.
    pub(crate) fn next_identity(&self) -> Option<i64> {
        self.with(|registry| {
            let (next, step) = registry.identity?;
            registry.identity = Some((next.checked_add(step)?, step));
            registry.last_identity = Some(next);
            Some(next)
        })
    }

    /// Sets the identity values of another change, and returns those before.
    pub(super) fn swap_identity(&self, values: Identities) -> Identities {
        self.with(|registry| {
            let before = (registry.identity, registry.last_identity);
            (registry.identity, registry.last_identity) = values;
            before
        })
    }

    pub(crate) fn last_identity(&self) -> Option<i64> {
        self.with(|registry| registry.last_identity)
    }

    pub(crate) fn has_versions(&self, schema: &str) -> bool {
        self.last_version(schema).is_some()
    }

    pub(crate) fn last_version(&self, schema: &str) -> Option<i64> {
        self.with(|registry| registry.versions.get(schema).copied())
    }

    pub(crate) fn set_versions(&self, schema: &str, last: i64) {
        self.with(|registry| registry.versions.insert(schema.to_owned(), last));
    }

    pub(crate) fn forget_versions(&self) {
        self.with(|registry| registry.versions.clear());
    }

    /// Returns the next row version of a database; None outside of a change.
    pub(crate) fn next_version(&self, schema: &str) -> Option<i64> {
        self.with(|registry| {
            let last = registry.versions.get_mut(schema)?;
            *last = last.checked_add(1)?;
            Some(*last)
        })
    }

    pub(crate) fn set_key(&self, key: Vec<Stored>) {
        self.with(|registry| registry.key = key);
    }

    /// Does work for which values that cannot be computed are NULL, in place of errors.
    pub(crate) fn leniently<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Strict<'k>(&'k Kernels);
        impl Drop for Strict<'_> {
            fn drop(&mut self) {
                self.0.with(|registry| registry.lenient = false);
            }
        }
        let strict = Strict(self);
        self.with(|registry| registry.lenient = true);
        let done = work();
        drop(strict);
        done
    }

    pub(crate) fn is_lenient(&self) -> bool {
        self.with(|registry| registry.lenient)
    }

    pub(crate) fn take_key(&self) -> Vec<Stored> {
        self.with(|registry| std::mem::take(&mut registry.key))
    }

    /// Returns the sequences whose values are being taken, for [`Kernels::set_counters`].
    pub(crate) fn counters(&self) -> Counters {
        self.with(|registry| registry.counters.clone())
    }

    pub(crate) fn set_counters(&self, counters: Counters) {
        self.with(|registry| registry.counters = counters);
    }

    /// Returns true if values of sequences are being taken.
    pub(crate) fn counts(&self) -> bool {
        self.with(|registry| !registry.counters.is_empty())
    }

    pub(crate) fn forget_counters(&self) {
        self.with(|registry| registry.counters.clear());
    }

    pub(crate) fn has_counter(&self, sequence: &Sequence) -> bool {
        self.with(|registry| registry.counters.contains_key(&key(sequence)))
    }

    pub(crate) fn set_counter(&self, sequence: &Sequence, counter: Counter) {
        self.with(|registry| registry.counters.insert(key(sequence), counter));
    }

    /// Gives what follows rows of its own: none of its places shares a value with those before.
    pub(crate) fn begin_counted(&self, sequences: &[Arc<Sequence>]) {
        self.with(|registry| {
            for sequence in sequences {
                if let Some(counter) = registry.counters.get_mut(&key(sequence)) {
                    counter.begin_rows();
                }
            }
        });
    }

    pub(crate) fn take_counter(&self, sequence: &Sequence) -> Option<Counter> {
        self.with(|registry| registry.counters.remove(&key(sequence)))
    }

    /// Returns the row's value of a sequence, at a place of the row.
    ///
    /// # Errors
    /// At the end of the sequence.
    pub(crate) fn next_value(&self, schema: &str, name: &str, place: usize) -> Result<i64> {
        self.with(|registry| {
            let counter = registry.counters.get_mut(&(schema.to_owned(), name.to_owned()));
            let unknown = || Error::Internal { detail: format!("no values of sequence {name}") };
            counter.ok_or_else(unknown)?.next(place, name)
        })
    }
}

fn key(sequence: &Sequence) -> (String, String) {
    (sequence.schema.clone(), sequence.name.clone())
}
