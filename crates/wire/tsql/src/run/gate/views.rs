//! System views: which a login may read, and which rows of them.

use tdekit_wire_tds::messages::PermissionError;
use tdekit_wire_tds::{Caller, Value};

use super::{denied, is_system};
use crate::error::Result;
use crate::host::Rows;
use crate::plan::access::Right;
use crate::run::activity::Activities;
use crate::run::catalog::system;
use crate::run::catalog::views::{self, Source};
use crate::run::db::Db;
use crate::run::holder::Locks;
use crate::run::tallies::Tallies;

/// Who may read a view of the server.
enum Shown {
    /// Everybody.
    All,
    /// Everybody, the rows of the own session.
    Session,
    /// Everybody, the rows of the databases that were entered in this session.
    Databases,
    /// Everybody, who sees nothing in it.
    Nothing,
    /// Only members of sysadmin.
    State,
}

/// Views of a database show what its login sees there; of others, only those that are known here
/// are open.
fn shown(name: &str) -> Shown {
    match name {
        "sys.databases"
        | "sys.configurations"
        | "sys.spt_datatype_info"
        | "sys.syslanguages"
        | "sys.system_objects"
        | "sys.system_views"
        | "sys.types"
        | "sys.~permissions"
        | "sys.server_principals"
        | "sys.server_role_members" => Shown::All,
        "sys.dm_exec_sessions" | "sys.dm_exec_requests" => Shown::Session,
        "sys.master_files" => Shown::Databases,
        "sys.certificates" | "sys.symmetric_keys" => Shown::Nothing,
        _ => match views::find(name).map(|view| &view.source) {
            Some(Source::Facts(_) | Source::Read(_) | Source::Empty) => Shown::All,
            _ => Shown::State,
        },
    }
}

fn split(view: &str) -> (&str, &str) {
    view.split_once('|').unwrap_or(("master", view))
}

/// Refuses a view, named as `database|schema.view`.
pub(super) fn admit(view: &str, db: &mut Db) -> Result<()> {
    let (database, name) = split(view);
    db.rights(database)?;
    match shown(name) {
        Shown::State => match name.strip_prefix("msdb.dbo.") {
            Some(table) => Err(denied(Right::Select, "msdb", table)),
            None => Err(PermissionError::ServerDenied { right: "VIEW SERVER STATE" }.into()),
        },
        _ => Ok(()),
    }
}

impl Db {
    /// Fills system views with the rows that the login may see.
    pub(crate) fn fill(
        &mut self,
        views: &[String],
        caller: &Caller,
        known: (&Activities, &Locks, &Tallies),
    ) -> Result<()> {
        let spid = caller.spid;
        let mut hide = |view: &str, rows: &mut Rows, db: &mut Db| hide(view, rows, spid, db);
        system::fill(views, self, caller, known, &mut hide)
    }
}

/// Removes the rows that the login may not see.
fn hide(view: &str, rows: &mut Rows, spid: u16, db: &mut Db) -> Result<()> {
    if db.who.sysadmin {
        return Ok(());
    }
    let mut keep = |column: &str, wanted: &[i64]| {
        let at = rows.columns.iter().position(|(name, _)| name == column);
        rows.rows.retain(|row| match at.and_then(|at| row.get(at)) {
            Some(Value::Int(id)) => wanted.contains(id),
            _ => false,
        });
    };
    match shown(split(view).1) {
        Shown::All => {}
        Shown::Session => keep("session_id", &[i64::from(spid)]),
        Shown::Databases => {
            let known = db.host.databases()?;
            let mut entered = Vec::new();
            for database in known.iter().filter(|own| !is_system(&own.name)) {
                if db.attached(&database.name).is_some() && db.rights(&database.name).is_ok() {
                    entered.push(i64::from(database.id));
                }
            }
            keep("database_id", &entered);
        }
        Shown::Nothing | Shown::State => rows.rows.clear(),
    }
    Ok(())
}
