//! INSERT, UPDATE and DELETE.

use std::cmp::Ordering;
use std::sync::Arc;

use tdekit_wire_tds::Column;
use tdekit_wire_tds::messages::{InsertError, TriggerError, XmlError};

use super::query::{Asked, BoundQuery, out_column};
use super::through::{Through, changed_column, shown_table};
use super::{Binder, Scope};
use crate::ast::{
    Delete, Expr, Insert, Item, Name, Select, SetItem, SetTarget, Source, TableRef, Update,
};
use crate::error::{Error, Result};
use crate::functions::typing::{assign, common_of, convert};
use crate::plan::access::Right;
use crate::plan::change::{self as plan, Chosen, Inserted, Statement, Target};
use crate::plan::relation::{Limit, Relation};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::table::{Filled, Table, TableColumn, TableKind};
use crate::plan::{Alias, ColumnRef};

/// A change: its plan, the target, the columns of OUTPUT.
pub(crate) struct Change {
    pub(crate) statement: Statement,
    pub(crate) table: Arc<Table>,
    pub(crate) columns: Vec<Column>,
    /// True if the identity column is generated here.
    pub(crate) identity: bool,
    /// True if the statement supplies the identity column.
    pub(crate) explicit_identity: bool,
}

/// Numbers of the places of one DEFAULT in which it takes values of sequences.
const DEFAULT_PLACES: usize = 1 << 20;

