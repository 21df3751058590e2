//! FROM: tables, views, derived tables and joins.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;

use super::query::OutColumn;
use super::{Binder, Offered, SourceScope};
use crate::ast::{Action, Expr, Hints, JoinKind, Kind, Name, Query, TableRef};
use crate::bind::typing::{common_of, fitted};
use crate::bound::Bound;
use crate::catalog::{Table, TableKind};
use crate::error::{Error, Result};
use crate::name::quote;

/// Returns true if unmatched rows of the right side are kept.
fn keeps_right(table: &TableRef) -> bool {
    match table {
        TableRef::Join(kind, left, _, _) => {
            matches!(kind, JoinKind::Right | JoinKind::Full) || keeps_right(left)
        }
        _ => false,
    }
}

impl Binder<'_> {
    /// Binds a FROM clause into the innermost scope; returns its text.
    pub(crate) fn tables_clause(&mut self, tables: &[TableRef]) -> Result<String> {
        let mut texts = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            let text = self.table_ref(table)?;
            // a comma binds less tightly than JOIN, in SQLite as well
            texts.push(if at > 0 && keeps_right(table) { format!("({text})") } else { text });
        }
        // CROSS JOIN would fix SQLite's order of loops; a comma does not
        Ok(texts.join(", "))
    }

    pub(crate) fn table_ref(&mut self, table: &TableRef) -> Result<String> {
        match table {
            TableRef::Table(name, alias, hints) => self.named_table(name, alias.as_deref(), *hints),
            TableRef::Derived(query, alias, names) => {
                let (sql, columns) = self.derived(query)?;
                self.offer(alias, None, &format!("({sql})"), &columns, names)
            }
            TableRef::Values(rows, alias, names) => self.values(rows, alias, names),
            TableRef::Function(call) => match self.table_function(call, false)? {
                (text, None) => Ok(text),
                (text, Some(on)) => Ok(format!("(SELECT 1) JOIN {text} ON {on}")),
            },
            TableRef::Join(kind, left, right, on) => {
                let first = self.sources();
                let left_text = self.table_ref(left)?;
                let middle = self.sources();
                let apply = matches!(kind, JoinKind::CrossApply | JoinKind::OuterApply);
                let (right_text, applied) = match &**right {
                    TableRef::Function(call) if apply => self.table_function(call, true)?,
                    other => (self.table_ref(other)?, None),
                };
                let join = match kind {
                    JoinKind::Inner => "JOIN",
                    JoinKind::Left | JoinKind::OuterApply => "LEFT JOIN",
                    JoinKind::Right => "RIGHT JOIN",
                    JoinKind::Full => "FULL JOIN",
                    JoinKind::Cross | JoinKind::CrossApply => "JOIN",
                };
                let on = match on {
                    Some(on) => {
                        let bound = self.joined_on(on, first)?;
                        format!(" ON {}", self.emit_text(&bound)?)
                    }
                    None => applied.map(|on| format!(" ON {on}")).unwrap_or_default(),
                };
                if matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::OuterApply) {
                    self.make_nullable(middle, usize::MAX);
                }
                if matches!(kind, JoinKind::Right | JoinKind::Full) {
                    self.make_nullable(first, middle);
                }
                let right_text = match **right {
                    TableRef::Join(..) => format!("({right_text})"),
                    TableRef::Function(_) if right_text.starts_with("(SELECT 1) JOIN") => {
                        format!("({right_text})")
                    }
                    _ => right_text,
                };
                Ok(format!("{left_text} {join} {right_text}{on}"))
            }
        }
    }

    /// The condition of a join, in whose scope are the joined tables and no other.
    fn joined_on(&mut self, on: &Expr, first: usize) -> Result<Bound> {
        let hide = |binder: &mut Self, count: usize| match binder.scopes.last_mut() {
            Some(scope) => std::mem::replace(&mut scope.hidden, count),
            None => 0,
        };
        let before = hide(self, first);
        let bound = self.condition(on);
        hide(self, before);
        bound
    }

    fn sources(&self) -> usize {
        self.scopes.last().map_or(0, |scope| scope.sources.len())
    }

    fn make_nullable(&mut self, from: usize, to: usize) {
        if let Some(scope) = self.scopes.last_mut() {
            let to = to.min(scope.sources.len());
            for source in &mut scope.sources[from..to] {
                source.columns.iter_mut().for_each(|column| column.nullable = true);
            }
        }
    }

    /// A separate query, in whose scope the tables beside it are not.
    pub(crate) fn derived(&mut self, query: &Query) -> Result<(String, Vec<OutColumn>)> {
        let beside = self.scopes.pop();
        let result = self.query(query, false);
        if let Some(beside) = beside {
            self.scopes.push(beside);
        }
        let bound = result?;
        Ok((bound.sql, bound.columns))
    }

    /// Adds a source with these columns and returns its text.
    fn offer(
        &mut self,
        alias: &str,
        full: Option<Name>,
        text: &str,
        columns: &[OutColumn],
        names: &[String],
    ) -> Result<String> {
        if !names.is_empty() && names.len() != columns.len() {
            let of = alias.to_owned();
            return Err(if names.len() < columns.len() {
                Error::TooFewColumnNames { of }
            } else {
                Error::TooManyColumnNames { of }
            });
        }
        let sql_alias = self.fresh("t");
        let mut offered = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let name = names.get(at).unwrap_or(&column.name).clone();
            if name.is_empty() {
                return Err(Error::NoColumnName { number: at + 1, of: alias.to_owned() });
            }
            offered.push(Offered {
                name,
                ty: column.ty,
                nullable: column.nullable,
                identity: column.identity,
                sql: format!("{}.{}", quote(&sql_alias), quote(&column.sql_name)),
            });
        }
        self.add_source(SourceScope { alias: alias.to_owned(), full, columns: offered })?;
        Ok(format!("{text} AS {}", quote(&sql_alias)))
    }

    pub(crate) fn add_source(&mut self, source: SourceScope) -> Result<()> {
        self.tables_left = self.tables_left.checked_sub(1).ok_or(Error::TooManyTables {})?;
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        let twice = scope.sources.iter().any(|known| {
            known.alias.eq_ignore_ascii_case(&source.alias)
                && known.full.as_ref().map(Name::text) == source.full.as_ref().map(Name::text)
        });
        if twice {
            return Err(Error::CorrelationTwice { name: source.alias });
        }
        scope.sources.push(source);
        Ok(())
    }

    fn values(&mut self, rows: &[Vec<Expr>], alias: &str, names: &[String]) -> Result<String> {
        let mut bound: Vec<Vec<Bound>> = Vec::new();
        for row in rows {
            bound.push(row.iter().map(|value| self.scalar(value)).collect::<Result<_>>()?);
        }
        let (mut columns, mut types) = (Vec::new(), Vec::new());
        for at in 0..names.len() {
            let values: Vec<&Bound> = bound.iter().map(|row| &row[at]).collect();
            let nullable = values.iter().any(|value| value.nullable);
            let ty = common_of(values)?;
            types.push(ty);
            columns.push(OutColumn {
                name: names[at].clone(),
                sql_name: format!("column{}", at + 1),
                ty: ty.unwrap_or(SqlType::Int),
                nullable,
                identity: false,
                untyped: false,
            });
        }
        let mut texts = Vec::new();
        for row in bound {
            let values = row
                .into_iter()
                .zip(&types)
                .map(|(value, ty)| fitted(value, *ty))
                .collect::<Result<Vec<_>>>()?;
            texts.push(format!("({})", self.joined_by(&values, ", ")?));
        }
        let text = format!("(VALUES {})", texts.join(", "));
        self.offer(alias, None, &text, &columns, names)
    }

    fn named_table(&mut self, name: &Name, alias: Option<&str>, hints: Hints) -> Result<String> {
        // a temporary table belongs to the session
        if !name.object().starts_with(['#', '@']) {
            self.hints = self.hints.and(hints);
        }
        if name.0.len() == 1 {
            let found = self
                .ctes
                .iter()
                .rev()
                .find(|cte| cte.name.eq_ignore_ascii_case(name.object()))
                .cloned();
            if let Some(cte) = found {
                return self.cte_reference(&cte, alias.unwrap_or(name.object()));
            }
        }
        let table = self.find_table(name)?;
        let shown = alias.unwrap_or(name.object()).to_owned();
        let full = if alias.is_none() { Some(name.clone()) } else { None };
        match &table.kind {
            TableKind::View(text) => {
                let (sql, columns) = self.view(&table, text)?;
                let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
                self.offer(&shown, full, &format!("({sql})"), &columns, &names)
            }
            _ => {
                if let TableKind::System(name) = &table.kind {
                    self.needs_system(name);
                } else {
                    self.reads_from(&table);
                }
                let columns: Vec<OutColumn> = table
                    .columns
                    .iter()
                    .map(|column| OutColumn {
                        name: column.name.clone(),
                        sql_name: column.name.clone(),
                        ty: column.ty,
                        nullable: column.nullable,
                        identity: column.identity,
                        untyped: false,
                    })
                    .collect();
                self.offer(&shown, full, &table.sql(), &columns, &[])
            }
        }
    }

    pub(crate) fn needs_system(&mut self, name: &str) {
        if !self.system.iter().any(|known| known == name) {
            self.system.push(name.to_owned());
        }
    }

    pub(crate) fn reads_from(&mut self, table: &Table) {
        if !self.reads.contains(&table.schema) {
            self.reads.push(table.schema.clone());
        }
    }

    /// Returns the table of this name; table variables are included.
    pub(crate) fn find_table(&mut self, name: &Name) -> Result<Arc<Table>> {
        let mut wanted = name.clone();
        if name.object().starts_with('@') {
            let found = self.variables.tables.get(&name.object().to_lowercase());
            let Some(real) = found else {
                return Err(Error::UndeclaredTable { name: name.object().to_owned() });
            };
            wanted = Name(vec![real.clone()]);
        } else if let Some(context) = &self.context
            && name.part(2).is_none()
            && !name.object().starts_with('#')
        {
            let schema = name.part(1).unwrap_or_default().to_owned();
            wanted = Name(vec![context.clone(), schema, name.object().to_owned()]);
        }
        self.catalog.table(&wanted)?.ok_or_else(|| Error::InvalidObject { name: name.text() })
    }

    fn view(&mut self, table: &Table, text: &str) -> Result<(String, Vec<OutColumn>)> {
        let name = table.full_name();
        if self.expanding.contains(&name) || self.expanding.len() > 30 {
            return Err(Error::NestLevel {});
        }
        let stmts = crate::parse::parse(text, true).map_err(|at| at.error)?;
        let Some(Kind::Act(Action::CreateView { columns: names, query, .. })) =
            stmts.into_iter().next().map(|stmt| stmt.kind)
        else {
            return Err(Error::InvalidObject { name });
        };
        self.expanding.push(name);
        let scopes = std::mem::take(&mut self.scopes);
        let ctes = std::mem::take(&mut self.ctes);
        let context = self.context.replace(table.database.clone());
        let result = self.query(&query, false);
        self.context = context;
        self.scopes = scopes;
        self.ctes = ctes;
        self.expanding.pop();
        let bound = result?;
        let mut columns = bound.columns;
        for (column, name) in columns.iter_mut().zip(names) {
            column.name = name;
        }
        Ok((bound.sql, columns))
    }

    fn cte_reference(&mut self, cte: &super::CteScope, alias: &str) -> Result<String> {
        let sql_alias = self.fresh("t");
        let mut columns = Vec::new();
        for column in &cte.columns {
            let sql = format!("{}.{}", quote(&sql_alias), quote(&column.sql));
            columns.push(Offered { sql, ..column.clone() });
        }
        if cte.recursive {
            self.recursion = Some(format!("{}.\"~depth\"", quote(&sql_alias)));
        }
        self.add_source(SourceScope { alias: alias.to_owned(), full: None, columns })?;
        Ok(format!("{} AS {}", quote(&cte.sql_name), quote(&sql_alias)))
    }
}
