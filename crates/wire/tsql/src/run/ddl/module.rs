//! CREATE and ALTER of views and procedures.

use tdekit_wire_tds::messages::DefinedError;

use super::super::db::failure;
use crate::ast::{Child, Kind, Name, Query};
use crate::bind::Variables;
use crate::error::{Error, Result};
use crate::name::is_global;
use crate::name::quote;
use crate::run::work::Run;

impl Run<'_> {
    pub(crate) fn create_view(
        &mut self,
        name: &Name,
        query: &Query,
        text: &str,
        replace: bool,
    ) -> Result<()> {
        if names_temporary(query) {
            return Err(DefinedError::ViewOfTemporary {}.into());
        }
        let query = Kind::Query(Box::new(query.clone()));
        self.bind(&query, &Variables::default())?;
        self.create_module(name, "V", text, true, replace)
    }

    pub(crate) fn create_module(
        &mut self,
        name: &Name,
        kind: &str,
        text: &str,
        may_create: bool,
        may_replace: bool,
    ) -> Result<()> {
        let current = self.s.state.database.clone();
        if is_global(name.object()) {
            return Err(Error::feature("a global temporary procedure"));
        }
        let place = if may_create { Some(self.new_place(name)?) } else { None };
        let known = self.s.db.module(name, &current, kind)?.is_some();
        let taken = !known && (self.find(name)?.is_some() || self.has_sequence(name)?);
        if taken || known && !may_replace {
            return Err(Error::ObjectExists { name: name.object().to_owned() });
        }
        if !known && !may_create {
            return Err(Error::InvalidObject { name: name.text() });
        }
        let (schema, database, object) = match place {
            Some(place) => place,
            None => self.s.db.place(name, &current)?,
        };
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
