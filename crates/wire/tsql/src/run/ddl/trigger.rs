//! CREATE, ALTER and DROP TRIGGER, ENABLE and DISABLE.

use rusqlite::Connection;
use tdekit_wire_tds::messages::{PermissionError, TriggerError};

use super::super::db::{Db, failure};
use super::constraint::has_object;
use super::rename::stored_name;
use super::{Ddl, Definition};
use crate::ast::trigger::{CreateTrigger, Event, TriggerAction};
use crate::ast::{Constraint, ConstraintKind, Kind, Name, Stmt};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::plan::trigger::Trigger;
use crate::run::called::{compile_with, located, refuse_use};
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::triggers::{cascades, in_schema_of, list, named};
use crate::run::catalog::{Table, TableKind};
use crate::run::gate::is_own;
use crate::run::tallies::Origin;

/// The database of a trigger: its name in SQLite, and its own.
type Place = (String, String);

impl Ddl<'_> {
    /// CREATE, ALTER, ENABLE or DISABLE TRIGGER.
    pub(crate) fn trigger_action(&mut self, action: &TriggerAction) -> Result<Definition<'static>> {
        match action {
            TriggerAction::Create(made) => self.create_trigger(made),
            TriggerAction::Switch { names, table, enable, alters } => {
                self.switch_triggers(names, table, *enable, *alters)
            }
        }
    }

    fn create_trigger(&mut self, made: &CreateTrigger) -> Result<Definition<'static>> {
        let current = self.state.database.clone();
        if made.name.part(2).is_some() {
            return Err(TriggerError::Prefix {}.into());
        }
        let table = self.trigger_target(&made.table, made.instead)?;
        let elsewhere = made.table.part(2).is_some_and(|own| !own.eq_ignore_ascii_case(&current));
        if elsewhere {
            return Err(TriggerError::OtherDatabase { table: made.table.text() }.into());
        }
        let verb = if made.may_create { "create" } else { "alter" };
        let name = made.name.object().to_owned();
        let (schema, _) = schema_and_name(&table.name);
        if made.name.part(1).is_some_and(|own| !own.eq_ignore_ascii_case(&schema)) {
            return Err(TriggerError::OtherSchema { verb, name }.into());
        }
        if name.contains('.') || name.starts_with('#') {
            return Err(Error::feature("a trigger of this name"));
        }
        if returns_value(&made.body) {
            return Err(TriggerError::ReturnsValue {}.into());
        }
        refuse_use(&made.body, &name)?;
        let origin = Origin::of(&made.text, "", true);
        compile_with(Vec::new(), (made.body.clone(), None), origin)
            .map_err(|at| located(at, &name))?;
        let place = (table.schema.clone(), table.database.clone());
        let stored = stored_name(&schema, &name);
        let known = self
            .db
            .read_triggers(&place, |connection| named(connection, &table.schema, &stored))?;
        let taken = self
            .db
            .read_triggers(&place, |connection| has_object(connection, &table.schema, &stored))?;
        match &known {
            Some(_) if !made.may_replace => return Err(Error::ObjectExists { name }),
            Some(known) if !known.table.eq_ignore_ascii_case(&table.name) => {
                return Err(TriggerError::OtherTable { name, table: made.table.text() }.into());
            }
            None if !made.may_create => {
                return Err(Error::InvalidObject { name: made.name.text() });
            }
            None if taken => return Err(Error::ObjectExists { name }),
            _ => {}
        }
        if made.instead {
            self.refuse_instead(made, &table, &place, verb)?;
        }
        let trigger = Trigger {
            table: table.name.clone(),
            name,
            instead: made.instead,
            events: made.events,
            disabled: false,
            text: made.text.clone(),
        };
        Ok(store_trigger(place, trigger, known.is_some()))
    }

    /// The table or view of a trigger.
    fn trigger_target(&mut self, name: &Name, instead: bool) -> Result<std::sync::Arc<Table>> {
        if name.object().starts_with('#') {
            return Err(Error::feature("a trigger of a temporary table"));
        }
        let missing = || TriggerError::NoTarget { name: name.text() };
        let table = self.find(name)?.ok_or_else(missing)?;
        match &table.kind {
            TableKind::Table if is_own(&table.name) => Err(missing().into()),
            TableKind::Table => Ok(table),
            TableKind::View(_) if instead => Ok(table),
            TableKind::View(_) | TableKind::Function(_) | TableKind::System(_) => {
                Err(missing().into())
            }
        }
    }

    /// Refuses a second INSTEAD OF trigger for an event, and one of a table that cascades change.
    fn refuse_instead(
        &mut self,
        made: &CreateTrigger,
        table: &Table,
        place: &Place,
        verb: &'static str,
    ) -> Result<()> {
        let name = made.name.object().to_owned();
        let all = self.db.read_triggers(place, |connection| {
            list(connection, &table.schema, Some(&table.name))
        })?;
        let others = all.iter().filter(|own| own.instead && !own.name.eq_ignore_ascii_case(&name));
        for other in others {
            let both = |event: &Event| other.events.has(*event) && made.events.has(*event);
            if let Some(event) = Event::ALL.into_iter().find(both) {
                let kind = if table.kind == TableKind::Table { "table" } else { "view" };
                let (table, event) = (table.object_name(), event.word());
                return Err(TriggerError::SecondInstead { verb, name, kind, table, event }.into());
            }
        }
        let changes = made.events.has(Event::Update) || made.events.has(Event::Delete);
        if !changes || table.kind != TableKind::Table {
            return Ok(());
        }
        let found = self
            .db
            .read_triggers(place, |connection| cascades(connection, &table.schema, &table.name))?;
        match found {
            true => {
                let table = table.object_name();
                Err(TriggerError::Cascading { verb, name, table }.into())
            }
            false => Ok(()),
        }
    }

    /// Refuses a foreign key whose actions would pass by an INSTEAD OF trigger of its table.
    pub(super) fn refuse_key_of_instead(
        &mut self,
        table: &Table,
        constraint: &Constraint,
    ) -> Result<()> {
        let ConstraintKind::Foreign { on_delete, on_update, .. } = &constraint.kind else {
            return Ok(());
        };
        if on_delete.is_none() && on_update.is_none() {
            return Ok(());
        }
        let place = (table.schema.clone(), table.database.clone());
        let all = self.db.read_triggers(&place, |connection| {
            list(connection, &table.schema, Some(&table.name))
        })?;
        let passes = |own: &Trigger| {
            own.instead && (own.events.has(Event::Update) || own.events.has(Event::Delete))
        };
        match all.iter().any(passes) {
            true => {
                let key = constraint.name.clone().unwrap_or_default();
                Err(TriggerError::KeyOfInstead { key, table: table.object_name() }.into())
            }
            false => Ok(()),
        }
    }

    pub(super) fn dropped_trigger(
        &mut self,
        name: &Name,
        if_exists: bool,
    ) -> Result<Option<Definition<'static>>> {
        let found = self.db.trigger_named(name, &self.state.database)?;
        let Some((place, trigger)) = found else {
            let missing = Error::DropMissing { kind: "trigger".to_owned(), name: name.text() };
            return if if_exists { Ok(None) } else { Err(missing) };
        };
        let sql = format!(
            "DELETE FROM {}.tsql_trigger WHERE table_name = ?1 AND name = ?2",
            quote(&place.0)
        );
        Ok(Some(define_triggers(place, move |connection| {
            connection.execute(&sql, [&trigger.table, &trigger.name]).map(|_| ())
        })))
    }

    fn switch_triggers(
        &mut self,
        names: &[Name],
        on: &Name,
        enable: bool,
        alters: bool,
    ) -> Result<Definition<'static>> {
        let missing = |name: &Name| match alters {
            true => Error::AlterMissing { name: name.text() },
            false => PermissionError::CannotAlter { object: name.text() }.into(),
        };
        if on.object().starts_with('#') {
            return Err(Error::feature("a trigger of a temporary table"));
        }
        let table = self.find(on)?.ok_or_else(|| missing(on))?;
        if matches!(table.kind, TableKind::System(_)) {
            return Err(missing(on));
        }
        let place = (table.schema.clone(), table.database.clone());
        let all = self.db.read_triggers(&place, |connection| {
            list(connection, &table.schema, Some(&table.name))
        })?;
        let mut wanted = Vec::new();
        for name in names {
            let is = |own: &&Trigger| {
                let schema = name.part(1);
                let same = schema.is_none_or(|schema| {
                    in_schema_of(own, &stored_name(&schema.to_lowercase(), name.object()))
                });
                own.name.eq_ignore_ascii_case(name.object()) && same
            };
            let found = all.iter().find(is).ok_or_else(|| match alters {
                true => {
                    let (name, table) = (name.text(), table.object_name());
                    TriggerError::NoTrigger { name, table }.into()
                }
                false => missing(name),
            })?;
            wanted.push(found.name.clone());
        }
        if names.is_empty() {
            wanted = all.iter().map(|own| own.name.clone()).collect();
        }
        let sql = format!(
            "UPDATE {}.tsql_trigger SET disabled = ?3 WHERE table_name = ?1 AND name = ?2",
            quote(&place.0)
        );
        Ok(define_triggers(place, move |connection| {
            wanted.iter().try_for_each(|name| {
                let params = rusqlite::params![table.name, name, !enable];
                connection.execute(&sql, params).map(|_| ())
            })
        }))
    }
}

