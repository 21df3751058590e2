//! ALTER TABLE ADD and DROP of constraints.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::super::db::{Db, failure};
use super::super::messages::shown;
use super::Ddl;
use super::computed::refuse_computed;
use super::edit::set_text;
use super::index::{KeyColumn, drop_texts, index_name, unique_texts};
use super::table::{NamedConstraint, marked, note_constraints, offered};
use super::text::TableText;
use crate::ast::{Constraint, ConstraintKind, Expr, Filled};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::facts::{primary_names, read};
use crate::run::catalog::model::{
    CONSTRAINT_SCHEMA, Trust, constraint_place, made_name, names, object_id, schema_and_name,
};
use crate::run::catalog::named::has_table;
use crate::run::catalog::{Table, TableColumn, triggers};
use crate::value::dateparse::DateText;
use crate::value::{convert, storage};
use tdekit_wire_tds::{Length, SqlType, Value};

const TEXT: SqlType = SqlType::NVarChar(Length::Max);

/// The definition of a DEFAULT if there is none, but SQLite has its own.
pub(super) const NO_DEFAULT: &str = "NULL";

impl Db {
    /// Returns the constraints and recorded indexes of a table, as stored in `tsql_constraint`.
    pub(in crate::run) fn named_constraints(
        &mut self,
        table: &Table,
    ) -> Result<Vec<crate::run::catalog::model::Named>> {
        let kernels = self.kernels.clone();
        crate::run::catalog::facts::constraints(self.connection()?, table)
            .map_err(|error| failure(&kernels, &error, &table.database))
    }
}

