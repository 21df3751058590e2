//! Definitions: tables, indexes, views and procedures.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use tdekit_wire_tds::{Column, Command, SqlType};

use super::db::{View, failure};
use super::exec::Run;
use super::{Frame, Signal};
use crate::ast::{
    AlterTable, ColumnDef, Constraint, ConstraintKind, CreateTable, Expr, Kind, Name, ObjectKind,
};
use crate::bind::{Binder, Offered, Scope, SourceScope, Variables, quote};
use crate::catalog::{Table, TableKind};
use crate::error::{Error, Result};
use crate::value::{is_text, storage};

/// Tables of ours in every database, made when they are first needed.
const OWN_TABLES: &[(&str, &str)] = &[
    (
        "tsql_identity",
        "table_name TEXT PRIMARY KEY COLLATE NOCASE, column_name TEXT NOT NULL, \
        seed INTEGER NOT NULL, increment INTEGER NOT NULL, last INTEGER",
    ),
    (
        "tsql_default",
        "table_name TEXT COLLATE NOCASE, column_name TEXT NOT NULL, \
        definition TEXT NOT NULL, PRIMARY KEY (table_name, column_name)",
    ),
    (
        "tsql_module",
        "name TEXT COLLATE NOCASE, kind TEXT NOT NULL, definition TEXT NOT NULL, \
        PRIMARY KEY (name, kind)",
    ),
];

