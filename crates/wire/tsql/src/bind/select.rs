//! One SELECT.

use tdekit_wire_tds::messages::DefinedError;
use tdekit_wire_tds::{Generated, SqlType};

use super::call::sort;
use super::grouping;
use super::names::Names;
use super::query::{Asked, BoundQuery, OutColumn, position};
use super::{Binder, Offered, Scope};
use crate::ast::{Expr, Item, OrderItem, Select};
use crate::error::{Error, Result};
use crate::plan::label::Label;
use crate::plan::relation::{self, Ranked, Rows, Sort};
use crate::plan::scalar::{Node, Scalar};
use crate::plan::{ColumnRef, Field};

/// A SELECT that assigns: the plan of the values that SQLite gives, the slots and their values over
/// its rows, the types of its columns.
pub(crate) type Assigning<T> = (T, Vec<(usize, Scalar)>, Vec<SqlType>);

/// Returns true if a SELECT has an aggregate outside of its subqueries.
pub(crate) fn has_aggregates(select: &Select, order: &[OrderItem]) -> bool {
    let items = select.items.iter().any(|item| match item {
        Item::Expr(expr, _) | Item::Assign(_, _, expr) => aggregates_in(expr),
        Item::Star(_) => false,
    });
    let ordered = order.iter().any(|item| aggregates_in(&item.expr));
    items || ordered || select.having.as_ref().is_some_and(aggregates_in)
}

pub(super) fn aggregates_in(expr: &Expr) -> bool {
    expr.any(&|part| matches!(part, Expr::Call(call) if super::call::is_aggregate(call)))
}

