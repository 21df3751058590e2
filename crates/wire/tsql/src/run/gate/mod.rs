//! The gate: whether a session's login may do what a statement does.
//!
//! [`Rights::holds`] decides. Queries and changes come here with the objects that the binder found,
//! each time they run ([`Gate::admit`]); all other statements as they are, in one place
//! ([`Gate::admit_action`](action)); procedures by their names. What the gate does not know is
//! refused. Members of sysadmin pass.

mod action;
#[cfg(test)]
mod every_kind;
mod hide;
mod rights;
pub(crate) mod stored;
mod values;
pub(crate) mod views;

use std::sync::Arc;

use rusqlite::Connection;
use tdekit_wire_tds::messages::PermissionError;

pub(crate) use hide::Hidden;
pub(crate) use rights::{Rights, Who};
use stored::{DB_OWNER, DBO, FIRST, Principal, Rule};
pub(crate) use stored::{On, Stored, is_own, is_system};

use super::db::{Db, failure};
use crate::ast::defined::UserType;
use crate::error::{Error, Result};
use crate::host::Database;
use crate::name::is_global;
use crate::name::quote;
use crate::plan::Needs;
use crate::plan::access::{Access, Right};
use crate::plan::table::{Sequence, Table};
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::named::has_table;
use crate::run::state::State;

impl Db {
    /// Works for this login from now on.
    pub(crate) fn set_who(&mut self, who: Who) {
        self.who = who;
        self.rights.clear();
    }

    /// Returns the login's rights in a database, read once a statement.
    ///
    /// # Errors
    /// 916 if it may not enter.
    pub(crate) fn rights(&mut self, database: &str) -> Result<Arc<Rights>> {
        let rights = self.rights_even_if_out(database)?;
        match rights.user {
            Some(_) => Ok(rights),
            None => Err(self.cannot_enter(database)),
        }
    }

    /// Returns the user of the login in a database whose rights this statement has read.
    pub(crate) fn known_user(&self, database: &str) -> Option<(i64, String)> {
        match self.who.sysadmin {
            true => Some((DBO, "dbo".to_owned())),
            false => self.rights.get(&database.to_lowercase())?.user.clone(),
        }
    }

    pub(crate) fn cannot_enter(&self, database: &str) -> Error {
        let (login, database) = (self.who.login.clone(), database.to_owned());
        PermissionError::CannotEnter { login, database }.into()
    }

    /// As [`Db::rights`], also of a login that may not enter: it has none.
    pub(crate) fn rights_even_if_out(&mut self, database: &str) -> Result<Arc<Rights>> {
        let key = database.to_lowercase();
        if let Some(known) = self.rights.get(&key) {
            return Ok(known.clone());
        }
        let rights = if is_system(database) {
            Rights::of_system(database, &self.who)
        } else if self.who.sysadmin {
            Rights::of(database, &self.who, Stored::fresh())
        } else {
            let stored = match self.attached(database).map(str::to_owned) {
                Some(schema) if self.reads_snapshot(&schema) => self.principals_now(&key)?,
                Some(_) => self.principals(database)?,
                None => self.principals_apart(&self.known(database)?)?,
            };
            let rights = Rights::of(database, &self.who, stored);
            if rights.user.is_some() {
                self.attach(database)?;
            }
            rights
        };
        let rights = Arc::new(rights);
        self.rights.insert(key, rights.clone());
        Ok(rights)
    }

    /// Reads the principals of a database.
    pub(crate) fn principals(&mut self, database: &str) -> Result<Stored> {
        if is_system(database) {
            return Ok(Rights::of_system(database, &self.who).stored);
        }
        let schema = self.attach(database)?;
        let kernels = self.kernels.clone();
        let read = stored(self.connection()?, &schema);
        read.map_err(|error| failure(&kernels, &error, database))
    }

