//! Values of sequences: NEXT VALUE FOR, and `sp_sequence_get_range`.
//!
//! A database's `tsql_sequence` has the last value of each sequence. A statement takes the write
//! lock, reads it, and writes it back with its own changes; if those are undone, the value is
//! written again, so that none is given twice. All sessions of a server share what they know of
//! values that were given, until that is in the file.

use std::sync::Arc;

use tdekit_wire_tds::{SqlType, Value};

use super::called::{Called, Given};
use super::db::{Db, failure};
use super::given::Taken;
use super::tran::Own;
use crate::ast::{Expr, Name};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::plan::table::Sequence;
use crate::run::catalog::facts::sequence_named;
use crate::run::catalog::model::Stored;
use crate::run::catalog::named::has_table;
use crate::run::state::Signal;
use crate::run::work::Run;
use crate::value::sequence::{Counter, Steps};

/// Returns the sequences that an expression takes values of, as it names them.
pub(crate) fn taken(text: &str) -> Vec<Name> {
    let mut names = Vec::new();
    if let Ok(mut expr) = crate::parse::default_expression(text) {
        expr.each(&mut |part| {
            if let Expr::Next(name, _) = part {
                names.push(name.clone());
            }
        });
    }
    names
}

impl Db {
    /// Returns the sequence of this name.
    pub(crate) fn sequence(&mut self, name: &Name, current: &str) -> Result<Option<Arc<Sequence>>> {
        if name.object().starts_with('#') {
            return Ok(None);
        }
        let (schema, database, object) = self.place(name, current)?;
        let kernels = self.kernels.clone();
        let connection = self.connection()?;
        let found = sequence_named(connection, &schema, &object)
            .map_err(|error| failure(&kernels, &error, &database))?;
        Ok(found.map(|(name, stored)| Arc::new(Sequence { schema, database, name, ty: stored.ty })))
    }
}

