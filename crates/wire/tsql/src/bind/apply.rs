//! CROSS APPLY and OUTER APPLY of queries that name columns of the tables before them. SQLite's
//! joins do not see each other's columns, but arguments of its table functions do: the rows of such
//! a query become a JSON array, by a subquery, and json_each gives them again.

use tdekit_wire_tds::{Generated, Length, SqlType, Value};

use super::from::{check_names, distinct, fields};
use super::json::cell;
use super::names::Names;
use super::query::{Asked, OutColumn};
use super::{Binder, Offered, SourceScope};
use crate::ast::{Expr, Query};
use crate::error::{Error, Result};
use crate::plan::label::Label;
use crate::plan::relation::{self, Count, Item, Limit, Relation, Rows, Select};
use crate::plan::scalar::{Aggregate, AggregateFunction, Node, Scalar, Shared, Subquery};
use crate::plan::{Alias, Cell, ColumnRef, Field};

/// Maximum number of columns: SQLite's functions take 127 arguments.
const MAX_COLUMNS: usize = 100;

const TEXT: SqlType = SqlType::NVarChar(Length::Max);

/// A query of one row and one column.
fn one(item: Scalar, from: Relation) -> relation::Query {
    let items = vec![Item::Named(item, 0)];
    let select = Select { items, from: Some(from), ..Select::default() };
    relation::Query::of(Rows::Select(Box::new(select)))
}

/// The value of a query of one row and one column.
fn value_of(query: relation::Query) -> Scalar {
    Scalar::new(TEXT, true, Node::Query(Shared::new(Subquery::One(query))))
}

/// The query that makes one text of the rows of a relation, for [`Relation::Split`]; its type.
pub(super) fn rows_of(values: Vec<Scalar>, from: Relation) -> (relation::Query, SqlType) {
    let kind = |value: &Scalar| match cell(value.ty) {
        Cell::Plain => 'p',
        Cell::Blob => 'b',
        Cell::Real => 'r',
    };
    let kinds: String = values.iter().map(kind).collect();
    let kinds = Scalar::constant(TEXT, Value::Text(kinds.into()));
    let rows = Aggregate {
        function: AggregateFunction::Rows,
        distinct: false,
        args: std::iter::once(kinds).chain(values).collect(),
        order: Vec::new(),
        over: None,
    };
    let rows = Scalar::new(TEXT, true, Node::Aggregate(Shared::new(rows)));
    (one(rows, from), TEXT)
}

/// Arguments of a function, each computed once: a table of one row with this alias.
pub(super) struct Arguments {
    pub(super) alias: Alias,
    pub(super) values: Vec<Scalar>,
}

/// A column of an array of rows: its name, its type, whether it may be NULL, its label.
pub(super) type CellColumn<'a> = ((&'a str, SqlType), (bool, Label));

