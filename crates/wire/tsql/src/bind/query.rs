//! Queries: common table expressions, set operators, subqueries.

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Column, Generated, SqlType, Value};

use super::from::{check_names, refuse_repeated, repeated};
use super::names::{CteScope, Names};
use super::{Binder, Offered};
use crate::ast::{Child, Cte, Expr, Item, Name, Query, SetExpr, SetOp};
use crate::error::{Error, Result};
use crate::functions::typing::convert;
use crate::plan::func::Func;
use crate::plan::label::Label;
use crate::plan::relation::{self, Common, Converted, Count, Limit, Rows, Sort};
use crate::plan::scalar::{Node, Scalar, Shared, Subquery};
use crate::plan::{Alias, ColumnRef, Field};
use crate::value::{common_type, is_text};

/// A column of a query's result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutColumn {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) generated: Generated,
    /// Nothing but the word NULL: it takes any type when the query is combined with another or
    /// stored in a table.
    pub(crate) untyped: bool,
    /// Its text is JSON.
    pub(crate) json: bool,
    /// The table of FROM whose column it is; known for FOR JSON AUTO only.
    pub(crate) table: Option<String>,
    /// Of text: its collation.
    pub(crate) label: Label,
}

/// What the caller of a query asks of it, and of no query inside of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// It is the statement's own query: it may be ordered without TOP or OFFSET, and gives a
    /// document in pieces.
    pub(super) outermost: bool,
    /// Its first SELECT may have INTO.
    pub(super) into: bool,
    /// Its columns name their tables of FROM: for FOR JSON AUTO.
    pub(super) tables: bool,
    /// It gives the number of each row of its one table behind its columns.
    pub(super) numbers: bool,
}

impl Asked {
    /// Asked of the query of a statement that reads.
    pub(crate) fn of_statement(into: bool) -> Asked {
        Asked { outermost: true, into, ..Asked::default() }
    }

    /// Asked of the first query of a set.
    fn of_first(self) -> Asked {
        Asked { into: self.into, ..Asked::default() }
    }
}

#[derive(Debug)]
pub(crate) struct BoundQuery {
    pub(crate) query: relation::Query,
    pub(crate) columns: Vec<OutColumn>,
    /// Of a query that numbers its rows: the column of its table that each column is.
    pub(super) bases: Vec<Option<String>>,
}

impl OutColumn {
    /// The column of this position in a query that has this alias.
    pub(crate) fn of(&self, alias: Alias, at: usize) -> Scalar {
        if self.untyped {
            return Scalar::new(self.ty, true, Node::Null(None));
        }
        self.labelled(Scalar::column(self.ty, self.nullable, ColumnRef::of(alias, Field::Item(at))))
    }

    /// The same in an order of the query's own.
    pub(crate) fn own(&self, at: usize) -> Scalar {
        self.labelled(Scalar::column(self.ty, self.nullable, ColumnRef::own(Field::Item(at))))
    }

    fn labelled(&self, column: Scalar) -> Scalar {
        match is_text(self.ty) {
            true => Scalar { label: self.label.as_column(), ..column },
            false => column,
        }
    }
}

impl BoundQuery {
    pub(super) fn new(query: relation::Query, columns: Vec<OutColumn>) -> BoundQuery {
        BoundQuery { query, columns, bases: Vec::new() }
    }

    /// The query with its columns converted to these types.
    pub(super) fn converted(self, types: &[SqlType], names: &mut Names) -> Result<Converted> {
        let alias = names.fresh(Alias::Query);
        let columns = self.columns.iter().zip(types).enumerate();
        let items = columns.map(|(at, (column, ty))| convert(column.of(alias, at), *ty));
        let items = items.collect::<Result<Vec<_>>>()?;
        Ok(Converted { query: Box::new(self.query), alias, items })
    }

    pub(crate) fn result_columns(&self) -> Vec<Column> {
        let column = |column: &OutColumn| Column {
            name: column.name.clone(),
            ty: column.ty,
            nullable: column.nullable,
            generated: column.generated,
            collation: column.label.collation(),
        };
        self.columns.iter().map(column).collect()
    }
}

