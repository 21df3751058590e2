//! UPDATE row by row: with OUTPUT, which shows old and new values, and with variables, which
//! each row may read and change. SQLite finds the rows; the interpreter computes and writes.

use std::sync::Arc;

use tdekit_wire_tds::{Column, SqlType};

use super::select::rows;
use super::{Binder, Offered, Scope, SourceScope};
use crate::ast::{Item, Name, SetTarget, TableRef, Update};
use crate::bind::typing::{assign, convert};
use crate::bound::{Bound, Node};
use crate::catalog::{Table, TableColumn};
use crate::error::{Error, Result};
use crate::name::quote;

/// An update that processes one row after another.
#[derive(Debug)]
pub(crate) struct Rowwise {
    pub(crate) table: Arc<Table>,
    /// Selects the rowid, then values of these types.
    pub(crate) select: String,
    pub(crate) types: Vec<SqlType>,
    pub(crate) sets: Vec<RowSet>,
    /// Takes the rowid, then the values of the sets that name a column; none if there are none.
    pub(crate) update: Option<String>,
    /// Expressions over the values of the row, followed by the new ones, one for each set.
    pub(crate) output: Vec<Bound>,
    pub(crate) columns: Vec<Column>,
}

/// `column = value`, `@v = value` or `@v = column = value`, over the values of the row.
#[derive(Debug)]
pub(crate) struct RowSet {
    pub(crate) value: Bound,
    pub(crate) column: Option<TableColumn>,
    /// Slot and type.
    pub(crate) variable: Option<(usize, SqlType)>,
}

const OLD: &str = "\"~old\".";
const NEW: &str = "\"~new\".";

/// Returns true if an UPDATE must process row by row.
pub(crate) fn is_rowwise(update: &Update) -> bool {
    let variables = update.sets.iter().any(|(target, ..)| !matches!(target, SetTarget::Column(_)));
    variables || !update.output.is_empty()
}