impl Ddl<'_> {
    /// Adds a constraint that no query checks; `column` is the one in whose definition it appears.
    /// With `unchecked`, rows may violate a CHECK or a foreign key.
    pub(super) fn add_constraint(
        &mut self,
        table: &Arc<Table>,
        constraint: &Constraint,
        column: Option<&str>,
        unchecked: bool,
    ) -> Result<()> {
        let given = constraint.name.as_deref();
        let own: Vec<String> = column.map(str::to_owned).into_iter().collect();
        match &constraint.kind {
            ConstraintKind::Primary(columns) | ConstraintKind::Unique(columns) => {
                let own: Vec<(String, bool)> = own.into_iter().map(|name| (name, false)).collect();
                let columns = if columns.is_empty() { &own } else { columns };
                super::index::check_key(columns.iter().map(|(name, _)| name))?;
                let primary = matches!(constraint.kind, ConstraintKind::Primary(_));
                self.add_key(table, given, primary, columns)
            }
            ConstraintKind::Check(expr, text) => {
                self.add_check(table, given, (expr, text), own, unchecked)
            }
            ConstraintKind::Foreign { .. } => {
                self.add_foreign(table, given, constraint, &own, unchecked)
            }
            ConstraintKind::Default(text, column) => self.add_default(table, given, text, column),
        }
    }

    /// Returns the constraint's name: as given, which must be free, or generated as by SQL Server.
    pub(super) fn constraint_name(
        &mut self,
        table: &Table,
        given: Option<&str>,
        kind: &str,
        columns: &[String],
    ) -> Result<String> {
        let kernels = self.db.kernels.clone();
        let connection = self.db.connection()?;
        let taken = |name: &str| {
            is_taken(connection, table, name)
                .map_err(|error| failure(&kernels, &error, &table.database))
        };
        if let Some(name) = given {
            let error = Error::ObjectExists { name: name.to_owned() };
            return if taken(name)? { Err(error) } else { Ok(name.to_owned()) };
        }
        let bare = columns.join("_");
        let mut name = made_name(kind, &table.name, &bare);
        let mut number = 0;
        while taken(&name)? {
            number += 1;
            name = made_name(kind, &table.name, &format!("{bare}{number}"));
        }
        Ok(name)
    }

    /// PRIMARY KEY or UNIQUE: an index beside the table, whose own text stays.
    fn add_key(
        &mut self,
        table: &Arc<Table>,
        given: Option<&str>,
        primary: bool,
        columns: &[(String, bool)],
    ) -> Result<()> {
        let kind = if primary { "PK" } else { "UQ" };
        let used = |own: &str| columns.iter().any(|(name, _)| name.eq_ignore_ascii_case(own));
        refuse_computed(&table.columns, used, "a key")?;
        if primary && !self.primary_key(table)?.is_empty() {
            return Err(Error::PrimaryExists { table: schema_and_name(&table.name).1 });
        }
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        for (name, down) in columns {
            let column = super::index::key_column(table, name)?;
            if !storage::comparable(column.ty) {
                let ty = crate::value::type_name(column.ty);
                return Err(Error::feature(format!("a key of type {ty}")));
            }
            if primary && column.nullable {
                return Err(Error::NullableKey { table: schema_and_name(&table.name).1 });
            }
            keys.push(KeyColumn {
                name: &column.name,
                ty: column.ty,
                collation: column.collation,
                nullable: column.nullable,
                descending: *down,
            });
            found.push(column);
        }
        let names: Vec<String> = found.iter().map(|column| column.name.clone()).collect();
        let name = self.constraint_name(table, given, kind, &names)?;
        if let Some(key) = self.duplicate_row(table, &found, None)? {
            let table = table.object_name();
            return Err(Error::DuplicateInKey { table, index: name, key });
        }
        let index = index_name(&table.name, &name);
        for text in unique_texts((&table.schema, &table.name, &index), &keys, None) {
            self.db.sql(&text, &table.database)?;
        }
        let columns: Vec<(String, bool)> =
            names.into_iter().zip(columns.iter().map(|(_, down)| *down)).collect();
        let text = String::new();
        let named = NamedConstraint { name, kind, columns: marked(&columns), text };
        note_constraints(self.db, &table.schema, &table.name, &[named])
    }

    /// Returns the names of the primary key's columns; none without such a key.
    pub(super) fn primary_key(&mut self, table: &Table) -> Result<Vec<String>> {
        let kernels = self.db.kernels.clone();
        primary_names(self.db.connection()?, table)
            .map_err(|error| failure(&kernels, &error, &table.database))
    }

    /// Returns the values of a key that more than one row has, as shown in messages; of the rows
    /// that meet a condition, if there is one.
    pub(super) fn duplicate_row(
        &mut self,
        table: &Table,
        key: &[&TableColumn],
        condition: Option<&str>,
    ) -> Result<Option<String>> {
        let names: Vec<String> = key.iter().map(|column| quote(&column.name)).collect();
        let names = names.join(", ");
        let filter = condition.map_or(String::new(), |text| format!(" WHERE {text}"));
        let sql = format!(
            "SELECT {names} FROM {}{filter} GROUP BY {names} HAVING count(*) > 1",
            table.sql()
        );
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let connection = self.db.connection()?;
        let mut statement = connection.prepare(&sql).map_err(fail)?;
        let mut rows = statement.query([]).map_err(fail)?;
        let Some(row) = rows.next().map_err(fail)? else { return Ok(None) };
        let stored = (0..key.len()).map(|at| row.get_ref(at)).collect::<rusqlite::Result<Vec<_>>>();
        shown_key(key, &stored.map_err(fail)?).map(Some)
    }

    /// A CHECK that is in the table's own text: it calls no functions.
    fn add_check(
        &mut self,
        table: &Arc<Table>,
        given: Option<&str>,
        (expr, text): (&Expr, &str),
        columns: Vec<String>,
        unchecked: bool,
    ) -> Result<()> {
        let name = self.check_name(table, given, text, &columns)?;
        let condition = self.inline_condition(expr, offered(&table.columns))?;
        match unchecked {
            true => self.note_trust(table, &name, Trust::Untrusted, None)?,
            false => self.refuse_violations(table, &name, &condition)?,
        }
        self.add_item(table, &format!("CONSTRAINT {} CHECK ({condition})", quote(&name)))?;
        self.note_check(table, name, columns, text)
    }

    /// Returns the name of a CHECK that may be added.
    pub(super) fn check_name(
        &mut self,
        table: &Table,
        given: Option<&str>,
        text: &str,
        columns: &[String],
    ) -> Result<String> {
        refuse_computed(&table.columns, |own| names(text, own), "a CHECK")?;
        self.constraint_name(table, given, "CK", columns)
    }

    /// Records a CHECK that was added.
    pub(super) fn note_check(
        &mut self,
        table: &Table,
        name: String,
        columns: Vec<String>,
        text: &str,
    ) -> Result<()> {
        let text = format!("({text})");
        let named = NamedConstraint { name, kind: "C", columns, text };
        note_constraints(self.db, &table.schema, &table.name, &[named])
    }

    /// Returns true if a query finds a row.
    pub(super) fn finds(&mut self, sql: &str, table: &Table) -> Result<bool> {
        let kernels = self.db.kernels.clone();
        let found = self.db.connection()?.query_row(sql, [], |_| Ok(())).optional();
        Ok(found.map_err(|error| failure(&kernels, &error, &table.database))?.is_some())
    }

    fn add_default(
        &mut self,
        table: &Arc<Table>,
        given: Option<&str>,
        text: &str,
        column: &str,
    ) -> Result<()> {
        let shown = schema_and_name(&table.name).1;
        let Some(found) = table.column(column) else {
            return Err(Error::DefaultColumn { column: column.to_owned(), table: shown });
        };
        if found.identity {
            return Err(Error::DefaultOfIdentity { table: shown, column: found.name.clone() });
        }
        if found.filled != Filled::Given {
            return Err(Error::feature("a DEFAULT of a computed or rowversion column"));
        }
        if found.default.is_some() && !self.is_bare(table, &found.name)? {
            return Err(Error::DefaultExists {});
        }
        let columns = vec![found.name.clone()];
        let name = self.constraint_name(table, given, "DF", &columns)?;
        // it must be valid by itself, for future rows
        let described = TableColumn { default: Some(text.to_owned()), ..found.clone() };
        self.check_default(table, &described)?;
        self.note_default(table, &found.name, text)?;
        let text = text.to_owned();
        let named = NamedConstraint { name, kind: "D", columns, text };
        note_constraints(self.db, &table.schema, &table.name, &[named])
    }

    /// Returns true if a column's DEFAULT is the one left by a dropped constraint.
    fn is_bare(&mut self, table: &Table, column: &str) -> Result<bool> {
        let named = self.db.named_constraints(table)?;
        Ok(!named.iter().any(|found| found.kind == "D" && found.columns == [column])
            && table.column(column).and_then(|found| found.default.as_deref()) == Some(NO_DEFAULT))
    }

    pub(super) fn note_default(&mut self, table: &Table, column: &str, text: &str) -> Result<()> {
        self.db.own_table(&table.schema, "tsql_default")?;
        let sql = format!(
            "INSERT OR REPLACE INTO {}.tsql_default VALUES (?1, ?2, ?3)",
            quote(&table.schema)
        );
        self.noted(&sql, [&table.name, column, text], table)
    }

    pub(super) fn noted<const N: usize>(
        &mut self,
        sql: &str,
        with: [&str; N],
        table: &Table,
    ) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let result = self.db.connection()?.execute(sql, rusqlite::params_from_iter(with));
        result.map(|_| ()).map_err(|error| failure(&kernels, &error, &table.database))
    }

    pub(super) fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
    ) -> Result<()> {
        let named = self.db.named_constraints(table)?;
        let found = named
            .iter()
            .find(|found| found.kind != "I" && found.name.eq_ignore_ascii_case(name))
            .cloned();
        let Some(found) = found else {
            if self.has_constraint(table, name)? {
                let what = "ALTER TABLE DROP of a constraint that SQLite's own text does not name";
                return Err(Error::feature(what));
            }
            let missing = Error::NotAConstraint { name: name.to_owned() };
            return if if_exists { Ok(()) } else { Err(missing) };
        };
        match found.kind.as_str() {
            "D" => self.drop_default(table, &found.columns)?,
            "PK" | "UQ" => self.drop_key(table, &found.name, &found.columns)?,
            _ if found.trust == Trust::Disabled || found.is_by_query()? => {}
            _ => {
                let sql =
                    format!("ALTER TABLE {} DROP CONSTRAINT {}", table.sql(), quote(&found.name));
                self.db.sql(&sql, &table.database)?;
            }
        }
        if found.trust != Trust::Full {
            self.note_trust(table, &found.name, Trust::Full, None)?;
        }
        let sql = format!(
            "DELETE FROM {}.tsql_constraint WHERE table_name = ?1 AND name = ?2",
            quote(&table.schema)
        );
        self.noted(&sql, [&table.name, &found.name], table)
    }

    /// Returns true if the catalog shows a constraint of this name.
    pub(super) fn has_constraint(&mut self, table: &Table, name: &str) -> Result<bool> {
        let facts = read(self.db, &table.database)?;
        let id = object_id(&table.name);
        let mut own = facts.objects.iter().filter(|object| object.parent == id);
        Ok(own.any(|object| object.name.eq_ignore_ascii_case(name)))
    }

    /// SQLite's own DEFAULT, which rows from before ADD may need, stays: an explicit NULL hides it
    /// from new rows.
    fn drop_default(&mut self, table: &Table, columns: &[String]) -> Result<()> {
        let Some(column) = columns.first() else { return Ok(()) };
        let kernels = self.db.kernels.clone();
        let sql = "SELECT 1 FROM pragma_table_info(?1, ?2) WHERE name = ?3 COLLATE NOCASE AND \
            dflt_value IS NOT NULL";
        let own = self
            .db
            .connection()?
            .query_row(sql, [&table.name, &table.schema, column], |_| Ok(()))
            .optional()
            .map_err(|error| failure(&kernels, &error, &table.database))?;
        if own.is_some() {
            return self.note_default(table, column, NO_DEFAULT);
        }
        let sql = format!(
            "DELETE FROM {}.tsql_default WHERE table_name = ?1 AND column_name = ?2 COLLATE NOCASE",
            quote(&table.schema)
        );
        self.noted(&sql, [&table.name, column], table)
    }

    /// A key added by ALTER TABLE is an index beside the table; one of CREATE TABLE is in the
    /// table's text, and SQLite keeps its own index for it.
    fn drop_key(&mut self, table: &Table, name: &str, columns: &[String]) -> Result<()> {
        if let Some((child, key)) = self.key_reference(table, columns)? {
            return Err(Error::KeyReferenced { name: name.to_owned(), table: child, key });
        }
        let index = index_name(&table.name, name);
        let beside = format!(
            "SELECT 1 FROM {}.sqlite_schema WHERE type = 'index' AND name = '{}'",
            quote(&table.schema),
            index.replace('\'', "''")
        );
        if !self.finds(&beside, table)? {
            self.detach_key(table, name, &index)?;
        }
        for text in drop_texts(&table.schema, &index) {
            self.db.sql(&text, &table.database)?;
        }
        self.check_table(table)
    }

    /// Finds a foreign key that refers to these columns: its table and name.
    fn key_reference(
        &mut self,
        table: &Table,
        columns: &[String],
    ) -> Result<Option<(String, String)>> {
        let facts = read(self.db, &table.database)?;
        let id = object_id(&table.name);
        let ordinal = |name: &String| {
            table.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
        };
        let mut own: Vec<i64> = columns
            .iter()
            .filter_map(|name| ordinal(name).and_then(|at| i64::try_from(at + 1).ok()))
            .collect();
        own.sort_unstable();
        for key in facts.foreign_keys.iter().filter(|key| key.parent == id) {
            let mut there: Vec<i64> = key.columns.iter().map(|(_, there)| *there).collect();
            there.sort_unstable();
            if there == own {
                let child = facts.object(key.object).map(|object| object.name.clone());
                return Ok(Some((child.unwrap_or_default(), key.name.clone())));
            }
        }
        Ok(None)
    }

    /// Removes a key from the table's text; its index is replaced by one of the given name.
    fn detach_key(&mut self, table: &Table, name: &str, index: &str) -> Result<()> {
        let refused = || Error::feature("ALTER TABLE DROP of a key that is written in this way");
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, &table.database);
        let sql = self.table_text(table)?;
        let mut text = TableText::parse(&sql).ok_or_else(refused)?;
        let keys = text.keys();
        let at = keys
            .iter()
            .position(|key| key.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
            .ok_or_else(refused)?;
        let automatic = automatic_indexes(self.db.connection()?, table).map_err(fail)?;
        // SQLite numbers its indexes in the order of the keys, and creates none for a duplicate key
        if automatic.len() != keys.len() {
            return Err(refused());
        }
        text.remove(keys[at].item);
        let made = format!(
            "CREATE UNIQUE INDEX {} ON {} {}",
            quote(index),
            quote(&table.name),
            keys[at].columns
        );
        let own = quote(&table.schema);
        self.edit_schema(table, None, |connection| {
            let rename = format!(
                "UPDATE {own}.sqlite_schema SET name = ?2, sql = ?3 WHERE type = 'index' AND name \
                = ?1"
            );
            connection.execute(&rename, rusqlite::params![automatic[at], index, made])?;
            for (before, after) in automatic[at + 1..].iter().zip(&automatic[at..]) {
                connection.execute(&rename, rusqlite::params![before, after, None::<String>])?;
            }
            set_text(connection, &own, table, &text.text())
        })
    }

    /// Makes SQLite compare a table with its indexes: an error undoes the statement.
    fn check_table(&mut self, table: &Table) -> Result<()> {
        let kernels = self.db.kernels.clone();
        let sql = format!(
            "PRAGMA {}.integrity_check('{}')",
            quote(&table.schema),
            table.name.replace('\'', "''")
        );
        let found: String = self.ignoring_checks(|ddl| {
            let found = ddl.db.connection()?.query_row(&sql, [], |row| row.get(0));
            found.map_err(|error| failure(&kernels, &error, &table.database))
        })?;
        if found == "ok" { Ok(()) } else { Err(Error::Internal { detail: found }) }
    }
}

