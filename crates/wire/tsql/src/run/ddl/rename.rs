//! `sp_rename`: columns, tables, indexes, constraints, functions and sequences.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use super::super::db::failure;
use super::column::computed_of;
use super::constraint::has_object;
use super::edit::set_text;
use super::index::index_name;
use super::text::TableText;
use super::{Ddl, Definition};
use crate::ast::Name;
use crate::error::{Error, Result};
use crate::functions::wanted::parts;
use crate::name::{ROW_ID, is_global, quote};
use crate::run::catalog::model::{
    CONSTRAINT_SCHEMA, DESCENDING, INCLUDED, NULLS, OWN, SEPARATOR, Trust, constraint_place,
    schema_and_name,
};
use crate::run::catalog::named::{has_table, one};
use crate::run::catalog::{Table, TableKind};
use crate::run::gate::{On, is_own};

/// The tables of [`OWN`] that also name one of its columns.
pub(super) const OWN_COLUMNS: [&str; 4] =
    ["tsql_identity", "tsql_default", "tsql_column", "tsql_alias"];

/// Lists of a table's columns: the table of ours, its list, and its column with the table's name.
const LISTS: [(&str, &str, &str); 2] =
    [("tsql_constraint", "columns", "table_name"), ("tsql_unchecked", "parents", "parent")];

/// Returns the name in SQLite of an object in a schema.
pub(super) fn stored_name(schema: &str, object: &str) -> String {
    if schema == "dbo" { object.to_owned() } else { format!("{schema}.{object}") }
}