impl Db {
    fn read_triggers<T>(
        &mut self,
        place: &Place,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let kernels = self.kernels.clone();
        read(self.connection()?).map_err(|error| failure(&kernels, &error, &place.1))
    }

    /// Returns the trigger of a name, with its database.
    fn trigger_named(&mut self, name: &Name, current: &str) -> Result<Option<(Place, Trigger)>> {
        if name.object().starts_with('#') {
            return Ok(None);
        }
        let (schema, database, stored) = self.place(name, current)?;
        let place = (schema, database);
        let found =
            self.read_triggers(&place, |connection| named(connection, &place.0, &stored))?;
        Ok(found.map(|trigger| (place, trigger)))
    }

    /// Returns true if a trigger has this name.
    pub(super) fn has_trigger_named(&mut self, name: &Name, current: &str) -> Result<bool> {
        Ok(self.trigger_named(name, current)?.is_some())
    }

    /// Returns the table or view of a trigger, by its full name.
    pub(crate) fn table_of_trigger(&mut self, name: &Name, current: &str) -> Result<Option<Name>> {
        let found = self.trigger_named(name, current)?;
        Ok(found.map(|((_, database), trigger)| {
            let (schema, table) = schema_and_name(&trigger.table);
            Name(vec![database, schema, table])
        }))
    }
}

