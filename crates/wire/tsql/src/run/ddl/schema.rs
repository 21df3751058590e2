//! CREATE SCHEMA and DROP SCHEMA, and the placement of new objects.

use super::super::db::{Db, failure};
use super::constraint::has_object;
use super::{Ddl, Definition};
use crate::ast::Name;
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::model::FIXED;
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::named::has_table;
use crate::run::catalog::schemas::SYSTEM;

impl Db {
    /// Returns the schema's name as originally written.
    pub(super) fn schema_named(&mut self, database: &str, name: &str) -> Result<Option<String>> {
        let made = self.schemas(database)?;
        let mut all = FIXED.iter().map(|(name, _)| (*name).to_owned()).chain(made);
        Ok(all.find(|known| known.eq_ignore_ascii_case(name)))
    }
}

impl Ddl<'_> {
    /// Returns the name in SQLite, and the database, of an object to be created: its schema must
    /// exist and not be a system schema.
    pub(super) fn new_place(&mut self, name: &Name) -> Result<(String, String, String)> {
        let current = self.state.database.clone();
        let (schema, database, object) = self.db.place(name, &current)?;
        let Some(given) = name.part(1).filter(|_| schema != "temp") else {
            return Ok((schema, database, object));
        };
        let known = self.db.schema_named(&database, given)?;
        match known.filter(|known| !SYSTEM.contains(&known.as_str())) {
            Some(known) if known == "dbo" => Ok((schema, database, object)),
            Some(known) => Ok((schema, database, format!("{known}.{}", name.object()))),
            None => Err(Error::NoSchema { name: given.to_owned() }),
        }
    }

    /// Returns true if an object or a constraint has this name, as it is stored.
    pub(super) fn is_used(&mut self, schema: &str, database: &str, stored: &str) -> Result<bool> {
        let kernels = self.db.kernels.clone();
        let used = has_object(self.db.connection()?, schema, stored);
        used.map_err(|error| failure(&kernels, &error, database))
    }

    pub(crate) fn new_schema<'d>(
        &mut self,
        name: &'d str,
        owner: Option<&str>,
    ) -> Result<Definition<'d>> {
        if let Some(owner) = owner.filter(|owner| !owner.eq_ignore_ascii_case("dbo")) {
            return Err(Error::feature(format!("a schema of the owner {owner}")));
        }
        let database = self.state.database.clone();
        if self.db.schema_named(&database, name)?.is_some() {
            return Err(Error::ObjectExists { name: name.to_owned() });
        }
        // its objects' names begin with it in SQLite, where these have another meaning
        let lower = name.to_lowercase();
        let taken = name.contains('.')
            || ["#", "@", "sqlite_", "tsql_"].iter().any(|start| lower.starts_with(start));
        if taken {
            return Err(Error::feature(format!("a schema named {name}")));
        }
        let schema = self.db.schema(&database)?;
        let kernels = self.db.kernels.clone();
        Ok(Definition::of(&schema.clone(), move |ddl| {
            ddl.db.own_table(&schema, "tsql_schema")?;
            let sql = format!("INSERT INTO {}.tsql_schema VALUES (?1)", quote(&schema));
            let result = ddl.db.connection()?.execute(&sql, [name]);
            result.map(|_| ()).map_err(|error| failure(&kernels, &error, &database))
        }))
    }

    pub(super) fn dropped_schema(
        &mut self,
        name: &str,
        if_exists: bool,
    ) -> Result<Option<Definition<'static>>> {
        let database = self.state.database.clone();
        let Some(known) = self.db.schema_named(&database, name)? else {
            let missing = Error::NoSuchSchema { name: name.to_owned() };
            return if if_exists { Ok(None) } else { Err(missing) };
        };
        if FIXED.iter().any(|(fixed, _)| *fixed == known) {
            return Err(Error::FixedSchema { name: known });
        }
        let schema = self.db.schema(&database)?;
        if let Some(object) = self.object_in(&schema, &known)? {
            return Err(Error::SchemaInUse { name: known, object });
        }
        let kernels = self.db.kernels.clone();
        Ok(Some(Definition::of(&schema.clone(), move |ddl| {
            let sql = format!("DELETE FROM {}.tsql_schema WHERE name = ?1", quote(&schema));
            let result = ddl.db.connection()?.execute(&sql, [&known]);
            result.map_err(|error| failure(&kernels, &error, &database))?;
            ddl.db.forget_properties((&schema, &database), ("S", &known), None)
        })))
    }

    /// Returns the first object of a schema.
    fn object_in(&mut self, schema: &str, own: &str) -> Result<Option<String>> {
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, schema);
        let connection = self.db.connection()?;
        let mut lists = vec!["sqlite_schema WHERE type = 'table' AND".to_owned()];
        for own in ["tsql_module", "tsql_sequence", "tsql_type"] {
            if has_table(connection, schema, own).map_err(fail)? {
                lists.push(format!("{own} WHERE"));
            }
        }
        for from in lists {
            let sql = format!(
                "SELECT name FROM {}.{from} instr(name, '.') > 1 ORDER BY name",
                quote(schema)
            );
            let mut statement = connection.prepare(&sql).map_err(fail)?;
            let names = statement.query_map([], |row| row.get::<_, String>(0)).map_err(fail)?;
            for name in names {
                let (found, object) = schema_and_name(&name.map_err(fail)?);
                if found.eq_ignore_ascii_case(own) {
                    return Ok(Some(object));
                }
            }
        }
        Ok(None)
    }
}
