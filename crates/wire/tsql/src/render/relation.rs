//! Relations as SQLite's text.

use super::Renderer;
use super::scalar::collate;
use super::sql::Sql;
use crate::ast::SetOp;
use crate::error::Result;
use crate::plan::relation::{
    Common, Converted, Count, Item, Join, Limit, Query, Ranked, Relation, Rows, Select, Sort,
};
use crate::plan::scalar::Scalar;

impl Renderer<'_> {
    pub(super) fn query(&mut self, query: &Query, out: &mut Sql) -> Result<()> {
        self.with(&query.with, out)?;
        self.rows(&query.rows, out)
    }

    pub(super) fn with(&mut self, with: &[Common], out: &mut Sql) -> Result<()> {
        for (at, common) in with.iter().enumerate() {
            out.push(if at == 0 { "WITH RECURSIVE " } else { ", " });
            self.common(common, out)?;
        }
        if !with.is_empty() {
            out.push(" ");
        }
        Ok(())
    }

    fn common(&mut self, common: &Common, out: &mut Sql) -> Result<()> {
        match common {
            Common::Plain { name, query } => {
                out.push_alias(*name);
                out.push(" AS (");
                self.query(query, out)?;
            }
            Common::Recursive { name, width, anchor, members } => {
                out.push_alias(*name);
                out.push("(");
                items(*width, out);
                out.push(", \"~depth\") AS (SELECT ");
                items(*width, out);
                out.push(", 0 FROM (");
                self.query(anchor, out)?;
                out.push(")");
                for member in members {
                    out.push(" UNION ALL ");
                    self.query(member, out)?;
                }
            }
        }
        out.push(")");
        Ok(())
    }

    fn rows(&mut self, rows: &Rows, out: &mut Sql) -> Result<()> {
        match rows {
            Rows::Select(select) => self.select(select, out),
            Rows::Ranked(ranked) => self.ranked(ranked, out),
            Rows::Set { op, left, right } => {
                self.converted(left, out)?;
                out.push(match op {
                    SetOp::Union => " UNION ",
                    SetOp::UnionAll => " UNION ALL ",
                    SetOp::Intersect => " INTERSECT ",
                    SetOp::Except => " EXCEPT ",
                });
                self.converted(right, out)
            }
            Rows::Ordered { rows, order, limit } => {
                out.push("SELECT * FROM (");
                self.rows(rows, out)?;
                out.push(")");
                self.order(order, limit.as_ref(), out)
            }
            Rows::Converted(converted) => self.converted(converted, out),
        }
    }

    fn select(&mut self, select: &Select, out: &mut Sql) -> Result<()> {
        out.push(if select.distinct { "SELECT DISTINCT " } else { "SELECT " });
        if select.items.is_empty() {
            out.push("1");
        }
        for (at, item) in select.items.iter().enumerate() {
            if at > 0 {
                out.push(", ");
            }
            self.item(item, out)?;
        }
        if let Some(from) = &select.from {
            out.push(" FROM ");
            self.relation(from, out)?;
        }
        if let Some(filter) = &select.filter {
            out.push(" WHERE ");
            self.scalar(filter, out)?;
        }
        for (at, key) in select.keys.iter().enumerate() {
            out.push(if at == 0 { " GROUP BY (" } else { ", (" });
            self.scalar(key, out)?;
            out.push(")");
            collate(key, out);
        }
        if let Some(having) = &select.having {
            out.push(" HAVING ");
            self.scalar(having, out)?;
        }
        self.order(&select.order, select.limit.as_ref(), out)
    }

    fn item(&mut self, item: &Item, out: &mut Sql) -> Result<()> {
        match item {
            Item::Named(value, at) => {
                self.scalar(value, out)?;
                collate(value, out);
                out.push(" AS ");
                out.push_item(*at);
            }
            Item::Key(value, at) => {
                out.push("(");
                self.scalar(value, out)?;
                out.push(") AS \"~k");
                out.push_number(i64::try_from(*at).unwrap_or(i64::MAX));
                out.push("\"");
            }
            Item::Plain(value) => self.scalar(value, out)?,
            Item::Depth(source, most) => {
                out.push("tsql_depth(");
                out.push_alias(*source);
                out.push(".\"~depth\", ");
                out.push_number(*most);
                out.push(") AS \"~depth\"");
            }
        }
        Ok(())
    }

    fn ranked(&mut self, ranked: &Ranked, out: &mut Sql) -> Result<()> {
        let mut by = Sql::default();
        if !ranked.order.is_empty() {
            by.push("ORDER BY ");
            self.sorts(&ranked.order, &mut by)?;
        }
        out.push("SELECT ");
        items(ranked.width, out);
        out.push(" FROM (SELECT *, ");
        out.push(if ranked.ties { "rank" } else { "row_number" });
        out.push("() OVER (");
        out.push_sql(&by);
        out.push(") AS \"~rank\", count(*) OVER () AS \"~all\" FROM (");
        self.select(&ranked.select, out)?;
        if ranked.percent {
            out.push(")) WHERE (\"~rank\" - 1) < \"~all\" * ");
            self.scalar(&ranked.count, out)?;
            out.push(" / 100.0 ");
        } else {
            out.push(")) WHERE \"~rank\" <= ");
            self.scalar(&ranked.count, out)?;
            out.push(" ");
        }
        out.push_sql(&by);
        Ok(())
    }

    /// The columns are named by position, and collated.
    fn converted(&mut self, converted: &Converted, out: &mut Sql) -> Result<()> {
        out.push("SELECT ");
        for (at, item) in converted.items.iter().enumerate() {
            out.push(if at == 0 { "(" } else { ", (" });
            self.scalar(item, out)?;
            out.push(")");
            collate(item, out);
            out.push(" AS ");
            out.push_item(at);
        }
        out.push(" FROM (");
        self.query(&converted.query, out)?;
        out.push(") AS ");
        out.push_alias(converted.alias);
        Ok(())
    }

    fn order(&mut self, order: &[Sort], limit: Option<&Limit>, out: &mut Sql) -> Result<()> {
        if !order.is_empty() {
            out.push(" ORDER BY ");
            self.sorts(order, out)?;
        }
        self.limit(limit, out)
    }

    pub(super) fn sorts(&mut self, sorts: &[Sort], out: &mut Sql) -> Result<()> {
        for (at, sort) in sorts.iter().enumerate() {
            if at > 0 {
                out.push(", ");
            }
            if sort.is_item() {
                self.scalar(&sort.value, out)?;
            } else {
                // a bare parameter would be a constant, and a number a position
                out.push("(");
                self.scalar(&sort.value, out)?;
                out.push(")");
            }
            collate(&sort.value, out);
            out.push(if sort.descending { " DESC" } else { "" });
        }
        Ok(())
    }

    pub(super) fn limit(&mut self, limit: Option<&Limit>, out: &mut Sql) -> Result<()> {
        let Some(limit) = limit else { return Ok(()) };
        out.push(" LIMIT ");
        match &limit.count {
            Count::All => out.push("-1"),
            Count::Rows(rows) => out.push_number(*rows),
            Count::Value(count) => self.scalar(count, out)?,
        }
        if let Some(offset) = &limit.offset {
            out.push(" OFFSET ");
            self.scalar(offset, out)?;
        }
        Ok(())
    }

    pub(super) fn relation(&mut self, relation: &Relation, out: &mut Sql) -> Result<()> {
        let alias = match relation {
            Relation::One => {
                out.push("(SELECT 1)");
                return Ok(());
            }
            Relation::Product(parts) => return self.product(parts, out),
            Relation::Join { kind, left, right, on } => {
                self.relation(left, out)?;
                // CROSS JOIN would fix SQLite's order of loops; JOIN without a condition does not
                out.push(match kind {
                    Join::Inner => " JOIN ",
                    Join::Left => " LEFT JOIN ",
                    Join::Right => " RIGHT JOIN ",
                    Join::Full => " FULL JOIN ",
                });
                self.operand(right, matches!(**right, Relation::Join { .. }), out)?;
                if let Some(on) = on {
                    out.push(" ON ");
                    self.scalar(on, out)?;
                }
                return Ok(());
            }
            Relation::Scan { table, alias } => {
                out.push(&table.sql());
                alias
            }
            Relation::Common { name, alias } => {
                out.push_alias(*name);
                alias
            }
            Relation::Derived { query, alias } => {
                out.push("(");
                self.query(query, out)?;
                out.push(")");
                alias
            }
            Relation::Values { rows, alias } => {
                out.push("(");
                // SQLite names a column of VALUES after the column of a table that it is
                if rows.first().is_some_and(|row| row.iter().any(Scalar::has_leaf)) {
                    self.selects(rows, out)?;
                } else {
                    self.values(rows, out)?;
                }
                out.push(")");
                alias
            }
            Relation::Split { text, alias } => {
                out.push("json_each(");
                self.scalar(text, out)?;
                out.push(")");
                alias
            }
        };
        out.push(" AS ");
        out.push_alias(*alias);
        Ok(())
    }

    fn product(&mut self, parts: &[Relation], out: &mut Sql) -> Result<()> {
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                out.push(", ");
            }
            // a comma binds less tightly than JOIN, in SQLite as well
            self.operand(part, at > 0 && part.keeps_right(), out)?;
        }
        Ok(())
    }

    fn operand(&mut self, relation: &Relation, enclosed: bool, out: &mut Sql) -> Result<()> {
        if !enclosed {
            return self.relation(relation, out);
        }
        out.push("(");
        self.relation(relation, out)?;
        out.push(")");
        Ok(())
    }

    /// Writes rows of VALUES as queries, with the names that VALUES gives constants.
    fn selects(&mut self, rows: &[Vec<Scalar>], out: &mut Sql) -> Result<()> {
        for (at, row) in rows.iter().enumerate() {
            out.push(if at == 0 { "SELECT " } else { " UNION ALL SELECT " });
            for (number, value) in (1..).zip(row) {
                out.push(if number == 1 { "(" } else { ", (" });
                self.scalar(value, out)?;
                out.push(") AS \"column");
                out.push_number(number);
                out.push("\"");
            }
        }
        Ok(())
    }

    pub(super) fn values(&mut self, rows: &[Vec<Scalar>], out: &mut Sql) -> Result<()> {
        for (at, row) in rows.iter().enumerate() {
            out.push(if at == 0 { "VALUES (" } else { ", (" });
            self.list(row, ", ", out)?;
            out.push(")");
        }
        Ok(())
    }
}

/// Writes the names of so many columns.
fn items(count: usize, out: &mut Sql) {
    for at in 0..count {
        if at > 0 {
            out.push(", ");
        }
        out.push_item(at);
    }
}