impl Binder<'_> {
    /// A query, with its common table expressions.
    pub(crate) fn query(&mut self, query: &Query, asked: Asked) -> Result<BoundQuery> {
        self.with_recursion(query.max_recursion, |binder| {
            binder.with_commons(|binder| binder.query_in_scope(query, asked))
        })
    }

    fn query_in_scope(&mut self, query: &Query, asked: Asked) -> Result<BoundQuery> {
        let mut with = self.common_tables(&query.ctes)?;
        let mut bound = match (&query.json, &query.xml) {
            (Some(json), _) => self.for_json(query, json, asked),
            (None, Some(xml)) => self.for_xml(query, xml, asked),
            (None, None) => self.query_body(query, asked),
        }?;
        with.append(&mut bound.query.with);
        bound.query.with = with;
        Ok(bound)
    }

    /// Binds WITH, within [`Binder::with_commons`].
    pub(crate) fn common_tables(&mut self, ctes: &[Cte]) -> Result<Vec<Common>> {
        refuse_second(ctes)?;
        ctes.iter().map(|cte| self.common_table(cte)).collect()
    }

    pub(super) fn common_table(&mut self, cte: &Cte) -> Result<Common> {
        self.common_table_with(cte, Asked::default()).map(|(common, _)| common)
    }

    /// Returns one with its columns of the table, if it numbers the rows of that.
    pub(super) fn common_table_with(
        &mut self,
        cte: &Cte,
        asked: Asked,
    ) -> Result<(Common, Vec<Option<String>>)> {
        if mentions(&cte.query, &cte.name) {
            let common = self.outside(|binder| binder.recursive(cte))?;
            return Ok((common, Vec::new()));
        }
        let mut bound = self.outside(|binder| binder.query(&cte.query, asked))?;
        if asked.numbers {
            // the number of the row has no name
            bound.columns.pop();
        }
        check_columns(cte, &bound.columns)?;
        let mut columns = Vec::new();
        for (at, column) in bound.columns.iter().enumerate() {
            let name = cte.columns.get(at).unwrap_or(&column.name).clone();
            if name.is_empty() {
                return Err(Error::NoColumnName { number: at + 1, of: cte.name.clone() });
            }
            columns.push(Offered {
                name,
                ty: column.ty,
                nullable: column.nullable,
                generated: column.generated,
                column: ColumnRef::own(Field::Item(at)),
                label: column.label.as_column(),
                value: None,
            });
        }
        let id = self.fresh(Alias::Common);
        let name = cte.name.clone();
        self.names.add_common(CteScope { name, id, columns, recursive: false });
        Ok((Common::Plain { name: id, query: bound.query }, bound.bases))
    }

    pub(super) fn query_body(&mut self, query: &Query, asked: Asked) -> Result<BoundQuery> {
        let outermost = asked.outermost;
        if let SetExpr::Select(select) = &query.body {
            let limited = select.top.is_some() || query.offset.is_some();
            if !outermost && !query.order.is_empty() && !limited {
                return Err(Error::OrderInDerived {});
            }
            return self.select(select, &query.order, query.offset.as_ref(), asked);
        }
        if !outermost && !query.order.is_empty() && query.offset.is_none() {
            return Err(Error::OrderInDerived {});
        }
        let bound = self.set_expression(&query.body, asked)?;
        if query.order.is_empty() {
            return Ok(bound);
        }
        let mut order = Vec::new();
        for item in &query.order {
            let at = match &item.expr {
                Expr::Int(digits) => position(digits, bound.columns.len())?,
                Expr::Column(name) if name.0.len() == 1 => bound
                    .columns
                    .iter()
                    .position(|column| column.name.eq_ignore_ascii_case(name.object()))
                    .ok_or(Error::SetOrder {})?,
                Expr::Column(name) => listed(&query.body, name).ok_or(Error::SetOrder {})?,
                _ => return Err(Error::SetOrder {}),
            };
            order.push(Sort { value: bound.columns[at].own(at), descending: item.descending });
        }
        let limit = self.limit(None, query.offset.as_ref())?;
        let BoundQuery { query: relation::Query { with, rows }, columns, .. } = bound;
        let rows = Rows::Ordered { rows: Box::new(rows), order, limit };
        Ok(BoundQuery::new(relation::Query { with, rows }, columns))
    }

    pub(super) fn set_expression(&mut self, body: &SetExpr, asked: Asked) -> Result<BoundQuery> {
        match body {
            SetExpr::Select(select) => self.select(select, &[], None, asked.of_first()),
            SetExpr::Nested(query) => self.query(query, Asked::default()),
            SetExpr::Op(op, left, right) => {
                if *op == SetOp::UnionAll {
                    self.limits.add_union();
                }
                let left = self.set_expression(left, asked)?;
                let right = self.set_expression(right, Asked::default())?;
                combined(*op, left, right, &mut self.names)
            }
        }
    }

    pub(crate) fn scalar_subquery(&mut self, query: &Query) -> Result<Scalar> {
        if query.offset.is_none() && assigns(query) {
            return Err(Error::Syntax { near: "=".to_owned() });
        }
        let bound = self.query(query, Asked::default())?;
        let [column] = bound.columns.as_slice() else { return Err(Error::OneColumnOnly {}) };
        let (ty, label) = (column.ty, column.label);
        let subquery = if gives_one_row(query) {
            Subquery::One(bound.query)
        } else {
            Subquery::Single { query: bound.query, alias: self.fresh(Alias::Query) }
        };
        Ok(Scalar { label, ..Scalar::new(ty, true, Node::Query(Shared::new(subquery))) })
    }

    /// LIMIT for TOP, or for OFFSET and FETCH.
    pub(crate) fn limit(
        &mut self,
        top: Option<&crate::ast::Top>,
        offset: Option<&(Expr, Option<Expr>)>,
    ) -> Result<Option<Limit>> {
        if let Some(top) = top {
            if top.percent {
                return Err(Error::unsupported("TOP PERCENT"));
            }
            if top.ties {
                return Err(Error::unsupported("WITH TIES"));
            }
            let count = Count::Value(self.fixed_count(&top.count)?);
            return Ok(Some(Limit { count, offset: None }));
        }
        let Some((offset, fetch)) = offset else { return Ok(None) };
        let offset = Some(self.fixed_count(offset)?);
        let count = match fetch {
            Some(fetch) => Count::Value(self.fixed_count(fetch)?),
            None => Count::All,
        };
        Ok(Some(Limit { count, offset }))
    }

    /// The share of TOP .. PERCENT.
    pub(crate) fn percent(&mut self, expr: &Expr) -> Result<Scalar> {
        let share = self.outside(|binder| binder.scalar(expr))?;
        let share = convert(share, SqlType::Float)?;
        let node = Node::Call(Func::Percent, vec![share]);
        Ok(Scalar::new(SqlType::Float, false, node))
    }

    /// A number of rows that is the same for all rows around the query.
    fn fixed_count(&mut self, expr: &Expr) -> Result<Scalar> {
        let count = self.row_count(expr)?;
        match count.names_column() {
            true => Err(Error::feature("TOP or OFFSET by a column of another table")),
            false => Ok(count),
        }
    }

    pub(crate) fn row_count(&mut self, expr: &Expr) -> Result<Scalar> {
        let count = self.outside(|binder| binder.scalar(expr))?;
        if !matches!(crate::value::family(count.ty), crate::value::Family::Int) {
            return Err(Error::BadTop {});
        }
        let count = convert(count, SqlType::BigInt)?;
        if let Node::Const(Value::Int(count)) = &count.node
            && *count < 0
        {
            return Err(Error::BadTop {});
        }
        let node = Node::Call(Func::RowCount, vec![count]);
        Ok(Scalar::new(SqlType::BigInt, false, node))
    }
}

