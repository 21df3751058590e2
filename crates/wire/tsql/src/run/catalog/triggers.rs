//! The triggers that a database's `tsql_trigger` has, and the tables that cascading foreign keys
//! reach.

use rusqlite::{Connection, OptionalExtension, Row};
use tdekit_wire_tds::Value;

use crate::ast::trigger::{Event, Events};
use crate::name::{quote, schema_and_name};
use crate::plan::trigger::{Reached, Trigger};
use crate::run::catalog::model::{Facts, Object, object_id};
use crate::run::catalog::tables::has_table;
use crate::value::Val;

/// Columns of `tsql_trigger`, in the order of [`trigger`].
const COLUMNS: &str = "table_name, name, instead, events, disabled, definition";

/// Actions of a foreign key that change its table.
const ACTIONS: &str = "('CASCADE', 'SET NULL', 'SET DEFAULT')";

/// Reads all triggers of a database in the order in which they were made, or those of one table.
pub(crate) fn list(
    connection: &Connection,
    schema: &str,
    table: Option<&str>,
) -> rusqlite::Result<Vec<Trigger>> {
    if !has_table(connection, schema, "tsql_trigger")? {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM {}.tsql_trigger WHERE ?1 IS NULL OR table_name = ?1 ORDER BY rowid",
        quote(schema)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([table], trigger)?;
    rows.collect()
}

/// Finds a trigger by its name with its schema, as [`Trigger::stored`] has it.
pub(crate) fn named(
    connection: &Connection,
    schema: &str,
    stored: &str,
) -> rusqlite::Result<Option<Trigger>> {
    let all = list(connection, schema, None)?;
    Ok(all.into_iter().find(|trigger| trigger.stored().eq_ignore_ascii_case(stored)))
}

fn trigger(row: &Row<'_>) -> rusqlite::Result<Trigger> {
    Ok(Trigger {
        table: row.get(0)?,
        name: row.get(1)?,
        instead: row.get(2)?,
        events: Events::of_number(row.get(3)?),
        disabled: row.get(4)?,
        text: row.get(5)?,
    })
}

/// Returns the tables that cascading foreign keys reach from a table, the nearest first; it may be
/// among them itself.
pub(crate) fn reached(
    connection: &Connection,
    schema: &str,
    table: &str,
) -> rusqlite::Result<Vec<Reached>> {
    let sql = format!(
        "SELECT m.name, f.\"from\" FROM {}.sqlite_schema AS m \
         JOIN pragma_foreign_key_list(m.name, ?2) AS f WHERE m.type = 'table' \
         AND f.\"table\" = ?1 COLLATE NOCASE \
         AND (f.on_delete IN {ACTIONS} OR f.on_update IN {ACTIONS})",
        quote(schema)
    );
    let mut statement = connection.prepare(&sql)?;
    let mut found: Vec<Reached> = Vec::new();
    let mut next = vec![table.to_owned()];
    while let Some(parent) = next.pop() {
        let mut rows = statement.query([parent.as_str(), schema])?;
        while let Some(row) = rows.next()? {
            let (child, column): (String, String) = (row.get(0)?, row.get(1)?);
            match found.iter_mut().find(|known| known.table.eq_ignore_ascii_case(&child)) {
                Some(known) if known.columns.contains(&column) => {}
                Some(known) => known.columns.push(column),
                None => {
                    next.push(child.clone());
                    found.push(Reached { table: child, columns: vec![column] });
                }
            }
        }
    }
    Ok(found)
}

/// Returns true if a table has a foreign key whose actions change it.
pub(crate) fn cascades(
    connection: &Connection,
    schema: &str,
    table: &str,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT 1 FROM pragma_foreign_key_list(?1, ?2) WHERE on_delete IN {ACTIONS} \
         OR on_update IN {ACTIONS}"
    );
    let here = connection.prepare_cached(&sql)?.exists([table, schema])?;
    if here || !has_table(connection, schema, "tsql_unchecked")? {
        return Ok(here);
    }
    // a disabled one comes back when it is enabled
    let sql = format!(
        "SELECT 1 FROM {}.tsql_unchecked WHERE table_name = ?1 AND (on_delete IN {ACTIONS} OR \
         on_update IN {ACTIONS})",
        quote(schema)
    );
    let found = connection.query_row(&sql, [table], |_| Ok(())).optional()?;
    Ok(found.is_some())
}

impl Facts {
    /// Properties of triggers, and of tables and views by their triggers; NULL for others.
    pub(super) fn of_triggers(&self, object: &Object, property: &str) -> Val {
        let truth = |value: bool| Value::Int(i64::from(value));
        let own = self.triggers.iter().find(|(id, _)| *id == object.id).map(|(_, own)| own);
        if let Some(own) = own {
            return match property {
                "execistriggerdisabled" => truth(own.disabled),
                "execisaftertrigger" => truth(!own.instead),
                "execisinsteadoftrigger" => truth(own.instead),
                "execisinserttrigger" => truth(own.events.has(Event::Insert)),
                "execisupdatetrigger" => truth(own.events.has(Event::Update)),
                "execisdeletetrigger" => truth(own.events.has(Event::Delete)),
                "execisstartup" | "execistriggernotforrepl" => truth(false),
                _ => Value::Null,
            };
        }
        if !matches!(object.kind, "U" | "V") {
            return Value::Null;
        }
        let of = |event: Event| {
            let all = self.triggers.iter().filter(|(_, own)| object_id(&own.table) == object.id);
            all.filter(|(_, own)| own.events.has(event)).map(|(id, _)| *id).collect::<Vec<i64>>()
        };
        for event in Event::ALL {
            let word = event.word().to_lowercase();
            if property == format!("tablehas{word}trigger") {
                return truth(!of(event).is_empty());
            }
            if property == format!("table{word}triggercount") {
                return Value::Int(i64::try_from(of(event).len()).unwrap_or(0));
            }
            if property == format!("table{word}trigger") {
                return Value::Int(of(event).first().copied().unwrap_or(0));
            }
        }
        Value::Null
    }
}

/// Returns true if a name in SQLite is that of an object in the same schema as a trigger's table.
pub(crate) fn in_schema_of(trigger: &Trigger, stored: &str) -> bool {
    let (own, other) = (schema_and_name(&trigger.table).0, schema_and_name(stored).0);
    own.eq_ignore_ascii_case(&other)
}
