//! CHECK conditions that call functions of the database: a query finds the rows that violate one.

use std::sync::Arc;

use super::Binder;
use super::call::invoked_in;
use super::computed::stored;
use super::names::Names;
use crate::ast::Expr;
use crate::error::{Error, Result};
use crate::plan::relation::{Item, Query, Relation, Rows, Select};
use crate::plan::scalar::{Node, Scalar, Shared, Subquery};
use crate::plan::table::{Table, TableColumn};
use crate::plan::trigger::Changed;
use crate::plan::{Alias, ColumnRef, Field};

/// Returns true for a condition that SQLite cannot check by itself.
pub(crate) fn calls_functions(condition: &Expr) -> bool {
    !invoked_in(condition).is_empty()
}

/// Returns true if a change can make a condition false: it inserts rows, or sets a column that the
/// condition names. SQL Server evaluates no other, whatever the functions read.
pub(crate) fn concerns(condition: &Expr, changed: &Changed) -> bool {
    let named = |part: &Expr| matches!(part, Expr::Column(name) if changed.has(name.object()));
    *changed == Changed::All || condition.any(&named)
}

impl Binder<'_> {
    /// The columns of the rows that violate a condition; among the rows whose numbers are in the
    /// only column of a table, if that is given.
    pub(crate) fn violating(
        &mut self,
        table: &Arc<Table>,
        condition: &Expr,
        shown: &[&TableColumn],
        among: Option<&Arc<Table>>,
    ) -> Result<Query> {
        let alias = self.fresh(Alias::Source);
        let bound = self.only_in(stored(table, Some(alias)), |binder| {
            binder.kept(condition, table, |binder| binder.condition(condition))
        })?;
        let mut conditions = Vec::new();
        if let Some(among) = among {
            conditions.push(is_among(&mut self.names, alias, among)?);
        }
        conditions.push(Scalar::condition(Node::Not(Box::new(bound))));
        let column = |own: &&TableColumn| {
            let column = ColumnRef::named(Some(alias), &own.name);
            Item::Plain(Scalar::column(own.ty, own.nullable, column))
        };
        self.needs.read(table);
        let select = Select {
            items: shown.iter().map(column).collect(),
            from: Some(Relation::Scan { table: table.clone(), alias }),
            filter: Some(Scalar::condition(Node::And(conditions))),
            ..Select::default()
        };
        Ok(Query::of(Rows::Select(Box::new(select))))
    }
}

/// The number of the row is in a table.
fn is_among(names: &mut Names, alias: Alias, among: &Arc<Table>) -> Result<Scalar> {
    let inner = names.fresh(Alias::Source);
    let [only] = among.columns.as_slice() else {
        return Err(Error::Internal { detail: "a table of numbers of rows".to_owned() });
    };
    let number = Scalar::column(only.ty, false, ColumnRef::named(Some(inner), &only.name));
    let select = Select {
        items: vec![Item::Plain(number)],
        from: Some(Relation::Scan { table: among.clone(), alias: inner }),
        ..Select::default()
    };
    let query = Query::of(Rows::Select(Box::new(select)));
    let left = Scalar::column(only.ty, false, ColumnRef::of(alias, Field::RowId));
    Ok(Scalar::condition(Node::Query(Shared::new(Subquery::In { left, query }))))
}
