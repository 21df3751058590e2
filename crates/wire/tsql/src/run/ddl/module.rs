//! CREATE and ALTER of views and procedures.

use tdekit_wire_tds::messages::DefinedError;

use super::super::bound::bind;
use super::super::db::failure;
use super::{Ddl, Definition};
use crate::ast::{Child, Kind, Name, Query};
use crate::bind::Variables;
use crate::bind::from::{check_names, repeated};
use crate::error::{Error, Result};
use crate::name::is_global;
use crate::name::quote;

impl Ddl<'_> {
    pub(crate) fn new_view<'d>(
        &mut self,
        (name, columns): (&Name, &[String]),
        query: &Query,
        text: &'d str,
        replace: bool,
    ) -> Result<Definition<'d>> {
        if name.object().starts_with('#') {
            return Err(DefinedError::TemporaryView { name: name.object().to_owned() }.into());
        }
        if names_temporary(query) {
            return Err(DefinedError::ViewOfTemporary {}.into());
        }
        let query = Kind::Query(Box::new(query.clone()));
        let bound = bind((self.db, self.state), &query, &Variables::default(), None)?;
        let bound = bound.plan.columns;
        check_names(name.object(), columns, bound.len())?;
        let given = bound.into_iter().map(|column| column.name);
        let shown = if columns.is_empty() { given.collect() } else { columns.to_vec() };
        check_columns(name, &shown)?;
        self.new_module(name, "V", text, (true, replace))
    }

    /// A view, procedure or function, which may be created, or replace one that is there.
    pub(crate) fn new_module<'d>(
        &mut self,
        name: &Name,
        kind: &'d str,
        text: &'d str,
        (may_create, may_replace): (bool, bool),
    ) -> Result<Definition<'d>> {
        let current = self.state.database.clone();
        if is_global(name.object()) {
            return Err(Error::feature("a global temporary procedure"));
        }
        let (schema, database, object) = match may_create {
            true => self.new_place(name)?,
            false => self.db.place(name, &current)?,
        };
        let known = self.db.module(name, &current, kind)?.is_some();
        let taken =
            !known && (self.find(name)?.is_some() || self.is_used(&schema, &database, &object)?);
        if taken && may_replace {
            return Err(DefinedError::OtherKind { name: name.text() }.into());
        }
        if taken || known && !may_replace {
            return Err(Error::ObjectExists { name: name.object().to_owned() });
        }
        if !known && !may_create {
            return Err(Error::InvalidObject { name: name.text() });
        }
        let kernels = self.db.kernels.clone();
        Ok(Definition::of(&schema.clone(), move |ddl| {
            ddl.db.own_table(&schema, "tsql_module")?;
            let sql = format!(
                "INSERT OR REPLACE INTO {}.tsql_module VALUES (?1, ?2, ?3)",
                quote(&schema)
            );
            let result = ddl.db.connection()?.execute(&sql, [&object, kind, text]);
            result.map(|_| ()).map_err(|error| failure(&kernels, &error, &database))
        }))
    }
}

/// Checks that each column of a view or function has a name of its own.
pub(super) fn check_columns(of: &Name, columns: &[String]) -> Result<()> {
    if let Some(at) = columns.iter().position(String::is_empty) {
        return Err(DefinedError::NoColumnName { number: at + 1 }.into());
    }
    match repeated(columns.iter().map(String::as_str)) {
        Some(column) => {
            let (column, name) = (column.to_owned(), of.object().to_owned());
            Err(DefinedError::ColumnTwice { column, name }.into())
        }
        None => Ok(()),
    }
}

/// Returns true if a query names a temporary table.
fn names_temporary(query: &Query) -> bool {
    let mut found = false;
    query.children(&mut |child| {
        found |= match child {
            Child::Table(name) => name.object().starts_with('#'),
            Child::Query(query) => names_temporary(query),
            Child::Expr(expr) => expr.any(&|part| part.query().is_some_and(names_temporary)),
        };
    });
    found
}
