//! CHECK conditions that call functions of the database: they are not in SQLite's own text of the
//! table.

use std::sync::Arc;

use tdekit_wire_tds::{Column, SqlType};

use super::db::{Checks, Db, View, failure};
use crate::ast::Expr;
use crate::ast::trigger::Event;
use crate::bind::check::concerns;
use crate::bind::{Binder, Variables};
use crate::error::{Error, Result};
use crate::name::{ROW_ID, quote};
use crate::plan::change::Statement;
use crate::plan::table::{Filled, TableColumn, TableKind};
use crate::plan::trigger::Changed;
use crate::render::{self, Rendered};
use crate::run::catalog::Table;
use crate::run::catalog::model::{Reference, Trust};

/// The column of the table with the numbers of changed rows.
const NUMBER: &str = "number";

/// Returns the changes of a statement that leave rows.
pub(super) fn written(events: &[(Event, Changed)]) -> impl Iterator<Item = (Event, &Changed)> {
    let events = events.iter().map(|(event, changed)| (*event, changed));
    events.filter(|(event, _)| *event != Event::Delete)
}

/// Returns the conditions of a table that are enabled, with their names.
pub(super) fn checks_of(db: &mut Db, table: &Table) -> Result<Arc<Checks>> {
    let mut found = Vec::new();
    if table.schema == "temp" || table.kind != TableKind::Table {
        return Ok(Arc::new(found));
    }
    db.forget_old();
    let key = (table.schema.clone(), table.name.clone());
    if let Some(known) = db.checks.get(&key) {
        return Ok(known.clone());
    }
    for named in db.named_constraints(table)? {
        if named.kind == "C" && named.trust != Trust::Disabled {
            let condition = crate::parse::check_condition(&named.text)?;
            if crate::bind::check::calls_functions(&condition) {
                found.push((named.name, condition));
            }
        }
    }
    let found = Arc::new(found);
    db.checks.insert(key, found.clone());
    Ok(found)
}

/// The table of the numbers of rows that are inserted, or updated.
pub(super) fn numbers(db: &Db, event: Event) -> Arc<Table> {
    let column = TableColumn {
        name: NUMBER.to_owned(),
        ty: SqlType::BigInt,
        nullable: false,
        identity: false,
        default: None,
        filled: Filled::Given,
        collation: tdekit_wire_tds::Collation::default(),
    };
    Arc::new(Table {
        schema: "temp".to_owned(),
        database: "tempdb".to_owned(),
        name: format!("~changed:{}.{}", db.fired.depth(), event.word()),
        columns: vec![column],
        kind: TableKind::Table,
    })
}

/// Begins to note the rows that a statement inserts or updates; false if no condition of the
/// table needs it.
pub(super) fn note_rows(db: &mut Db, table: &Table, events: &[(Event, Changed)]) -> Result<bool> {
    let writes = written(events).next().is_some();
    let concerned = |(_, condition): &(String, Expr)| {
        written(events).any(|(_, changed)| concerns(condition, changed))
    };
    if !writes || !checks_of(db, table)?.iter().any(concerned) {
        return Ok(false);
    }
    for (event, _) in written(events) {
        let into = numbers(db, event);
        let (own, name, word, on) = (into.sql(), noter(db, event), event.word(), table.sql());
        let sql = format!(
            "DROP TABLE IF EXISTS {own}; CREATE TABLE {own} (\"{NUMBER}\" INTEGER); \
             CREATE TEMP TRIGGER {name} AFTER {word} ON {on} BEGIN INSERT INTO {} VALUES \
             (NEW.{ROW_ID}); END",
            quote(&into.name)
        );
        db.execute(&sql, "tempdb")?;
    }
    Ok(true)
}

/// The temporary trigger that notes rows.
pub(super) fn noter(db: &Db, event: Event) -> String {
    quote(&format!("~check:{}.{}", db.fired.depth(), event.word()))
}

/// Returns the plan that finds rows of a table that violate a condition, `among` those of a table
/// of numbers if there is one; it reads the `shown` columns.
pub(super) fn violating(
    db: &mut Db,
    table: &Arc<Table>,
    condition: &Expr,
    shown: &[&TableColumn],
    among: Option<&Arc<Table>>,
) -> Result<Rendered> {
    let database = table.database.as_str();
    let kernels = db.kernels.clone();
    let variables = Variables::default();
    let mut view = View { db, database, identity_insert: None };
    let mut binder = Binder::new(&mut view, &variables);
    let query = binder.violating(table, condition, shown, among)?;
    let column = |own: &&TableColumn| Column {
        name: own.name.clone(),
        ty: own.ty,
        nullable: own.nullable,
        generated: tdekit_wire_tds::Generated::No,
        collation: own.collation,
    };
    let columns = shown.iter().map(column).collect();
    render::statement(&Statement::Query(query), columns, binder.take_needs(), &kernels)
}

/// Refuses a target of OUTPUT INTO with such a condition.
///
/// # Errors
/// 333.
pub(super) fn refuse_checked(db: &mut Db, table: &Table) -> Result<()> {
    match checks_of(db, table)?.first() {
        Some((name, _)) => {
            let name = name.clone();
            let table = table.object_name();
            Err(tdekit_wire_tds::messages::TriggerError::OutputChecked { table, name }.into())
        }
        None => Ok(()),
    }
}

/// Refuses a foreign key that changes rows of a table with such a condition: nobody would check
/// those.
pub(super) fn refuse_changing_key(db: &mut Db, table: &Table) -> Result<()> {
    let named = db.named_constraints(table)?;
    let held = |own: &Reference| {
        own.on_update != "NO ACTION" || matches!(own.on_delete.as_str(), "SET NULL" | "SET DEFAULT")
    };
    let found = named.iter().filter_map(|own| own.reference.as_ref()).any(held)
        || all_references(db, table)?.iter().any(held);
    match found {
        true => Err(Error::feature("a CHECK with functions beside a key that changes rows")),
        false => Ok(()),
    }
}

fn all_references(db: &mut Db, table: &Table) -> Result<Vec<Reference>> {
    let kernels = db.kernels.clone();
    crate::run::catalog::facts::foreign_keys(db.connection()?, table)
        .map_err(|error| failure(&kernels, &error, &table.database))
}

/// Returns true if a table has such a condition, enabled or not.
pub(super) fn has_checks(db: &mut Db, table: &Table) -> Result<bool> {
    for named in db.named_constraints(table)?.iter().filter(|named| named.kind == "C") {
        let condition = crate::parse::check_condition(&named.text)?;
        if crate::bind::check::calls_functions(&condition) {
            return Ok(true);
        }
    }
    Ok(false)
}
