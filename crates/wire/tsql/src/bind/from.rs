//! FROM: tables, views, derived tables and joins.

use std::sync::Arc;

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Generated, SqlType};

use super::names::CteScope;
use super::query::{Asked, BoundQuery, OutColumn};
use super::{Binder, Offered, SourceScope};
use crate::ast::{Action, Expr, Hints, JoinKind, Kind, Name, Query, TableRef};
use crate::error::{Error, Result};
use crate::functions::typing::{common_of, fitted};
use crate::plan::access::{Access, Right};
use crate::plan::label::{Label, joined};
use crate::plan::relation::{Join, Relation};
use crate::plan::scalar::Scalar;
use crate::plan::table::{Table, TableColumn, TableKind};
use crate::plan::{Alias, ColumnRef, Field};

impl Binder<'_> {
    /// Binds a FROM clause into the innermost scope.
    pub(crate) fn tables_clause(&mut self, tables: &[TableRef]) -> Result<Relation> {
        let mut parts = Vec::new();
        for table in tables {
            parts.push(self.table_ref(table)?);
        }
        match parts.pop() {
            Some(only) if parts.is_empty() => Ok(only),
            Some(last) => {
                parts.push(last);
                Ok(Relation::Product(parts))
            }
            None => Ok(Relation::One),
        }
    }

    pub(crate) fn table_ref(&mut self, table: &TableRef) -> Result<Relation> {
        match table {
            TableRef::Table(name, alias, hints) => self.named_table(name, alias.as_deref(), *hints),
            TableRef::Derived(query, alias, names) => {
                let bound = self.derived(query)?;
                let columns = fields(bound.columns);
                distinct(alias, &columns, names)?;
                let id = self.offer(alias, None, &columns, names)?;
                Ok(Relation::Derived { query: Box::new(bound.query), alias: id })
            }
            TableRef::Values(rows, alias, names) => self.values(rows, alias, names),
            TableRef::Called(call) => self.called(call, None),
            TableRef::Pivot(pivot) => self.pivot(pivot),
            TableRef::Function(call) => match self.table_function(call, false)? {
                (relation, None) => Ok(relation),
                (relation, on) => {
                    let (left, right) = (Box::new(Relation::One), Box::new(relation));
                    Ok(Relation::Join { kind: Join::Inner, left, right, on })
                }
            },
            TableRef::Join(kind, left, right, on) => {
                let first = self.names.sources().len();
                let left = Box::new(self.table_ref(left)?);
                let middle = self.names.sources().len();
                let apply = matches!(kind, JoinKind::CrossApply | JoinKind::OuterApply);
                let (right, applied) = match &**right {
                    other if !apply => (self.table_ref(other)?, None),
                    other => self.applied(other, first)?,
                };
                let on = match on {
                    // the joined tables are in its scope, and no other
                    Some(on) => Some(self.hiding(first, |binder| binder.condition(on))?),
                    None => applied,
                };
                if matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::OuterApply) {
                    self.names.make_nullable(middle, usize::MAX);
                }
                if matches!(kind, JoinKind::Right | JoinKind::Full) {
                    self.names.make_nullable(first, middle);
                }
                let kind = match kind {
                    JoinKind::Inner | JoinKind::Cross | JoinKind::CrossApply => Join::Inner,
                    JoinKind::Left | JoinKind::OuterApply => Join::Left,
                    JoinKind::Right => Join::Right,
                    JoinKind::Full => Join::Full,
                };
                Ok(Relation::Join { kind, left, right: Box::new(right), on })
            }
        }
    }

    /// The relation that APPLY joins, and its condition; it sees the tables from position `first`
    /// on.
    fn applied(&mut self, right: &TableRef, first: usize) -> Result<(Relation, Option<Scalar>)> {
        let relation = match right {
            TableRef::Function(call) => return self.table_function(call, true),
            TableRef::Called(call) => self.called(call, Some(first)),
            TableRef::Derived(query, alias, names) => {
                self.applied_query(query, (alias, names), first)
            }
            TableRef::Values(rows, alias, names) => {
                self.applied_values(rows, (alias, names), first)
            }
            other => self.table_ref(other),
        };
        relation.map(|relation| (relation, None))
    }

    /// A separate query, in whose scope the tables beside it are not.
    pub(crate) fn derived(&mut self, query: &Query) -> Result<BoundQuery> {
        self.beside(|binder| binder.query(query, Asked::default()))
    }

    /// Adds a source with these columns and returns its alias.
    pub(super) fn offer(
        &mut self,
        alias: &str,
        full: Option<Name>,
        columns: &[(OutColumn, Field)],
        names: &[String],
    ) -> Result<Alias> {
        check_names(alias, names, columns.len())?;
        let id = self.fresh(Alias::Source);
        let mut offered = Vec::new();
        for (at, (column, field)) in columns.iter().enumerate() {
            let name = names.get(at).unwrap_or(&column.name).clone();
            if name.is_empty() {
                return Err(Error::NoColumnName { number: at + 1, of: alias.to_owned() });
            }
            offered.push(Offered {
                name,
                ty: column.ty,
                nullable: column.nullable,
                generated: column.generated,
                column: ColumnRef::of(id, field.clone()),
                label: column.label.as_column(),
                value: None,
            });
        }
        let alias = alias.to_owned();
        self.add_source(SourceScope { alias, full, id: Some(id), columns: offered })?;
        Ok(id)
    }

    pub(crate) fn add_source(&mut self, source: SourceScope) -> Result<()> {
        self.limits.add_table()?;
        self.names.add_source(source)
    }

    fn values(&mut self, rows: &[Vec<Expr>], alias: &str, names: &[String]) -> Result<Relation> {
        let (rows, columns) = self.value_rows(rows, names)?;
        distinct(alias, &columns, names)?;
        let alias = self.offer(alias, None, &columns, names)?;
        Ok(Relation::Values { rows, alias })
    }

    /// The rows of VALUES, in the types of its columns.
    pub(super) fn value_rows(
        &mut self,
        rows: &[Vec<Expr>],
        names: &[String],
    ) -> Result<(Vec<Vec<Scalar>>, Fields)> {
        let mut bound: Vec<Vec<Scalar>> = Vec::new();
        for row in rows {
            bound.push(row.iter().map(|value| self.scalar(value)).collect::<Result<_>>()?);
        }
        let (mut columns, mut types) = (Vec::new(), Vec::new());
        for at in 0..names.len() {
            let values: Vec<&Scalar> = bound.iter().map(|row| &row[at]).collect();
            let nullable = values.iter().any(|value| value.nullable);
            let label = joined(values.iter().copied(), "UNION ALL");
            let ty = common_of(values)?;
            label.listed(ty.unwrap_or(SqlType::Int), "VALUES", at)?;
            types.push(ty);
            let column = OutColumn {
                name: names[at].clone(),
                ty: ty.unwrap_or(SqlType::Int),
                nullable,
                generated: Generated::No,
                untyped: false,
                json: false,
                table: None,
                label,
            };
            columns.push((column, Field::Value(at)));
        }
        let mut rows = Vec::new();
        for row in bound {
            let values = row.into_iter().zip(&types).map(|(value, ty)| fitted(value, *ty));
            rows.push(values.collect::<Result<Vec<_>>>()?);
        }
        Ok((rows, columns))
    }

    fn named_table(&mut self, name: &Name, alias: Option<&str>, hints: Hints) -> Result<Relation> {
        // a temporary table belongs to the session
        if !name.object().starts_with(['#', '@']) {
            self.needs.hints = self.needs.hints.and(hints);
        }
        if name.0.len() == 1
            && let Some(cte) = self.names.common(name.object()).cloned()
        {
            return self.cte_reference(&cte, alias.unwrap_or(name.object()));
        }
        let table = self.find_table(name, &[Right::Select])?;
        let shown = alias.unwrap_or(name.object()).to_owned();
        let full = if alias.is_none() { Some(name.clone()) } else { None };
        match &table.kind {
            TableKind::View(text) => {
                let bound = self.view(&table, text)?;
                let alias = self.offer(&shown, full, &fields(bound.columns), &[])?;
                Ok(Relation::Derived { query: Box::new(bound.query), alias })
            }
            TableKind::Function(_) => Err(DefinedError::NoArguments { name: name.text() }.into()),
            TableKind::Table | TableKind::System(_) => {
                if let TableKind::System(name) = &table.kind {
                    self.needs.fill(name);
                } else {
                    self.needs.read(&table);
                }
                let column = |column: &TableColumn| {
                    let out = OutColumn {
                        name: column.name.clone(),
                        ty: column.ty,
                        nullable: column.nullable,
                        generated: column.generated(),
                        untyped: false,
                        json: false,
                        table: None,
                        label: Label::Implicit(column.collation),
                    };
                    (out, Field::Named(column.name.as_str().into()))
                };
                let columns: Vec<_> = table.columns.iter().map(column).collect();
                let alias = self.offer(&shown, full, &columns, &[])?;
                self.offer_computed(&table, alias)?;
                Ok(Relation::Scan { table, alias })
            }
        }
    }

    /// Gives the computed columns of the table that was offered last their values.
    fn offer_computed(&mut self, table: &Table, alias: Alias) -> Result<()> {
        for at in 0..table.columns.len() {
            let Some(value) = self.computed_later(table, at, Some(alias))? else { continue };
            self.names.set_value(at, value);
        }
        Ok(())
    }

    /// Returns the table of this name, which the statement may use in these ways; table variables
    /// are included.
    pub(crate) fn find_table(&mut self, name: &Name, rights: &[Right]) -> Result<Arc<Table>> {
        let mut wanted = name.clone();
        if name.object().starts_with('@') {
            let own = self.expansion.parameters();
            if let Some(local) = own.and_then(|own| own.local(name.object())) {
                return Ok(local.table.clone());
            }
            if rights.iter().any(|right| *right != Right::Select) {
                self.variables.refuse_readonly(name)?;
            }
            let found = match own {
                Some(parameters) => parameters.table(name.object()).map(|(real, _)| real),
                None => self.variables.tables.get(&name.object().to_lowercase()),
            };
            let Some(real) = found else {
                return Err(Error::UndeclaredTable { name: name.object().to_owned() });
            };
            wanted = Name(vec![real.clone()]);
        } else if let Some(database) = self.expansion.database()
            && name.part(2).is_none()
            && !name.object().starts_with('#')
        {
            let schema = name.part(1).unwrap_or_default().to_owned();
            wanted = Name(vec![database.to_owned(), schema, name.object().to_owned()]);
        }
        let found = self.catalog.table(&wanted)?;
        let table = found.ok_or_else(|| Error::InvalidObject { name: name.text() })?;
        for right in rights {
            let access = Access::of(&table, *right, self.expansion.database());
            self.needs.access.extend(access);
        }
        Ok(table)
    }

    fn view(&mut self, table: &Table, text: &str) -> Result<BoundQuery> {
        self.expand(table, |binder| {
            let stmts = crate::parse::parse(text, true).map_err(|at| at.error)?;
            let Some(Kind::Act(Action::CreateView { columns: names, query, .. })) =
                stmts.into_iter().next().map(|stmt| stmt.kind)
            else {
                return Err(Error::InvalidObject { name: table.full_name() });
            };
            let mut bound = binder.query(&query, Asked::default())?;
            for (column, name) in bound.columns.iter_mut().zip(names) {
                column.name = name;
            }
            Ok(bound)
        })
    }

    fn cte_reference(&mut self, cte: &CteScope, alias: &str) -> Result<Relation> {
        let id = self.fresh(Alias::Source);
        let mut columns = Vec::new();
        for column in &cte.columns {
            let of = ColumnRef::of(id, column.column.field.clone());
            columns.push(Offered { column: of, ..column.clone() });
        }
        if cte.recursive {
            self.names.recur(id);
        }
        let alias = alias.to_owned();
        self.add_source(SourceScope { alias, full: None, id: Some(id), columns })?;
        Ok(Relation::Common { name: cte.id, alias: id })
    }
}

