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
use super::tran::Own;
use crate::ast::{Expr, Name, SequenceOptions};
use crate::error::{Error, Result};
use crate::plan::table::Sequence;
use crate::run::catalog::facts::sequence_named;
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

    /// Returns the sequence of this name, which must be there.
    pub(super) fn sequence_named(&mut self, name: &Name, current: &str) -> Result<Arc<Sequence>> {
        if let Some(found) = self.sequence(name, current)? {
            return Ok(found);
        }
        match self.find(name, current)? {
            Some(_) => Err(Error::NotASequence { name: name.text() }),
            None => Err(Error::InvalidObject { name: name.text() }),
        }
    }
}

impl Run<'_> {
    pub(super) fn alter_sequence(&mut self, name: &Name, options: &SequenceOptions) -> Result<()> {
        let given = self.s.values.of_server();
        self.make(|ddl| ddl.altered_sequence(name, options, given))
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
                self.s.values.are_kept();
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
        let stored = self.s.values.read(&mut self.s.db, sequence)?;
        self.s.db.kernels.set_counter(sequence, Counter::new(stored.next(), stored.rule));
        Ok(())
    }

    /// Writes the last values that expressions have taken.
    pub(super) fn store_counters(&mut self, sequences: &[Arc<Sequence>]) -> Result<()> {
        let mut result = Ok(());
        for sequence in sequences {
            let counter = self.s.db.kernels.take_counter(sequence);
            if let Some(last) = counter.and_then(|counter| counter.last()) {
                let stored = self.s.values.give(&mut self.s.db, sequence, last);
                result = result.and(stored);
            }
        }
        result
    }

    /// Called after changes were undone: writes the values that were given in them. What cannot be
    /// written now is known to the server, and is written with the next value.
    pub(crate) fn keep_values(&mut self) {
        for value in self.s.values.undone() {
            let written = self
                .begin_own(std::slice::from_ref(&value.sequence.schema), true)
                .and_then(|own| {
                    let result = value.write_again(&mut self.s.db);
                    self.after_write(own, result.is_ok())?;
                    result
                });
            if written.is_err() || self.s.state.transaction.is_open() {
                self.s.values.take_back(value);
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
        let sequence = self.s.db.sequence_named(&name, &self.s.state.database)?;
        self.s.gate().admit_sequence(&sequence)?;
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
        let own = self.begin_own(std::slice::from_ref(&sequence.schema), false)?;
        let take = |run: &mut Self| {
            let stored = run.s.values.read(&mut run.s.db, sequence)?;
            let first = stored.next();
            let first = first.ok_or_else(|| Error::SequenceEnd { name: name.to_owned() })?;
            let range = stored.rule.range(first, size);
            let (last, cycles) = range.ok_or_else(|| Error::RangeEnd { name: name.to_owned() })?;
            run.s.values.give(&mut run.s.db, sequence, last)?;
            Ok((first, last, cycles, stored.rule))
        };
        let result = take(self);
        self.after_write(own, result.is_ok())?;
        if own == Own::Transaction {
            self.s.values.are_kept_of(sequence);
        }
        result
    }
}
