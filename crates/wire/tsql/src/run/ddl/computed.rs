//! Computed columns, and `rowversion` columns.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::DefinedError;

use super::super::conditions::{refuse_changing_key, violating};
use super::super::db::{Db, View, failure};
use super::Ddl;
use crate::ast::{ColumnDef, CreateTable, Expr, Filled, Name};
use crate::bind::call::invoked_in;
use crate::bind::{Binder, Variables};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::plan::access::{Access, Right};
use crate::plan::scalar::Node;
use crate::plan::table::Catalog;
use crate::run::catalog::model::{names, schema_and_name};
use crate::run::catalog::named::has_table;
use crate::run::catalog::{Table, TableColumn, TableKind};
use crate::run::versions::FIRST_VERSION;

pub(super) fn described(column: &ColumnDef) -> TableColumn {
    TableColumn {
        name: column.name.clone(),
        ty: column.ty,
        nullable: column.nullable != Some(false),
        identity: column.identity.is_some(),
        default: None,
        filled: column.filled.clone(),
        collation: column.collation,
    }
}

impl Ddl<'_> {
    /// Returns the table with the types of its computed columns.
    pub(super) fn with_types(&mut self, made: &CreateTable) -> Result<CreateTable> {
        let mut made = made.clone();
        let (schema, database, name) = self.new_place(&made.name)?;
        let variable = made.name.object().starts_with("#@");
        self.resolve_columns(&mut made.columns, (&schema, &database), variable)?;
        let columns = made.columns.iter().map(described).collect();
        let table = Table { schema, database, name, columns, kind: TableKind::Table };
        let versions = table.columns.iter().filter(|column| column.filled == Filled::Version);
        if versions.count() > 1 {
            return Err(Error::VersionTwice { table: schema_and_name(&table.name).1 });
        }
        for column in &mut made.columns {
            self.give_type(&table, column)?;
        }
        Ok(made)
    }

    /// Gives a computed column the type of its expression, over the columns of its table.
    pub(super) fn give_type(&mut self, table: &Table, column: &mut ColumnDef) -> Result<()> {
        let Filled::Computed { text, persisted } = &column.filled else { return Ok(()) };
        let shown = schema_and_name(&table.name).1;
        let others = table.columns.iter().filter(|own| own.name != column.name);
        for other in others.filter(|own| own.is_computed()) {
            if names(text, &other.name) {
                return Err(Error::ComputedNested { column: other.name.clone(), table: shown });
            }
        }
        let database = &self.state.database;
        let variables = Variables::default();
        let mut view = View { db: self.db, database, identity_insert: None };
        let mut binder = Binder::new(&mut view, &variables);
        let bound = binder.computed_value(table, text, None)?;
        let looks_up = binder.take_needs().looks_up.is_some();
        self.admit_kept(text, table)?;
        if looks_up {
            return Err(Error::feature("a computed column that looks up objects"));
        }
        let mut pure = true;
        bound.walk(&mut |part| {
            pure &= match &part.node {
                Node::Call(func, _) => func.is_pure(),
                Node::Invoke(_) => false,
                _ => true,
            };
            pure
        });
        if *persisted && !pure {
            return Err(Error::NotPersisted { column: column.name.clone(), table: shown });
        }
        if bound.ty == SqlType::SqlVariant {
            return Err(Error::feature("a computed column of type sql_variant"));
        }
        bound.label.assigned(bound.ty, bound.ty)?;
        (column.ty, column.collation) = (bound.ty, bound.collation());
        Ok(())
    }

    /// Checks that the login may use the functions that a table is to keep, in this expression.
    pub(super) fn admit_kept(&mut self, text: &str, table: &Table) -> Result<()> {
        let mut needed = Vec::new();
        let expr = crate::parse::default_expression(text);
        for mut name in invoked_in(&expr.or_else(|_| crate::parse::check_condition(text))?) {
            name.0.insert(0, table.database.clone());
            let database = table.database.as_str();
            let mut view = View { db: self.db, database, identity_insert: None };
            let function = view.scalar_function(&name)?;
            let access = function.and_then(|found| Access::of(&found, Right::References, None));
            needed.extend(access);
        }
        self.gate().admit(&needed)
    }

    /// Refuses a change of a function that a table keeps.
    ///
    /// # Errors
    /// 3729.
    pub(super) fn refuse_kept(
        &mut self,
        verb: &'static str,
        name: &Name,
        place: (&str, &str),
        object: &str,
    ) -> Result<()> {
        match self.keeper(place, object)? {
            Some(object) => Err(DefinedError::Kept { verb, name: name.text(), object }.into()),
            None => Ok(()),
        }
    }

    /// Returns the name of a table whose DEFAULTs, computed columns or conditions call a function.
    pub(super) fn keeper(
        &mut self,
        (schema, database): (&str, &str),
        object: &str,
    ) -> Result<Option<String>> {
        let wanted = schema_and_name(object);
        let kernels = self.db.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, database);
        let connection = self.db.connection()?;
        for (table, which) in [
            ("tsql_column", "definition IS NOT NULL"),
            ("tsql_default", "definition IS NOT NULL"),
            ("tsql_constraint", "kind = 'C'"),
        ] {
            if !has_table(connection, schema, table).map_err(fail)? {
                continue;
            }
            let sql = format!(
                "SELECT table_name, definition FROM {}.{table} WHERE {which}",
                quote(schema)
            );
            let mut statement = connection.prepare(&sql).map_err(fail)?;
            let mut rows = statement.query([]).map_err(fail)?;
            while let Some(row) = rows.next().map_err(fail)? {
                let text: String = row.get(1).map_err(fail)?;
                let names = invoked_in(&match table {
                    "tsql_constraint" => crate::parse::check_condition(&text)?,
                    _ => crate::parse::default_expression(&text)?,
                });
                let is_it = |used: &Name| {
                    used.object().eq_ignore_ascii_case(&wanted.1)
                        && used.part(1).is_some_and(|own| own.eq_ignore_ascii_case(&wanted.0))
                };
                if names.iter().any(is_it) {
                    let of: String = row.get(0).map_err(fail)?;
                    return Ok(Some(schema_and_name(&of).1));
                }
            }
        }
        Ok(None)
    }

    /// Gives the rows that are there versions, in a column that was added.
    pub(super) fn fill_versions(&mut self, table: &Arc<Table>, column: &str) -> Result<()> {
        self.db.begin_versions(table)?;
        let sql = crate::render::update_versions(table, column);
        self.db.sql(&sql, &table.database)?;
        self.db.end_versions(table)
    }

    /// As [`Ddl::admit_check`], for one that is added to a table.
    pub(super) fn admit_added_check(
        &mut self,
        table: &Arc<Table>,
        check: (&Expr, &str),
    ) -> Result<()> {
        refuse_changing_key(self.db, table)?;
        self.admit_check(table, check)
    }

    /// Checks that a condition of a table is valid, and that the login may use its functions.
    pub(super) fn admit_check(
        &mut self,
        table: &Arc<Table>,
        (condition, text): (&Expr, &str),
    ) -> Result<()> {
        let plan = violating(self.db, table, condition, &[], None)?;
        self.gate().admit_plan(&plan.needs)?;
        self.admit_kept(text, table)
    }
}

