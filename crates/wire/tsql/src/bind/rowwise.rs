//! UPDATE row by row: with OUTPUT, which shows old and new values, and with variables, which
//! each row may read and change. SQLite finds the rows; the interpreter computes and writes.

use std::sync::Arc;

use tdekit_wire_tds::{Column, SqlType};

use super::dml::{update_reads, version_of};
use super::select::Leaves;
use super::through::{Through, changed_column, shown_table};
use super::{Binder, Scope};
use crate::ast::{Cte, Item, SetTarget, TableRef, Update};
use crate::error::{Error, Result};
use crate::functions::typing::{assign, convert};
use crate::plan::access::Right;
use crate::plan::relation::{self, Common, Query, Rows, Select};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Table, TableColumn};
use crate::plan::{Alias, ColumnRef, Field};

/// An update that processes one row after another.
#[derive(Debug)]
pub(crate) struct Rowwise {
    pub(crate) table: Arc<Table>,
    /// Types of the values that its query gives after the number of the row.
    pub(crate) types: Vec<SqlType>,
    pub(crate) sets: Vec<RowSet>,
    /// Expressions over the values of the row, followed by the new ones, one for each set.
    pub(crate) output: Vec<Scalar>,
    pub(crate) columns: Vec<Column>,
}

/// `column = value`, `@v = value` or `@v = column = value`, over the values of the row.
#[derive(Debug)]
pub(crate) struct RowSet {
    pub(crate) value: Scalar,
    pub(crate) column: Option<TableColumn>,
    /// Slot and type.
    pub(crate) variable: Option<(usize, SqlType)>,
}

/// Returns true if an UPDATE must process row by row.
pub(crate) fn is_rowwise(update: &Update) -> bool {
    let variables = update.sets.iter().any(|(target, ..)| !matches!(target, SetTarget::Column(_)));
    variables || !update.output.is_empty()
}

