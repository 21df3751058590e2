//! Changes of tables and views with INSTEAD OF triggers: their rows go into `inserted` and
//! `deleted`, and nowhere else. Also the rules of OUTPUT for tables with triggers.

use std::sync::Arc;

use tdekit_wire_tds::Value;
use tdekit_wire_tds::messages::TriggerError;

use super::dml::{delete_reads, real_name, set_column, update_reads};
use super::through::{changed_cte, only_table};
use super::{Binder, SourceScope};
use crate::ast::trigger::Event;
use crate::ast::{
    Cte, Delete, Expr, Hints, Insert, Kind, MergeAction, Name, OutputInto, SetItem, SetTarget,
    TableRef, Top, Update,
};
use crate::error::{Error, Result};
use crate::functions::typing::assign;
use crate::plan::access::Right;
use crate::plan::change::{self, Statement};
use crate::plan::relation::{self, Select};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Filled, Table, TableColumn, TableKind};
use crate::plan::trigger::{Changed, Trigger};
use crate::plan::{ColumnRef, Field};

/// A change whose rows an INSTEAD OF trigger gets.
#[derive(Debug)]
pub(crate) struct Instead {
    pub(crate) event: Event,
    pub(crate) trigger: Arc<Trigger>,
    /// The table; or the view, with columns.
    pub(crate) table: Arc<Table>,
    pub(crate) changed: Changed,
    /// Columns that its query gives: of the rows before the change, and after an UPDATE those of
    /// the rows after it. An INSERT has none: SQLite fills `inserted` itself.
    pub(crate) columns: Vec<String>,
    /// True if the query gives the number of the row first.
    pub(crate) numbered: bool,
}

/// An UPDATE or DELETE.
struct Rows<'a> {
    event: Event,
    ctes: &'a [Cte],
    target: &'a Name,
    hints: Hints,
    from: &'a [TableRef],
    filter: Option<&'a Expr>,
    top: Option<&'a Top>,
    sets: &'a [SetItem],
    reads: bool,
}

