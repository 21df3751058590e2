//! `sp_addextendedproperty`, `sp_updateextendedproperty` and `sp_dropextendedproperty`.

use rusqlite::params;

use super::db::{Db, failure};
use super::ddl::Definition;
use super::system_procedures::text_argument;
use crate::ast::Name;
use crate::error::{Error, Result};
use crate::name::quote;
use crate::plan::access::Right;
use crate::run::called::Given;
use crate::run::catalog::TableKind;
use crate::run::catalog::named::has_table;
use crate::run::gate::{Gate, On};
use crate::run::messages::shown;
use crate::run::state::State;

/// What a property belongs to: as stored in `tsql_property`, and as shown in messages.
struct Owner {
    /// `D`, `S`, `O` or `C`: database, schema, object, column.
    kind: &'static str,
    /// The schema, or the object as SQLite names it.
    object: String,
    column: String,
    shown: String,
}

/// Adds, changes or drops a property, as the procedure's name says, in the current database.
pub(super) fn changed_property<'d>(
    (db, state): (&mut Db, &State),
    procedure: &'d str,
    given: &[Given],
) -> Result<Definition<'d>> {
    let drops = procedure == "sp_dropextendedproperty";
    let bad = || Error::BadProcedureOption { name: procedure.to_owned() };
    let name = text_argument(given, 0, "@name").ok_or_else(bad)?;
    let first = if drops { 1 } else { 2 };
    let level = |at: usize| {
        let kind = text_argument(given, first + 2 * at, &format!("@level{at}type"));
        let name = text_argument(given, first + 2 * at + 1, &format!("@level{at}name"));
        (kind.map(|kind| kind.to_ascii_uppercase()), name)
    };
    let levels = [level(0), level(1), level(2)];
    let database = state.database.clone();
    let owner = property_owner((db, &database), &levels, &bad)?;
    let on = match owner.kind {
        "D" => On::Database,
        "S" => On::schema(&owner.object),
        _ => On::object(&owner.object),
    };
    Gate::new(db, state).admit_on(Right::Alter, &database, &on)?;
    let named =
        |arg: &&Given| arg.name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case("@value"));
    let value = given.iter().find(named);
    let value = value.or_else(|| given.get(1).filter(|arg| arg.name.is_none()));
    let value = value.and_then(|arg| arg.value.as_ref());
    let value = value.filter(|value| !crate::value::is_null(value));
    let value = value.map(|value| shown(value, usize::MAX / 4));

    let schema = db.schema(&database)?;
    let kernels = db.kernels.clone();
    let own = format!("{}.tsql_property", quote(&schema));
    let Owner { kind, object, column, shown: of } = owner;
    Ok(Definition::of(&schema.clone(), move |ddl| {
        let db = ddl.db();
        db.own_table(&schema, "tsql_property")?;
        let connection = db.connection()?;
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &database);
        let place = "kind = ?1 AND object = ?2 AND part = ?3 AND name = ?4";
        let with = params![kind, object, column, name];
        let sql = format!("SELECT 1 FROM {own} WHERE {place}");
        let there = connection.prepare(&sql).and_then(|mut found| found.exists(with));
        match (procedure, there.map_err(fail)?) {
            ("sp_addextendedproperty", true) => return Err(Error::PropertyExists { name, of }),
            ("sp_addextendedproperty", false) => {
                let sql = format!("INSERT INTO {own} VALUES (?1, ?2, ?3, ?4, ?5)");
                let with = params![kind, object, column, name, value];
                connection.execute(&sql, with).map_err(fail)?;
            }
            (_, false) => return Err(Error::PropertyMissing { name, of }),
            (_, true) if drops => {
                let sql = format!("DELETE FROM {own} WHERE {place}");
                connection.execute(&sql, with).map_err(fail)?;
            }
            (_, true) => {
                let sql = format!("UPDATE {own} SET value = ?5 WHERE {place}");
                let with = params![kind, object, column, name, value];
                connection.execute(&sql, with).map_err(fail)?;
            }
        }
        Ok(())
    }))
}

