//! Queries: common table expressions, set operators, subqueries.

use tdekit_wire_tds::{Column, SqlType, Value};

use super::{Binder, CteScope, Offered};
use crate::ast::{Child, Expr, Item, Name, Query, SetExpr, SetOp};
use crate::bind::typing::convert;
use crate::bound::{Bound, Node};
use crate::error::{Error, Result};
use crate::functions::func::Func;
use crate::name::quote;
use crate::value::{common_type, is_text};

/// A column of a query's result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutColumn {
    pub(crate) name: String,
    pub(crate) sql_name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) identity: bool,
    /// Nothing but the word NULL: it takes any type when the query is combined with another or
    /// stored in a table.
    pub(crate) untyped: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoundQuery {
    pub(crate) sql: String,
    pub(crate) columns: Vec<OutColumn>,
}

impl OutColumn {
    /// The column of a query that has this alias in SQLite's text.
    pub(crate) fn leaf(&self, alias: &str) -> Bound {
        if self.untyped {
            return Bound::new(self.ty, true, Node::Null(None));
        }
        let sql = format!("{}.{}", quote(alias), quote(&self.sql_name));
        Bound::new(self.ty, self.nullable, Node::Leaf(sql))
    }
}

impl BoundQuery {
    pub(crate) fn result_columns(&self) -> Vec<Column> {
        let column = |column: &OutColumn| Column {
            name: column.name.clone(),
            ty: column.ty,
            nullable: column.nullable,
            identity: column.identity,
        };
        self.columns.iter().map(column).collect()
    }
}