impl Binder<'_> {
    pub(super) fn target(&mut self, name: &Name, rights: &[Right]) -> Result<Arc<Table>> {
        let table = self.find_table(name, rights)?;
        match &table.kind {
            TableKind::Table if table.is_logical() => Err(TriggerError::LogicalTable {}.into()),
            TableKind::Table => Ok(table),
            TableKind::View(_) => Err(Error::feature("a change through a view")),
            TableKind::Function(_) => Err(Error::feature("a change through a function")),
            TableKind::System(_) => Err(Error::SystemCatalog {}),
        }
    }

    pub(crate) fn insert(&mut self, insert: &Insert) -> Result<Change> {
        self.with_commons(|binder| binder.insert_in_scope(insert))
    }

    fn insert_in_scope(&mut self, insert: &Insert) -> Result<Change> {
        let with = self.common_tables(&insert.ctes)?;
        let table =
            self.target(&insert.target, &rights(Right::Insert, !insert.output.is_empty()))?;
        self.needs.hints = self.needs.hints.and(insert.hints);
        let explicit = self.identity_insert(&table);
        let identity = table.identity().cloned();
        let named = self.insert_columns(insert, &table, explicit)?;
        let mut names: Vec<String> = named.iter().map(|column| column.name.clone()).collect();
        let gives_identity =
            identity.as_ref().is_some_and(|own| named.iter().any(|found| found.name == own.name));
        if explicit && identity.is_some() && !gives_identity {
            return Err(Error::IdentityMissing { table: table.name.clone() });
        }
        let mut extra = Vec::new();
        for column in &table.columns {
            if named.iter().any(|found| found.name == column.name) {
                continue;
            }
            if column.is_computed() {
                continue;
            } else if column.filled == Filled::Version {
                names.push(column.name.clone());
                extra.push(version_of(&table, column));
            } else if column.identity {
                names.push(column.name.clone());
                extra.push(Scalar::new(column.ty, false, Node::Identity));
            } else if column.default.is_some() {
                let value = self.default(&table, column)?;
                names.push(column.name.clone());
                extra.push(value.shared());
            }
        }
        let rows = self.insert_rows(insert, &table, &named, &extra)?;
        let (returning, columns) = self.output(&insert.output, &table, "inserted")?;
        Ok(Change {
            statement: Statement::Insert(plan::Insert {
                with,
                table: table.clone(),
                columns: names,
                rows,
                beforehand: self.needs.nested,
                returning,
            }),
            columns,
            identity: identity.is_some() && !gives_identity,
            explicit_identity: gives_identity,
            table,
        })
    }

    pub(super) fn insert_columns(
        &mut self,
        insert: &Insert,
        table: &Table,
        explicit: bool,
    ) -> Result<Vec<TableColumn>> {
        if insert.source == Source::Defaults {
            return Ok(Vec::new());
        }
        if insert.columns.is_empty() {
            let all = table.columns.iter().filter(|column| !column.is_computed());
            let all = all.filter(|column| explicit || !column.identity);
            return Ok(all.cloned().collect());
        }
        let mut found: Vec<TableColumn> = Vec::new();
        for name in &insert.columns {
            let column =
                table.column(name).ok_or_else(|| Error::InvalidColumn { name: name.clone() })?;
            if column.identity && !explicit {
                return Err(Error::IdentityInsert { table: table.name.clone() });
            }
            if column.is_computed() {
                return Err(Error::ComputedModified { column: column.name.clone() });
            }
            if found.iter().any(|known| known.name == column.name) {
                return Err(Error::DuplicateColumnName { name: name.clone() });
            }
            found.push(column.clone());
        }
        Ok(found)
    }

    pub(super) fn insert_rows(
        &mut self,
        insert: &Insert,
        table: &Table,
        named: &[TableColumn],
        extra: &[Scalar],
    ) -> Result<Inserted> {
        match &insert.source {
            Source::Defaults => Ok(Inserted::Values { rows: vec![extra.to_vec()], limit: None }),
            Source::Values(rows) => {
                if rows.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
                    return Err(InsertError::RowWidths {}.into());
                }
                let given = rows.first().map_or(0, Vec::len);
                supplied(&insert.columns, given, named.len())?;
                let rows = self.insert_values(rows, table, named, extra)?;
                Ok(Inserted::Values { rows, limit: self.limits.rows() })
            }
            Source::Query(query) => {
                if query.json.is_some() {
                    return Err(Error::JsonNotAllowed { statement: "INSERT" });
                }
                if query.xml.is_some() {
                    return Err(XmlError::NotAllowed { statement: "INSERT" }.into());
                }
                let bound = self.query(query, Asked::of_statement(false))?;
                match bound.columns.len().cmp(&named.len()) {
                    Ordering::Equal => {}
                    _ if insert.columns.is_empty() => {
                        return Err(InsertError::TableValues {}.into());
                    }
                    Ordering::Less => return Err(InsertError::SelectMore {}.into()),
                    Ordering::Greater => return Err(InsertError::SelectLess {}.into()),
                }
                self.insert_query(bound, table, named, extra)
            }
            Source::Exec(_) => Err(Error::unsupported("INSERT .. EXEC")),
        }
    }

    /// The rows of VALUES converted for the table's columns. The values of a column in several rows
    /// first get one type, as in UNION ALL; NULL and DEFAULT do not affect it.
    fn insert_values(
        &mut self,
        rows: &[Vec<Option<Expr>>],
        table: &Table,
        named: &[TableColumn],
        extra: &[Scalar],
    ) -> Result<Vec<Vec<Scalar>>> {
        let mut bound: Vec<Vec<Option<Scalar>>> = Vec::new();
        for row in rows {
            let values = row.iter().map(|value| value.as_ref().map(|expr| self.scalar(expr)));
            bound.push(values.map(Option::transpose).collect::<Result<_>>()?);
        }
        let common = |at: usize| common_of(bound.iter().filter_map(|row| row.get(at)?.as_ref()));
        let types = (0..named.len()).map(common).collect::<Result<Vec<_>>>()?;
        let mut made = Vec::new();
        for row in bound {
            let mut values = Vec::new();
            for ((value, column), ty) in row.into_iter().zip(named).zip(&types) {
                let value = match (value, ty) {
                    (None, _) if column.filled == Filled::Version => version_of(table, column),
                    (Some(_), _) if column.filled == Filled::Version => {
                        return Err(Error::VersionInserted {});
                    }
                    (None, _) => self.default(table, column)?,
                    (Some(value), Some(ty)) if value.node.is_typed() => {
                        let value = convert(value, *ty)?;
                        assign(value, column, &table.full_name())?
                    }
                    (Some(value), _) => assign(value, column, &table.full_name())?,
                };
                values.push(value);
            }
            values.extend(extra.iter().cloned());
            made.push(values);
        }
        Ok(made)
    }

    fn insert_query(
        &mut self,
        bound: BoundQuery,
        table: &Table,
        named: &[TableColumn],
        extra: &[Scalar],
    ) -> Result<Inserted> {
        if named.iter().any(|column| column.filled == Filled::Version) {
            return Err(Error::VersionInserted {});
        }
        let alias = self.fresh(Alias::Query);
        let mut items = Vec::new();
        for (at, (from, to)) in bound.columns.iter().zip(named).enumerate() {
            items.push(assign(from.of(alias, at), to, &table.full_name())?);
        }
        items.extend(extra.iter().cloned());
        let query = Box::new(bound.query);
        Ok(Inserted::Query { items, query, alias, limit: self.limits.rows() })
    }

    /// The column's DEFAULT, or NULL.
    pub(crate) fn default(&mut self, table: &Table, column: &TableColumn) -> Result<Scalar> {
        let Some(text) = &column.default else {
            return Ok(Scalar::new(column.ty, true, Node::Const(tdekit_wire_tds::Value::Null)));
        };
        let mut expr = crate::parse::default_expression(text)?;
        number_default(&mut expr, table, column)?;
        if let Some(sequential) = super::call::sequential(&expr, column.ty)? {
            return Ok(sequential);
        }
        let known = self.needs.access.len();
        let bound = self.outside(|binder| binder.kept(&expr, table, |binder| binder.scalar(&expr)));
        if super::call::invoked_in(&expr).is_empty() {
            // the table's owner is that of its sequences
            self.needs.access.truncate(known);
        }
        assign(bound?, column, &table.full_name())
    }

    /// The values and the columns of OUTPUT; `which` is the permitted pseudo-table.
    fn output(
        &mut self,
        items: &[Item],
        table: &Table,
        which: &str,
    ) -> Result<(Vec<Scalar>, Vec<Column>)> {
        if items.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let scope = Scope::of(vec![self.scope_of(which, table, None)?]);
        self.output_items(items, scope)
    }

    /// The same over the columns of a scope.
    pub(super) fn output_items(
        &mut self,
        items: &[Item],
        scope: Scope,
    ) -> Result<(Vec<Scalar>, Vec<Column>)> {
        let bind = |binder: &mut Self| -> Result<Vec<_>> {
            items.iter().map(|item| binder.item(item)).collect()
        };
        let found = self.in_scope(scope, bind)?;
        let (mut values, mut columns) = (Vec::new(), Vec::new());
        for (name, bound, generated) in found.into_iter().flatten() {
            super::routine::refuse_reader(&bound, "OUTPUT")?;
            columns.push(out_column(name, &bound, generated));
            values.push(bound);
        }
        Ok((values, columns))
    }

    /// The tables of an UPDATE or DELETE. One that shows nothing of its target's rows does not
    /// read them.
    pub(super) fn changed_tables(&mut self, tables: &[TableRef], reads: bool) -> Result<Relation> {
        let known = self.needs.access.len();
        let from = self.tables_clause(tables)?;
        if !reads {
            self.needs.access.truncate(known);
        }
        Ok(from)
    }

    /// The target of an UPDATE or DELETE with FROM: the table that an alias or name stands for.
    pub(crate) fn target_in(
        &mut self,
        target: &Name,
        from: &[TableRef],
        right: Right,
    ) -> Result<(Arc<Table>, Alias)> {
        let alias = self.alias_of(target);
        let real = real_name(from, target).unwrap_or_else(|| target.clone());
        let table = self.target(&real, &[right])?;
        Ok((table, alias?))
    }

    /// The table of FROM that a name or alias stands for.
    pub(super) fn alias_of(&self, target: &Name) -> Result<Alias> {
        let alias = self.names.alias_of(target.object());
        alias.ok_or_else(|| Error::InvalidObject { name: target.text() })
    }

    pub(crate) fn update(&mut self, update: &Update) -> Result<Change> {
        self.with_commons(|binder| {
            let (with, through) =
                binder.changed_common_tables(&update.ctes, &update.target, &update.from)?;
            let bind = |binder: &mut Self| binder.update_in_scope(update, through.as_ref());
            let (target, sets) = binder.in_scope(Scope::new(), bind)?;
            let table = target.table.clone();
            let statement = Statement::Update(plan::Update { with, target, sets });
            let columns = Vec::new();
            Ok(Change { statement, table, columns, identity: false, explicit_identity: false })
        })
    }

    /// The rows of an UPDATE and their new values.
    fn update_in_scope(
        &mut self,
        update: &Update,
        through: Option<&Through>,
    ) -> Result<(Target, Vec<(String, Scalar)>)> {
        let limited = update.top.is_some() || self.limits.rows().is_some();
        let joined = !update.from.is_empty() || limited || through.is_some();
        self.needs.hints = self.needs.hints.and(update.hints);
        let own = [TableRef::Table(update.target.clone(), None, update.hints)];
        let tables: &[TableRef] = if update.from.is_empty() { &own } else { &update.from };
        let from = self.changed_tables(tables, update_reads(update))?;
        let target = (&update.target, through);
        let (table, alias, from) = self.changed_rows(target, tables, from, Right::Update)?;
        let mut sets: Vec<(String, Scalar)> = Vec::new();
        for (target, op, value) in &update.sets {
            let SetTarget::Column(name) = target else {
                return Err(Error::Internal { detail: "a variable in UPDATE".to_owned() });
            };
            let column = changed_column(&table, through, name)?;
            if sets.iter().any(|(known, _)| *known == column.name) {
                return Err(Error::DuplicateColumnName { name: column.name });
            }
            let bound = match value {
                Some(expr) => {
                    let value = self.scalar(expr)?;
                    let current = ColumnRef::named(Some(alias), &column.name);
                    let current = Scalar::column(column.ty, column.nullable, current)
                        .of_collation(column.collation);
                    let value = super::call::compound(*op, current, value)?;
                    assign(value, &column, &table.full_name())?
                }
                None => self.default(&table, &column)?,
            };
            sets.push((column.name, bound));
        }
        if let Some(column) = table.version() {
            sets.push((column.name.clone(), version_of(&table, column)));
        }
        let filter = self.filter(update.filter.as_ref())?;
        let from = match joined || self.needs.nested {
            true => Some(Chosen { from, limit: self.change_limit(update.top.as_ref())? }),
            false => None,
        };
        Ok((Target { table, alias, from, filter }, sets))
    }

    pub(crate) fn filter(&mut self, filter: Option<&Expr>) -> Result<Option<Scalar>> {
        filter.map(|filter| self.condition(filter)).transpose()
    }

    /// The limit of a change: TOP, or SET ROWCOUNT.
    pub(crate) fn change_limit(&mut self, top: Option<&crate::ast::Top>) -> Result<Option<Limit>> {
        match (top, self.limits.rows()) {
            (Some(_), Some(_)) => Err(Error::unsupported("TOP of a change with SET ROWCOUNT")),
            (None, Some(rows)) => Ok(Some(Limit::rows(rows))),
            (Some(top), None) if top.percent || top.ties => {
                Err(Error::unsupported("TOP PERCENT of a change"))
            }
            (top, None) => self.limit(top, None),
        }
    }

    pub(crate) fn delete(&mut self, delete: &Delete) -> Result<Change> {
        self.with_commons(|binder| {
            let (with, through) =
                binder.changed_common_tables(&delete.ctes, &delete.target, &delete.from)?;
            let bind = |binder: &mut Self| binder.delete_in_scope(delete, through.as_ref());
            let target = binder.in_scope(Scope::new(), bind)?;
            let table = target.table.clone();
            let (returning, columns) = match delete.output.as_slice() {
                [] => (Vec::new(), Vec::new()),
                output => {
                    let shown = shown_table(&table, through.as_ref())?;
                    binder.output(output, &shown, "deleted")?
                }
            };
            let statement = Statement::Delete(plan::Delete { with, target, returning });
            Ok(Change { statement, table, columns, identity: false, explicit_identity: false })
        })
    }

    /// The rows of a DELETE.
    fn delete_in_scope(&mut self, delete: &Delete, through: Option<&Through>) -> Result<Target> {
        let limited = delete.top.is_some() || self.limits.rows().is_some();
        let joined = !delete.from.is_empty() || limited || through.is_some();
        self.needs.hints = self.needs.hints.and(delete.hints);
        let own = [TableRef::Table(delete.target.clone(), None, delete.hints)];
        let tables: &[TableRef] = if delete.from.is_empty() { &own } else { &delete.from };
        let from = self.changed_tables(tables, delete_reads(delete))?;
        let target = (&delete.target, through);
        let (table, alias, from) = self.changed_rows(target, tables, from, Right::Delete)?;
        let filter = self.filter(delete.filter.as_ref())?;
        let from = match joined || self.needs.nested {
            true => Some(Chosen { from, limit: self.change_limit(delete.top.as_ref())? }),
            false => None,
        };
        Ok(Target { table, alias, from, filter })
    }
}