/// The rows of two queries as those of one. Apart from [`Binder::set_expression`], so that a chain
/// of thousands of queries does not have this on the stack for each of them.
#[inline(never)]
fn combined(
    op: SetOp,
    left: BoundQuery,
    right: BoundQuery,
    names: &mut Names,
) -> Result<BoundQuery> {
    if left.columns.len() != right.columns.len() {
        return Err(Error::SetCounts {});
    }
    let types = left
        .columns
        .iter()
        .zip(&right.columns)
        .map(|(a, b)| match (a.untyped, b.untyped) {
            (true, _) => Ok(b.ty),
            (false, true) => Ok(a.ty),
            (false, false) => common_type(a.ty, b.ty),
        })
        .collect::<Result<Vec<_>>>()?;
    if op != SetOp::UnionAll {
        for ty in &types {
            super::call::check_groupable(*ty)?;
        }
    }
    let mut columns = left.columns.clone();
    let pairs = columns.iter_mut().zip(&right.columns).zip(&types);
    for (at, ((column, other), ty)) in pairs.enumerate() {
        column.label = set_label(op, at, *ty, column.label, other.label)?;
        column.ty = *ty;
        column.nullable |= other.nullable;
        column.untyped &= other.untyped;
        column.json &= other.json;
        column.table = None;
        column.generated = Generated::No;
    }
    let mut left = left.converted(&types, names)?;
    let right = right.converted(&types, names)?;
    for (item, column) in left.items.iter_mut().zip(&columns) {
        item.label = column.label;
    }
    let query = relation::Query::of(Rows::Set { op, left, right });
    Ok(BoundQuery::new(query, columns))
}

