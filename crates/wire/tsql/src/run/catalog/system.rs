//! System views: resolution of their names, and the temporary tables that hold their rows, which
//! are filled just before a statement runs.

use std::collections::HashMap;

use rusqlite::types::Value as Stored;
use tdekit_wire_tds::{Caller, Collation, SqlType};

use super::facts::{self};
use super::views::{self, Server, Source};
use super::{Table, TableColumn, TableKind, texts};
use crate::ast::Name;
use crate::error::{Error, Result};
use crate::host::Rows;
use crate::name::quote;
use crate::run::activity::Activities;
use crate::run::catalog::model::Facts;
use crate::run::db::{Db, failure};
use crate::run::holder::Locks;
use crate::run::tallies::Tallies;
use crate::value::storage;

/// Views of which a host may know more than the front end.
const HOST_FIRST: &[&str] = &["sys.dm_exec_connections"];

/// Views of a host that have rows in master alone.
const OF_MASTER: &[&str] = &["sys.symmetric_keys"];

/// Returns the view for a name: the database and the view, separated by a bar; None for other
/// names.
pub(crate) fn find(name: &Name, current: &str) -> Option<String> {
    let schema = name.part(1).unwrap_or("dbo").to_lowercase();
    let object = name.object().to_lowercase();
    let database = name.part(2).unwrap_or(current);
    match schema.as_str() {
        "dbo" if texts::COMPATIBILITY.contains(&object.as_str()) => {
            Some(format!("{database}|sys.{object}"))
        }
        "dbo" if name.part(1).is_none() && texts::is_function(&object) => {
            Some(format!("{database}|sys.{object}"))
        }
        "sys" | "information_schema" => Some(format!("{database}|{schema}.{object}")),
        "dbo" if database.eq_ignore_ascii_case("msdb") && is_history(name, &object) => {
            Some(format!("msdb|msdb.dbo.{object}"))
        }
        _ => None,
    }
}

/// Returns true if a table of msdb belongs to the backup history; without a schema, only the usual
/// ones.
fn is_history(name: &Name, object: &str) -> bool {
    let usual = ["backupfile", "backupfilegroup", "backupmediafamily", "backupmediaset"];
    object.starts_with("backup") && name.part(1).is_some()
        || ["backupset", "restorehistory"].contains(&object)
        || usual.contains(&object)
}

fn split(view: &str) -> (&str, &str) {
    view.split_once('|').unwrap_or(("master", view))
}

fn named(columns: &[(String, SqlType)]) -> Vec<TableColumn> {
    columns
        .iter()
        .map(|(name, ty)| TableColumn {
            name: name.clone(),
            ty: *ty,
            nullable: true,
            identity: false,
            default: None,
            filled: crate::plan::table::Filled::Given,
            collation: Collation::default(),
        })
        .collect()
}

fn own_columns(view: &views::View) -> Vec<(String, SqlType)> {
    view.columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect()
}

/// Returns the view as a table.
pub(crate) fn table(view: &str, db: &mut Db) -> Result<Table> {
    let (database, name) = split(view);
    if let Some(kind) = texts::find(name) {
        return Ok(Table {
            schema: "sys".to_owned(),
            database: database.to_owned(),
            name: name.to_owned(),
            columns: Vec::new(),
            kind,
        });
    }
    let own = views::find(name);
    let of_host = match own.is_none() || HOST_FIRST.contains(&name) {
        true => db.host.view(name, 0)?,
        false => None,
    };
    let columns = match (of_host, own) {
        (Some(rows), _) => rows.columns,
        (None, Some(view)) => own_columns(view),
        (None, None) => return Err(Error::InvalidObject { name: name.to_owned() }),
    };
    Ok(Table {
        schema: "temp".to_owned(),
        database: database.to_owned(),
        name: format!("~{view}"),
        columns: named(&columns),
        kind: TableKind::System(view.to_owned()),
    })
}

/// Removes rows of a view.
pub(crate) type Hide<'a> = dyn FnMut(&str, &mut Rows, &mut Db) -> Result<()> + 'a;

/// Fills the temporary tables of views with the rows that `hide` leaves.
pub(crate) fn fill(
    views: &[String],
    db: &mut Db,
    caller: &Caller,
    (activities, locks, tallies): (&Activities, &Locks, &Tallies),
    hide: &mut Hide<'_>,
) -> Result<()> {
    let mut known: HashMap<String, Facts> = HashMap::new();
    for view in views {
        let (database, name) = split(view);
        let own = views::find(name);
        let of_host = match own.is_none() || HOST_FIRST.contains(&name) {
            true => db.host.view(name, caller.spid)?,
            false => None,
        };
        let rows = match (of_host, own) {
            (Some(rows), _) => rows,
            (None, Some(own)) => {
                let rows = match own.source {
                    Source::Empty => Vec::new(),
                    Source::Server(rows) => rows(&Server {
                        databases: db.host.databases()?,
                        sessions: activities.list(locks),
                        tallies: tallies.clone(),
                    }),
                    Source::Facts(rows) => {
                        if !known.contains_key(database) {
                            known.insert(database.to_owned(), facts::read(db, database)?);
                        }
                        known.get(database).map(rows).unwrap_or_default()
                    }
                    Source::Read(rows) => {
                        if !known.contains_key(database) {
                            known.insert(database.to_owned(), facts::read(db, database)?);
                        }
                        match known.get(database) {
                            Some(facts) => rows(db, database, facts)?,
                            None => Vec::new(),
                        }
                    }
                };
                Rows { columns: own_columns(own), rows }
            }
            (None, None) => return Err(Error::InvalidObject { name: name.to_owned() }),
        };
        let mut rows = rows;
        if OF_MASTER.contains(&name) && !database.eq_ignore_ascii_case("master") {
            rows.rows.clear();
        }
        hide(view, &mut rows, db)?;
        put(view, &rows, db)?;
    }
    Ok(())
}

fn put(view: &str, rows: &Rows, db: &mut Db) -> Result<()> {
    let table = format!("temp.{}", quote(&format!("~{view}")));
    let columns: Vec<String> = rows
        .columns
        .iter()
        .map(|(name, ty)| format!("{} {}", quote(name), quote(&storage::declared(*ty))))
        .collect();
    let mut stored: Vec<Vec<Stored>> = Vec::new();
    for row in &rows.rows {
        let values = row.iter().zip(&rows.columns);
        stored.push(
            values.map(|(value, (_, ty))| storage::store(value, *ty)).collect::<Result<_>>()?,
        );
    }
    let kernels = db.kernels.clone();
    let connection = db.connection()?;
    let places: Vec<String> = (1..=columns.len()).map(|at| format!("?{at}")).collect();
    let run = || -> rusqlite::Result<()> {
        let create = format!("CREATE TABLE IF NOT EXISTS {table} ({})", columns.join(", "));
        connection.execute_batch(&create)?;
        connection.prepare_cached(&format!("DELETE FROM {table}"))?.execute([])?;
        let insert = format!("INSERT INTO {table} VALUES ({})", places.join(", "));
        let mut insert = connection.prepare_cached(&insert)?;
        for row in stored {
            insert.execute(rusqlite::params_from_iter(row))?;
        }
        Ok(())
    };
    run().map_err(|error| failure(&kernels, &error, "tempdb"))
}
