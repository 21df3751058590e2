//! The columns that a table offers; computed ones with their values. A value that calls functions
//! of the database is bound where it is read: a statement that does not read it needs nothing of
//! its functions.

use std::sync::Arc;

use tdekit_wire_tds::Generated;

use super::call::invoked_in;
use super::later::{Computed, Later};
use super::{Binder, Offered, Scope, SourceScope};
use crate::error::{Error, Result};
use crate::functions::typing::convert;
use crate::plan::label::Label;
use crate::plan::scalar::Scalar;
use crate::plan::table::{Filled, Table, TableColumn};
use crate::plan::{Alias, ColumnRef};
use crate::value::is_text;

/// The scope of the columns of a table that are not computed.
pub(super) fn stored(table: &Table, id: Option<Alias>) -> Scope {
    let plain = table.columns.iter().filter(|column| !column.is_computed());
    let columns = plain.map(|column| Offered {
        name: column.name.clone(),
        ty: column.ty,
        nullable: column.nullable,
        generated: Generated::No,
        column: ColumnRef::named(id, &column.name),
        label: Label::Implicit(column.collation),
        value: None,
    });
    let (alias, columns) = (String::new(), columns.collect());
    Scope::of(vec![SourceScope { alias, full: None, id, columns }])
}

impl Binder<'_> {
    /// The columns of a table under this name.
    pub(crate) fn scope_of(
        &mut self,
        alias: &str,
        table: &Table,
        id: Option<Alias>,
    ) -> Result<SourceScope> {
        let mut columns = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            columns.push(Offered {
                name: column.name.clone(),
                ty: column.ty,
                nullable: column.nullable,
                generated: column.generated(),
                column: ColumnRef::named(id, &column.name),
                label: Label::Implicit(column.collation),
                value: self.computed_later(table, at, id)?,
            });
        }
        Ok(SourceScope { alias: alias.to_owned(), full: None, id, columns })
    }

    /// The value of a computed column, in its type; None for any other column.
    pub(crate) fn computed(
        &mut self,
        table: &Table,
        column: &TableColumn,
        id: Option<Alias>,
    ) -> Result<Option<Scalar>> {
        let Filled::Computed { text, .. } = &column.filled else { return Ok(None) };
        let value = self.computed_value(table, text, id)?;
        let value = convert(value, column.ty)?;
        Ok(Some(value.of_collation(column.collation)))
    }

    /// The value of an expression over the columns of a table that are not computed.
    pub(crate) fn computed_value(
        &mut self,
        table: &Table,
        text: &str,
        id: Option<Alias>,
    ) -> Result<Scalar> {
        let expr = crate::parse::default_expression(text)?;
        self.only_in(stored(table, id), |binder| {
            binder.kept(&expr, table, |binder| binder.scalar(&expr))
        })
    }

    /// The value of a column; None for one that is not computed.
    pub(super) fn computed_later(
        &mut self,
        table: &Table,
        at: usize,
        id: Option<Alias>,
    ) -> Result<Option<Computed>> {
        let Some(column) = table.columns.get(at) else { return Ok(None) };
        let Filled::Computed { text, .. } = &column.filled else { return Ok(None) };
        if invoked_in(&crate::parse::default_expression(text)?).is_empty() {
            return Ok(self.computed(table, column, id)?.map(Box::new).map(Computed::Bound));
        }
        Ok(Some(Computed::Later(Arc::new(Later::new(table, at, id)))))
    }

    /// Reads a column.
    pub(crate) fn read(&mut self, offered: &Offered) -> Result<Scalar> {
        match &offered.value {
            None => {
                let (ty, label) = (offered.ty, offered.label);
                let column = Scalar::column(ty, offered.nullable, offered.column.clone());
                Ok(if is_text(ty) { Scalar { label, ..column } } else { column })
            }
            Some(Computed::Bound(value)) => Ok((**value).clone()),
            Some(Computed::Later(later)) => self.bind_now(later),
        }
    }

    fn bind_now(&mut self, later: &Later) -> Result<Scalar> {
        if let Some(value) = later.value() {
            return Ok(value.clone());
        }
        let missing = || Error::Internal { detail: "no computed column".to_owned() };
        let (table, column) = (later.table(), later.column().ok_or_else(missing)?);
        let value = self.computed(table, column, later.id())?.ok_or_else(missing)?;
        Ok(later.bound(value))
    }
}