/// The column of a result that has this value.
pub(super) fn out_column(name: String, bound: &Scalar, generated: Generated) -> Column {
    let (ty, nullable, collation) = (bound.ty, bound.nullable, bound.collation());
    Column { name, ty, nullable, generated, collation }
}

/// The label of a column of a set, from 0.
fn set_label(op: SetOp, at: usize, ty: SqlType, left: Label, right: Label) -> Result<Label> {
    let operator = match op {
        SetOp::Union => "UNION",
        SetOp::UnionAll => "UNION ALL",
        SetOp::Intersect => "INTERSECT",
        SetOp::Except => "EXCEPT",
    };
    if !is_text(ty) {
        return Ok(Label::Coercible);
    }
    let label = left.with(right, operator);
    match op {
        SetOp::UnionAll => label.listed(ty, "SELECT", at)?,
        _ => label.compared(operator)?,
    }
    Ok(label)
}

/// Checks that no two common table expressions of a statement have one name.
pub(super) fn refuse_second(ctes: &[Cte]) -> Result<()> {
    match repeated(ctes.iter().map(|cte| cte.name.as_str())) {
        Some(name) => Err(DefinedError::CommonTwice { name: name.to_owned() }.into()),
        None => Ok(()),
    }
}

/// Checks the names of the columns of a common table expression.
pub(super) fn check_columns(cte: &Cte, columns: &[OutColumn]) -> Result<()> {
    check_names(&cte.name, &cte.columns, columns.len())?;
    let own = columns.iter().enumerate();
    let own = own.map(|(at, own)| cte.columns.get(at).unwrap_or(&own.name).as_str());
    refuse_repeated(&cte.name, own)
}

pub(crate) fn position(digits: &str, columns: usize) -> Result<usize> {
    let number: i64 = digits.parse().unwrap_or(i64::MAX);
    usize::try_from(number)
        .ok()
        .filter(|at| (1..=columns).contains(at))
        .map(|at| at - 1)
        .ok_or(Error::OrderPosition { position: number })
}

/// Position at which the first query of a set lists a column under this qualified name; the columns
/// of a star are not known here.
fn listed(body: &SetExpr, wanted: &Name) -> Option<usize> {
    let same = |name: &Name| {
        let parts = name.0.iter().zip(&wanted.0);
        name.0.len() == wanted.0.len() && parts.into_iter().all(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    match body {
        SetExpr::Select(select) => {
            let items = &select.items;
            let star = items.iter().any(|item| matches!(item, Item::Star(_)));
            let at = items
                .iter()
                .position(|item| matches!(item, Item::Expr(Expr::Column(name), _) if same(name)));
            at.filter(|_| !star)
        }
        SetExpr::Op(_, left, _) => listed(left, wanted),
        SetExpr::Nested(query) => listed(&query.body, wanted),
    }
}

fn assigns(query: &Query) -> bool {
    match &query.body {
        SetExpr::Select(select) => select.items.iter().any(|item| matches!(item, Item::Assign(..))),
        _ => false,
    }
}

/// Returns true if the query is certain to return one row at most: TOP 1, no table, or an aggregate
/// over all rows.
fn gives_one_row(query: &Query) -> bool {
    if query.is_document() {
        return true;
    }
    let SetExpr::Select(select) = &query.body else { return false };
    let one = select.top.as_ref().is_some_and(|top| top.count == Expr::Int("1".to_owned()));
    one || select.from.is_empty()
        || select.group.is_empty()
            && select.sets.is_empty()
            && super::select::has_aggregates(select, &query.order)
}

/// Returns true if a query names this table, in FROM or in a subquery of one of its expressions.
pub(crate) fn mentions(query: &Query, name: &str) -> bool {
    let mut found = false;
    query.children(&mut |child| found = found || child_mentions(child, name));
    found
}

pub(crate) fn child_mentions(child: Child<'_>, name: &str) -> bool {
    match child {
        Child::Table(table) => table.0.len() == 1 && table.object().eq_ignore_ascii_case(name),
        Child::Query(query) => mentions(query, name),
        Child::Expr(expr) => {
            expr.any(&|part| part.query().is_some_and(|query| mentions(query, name)))
        }
    }
}