impl Ddl<'_> {
    /// Gives an object a new name, as `kind` says: COLUMN, INDEX, or OBJECT for tables,
    /// constraints, functions and sequences. The new name is taken as it is.
    pub(crate) fn renamed<'d>(
        &mut self,
        object: &str,
        new: &'d str,
        kind: Option<&str>,
    ) -> Result<Definition<'d>> {
        let name = parts(object);
        let kind = kind.map(str::to_ascii_uppercase);
        match kind.as_deref() {
            Some("COLUMN") => {
                let (table, column) = self.inside(&name, "COLUMN")?;
                self.gate().admit_alter(&table)?;
                let schema = table.schema.clone();
                Ok(Definition::of(&schema, move |ddl| ddl.rename_column(&table, &column, new)))
            }
            Some("INDEX") => {
                let (table, index) = self.inside(&name, "INDEX")?;
                self.gate().admit_alter(&table)?;
                let schema = table.schema.clone();
                Ok(Definition::of(&schema, move |ddl| ddl.rename_index(&table, &index, new)))
            }
            None | Some("OBJECT") => self.rename_object(&name, new),
            Some(other) => Err(Error::unsupported(format!("sp_rename of a {other}"))),
        }
    }

    /// Splits `table.part`.
    fn inside(&mut self, name: &Name, kind: &'static str) -> Result<(Arc<Table>, String)> {
        let mut above = name.0.clone();
        let part = above.pop().unwrap_or_default();
        let found = if above.is_empty() { None } else { self.find(&Name(above))? };
        let table = found.filter(|table| table.kind == TableKind::Table);
        Ok((table.ok_or(Error::RenameAmbiguous { kind })?, part))
    }

    fn rename_column(&mut self, table: &Arc<Table>, column: &str, new: &str) -> Result<()> {
        let found = table.column(column).ok_or(Error::RenameAmbiguous { kind: "COLUMN" })?;
        let old = found.name.clone();
        if old.eq_ignore_ascii_case("rowid") {
            // SQLite takes the name for that of the row's number
            return Err(Error::feature("sp_rename of a column named rowid"));
        }
        if new.eq_ignore_ascii_case(ROW_ID) {
            return Err(Error::unsupported("a column named _rowid_"));
        }
        let same = |name: &str| name.eq_ignore_ascii_case(new);
        if table.columns.iter().any(|own| own.name != old && same(&own.name)) {
            return Err(Error::RenameTaken { name: new.to_owned(), kind: "COLUMN" });
        }
        let named = self.db.named_constraints(table)?;
        let conditions = named.iter().filter(|found| !found.text.is_empty() && found.kind != "D");
        let computed = computed_of(table, &old);
        if conditions.into_iter().any(|found| found.uses(&old)) || !computed.is_empty() {
            let name = format!("{}.{old}", table.object_name());
            return Err(Error::RenameDependent { name });
        }
        let sql =
            format!("ALTER TABLE {} RENAME COLUMN {} TO {}", table.sql(), quote(&old), quote(new));
        self.db.sql(&sql, &table.database)?;
        for own in OWN_COLUMNS {
            let set = "column_name = ?2 WHERE table_name = ?1 AND column_name = ?3 COLLATE NOCASE";
            self.change_own(table, own, set, &[&table.name, new, &old])?;
        }
        let place = (table.schema.as_str(), table.database.as_str());
        self.db.rename_properties(place, &table.name, Some(&old), new)?;
        self.rename_in_lists(table, &old, new)
    }

    /// Renames a column in the lists of constraints.
    fn rename_in_lists(&mut self, table: &Table, old: &str, new: &str) -> Result<()> {
        let renamed = |part: &str| match part.trim_end_matches([DESCENDING, INCLUDED]) {
            name if name.eq_ignore_ascii_case(old) => format!("{new}{}", &part[name.len()..]),
            _ => part.to_owned(),
        };
        let kernels = self.db.kernels.clone();
        let own = quote(&table.schema);
        let connection = self.db.connection()?;
        let change = || -> rusqlite::Result<()> {
            for (notes, list, of) in LISTS {
                if !has_table(connection, &table.schema, notes)? {
                    continue;
                }
                let read = format!("SELECT rowid, {list} FROM {own}.{notes} WHERE {of} = ?1");
                let write = format!("UPDATE {own}.{notes} SET {list} = ?2 WHERE rowid = ?1");
                let mut statement = connection.prepare(&read)?;
                let rows =
                    statement.query_map([&table.name], |row| Ok((row.get(0)?, row.get(1)?)))?;
                for (rowid, columns) in rows.collect::<rusqlite::Result<Vec<(i64, String)>>>()? {
                    let names: Vec<String> = columns.split(SEPARATOR).map(renamed).collect();
                    let columns = names.join(&SEPARATOR.to_string());
                    connection.execute(&write, rusqlite::params![rowid, columns])?;
                }
            }
            Ok(())
        };
        change().map_err(|error| failure(&kernels, &error, &table.database))
    }

    /// Changes rows of a table of ours, if the database has it.
    fn change_own(&mut self, table: &Table, own: &str, set: &str, with: &[&str]) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let schema = quote(&table.schema);
        let connection = self.db.connection()?;
        let change = || -> rusqlite::Result<()> {
            if has_table(connection, &table.schema, own)? {
                let sql = format!("UPDATE {schema}.{own} SET {set}");
                connection.execute(&sql, rusqlite::params_from_iter(with))?;
            }
            Ok(())
        };
        change().map_err(|error| failure(&kernels, &error, &table.database))
    }

    fn rename_index(&mut self, table: &Arc<Table>, index: &str, new: &str) -> Result<()> {
        let named = self.db.named_constraints(table)?;
        let constraint = named
            .iter()
            .find(|found| found.kind != "I" && found.name.eq_ignore_ascii_case(index))
            .filter(|found| matches!(found.kind.as_str(), "PK" | "UQ"));
        if let Some(found) = constraint {
            return self.rename_constraint(table, &found.name.clone(), new);
        }
        let kernels = self.db.kernels.clone();
        let all = crate::run::catalog::facts::indexes(self.db.connection()?, table, &named)
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        let mut names = all.into_iter().filter_map(|index| index.name);
        let Some(old) = names.find(|name| name.eq_ignore_ascii_case(index)) else {
            return Err(Error::RenameAmbiguous { kind: "INDEX" });
        };
        self.move_index(table, &old, new)?;
        let set = "name = ?2 WHERE table_name = ?1 AND name = ?3 AND kind = 'I'";
        self.change_own(table, "tsql_constraint", set, &[&table.name, new, &old])
    }

    fn rename_object<'d>(&mut self, name: &Name, new: &'d str) -> Result<Definition<'d>> {
        if new.contains('.') {
            // it would be an object of another schema
            return Err(Error::feature("a name with a point in it"));
        }
        if let Some(renamed) = self.rename_function(name, new)? {
            return Ok(renamed);
        }
        if let Some(table) = self.find(name)? {
            self.gate().admit_alter(&table)?;
            if table.kind != TableKind::Table || table.schema == "temp" || is_global(&table.name) {
                return Err(Error::unsupported("sp_rename of a view or of a temporary table"));
            }
            let schema = table.schema.clone();
            return Ok(Definition::of(&schema, move |ddl| ddl.rename_table(&table, new)));
        }
        if let Some(sequence) = self.db.sequence(name, &self.state.database)? {
            let (schema, database) = (sequence.schema.clone(), sequence.database.clone());
            self.gate().admit_alter_of((&schema, &database), &sequence.name)?;
            if self.default_with(&sequence)?.is_some() {
                return Err(Error::RenameDependent { name: name.text() });
            }
            let stored = stored_name(&schema_and_name(&sequence.name).0, new);
            return Ok(Definition::of(&sequence.schema.clone(), move |ddl| {
                let place = (schema.as_str(), database.as_str());
                let case_only = stored.eq_ignore_ascii_case(&sequence.name);
                ddl.refuse_taken(place, &stored, case_only)?;
                ddl.move_noted(place, "tsql_sequence", &sequence.name, &stored)?;
                ddl.db.move_permissions(place, &On::object(&sequence.name), Some(&stored))
            }));
        }
        let missing = || Error::RenameMissing { name: name.text() };
        let owner = self.owner_of(name)?.ok_or_else(missing)?;
        let table = self.find(&owner)?.ok_or_else(missing)?;
        self.gate().admit_alter(&table)?;
        let (schema, old) = (table.schema.clone(), name.object().to_owned());
        Ok(Definition::of(&schema, move |ddl| ddl.rename_constraint(&table, &old, new)))
    }

    /// Renames a function; its text stays as it is. None if there is none of the name.
    fn rename_function(&mut self, name: &Name, new: &str) -> Result<Option<Definition<'static>>> {
        let (schema, database, stored) = self.db.place(name, &self.state.database)?;
        let kernels = self.db.kernels.clone();
        let found = one(self.db.connection()?, &schema, &stored)
            .map_err(|error| failure(&kernels, &error, &database))?;
        let Some((stored, "FN" | "IF" | "TF", ..)) = found else { return Ok(None) };
        let place = (schema.as_str(), database.as_str());
        self.gate().admit_alter_of(place, &stored)?;
        if self.keeper(place, &stored)?.is_some() {
            return Err(Error::RenameDependent { name: name.text() });
        }
        let renamed = stored_name(&schema_and_name(&stored).0, new);
        if new.is_empty() || is_own(&renamed) || new.starts_with('#') {
            return Err(Error::feature(format!("a function named {renamed}")));
        }
        Ok(Some(Definition::of(&schema.clone(), move |ddl| {
            let place = (schema.as_str(), database.as_str());
            ddl.refuse_taken(place, &renamed, renamed.eq_ignore_ascii_case(&stored))?;
            ddl.move_noted(place, "tsql_module", &stored, &renamed)?;
            ddl.db.move_permissions(place, &On::object(&stored), Some(&renamed))
        })))
    }

    /// Returns the table that a constraint belongs to.
    pub(super) fn owner_of(&mut self, name: &Name) -> Result<Option<Name>> {
        let database = self.state.database.clone();
        let schema = self.db.schema(&database)?;
        let kernels = self.db.kernels.clone();
        let connection = self.db.connection()?;
        let read = || -> rusqlite::Result<Option<String>> {
            if !has_table(connection, &schema, "tsql_constraint")? {
                return Ok(None);
            }
            let sql = format!(
                "SELECT table_name FROM {}.tsql_constraint WHERE name = ?1 AND kind <> 'I' \
                 AND {CONSTRAINT_SCHEMA} = ?2",
                quote(&schema)
            );
            let stored = stored_name(name.part(1).unwrap_or("dbo"), name.object());
            let (place, name) = constraint_place(&stored);
            connection.query_row(&sql, [name, place], |row| row.get(0)).optional()
        };
        let found = read().map_err(|error| failure(&kernels, &error, &database))?;
        Ok(found.map(|table| {
            let (schema, table) = schema_and_name(&table);
            Name(vec![schema, table])
        }))
    }

    fn rename_table(&mut self, table: &Arc<Table>, new: &str) -> Result<()> {
        let (schema, _) = schema_and_name(&table.name);
        let stored = stored_name(&schema, new);
        let place = (table.schema.as_str(), table.database.as_str());
        self.refuse_taken(place, &stored, stored.eq_ignore_ascii_case(&table.name))?;
        if new.is_empty() || stored.starts_with("sqlite_") || is_own(&stored) {
            return Err(Error::feature(format!("a table named {stored}")));
        }
        self.move_table(table, &stored)?;
        self.db.move_permissions(place, &On::object(&table.name), Some(&stored))
    }

    /// Gives a table another name in SQLite, with all that is noted of it but permissions.
    pub(super) fn move_table(&mut self, table: &Arc<Table>, stored: &str) -> Result<()> {
        let beside = self.indexes_beside(table)?;
        let sql = format!("ALTER TABLE {} RENAME TO {}", table.sql(), quote(stored));
        self.db.sql(&sql, &table.database)?;
        let renamed = Table { name: stored.to_owned(), ..(**table).clone() };
        let moved: Vec<(String, String)> = beside
            .into_iter()
            .map(|name| {
                let rest = name.get(table.name.len()..).unwrap_or_default();
                let new = format!("{stored}{rest}");
                (name, new)
            })
            .collect();
        self.rename_in_schema(&renamed, &moved)?;
        let place = (table.schema.as_str(), table.database.as_str());
        self.db.rename_properties(place, &table.name, None, stored)?;
        for own in OWN {
            self.change_own(
                table,
                own,
                "table_name = ?2 WHERE table_name = ?1",
                &[&table.name, stored],
            )?;
        }
        let set = "parent = ?2 WHERE parent = ?1";
        self.change_own(table, "tsql_unchecked", set, &[&table.name, stored])
    }

    /// Gives a view, procedure or sequence another name in the table of ours that has it.
    pub(super) fn move_noted(
        &mut self,
        place: (&str, &str),
        own: &str,
        old: &str,
        stored: &str,
    ) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let sql =
            format!("UPDATE {}.{own} SET name = ?2 WHERE name = ?1 COLLATE NOCASE", quote(place.0));
        let result = self.db.connection()?.execute(&sql, [old, stored]);
        result.map_err(|error| failure(&kernels, &error, place.1))?;
        self.db.rename_properties(place, old, None, stored)
    }

    fn rename_constraint(&mut self, table: &Arc<Table>, name: &str, new: &str) -> Result<()> {
        let named = self.db.named_constraints(table)?;
        let found = named
            .iter()
            .find(|found| found.kind != "I" && found.name.eq_ignore_ascii_case(name))
            .cloned()
            .ok_or_else(|| Error::RenameMissing { name: name.to_owned() })?;
        let (schema, _) = schema_and_name(&table.name);
        let place = (table.schema.as_str(), table.database.as_str());
        let case_only = found.name.eq_ignore_ascii_case(new);
        self.refuse_taken(place, &stored_name(&schema, new), case_only)?;
        let sql = self.table_text(table)?;
        let mut text = TableText::parse(&sql);
        if found.trust == Trust::Disabled || found.is_by_query()? {
            // it is not in the table's text
        } else if text.as_mut().is_some_and(|text| text.rename_constraint(&found.name, new)) {
            let text = text.map(|text| text.text()).unwrap_or_default();
            let own = quote(&table.schema);
            self.edit_schema(table, None, |connection| set_text(connection, &own, table, &text))?;
        } else if matches!(found.kind.as_str(), "PK" | "UQ") {
            self.move_index(table, &found.name, new)?;
        } else if found.kind != "D" {
            return Err(Error::feature("sp_rename of a constraint that is written in this way"));
        }
        let set = "name = ?2 WHERE table_name = ?1 AND name = ?3 AND kind <> 'I'";
        self.change_own(table, "tsql_constraint", set, &[&table.name, new, &found.name])?;
        let set = "name = ?2 WHERE table_name = ?1 AND name = ?3";
        self.change_own(table, "tsql_unchecked", set, &[&table.name, new, &found.name])
    }

    fn refuse_taken(
        &mut self,
        (schema, database): (&str, &str),
        stored: &str,
        case_only: bool,
    ) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let taken = has_object(self.db.connection()?, schema, stored)
            .map_err(|error| failure(&kernels, &error, database))?;
        let (_, name) = schema_and_name(stored);
        match taken && !case_only {
            true => Err(Error::RenameTaken { name, kind: "OBJECT" }),
            false => Ok(()),
        }
    }

    /// Renames an index of CREATE INDEX, or of a key that ALTER TABLE added, and the one beside it.
    fn move_index(&mut self, table: &Table, old: &str, new: &str) -> Result<()> {
        let (from, to) = (index_name(&table.name, old), index_name(&table.name, new));
        let beside = self.indexes_beside(table)?;
        let has = |name: &str| beside.iter().any(|own| own.eq_ignore_ascii_case(name));
        if !has(&from) {
            return Err(Error::feature("sp_rename of an index that SQLite itself named"));
        }
        if has(&to) && !to.eq_ignore_ascii_case(&from) {
            return Err(Error::RenameTaken { name: new.to_owned(), kind: "INDEX" });
        }
        let twins = [String::new(), NULLS.to_owned()];
        let all = twins.map(|suffix| (format!("{from}{suffix}"), format!("{to}{suffix}")));
        let moved: Vec<_> = all.into_iter().filter(|(from, _)| has(from)).collect();
        self.rename_in_schema(table, &moved)
    }

    /// Returns the names of the table's indexes that have a text of their own.
    fn indexes_beside(&mut self, table: &Table) -> Result<Vec<String>> {
        let kernels = self.db.kernels.clone();
        let sql = format!(
            "SELECT name FROM {}.sqlite_schema WHERE type = 'index' AND tbl_name = ?1 \
             AND sql IS NOT NULL AND substr(name, 1, length(?2)) = ?2",
            quote(&table.schema)
        );
        let read = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
            let mut statement = connection.prepare(&sql)?;
            let with = [table.name.as_str(), &format!("{}~", table.name)];
            statement.query_map(with, |row| row.get(0))?.collect()
        };
        read(self.db.connection()?).map_err(|error| failure(&kernels, &error, &table.database))
    }

    fn rename_in_schema(&mut self, table: &Table, moved: &[(String, String)]) -> Result<()> {
        if moved.is_empty() {
            return Ok(());
        }
        let own = quote(&table.schema);
        self.edit_schema(table, None, |connection| {
            let read = format!("SELECT sql FROM {own}.sqlite_schema WHERE name = ?1");
            let write =
                format!("UPDATE {own}.sqlite_schema SET name = ?2, sql = ?3 WHERE name = ?1");
            for (from, to) in moved {
                let text: String = connection.query_row(&read, [from], |row| row.get(0))?;
                // The index's name is the first one in the text.
                let text = text.replacen(&quote(from), &quote(to), 1);
                connection.execute(&write, [from, to, &text])?;
            }
            Ok(())
        })
    }
}