    /// Returns the login's rights in the current database, and in the others if they are asked for.
    /// Those that cannot be read are left out.
    pub(crate) fn entered(&mut self, current: &str, others: bool) -> Vec<Arc<Rights>> {
        let own = self.principals(current).and_then(|stored| {
            // those of a sysadmin are known without the principals
            Ok(Arc::new(self.rights(current)?.knowing(stored)))
        });
        let mut found: Vec<Arc<Rights>> = own.into_iter().collect();
        let known = match others {
            true => self.host.databases().unwrap_or_default(),
            false => Vec::new(),
        };
        for database in known {
            if database.state.is_online() && !database.name.eq_ignore_ascii_case(current) {
                found.extend(self.rights_apart(&database));
            }
        }
        found
    }

    /// The rights in a database that is opened apart from this session's connection, unless it is
    /// open there.
    fn rights_apart(&mut self, database: &Database) -> Option<Arc<Rights>> {
        let name = database.name.as_str();
        if is_system(name) || self.who.sysadmin || self.attached(name).is_some() {
            return self.rights(name).ok();
        }
        let rights = Rights::of(name, &self.who, self.principals_apart(database).ok()?);
        Some(Arc::new(rights)).filter(|rights| rights.user.is_some())
    }

    /// Returns the identifier of the login that owns a database; None if the server does.
    pub(crate) fn owner(&self, database: &Database) -> Result<Option<Vec<u8>>> {
        let stored = self.principals_apart(database)?;
        Ok(stored.by_id(DBO).and_then(|own| own.sid.clone()))
    }

    fn known(&self, database: &str) -> Result<Database> {
        let mut all = self.host.databases()?.into_iter();
        let found = all.find(|own| own.name.eq_ignore_ascii_case(database));
        found.ok_or_else(|| Error::UnknownDatabase { name: database.to_owned() })
    }

    /// Returns true in a transaction that reads a database and does not write into it: what it
    /// would read of permissions may have been revoked since it began.
    fn reads_snapshot(&self, schema: &str) -> bool {
        self.peek().is_some_and(|open| !open.is_autocommit()) && !self.writes(schema)
    }

    /// Closes the connection by which rights were read, so that a session that waits for its client
    /// has no more files open than another.
    pub(crate) fn close_apart(&mut self) {
        self.apart = None;
    }

    /// Reads the principals of a database as they are now, by a connection that stays until the
    /// request ends or the database is detached.
    fn principals_now(&mut self, database: &str) -> Result<Stored> {
        if self.apart.as_ref().is_none_or(|(known, _)| known != database) {
            let apart = self.connect_apart(&self.known(database)?)?;
            self.apart = Some((database.to_owned(), apart));
        }
        match &self.apart {
            Some((_, apart)) => self.stored_apart(apart, database),
            None => Ok(Stored::fresh()),
        }
    }

    /// Reads the principals of a database by another connection: the session's transactions lock
    /// every database that its own has open.
    fn principals_apart(&self, database: &Database) -> Result<Stored> {
        self.stored_apart(&self.connect_apart(database)?, &database.name)
    }

    /// Fails unless a database can be opened now.
    pub(crate) fn is_there(&self, database: &str) -> Result<()> {
        match is_system(database) {
            true => Ok(()),
            false => self.host.opening(database).map(drop),
        }
    }

    fn connect_apart(&self, database: &Database) -> Result<Connection> {
        let opening = self.host.opening(&database.name)?;
        let apart: Connection = self.host.connect()?;
        let sql = format!("ATTACH ?1 AS {}", quote("apart"));
        let attached = apart.execute(&sql, [&opening.uri]);
        attached.map_err(|error| self.why_apart(&error, &database.name))?;
        Ok(apart)
    }

    fn stored_apart(&self, apart: &Connection, database: &str) -> Result<Stored> {
        stored(apart, "apart").map_err(|error| self.why_apart(&error, database))
    }