/// Fails if a text or a list of names has a computed column: SQLite's own column is empty.
pub(super) fn refuse_computed(
    columns: &[TableColumn],
    used: impl Fn(&str) -> bool,
    what: &str,
) -> Result<()> {
    let mut computed = columns.iter().filter(|column| column.is_computed());
    match computed.any(|column| used(&column.name)) {
        true => Err(Error::feature(format!("{what} of a computed column"))),
        false => Ok(()),
    }
}

/// Records computed and `rowversion` columns.
pub(super) fn note_filled(
    db: &mut Db,
    schema: &str,
    table: &str,
    columns: &[ColumnDef],
) -> Result<()> {
    let kernels = db.kernels.clone();
    let fail = |error: rusqlite::Error| failure(&kernels, &error, schema);
    for column in columns {
        let (text, persisted) = match &column.filled {
            Filled::Given => continue,
            Filled::Computed { text, persisted } => (Some(text), *persisted),
            Filled::Version => (None, false),
        };
        db.own_table(schema, "tsql_column")?;
        let own = quote(schema);
        let sql = format!("INSERT OR REPLACE INTO {own}.tsql_column VALUES (?1, ?2, ?3, ?4)");
        let with = rusqlite::params![table, column.name, text, persisted];
        db.connection()?.execute(&sql, with).map_err(fail)?;
        if text.is_none() {
            db.own_table(schema, "tsql_rowversion")?;
            let sql = format!(
                "INSERT INTO {own}.tsql_rowversion SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM \
                {own}.tsql_rowversion)"
            );
            db.connection()?.execute(&sql, [FIRST_VERSION]).map_err(fail)?;
        }
    }
    Ok(())
}