fn store_trigger(place: Place, trigger: Trigger, known: bool) -> Definition<'static> {
    let own = quote(&place.0);
    let sql = match known {
        true => format!(
            "UPDATE {own}.tsql_trigger SET instead = ?3, events = ?4, disabled = ?5, \
             definition = ?6 WHERE table_name = ?1 AND name = ?2"
        ),
        false => format!("INSERT INTO {own}.tsql_trigger VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
    };
    define_triggers(place, move |connection| {
        let Trigger { table, name, instead, events, disabled, text } = &trigger;
        let params = rusqlite::params![table, name, instead, events.number(), disabled, text];
        connection.execute(&sql, params).map(|_| ())
    })
}

/// Changes `tsql_trigger`. The schema gets a new version, by which other sessions notice the change
/// once it is committed.
fn define_triggers<'d>(
    (schema, database): Place,
    work: impl FnOnce(&Connection) -> rusqlite::Result<()> + 'd,
) -> Definition<'d> {
    Definition::of(&schema.clone(), move |ddl| {
        ddl.db.own_table(&schema, "tsql_trigger")?;
        let kernels = ddl.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &database);
        let connection = ddl.db.connection()?;
        work(connection).map_err(fail)?;
        let own = quote(&schema);
        let sql = format!("PRAGMA {own}.schema_version");
        let version: i32 = connection.query_row(&sql, [], |row| row.get(0)).map_err(fail)?;
        let next = version.wrapping_add(1);
        connection.execute_batch(&format!("{sql} = {next}")).map_err(fail)
    })
}

/// Called within a definition when a view is dropped, or gets another name.
pub(super) fn move_triggers(
    db: &mut Db,
    place: (&str, &str),
    table: &str,
    new: Option<&str>,
) -> Result<()> {
    let place = (place.0.to_owned(), place.1.to_owned());
    let own = quote(&place.0);
    db.read_triggers(&place, |connection| {
        if list(connection, &place.0, Some(table))?.is_empty() {
            return Ok(());
        }
        match new {
            Some(new) => connection.execute(
                &format!("UPDATE {own}.tsql_trigger SET table_name = ?2 WHERE table_name = ?1"),
                [table, new],
            ),
            None => connection
                .execute(&format!("DELETE FROM {own}.tsql_trigger WHERE table_name = ?1"), [table]),
        }
        .map(|_| ())
    })
}

/// Returns the name of a trigger of a table or view that an object in another schema has.
pub(super) fn taken_trigger(
    db: &mut Db,
    place: (&str, &str),
    table: &str,
    target: &str,
) -> Result<Option<String>> {
    let place = (place.0.to_owned(), place.1.to_owned());
    db.read_triggers(&place, |connection| {
        for trigger in list(connection, &place.0, Some(table))? {
            if has_object(connection, &place.0, &stored_name(target, &trigger.name))? {
                return Ok(Some(trigger.name));
            }
        }
        Ok(None)
    })
}

/// Returns true if a body has RETURN with a value.
fn returns_value(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| {
        let mut found = matches!(stmt.kind, Kind::Return(Some(_)));
        stmt.children(&mut |inner| found |= returns_value(std::slice::from_ref(inner)));
        found
    })
}
