//! CREATE TABLE, and the table of SELECT INTO.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::OptionalExtension;
use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Column, Generated, SqlType};

use super::super::db::{Db, View, failure};
use super::computed::{described, note_filled};
use super::constraint::has_object;
use super::foreign::{Child, Parent, changes_rows, foreign_text, in_database};
use super::index::{KeyColumn, check_key, column_list, index_name, unique_texts};
use super::{Ddl, Definition};
use crate::ast::{ColumnDef, Constraint, ConstraintKind, CreateTable, Expr, Filled, Name};
use crate::bind::check::calls_functions;
use crate::bind::{Binder, Offered, Scope, SourceScope, Variables};
use crate::error::{Ends, Error, Result};
use crate::name::{ROW_ID, is_global, quote};
use crate::plan::ColumnRef;
use crate::plan::access::{Access, Right};
use crate::plan::label::Label;
use crate::plan::routine::Local;
use crate::plan::table::Sequence;
use crate::run::catalog::model::{
    CONSTRAINT_SCHEMA, DESCENDING, SEPARATOR, constraint_place, made_name, names, schema_and_name,
};
use crate::run::catalog::named::has_table;
use crate::run::catalog::{Table, TableColumn, TableKind};
use crate::run::globals::{OWNERS, TEMPDB};
use crate::value::collation::clause;
use crate::value::storage;

/// A named constraint, as stored in `tsql_constraint`.
pub(super) struct NamedConstraint {
    pub(super) name: String,
    /// `PK`, `UQ`, `F`, `C`, `D`; `I` for an index.
    pub(super) kind: &'static str,
    pub(super) columns: Vec<String>,
    pub(super) text: String,
}

/// The constraints and indexes that a table needs besides its own text.
#[derive(Default)]
pub(super) struct Made {
    named: Vec<NamedConstraint>,
    indexes: Vec<String>,
    /// True if a CHECK calls functions.
    checked: bool,
    /// True if a foreign key changes rows.
    changing: bool,
    /// Names of constraints of other tables: one that was renamed keeps those made for it.
    taken: HashSet<String>,
}

impl Made {
    /// Names a constraint: as given, or generated as by SQL Server.
    fn name(
        &mut self,
        kind: &'static str,
        table: &str,
        given: Option<&String>,
        columns: &[String],
        text: &str,
    ) -> String {
        let mut name = given.cloned().unwrap_or_default();
        let bare = columns.join("_").replace(DESCENDING, "");
        let mut number = 0;
        let taken = |name: &String, named: &[NamedConstraint]| {
            self.taken.contains(name) || named.iter().any(|own| own.name == *name)
        };
        while name.is_empty() || given.is_none() && taken(&name, &self.named) {
            let prefix = match kind {
                "F" => "FK",
                "C" => "CK",
                "D" => "DF",
                other => other,
            };
            let suffix = if number == 0 { String::new() } else { number.to_string() };
            name = made_name(prefix, table, &format!("{bare}{suffix}"));
            number += 1;
        }
        let columns = columns.to_vec();
        let text = text.to_owned();
        self.named.push(NamedConstraint { name: name.clone(), kind, columns, text });
        name
    }
}

/// Where a constraint appears.
struct Place<'a> {
    column: Option<&'a ColumnDef>,
    all: &'a [ColumnDef],
    schema: &'a str,
    database: &'a str,
    table: &'a str,
}

