//! UPDATE and DELETE of a common table expression: its query has the numbers of the rows of its one
//! table, by which that is joined once more, as the target.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::DefinedError;

use super::Binder;
use super::dml::{real_name, set_column};
use super::grouping::is_grouped;
use super::query::{Asked, refuse_second};
use super::select::has_aggregates;
use crate::ast::{CmpOp, Cte, Name, SetExpr, TableRef};
use crate::error::{Error, Result};
use crate::functions::typing::comparison;
use crate::plan::access::Right;
use crate::plan::relation::{Common, Join, Relation};
use crate::plan::scalar::Scalar;
use crate::plan::table::{Table, TableColumn};
use crate::plan::{Alias, ColumnRef, Field};

/// A common table expression that a statement changes.
#[derive(Debug)]
pub(super) struct Through {
    name: String,
    /// The table of its FROM.
    base: Name,
    /// The names of its columns, and those in the table; none for other values.
    columns: Vec<(String, Option<String>)>,
}

/// The rows of an UPDATE or DELETE: the table, its alias, and the tables of FROM.
pub(super) type Changed = (Arc<Table>, Alias, Relation);

/// Returns the common table expression that an UPDATE or DELETE changes.
pub(super) fn changed_cte<'c>(
    ctes: &'c [Cte],
    target: &Name,
    from: &[TableRef],
) -> Option<&'c Cte> {
    let real = real_name(from, target).unwrap_or_else(|| target.clone());
    let named = |cte: &&Cte| real.0.len() == 1 && cte.name.eq_ignore_ascii_case(real.object());
    ctes.iter().find(named)
}

/// Returns the one table that a query changes.
///
/// # Errors
/// What SQL Server cannot change either, and queries over other queries.
pub(super) fn only_table(cte: &Cte) -> Result<&Name> {
    let name = || cte.name.clone();
    let select = match &cte.query.body {
        SetExpr::Select(select) => select,
        SetExpr::Op(..) => return Err(DefinedError::UnionChanged { name: name() }.into()),
        SetExpr::Nested(_) => return Err(Error::feature("a change through a query in brackets")),
    };
    if cte.query.is_document() || !cte.query.ctes.is_empty() {
        return Err(Error::feature("a change through such a query"));
    }
    let order = &cte.query.order;
    let grouped = !select.group.is_empty() || select.having.is_some() || is_grouped(select, order);
    if select.distinct || grouped || has_aggregates(select, order) {
        return Err(DefinedError::GroupChanged { name: name() }.into());
    }
    match select.from.as_slice() {
        [TableRef::Table(table, ..)] => Ok(table),
        [TableRef::Join(..)] | [_, _, ..] => {
            Err(DefinedError::SeveralChanged { name: name() }.into())
        }
        _ => Err(Error::feature("a change through a query")),
    }
}

impl Through {
    /// The column of SET.
    fn set_column(&self, table: &Table, name: &Name) -> Result<TableColumn> {
        let found = self.columns.iter().find(|(own, _)| own.eq_ignore_ascii_case(name.object()));
        match found {
            None => Err(Error::InvalidColumn { name: name.text() }),
            Some((_, Some(base))) => set_column(table, &Name(vec![base.clone()])),
            Some((_, None)) => Err(DefinedError::ValueChanged { name: self.name.clone() }.into()),
        }
    }

    /// The table with the columns that OUTPUT shows.
    fn shown(&self, table: &Table) -> Result<Table> {
        let own = |(name, base): &(String, Option<String>)| {
            let base = base.as_ref().filter(|base| base.eq_ignore_ascii_case(name))?;
            table.column(base).cloned()
        };
        let columns = self.columns.iter().map(own).collect::<Option<Vec<_>>>();
        match columns {
            Some(columns) => Ok(Table { columns, ..table.clone() }),
            None => Err(Error::feature("OUTPUT through a query with columns of its own")),
        }
    }
}

/// The column of SET.
pub(super) fn changed_column(
    table: &Table,
    through: Option<&Through>,
    name: &Name,
) -> Result<TableColumn> {
    match through {
        Some(through) => through.set_column(table, name),
        None => set_column(table, name),
    }
}

/// The table as OUTPUT shows it.
pub(super) fn shown_table(table: &Arc<Table>, through: Option<&Through>) -> Result<Arc<Table>> {
    through.map_or_else(|| Ok(table.clone()), |through| through.shown(table).map(Arc::new))
}

impl Binder<'_> {
    /// The same as [`Binder::common_tables`] for an UPDATE or DELETE: with the one that it changes.
    pub(super) fn changed_common_tables(
        &mut self,
        ctes: &[Cte],
        target: &Name,
        from: &[TableRef],
    ) -> Result<(Vec<Common>, Option<Through>)> {
        let Some(changed) = changed_cte(ctes, target, from) else {
            return Ok((self.common_tables(ctes)?, None));
        };
        refuse_second(ctes)?;
        let base = only_table(changed)?;
        let (mut with, mut through) = (Vec::new(), None);
        for cte in ctes {
            if !std::ptr::eq(cte, changed) {
                with.push(self.common_table(cte)?);
                continue;
            }
            if base.0.len() == 1 && self.names.common(base.object()).is_some() {
                return Err(Error::feature("a change through several queries"));
            }
            let asked = Asked { numbers: true, ..Asked::default() };
            let (common, bases) = self.common_table_with(cte, asked)?;
            with.push(common);
            let names = self.names.common(&cte.name).into_iter().flat_map(|known| &known.columns);
            let names = names.map(|column| column.name.clone());
            let columns = names.zip(bases).collect();
            through = Some(Through { name: cte.name.clone(), base: base.clone(), columns });
        }
        Ok((with, through))
    }

    /// The rows that an UPDATE or DELETE changes.
    pub(super) fn changed_rows(
        &mut self,
        (target, through): (&Name, Option<&Through>),
        tables: &[TableRef],
        from: Relation,
        right: Right,
    ) -> Result<Changed> {
        let Some(through) = through else {
            let (table, alias) = self.target_in(target, tables, right)?;
            return Ok((table, alias, from));
        };
        let query = self.alias_of(target)?;
        let table = self.target(&through.base, &[right])?;
        let alias = self.fresh(Alias::Source);
        let number = |source: Alias, field: Field| {
            Scalar::column(SqlType::BigInt, false, ColumnRef::of(source, field))
        };
        let row = number(query, Field::Item(through.columns.len()));
        let on = Some(comparison(CmpOp::Eq, number(alias, Field::RowId), row)?);
        let scan = Box::new(Relation::Scan { table: table.clone(), alias });
        let from = Relation::Join { kind: Join::Inner, left: Box::new(from), right: scan, on };
        Ok((table, alias, from))
    }
}