impl Run<'_> {
    pub(super) fn sequence_named(&mut self, name: &Name) -> Result<Arc<Sequence>> {
        let current = self.s.state.database.clone();
        if let Some(found) = self.s.db.sequence(name, &current)? {
            return Ok(found);
        }
        match self.find(name)? {
            Some(_) => Err(Error::NotASequence { name: name.text() }),
            None => Err(Error::InvalidObject { name: name.text() }),
        }
    }

    /// Reads a sequence, with what this server has given of it.
    pub(super) fn read_sequence(&mut self, sequence: &Sequence) -> Result<Stored> {
        let kernels = self.s.db.kernels.clone();
        let found = sequence_named(self.s.db.connection()?, &sequence.schema, &sequence.name)
            .map_err(|error| failure(&kernels, &error, &sequence.database))?;
        let (_, mut stored) =
            found.ok_or_else(|| Error::InvalidObject { name: sequence.name.clone() })?;
        let known = self.s.given.last(&sequence.database, stored.id);
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

    /// Runs a statement that takes values of sequences.
    pub(crate) fn counting<T>(
        &mut self,
        sequences: &[Arc<Sequence>],
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        // what a statement within leaves behind when it fails is not for the next one
        let outermost = !self.s.db.kernels.counts();
        let result = self.counting_within(sequences, work);
        if outermost {
            self.s.db.kernels.forget_counters();
        }
        result
    }

    fn counting_within<T>(
        &mut self,
        sequences: &[Arc<Sequence>],
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let Some(first) = sequences.first() else { return work(self) };
        if self.s.state.transaction.is_doomed() {
            return Err(Error::Doomed {});
        }
        self.implicit();
        let own = self.begin_own(std::slice::from_ref(&first.schema), false)?;
        if own == Own::Savepoint {
            // a trigger may go back to a savepoint before the statement
            self.after_write(own, true)?;
        }
        // within another statement, those that it takes values of have gone further
        self.s.db.kernels.begin_counted(sequences);
        let loaded = sequences.iter().try_for_each(|sequence| self.load_counter(sequence));
        let result = loaded.and_then(|()| work(self));
        let stored = self.store_counters(sequences);
        match own {
            Own::Transaction => {
                self.after_write(own, stored.is_ok())?;
                self.s.taken.clear();
            }
            Own::Savepoint if stored.is_err() => self.s.state.transaction.doom(),
            Own::Savepoint => {}
        }
        stored?;
        result
    }

    /// Makes a sequence's next value known to expressions, unless it is already.
    pub(super) fn load_counter(&mut self, sequence: &Arc<Sequence>) -> Result<()> {
        self.lock(std::slice::from_ref(&sequence.schema), false)?;
        if self.s.db.kernels.has_counter(sequence) {
            return Ok(());
        }
        let stored = self.read_sequence(sequence)?;
        self.s.db.kernels.set_counter(sequence, Counter::new(stored.next(), stored.rule));
        Ok(())
    }

    /// Writes the last values that expressions have taken.
    pub(super) fn store_counters(&mut self, sequences: &[Arc<Sequence>]) -> Result<()> {
        let mut result = Ok(());
        for sequence in sequences {
            let counter = self.s.db.kernels.take_counter(sequence);
            if let Some(last) = counter.and_then(|counter| counter.last()) {
                let stored = self.store_last(sequence, last);
                result = result.and(stored);
            }
        }
        result
    }

    fn store_last(&mut self, sequence: &Arc<Sequence>, last: i64) -> Result<()> {
        let id = self.read_sequence(sequence)?.id;
        self.s.given.note(&sequence.database, id, last);
        self.s.taken.push(Taken { sequence: sequence.clone(), id, last });
        if !self.in_sqlite() {
            // undone on SQLite's own: the value is written with the next one
            return Ok(());
        }
        self.write_last(sequence, id, last)
    }

    /// Its name may have changed since the value was taken.
    fn write_last(&mut self, sequence: &Sequence, id: i64, last: i64) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        let sql =
            format!("UPDATE {}.tsql_sequence SET last = ?2 WHERE id = ?1", quote(&sequence.schema));
        let connection = self.s.db.connection()?;
        connection
            .prepare_cached(&sql)
            .and_then(|mut update| update.execute([id, last]))
            .map(|_| ())
            .map_err(|error| failure(&kernels, &error, &sequence.database))
    }

    /// Called after a COMMIT of everything.
    pub(crate) fn values_are_kept(&mut self) {
        self.s.taken.clear();
    }

    /// Called after changes were undone: writes the values that were given in them. What cannot be
    /// written now is known to the server, and is written with the next value.
    pub(crate) fn keep_values(&mut self) {
        let mut taken = std::mem::take(&mut self.s.taken);
        // the last one of each definition counts
        taken.reverse();
        let mut seen = std::collections::HashSet::new();
        taken.retain(|value| seen.insert(value.id));
        for value in taken {
            let written = self
                .begin_own(std::slice::from_ref(&value.sequence.schema), true)
                .and_then(|own| {
                    let kernels = self.s.db.kernels.clone();
                    let connection = self.s.db.connection()?;
                    let there = has_table(connection, &value.sequence.schema, "tsql_sequence");
                    let there = there
                        .map_err(|error| failure(&kernels, &error, &value.sequence.database))
                        .unwrap_or(false);
                    let result = match there {
                        true => self.write_last(&value.sequence, value.id, value.last),
                        false => Ok(()),
                    };
                    self.after_write(own, result.is_ok())?;
                    result
                });
            if written.is_err() || self.s.state.transaction.is_open() {
                self.s.taken.push(value);
            }
        }
    }

    /// `sp_sequence_get_range @sequence_name, @range_size, @range_first_value OUTPUT, ..`.
    pub(super) fn sequence_range(&mut self, given: &[Given]) -> Result<Called> {
        const NAMES: [&str; 8] = [
            "@sequence_name",
            "@range_size",
            "@range_first_value",
            "@range_last_value",
            "@range_cycle_count",
            "@sequence_increment",
            "@sequence_min_value",
            "@sequence_max_value",
        ];
        let procedure = || "sp_sequence_get_range".to_owned();
        let mut places = Vec::new();
        for (at, arg) in given.iter().enumerate() {
            let place = match &arg.name {
                Some(name) => NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)),
                None => Some(at).filter(|at| *at < NAMES.len()),
            };
            let place = place.ok_or_else(|| match &arg.name {
                Some(name) => Error::NotAParameter { procedure: procedure(), name: name.clone() },
                None => Error::TooManyArguments { procedure: procedure() },
            })?;
            places.push(place);
        }
        let value = |wanted: usize| {
            let at = places.iter().position(|place| *place == wanted)?;
            given[at].value.as_ref()
        };
        let missing = |at: usize| Error::MissingParameter {
            procedure: procedure(),
            name: NAMES[at].to_owned(),
        };
        let Some(Value::Text(name)) = value(0) else { return Err(missing(0)) };
        let name = crate::functions::wanted::parts(name);
        let size = match value(1) {
            Some(Value::Int(size)) if *size > 0 => *size,
            Some(Value::Int(_)) => return Err(Error::RangeSize { parameter: NAMES[1] }),
            _ => return Err(missing(1)),
        };
        if value(2).is_none() && !places.contains(&2) {
            return Err(missing(2));
        }
        let sequence = self.sequence_named(&name)?;
        self.admit_sequence(&sequence)?;
        let (first, last, cycles, rule) = self.take_range(&sequence, name.object(), size)?;
        let answers = [
            (2, first),
            (3, last),
            (4, cycles),
            (5, rule.step),
            (6, rule.minimum),
            (7, rule.maximum),
        ];
        let mut outputs = Vec::new();
        for (at, (arg, place)) in given.iter().zip(&places).enumerate() {
            let answer = answers.iter().find(|(known, _)| known == place);
            if let (true, Some((_, answer))) = (arg.output, answer) {
                let name = NAMES[*place].to_owned();
                outputs.push((at, name, SqlType::BigInt, Value::Int(*answer)));
            }
        }
        Ok(Called { signal: Signal::Next, status: 0, outputs })
    }

    fn take_range(
        &mut self,
        sequence: &Arc<Sequence>,
        name: &str,
        size: i64,
    ) -> Result<(i64, i64, i64, Steps)> {
        let sequences = std::slice::from_ref(sequence);
        let own = self.begin_own(std::slice::from_ref(&sequence.schema), false)?;
        let take = |run: &mut Self| {
            let stored = run.read_sequence(sequence)?;
            let first = stored.next();
            let first = first.ok_or_else(|| Error::SequenceEnd { name: name.to_owned() })?;
            let range = stored.rule.range(first, size);
            let (last, cycles) = range.ok_or_else(|| Error::RangeEnd { name: name.to_owned() })?;
            run.store_last(sequence, last)?;
            Ok((first, last, cycles, stored.rule))
        };
        let result = take(self);
        self.after_write(own, result.is_ok())?;
        if own == Own::Transaction {
            self.s.taken.retain(|value| sequences.iter().all(|own| *own != value.sequence));
        }
        result
    }
}
