//! Grouping sets: a SELECT for each of them, put together by UNION ALL.
//!
//! In the SELECT of a set, an expression of GROUP BY that the set does not have is NULL, outside of
//! aggregates; GROUPING and GROUPING_ID are constants.

use tdekit_wire_tds::SqlType;

use super::select::aggregates_in;
use crate::ast::{Call, Expr, Item, Name, OrderItem, Query, Select, SetExpr, SetOp, TableRef};
use crate::error::{Error, Result};

/// The name of the derived table that gives the rows of all sets.
const ROWS: &str = "grouped";

/// Returns true if a SELECT has grouping sets, or calls GROUPING.
pub(super) fn is_grouped(select: &Select, order: &[OrderItem]) -> bool {
    !select.sets.is_empty() || calls_grouping(select, order)
}

/// Returns true if only HAVING or ORDER BY makes one group of all rows, which SQLite does not know.
pub(super) fn is_one_group(select: &Select, order: &[OrderItem]) -> bool {
    let lists_one = |item: &Item| match item {
        Item::Expr(expr, _) | Item::Assign(_, _, expr) => aggregates_in(expr),
        Item::Star(_) => true,
    };
    let made = select.having.is_some() || order.iter().any(|item| aggregates_in(&item.expr));
    made && select.group.is_empty() && !select.items.iter().any(lists_one)
}

/// `COUNT(*)`, which nobody reads: with an aggregate in the list, SQLite makes one group.
pub(super) fn one_group() -> Expr {
    let count = Call { name: Name(vec!["COUNT".to_owned()]), star: true, ..Call::default() };
    Expr::Call(Box::new(count))
}

/// A SELECT of the expressions of GROUP BY, whose columns have their types.
pub(super) fn probe(select: &Select) -> Select {
    let named = |(at, expr): (usize, &Expr)| Item::Expr(expr.clone(), Some(label(at)));
    Select {
        items: select.group.iter().enumerate().map(named).collect(),
        from: select.from.clone(),
        ..Select::default()
    }
}

/// Returns a SELECT without grouping sets that has the same rows, and its order. `types` are those
/// of the expressions of GROUP BY.
///
/// # Errors
/// What cannot be used with grouping sets.
pub(super) fn expanded(
    select: &Select,
    order: &[OrderItem],
    types: &[SqlType],
) -> Result<(Select, Vec<OrderItem>)> {
    let mut items = Vec::new();
    for item in &select.items {
        match item {
            Item::Expr(expr, alias) => items.push((expr, name_of(expr, alias.as_deref()))),
            Item::Star(_) => return Err(Error::feature("* with grouping sets")),
            Item::Assign(..) => return Err(Error::feature("assignments with grouping sets")),
        }
    }
    let mut values: Vec<&Expr> = items.iter().map(|(expr, _)| *expr).collect();
    let mut keys = Vec::new();
    for OrderItem { expr, descending } in order {
        let position = match expr {
            Expr::Int(_) => None,
            Expr::Column(name) if name.0.len() == 1 => {
                items.iter().position(|(_, known)| known.eq_ignore_ascii_case(name.object()))
            }
            _ => None,
        };
        let position = position.or_else(|| values.iter().position(|value| same(value, expr)));
        let expr = match (expr, position) {
            (Expr::Int(_), _) => expr.clone(),
            (_, Some(at)) => column(at),
            (_, None) if select.distinct => return Err(Error::DistinctOrder {}),
            (_, None) => {
                values.push(expr);
                column(values.len() - 1)
            }
        };
        keys.push(OrderItem { expr, descending: *descending });
    }
    let all: Vec<Vec<usize>> = match select.sets.as_slice() {
        [] => vec![(0..select.group.len()).collect()],
        sets => sets.to_vec(),
    };
    let count = one_group();
    if all.iter().any(Vec::is_empty) {
        values.push(&count);
    }
    let mut parts = Vec::new();
    for set in &all {
        let grouping = Grouping { select, set, types };
        parts.push(SetExpr::Select(Box::new(one(&grouping, &values)?)));
    }
    let rows = Query {
        ctes: Vec::new(),
        body: union(parts)?,
        order: Vec::new(),
        offset: None,
        json: None,
        xml: None,
        max_recursion: None,
        line: 0,
    };
    let from = vec![TableRef::Derived(Box::new(rows), ROWS.to_owned(), Vec::new())];
    let items = items.into_iter().enumerate();
    let outer = Select {
        distinct: select.distinct,
        top: select.top.clone(),
        items: items.map(|(at, (_, name))| Item::Expr(column(at), Some(name))).collect(),
        into: select.into.clone(),
        from,
        ..Select::default()
    };
    Ok((outer, keys))
}

fn name_of(expr: &Expr, alias: Option<&str>) -> String {
    match (alias, expr) {
        (Some(alias), _) => alias.to_owned(),
        (None, Expr::Column(name)) => name.object().to_owned(),
        (None, _) => String::new(),
    }
}

/// The column of the derived table for the value at this position.
fn column(at: usize) -> Expr {
    Expr::Column(Name(vec![ROWS.to_owned(), label(at)]))
}

fn label(at: usize) -> String {
    format!("c{at}")
}

