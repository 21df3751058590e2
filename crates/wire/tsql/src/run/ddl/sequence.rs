//! CREATE, ALTER and DROP SEQUENCE.

use tdekit_wire_tds::SqlType;

use super::super::db::{Db, failure};
use super::super::given::GivenValues;
use super::{Ddl, Definition};
use crate::ast::{Name, SequenceOptions};
use crate::error::{Error, Result};
use crate::name::is_global;
use crate::name::quote;
use crate::plan::table::Sequence;
use crate::run::catalog::model::Stored;
use crate::run::gate::On;
use crate::run::sequence::taken;
use crate::value::sequence::Steps;
use crate::value::storage;

/// The numbers that a type has.
fn bounds(ty: SqlType, name: &str) -> Result<(i64, i64)> {
    let largest = |precision: u8| 10_i64.checked_pow(u32::from(precision)).map(|most| most - 1);
    match ty {
        SqlType::TinyInt => Ok((0, 255)),
        SqlType::SmallInt => Ok((i16::MIN.into(), i16::MAX.into())),
        SqlType::Int => Ok((i32::MIN.into(), i32::MAX.into())),
        SqlType::BigInt => Ok((i64::MIN, i64::MAX)),
        SqlType::Decimal { precision, scale: 0 } => match largest(precision) {
            Some(most) => Ok((-most, most)),
            None => Err(Error::feature("a sequence of decimals of more than 18 digits")),
        },
        _ => Err(Error::SequenceType { name: name.to_owned() }),
    }
}

impl Stored {
    /// Puts options in place of what is there, and checks the whole.
    fn change(&mut self, options: &SequenceOptions, create: bool, name: &str) -> Result<()> {
        let name = name.to_owned();
        let (low, high) = bounds(self.ty, &name)?;
        let step = options.increment.unwrap_or(self.rule.step);
        let minimum = options.minimum.map_or(self.rule.minimum, |given| given.unwrap_or(low));
        let maximum = options.maximum.map_or(self.rule.maximum, |given| given.unwrap_or(high));
        let given = [
            ("MINVALUE", options.minimum.flatten()),
            ("MAXVALUE", options.maximum.flatten()),
            ("INCREMENT BY", options.increment.map(|step| step.saturating_abs())),
            ("START WITH", options.start),
            ("RESTART WITH", options.restart.flatten()),
        ];
        for (argument, value) in given {
            if value.is_some_and(|value| !(low..=high).contains(&value)) {
                return Err(Error::SequenceArgument { argument });
            }
        }
        if step == 0 {
            return Err(Error::SequenceIncrement { name });
        }
        if minimum >= maximum {
            return Err(Error::SequenceBounds { name });
        }
        if i128::from(step).abs() > i128::from(maximum) - i128::from(minimum) {
            return Err(Error::SequenceStep { name });
        }
        if create {
            self.start = options.start.unwrap_or(if step > 0 { minimum } else { maximum });
            self.base = self.start;
        }
        if let Some(with) = options.restart {
            self.base = with.unwrap_or(self.start);
            self.last = None;
        }
        let inside = |value: i64| (minimum..=maximum).contains(&value);
        if !inside(self.start) || !inside(self.base) {
            return Err(Error::SequenceOutside { name });
        }
        if let Some(last) = self.last.filter(|last| !inside(*last)) {
            return Err(Error::SequenceCurrent { value: last, name });
        }
        if let Some((cached, size)) = options.cache {
            if size.is_some_and(|size| size <= 0) {
                return Err(Error::SequenceCache { name });
            }
            self.cache = cached.then_some(size);
        }
        let cycle = options.cycle.unwrap_or(self.rule.cycle);
        self.rule = Steps { step, minimum, maximum, cycle };
        Ok(())
    }
}

