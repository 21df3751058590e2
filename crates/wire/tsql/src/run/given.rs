//! Values of sequences that were given: by the server, and in a session's open transaction.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::db::{Db, failure};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::plan::table::Sequence;
use crate::run::catalog::facts::sequence_named;
use crate::run::catalog::model::Stored;
use crate::run::catalog::named::has_table;

/// The last values that sessions of this server have given, by database and definition. A restored
/// copy of a database has the same definitions.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenValues(Arc<Mutex<HashMap<(String, i64), i64>>>);

impl GivenValues {
    /// Reads a sequence, with what this server has given of it.
    pub(super) fn read(&self, db: &mut Db, sequence: &Sequence) -> Result<Stored> {
        let kernels = db.kernels.clone();
        let found = sequence_named(db.connection()?, &sequence.schema, &sequence.name)
            .map_err(|error| failure(&kernels, &error, &sequence.database))?;
        let (_, mut stored) =
            found.ok_or_else(|| Error::InvalidObject { name: sequence.name.clone() })?;
        let known = self.last(&sequence.database, stored.id);
        let further = |known: i64| match stored.last {
            Some(last) if stored.rule.cycle => known != last,
            Some(last) if stored.rule.step > 0 => known > last,
            Some(last) => known < last,
            None => true,
        };
        if let Some(known) = known.filter(|known| further(*known)) {
            stored.last = Some(known);
        }
        Ok(stored)
    }

    /// Returns the last value of a definition; None if this server has given none.
    fn last(&self, database: &str, id: i64) -> Option<i64> {
        self.with(|given| given.get(&(database.to_lowercase(), id)).copied())
    }

    fn note(&self, database: &str, id: i64, last: i64) {
        self.with(|given| given.insert((database.to_lowercase(), id), last));
    }

    fn forget(&self, database: &str) {
        let database = database.to_lowercase();
        self.with(|given| given.retain(|(of, _), _| *of != database));
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<(String, i64), i64>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The values of sequences, as a session gives them: a value that was given is not given again,
/// even if the transaction that took it is undone.
#[derive(Debug)]
pub(crate) struct Values {
    given: GivenValues,
    /// Those of the open transaction, the last one at the end.
    taken: Vec<Taken>,
}

/// A value that was given in a transaction that is still open.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) sequence: Arc<Sequence>,
    pub(super) id: i64,
    pub(super) last: i64,
}

impl Values {
    /// A session of a server that has given these.
    pub(super) fn new(given: &GivenValues) -> Values {
        Values { given: given.clone(), taken: Vec::new() }
    }

    /// Returns the values that the server's sessions have given.
    pub(super) fn of_server(&self) -> GivenValues {
        self.given.clone()
    }

    /// Reads a sequence, with what this server has given of it.
    pub(super) fn read(&self, db: &mut Db, sequence: &Sequence) -> Result<Stored> {
        self.given.read(db, sequence)
    }

    /// Gives a sequence's values up to this one, and writes it.
    pub(super) fn give(&mut self, db: &mut Db, sequence: &Arc<Sequence>, last: i64) -> Result<()> {
        let id = self.read(db, sequence)?.id;
        self.given.note(&sequence.database, id, last);
        let taken = Taken { sequence: sequence.clone(), id, last };
        self.taken.push(taken.clone());
        if !db.in_transaction() {
            // undone on SQLite's own: the value is written with the next one
            return Ok(());
        }
        taken.write(db)
    }

    /// Called after a COMMIT: what was given in the transaction is in the file.
    pub(super) fn are_kept(&mut self) {
        self.taken.clear();
    }

    /// Called after a COMMIT of a sequence's values alone.
    pub(super) fn are_kept_of(&mut self, sequence: &Sequence) {
        self.taken.retain(|value| *value.sequence != *sequence);
    }

    /// Called after changes were undone: returns the last value of each definition that was given
    /// in them, for [`Taken::write_again`].
    pub(super) fn undone(&mut self) -> Vec<Taken> {
        let mut taken = std::mem::take(&mut self.taken);
        taken.reverse();
        let mut seen = HashSet::new();
        taken.retain(|value| seen.insert(value.id));
        taken
    }

    /// Takes back a value that is not in the file for good: the next ROLLBACK writes it again.
    pub(super) fn take_back(&mut self, value: Taken) {
        self.taken.push(value);
    }

    /// Forgets the values of a database in whose place another state was put.
    pub(super) fn forget(&self, database: &str) {
        self.given.forget(database);
    }
}

impl Taken {
    /// Writes the value, within a transaction. The sequence's name may have changed since it was
    /// taken.
    fn write(&self, db: &mut Db) -> Result<()> {
        let kernels = db.kernels.clone();
        let own = quote(&self.sequence.schema);
        let sql = format!("UPDATE {own}.tsql_sequence SET last = ?2 WHERE id = ?1");
        let connection = db.connection()?;
        connection
            .prepare_cached(&sql)
            .and_then(|mut update| update.execute([self.id, self.last]))
            .map(|_| ())
            .map_err(|error| failure(&kernels, &error, &self.sequence.database))
    }

    /// Writes the value after its transaction was undone, if the database still has sequences.
    pub(super) fn write_again(&self, db: &mut Db) -> Result<()> {
        let kernels = db.kernels.clone();
        let there = has_table(db.connection()?, &self.sequence.schema, "tsql_sequence");
        let there = there
            .map_err(|error| failure(&kernels, &error, &self.sequence.database))
            .unwrap_or(false);
        if there { self.write(db) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undone_values_count_by_the_last_of_each_definition() {
        let sequence = Arc::new(Sequence {
            schema: "db:app".to_owned(),
            database: "app".to_owned(),
            name: "s".to_owned(),
            ty: tdekit_wire_tds::SqlType::Int,
        });
        let mut values = Values::new(&GivenValues::default());
        for (id, last) in [(1, 10), (2, 20), (1, 11)] {
            values.take_back(Taken { sequence: sequence.clone(), id, last });
        }
        let undone: Vec<(i64, i64)> =
            values.undone().iter().map(|value| (value.id, value.last)).collect();
        assert_eq!(undone, [(1, 11), (2, 20)]);
        assert!(values.undone().is_empty());
        values.take_back(Taken { sequence: sequence.clone(), id: 1, last: 12 });
        values.are_kept_of(&sequence);
        assert!(values.undone().is_empty());
    }
}
