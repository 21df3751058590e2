//! Search conditions.

use tdekit_wire_tds::{SqlType, Value};

use super::Binder;
use super::query::Asked;
use crate::ast::{self, CmpOp, Expr};
use crate::error::{Error, Result};
use crate::functions::typing::{as_text, comparison, negated};
use crate::functions::typing::{common_of, convert, fitted};
use crate::plan::Alias;
use crate::plan::label::joined;
use crate::plan::relation::{Item, Query, Relation, Rows, Select};
use crate::plan::scalar::{Node, Scalar, Shared, Subquery};
use crate::value::{common_type, type_name};

impl Binder<'_> {
    /// A condition; a plain value here is an error.
    pub(crate) fn condition(&mut self, expr: &Expr) -> Result<Scalar> {
        self.limits.spend(1)?;
        match expr {
            Expr::And(items) | Expr::Or(items) => {
                let bound =
                    items.iter().map(|item| self.condition(item)).collect::<Result<Vec<_>>>()?;
                Ok(Scalar::condition(match expr {
                    Expr::And(_) => Node::And(bound),
                    _ => Node::Or(bound),
                }))
            }
            Expr::Not(inner) => Ok(negated(self.condition(inner)?, true)),
            Expr::Compare(op, left, right) => {
                let left = self.scalar(left)?;
                let right = self.scalar(right)?;
                comparison(*op, left, right)
            }
            Expr::IsNull(inner, not) => {
                let inner = self.scalar(inner)?;
                Ok(Scalar::condition(Node::IsNull(Box::new(inner), *not)))
            }
            Expr::Between(value, low, high, not) => {
                let low = self.scalar(low)?;
                let high = self.scalar(high)?;
                let first = self.scalar(value)?;
                let second = self.scalar(value)?;
                let above = comparison(CmpOp::Ge, first, low)?;
                let below = comparison(CmpOp::Le, second, high)?;
                Ok(negated(Scalar::condition(Node::And(vec![above, below])), *not))
            }
            Expr::InList(left, items, not) => self.in_list(left, items, *not),
            Expr::InQuery(left, query, not) => {
                let left = self.scalar(left)?;
                self.in_query(left, query, *not)
            }
            Expr::Like(text, pattern, escape, not) => {
                let text = self.scalar(text)?;
                let pattern = self.scalar(pattern)?;
                let escape = match escape {
                    Some(escape) => {
                        let escape = self.scalar(escape)?;
                        Some(Box::new(as_text(escape)?))
                    }
                    None => None,
                };
                let mut text = Box::new(as_text(text)?);
                let pattern = Box::new(as_text(pattern)?);
                text.label = joined([&*text, &*pattern], "like");
                text.label.compared("like")?;
                Ok(negated(Scalar::condition(Node::Like { text, pattern, escape }), *not))
            }
            Expr::Exists(query) => {
                let query = self.query(query, Asked::default())?.query;
                Ok(Scalar::condition(Node::Query(Shared::new(Subquery::Exists(query)))))
            }
            Expr::Quantified(left, op, all, query) => {
                let left = self.scalar(left)?;
                match (op, all) {
                    (CmpOp::Eq, false) => self.in_query(left, query, false),
                    (CmpOp::Ne, true) => self.in_query(left, query, true),
                    _ => self.quantified(left, *op, *all, query),
                }
            }
            _ => Err(Error::NotBoolean { near: near(expr) }),
        }
    }

    fn in_list(&mut self, left: &Expr, items: &[Expr], not: bool) -> Result<Scalar> {
        let left = self.scalar(left)?;
        let mut bound = Vec::new();
        for item in items {
            bound.push(self.scalar(item)?);
        }
        let ty = common_of(std::iter::once(&left).chain(&bound))?;
        let left = fitted(left, ty)?;
        let bound = bound.into_iter().map(|item| fitted(item, ty)).collect::<Result<Vec<_>>>()?;
        let label = joined(std::iter::once(&left).chain(&bound), "comparison");
        label.compared("equal to")?;
        let left = Scalar { label, ..left };
        Ok(negated(Scalar::condition(Node::InList(Box::new(left), bound)), not))
    }

    /// `left op ALL (query)` and `left op ANY (query)`: each row gives 1, 0 or NULL. ALL holds if
    /// no row gives 0, ANY if one gives 1; with neither, a NULL makes it unknown, as IN has it.
    fn quantified(
        &mut self,
        left: Scalar,
        op: CmpOp,
        all: bool,
        query: &ast::Query,
    ) -> Result<Scalar> {
        let mut aggregate = false;
        left.walk(&mut |part| {
            aggregate |= matches!(part.node, Node::Aggregate(_));
            true
        });
        if aggregate {
            // in the query around the rows, it would be one over those
            return Err(Error::feature("an aggregate before ALL or ANY"));
        }
        let bound = self.query(query, Asked::default())?;
        let [column] = bound.columns.as_slice() else { return Err(Error::OneColumnOnly {}) };
        let alias = self.fresh(Alias::Query);
        let holds = comparison(op, left, column.of(alias, 0))?;
        let constant = |value| Scalar::constant(SqlType::Int, Value::Int(value));
        let fails = negated(holds.clone(), true);
        let whens = vec![(holds, constant(1)), (fails, constant(0))];
        let result = Scalar::new(SqlType::Int, true, Node::Case(whens, None));
        let from = Relation::Derived { query: Box::new(bound.query), alias };
        let items = vec![Item::Named(result, 0)];
        let rows = Select { items, from: Some(from), ..Select::default() };
        let query = Query::of(Rows::Select(Box::new(rows)));
        let left = constant(i64::from(!all));
        let found = Node::Query(Shared::new(Subquery::In { left, query }));
        Ok(negated(Scalar::condition(found), all))
    }

    fn in_query(&mut self, left: Scalar, query: &ast::Query, not: bool) -> Result<Scalar> {
        let bound = self.query(query, Asked::default())?;
        let [column] = bound.columns.as_slice() else { return Err(Error::OneColumnOnly {}) };
        let label = column.label;
        let ty = match (left.node.is_untyped(), column.untyped) {
            (true, _) => column.ty,
            (false, true) => left.ty,
            (false, false) => common_type(left.ty, column.ty)?,
        };
        let converted = bound.converted(&[ty], &mut self.names)?;
        if !crate::value::storage::comparable(ty) {
            return Err(Error::feature(format!("IN over {}", type_name(ty))));
        }
        let (mut left, query) = (convert(left, ty)?, Query::of(Rows::Converted(converted)));
        left.label = left.label.with(label, "comparison");
        left.label.compared("equal to")?;
        let found = Node::Query(Shared::new(Subquery::In { left, query }));
        Ok(negated(Scalar::condition(found), not))
    }
}

fn near(expr: &Expr) -> String {
    match expr {
        Expr::Column(name) => name.text(),
        Expr::Int(text) | Expr::Dec(text) | Expr::Str(text, _) | Expr::Var(text) => text.clone(),
        Expr::Call(call) => call.name.text(),
        _ => ")".to_owned(),
    }
}