/// Returns what a property belongs to, in a current database.
fn property_owner(
    (db, database): (&mut Db, &str),
    levels: &[(Option<String>, Option<String>); 3],
    bad: &dyn Fn() -> Error,
) -> Result<Owner> {
    let missing = |of: &str| Error::PropertyTarget { of: of.to_owned() };
    let [zero, one, two] = levels;
    let (kind, column) = ("D", String::new());
    let (Some(kind0), Some(schema)) = zero else {
        let nothing = levels.iter().all(|(kind, name)| kind.is_none() && name.is_none());
        let shown = "object specified".to_owned();
        let owner = Owner { kind, object: String::new(), column, shown };
        return if nothing { Ok(owner) } else { Err(bad()) };
    };
    if !matches!(kind0.as_str(), "SCHEMA" | "USER") {
        return Err(Error::feature(format!("extended properties of a {kind0}")));
    }
    let known = db.schemas(database)?;
    let fixed = crate::run::catalog::model::FIXED.iter().map(|(name, _)| *name);
    let mut all = fixed.chain(known.iter().map(String::as_str));
    let found = all.find(|known| known.eq_ignore_ascii_case(schema)).map(str::to_owned);
    let schema = found.ok_or_else(|| missing(schema))?;
    let (Some(kind1), Some(object)) = one else {
        let nothing = [one, two].iter().all(|(kind, name)| kind.is_none() && name.is_none());
        let owner = Owner { kind: "S", object: schema.clone(), column, shown: schema };
        return if nothing { Ok(owner) } else { Err(bad()) };
    };
    let full = Name(vec![schema.clone(), object.clone()]);
    let shown = format!("{schema}.{object}");
    let table = db.find(&full, database)?;
    let exists = match kind1.as_str() {
        "TABLE" => table.as_ref().is_some_and(|table| table.kind == TableKind::Table),
        "VIEW" => db.module(&full, database, "V")?.is_some(),
        "PROCEDURE" => db.module(&full, database, "P")?.is_some(),
        _ => return Err(Error::feature(format!("extended properties of a {kind1}"))),
    };
    if !exists {
        return Err(missing(&shown));
    }
    let (_, _, stored) = db.place(&full, database)?;
    let (Some(kind2), Some(column)) = two else {
        let nothing = two.0.is_none() && two.1.is_none();
        let owner = Owner { kind: "O", object: stored, column, shown };
        return if nothing { Ok(owner) } else { Err(bad()) };
    };
    if kind2 != "COLUMN" || kind1 == "PROCEDURE" {
        return Err(Error::feature(format!("extended properties of a {kind2}")));
    }
    let shown = format!("{shown}.{column}");
    let facts = crate::run::catalog::facts::read(db, database)?;
    let id = crate::run::catalog::model::object_id(&stored);
    let mut columns = facts.columns.iter().filter(|found| found.object == id);
    if !columns.any(|found| found.column.name.eq_ignore_ascii_case(column)) {
        return Err(missing(&shown));
    }
    Ok(Owner { kind: "C", object: stored, column: column.clone(), shown })
}

impl Db {
    /// Forgets the properties of an object and its columns, or of one column; of a schema, if it
    /// is one.
    pub(crate) fn forget_properties(
        &mut self,
        (schema, database): (&str, &str),
        (kind, object): (&str, &str),
        column: Option<&str>,
    ) -> Result<()> {
        let what = match (kind, column) {
            ("S", _) => "kind = 'S' AND ?2 IS NULL",
            (_, Some(_)) => "kind = 'C' AND part = ?2",
            (_, None) => "kind IN ('O', 'C') AND ?2 IS NULL",
        };
        let sql =
            format!("DELETE FROM {}.tsql_property WHERE object = ?1 AND {what}", quote(schema));
        self.on_properties((schema, database), &sql, params![object, column])?;
        // what is dropped leaves no permissions behind for what gets its name
        match (kind, column) {
            ("S", _) => self.move_permissions((schema, database), &On::schema(object), None),
            ("O", None) => self.move_permissions((schema, database), &On::object(object), None),
            _ => Ok(()),
        }
    }

    /// Gives the properties of a table, or of its column, the new name.
    pub(crate) fn rename_properties(
        &mut self,
        place: (&str, &str),
        object: &str,
        column: Option<&str>,
        new: &str,
    ) -> Result<()> {
        let own = format!("UPDATE {}.tsql_property SET", quote(place.0));
        let sql = match column {
            Some(_) => format!("{own} part = ?3 WHERE object = ?1 AND kind = 'C' AND part = ?2"),
            None => {
                format!("{own} object = ?3 WHERE object = ?1 AND kind IN ('O', 'C') AND ?2 IS NULL")
            }
        };
        self.on_properties(place, &sql, params![object, column, new])
    }

    fn on_properties(
        &mut self,
        (schema, database): (&str, &str),
        sql: &str,
        with: &[&dyn rusqlite::ToSql],
    ) -> Result<()> {
        let kernels = self.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, database);
        let connection = self.connection()?;
        if has_table(connection, schema, "tsql_property").map_err(fail)? {
            connection.execute(sql, with).map_err(fail)?;
        }
        Ok(())
    }
}
