//! GROUP BY: expressions, ROLLUP, CUBE and GROUPING SETS.

use super::Parser;
use crate::ast::Expr;
use crate::error::{Error, Result};

/// SQL Server takes 4,096; each is a SELECT of its own here.
const MAX_SETS: usize = 256;

/// Grouping sets, each a list of expressions.
type Sets = Vec<Vec<Expr>>;

impl Parser<'_> {
    /// What follows GROUP BY: the different expressions, and the grouping sets as positions among
    /// them. There are no sets if each element is an expression.
    pub(super) fn group_by(&mut self) -> Result<(Vec<Expr>, Vec<Vec<usize>>)> {
        let (mut sets, mut plain) = (vec![Vec::new()], true);
        loop {
            let element = self.group_element()?;
            plain &= matches!(element.as_slice(), [set] if set.len() == 1);
            sets = product(&sets, &element)?;
            if !self.eat_op(",") {
                break;
            }
        }
        if let ([set], true) = (sets.as_slice(), plain) {
            let items: Sets = set.iter().map(|expr| vec![expr.clone()]).collect();
            if self.eat_words(&["WITH", "ROLLUP"]) {
                sets = rollup(&items);
            } else if self.eat_words(&["WITH", "CUBE"]) {
                sets = cube(&items)?;
            } else {
                return Ok((set.clone(), Vec::new()));
            }
        }
        let mut group: Vec<Expr> = Vec::new();
        let mut at = |expr: Expr| {
            group.iter().position(|known| *known == expr).unwrap_or_else(|| {
                group.push(expr);
                group.len() - 1
            })
        };
        let sets = sets.into_iter().map(|set| set.into_iter().map(&mut at).collect()).collect();
        Ok((group, sets))
    }

    fn group_element(&mut self) -> Result<Sets> {
        if !self.eat_words(&["GROUPING", "SETS"]) {
            return self.grouping_set();
        }
        let sets = self.list(Self::grouping_set)?;
        bounded(sets.into_iter().flatten().collect())
    }

    /// ROLLUP, CUBE, or one set.
    fn grouping_set(&mut self) -> Result<Sets> {
        if self.is("ALL") {
            return Err(Error::unsupported("GROUP BY ALL"));
        }
        if self.is_op_at(1, "(") && (self.is("ROLLUP") || self.is("CUBE")) {
            let rolled = self.word()? == "ROLLUP";
            let items = self.list(Self::grouping_item)?;
            return if rolled { bounded(rollup(&items)) } else { cube(&items) };
        }
        Ok(vec![self.grouping_item()?])
    }

    /// `a`, `(a, b)` or `()`.
    fn grouping_item(&mut self) -> Result<Vec<Expr>> {
        let mark = self.at;
        if self.eat_op("(") {
            if self.eat_op(")") {
                return Ok(Vec::new());
            }
            let first = self.nested(Self::expression)?;
            if self.eat_op(",") {
                let mut items = vec![first];
                items.extend(self.commas(Self::expression)?);
                self.expect_op(")")?;
                return Ok(items);
            }
            // one expression, of which the parenthesis may be a part only
            self.at = mark;
        }
        Ok(vec![self.expression()?])
    }
}

/// The first of each with all of the second.
fn product(sets: &Sets, element: &Sets) -> Result<Sets> {
    let pairs = sets.iter().flat_map(|set| element.iter().map(move |more| [&set[..], more]));
    bounded(pairs.take(MAX_SETS + 1).map(|pair| pair.concat()).collect())
}

fn bounded(sets: Sets) -> Result<Sets> {
    match sets.len() > MAX_SETS {
        true => Err(Error::feature(format!("more than {MAX_SETS} grouping sets"))),
        false => Ok(sets),
    }
}

/// All items, then one less each time, down to none.
fn rollup(items: &Sets) -> Sets {
    (0..=items.len()).rev().map(|many| items[..many].concat()).collect()
}

/// Every choice of items, all of them first.
fn cube(items: &Sets) -> Result<Sets> {
    if items.len() > MAX_SETS.ilog2() as usize {
        return Err(Error::feature(format!("more than {MAX_SETS} grouping sets")));
    }
    let chosen = |choice: usize| {
        let items = items.iter().enumerate().filter(|(at, _)| choice >> at & 1 == 0);
        items.flat_map(|(_, item)| item.clone()).collect()
    };
    Ok((0..1 << items.len()).map(chosen).collect())
}