impl Binder<'_> {
    pub(super) fn select(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        offset: Option<&(Expr, Option<Expr>)>,
        asked: Asked,
    ) -> Result<BoundQuery> {
        if grouping::is_grouped(select, order) || grouping::is_one_group(select, order) {
            return self.grouping_sets(select, order, offset, asked);
        }
        self.in_scope(Scope::new(), |binder| binder.select_in_scope(select, order, offset, asked))
    }

    #[inline(never)]
    fn grouping_sets(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        offset: Option<&(Expr, Option<Expr>)>,
        asked: Asked,
    ) -> Result<BoundQuery> {
        let columns = match select.group.as_slice() {
            [] => Vec::new(),
            _ => self.select(&grouping::probe(select), &[], None, Asked::default())?.columns,
        };
        let types: Vec<SqlType> = columns.iter().map(|column| column.ty).collect();
        let (select, order) = grouping::expanded(select, order, &types)?;
        self.select(&select, &order, offset, asked)
    }

    fn select_in_scope(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        offset: Option<&(Expr, Option<Expr>)>,
        asked: Asked,
    ) -> Result<BoundQuery> {
        let mut made = self.parts(select, order, asked)?;
        let mut columns = Vec::new();
        let mut bases = Vec::new();
        for item in &select.items {
            for (name, bound, generated) in self.item(item)? {
                if select.distinct {
                    super::call::check_groupable(bound.ty)?;
                }
                let (ty, nullable, label) = (bound.ty, bound.nullable, bound.label);
                label.listed(ty, "SELECT", columns.len())?;
                let untyped = bound.node.is_untyped();
                let json = crate::functions::json::is_json(&bound);
                let table = if asked.tables { table_of(&self.names, &bound) } else { None };
                if asked.numbers {
                    bases.push(base_of(&self.names, &bound));
                }
                made.items.push(relation::Item::Named(bound, columns.len()));
                columns.push(OutColumn {
                    name,
                    ty,
                    nullable,
                    generated,
                    untyped,
                    json,
                    table,
                    label,
                });
            }
        }
        if asked.numbers {
            number_row(&self.names, &mut made, &mut columns)?;
        }
        if let Some(depth) = self.names.recursion() {
            if select.distinct || select.top.is_some() || !select.group.is_empty() {
                return Err(Error::feature("DISTINCT, TOP or GROUP BY in a recursive part"));
            }
            made.items.push(relation::Item::Depth(depth, self.limits.recursion()));
        }
        let mut ranked = select.top.as_ref().filter(|top| top.percent || top.ties);
        if let (None, Some(top), true) =
            (ranked, &select.top, self.expansion.parameters().is_some())
            && self.row_count(&top.count)?.names_column()
        {
            // SQLite's LIMIT names no columns
            ranked = Some(top);
        }
        let rows = if let Some(top) = ranked {
            self.ranked(select, top, order, &columns, made)?
        } else {
            made.order = self.order_keys(select, order, &columns)?;
            made.limit = self.limit(select.top.as_ref(), offset)?;
            Rows::Select(Box::new(made))
        };
        Ok(BoundQuery { query: relation::Query::of(rows), columns, bases })
    }

    /// The parts of a SELECT before its list.
    fn parts(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        asked: Asked,
    ) -> Result<relation::Select> {
        if select.into.is_some() && !asked.into {
            return Err(Error::MisplacedInto {});
        }
        let mut made = relation::Select { distinct: select.distinct, ..Default::default() };
        if !select.from.is_empty() {
            made.from = Some(self.tables_clause(&select.from)?);
        }
        made.filter = select.filter.as_ref().map(|filter| self.condition(filter)).transpose()?;
        let mut groups = Vec::new();
        for (at, expr) in select.group.iter().enumerate() {
            let key = self.scalar(expr)?;
            if !expr.any(&|part| matches!(part, Expr::Column(_))) {
                return Err(DefinedError::GroupedConstant {}.into());
            }
            super::call::check_groupable(key.ty)?;
            key.label.listed(key.ty, "GROUP BY", at)?;
            let key = key.shared();
            groups.push((self.names.canonical(expr), key.clone()));
            made.keys.push(key);
        }
        let grouped =
            !groups.is_empty() || select.having.is_some() || has_aggregates(select, order);
        self.names.group(grouped.then_some(groups));
        made.having = select.having.as_ref().map(|having| self.condition(having)).transpose()?;
        Ok(made)
    }

    /// Returns the columns of one item: name, expression, whether the table generates it.
    pub(crate) fn item(&mut self, item: &Item) -> Result<Vec<(String, Scalar, Generated)>> {
        match item {
            Item::Assign(..) => Err(Error::SelectAssignMixed {}),
            Item::Expr(expr, alias) => {
                let bound = self.scalar(expr)?;
                let name = match (alias, expr) {
                    (Some(alias), _) => alias.clone(),
                    (None, Expr::Column(name)) => name.object().to_owned(),
                    _ => String::new(),
                };
                let generated = generated(&self.names, expr)?;
                Ok(vec![(name, bound, generated)])
            }
            Item::Star(qualifier) => {
                let columns = self.names.star(qualifier.as_ref())?;
                let columns: Vec<Offered> = columns.into_iter().cloned().collect();
                let read = |own: Offered| {
                    let value = self.read(&own)?;
                    Ok((own.name, value, own.generated))
                };
                columns.into_iter().map(read).collect()
            }
        }
    }

    /// TOP .. PERCENT and WITH TIES: rows are numbered or ranked first.
    fn ranked(
        &mut self,
        select: &Select,
        top: &crate::ast::Top,
        order: &[OrderItem],
        columns: &[OutColumn],
        mut made: relation::Select,
    ) -> Result<Rows> {
        if top.ties && order.is_empty() {
            return Err(Error::TiesWithoutOrder {});
        }
        if select.distinct {
            return Err(Error::feature("DISTINCT with TOP PERCENT or WITH TIES"));
        }
        let mut keys = Vec::new();
        for Sort { value, descending } in self.order_keys(select, order, columns)? {
            let value = if value.own_field().is_some() {
                value
            } else {
                let (ty, nullable, at) = (value.ty, value.nullable, keys.len());
                let collation = value.collation();
                made.items.push(relation::Item::Key(value, at));
                Scalar::column(ty, nullable, ColumnRef::own(Field::Key(at))).of_collation(collation)
            };
            keys.push(Sort { value, descending });
        }
        let count = match top.percent {
            true => self.percent(&top.count)?,
            false => self.row_count(&top.count)?,
        };
        Ok(Rows::Ranked(Box::new(Ranked {
            select: made,
            width: columns.len(),
            order: keys,
            ties: top.ties,
            percent: top.percent,
            count,
        })))
    }

    /// The keys of ORDER BY: columns of the list, or other values.
    fn order_keys(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        columns: &[OutColumn],
    ) -> Result<Vec<Sort>> {
        let mut keys = Vec::new();
        for item in order {
            let mut at = match &item.expr {
                Expr::Int(digits) => Some(position(digits, columns.len())?),
                Expr::Column(name) if name.0.len() == 1 => columns
                    .iter()
                    .position(|column| column.name.eq_ignore_ascii_case(name.object())),
                _ => None,
            };
            if at.is_none() && select.distinct {
                let names = &self.names;
                let wanted = names.canonical(&item.expr);
                at = select.items.iter().position(
                    |found| matches!(found, Item::Expr(expr, _) if names.canonical(expr) == wanted),
                );
                let stars = select.items.iter().any(|item| matches!(item, Item::Star(_)));
                if at.is_none() || stars {
                    return Err(Error::DistinctOrder {});
                }
            }
            let value = match at {
                Some(at) => columns[at].own(at),
                None => {
                    if matches!(item.expr, Expr::Dec(_) | Expr::Str(..) | Expr::Null) {
                        return Err(Error::ConstantOrder {});
                    }
                    self.scalar(&item.expr)?
                }
            };
            value.label.listed(value.ty, "ORDER BY", keys.len())?;
            keys.push(sort(value, item.descending)?);
        }
        Ok(keys)
    }

    /// `SELECT @v = ..`: the rows that SQLite gives, and the assignments for each of them.
    pub(crate) fn select_assign(
        &mut self,
        query: &crate::ast::Query,
        select: &Select,
    ) -> Result<Assigning<relation::Query>> {
        if query.json.is_some() {
            return Err(Error::feature("FOR JSON of a SELECT that assigns"));
        }
        if query.xml.is_some() {
            return Err(Error::feature("FOR XML of a SELECT that assigns"));
        }
        if grouping::is_grouped(select, &query.order) {
            return Err(Error::feature("assignments with grouping sets"));
        }
        let bind = |binder: &mut Self| {
            binder.assignments(query, select).map(|(made, own, types)| (made, (own, types)))
        };
        let (query, (assigned, types)) = self.with_recursion(query.max_recursion, |binder| {
            binder.with_common_tables(&query.ctes, bind)
        })?;
        Ok((query, assigned, types))
    }

    fn assignments(
        &mut self,
        query: &crate::ast::Query,
        select: &Select,
    ) -> Result<Assigning<relation::Select>> {
        let mut made = self.parts(select, &query.order, Asked::default())?;
        let (mut assigned, mut leaves) = (Vec::new(), Leaves::default());
        for item in &select.items {
            let Item::Assign(name, op, expr) = item else {
                return Err(Error::SelectAssignMixed {});
            };
            let variable = self.assigned_variable(name)?;
            let value = self.scalar(expr)?;
            let current = Scalar::new(variable.ty, true, Node::Var(variable.slot));
            let value = super::call::compound(*op, current, value)?;
            let value = crate::functions::typing::convert(value, variable.ty)?;
            assigned.push((variable.slot, leaves.taken_from(value)));
        }
        if grouping::is_one_group(select, &query.order) {
            let count = self.scalar(&grouping::one_group())?;
            leaves.place(&count);
        }
        made.order = self.order_keys(select, &query.order, &[])?;
        made.limit = self.limit(select.top.as_ref(), query.offset.as_ref())?;
        let types = leaves.types();
        made.items = leaves.0.into_iter().map(relation::Item::Plain).collect();
        Ok((made, assigned, types))
    }
}