/// Returns true if an object or a constraint of the table's schema has this name.
pub(super) fn is_taken(
    connection: &Connection,
    table: &Table,
    name: &str,
) -> rusqlite::Result<bool> {
    let (schema, _) = schema_and_name(&table.name);
    let object = if schema == "dbo" { name.to_owned() } else { format!("{schema}.{name}") };
    has_object(connection, &table.schema, &object)
}

/// Returns true if SQLite's schema has an object or a constraint of this name, as it is stored.
pub(super) fn has_object(
    connection: &Connection,
    schema: &str,
    object: &str,
) -> rusqlite::Result<bool> {
    let own = quote(schema);
    let mut questions = vec![(format!("{own}.sqlite_schema WHERE type = 'table' AND"), object, "")];
    for notes in ["tsql_module", "tsql_sequence"] {
        if has_table(connection, schema, notes)? {
            questions.push((format!("{own}.{notes} WHERE"), object, ""));
        }
    }
    if has_table(connection, schema, "tsql_constraint")? {
        let (place, name) = constraint_place(object);
        let noted =
            format!("{own}.tsql_constraint WHERE kind <> 'I' AND {CONSTRAINT_SCHEMA} = ?2 AND");
        questions.push((noted, name, place));
    }
    if triggers::named(connection, schema, object)?.is_some() {
        return Ok(true);
    }
    for (from, name, place) in questions {
        // only one of them has a use for ?2
        let sql = format!("SELECT 1 FROM {from} name = ?1 COLLATE NOCASE AND ?2 IS NOT NULL");
        if connection.query_row(&sql, [name, place], |_| Ok(())).optional()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the indexes that SQLite created for keys in the table's text, in their order.
fn automatic_indexes(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM pragma_index_list(?1, ?2) WHERE origin IN ('pk', 'u')";
    let mut statement = connection.prepare(sql)?;
    let mut names: Vec<String> = statement
        .query_map([&table.name, &table.schema], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let number = |name: &String| {
        name.rsplit('_').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(u32::MAX)
    };
    names.sort_by_key(number);
    Ok(names)
}

/// Returns the values of a key as messages show them.
pub(crate) fn shown_key(key: &[&TableColumn], stored: &[ValueRef<'_>]) -> Result<String> {
    let mut texts = Vec::new();
    for (column, stored) in key.iter().zip(stored) {
        let value = storage::load(*stored, column.ty, &column.name)?;
        texts.push(match &value {
            Value::Null => "<NULL>".to_owned(),
            Value::Text(_) => shown(&value, 900),
            Value::Guid(_) => shown(&value, 900).to_lowercase(),
            Value::Binary(bytes) => {
                let digits = bytes.iter().map(|byte| format!("{byte:02X}"));
                format!("0x{}", digits.collect::<String>())
            }
            _ => match convert::convert(&value, column.ty, TEXT, 0, DateText::default())? {
                Value::Text(text) => text.into_owned(),
                _ => String::new(),
            },
        });
    }
    Ok(format!("({})", texts.join(", ")))
}