impl Place<'_> {
    fn find(&self, key: &str) -> Result<&ColumnDef> {
        let found = self.all.iter().find(|column| column.name.eq_ignore_ascii_case(key));
        match found.map(|found| &found.filled) {
            Some(Filled::Computed { .. }) => Err(Error::feature("a key of a computed column")),
            _ => Ok(found.ok_or_else(|| DefinedError::NoKeyColumn { name: key.to_owned() })?),
        }
    }

    /// Returns the table, as far as a CHECK needs it.
    fn described(&self) -> Arc<Table> {
        Arc::new(Table {
            schema: self.schema.to_owned(),
            database: self.database.to_owned(),
            name: self.table.to_owned(),
            columns: self.all.iter().map(described).collect(),
            kind: TableKind::Table,
        })
    }

    /// Returns the columns that a CHECK may name.
    fn offered(&self) -> Vec<Offered> {
        let one = |column: &ColumnDef| Offered {
            name: column.name.clone(),
            ty: column.ty,
            nullable: column.nullable != Some(false),
            generated: Generated::No,
            column: ColumnRef::named(None, &column.name),
            label: Label::Implicit(column.collation),
            value: None,
        };
        self.all.iter().map(one).collect()
    }
}

/// Returns a table's columns that its own CHECK may name.
pub(super) fn offered(columns: &[TableColumn]) -> Vec<Offered> {
    let one = |column: &TableColumn| Offered {
        name: column.name.clone(),
        ty: column.ty,
        nullable: column.nullable,
        generated: Generated::No,
        column: ColumnRef::named(None, &column.name),
        label: Label::Implicit(column.collation),
        value: None,
    };
    columns.iter().map(one).collect()
}

/// Returns names of columns, descending ones marked.
pub(super) fn marked(columns: &[(String, bool)]) -> Vec<String> {
    let mark = |(name, down): &(String, bool)| {
        if *down { format!("{name}{DESCENDING}") } else { name.clone() }
    };
    columns.iter().map(mark).collect()
}

