//! Binds queries and changes to the catalog.

use std::sync::Arc;

use tdekit_wire_tds::Command;

use super::db::{Db, View};
use super::firing::logical;
use super::plan::{Bound, Effect};
use crate::ast::{Kind, Query, SetExpr};
use crate::bind::dml::Change;
use crate::bind::query::Asked;
use crate::bind::rowwise::is_rowwise;
use crate::bind::{Binder, Undeclared, Variables};
use crate::error::{Error, Result};
use crate::plan::change::Statement;
use crate::plan::trigger::Changed;
use crate::render::kernels::Kernels;
use crate::render::{self, Texts};
use crate::run::catalog::Table;
use crate::run::gate::Gate;
use crate::run::state::State;

fn assigning(query: &Query) -> Option<&crate::ast::Select> {
    match &query.body {
        SetExpr::Select(select) if crate::bind::dml::is_assignment(select) => Some(select),
        _ => None,
    }
}

/// Binds a query or change that the login may run; parameters that are `open` need no declaration,
/// and get a type.
pub(super) fn bind(
    (db, state): (&mut Db, &State),
    kind: &Kind,
    variables: &Variables,
    open: Option<Arc<Undeclared>>,
) -> Result<Bound> {
    let bound = bind_any((db, state), kind, variables, open)?;
    Gate::new(db, state).admit_plan(&bound.plan.needs).map(|()| bound)
}

/// Binds what the login may not be allowed to run.
fn bind_any(
    (db, state): (&mut Db, &State),
    kind: &Kind,
    variables: &Variables,
    open: Option<Arc<Undeclared>>,
) -> Result<Bound> {
    let kernels = db.kernels.clone();
    let identity_insert = state.options.identity_insert.as_ref().map(|on| on.sql.as_str());
    let level = db.fired.depth();
    let mut view = View { db, database: &state.database, identity_insert };
    let rows = Some(state.options.rowcount).filter(|rows| *rows > 0);
    let mut binder = Binder::new(&mut view, variables).allowing(open).limited(rows);
    if let Kind::Query(query) = kind {
        return bind_query(binder, query, &kernels);
    }
    if let Some(trigger) = binder.instead_of(kind)? {
        let inserted = |table: &Table| logical(table, "inserted", (level, 0));
        let (statement, instead) = binder.instead(kind, trigger, inserted)?;
        let plan = render::statement(&statement, Vec::new(), binder.take_needs(), &kernels)?;
        return Ok(Bound { plan, effect: Effect::Instead(Box::new(instead)) });
    }
    bind_change(binder, kind, &kernels)
}

fn bind_query(mut binder: Binder<'_>, query: &Query, kernels: &Kernels) -> Result<Bound> {
    if let Some(select) = assigning(query) {
        let (query, assigned, types) = binder.select_assign(query, select)?;
        let (statement, needs) = (Statement::Query(query), binder.take_needs());
        let plan = render::statement(&statement, Vec::new(), needs, kernels)?;
        return Ok(Bound { plan, effect: Effect::Assign(assigned, types) });
    }
    let into = into(query);
    let bound = binder.query(query, Asked::of_statement(into.is_some()))?;
    let columns = bound.result_columns();
    let effect = match into {
        Some(name) => Effect::Into(name.clone()),
        None => Effect::Rows,
    };
    let (statement, needs) = (Statement::Query(bound.query), binder.take_needs());
    Ok(Bound { plan: render::statement(&statement, columns, needs, kernels)?, effect })
}

fn bind_change(mut binder: Binder<'_>, kind: &Kind, kernels: &Kernels) -> Result<Bound> {
    match kind {
        Kind::Update(update) if is_rowwise(update) => {
            let (query, change) = binder.rowwise(update)?;
            let (statement, needs) = (Statement::Query(query), binder.take_needs());
            let columns = change.columns.clone();
            let plan = render::statement(&statement, columns, needs, kernels)?;
            let set = change.sets.iter().filter_map(|set| set.column.as_ref());
            let names = set.map(|column| column.name.as_str());
            let update_row = render::update_of_row(&change.table, names);
            let (change, into) = (Box::new(change), update.output_into.clone());
            Ok(Bound { plan, effect: Effect::Rowwise { change, update_row, into } })
        }
        Kind::Merge(merge) => {
            let (query, merging) = binder.merge(merge)?;
            let (statement, needs) = (Statement::Query(query), binder.take_needs());
            let columns = merging.columns.clone();
            let plan = render::statement(&statement, columns, needs, kernels)?;
            let (texts, into) = (Texts::of(&merging), merge.output_into.clone());
            let merging = Box::new(merging);
            Ok(Bound { plan, effect: Effect::Merge { merging, texts, into } })
        }
        Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) => {
            let (change, command, changed, into) = match kind {
                Kind::Insert(insert) => {
                    let into = insert.output_into.clone();
                    (binder.insert(insert)?, Command::INSERT, Changed::All, into)
                }
                Kind::Update(update) => {
                    let change = binder.update(update)?;
                    let changed = Changed::Named(set_names(&change));
                    (change, Command::UPDATE, changed, None)
                }
                Kind::Delete(delete) => {
                    let into = delete.output_into.clone();
                    (binder.delete(delete)?, Command::DELETE, Changed::None, into)
                }
                _ => return Err(Error::Internal { detail: "no change".to_owned() }),
            };
            let effect = Effect::Change {
                into,
                table: change.table,
                command,
                changed,
                identity: change.identity,
                explicit_identity: change.explicit_identity,
            };
            let (columns, needs) = (change.columns, binder.take_needs());
            let plan = render::statement(&change.statement, columns, needs, kernels)?;
            Ok(Bound { plan, effect })
        }
        _ => Err(Error::Internal { detail: "no query".to_owned() }),
    }
}

/// The columns that an UPDATE sets, by their names in the table.
fn set_names(change: &Change) -> Vec<String> {
    let Statement::Update(update) = &change.statement else { return Vec::new() };
    let version = change.table.version().map(|column| column.name.as_str());
    let names = update.sets.iter().map(|(name, _)| name);
    names.filter(|name| Some(name.as_str()) != version).cloned().collect()
}

/// Returns the table of SELECT INTO, which the first query of a set may name.
pub(crate) fn into(query: &crate::ast::Query) -> Option<&crate::ast::Name> {
    let mut body = &query.body;
    loop {
        match body {
            SetExpr::Select(select) => return select.into.as_ref(),
            SetExpr::Op(_, left, _) => body = left,
            SetExpr::Nested(_) => return None,
        }
    }
}