impl Binder<'_> {
    /// Returns the query of the rows, and the work for each of them.
    pub(crate) fn rowwise(&mut self, update: &Update) -> Result<(Query, Rowwise)> {
        self.with_commons(|binder| {
            let (with, through) =
                binder.changed_common_tables(&update.ctes, &update.target, &update.from)?;
            binder.behind(with, |binder| binder.rowwise_in_scope(update, through.as_ref()))
        })
    }

    /// Binds a statement behind common table expressions, in a scope of its own.
    pub(super) fn with_common_tables<T>(
        &mut self,
        ctes: &[Cte],
        bind: impl FnOnce(&mut Self) -> Result<(Select, T)>,
    ) -> Result<(Query, T)> {
        self.with_commons(|binder| {
            let with = binder.common_tables(ctes)?;
            binder.behind(with, bind)
        })
    }

    fn behind<T>(
        &mut self,
        with: Vec<Common>,
        bind: impl FnOnce(&mut Self) -> Result<(Select, T)>,
    ) -> Result<(Query, T)> {
        let (select, work) = self.in_scope(Scope::new(), bind)?;
        Ok((Query { with, rows: Rows::Select(Box::new(select)) }, work))
    }

    fn rowwise_in_scope(
        &mut self,
        update: &Update,
        through: Option<&Through>,
    ) -> Result<(Select, Rowwise)> {
        self.needs.hints = self.needs.hints.and(update.hints);
        let own = [TableRef::Table(update.target.clone(), None, update.hints)];
        let tables: &[TableRef] = if update.from.is_empty() { &own } else { &update.from };
        let from = self.changed_tables(tables, update_reads(update))?;
        let target = (&update.target, through);
        let (table, alias, from) = self.changed_rows(target, tables, from, Right::Update)?;
        let mut leaves = Leaves::default();
        let mut sets: Vec<RowSet> = Vec::new();
        for (target, op, value) in &update.sets {
            let (column, variable) = match target {
                SetTarget::Column(name) => (Some(name), None),
                SetTarget::Var(name) => (None, Some(self.variables.find(name)?)),
                SetTarget::Both(variable, name) => {
                    (Some(name), Some(self.variables.find(variable)?))
                }
            };
            let column = column.map(|name| changed_column(&table, through, name)).transpose()?;
            let known = sets.iter().filter_map(|set| set.column.as_ref());
            let mut known = known.map(|own| own.name.as_str());
            if let Some(own) = column.as_ref()
                && known.any(|name| name == own.name)
            {
                return Err(Error::DuplicateColumnName { name: own.name.clone() });
            }
            let value = match (value, &column) {
                (Some(expr), _) => self.scalar(expr)?,
                (None, Some(column)) => self.default(&table, column)?,
                (None, None) => return Err(Error::SyntaxKeyword { near: "DEFAULT".to_owned() }),
            };
            let current = match (&column, &variable) {
                (Some(column), _) => {
                    let current = ColumnRef::named(Some(alias), &column.name);
                    Scalar::column(column.ty, column.nullable, current)
                        .of_collation(column.collation)
                }
                (None, Some(variable)) => Scalar::new(variable.ty, true, Node::Var(variable.slot)),
                (None, None) => value.clone(),
            };
            let value = super::call::compound(*op, current, value)?;
            let value = match (&column, &variable) {
                (Some(column), _) => assign(value, column, &table.full_name())?,
                (None, Some(variable)) => convert(value, variable.ty)?,
                (None, None) => value,
            };
            let value = leaves.taken_from(value);
            let variable = variable.map(|variable| (variable.slot, variable.ty));
            sets.push(RowSet { value, column, variable });
        }
        let any = sets.iter().any(|set| set.column.is_some());
        if let Some(column) = table.version().filter(|_| any) {
            let (value, column) =
                (leaves.taken_from(version_of(&table, column)), Some(column.clone()));
            sets.push(RowSet { value, column, variable: None });
        }
        let filter = self.filter(update.filter.as_ref())?;
        let shown = match update.output.as_slice() {
            [] => table.clone(),
            _ => shown_table(&table, through)?,
        };
        let (output, columns) =
            self.rowwise_output(&update.output, &shown, alias, &sets, &mut leaves)?;
        let limit = self.change_limit(update.top.as_ref())?;
        let types = leaves.types();
        let row = Scalar::column(SqlType::BigInt, false, ColumnRef::of(alias, Field::RowId));
        let items = std::iter::once(row).chain(leaves.0).map(relation::Item::Plain).collect();
        let select = Select { items, from: Some(from), filter, limit, ..Select::default() };
        Ok((select, Rowwise { table, types, sets, output, columns }))
    }

    /// Binds the expressions of OUTPUT over the row's values, followed by the new ones.
    fn rowwise_output(
        &mut self,
        items: &[Item],
        table: &Table,
        alias: Alias,
        sets: &[RowSet],
        leaves: &mut Leaves,
    ) -> Result<(Vec<Scalar>, Vec<Column>)> {
        let scope = Scope::of(vec![
            self.scope_of("inserted", table, Some(Alias::Inserted))?,
            self.scope_of("deleted", table, Some(Alias::Deleted))?,
        ]);
        let (mut output, columns) = self.output_items(items, scope)?;
        // a column that is not set has one value
        for bound in &mut output {
            bound.each(&mut |part| {
                if let Node::Column(column) = &mut part.node {
                    let new = column.source == Some(Alias::Inserted);
                    let old = column.source == Some(Alias::Deleted);
                    if old || new && set_at(sets, column).is_none() {
                        column.source = Some(alias);
                    }
                }
                if part.node.is_leaf() && new_value(sets, part).is_none() {
                    leaves.place(part);
                }
            });
        }
        // the new value of a column that is set comes behind all values of the row
        let count = leaves.0.len();
        for bound in &mut output {
            bound.each(&mut |part| {
                if part.node.is_leaf() {
                    let new = new_value(sets, part).map(|at| count + at);
                    part.node = Node::Arg(new.unwrap_or_else(|| leaves.place(part)));
                }
            });
        }
        Ok((output, columns))
    }
}

/// Position of the set that gives this column a new value.
fn set_at(sets: &[RowSet], column: &ColumnRef) -> Option<usize> {
    let Field::Named(name) = &column.field else { return None };
    let named = |set: &RowSet| set.column.as_ref().is_some_and(|set| *set.name == **name);
    sets.iter().position(named)
}

/// Position of the set, if this is the value after the change of a column that is set.
fn new_value(sets: &[RowSet], part: &Scalar) -> Option<usize> {
    let column = part.as_column().filter(|column| column.source == Some(Alias::Inserted))?;
    set_at(sets, column)
}