/// Returns the name of the table of FROM whose column this is.
fn table_of(names: &Names, bound: &Scalar) -> Option<String> {
    let source = bound.as_column()?.source?;
    let found = names.sources().iter().find(|known| known.id == Some(source));
    found.map(|known| known.alias.clone())
}

/// Returns the name of the column of the first table of FROM that this is.
fn base_of(names: &Names, bound: &Scalar) -> Option<String> {
    let column = bound.as_column()?;
    let first = names.sources().first()?;
    match &column.field {
        Field::Named(name) if column.source == first.id => Some(name.to_string()),
        _ => None,
    }
}

/// Adds the number of the row of the first table of FROM.
fn number_row(
    names: &Names,
    made: &mut relation::Select,
    columns: &mut Vec<OutColumn>,
) -> Result<()> {
    let Some(alias) = names.sources().first().and_then(|source| source.id) else {
        return Err(Error::feature("a change through a query"));
    };
    let ty = SqlType::BigInt;
    let number = Scalar::column(ty, false, ColumnRef::of(alias, Field::RowId));
    made.items.push(relation::Item::Named(number, columns.len()));
    columns.push(OutColumn {
        name: String::new(),
        ty,
        nullable: false,
        generated: Generated::No,
        untyped: false,
        json: false,
        table: None,
        label: Label::Coercible,
    });
    Ok(())
}

/// Returns whether the table generates a column of this query's own FROM; an expression is none.
fn generated(names: &Names, expr: &Expr) -> Result<Generated> {
    let Expr::Column(name) = expr else { return Ok(Generated::No) };
    let found = names.own_column(name)?;
    Ok(found.map_or(Generated::No, |offered| offered.generated))
}

/// Values that SQLite computes for expressions that the interpreter computes.
#[derive(Default)]
pub(crate) struct Leaves(pub(crate) Vec<Scalar>);

impl Leaves {
    /// Puts the places of values here in place of SQLite's values in an expression.
    pub(crate) fn taken_from(&mut self, mut value: Scalar) -> Scalar {
        value.each(&mut |part| {
            if part.node.is_leaf() {
                part.node = Node::Arg(self.place(part));
            }
        });
        value
    }

    pub(crate) fn place(&mut self, leaf: &Scalar) -> usize {
        let known = self.0.iter().position(|known| known.ty == leaf.ty && known.node == leaf.node);
        known.unwrap_or_else(|| {
            self.0.push(leaf.clone());
            self.0.len() - 1
        })
    }

    pub(crate) fn types(&self) -> Vec<SqlType> {
        self.0.iter().map(|leaf| leaf.ty).collect()
    }
}