/// The SELECT of one set.
fn one(grouping: &Grouping<'_>, values: &[&Expr]) -> Result<Select> {
    let Grouping { select, set, .. } = *grouping;
    let mut items = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let mut value = (*value).clone();
        grouping.apply(&mut value)?;
        items.push(Item::Expr(value, Some(label(at))));
    }
    let mut having = select.having.clone();
    if let Some(having) = &mut having {
        grouping.apply(having)?;
    }
    Ok(Select {
        items,
        from: select.from.clone(),
        filter: select.filter.clone(),
        group: set.iter().map(|at| select.group[*at].clone()).collect(),
        having,
        ..Select::default()
    })
}

/// UNION ALL of them, as a tree of the least height.
fn union(mut parts: Vec<SetExpr>) -> Result<SetExpr> {
    while parts.len() > 1 {
        let mut pairs = Vec::new();
        let mut left = parts.into_iter();
        while let Some(first) = left.next() {
            pairs.push(match left.next() {
                Some(second) => SetExpr::Op(SetOp::UnionAll, Box::new(first), Box::new(second)),
                None => first,
            });
        }
        parts = pairs;
    }
    parts.pop().ok_or(Error::NestedTooDeep {})
}

/// One set among those of a SELECT.
struct Grouping<'a> {
    select: &'a Select,
    set: &'a [usize],
    types: &'a [SqlType],
}

impl Grouping<'_> {
    /// Makes an expression of the list, HAVING or ORDER BY one of this set.
    fn apply(&self, expr: &mut Expr) -> Result<()> {
        if let Some(at) = self.position(expr) {
            if let (false, Some(ty)) = (self.has(at), self.types.get(at)) {
                *expr = Expr::Convert(Box::new(Expr::Null), *ty, None, false);
            }
            return Ok(());
        }
        if let Expr::Call(call) = &*expr {
            if let Some(function) = grouping_function(call) {
                *expr = self.level(function, call)?;
                return Ok(());
            }
            if call.over.is_some() {
                return Err(Error::feature("window functions with grouping sets"));
            }
            if super::call::is_aggregate(call) {
                return Ok(());
            }
        }
        let mut result = Ok(());
        expr.children_mut(&mut |part| {
            if result.is_ok() {
                result = self.apply(part);
            }
        });
        result
    }

    fn position(&self, expr: &Expr) -> Option<usize> {
        self.select.group.iter().position(|known| same(known, expr))
    }

    /// Returns true if the set has this expression, or the same in other words.
    fn has(&self, at: usize) -> bool {
        let group = &self.select.group;
        self.set.iter().any(|one| *one == at || same(&group[*one], &group[at]))
    }

    /// The value of GROUPING, 0 or 1, or of GROUPING_ID, a bit for each argument.
    fn level(&self, function: &'static str, call: &Call) -> Result<Expr> {
        let single = function == "GROUPING";
        let most = if single { 1 } else { 31 };
        crate::functions::check_count(function, call.args.len(), 1, most)?;
        let mut bits = 0_u32;
        for (at, arg) in call.args.iter().enumerate() {
            let found = self.position(arg);
            let found = found.ok_or(Error::NotAGroup { number: at + 1, function })?;
            bits = bits << 1 | u32::from(!self.has(found));
        }
        let ty = if single { SqlType::TinyInt } else { SqlType::Int };
        Ok(Expr::Convert(Box::new(Expr::Int(bits.to_string())), ty, None, false))
    }
}

/// Returns the name of the function if it is GROUPING or GROUPING_ID.
fn grouping_function(call: &Call) -> Option<&'static str> {
    let name = call.name.text();
    ["GROUPING", "GROUPING_ID"].into_iter().find(|known| known.eq_ignore_ascii_case(&name))
}

fn calls_grouping(select: &Select, order: &[OrderItem]) -> bool {
    let items = select.items.iter().any(|item| match item {
        Item::Expr(expr, _) | Item::Assign(_, _, expr) => calls(expr),
        Item::Star(_) => false,
    });
    items || select.having.iter().chain(order.iter().map(|item| &item.expr)).any(calls)
}

/// Returns true if an expression calls GROUPING outside of aggregates, where it is an error.
fn calls(expr: &Expr) -> bool {
    if let Expr::Call(call) = expr {
        if grouping_function(call).is_some() {
            return true;
        }
        if super::call::is_aggregate(call) {
            return false;
        }
    }
    let mut found = false;
    expr.children(&mut |part| found = found || calls(part));
    found
}

/// Returns true for the same expression: names in any case, columns with or without their table.
fn same(a: &Expr, b: &Expr) -> bool {
    let (mut tables_a, mut tables_b) = (Vec::new(), Vec::new());
    let (a, b) = (bare(a, &mut tables_a), bare(b, &mut tables_b));
    let agree = |(a, b): (&Vec<String>, &Vec<String>)| {
        a.iter().rev().zip(b.iter().rev()).all(|(a, b)| a == b)
    };
    a == b && tables_a.iter().zip(&tables_b).all(agree)
}

/// The expression with names in lower case and columns without their tables, which go to `tables`.
fn bare(expr: &Expr, tables: &mut Vec<Vec<String>>) -> Expr {
    let mut made = expr.clone();
    made.each(&mut |part| match part {
        Expr::Column(name) => {
            name.0.iter_mut().for_each(|part| *part = part.to_lowercase());
            let last = name.0.split_off(name.0.len().saturating_sub(1));
            tables.push(std::mem::replace(&mut name.0, last));
        }
        Expr::Var(name) => *name = name.to_lowercase(),
        Expr::Call(call) => {
            call.name.0.iter_mut().for_each(|part| *part = part.to_lowercase());
        }
        _ => {}
    });
    made
}