/// The name of the unique index over these columns, and whether CREATE INDEX made it.
pub(crate) fn unique_index(
    connection: &Connection,
    table: &Table,
    columns: &[&str],
) -> rusqlite::Result<Option<(String, bool)>> {
    let mut list = connection.prepare("SELECT name, origin FROM pragma_index_list(?1, ?2)")?;
    let found: Vec<(String, String)> = list
        .query_map([&table.name, &table.schema], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, origin) in found {
        let mut info = connection.prepare("SELECT name FROM pragma_index_info(?1, ?2)")?;
        let own: Vec<Option<String>> = info
            .query_map([&name, &table.schema], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let same = own.len() == columns.len()
            && own.iter().zip(columns).all(|(own, column)| own.as_deref() == Some(*column));
        if same {
            let shown = match origin.as_str() {
                "pk" => format!("PK_{}", table.name),
                "u" => format!("UQ_{}", table.name),
                _ => name.rsplit('~').next().unwrap_or(&name).to_owned(),
            };
            return Ok(Some((shown, origin == "c")));
        }
    }
    Ok(None)
}

/// The name of an index in SQLite, which keeps them by database: the table's name is part of it.
fn index_name(table: &str, name: &str) -> String {
    format!("{table}~{name}")
}

impl Run<'_> {
    fn sql(&mut self, sql: &str, database: &str) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        self.s
            .db
            .connection()?
            .execute_batch(sql)
            .map_err(|error| failure(&kernels, &error, database))
    }

    fn own_table(&mut self, schema: &str, name: &str) -> Result<()> {
        let Some((_, columns)) = OWN_TABLES.iter().find(|(known, _)| *known == name) else {
            return Ok(());
        };
        let sql = format!("CREATE TABLE IF NOT EXISTS {}.{name} ({columns})", quote(schema));
        self.sql(&sql, schema)
    }

    /// Runs a definition as one statement.
    fn define(&mut self, schema: &str, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.s.state.doomed {
            return Err(Error::Doomed {});
        }
        if schema != "temp"
            && self.s.state.options.implicit_transactions
            && self.s.state.trancount == 0
        {
            self.begin_transaction();
        }
        let own = self.begin_own()?;
        let result = work(self);
        self.after_write(own, result.is_ok())?;
        self.s.db.changed();
        result
    }

    pub(crate) fn find(&mut self, name: &Name) -> Result<Option<Arc<Table>>> {
        let database = self.s.state.database.clone();
        self.s.db.find(name, &database)
    }

    /// A definition, by its kind.
    pub(crate) fn definition(&mut self, kind: &Kind, frame: &mut Frame) -> Result<Signal> {
        let command = match kind {
            Kind::CreateTable(table) => {
                self.create_table(table)?;
                if table.name.object().starts_with('#') && super::exec::is_inner(frame.kind) {
                    frame.tables.push(table.name.object().to_owned());
                }
                Command::CREATE_TABLE
            }
            Kind::DeclareTable(table) => {
                let name = quote(table.name.object());
                self.s.db.connection()?;
                self.sql(&format!("DROP TABLE IF EXISTS temp.{name}"), "tempdb")?;
                self.create_table(table)?;
                frame.tables.push(table.name.object().to_owned());
                return Ok(Signal::Next);
            }
            Kind::AlterTable(name, change) => {
                self.alter_table(name, change)?;
                Command::OTHER
            }
            Kind::CreateIndex { name, table, unique, columns, filter } => {
                self.create_index(name, table, *unique, columns, filter.as_ref())?;
                Command::OTHER
            }
            Kind::CreateView { name, text, may_replace, .. } => {
                self.create_view(kind, name, text, *may_replace)?;
                Command::OTHER
            }
            Kind::CreateProc(made) => {
                self.create_module(&made.name, "P", &made.text, made.may_create, made.may_replace)?;
                Command::OTHER
            }
            Kind::Truncate(name) => {
                self.truncate(name)?;
                Command::OTHER
            }
            Kind::Drop { kind, names, if_exists, on } => {
                for name in names {
                    self.drop_object(*kind, name, *if_exists, on.as_ref())?;
                }
                if *kind == ObjectKind::Table { Command::DROP_TABLE } else { Command::OTHER }
            }
            _ => return Err(Error::feature("this definition")),
        };
        Ok(self.finished(frame, command))
    }

    fn create_table(&mut self, table: &CreateTable) -> Result<()> {
        if self.find(&table.name)?.is_some() {
            return Err(Error::ObjectExists { name: table.name.object().to_owned() });
        }
        let current = self.s.state.database.clone();
        let (schema, database, name) = self.s.db.place(&table.name, &current)?;
        if name.starts_with("sqlite_") || name.starts_with("tsql_") {
            return Err(Error::feature(format!("a table named {name}")));
        }
        let text = self.table_text(table, &schema, &name)?;
        self.define(&schema, |run| {
            run.sql(&text, &database)?;
            run.note_columns(&schema, &name, &table.columns)
        })
    }

    fn note_columns(&mut self, schema: &str, table: &str, columns: &[ColumnDef]) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        for column in columns {
            if let Some((seed, increment)) = column.identity {
                self.own_table(schema, "tsql_identity")?;
                let sql = format!(
                    "INSERT OR REPLACE INTO {}.tsql_identity VALUES (?1, ?2, ?3, ?4, NULL)",
                    quote(schema)
                );
                let params = rusqlite::params![table, column.name, seed, increment];
                let result = self.s.db.connection()?.execute(&sql, params);
                result.map_err(|error| failure(&kernels, &error, schema))?;
            }
            if let Some(text) = &column.default {
                self.own_table(schema, "tsql_default")?;
                let sql = format!(
                    "INSERT OR REPLACE INTO {}.tsql_default VALUES (?1, ?2, ?3)",
                    quote(schema)
                );
                let params = rusqlite::params![table, column.name, text];
                let result = self.s.db.connection()?.execute(&sql, params);
                result.map_err(|error| failure(&kernels, &error, schema))?;
            }
        }
        Ok(())
    }

    fn table_text(&mut self, table: &CreateTable, schema: &str, name: &str) -> Result<String> {
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
        }
        for (column, constraint) in constraints {
            parts.push(self.constraint_text(column, constraint, &table.columns)?);
        }
        Ok(format!("CREATE TABLE {}.{} ({})", quote(schema), quote(name), parts.join(", ")))
    }

    fn constraint_text(
        &mut self,
        column: Option<&ColumnDef>,
        constraint: &Constraint,
        all: &[ColumnDef],
    ) -> Result<String> {
        let name = match &constraint.name {
            Some(name) => format!("CONSTRAINT {} ", quote(name)),
            None => String::new(),
        };
        let own: Vec<(String, bool)> =
            column.map(|column| (column.name.clone(), false)).into_iter().collect();
        let text = match &constraint.kind {
            ConstraintKind::Primary(columns) | ConstraintKind::Unique(columns) => {
                let primary = matches!(&constraint.kind, ConstraintKind::Primary(_));
                let columns = if columns.is_empty() { &own } else { columns };
                for (key, _) in columns {
                    let found = all.iter().find(|column| column.name.eq_ignore_ascii_case(key));
                    let found = found.ok_or_else(|| Error::InvalidColumn { name: key.clone() })?;
                    if !storage::comparable(found.ty) {
                        let ty = crate::value::type_name(found.ty);
                        return Err(Error::feature(format!("a key of type {ty}")));
                    }
                    // SQLite lets NULLs be equal to nothing, SQL Server allows one
                    if !primary && found.nullable != Some(false) {
                        return Err(Error::feature("UNIQUE over a column that may be NULL"));
                    }
                }
                let word = if primary { "PRIMARY KEY" } else { "UNIQUE" };
                format!("{word} ({})", column_list(columns))
            }
            ConstraintKind::Check(expr) => {
                let text = self.inline_condition(expr, all)?;
                format!("CHECK ({text})")
            }
            ConstraintKind::Foreign { columns, table, parents, on_delete, on_update } => {
                let own: Vec<String> = own.into_iter().map(|(name, _)| name).collect();
                let columns = if columns.is_empty() { &own } else { columns };
                let list = |names: &[String]| {
                    names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ")
                };
                let mut text =
                    format!("FOREIGN KEY ({}) REFERENCES {}", list(columns), quote(table.object()));
                if !parents.is_empty() {
                    text.push_str(&format!(" ({})", list(parents)));
                }
                for (event, action) in [("DELETE", on_delete), ("UPDATE", on_update)] {
                    if let Some(action) = action {
                        text.push_str(&format!(" ON {event} {action}"));
                    }
                }
                text
            }
        };
        Ok(format!("{name}{text}"))
    }

    /// A condition over a table's own columns as text that can stay in a schema.
    fn inline_condition(&mut self, expr: &Expr, columns: &[ColumnDef]) -> Result<String> {
        let offered = columns
            .iter()
            .map(|column| Offered {
                name: column.name.clone(),
                ty: column.ty,
                nullable: column.nullable != Some(false),
                identity: false,
                sql: quote(&column.name),
            })
            .collect();
        let kernels = self.s.db.kernels.clone();
        let database = self.s.state.database.clone();
        let variables = Variables::default();
        let mut view = View { db: &mut self.s.db, database: &database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables, &kernels);
        binder.inline = true;
        let mut scope = Scope::new();
        let source = SourceScope { alias: String::new(), full: None, columns: offered };
        scope.sources.push(source);
        binder.scopes.push(scope);
        let bound = binder.condition(expr)?;
        let text = binder.emit_text(&bound)?;
        if binder.params.is_empty() { Ok(text) } else { Err(Error::feature("this CHECK")) }
    }

    fn alter_table(&mut self, name: &Name, change: &AlterTable) -> Result<()> {
        let table = self.find(name)?.ok_or_else(|| Error::AlterMissing { name: name.text() })?;
        if table.kind != TableKind::Table {
            return Err(Error::AlterMissing { name: name.text() });
        }
        self.define(&table.schema.clone(), |run| match change {
            AlterTable::DropColumn(columns) => {
                for column in columns {
                    let sql = format!("ALTER TABLE {} DROP COLUMN {}", table.sql(), quote(column));
                    run.sql(&sql, &table.database)?;
                }
                Ok(())
            }
            AlterTable::Add(columns, constraints) => {
                if !constraints.is_empty() {
                    return Err(Error::unsupported("ALTER TABLE ADD CONSTRAINT"));
                }
                for column in columns {
                    let plain = column.identity.is_none() && column.constraints.is_empty();
                    if !plain || column.nullable == Some(false) || column.default.is_some() {
                        return Err(Error::unsupported(
                            "ALTER TABLE ADD of a column that is not plainly NULL",
                        ));
                    }
                    let text = column_text(column, false)?;
                    let sql = format!("ALTER TABLE {} ADD COLUMN {text}", table.sql());
                    run.sql(&sql, &table.database)?;
                }
                Ok(())
            }
        })
    }

    fn create_index(
        &mut self,
        name: &str,
        table: &Name,
        unique: bool,
        columns: &[(String, bool)],
        filter: Option<&Expr>,
    ) -> Result<()> {
        let found = self.find(table)?.ok_or_else(|| {
            Error::Raised(Box::new(tdekit_wire_tds::Message {
                line: 0,
                ..tdekit_wire_tds::Message::new(
                    1088,
                    16,
                    12,
                    format!(
                        "Cannot find the object \"{}\" because it does not exist or you do not \
                        have permissions.",
                        table.text()
                    ),
                )
            }))
        })?;
        if filter.is_some() {
            return Err(Error::unsupported("filtered index"));
        }
        for (column, _) in columns {
            let known = found
                .column(column)
                .ok_or_else(|| Error::InvalidColumn { name: column.clone() })?;
            if unique && (known.nullable || !storage::comparable(known.ty)) {
                return Err(Error::feature("UNIQUE INDEX over a column that may be NULL"));
            }
        }
        let sql = format!(
            "CREATE {}INDEX {}.{} ON {} ({})",
            if unique { "UNIQUE " } else { "" },
            quote(&found.schema),
            quote(&index_name(&found.name, name)),
            quote(&found.name),
            column_list(columns)
        );
        self.define(&found.schema.clone(), |run| run.sql(&sql, &found.database)).map_err(|error| {
            match error {
                Error::Internal { detail } if detail.contains("already exists") => {
                    Error::Raised(Box::new(tdekit_wire_tds::Message {
                        line: 0,
                        ..tdekit_wire_tds::Message::new(
                            1913,
                            16,
                            1,
                            format!(
                                "The operation failed because an index or statistics with name \
                                '{name}' already exists on table '{}'.",
                                table.text()
                            ),
                        )
                    }))
                }
                other => other,
            }
        })
    }

    fn create_view(&mut self, kind: &Kind, name: &Name, text: &str, replace: bool) -> Result<()> {
        let Kind::CreateView { query, .. } = kind else { return Ok(()) };
        let query = Kind::Query(query.clone());
        self.bind(&query, &Variables::default())?;
        self.create_module(name, "V", text, true, replace)
    }

    fn create_module(
        &mut self,
        name: &Name,
        kind: &str,
        text: &str,
        may_create: bool,
        may_replace: bool,
    ) -> Result<()> {
        let current = self.s.state.database.clone();
        let known = self.s.db.module(name, &current, kind)?.is_some();
        let taken = !known && self.find(name)?.is_some();
        if taken || known && !may_replace {
            return Err(Error::ObjectExists { name: name.object().to_owned() });
        }
        if !known && !may_create {
            return Err(Error::InvalidObject { name: name.text() });
        }
        let (schema, database, object) = self.s.db.place(name, &current)?;
        let kernels = self.s.db.kernels.clone();
        self.define(&schema.clone(), |run| {
            run.own_table(&schema, "tsql_module")?;
            let sql = format!(
                "INSERT OR REPLACE INTO {}.tsql_module VALUES (?1, ?2, ?3)",
                quote(&schema)
            );
            let result = run.s.db.connection()?.execute(&sql, [&object, kind, text]);
            result.map(|_| ()).map_err(|error| failure(&kernels, &error, &database))
        })
    }

    fn truncate(&mut self, name: &Name) -> Result<()> {
        let table = self.find(name)?.ok_or_else(|| Error::AlterMissing { name: name.text() })?;
        self.define(&table.schema.clone(), |run| {
            run.sql(&format!("DELETE FROM {}", table.sql()), &table.database)?;
            if table.identity().is_some() {
                let sql = format!(
                    "UPDATE {}.tsql_identity SET last = NULL WHERE table_name = ?1",
                    quote(&table.schema)
                );
                let kernels = run.s.db.kernels.clone();
                let result = run.s.db.connection()?.execute(&sql, [&table.name]);
                result.map_err(|error| failure(&kernels, &error, &table.database))?;
            }
            Ok(())
        })
    }

    fn drop_object(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        if_exists: bool,
        on: Option<&Name>,
    ) -> Result<()> {
        let missing = |what: &str| Error::DropMissing { kind: what.to_owned(), name: name.text() };
        match kind {
            ObjectKind::Table => {
                let found = self.find(name)?.filter(|table| table.kind == TableKind::Table);
                let Some(table) = found else {
                    return if if_exists { Ok(()) } else { Err(missing("table")) };
                };
                self.drop_table(&table)
            }
            ObjectKind::View | ObjectKind::Procedure => {
                let (letter, word) =
                    if kind == ObjectKind::View { ("V", "view") } else { ("P", "procedure") };
                let current = self.s.state.database.clone();
                if self.s.db.module(name, &current, letter)?.is_none() {
                    return if if_exists { Ok(()) } else { Err(missing(word)) };
                }
                let (schema, database, object) = self.s.db.place(name, &current)?;
                let kernels = self.s.db.kernels.clone();
                self.define(&schema.clone(), |run| {
                    let sql = format!(
                        "DELETE FROM {}.tsql_module WHERE name = ?1 AND kind = ?2",
                        quote(&schema)
                    );
                    let result = run.s.db.connection()?.execute(&sql, [&object, letter]);
                    result.map(|_| ()).map_err(|error| failure(&kernels, &error, &database))
                })
            }
            ObjectKind::Index => {
                let (table, index) = match on {
                    Some(table) => (table.clone(), name.object().to_owned()),
                    None => {
                        let mut parts = name.0.clone();
                        let index = parts.pop().unwrap_or_default();
                        (Name(parts), index)
                    }
                };
                let Some(table) = self.find(&table)? else {
                    return if if_exists { Ok(()) } else { Err(missing("index")) };
                };
                let full = index_name(&table.name, &index);
                let sql = format!("DROP INDEX {}.{}", quote(&table.schema), quote(&full));
                let result =
                    self.define(&table.schema.clone(), |run| run.sql(&sql, &table.database));
                match result {
                    Err(Error::Internal { detail }) if detail.contains("no such index") => {
                        if if_exists {
                            Ok(())
                        } else {
                            Err(missing("index"))
                        }
                    }
                    other => other,
                }
            }
            _ => Err(Error::feature("this DROP")),
        }
    }

    pub(crate) fn drop_table(&mut self, table: &Arc<Table>) -> Result<()> {
        let kernels = self.s.db.kernels.clone();
        self.define(&table.schema.clone(), |run| {
            run.sql(&format!("DROP TABLE {}", table.sql()), &table.database)?;
            for own in ["tsql_identity", "tsql_default"] {
                let connection = run.s.db.connection()?;
                let sql =
                    format!("SELECT 1 FROM {}.sqlite_schema WHERE name = ?1", quote(&table.schema));
                let there = connection
                    .query_row(&sql, [own], |_| Ok(()))
                    .optional()
                    .map_err(|error| failure(&kernels, &error, &table.database))?;
                if there.is_some() {
                    let sql =
                        format!("DELETE FROM {}.{own} WHERE table_name = ?1", quote(&table.schema));
                    connection
                        .execute(&sql, [&table.name])
                        .map_err(|error| failure(&kernels, &error, &table.database))?;
                }
            }
            Ok(())
        })
    }

    /// The table of SELECT INTO.
    pub(crate) fn create_for(&mut self, name: &Name, columns: &[Column]) -> Result<Arc<Table>> {
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
                constraints: Vec::new(),
            });
        }
        let table = CreateTable { name: name.clone(), columns: defs, constraints: Vec::new() };
        self.create_table(&table)?;
        self.find(name)?.ok_or_else(|| Error::InvalidObject { name: name.text() })
    }
}

fn column_text(column: &ColumnDef, key: bool) -> Result<String> {
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
    let ty = quote(&storage::declared(column.ty));
    let not_null = key || column.identity.is_some() || column.nullable == Some(false);
    let null = if not_null { " NOT NULL" } else { "" };
    let collate = if is_text(column.ty) { " COLLATE TSQL" } else { "" };
    Ok(format!("{} {ty}{null}{collate}", quote(&column.name)))
}

fn column_list(columns: &[(String, bool)]) -> String {
    let texts: Vec<String> = columns
        .iter()
        .map(|(name, descending)| {
            format!("{}{}", quote(name), if *descending { " DESC" } else { "" })
        })
        .collect();
    texts.join(", ")
}