impl Ddl<'_> {
    pub(crate) fn new_sequence(
        &mut self,
        name: &Name,
        options: &SequenceOptions,
    ) -> Result<Definition<'static>> {
        let object = name.object().to_owned();
        let (schema, database, stored) = self.new_place(name)?;
        if schema == "temp" || is_global(&stored) {
            return Err(Error::SequenceName { name: object });
        }
        if self.find(name)?.is_some() || self.is_used(&schema, &database, &stored)? {
            return Err(Error::ObjectExists { name: object });
        }
        let ty = options.ty.unwrap_or(SqlType::BigInt);
        let (minimum, maximum) = bounds(ty, &object)?;
        let mut made = Stored {
            id: 0,
            ty,
            start: 0,
            base: 0,
            last: None,
            cache: Some(None),
            rule: Steps { step: 1, minimum, maximum, cycle: false },
        };
        made.change(options, true, &object)?;
        let sequence = Sequence { schema, database, name: stored, ty };
        Ok(Definition::of(&sequence.schema.clone(), move |ddl| {
            ddl.db.own_table(&sequence.schema, "tsql_sequence")?;
            write_sequence(ddl.db, &sequence, &made)
        }))
    }

    /// ALTER SEQUENCE, which goes on from the last value that the server has given.
    pub(crate) fn altered_sequence<'d>(
        &mut self,
        name: &'d Name,
        options: &'d SequenceOptions,
        given: GivenValues,
    ) -> Result<Definition<'d>> {
        let sequence = self.db.sequence_named(name, &self.state.database)?;
        Ok(Definition::of(&sequence.schema.clone(), move |ddl| {
            let mut made = given.read(ddl.db, &sequence)?;
            made.change(options, false, name.object())?;
            write_sequence(ddl.db, &sequence, &made)
        }))
    }

    pub(super) fn dropped_sequence(
        &mut self,
        name: &Name,
        if_exists: bool,
    ) -> Result<Option<Definition<'static>>> {
        let Some(sequence) = self.db.sequence(name, &self.state.database)? else {
            let (kind, name) = ("sequence object".to_owned(), name.text());
            return if if_exists { Ok(None) } else { Err(Error::DropMissing { kind, name }) };
        };
        if let Some(user) = self.default_with(&sequence)? {
            return Err(Error::SequenceUsed { name: name.text(), object: user });
        }
        Ok(Some(Definition::of(&sequence.schema.clone(), move |ddl| {
            let sql =
                format!("DELETE FROM {}.tsql_sequence WHERE name = ?1", quote(&sequence.schema));
            let kernels = ddl.db.kernels.clone();
            let result = ddl.db.connection()?.execute(&sql, [&sequence.name]);
            result.map_err(|error| failure(&kernels, &error, &sequence.database))?;
            let place = (sequence.schema.as_str(), sequence.database.as_str());
            ddl.db.move_permissions(place, &On::object(&sequence.name), None)
        })))
    }

    /// Returns the name of a DEFAULT that takes values of a sequence.
    pub(super) fn default_with(&mut self, sequence: &Sequence) -> Result<Option<String>> {
        let facts = crate::run::catalog::facts::read_all(self.db, &sequence.database)?;
        let is_own = |text: &str| {
            taken(text).iter().any(|name| {
                let stored = match name.part(1) {
                    Some(part) if !part.eq_ignore_ascii_case("dbo") => {
                        format!("{part}.{}", name.object())
                    }
                    _ => name.object().to_owned(),
                };
                stored.eq_ignore_ascii_case(&sequence.name)
            })
        };
        Ok(facts.defaults.iter().find(|made| is_own(&made.text)).map(|made| made.name.clone()))
    }
}

/// Writes a definition, which has a new identity: values that others remember of an earlier
/// one do not count.
fn write_sequence(db: &mut Db, sequence: &Sequence, made: &Stored) -> Result<()> {
    let kernels = db.kernels.clone();
    let id = fastrand::i64(..);
    let sql = format!(
        "INSERT OR REPLACE INTO {}.tsql_sequence VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
        ?10, ?11, ?12)",
        quote(&sequence.schema)
    );
    let Steps { step, minimum, maximum, cycle } = made.rule;
    let with = rusqlite::params![
        sequence.name,
        storage::declared(made.ty),
        made.start,
        step,
        minimum,
        maximum,
        cycle,
        made.cache.is_some(),
        made.cache.flatten(),
        made.base,
        made.last,
        id,
    ];
    let result = db.connection()?.execute(&sql, with);
    result.map(|_| ()).map_err(|error| failure(&kernels, &error, &sequence.database))
}