/// Numbers the places where a DEFAULT takes values of sequences: beside those of the statement.
/// Checks the number of values of a row against the columns that get them: those of the list, or
/// without one those of the table.
pub(super) fn supplied(list: &[String], given: usize, wanted: usize) -> Result<()> {
    Err(match given.cmp(&wanted) {
        Ordering::Equal => return Ok(()),
        _ if list.is_empty() => InsertError::TableValues {},
        Ordering::Less => InsertError::ColumnsMore {},
        Ordering::Greater => InsertError::ColumnsLess {},
    }
    .into())
}

fn number_default(expr: &mut Expr, table: &Table, column: &TableColumn) -> Result<()> {
    let at = table.columns.iter().position(|own| own.name == column.name).unwrap_or(0);
    let (mut place, mut elsewhere) = (DEFAULT_PLACES * (at + 1), false);
    expr.each(&mut |part| {
        if let Expr::Next(name, number) = part {
            *number = place;
            place += 1;
            elsewhere |= name.0.len() > 2;
            let (schema, database) = (name.part(1).unwrap_or("dbo").to_owned(), &table.database);
            *name = Name(vec![database.clone(), schema, name.object().to_owned()]);
        }
    });
    if elsewhere { Err(Error::NextDatabase {}) } else { Ok(()) }
}

