//! Search conditions.

use super::Binder;
use crate::ast::{CmpOp, Expr, Query};
use crate::bind::typing::{as_text, comparison, negated};
use crate::bind::typing::{common_of, convert, fitted};
use crate::bound::{Bound, Node};
use crate::error::{Error, Result};
use crate::value::{common_type, is_text, type_name};

impl Binder<'_> {
    /// A condition; a plain value here is an error.
    pub(crate) fn condition(&mut self, expr: &Expr) -> Result<Bound> {
        self.spend()?;
        match expr {
            Expr::And(items) | Expr::Or(items) => {
                let bound =
                    items.iter().map(|item| self.condition(item)).collect::<Result<Vec<_>>>()?;
                Ok(Bound::condition(match expr {
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
                Ok(Bound::condition(Node::IsNull(Box::new(inner), *not)))
            }
            Expr::Between(value, low, high, not) => {
                let low = self.scalar(low)?;
                let high = self.scalar(high)?;
                let first = self.scalar(value)?;
                let second = self.scalar(value)?;
                let above = comparison(CmpOp::Ge, first, low)?;
                let below = comparison(CmpOp::Le, second, high)?;
                Ok(negated(Bound::condition(Node::And(vec![above, below])), *not))
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
                let text = Box::new(as_text(text)?);
                let pattern = Box::new(as_text(pattern)?);
                Ok(negated(Bound::condition(Node::Like { text, pattern, escape }), *not))
            }
            Expr::Exists(query) => {
                let sql = self.subquery(query, |_| Ok(()))?;
                Ok(Bound::condition(Node::Leaf(format!("EXISTS ({sql})"))))
            }
            Expr::Quantified(left, op, all, query) => {
                let left = self.scalar(left)?;
                match (op, all) {
                    (CmpOp::Eq, false) => self.in_query(left, query, false),
                    (CmpOp::Ne, true) => self.in_query(left, query, true),
                    _ => Err(Error::unsupported(if *all { "ALL" } else { "ANY" })),
                }
            }
            _ => Err(Error::NotBoolean { near: near(expr) }),
        }
    }

    fn in_list(&mut self, left: &Expr, items: &[Expr], not: bool) -> Result<Bound> {
        let left = self.scalar(left)?;
        let mut bound = Vec::new();
        for item in items {
            bound.push(self.scalar(item)?);
        }
        let ty = common_of(std::iter::once(&left).chain(&bound))?;
        let left = fitted(left, ty)?;
        let bound = bound.into_iter().map(|item| fitted(item, ty)).collect::<Result<Vec<_>>>()?;
        Ok(negated(Bound::condition(Node::InList(Box::new(left), bound)), not))
    }

    fn in_query(&mut self, left: Bound, query: &Query, not: bool) -> Result<Bound> {
        let mut ty = left.ty;
        let sql = self.subquery(query, |columns| {
            let [column] = columns else { return Err(Error::OneColumnOnly {}) };
            ty = match (left.node.is_untyped(), column.untyped) {
                (true, _) => column.ty,
                (false, true) => ty,
                (false, false) => common_type(ty, column.ty)?,
            };
            Ok(())
        })?;
        let sql = self.coerced(&sql, &[ty])?;
        if !crate::value::storage::comparable(ty) {
            return Err(Error::feature(format!("IN over {}", type_name(ty))));
        }
        let left = self.emit_text(&convert(left, ty)?)?;
        let collate = if is_text(ty) { " COLLATE TSQL" } else { "" };
        let leaf = Bound::condition(Node::Leaf(format!("({left}{collate} IN ({}))", sql)));
        Ok(negated(leaf, not))
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
