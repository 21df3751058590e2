//! The columns that a table offers; computed ones with their values.

use tdekit_wire_tds::Generated;

use super::{Binder, Offered, Scope, SourceScope};
use crate::error::Result;
use crate::functions::typing::convert;
use crate::plan::label::Label;
use crate::plan::scalar::Scalar;
use crate::plan::table::{Filled, Table, TableColumn};
use crate::plan::{Alias, ColumnRef};

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
        for column in &table.columns {
            columns.push(Offered {
                name: column.name.clone(),
                ty: column.ty,
                nullable: column.nullable,
                generated: column.generated(),
                column: ColumnRef::named(id, &column.name),
                label: Label::Implicit(column.collation),
                value: self.computed(table, column, id)?.map(Box::new),
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
}
