//! One SELECT.

use super::query::{BoundQuery, OutColumn, position};
use super::{Aggregates, Binder, Scope};
use crate::ast::{Expr, Item, OrderItem, Select};
use crate::bound::{Bound, Node};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::value::is_text;

/// The text of a SELECT that assigns, slots and values, the types of its columns.
type Assigning = (String, Vec<(usize, Bound)>, Vec<tdekit_wire_tds::SqlType>);

/// The parts of a SELECT before its list is written.
struct Parts {
    from: String,
    filter: String,
    group: String,
    having: String,
}

/// Returns true if a SELECT has an aggregate outside of its subqueries.
pub(crate) fn has_aggregates(select: &Select, order: &[OrderItem]) -> bool {
    let items = select.items.iter().any(|item| match item {
        Item::Expr(expr, _) | Item::Assign(_, _, expr) => aggregates_in(expr),
        Item::Star(_) => false,
    });
    let ordered = order.iter().any(|item| aggregates_in(&item.expr));
    items || ordered || select.having.as_ref().is_some_and(aggregates_in)
}

fn aggregates_in(expr: &Expr) -> bool {
    expr.any(&|part| matches!(part, Expr::Call(call) if super::call::is_aggregate(call)))
}

impl Binder<'_> {
    pub(crate) fn select(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        offset: Option<&(Expr, Option<Expr>)>,
    ) -> Result<BoundQuery> {
        self.scopes.push(Scope::new());
        let result = self.select_in_scope(select, order, offset);
        self.scopes.pop();
        result
    }

    fn select_in_scope(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        offset: Option<&(Expr, Option<Expr>)>,
    ) -> Result<BoundQuery> {
        let parts = self.parts(select, order)?;
        let mut columns = Vec::new();
        let mut items = Vec::new();
        for item in &select.items {
            for (name, bound, identity) in self.item(item)? {
                let sql_name = format!("~{}", columns.len());
                if select.distinct {
                    super::call::check_groupable(bound.ty)?;
                }
                let collate = if is_text(bound.ty) { " COLLATE TSQL" } else { "" };
                let text = self.emit_text(&bound)?;
                items.push(format!("{text}{collate} AS {}", quote(&sql_name)));
                let (ty, nullable) = (bound.ty, bound.nullable);
                let untyped = bound.node.is_untyped();
                columns.push(OutColumn { name, sql_name, ty, nullable, identity, untyped });
            }
        }
        if let Some(depth) = self.recursion.take() {
            if select.distinct || select.top.is_some() || !select.group.is_empty() {
                return Err(Error::feature("DISTINCT, TOP or GROUP BY in a recursive part"));
            }
            items.push(format!("tsql_depth({depth}, {}) AS \"~depth\"", self.max_recursion));
        }
        if let Some(top) = select.top.as_ref().filter(|top| top.percent || top.ties) {
            return self.ranked(select, top, order, (items, columns), &parts);
        }
        let order = self.select_order(select, order, &columns)?;
        let limit = self.limit(select.top.as_ref(), offset)?;
        let distinct = if select.distinct { "DISTINCT " } else { "" };
        let sql = format!(
            "SELECT {distinct}{}{}{}{}{}{order}{limit}",
            items.join(", "),
            parts.from,
            parts.filter,
            parts.group,
            parts.having
        );
        Ok(BoundQuery { sql, columns })
    }

    fn parts(&mut self, select: &Select, order: &[OrderItem]) -> Result<Parts> {
        if select.into.is_some() {
            let left = self.into_left.checked_sub(1);
            self.into_left = left.ok_or(Error::MisplacedInto {})?;
        }
        let mut parts = Parts {
            from: String::new(),
            filter: String::new(),
            group: String::new(),
            having: String::new(),
        };
        if !select.from.is_empty() {
            parts.from = format!(" FROM {}", self.tables_clause(&select.from)?);
        }
        if let Some(filter) = &select.filter {
            let bound = self.condition(filter)?;
            parts.filter = format!(" WHERE {}", self.emit_text(&bound)?);
        }
        let mut groups = Vec::new();
        let mut texts = Vec::new();
        for expr in &select.group {
            let bound = self.scalar(expr)?;
            super::call::check_groupable(bound.ty)?;
            let text = self.emit_text(&bound)?;
            let collate = if is_text(bound.ty) { " COLLATE TSQL" } else { "" };
            texts.push(format!("({text}){collate}"));
            groups.push((
                self.canonical(expr),
                Bound::new(bound.ty, bound.nullable, Node::Leaf(text)),
            ));
        }
        let grouped =
            !groups.is_empty() || select.having.is_some() || has_aggregates(select, order);
        if let Some(scope) = self.scopes.last_mut() {
            scope.aggregates = Aggregates::Allowed;
            scope.groups = grouped.then_some(groups);
        }
        if !texts.is_empty() {
            parts.group = format!(" GROUP BY {}", texts.join(", "));
        }
        if let Some(having) = &select.having {
            let bound = self.condition(having)?;
            parts.having = format!(" HAVING {}", self.emit_text(&bound)?);
        }
        Ok(parts)
    }

    /// Returns the columns of one item: name, expression, true for an identity column.
    pub(crate) fn item(&mut self, item: &Item) -> Result<Vec<(String, Bound, bool)>> {
        match item {
            Item::Assign(..) => Err(Error::SelectAssignMixed {}),
            Item::Expr(expr, alias) => {
                let bound = self.scalar(expr)?;
                let name = match (alias, expr) {
                    (Some(alias), _) => alias.clone(),
                    (None, Expr::Column(name)) => name.object().to_owned(),
                    _ => String::new(),
                };
                let identity = self.is_identity(&bound);
                Ok(vec![(name, bound, identity)])
            }
            Item::Star(qualifier) => self.star(qualifier.as_ref()),
        }
    }

    fn is_identity(&self, bound: &Bound) -> bool {
        let Node::Leaf(sql) = &bound.node else { return false };
        let Some(scope) = self.scopes.last() else { return false };
        scope
            .sources
            .iter()
            .flat_map(|source| &source.columns)
            .any(|column| column.identity && column.sql == *sql)
    }

    fn star(&mut self, qualifier: Option<&crate::ast::Name>) -> Result<Vec<(String, Bound, bool)>> {
        let Some(scope) = self.scopes.last() else { return Err(Error::SelectStarNoFrom {}) };
        if scope.sources.is_empty() {
            return Err(Error::SelectStarNoFrom {});
        }
        let mut found = false;
        let mut columns = Vec::new();
        for source in &scope.sources {
            if qualifier.is_some_and(|name| !source.alias.eq_ignore_ascii_case(name.object())) {
                continue;
            }
            found = true;
            for column in &source.columns {
                let ungrouped = scope.groups.as_ref().is_some_and(|groups| {
                    !groups.iter().any(|(_, bound)| bound.node == Node::Leaf(column.sql.clone()))
                });
                if ungrouped {
                    let name = format!("{}.{}", source.alias, column.name);
                    return Err(Error::NotGrouped { name });
                }
                let bound = Bound::new(column.ty, column.nullable, Node::Leaf(column.sql.clone()));
                columns.push((column.name.clone(), bound, column.identity));
            }
        }
        if !found {
            let name = qualifier.map_or_else(String::new, crate::ast::Name::text);
            return Err(Error::MultiPart { name });
        }
        Ok(columns)
    }

    /// TOP .. PERCENT and WITH TIES: rows are numbered or ranked first.
    fn ranked(
        &mut self,
        select: &Select,
        top: &crate::ast::Top,
        order: &[OrderItem],
        (mut items, columns): (Vec<String>, Vec<OutColumn>),
        parts: &Parts,
    ) -> Result<BoundQuery> {
        if top.ties && order.is_empty() {
            return Err(Error::TiesWithoutOrder {});
        }
        if select.distinct {
            return Err(Error::feature("DISTINCT with TOP PERCENT or WITH TIES"));
        }
        let mut keys = Vec::new();
        for (key, direction) in self.order_keys(select, order, &columns)? {
            let name = quote(&format!("~k{}", keys.len()));
            // a name that refers to a column of the list is replaced already
            let known = key.starts_with("\"~")
                && columns.iter().any(|column| key == quote(&column.sql_name));
            if known {
                keys.push(format!("{key}{direction}"));
            } else {
                items.push(format!("{key} AS {name}"));
                keys.push(format!("{name}{direction}"));
            }
        }
        let inner = format!(
            "SELECT {}{}{}{}{}",
            items.join(", "),
            parts.from,
            parts.filter,
            parts.group,
            parts.having
        );
        let by = match keys.is_empty() {
            true => String::new(),
            false => format!("ORDER BY {}", keys.join(", ")),
        };
        let rank = if top.ties { "rank" } else { "row_number" };
        let test = if top.percent {
            let share = self.percent(&top.count)?;
            format!("(\"~rank\" - 1) < \"~all\" * {share} / 100.0")
        } else {
            format!("\"~rank\" <= {}", self.row_count(&top.count)?)
        };
        let names: Vec<String> = columns.iter().map(|column| quote(&column.sql_name)).collect();
        let sql = format!(
            "SELECT {} FROM (SELECT *, {rank}() OVER ({by}) AS \"~rank\", count(*) OVER () AS \
            \"~all\" FROM ({inner})) WHERE {test} {by}",
            names.join(", ")
        );
        Ok(BoundQuery { sql, columns })
    }

    fn select_order(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        columns: &[OutColumn],
    ) -> Result<String> {
        let keys = self.order_keys(select, order, columns)?;
        if keys.is_empty() {
            return Ok(String::new());
        }
        let keys: Vec<String> =
            keys.into_iter().map(|(key, direction)| format!("{key}{direction}")).collect();
        Ok(format!(" ORDER BY {}", keys.join(", ")))
    }

    /// The keys of ORDER BY, each with its collation and direction.
    fn order_keys(
        &mut self,
        select: &Select,
        order: &[OrderItem],
        columns: &[OutColumn],
    ) -> Result<Vec<(String, String)>> {
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
                let wanted = self.canonical(&item.expr);
                at = select.items.iter().position(
                    |found| matches!(found, Item::Expr(expr, _) if self.canonical(expr) == wanted),
                );
                let stars = select.items.iter().any(|item| matches!(item, Item::Star(_)));
                if at.is_none() || stars {
                    return Err(Error::DistinctOrder {});
                }
            }
            match at {
                Some(at) => {
                    let column = &columns[at];
                    let name = quote(&column.sql_name);
                    let leaf = Bound::new(column.ty, column.nullable, Node::Leaf(name.clone()));
                    self.ordered(&leaf, false)?;
                    let collate = if is_text(column.ty) { " COLLATE TSQL" } else { "" };
                    let direction = if item.descending { " DESC" } else { "" };
                    keys.push((name, format!("{collate}{direction}")));
                }
                None => {
                    if matches!(item.expr, Expr::Dec(_) | Expr::Str(..) | Expr::Null) {
                        return Err(Error::ConstantOrder {});
                    }
                    let bound = self.scalar(&item.expr)?;
                    self.ordered(&bound, false)?;
                    let collate = if is_text(bound.ty) { " COLLATE TSQL" } else { "" };
                    let direction = if item.descending { " DESC" } else { "" };
                    // a bare parameter would be a constant, and a number a position
                    let key = format!("({})", self.emit_text(&bound)?);
                    keys.push((key, format!("{collate}{direction}")));
                }
            }
        }
        Ok(keys)
    }

    /// `SELECT @v = ..`: the rows that SQLite gives, and the assignments for each of them.
    pub(crate) fn select_assign(
        &mut self,
        query: &crate::ast::Query,
        select: &Select,
    ) -> Result<Assigning> {
        let known = self.ctes.len();
        let with = self.common_tables(&query.ctes)?;
        self.scopes.push(Scope::new());
        let result = self.assignments(query, select);
        self.scopes.pop();
        self.ctes.truncate(known);
        let (sql, assigned, types) = result?;
        Ok((format!("{with}{sql}"), assigned, types))
    }

    fn assignments(&mut self, query: &crate::ast::Query, select: &Select) -> Result<Assigning> {
        let parts = self.parts(select, &query.order)?;
        let (mut assigned, mut leaves, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for item in &select.items {
            let Item::Assign(name, op, expr) = item else {
                return Err(Error::SelectAssignMixed {});
            };
            let variable = self.variables.find(name)?;
            let value = self.scalar(expr)?;
            let current = Bound::new(variable.ty, true, Node::Var(variable.slot));
            let value = super::call::compound(*op, current, value)?;
            let value = crate::bind::typing::convert(value, variable.ty)?;
            assigned.push((variable.slot, rows(&value, &mut leaves, &mut types)));
        }
        let order = self.select_order(select, &query.order, &[])?;
        let limit = self.limit(select.top.as_ref(), query.offset.as_ref())?;
        if leaves.is_empty() {
            leaves.push("1".to_owned());
        }
        let distinct = if select.distinct { "DISTINCT " } else { "" };
        let sql = format!(
            "SELECT {distinct}{}{}{}{}{}{order}{limit}",
            leaves.join(", "),
            parts.from,
            parts.filter,
            parts.group,
            parts.having
        );
        Ok((sql, assigned, types))
    }
}

/// Replaces SQLite's values in the expression by the row's columns.
pub(crate) fn rows(
    bound: &Bound,
    leaves: &mut Vec<String>,
    types: &mut Vec<tdekit_wire_tds::SqlType>,
) -> Bound {
    let mut made = bound.clone();
    made.each(&mut |part| {
        let Node::Leaf(sql) = &part.node else { return };
        let known = leaves.iter().position(|leaf| leaf == sql).filter(|at| types[*at] == part.ty);
        let at = known.unwrap_or_else(|| {
            leaves.push(sql.clone());
            types.push(part.ty);
            leaves.len() - 1
        });
        part.node = Node::Arg(at);
    });
    made
}