/// Columns of a query, each with its place among them.
pub(super) type Fields = Vec<(OutColumn, Field)>;

/// Columns of a query, each with its position.
pub(super) fn fields(columns: Vec<OutColumn>) -> Fields {
    columns.into_iter().enumerate().map(|(at, column)| (column, Field::Item(at))).collect()
}

/// Returns the first name that is there twice; what has no name does not count.
pub(crate) fn repeated<'n>(names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let mut known: Vec<&str> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if known.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Some(name);
        }
        known.push(name);
    }
    None
}

/// Checks that no column of a derived table or of a common table expression is named twice.
pub(super) fn refuse_repeated<'n>(of: &str, names: impl Iterator<Item = &'n str>) -> Result<()> {
    match repeated(names) {
        Some(name) => {
            let (name, of) = (name.to_owned(), of.to_owned());
            Err(DefinedError::NamedTwice { name, of }.into())
        }
        None => Ok(()),
    }
}

/// Checks that each column of a query of the statement has a name of its own.
pub(super) fn distinct(
    alias: &str,
    columns: &[(OutColumn, Field)],
    names: &[String],
) -> Result<()> {
    check_names(alias, names, columns.len())?;
    let own = columns.iter().map(|(column, _)| column.name.as_str());
    let own = own.enumerate().map(|(at, own)| names.get(at).map_or(own, String::as_str));
    refuse_repeated(alias, own)
}

/// Checks that names, if there are any, are as many as the columns.
pub(crate) fn check_names(of: &str, names: &[String], columns: usize) -> Result<()> {
    if names.is_empty() || names.len() == columns {
        return Ok(());
    }
    let of = of.to_owned();
    Err(if names.len() < columns {
        Error::TooFewColumnNames { of }
    } else {
        Error::TooManyColumnNames { of }
    })
}