impl Ddl<'_> {
    /// CREATE TABLE; None where a loop reaches the DECLARE of a table variable again.
    pub(crate) fn new_table(&mut self, table: &CreateTable) -> Result<Option<Definition<'static>>> {
        let global = is_global(table.name.object());
        let (schema, database, mut name) = match global {
            // the name may be that of one that is about to go
            true => (self.db.attach(TEMPDB)?, TEMPDB.to_owned(), table.name.object().to_owned()),
            false => self.new_place(&table.name)?,
        };
        let variable = table.name.object().starts_with("#@");
        if schema == "temp" {
            name = match self.db.new_temporary(table.name.object(), self.state.nest) {
                Some(name) => name,
                None if variable => return Ok(None),
                None => return Err(Error::ObjectExists { name: table.name.object().to_owned() }),
            };
        } else {
            self.refuse_known(&table.name, (&schema, &database), &name)?;
        }
        if name.starts_with("sqlite_") || name.starts_with("tsql_") {
            return Err(Error::feature(format!("a table named {name}")));
        }
        let table = self.with_types(table)?;
        let mut made = Made::default();
        if !variable {
            made.taken = self.constraint_names(&schema, &name)?;
        }
        let text = self.create_text(&table, (&schema, &database), &name, &mut made)?;
        self.check_defaults(&schema, &database, &name, &table.columns)?;
        Ok(Some(Definition::of(&schema.clone(), move |ddl| {
            // another session may have been first, before the lock was taken
            if schema != "temp" {
                ddl.refuse_known(&table.name, (&schema, &database), &name)?;
            }
            if global {
                ddl.db.own_table(&schema, OWNERS)?;
                let kernels = ddl.db.kernels.clone();
                let owned = ddl.db.own_global(&schema, &name);
                owned.map_err(|error| failure(&kernels, &error, &database))?;
            }
            ddl.db.sql(&text, &database)?;
            for index in &made.indexes {
                ddl.db.sql(index, &database)?;
            }
            ddl.note_columns(&schema, &name, &table.columns)?;
            // the constraints of a table variable are never looked up
            if variable {
                return Ok(());
            }
            note_constraints(ddl.db, &schema, &name, &made.named)
        })))
    }

    /// Makes the tables of functions that are not there yet. They are known by plans alone.
    pub(crate) fn make_locals(&mut self, locals: &[Arc<Local>]) -> Result<()> {
        for local in locals {
            let kernels = self.db.kernels.clone();
            let Table { schema, database, name, .. } = &*local.table;
            let there = has_table(self.db.connection()?, schema, name);
            if there.map_err(|error| failure(&kernels, &error, database))? {
                continue;
            }
            let mut made = Made::default();
            let text = self.create_text(&local.made, (schema, database), name, &mut made)?;
            self.db.sql(&text, database)?;
            for index in &made.indexes {
                self.db.sql(index, database)?;
            }
        }
        Ok(())
    }

    /// Refuses the name of something that is there.
    fn refuse_known(
        &mut self,
        name: &Name,
        (schema, database): (&str, &str),
        stored: &str,
    ) -> Result<()> {
        // a global table that is about to go is in the file, and cannot be found
        let taken = self.find(name)?.is_some()
            || !is_global(stored) && self.is_used(schema, database, stored)?;
        match taken {
            true => Err(Error::ObjectExists { name: name.object().to_owned() }),
            false => Ok(()),
        }
    }

    /// Checks that a DEFAULT is valid by itself, for future rows.
    pub(super) fn check_defaults(
        &mut self,
        schema: &str,
        database: &str,
        name: &str,
        columns: &[ColumnDef],
    ) -> Result<()> {
        let kind = TableKind::Table;
        let (schema, database, name) = (schema.to_owned(), database.to_owned(), name.to_owned());
        let table = Table { schema, database, name, columns: Vec::new(), kind };
        for column in columns.iter().filter(|column| column.default.is_some()) {
            self.check_default(
                &table,
                &TableColumn {
                    name: column.name.clone(),
                    ty: column.ty,
                    nullable: column.nullable != Some(false),
                    identity: false,
                    default: column.default.clone(),
                    filled: Filled::Given,
                    collation: column.collation,
                },
            )?;
        }
        Ok(())
    }

    pub(super) fn check_default(&mut self, table: &Table, column: &TableColumn) -> Result<()> {
        let database = &self.state.database;
        let variables = Variables::default();
        let mut view = View { db: self.db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        let bound = binder.default(table, column);
        let sequences = binder.take_needs().sequences;
        // those who insert into the table take values without a right of theirs
        let access = |sequence: &Arc<Sequence>| Access {
            database: sequence.database.clone(),
            object: sequence.name.clone(),
            right: Right::References,
            within: None,
        };
        self.gate().admit(&sequences.iter().map(access).collect::<Vec<_>>())?;
        if let Some(text) = &column.default {
            self.admit_kept(text, table)?;
        }
        match bound {
            Err(Error::InvalidColumn { name }) => Err(Error::NotForDefault { name }),
            // a value that does not convert fails when a row uses it, as in SQL Server
            Err(error) if error.ends() >= Ends::Batch && !error.undoes() => Err(error),
            Err(error @ (Error::SequentialDefault {} | Error::Syntax { .. })) => Err(error),
            Err(error @ (Error::NextDatabase {} | Error::NotASequence { .. })) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the names of the constraints in a table's schema.
    fn constraint_names(&mut self, schema: &str, table: &str) -> Result<HashSet<String>> {
        let kernels = self.db.kernels.clone();
        let connection = self.db.connection()?;
        let read = || -> rusqlite::Result<HashSet<String>> {
            if !has_table(connection, schema, "tsql_constraint")? {
                return Ok(HashSet::new());
            }
            let sql = format!(
                "SELECT name FROM {}.tsql_constraint WHERE kind <> 'I' \
                 AND {CONSTRAINT_SCHEMA} = ?1",
                quote(schema)
            );
            let place = constraint_place(table).0;
            connection.prepare(&sql)?.query_map([place], |row| row.get(0))?.collect()
        };
        read().map_err(|error| failure(&kernels, &error, schema))
    }

    pub(super) fn note_columns(
        &mut self,
        schema: &str,
        table: &str,
        columns: &[ColumnDef],
    ) -> Result<()> {
        note_filled(self.db, schema, table, columns)?;
        self.note_aliases(schema, table, columns, false)?;
        let kernels = self.db.kernels.clone();
        for column in columns {
            if let Some((seed, increment)) = column.identity {
                self.db.own_table(schema, "tsql_identity")?;
                let sql = format!(
                    "INSERT OR REPLACE INTO {}.tsql_identity VALUES (?1, ?2, ?3, ?4, NULL)",
                    quote(schema)
                );
                let params = rusqlite::params![table, column.name, seed, increment];
                let result = self.db.connection()?.execute(&sql, params);
                result.map_err(|error| failure(&kernels, &error, schema))?;
            }
            if let Some(text) = &column.default {
                self.db.own_table(schema, "tsql_default")?;
                let sql = format!(
                    "INSERT OR REPLACE INTO {}.tsql_default VALUES (?1, ?2, ?3)",
                    quote(schema)
                );
                let params = rusqlite::params![table, column.name, text];
                let result = self.db.connection()?.execute(&sql, params);
                result.map_err(|error| failure(&kernels, &error, schema))?;
            }
        }
        Ok(())
    }

    fn create_text(
        &mut self,
        table: &CreateTable,
        (schema, database): (&str, &str),
        name: &str,
        made: &mut Made,
    ) -> Result<String> {
        let mut parts = Vec::new();
        let mut constraints: Vec<(Option<&ColumnDef>, &Constraint)> =
            table.constraints.iter().map(|constraint| (None, constraint)).collect();
        for column in &table.columns {
            let twice = table
                .columns
                .iter()
                .filter(|other| other.name.eq_ignore_ascii_case(&column.name))
                .count();
            if twice > 1 {
                let (name, table) = (column.name.clone(), name.to_owned());
                return Err(Error::DuplicateColumn { name, table });
            }
            constraints.extend(column.constraints.iter().map(|made| (Some(column), made)));
        }
        let identities = table.columns.iter().filter(|column| column.identity.is_some()).count();
        if identities > 1 {
            return Err(Error::MultipleIdentity { table: name.to_owned() });
        }
        let keys: Vec<String> = constraints
            .iter()
            .filter_map(|(column, made)| match &made.kind {
                ConstraintKind::Primary(columns) if columns.is_empty() => {
                    column.map(|column| vec![column.name.to_lowercase()])
                }
                ConstraintKind::Primary(columns) => {
                    Some(columns.iter().map(|(name, _)| name.to_lowercase()).collect())
                }
                _ => None,
            })
            .flatten()
            .collect();
        for column in &table.columns {
            let key = keys.contains(&column.name.to_lowercase());
            parts.push(column_text(column, key)?);
            if let Some(text) = &column.default {
                let columns = std::slice::from_ref(&column.name);
                made.name("D", name, column.default_name.as_ref(), columns, text);
            }
        }
        for (column, constraint) in constraints {
            let place = Place { column, all: &table.columns, schema, database, table: name };
            if let Some(text) = self.constraint_text(&place, constraint, made)? {
                parts.push(text);
            }
        }
        if made.checked && made.changing {
            return Err(Error::feature("a CHECK with functions beside a key that changes rows"));
        }
        Ok(format!("CREATE TABLE {}.{} ({})", quote(schema), quote(name), parts.join(", ")))
    }

    fn constraint_text(
        &mut self,
        place: &Place<'_>,
        constraint: &Constraint,
        made: &mut Made,
    ) -> Result<Option<String>> {
        let given = constraint.name.as_ref();
        let own: Vec<(String, bool)> =
            place.column.map(|column| (column.name.clone(), false)).into_iter().collect();
        let (name, text) = match &constraint.kind {
            ConstraintKind::Primary(columns) | ConstraintKind::Unique(columns) => {
                check_key(columns.iter().map(|(name, _)| name))?;
                let primary = matches!(&constraint.kind, ConstraintKind::Primary(_));
                let mut nullable = false;
                let columns = if columns.is_empty() { &own } else { columns };
                for (key, _) in columns {
                    let found = place.find(key)?;
                    if !storage::comparable(found.ty) {
                        let ty = crate::value::type_name(found.ty);
                        return Err(Error::feature(format!("a key of type {ty}")));
                    }
                    if primary && found.nullable == Some(true) {
                        let table = schema_and_name(place.table).1;
                        return Err(Error::NullableKey { table });
                    }
                    nullable |= !primary && found.nullable != Some(false);
                }
                let kind = if primary { "PK" } else { "UQ" };
                let name = made.name(kind, place.table, given, &marked(columns), "");
                if nullable {
                    let keys = columns.iter().map(|(key, down)| {
                        let found = place.find(key)?;
                        let nullable = found.nullable != Some(false);
                        Ok(KeyColumn {
                            name: &found.name,
                            ty: found.ty,
                            collation: found.collation,
                            nullable,
                            descending: *down,
                        })
                    });
                    let keys = keys.collect::<Result<Vec<_>>>()?;
                    let index = index_name(place.table, &name);
                    let of = (place.schema, place.table, index.as_str());
                    made.indexes.extend(unique_texts(of, &keys, None));
                    return Ok(None);
                }
                let word = if primary { "PRIMARY KEY" } else { "UNIQUE" };
                (name, format!("{word} ({})", column_list(columns)))
            }
            ConstraintKind::Check(expr, text) => {
                let mut computed = place
                    .all
                    .iter()
                    .filter(|column| matches!(column.filled, Filled::Computed { .. }));
                if computed.any(|column| names(text, &column.name)) {
                    return Err(Error::feature("a CHECK of a computed column"));
                }
                let columns: Vec<String> = own.into_iter().map(|(name, _)| name).collect();
                let name = made.name("C", place.table, given, &columns, &format!("({text})"));
                if calls_functions(expr) {
                    self.admit_check(&place.described(), (expr, text))?;
                    made.checked = true;
                    return Ok(None);
                }
                let text = self.inline_condition(expr, place.offered())?;
                (name, format!("CHECK ({text})"))
            }
            ConstraintKind::Foreign { columns, table, parents, on_delete, on_update } => {
                let own: Vec<String> = own.into_iter().map(|(name, _)| name).collect();
                let columns = if columns.is_empty() { &own } else { columns };
                let name = made.name("F", place.table, given, columns, "");
                let parent = self.parent(&name, place, columns, table, parents)?;
                let actions = [*on_delete, *on_update];
                made.changing |= changes_rows(actions);
                return Ok(Some(foreign_text(
                    &name,
                    columns,
                    &parent.name,
                    &parent.columns,
                    actions,
                )));
            }
            ConstraintKind::Default(..) => return Err(Error::feature("this constraint")),
        };
        Ok(Some(format!("CONSTRAINT {} {text}", quote(&name))))
    }

    /// Returns the parent of a foreign key: a key of a table in the same database, or the table
    /// itself, whose keys SQLite sees.
    fn parent(
        &mut self,
        key: &str,
        place: &Place<'_>,
        columns: &[String],
        parent: &Name,
        parents: &[String],
    ) -> Result<Parent> {
        if parent.0.len() > 2 {
            return Err(Error::feature("a foreign key to another database"));
        }
        if place.schema == "temp" || is_global(place.table) || is_global(parent.object()) {
            return Err(Error::feature("a foreign key of a temporary table"));
        }
        let mut own = Vec::new();
        for column in columns {
            let found = place.find(column).map_err(|_| Error::ForeignColumn {
                key: key.to_owned(),
                column: column.clone(),
                table: schema_and_name(place.table).1,
            })?;
            own.push((found.name.clone(), found.ty, found.collation));
        }
        let parent = in_database(parent, place.database);
        let (_, _, name) = self.db.place(&parent, place.database)?;
        if name.eq_ignore_ascii_case(place.table) {
            return Ok(Parent { name, columns: parents.to_vec() });
        }
        let table = self.parent_table(key, &parent)?;
        let child = Child { table: place.table, columns: own };
        self.parent_key(key, &child, &table, parents)
    }

    /// Returns a condition over a table's own columns as text that can stay in a schema.
    pub(super) fn inline_condition(
        &mut self,
        expr: &Expr,
        offered: Vec<Offered>,
    ) -> Result<String> {
        let kernels = self.db.kernels.clone();
        let database = &self.state.database;
        let variables = Variables::default();
        let mut view = View { db: self.db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        let source = SourceScope { alias: String::new(), full: None, id: None, columns: offered };
        let bound = binder.in_scope(Scope::of(vec![source]), |binder| binder.condition(expr))?;
        crate::render::inline(&bound, &kernels)
    }

    /// Returns the table of SELECT INTO.
    pub(super) fn table_for(name: &Name, columns: &[Column]) -> Result<CreateTable> {
        let mut defs = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            if column.name.is_empty() {
                return Err(Error::NoColumnName { number: at + 1, of: name.object().to_owned() });
            }
            defs.push(ColumnDef {
                name: column.name.clone(),
                ty: column.ty,
                nullable: Some(column.nullable),
                identity: None,
                default: None,
                default_name: None,
                with_values: false,
                constraints: Vec::new(),
                filled: Filled::Given,
                user_type: None,
                collation: column.collation,
            });
        }
        Ok(CreateTable { name: name.clone(), columns: defs, constraints: Vec::new() })
    }
}

/// Stores the names of constraints: SQLite reports only those of CHECK.
pub(super) fn note_constraints(
    db: &mut Db,
    schema: &str,
    table: &str,
    named: &[NamedConstraint],
) -> Result<()> {
    if named.is_empty() {
        return Ok(());
    }
    db.own_table(schema, "tsql_constraint")?;
    let kernels = db.kernels.clone();
    let fail = |error: rusqlite::Error| failure(&kernels, &error, schema);
    let connection = db.connection()?;
    let taken = format!(
        "SELECT 1 FROM {}.tsql_constraint WHERE name = ?1 AND {CONSTRAINT_SCHEMA} = ?2",
        quote(schema)
    );
    let place = constraint_place(table).0;
    let insert =
        format!("INSERT INTO {}.tsql_constraint VALUES (?1, ?2, ?3, ?4, ?5)", quote(schema));
    for made in named {
        let known = connection.query_row(&taken, [&made.name, place], |_| Ok(())).optional();
        let is_index = made.kind == "I";
        let known = known.map_err(fail)?.is_some()
            || !is_index
                && has_object(connection, schema, &format!("{place}{}", made.name))
                    .map_err(fail)?;
        if known && !is_index {
            return Err(Error::ObjectExists { name: made.name.clone() });
        }
        let columns = made.columns.join(&SEPARATOR.to_string());
        let params = [table, &made.name, made.kind, &columns, &made.text];
        connection.execute(&insert, params).map_err(fail)?;
    }
    Ok(())
}

pub(super) fn column_text(column: &ColumnDef, key: bool) -> Result<String> {
    if column.ty == SqlType::SqlVariant {
        return Err(Error::feature("a column of type sql_variant"));
    }
    if column.identity.is_some() {
        let whole = matches!(
            column.ty,
            SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt
        );
        if !whole {
            return Err(Error::BadIdentityType { name: column.name.clone() });
        }
    }
    if column.name.eq_ignore_ascii_case(ROW_ID) {
        return Err(Error::unsupported("a column named _rowid_"));
    }
    let ty = quote(&storage::declared_column(column.ty, column.collation));
    let computed = matches!(column.filled, Filled::Computed { .. });
    let not_null =
        !computed && (key || column.identity.is_some() || column.nullable == Some(false));
    let null = if not_null { " NOT NULL" } else { "" };
    let collate = clause(column.ty, column.collation);
    Ok(format!("{} {ty}{null}{collate}", quote(&column.name)))
}
