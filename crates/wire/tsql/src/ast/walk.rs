//! The parts of expressions, queries and statements: one list, on which every search of a text is
//! based.

use super::{Call, Cte, Expr, Item, Kind, Name, OrderItem, Query, SetExpr, Stmt, TableRef};

/// The direct parts of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Child<'q> {
    Expr(&'q Expr),
    /// A derived table, a common table expression, or one side of a set.
    Query(&'q Query),
    /// A table named in FROM.
    Table(&'q Name),
}

/// The children of an expression, to read or to change; a query in it is not one, see
/// [`Expr::query`].
macro_rules! children {
    ($(#[$doc:meta])* $name:ident $(, $mutable:tt)?) => {
        $(#[$doc])*
        pub(crate) fn $name<'e>(&'e $($mutable)? self, see: &mut dyn FnMut(&'e $($mutable)? Expr)) {
            match self {
                Expr::Unary(_, a)
                | Expr::Not(a)
                | Expr::IsNull(a, _)
                | Expr::Collate(a, _)
                | Expr::InQuery(a, _, _)
                | Expr::Quantified(a, ..) => see(a),
                Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
                    see(a);
                    see(b);
                }
                Expr::And(items) | Expr::Or(items) => {
                    for item in items {
                        see(item);
                    }
                }
                Expr::Between(a, b, c, _) => {
                    see(a);
                    see(b);
                    see(c);
                }
                Expr::InList(a, items, _) => {
                    see(a);
                    for item in items {
                        see(item);
                    }
                }
                Expr::Like(a, b, escape, _) => {
                    see(a);
                    see(b);
                    if let Some(escape) = escape {
                        see(escape);
                    }
                }
                Expr::Case(operand, whens, otherwise) => {
                    if let Some(operand) = operand {
                        see(operand);
                    }
                    for (when, then) in whens {
                        see(when);
                        see(then);
                    }
                    if let Some(otherwise) = otherwise {
                        see(otherwise);
                    }
                }
                Expr::Convert(a, _, style, _) => {
                    see(a);
                    if let Some(style) = style {
                        see(style);
                    }
                }
                Expr::Call(call) => {
                    let Call { args, over, within, .. } = &$($mutable)? **call;
                    for arg in args {
                        see(arg);
                    }
                    if let Some(over) = over {
                        for item in &$($mutable)? over.partition {
                            see(item);
                        }
                        for OrderItem { expr, .. } in &$($mutable)? over.order {
                            see(expr);
                        }
                    }
                    for OrderItem { expr, .. } in within {
                        see(expr);
                    }
                }
                Expr::Null | Expr::Int(_) | Expr::Dec(_) | Expr::Float(_) | Expr::Money(_) => {}
                Expr::Str(..) | Expr::Hex(_) | Expr::Var(_) | Expr::Column(_) | Expr::Next(..) => {}
                // a query alone
                Expr::Exists(_) | Expr::Subquery(_) | Expr::Default => {}
            }
        }
    };
}

impl Expr {
    children! {
        /// Calls `see` with every direct child of this expression.
        children
    }
    children! {
        /// As [`Expr::children`], to change them.
        children_mut, mut
    }

    /// Returns the query of which this expression consists.
    pub(crate) fn query(&self) -> Option<&Query> {
        match self {
            Expr::Subquery(query)
            | Expr::Exists(query)
            | Expr::InQuery(_, query, _)
            | Expr::Quantified(.., query) => Some(query),
            _ => None,
        }
    }

    /// Returns true if `holds` is true for the expression or one inside of it, other than those of
    /// queries.
    pub(crate) fn any(&self, holds: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = holds(self);
        self.children(&mut |part| found = found || part.any(holds));
        found
    }

    /// Calls `change` with this expression and those inside of it, other than those of queries.
    pub(crate) fn each(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        change(self);
        self.children_mut(&mut |part| part.each(change));
    }
}

impl Query {
    /// Calls `see` with the direct parts of the query.
    pub(crate) fn children<'q>(&'q self, see: &mut dyn FnMut(Child<'q>)) {
        for Cte { query, .. } in &self.ctes {
            see(Child::Query(query));
        }
        self.body.children(see);
        for OrderItem { expr, .. } in &self.order {
            see(Child::Expr(expr));
        }
        if let Some((offset, fetch)) = &self.offset {
            see(Child::Expr(offset));
            fetch.iter().for_each(|fetch| see(Child::Expr(fetch)));
        }
    }
}

impl SetExpr {
    /// As [`Query::children`].
    pub(crate) fn children<'q>(&'q self, see: &mut dyn FnMut(Child<'q>)) {
        let select = match self {
            SetExpr::Op(_, left, right) => {
                left.children(see);
                return right.children(see);
            }
            SetExpr::Nested(query) => return see(Child::Query(query)),
            SetExpr::Select(select) => select,
        };
        select.top.iter().for_each(|top| see(Child::Expr(&top.count)));
        for item in &select.items {
            match item {
                Item::Star(_) => {}
                Item::Expr(expr, _) | Item::Assign(_, _, expr) => see(Child::Expr(expr)),
            }
        }
        select.from.iter().for_each(|table| table.children(see));
        let rest = select.filter.iter().chain(&select.group).chain(&select.having);
        rest.for_each(|expr| see(Child::Expr(expr)));
    }
}

impl TableRef {
    /// As [`Query::children`].
    pub(crate) fn children<'q>(&'q self, see: &mut dyn FnMut(Child<'q>)) {
        match self {
            TableRef::Table(name, ..) => see(Child::Table(name)),
            TableRef::Derived(query, ..) => see(Child::Query(query)),
            TableRef::Values(rows, ..) => {
                rows.iter().flatten().for_each(|value| see(Child::Expr(value)));
            }
            TableRef::Called(call) => {
                call.args.iter().flatten().for_each(|arg| see(Child::Expr(arg)));
            }
            TableRef::Pivot(pivot) => pivot.source.children(see),
            TableRef::Function(call) => call.args.iter().for_each(|arg| see(Child::Expr(arg))),
            TableRef::Join(_, left, right, on) => {
                left.children(see);
                right.children(see);
                on.iter().for_each(|on| see(Child::Expr(on)));
            }
        }
    }
}

impl Stmt {
    /// Calls `see` with every direct child statement, in the order of the text. A procedure's body
    /// is run by a call, not by the statement that creates it.
    pub(crate) fn children<'s>(&'s self, see: &mut dyn FnMut(&'s Stmt)) {
        match &self.kind {
            Kind::If(_, then, otherwise) => {
                see(then);
                otherwise.iter().for_each(|otherwise| see(otherwise));
            }
            Kind::While(_, body) => see(body),
            Kind::Block(stmts) => stmts.iter().for_each(see),
            Kind::Try(tried, caught) => tried.iter().chain(caught).for_each(see),
            _ => {}
        }
    }
}