    fn why_apart(&self, error: &rusqlite::Error, database: &str) -> Error {
        let reason = failure(&self.kernels, error, database);
        self.host.why_closed(database).unwrap_or(reason)
    }
}

/// Whether a statement may do what it does: by the rights of the session's login, or by those of
/// the owner of the procedure that runs. It reads the session's state, and changes nothing.
pub(crate) struct Gate<'a> {
    db: &'a mut Db,
    state: &'a State,
}

impl<'a> Gate<'a> {
    pub(crate) fn new(db: &'a mut Db, state: &'a State) -> Gate<'a> {
        Gate { db, state }
    }

    /// Reads the rights anew, for the statement that begins.
    pub(crate) fn renew_rights(&mut self) {
        if !self.db.who.sysadmin {
            self.db.rights.clear();
            // where they cannot be read, what needs them fails
            let _ = self.db.rights_even_if_out(&self.state.database);
        }
    }

    /// Refuses a query or change that the login may not run.
    ///
    /// # Errors
    /// 229, 916; 300 for a view of the server's state.
    pub(crate) fn admit_plan(&mut self, needs: &Needs) -> Result<()> {
        if self.db.who.sysadmin {
            return Ok(());
        }
        for view in &needs.system {
            views::admit(view, self.db)?;
        }
        self.admit(&needs.access)
    }

    /// Refuses what a statement does to objects, as [`Gate::admit_plan`]. A view or procedure of a
    /// database reaches what is in the same database: dbo owns all of it.
    pub(crate) fn admit(&mut self, list: &[Access]) -> Result<()> {
        if self.db.who.sysadmin {
            return Ok(());
        }
        for access in list {
            let Access { database, object, right, within } = access;
            let rights = self.db.rights(database)?;
            let chained = match within {
                Some(within) => within.eq_ignore_ascii_case(database),
                None => self.is_chained(database),
            };
            if is_own(object) || !chained && !rights.holds(*right, &On::object(object)) {
                return Err(denied(*right, database, object));
            }
        }
        Ok(())
    }

    /// Returns true if the procedure that runs reaches what is in a database.
    fn is_chained(&self, database: &str) -> bool {
        let chain = self.state.chain.as_ref();
        chain.is_some_and(|from| from.eq_ignore_ascii_case(database))
    }

    /// Refuses the use of a type that the login may not use. Within a procedure, those of its
    /// database are reached as its tables are.
    pub(crate) fn admit_type(&mut self, of: &UserType, right: Right) -> Result<()> {
        if self.db.who.sysadmin || self.is_chained(&of.database) {
            return Ok(());
        }
        match self.db.rights(&of.database)?.holds(right, &On::user_type(&of.name)) {
            true => Ok(()),
            false => Err(denied(right, &of.database, &of.name)),
        }
    }

    /// Refuses a use of a sequence by a procedure of the system.
    pub(crate) fn admit_sequence(&mut self, sequence: &Sequence) -> Result<()> {
        let (database, object) = (sequence.database.clone(), sequence.name.clone());
        self.admit(&[Access { database, object, right: Right::Update, within: None }])
    }

    /// Refuses a change of a table's definition.
    ///
    /// # Errors
    /// 1088.
    pub(crate) fn admit_alter(&mut self, table: &Table) -> Result<()> {
        self.admit_alter_of((&table.schema, &table.database), &table.name)
    }

    /// Refuses a change of an object's definition, as [`Gate::admit_alter`].
    pub(crate) fn admit_alter_of(
        &mut self,
        (schema, database): (&str, &str),
        stored: &str,
    ) -> Result<()> {
        if schema == "temp" || is_global(stored) || self.db.who.sysadmin {
            return Ok(());
        }
        let rights = self.db.rights(database)?;
        match rights.holds(Right::Alter, &On::object(stored)) && !is_own(stored) {
            true => Ok(()),
            false => {
                let (_, object) = schema_and_name(stored);
                Err(PermissionError::CannotAlter { object }.into())
            }
        }
    }

    /// Refuses a change of a database's or schema's properties.
    pub(crate) fn admit_on(&mut self, right: Right, database: &str, on: &On) -> Result<()> {
        match self.db.rights(database)?.holds(right, on) {
            true => Ok(()),
            false => Err(PermissionError::Action {}.into()),
        }
    }

    /// Refuses a call of a user's procedure.
    pub(crate) fn admit_procedure(&mut self, database: &str, stored: &str) -> Result<()> {
        let (database, object) = (database.to_owned(), stored.to_owned());
        self.admit(&[Access { database, object, right: Right::Execute, within: None }])
    }

    /// Refuses a procedure of the system that changes more than its caller may, or that is not
    /// known here. The others do what their caller may do.
    pub(crate) fn admit_system_procedure(&self, name: &str) -> Result<()> {
        let open = matches!(
            name,
            "sp_addextendedproperty"
                | "sp_addrolemember"
                | "sp_describe_first_result_set"
                | "sp_describe_undeclared_parameters"
                | "sp_dropextendedproperty"
                | "sp_droprolemember"
                | "sp_executesql"
                | "sp_getapplock"
                | "sp_releaseapplock"
                | "sp_rename"
                | "sp_sequence_get_range"
                | "sp_server_info"
                | "sp_updateextendedproperty"
                | "xp_instance_regread"
                | "xp_msver"
        );
        match open || self.db.who.sysadmin {
            true => Ok(()),
            false => Err(PermissionError::Denied {
                right: Right::Execute.name(),
                object: name.to_owned(),
                database: "mssqlsystemresource".to_owned(),
                schema: "sys".to_owned(),
            }
            .into()),
        }
    }
}