impl Binder<'_> {
    pub(crate) fn rowwise(&mut self, update: &Update) -> Result<Rowwise> {
        let known = self.ctes.len();
        let with = self.common_tables(&update.ctes)?;
        self.scopes.push(Scope::new());
        let made = self.rowwise_in_scope(update, &with);
        self.scopes.pop();
        self.ctes.truncate(known);
        made
    }

    fn rowwise_in_scope(&mut self, update: &Update, with: &str) -> Result<Rowwise> {
        self.hints = self.hints.and(update.hints);
        let own = [TableRef::Table(update.target.clone(), None, update.hints)];
        let tables: &[TableRef] = if update.from.is_empty() { &own } else { &update.from };
        let from = self.tables_clause(tables)?;
        let (table, alias) = self.target_in(&update.target, tables)?;
        let (mut leaves, mut types) = (Vec::new(), Vec::new());
        let mut sets: Vec<RowSet> = Vec::new();
        for (target, op, value) in &update.sets {
            let (column, variable) = match target {
                SetTarget::Column(name) => (Some(name), None),
                SetTarget::Var(name) => (None, Some(self.variables.find(name)?)),
                SetTarget::Both(variable, name) => {
                    (Some(name), Some(self.variables.find(variable)?))
                }
            };
            let column = column.map(|name| self.set_column(&table, name)).transpose()?;
            let value = match (value, &column) {
                (Some(expr), _) => self.scalar(expr)?,
                (None, Some(column)) => self.default(&table, column)?,
                (None, None) => return Err(Error::SyntaxKeyword { near: "DEFAULT".to_owned() }),
            };
            let current = match (&column, &variable) {
                (Some(column), _) => {
                    let leaf = format!("{alias}.{}", quote(&column.name));
                    Bound::new(column.ty, column.nullable, Node::Leaf(leaf))
                }
                (None, Some(variable)) => Bound::new(variable.ty, true, Node::Var(variable.slot)),
                (None, None) => value.clone(),
            };
            let value = super::call::compound(*op, current, value)?;
            let value = match (&column, &variable) {
                (Some(column), _) => assign(value, column.ty, &table.full_name(), &column.name)?,
                (None, Some(variable)) => convert(value, variable.ty)?,
                (None, None) => value,
            };
            let value = rows(&value, &mut leaves, &mut types);
            let variable = variable.map(|variable| (variable.slot, variable.ty));
            sets.push(RowSet { value, column, variable });
        }
        let filter = self.filter(update.filter.as_ref())?;
        let (output, columns) =
            self.rowwise_output(&update.output, &table, &alias, &sets, (&mut leaves, &mut types))?;
        let limit = self.change_limit(update.top.as_ref())?;
        let items: String = leaves.iter().map(|leaf| format!(", {leaf}")).collect();
        let select = format!("{with}SELECT {alias}.rowid{items} FROM {from}{filter}{limit}");
        let named = sets.iter().filter_map(|set| set.column.as_ref());
        let assigned: Vec<String> = named
            .enumerate()
            .map(|(at, column)| format!("{} = ?{}", quote(&column.name), at + 2))
            .collect();
        let update = (!assigned.is_empty()).then(|| {
            format!("UPDATE {} SET {} WHERE rowid = ?1", table.sql(), assigned.join(", "))
        });
        Ok(Rowwise { table, select, types, sets, update, output, columns })
    }

    fn set_column(&self, table: &Table, name: &Name) -> Result<TableColumn> {
        let column = table
            .column(name.object())
            .ok_or_else(|| Error::InvalidColumn { name: name.text() })?;
        if column.identity {
            return Err(Error::IdentityUpdate { name: column.name.clone() });
        }
        Ok(column.clone())
    }

    /// Binds the expressions of OUTPUT over the row's values, followed by the new ones.
    fn rowwise_output(
        &mut self,
        items: &[Item],
        table: &Table,
        alias: &str,
        sets: &[RowSet],
        (leaves, types): (&mut Vec<String>, &mut Vec<SqlType>),
    ) -> Result<(Vec<Bound>, Vec<Column>)> {
        let source = |name: &str, prefix: &str| {
            let column = |column: &TableColumn| Offered {
                name: column.name.clone(),
                ty: column.ty,
                nullable: column.nullable,
                identity: column.identity,
                sql: format!("{prefix}{}", quote(&column.name)),
            };
            let columns = table.columns.iter().map(column).collect();
            SourceScope { alias: name.to_owned(), full: None, columns }
        };
        let mut scope = Scope::new();
        scope.sources = vec![source("inserted", NEW), source("deleted", OLD)];
        self.scopes.push(scope);
        let found: Result<Vec<_>> = items.iter().map(|item| self.item(item)).collect();
        self.scopes.pop();
        let (mut output, mut columns, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for (name, bound, identity) in found?.into_iter().flatten() {
            columns.push(Column { name, ty: bound.ty, nullable: bound.nullable, identity });
            made.push(bound);
        }
        // the new value of a column that is set comes behind all values of the row
        let set_at = |sql: &str| {
            let name = sql.strip_prefix(NEW)?;
            let named = |set: &RowSet| {
                set.column.as_ref().is_some_and(|column| quote(&column.name) == name)
            };
            sets.iter().position(named)
        };
        for mut bound in made {
            bound.each(&mut |part| {
                let Node::Leaf(sql) = &part.node else { return };
                if let Some(at) = set_at(sql) {
                    part.node = Node::Arg(usize::MAX - at);
                } else if let Some(name) = sql.strip_prefix(NEW).or_else(|| sql.strip_prefix(OLD)) {
                    part.node = Node::Leaf(format!("{alias}.{name}"));
                }
            });
            output.push(rows(&bound, leaves, types));
        }
        let count = leaves.len();
        for bound in &mut output {
            bound.each(&mut |part| {
                if let Node::Arg(at) = part.node
                    && let Some(set) = usize::MAX.checked_sub(at).filter(|set| *set < sets.len())
                {
                    part.node = Node::Arg(count + set);
                }
            });
        }
        Ok((output, columns))
    }
}