/// The rows of a JSON array as a query, which SQLite runs once.
pub(super) fn kept_rows(
    names: &mut Names,
    text: Scalar,
    columns: &[CellColumn<'_>],
) -> Result<(relation::Query, Vec<OutColumn>)> {
    if columns.len() > MAX_COLUMNS {
        return Err(Error::feature("a table of a function with more than 100 columns"));
    }
    let alias = names.fresh(Alias::Source);
    let (mut items, mut made) = (Vec::new(), Vec::new());
    for (at, ((name, ty), (nullable, label))) in columns.iter().enumerate() {
        let column = ColumnRef::of(alias, Field::Cell(at, cell(*ty)));
        items.push(Item::Named(Scalar::column(*ty, *nullable, column), at));
        made.push(OutColumn {
            name: (*name).to_owned(),
            ty: *ty,
            nullable: *nullable,
            generated: Generated::No,
            untyped: false,
            json: false,
            table: None,
            label: *label,
        });
    }
    let from = Some(Relation::Split { text, alias });
    let limit = Some(Limit { count: Count::All, offset: None });
    let select = Select { items, from, limit, ..Select::default() };
    Ok((relation::Query::of(Rows::Select(Box::new(select))), made))
}

impl Binder<'_> {
    /// APPLY of a query in parentheses.
    pub(super) fn applied_query(
        &mut self,
        query: &Query,
        (alias, names): (&str, &[String]),
        first: usize,
    ) -> Result<Relation> {
        let (bound, met) = self.watching(first, |binder| binder.query(query, Asked::default()))?;
        let columns = fields(bound.columns);
        distinct(alias, &columns, names)?;
        if !met {
            let id = self.offer(alias, None, &columns, names)?;
            return Ok(Relation::Derived { query: Box::new(bound.query), alias: id });
        }
        let inner = self.fresh(Alias::Query);
        let from = Relation::Derived { query: Box::new(bound.query), alias: inner };
        self.lateral(from, (inner, &columns), (alias, names), None)
    }

    /// APPLY of VALUES.
    pub(super) fn applied_values(
        &mut self,
        rows: &[Vec<Expr>],
        (alias, names): (&str, &[String]),
        first: usize,
    ) -> Result<Relation> {
        let ((rows, columns), met) =
            self.watching(first, |binder| binder.value_rows(rows, names))?;
        distinct(alias, &columns, names)?;
        if !met {
            let alias = self.offer(alias, None, &columns, names)?;
            return Ok(Relation::Values { rows, alias });
        }
        let inner = self.fresh(Alias::Query);
        let from = Relation::Values { rows, alias: inner };
        self.lateral(from, (inner, &columns), (alias, names), None)
    }

    /// Offers the rows of a relation that names columns of other tables.
    pub(super) fn lateral(
        &mut self,
        from: Relation,
        (inner, columns): (Alias, &[(OutColumn, Field)]),
        (alias, names): (&str, &[String]),
        arguments: Option<Arguments>,
    ) -> Result<Relation> {
        check_names(alias, names, columns.len())?;
        if columns.len() > MAX_COLUMNS {
            return Err(Error::feature("APPLY of more than 100 columns"));
        }
        let values = columns.iter().map(|(column, field)| match column.untyped {
            true => Scalar::constant(column.ty, Value::Null),
            false => {
                let of = ColumnRef::of(inner, field.clone());
                Scalar::column(column.ty, column.nullable, of)
            }
        });
        let (rows, _) = rows_of(values.collect(), from);
        let mut text = value_of(rows);
        if let Some(Arguments { alias, values }) = arguments {
            let numbered = values.into_iter().enumerate();
            let items = numbered.map(|(at, value)| Item::Named(value, at)).collect();
            let select = Select { items, ..Select::default() };
            let query = relation::Query::of(Rows::Select(Box::new(select)));
            let table = Relation::Derived { query: Box::new(query), alias };
            text = value_of(one(text, table));
        }
        let offered = columns.iter().map(|(column, _)| {
            let label = column.label.as_column();
            ((column.name.as_str(), column.ty), (column.nullable, label))
        });
        let columns: Vec<_> = offered.collect();
        self.offer_rows(text, &columns, (alias, names))
    }

    /// Offers the rows of a JSON array, whose columns have these names and types, and may be NULL.
    pub(super) fn offer_rows(
        &mut self,
        text: Scalar,
        columns: &[CellColumn<'_>],
        (alias, names): (&str, &[String]),
    ) -> Result<Relation> {
        check_names(alias, names, columns.len())?;
        if columns.len() > MAX_COLUMNS {
            return Err(Error::feature("APPLY of more than 100 columns"));
        }
        let id = self.fresh(Alias::Source);
        let mut offered = Vec::new();
        for (at, ((name, ty), (nullable, label))) in columns.iter().enumerate() {
            let name = names.get(at).map_or(*name, String::as_str).to_owned();
            if name.is_empty() {
                return Err(Error::NoColumnName { number: at + 1, of: alias.to_owned() });
            }
            offered.push(Offered {
                name,
                ty: *ty,
                nullable: *nullable,
                generated: Generated::No,
                column: ColumnRef::of(id, Field::Cell(at, cell(*ty))),
                label: *label,
                value: None,
            });
        }
        let alias = alias.to_owned();
        self.add_source(SourceScope { alias, full: None, id: Some(id), columns: offered })?;
        Ok(Relation::Split { text, alias: id })
    }
}