/// Reads the principals of an attached database. A permission that is not known grants nothing; one
/// that was denied by a later version cannot be read past.
fn stored(connection: &Connection, schema: &str) -> rusqlite::Result<Stored> {
    let mut stored = Stored::fresh();
    let own = quote(schema);
    if has_table(connection, schema, "tsql_principal")? {
        let sql = format!("SELECT id, name, kind, sid FROM {own}.tsql_principal ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, kind): (i64, String) = (row.get(0)?, row.get(2)?);
            let sid: Option<Vec<u8>> = row.get(3)?;
            if id == DBO {
                stored.principals[1].sid = sid;
            } else if (FIRST..DB_OWNER).contains(&id) {
                let (name, is_role) = (row.get(1)?, kind == "R");
                stored.principals.push(Principal { id, name, is_role, sid });
            }
        }
    }
    if has_table(connection, schema, "tsql_member")? {
        let sql = format!("SELECT role, member FROM {own}.tsql_member ORDER BY role, member");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        stored.members = rows.collect::<rusqlite::Result<_>>()?;
    }
    if has_table(connection, schema, "tsql_permission")? {
        let sql = format!(
            "SELECT grantee, class, object, permission, denied FROM {own}.tsql_permission \
             ORDER BY class, object, grantee, permission"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (grantee, class, denies) = (row.get(0)?, row.get(1)?, row.get(4)?);
            let (object, name): (String, String) = (row.get(2)?, row.get(3)?);
            let on = match class {
                0_i64 => On::Database,
                3 => On::schema(&object),
                6 => On::user_type(&object),
                _ => On::object(&object),
            };
            // what cannot be read is denied in full
            let known = Right::of(&name).or(if denies { Some(Right::Control) } else { None });
            if let Some(right) = known {
                stored.rules.push(Rule { grantee, on, right, denies });
            }
        }
    }
    Ok(stored)
}

/// The error for an object in a database.
pub(crate) fn denied(right: Right, database: &str, stored: &str) -> Error {
    let (schema, object) = schema_and_name(stored);
    let (right, database) = (right.name(), database.to_owned());
    PermissionError::Denied { right, object, database, schema }.into()
}