impl Binder<'_> {
    /// A query; only the outermost one may be ordered without TOP or OFFSET.
    pub(crate) fn query(&mut self, query: &Query, outermost: bool) -> Result<BoundQuery> {
        if let Some(most) = query.max_recursion {
            self.max_recursion = most;
        }
        let known = self.ctes.len();
        let with = self.common_tables(&query.ctes)?;
        let result = self.query_body(query, outermost);
        self.ctes.truncate(known);
        let mut bound = result?;
        bound.sql = format!("{with}{}", bound.sql);
        Ok(bound)
    }

    /// Binds WITH: its names stay in scope until the caller removes them.
    pub(crate) fn common_tables(&mut self, ctes: &[crate::ast::Cte]) -> Result<String> {
        let mut texts = Vec::new();
        for cte in ctes {
            let recursive = mentions(&cte.query, &cte.name);
            let scopes = std::mem::take(&mut self.scopes);
            let result = match recursive {
                true => self.recursive(cte),
                false => self.query(&cte.query, false).map(|bound| (bound, None)),
            };
            self.scopes = scopes;
            let (bound, made) = result?;
            if let Some((text, scope)) = made {
                texts.push(text);
                self.ctes.push(scope);
                continue;
            }
            if !cte.columns.is_empty() && cte.columns.len() != bound.columns.len() {
                let of = cte.name.clone();
                return Err(if cte.columns.len() < bound.columns.len() {
                    Error::TooFewColumnNames { of }
                } else {
                    Error::TooManyColumnNames { of }
                });
            }
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
                    identity: column.identity,
                    sql: column.sql_name.clone(),
                });
            }
            let sql_name = self.fresh("c");
            texts.push(format!("{} AS ({})", quote(&sql_name), bound.sql));
            let name = cte.name.clone();
            self.ctes.push(CteScope { name, sql_name, columns, recursive: false });
        }
        if texts.is_empty() {
            return Ok(String::new());
        }
        Ok(format!("WITH RECURSIVE {} ", texts.join(", ")))
    }

    fn query_body(&mut self, query: &Query, outermost: bool) -> Result<BoundQuery> {
        if let SetExpr::Select(select) = &query.body {
            let limited = select.top.is_some() || query.offset.is_some();
            if !outermost && !query.order.is_empty() && !limited {
                return Err(Error::OrderInDerived {});
            }
            return self.select(select, &query.order, query.offset.as_ref());
        }
        if !outermost && !query.order.is_empty() && query.offset.is_none() {
            return Err(Error::OrderInDerived {});
        }
        let mut bound = self.set_expression(&query.body)?;
        if query.order.is_empty() {
            return Ok(bound);
        }
        let mut keys = Vec::new();
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
            let column = &bound.columns[at];
            let collate = if is_text(column.ty) { " COLLATE TSQL" } else { "" };
            let direction = if item.descending { " DESC" } else { "" };
            keys.push(format!("{}{collate}{direction}", quote(&column.sql_name)));
        }
        let limit = self.limit(None, query.offset.as_ref())?;
        bound.sql = format!("SELECT * FROM ({}) ORDER BY {}{limit}", bound.sql, keys.join(", "));
        Ok(bound)
    }

    pub(crate) fn set_expression(&mut self, body: &SetExpr) -> Result<BoundQuery> {
        match body {
            SetExpr::Select(select) => self.select(select, &[], None),
            SetExpr::Nested(query) => self.query(query, false),
            SetExpr::Op(op, left, right) => {
                let left = self.set_expression(left)?;
                let right = self.set_expression(right)?;
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
                if *op != SetOp::UnionAll {
                    for ty in &types {
                        super::call::check_groupable(*ty)?;
                    }
                }
                let name = match op {
                    SetOp::Union => "UNION",
                    SetOp::UnionAll => "UNION ALL",
                    SetOp::Intersect => "INTERSECT",
                    SetOp::Except => "EXCEPT",
                };
                let mut columns = left.columns.clone();
                for ((column, other), ty) in columns.iter_mut().zip(&right.columns).zip(&types) {
                    column.ty = *ty;
                    column.nullable |= other.nullable;
                    column.untyped &= other.untyped;
                    column.identity = false;
                }
                for (at, column) in columns.iter_mut().enumerate() {
                    column.sql_name = format!("~{at}");
                }
                let left = self.coerced(&left, &types)?;
                let right = self.coerced(&right, &types)?;
                Ok(BoundQuery { sql: format!("{left} {name} {right}"), columns })
            }
        }
    }

    /// The query with its columns converted to these types, named by position, and collated.
    pub(crate) fn coerced(&mut self, query: &BoundQuery, types: &[SqlType]) -> Result<String> {
        let alias = self.fresh("q");
        let mut items = Vec::new();
        for (at, (column, ty)) in query.columns.iter().zip(types).enumerate() {
            let text = self.emit_text(&convert(column.leaf(&alias), *ty)?)?;
            let collate = if is_text(*ty) { " COLLATE TSQL" } else { "" };
            items.push(format!("({text}){collate} AS {}", quote(&format!("~{at}"))));
        }
        Ok(format!("SELECT {} FROM ({}) AS {}", items.join(", "), query.sql, quote(&alias)))
    }

    /// Binds a subquery, in whose scope are the surrounding names.
    pub(crate) fn subquery<T>(
        &mut self,
        query: &Query,
        check: impl FnOnce(&[OutColumn]) -> Result<T>,
    ) -> Result<BoundQuerySql> {
        let bound = self.query(query, false)?;
        check(&bound.columns)?;
        Ok(BoundQuerySql(bound))
    }

    pub(crate) fn scalar_subquery(&mut self, query: &Query) -> Result<Bound> {
        if query.offset.is_none() && assigns(query) {
            return Err(Error::Syntax { near: "=".to_owned() });
        }
        let bound = self.query(query, false)?;
        let [column] = bound.columns.as_slice() else { return Err(Error::OneColumnOnly {}) };
        let sql = if gives_one_row(query) {
            format!("({})", bound.sql)
        } else {
            let alias = self.fresh("q");
            format!(
                "(SELECT tsql_single({}) FROM ({}) AS {})",
                quote(&column.sql_name),
                bound.sql,
                quote(&alias)
            )
        };
        Ok(Bound::new(column.ty, true, Node::Leaf(sql)))
    }

    /// LIMIT for TOP, or for OFFSET and FETCH.
    pub(crate) fn limit(
        &mut self,
        top: Option<&crate::ast::Top>,
        offset: Option<&(Expr, Option<Expr>)>,
    ) -> Result<String> {
        if let Some(top) = top {
            if top.percent {
                return Err(Error::unsupported("TOP PERCENT"));
            }
            if top.ties {
                return Err(Error::unsupported("WITH TIES"));
            }
            return Ok(format!(" LIMIT {}", self.row_count(&top.count)?));
        }
        let Some((offset, fetch)) = offset else { return Ok(String::new()) };
        let offset = self.row_count(offset)?;
        let fetch = match fetch {
            Some(fetch) => self.row_count(fetch)?,
            None => "-1".to_owned(),
        };
        Ok(format!(" LIMIT {fetch} OFFSET {offset}"))
    }

    /// The share of TOP .. PERCENT.
    pub(crate) fn percent(&mut self, expr: &Expr) -> Result<String> {
        let scopes = std::mem::take(&mut self.scopes);
        let share = self.scalar(expr);
        self.scopes = scopes;
        let share = convert(share?, SqlType::Float)?;
        let node = Node::Call(Func::Percent, vec![share]);
        self.emit_text(&Bound::new(SqlType::Float, false, node))
    }

    pub(crate) fn row_count(&mut self, expr: &Expr) -> Result<String> {
        let scopes = std::mem::take(&mut self.scopes);
        let count = self.scalar(expr);
        self.scopes = scopes;
        let count = count?;
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
        self.emit_text(&Bound::new(SqlType::BigInt, false, node))
    }
}

/// A subquery's text and columns.
pub(crate) struct BoundQuerySql(pub(crate) BoundQuery);

impl std::fmt::Display for BoundQuerySql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.sql)
    }
}

impl std::ops::Deref for BoundQuerySql {
    type Target = BoundQuery;

    fn deref(&self) -> &BoundQuery {
        &self.0
    }
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
    let SetExpr::Select(select) = &query.body else { return false };
    let one = select.top.as_ref().is_some_and(|top| top.count == Expr::Int("1".to_owned()));
    one || select.from.is_empty()
        || select.group.is_empty() && super::select::has_aggregates(select, &query.order)
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