impl<'a> Rows<'a> {
    fn of_update(update: &'a Update) -> Rows<'a> {
        Rows {
            event: Event::Update,
            ctes: &update.ctes,
            target: &update.target,
            hints: update.hints,
            from: &update.from,
            filter: update.filter.as_ref(),
            top: update.top.as_ref(),
            sets: &update.sets,
            reads: update_reads(update),
        }
    }

    fn of_delete(delete: &'a Delete) -> Rows<'a> {
        Rows {
            event: Event::Delete,
            ctes: &delete.ctes,
            target: &delete.target,
            hints: delete.hints,
            from: &delete.from,
            filter: delete.filter.as_ref(),
            top: delete.top.as_ref(),
            sets: &[],
            reads: delete_reads(delete),
        }
    }
}

/// The object that a statement changes, in which ways, and its OUTPUT: true if it goes to the
/// client.
type Changes = (Name, Vec<Event>, Option<bool>);

fn changes(kind: &Kind) -> Result<Option<Changes>> {
    let output =
        |items: &[_], into: &Option<OutputInto>| (!items.is_empty()).then_some(into.is_none());
    let (name, events, output) = match kind {
        Kind::Insert(insert) => {
            let output = output(&insert.output, &insert.output_into);
            (insert.target.clone(), vec![Event::Insert], output)
        }
        Kind::Update(update) => {
            let name = match changed_cte(&update.ctes, &update.target, &update.from) {
                Some(cte) => Some(only_table(cte)?.clone()),
                None => real_name(&update.from, &update.target),
            };
            let output = output(&update.output, &update.output_into);
            (name.unwrap_or_else(|| update.target.clone()), vec![Event::Update], output)
        }
        Kind::Delete(delete) => {
            let name = match changed_cte(&delete.ctes, &delete.target, &delete.from) {
                Some(cte) => Some(only_table(cte)?.clone()),
                None => real_name(&delete.from, &delete.target),
            };
            let output = output(&delete.output, &delete.output_into);
            (name.unwrap_or_else(|| delete.target.clone()), vec![Event::Delete], output)
        }
        Kind::Merge(merge) => {
            let event = |action: &MergeAction| match action {
                MergeAction::Insert { .. } => Event::Insert,
                MergeAction::Update(_) => Event::Update,
                MergeAction::Delete => Event::Delete,
            };
            let events = merge.whens.iter().map(|when| event(&when.action)).collect();
            (merge.target.clone(), events, output(&merge.output, &merge.output_into))
        }
        _ => return Ok(None),
    };
    Ok(Some((name, events, output)))
}

/// Returns true if a statement changes a common table expression.
fn is_through(kind: &Kind) -> bool {
    let found = match kind {
        Kind::Update(update) => changed_cte(&update.ctes, &update.target, &update.from),
        Kind::Delete(delete) => changed_cte(&delete.ctes, &delete.target, &delete.from),
        _ => None,
    };
    found.is_some()
}

impl Binder<'_> {
    /// Returns the INSTEAD OF trigger that gets the rows of a change.
    ///
    /// # Errors
    /// 334 for an OUTPUT to the client from a table with triggers.
    pub(crate) fn instead_of(&mut self, kind: &Kind) -> Result<Option<Arc<Trigger>>> {
        let Some((name, events, output)) = changes(kind)? else { return Ok(None) };
        if name.object().starts_with(['#', '@']) {
            return Ok(None);
        }
        let Some(table) = self.catalog.table(&name)? else { return Ok(None) };
        let all = self.catalog.triggers(&table)?;
        let fires = |trigger: &&Arc<Trigger>| events.iter().any(|one| trigger.events.has(*one));
        if output == Some(true) && all.iter().any(|trigger| fires(&trigger)) {
            return Err(TriggerError::Output { table: name.text() }.into());
        }
        let found = all.iter().filter(fires).find(|trigger| trigger.instead);
        match found {
            Some(_) if matches!(kind, Kind::Merge(_)) => {
                Err(Error::feature("MERGE into a table with an INSTEAD OF trigger"))
            }
            Some(_) if is_through(kind) => {
                Err(Error::feature("a change through a query with an INSTEAD OF trigger"))
            }
            Some(_) if output.is_some() => {
                Err(Error::feature("OUTPUT of a change with an INSTEAD OF trigger"))
            }
            found => Ok(found.cloned()),
        }
    }

    /// Binds a change for an INSTEAD OF trigger. `logical` names `inserted` in SQLite.
    pub(crate) fn instead(
        &mut self,
        kind: &Kind,
        trigger: Arc<Trigger>,
        logical: impl FnOnce(&Table) -> Arc<Table>,
    ) -> Result<(Statement, Instead)> {
        match kind {
            Kind::Insert(insert) => self.instead_insert(insert, trigger, logical),
            Kind::Update(update) => self.instead_rows(&Rows::of_update(update), trigger),
            Kind::Delete(delete) => self.instead_rows(&Rows::of_delete(delete), trigger),
            _ => Err(Error::Internal { detail: "no change".to_owned() }),
        }
    }

    fn instead_insert(
        &mut self,
        insert: &Insert,
        trigger: Arc<Trigger>,
        into: impl FnOnce(&Table) -> Arc<Table>,
    ) -> Result<(Statement, Instead)> {
        self.with_commons(|binder| binder.instead_insert_in_scope(insert, trigger, into))
    }

    fn instead_insert_in_scope(
        &mut self,
        insert: &Insert,
        trigger: Arc<Trigger>,
        logical: impl FnOnce(&Table) -> Arc<Table>,
    ) -> Result<(Statement, Instead)> {
        let with = self.common_tables(&insert.ctes)?;
        let table = self.find_table(&insert.target, &[Right::Insert])?;
        let table = self.with_columns(table, &insert.target)?;
        self.needs.hints = self.needs.hints.and(insert.hints);
        let explicit = self.identity_insert(&table);
        let named = self.insert_columns(insert, &table, explicit)?;
        if named.iter().any(|column| column.filled == Filled::Version) {
            return Err(Error::VersionInserted {});
        }
        let mut columns: Vec<String> = named.iter().map(|column| column.name.clone()).collect();
        let mut extra = Vec::new();
        for column in &table.columns {
            let given = named.iter().any(|known| known.name == column.name);
            if given || column.is_computed() || column.filled == Filled::Version {
                continue;
            }
            if column.identity {
                columns.push(column.name.clone());
                extra.push(Scalar::constant(column.ty, Value::Int(0)));
            } else if column.default.is_some() {
                columns.push(column.name.clone());
                extra.push(self.default(&table, column)?.shared());
            }
        }
        let rows = self.insert_rows(insert, &table, &named, &extra)?;
        let into = logical(&table);
        let returning = Vec::new();
        let beforehand = false;
        let statement = Statement::Insert(change::Insert {
            with,
            table: into,
            columns,
            rows,
            beforehand,
            returning,
        });
        let (event, changed) = (Event::Insert, Changed::All);
        let (columns, numbered) = (Vec::new(), false);
        Ok((statement, Instead { event, trigger, table, changed, columns, numbered }))
    }

    /// A view as a table: with its columns.
    fn with_columns(&mut self, table: Arc<Table>, name: &Name) -> Result<Arc<Table>> {
        if table.kind == TableKind::Table {
            return Ok(table);
        }
        let known = (self.needs.access.len(), self.needs.hints);
        let shown = TableRef::Table(name.clone(), None, Hints::default());
        let offered = self.outside(|binder| binder.columns_of(&shown));
        self.needs.access.truncate(known.0);
        self.needs.hints = known.1;
        let column = |offered: super::Offered| TableColumn {
            name: offered.name,
            ty: offered.ty,
            nullable: true,
            identity: false,
            default: None,
            filled: Filled::Given,
            collation: offered.label.collation(),
        };
        let columns = offered?.into_iter().map(column).collect();
        Ok(Arc::new(Table { columns, ..(*table).clone() }))
    }

    fn instead_rows(
        &mut self,
        rows: &Rows<'_>,
        trigger: Arc<Trigger>,
    ) -> Result<(Statement, Instead)> {
        let (query, instead) =
            self.with_common_tables(rows.ctes, |binder| binder.instead_query(rows, trigger))?;
        Ok((Statement::Query(query), instead))
    }

    fn instead_query(
        &mut self,
        rows: &Rows<'_>,
        trigger: Arc<Trigger>,
    ) -> Result<(Select, Instead)> {
        self.needs.hints = self.needs.hints.and(rows.hints);
        let own = [TableRef::Table(rows.target.clone(), None, rows.hints)];
        let tables: &[TableRef] = if rows.from.is_empty() { &own } else { rows.from };
        let from = self.changed_tables(tables, rows.reads)?;
        let real = real_name(tables, rows.target).unwrap_or_else(|| rows.target.clone());
        let right = if rows.event == Event::Update { Right::Update } else { Right::Delete };
        let table = self.find_table(&real, &[right])?;
        let joined = !rows.from.is_empty() && table.kind != TableKind::Table;
        let view = real.text();
        match rows.event {
            Event::Update if joined => return Err(TriggerError::JoinedUpdate { view }.into()),
            _ if joined => return Err(TriggerError::JoinedDelete { view }.into()),
            _ => {}
        }
        let table = self.with_columns(table, &real)?;
        let sources = self.names.sources().iter();
        let is_target =
            |source: &&SourceScope| source.alias.eq_ignore_ascii_case(rows.target.object());
        let missing = || Error::InvalidObject { name: rows.target.text() };
        let source = sources.filter(is_target).find(|source| source.id.is_some());
        let source = source.cloned().ok_or_else(missing)?;
        let stored = table.columns.iter().filter(|column| !column.is_computed());
        let columns: Vec<TableColumn> = stored.cloned().collect();
        let mut old = Vec::new();
        for column in &columns {
            let offered = source.columns.iter().find(|offered| offered.name == column.name);
            old.push(self.read(offered.ok_or_else(missing)?)?);
        }
        let mut items = Vec::new();
        let numbered = table.kind == TableKind::Table;
        if let (true, Some(alias)) = (numbered, source.id) {
            let number = ColumnRef::of(alias, Field::RowId);
            items.push(Scalar::column(tdekit_wire_tds::SqlType::BigInt, false, number));
        }
        items.extend(old.iter().cloned());
        let mut changed = Changed::None;
        if rows.event == Event::Update {
            let (new, names) = self.instead_sets(rows.sets, &table, &columns, old)?;
            items.extend(new);
            changed = Changed::Named(names);
        }
        let filter = rows.filter.map(|filter| self.condition(filter)).transpose()?;
        let limit = self.change_limit(rows.top)?;
        let items = items.into_iter().map(relation::Item::Plain).collect();
        let select = Select { items, from: Some(from), filter, limit, ..Select::default() };
        let columns = columns.into_iter().map(|column| column.name).collect();
        let event = rows.event;
        Ok((select, Instead { event, trigger, table, changed, columns, numbered }))
    }

    /// The new values of all columns, and the names of those that are set.
    fn instead_sets(
        &mut self,
        sets: &[SetItem],
        table: &Table,
        columns: &[TableColumn],
        old: Vec<Scalar>,
    ) -> Result<(Vec<Scalar>, Vec<String>)> {
        let (mut new, mut names) = (old.clone(), Vec::new());
        for (target, op, value) in sets {
            let SetTarget::Column(name) = target else {
                return Err(Error::feature("a variable in SET with an INSTEAD OF trigger"));
            };
            let column = set_column(table, name)?;
            let at = columns.iter().position(|own| own.name == column.name);
            let at = at.ok_or_else(|| Error::InvalidColumn { name: name.text() })?;
            if names.contains(&column.name) {
                return Err(Error::DuplicateColumnName { name: column.name });
            }
            new[at] = match value {
                Some(expr) => {
                    let value = self.scalar(expr)?;
                    let value = super::call::compound(*op, old[at].clone(), value)?;
                    assign(value, &column, &table.full_name())?
                }
                None if column.default.is_some() => self.default(table, &column)?,
                None => Scalar::new(column.ty, true, Node::Const(Value::Null)),
            };
            names.push(column.name);
        }
        Ok((new, names))
    }
}