/// Returns true if an UPDATE depends on rows of its target, or shows them.
pub(super) fn update_reads(update: &Update) -> bool {
    let column = |part: &Expr| matches!(part, Expr::Column(_)) || part.query().is_some();
    let reads = |(_, op, value): &SetItem| {
        op.is_some() || value.as_ref().is_some_and(|value| value.any(&column))
    };
    let alone = update.filter.is_none()
        && update.from.is_empty()
        && update.output.is_empty()
        && update.ctes.is_empty();
    !alone || update.sets.iter().any(reads)
}

pub(super) fn delete_reads(delete: &Delete) -> bool {
    delete.filter.is_some()
        || !delete.from.is_empty()
        || !delete.output.is_empty()
        || !delete.ctes.is_empty()
}

/// What a change needs of its target, and SELECT if it shows rows of it.
fn rights(right: Right, shows: bool) -> Vec<Right> {
    if shows { vec![right, Right::Select] } else { vec![right] }
}

/// The next row version, for a column of a table.
pub(crate) fn version_of(table: &Table, column: &TableColumn) -> Scalar {
    Scalar::new(column.ty, false, Node::Version(table.schema.as_str().into()))
}

/// The column of SET.
pub(crate) fn set_column(table: &Table, name: &Name) -> Result<TableColumn> {
    let column =
        table.column(name.object()).ok_or_else(|| Error::InvalidColumn { name: name.text() })?;
    if column.identity {
        return Err(Error::IdentityUpdate { name: column.name.clone() });
    }
    if column.is_computed() {
        return Err(Error::ComputedModified { column: column.name.clone() });
    }
    if column.filled == Filled::Version {
        return Err(Error::VersionUpdated {});
    }
    Ok(column.clone())
}

/// The table behind an alias in FROM.
pub(super) fn real_name(from: &[TableRef], target: &Name) -> Option<Name> {
    from.iter().find_map(|table| match table {
        TableRef::Table(name, Some(alias), _) if target.0.len() == 1 => {
            alias.eq_ignore_ascii_case(target.object()).then(|| name.clone())
        }
        TableRef::Table(name, None, _) => {
            name.object().eq_ignore_ascii_case(target.object()).then(|| name.clone())
        }
        TableRef::Join(_, left, right, _) => {
            let left = std::slice::from_ref(left.as_ref());
            let right = std::slice::from_ref(right.as_ref());
            real_name(left, target).or_else(|| real_name(right, target))
        }
        _ => None,
    })
}

/// Returns true if a SELECT assigns to variables.
pub(crate) fn is_assignment(select: &Select) -> bool {
    select.items.iter().any(|item| matches!(item, Item::Assign(..)))
}
