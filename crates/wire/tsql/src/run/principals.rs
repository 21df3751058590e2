//! Statements about logins, users, roles and permissions: what they store, once the gate has let
//! them pass.

use rusqlite::types::Value;
use tdekit_wire_tds::messages::PermissionError;

use super::db::{Db, failure};
use super::gate::stored::{DBO, FIRST, GUEST, INFORMATION_SCHEMA, PUBLIC, Principal, SYS};
use super::gate::{On, Stored, is_system};
use crate::ast::Name;
use crate::ast::principal::{Principals, Securable, Verb};
use crate::error::{Error, Result};
use crate::host::Login;
use crate::name::{quote, same};
use crate::plan::access::{DATABASE, OBJECT, RIGHTS, Right, SCHEMA, TYPE};
use crate::run::catalog::model::FIXED;
use crate::run::catalog::named::has_table;

/// The permissions of ALL on an object: those of SQL Server on a table.
const ALL_OF_OBJECT: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES", "EXECUTE"];

/// How long a statement about principals waits for transactions that write into the database: an
/// administrator learns that one of them is to be ended.
const MOST_WAIT_MS: i64 = 30_000;

/// The time that a statement about principals waits, by LOCK_TIMEOUT.
pub(super) fn bounded(limit_ms: i64) -> i64 {
    if limit_ms < 0 { MOST_WAIT_MS } else { limit_ms.min(MOST_WAIT_MS) }
}

fn missing(kind: &'static str, name: &str) -> Error {
    PermissionError::GranteeMissing { kind, name: name.to_owned() }.into()
}

/// One of our tables, a change of it, the values of its parameters.
type Change = (&'static str, &'static str, Vec<Value>);

/// What a statement about principals changes in our tables of a database.
pub(super) struct Changes {
    database: String,
    changes: Vec<Change>,
}

impl Changes {
    fn of(database: &str, changes: Vec<Change>) -> Changes {
        Changes { database: database.to_owned(), changes }
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// Writes them, within a definition.
    pub(super) fn write(&self, db: &mut Db, schema: &str) -> Result<()> {
        let kernels = db.kernels.clone();
        for (table, sql, with) in &self.changes {
            db.own_table(schema, table)?;
            let sql = sql.replace(table, &format!("{}.{table}", quote(schema)));
            let with = rusqlite::params_from_iter(with);
            let result = db.connection()?.execute(&sql, with);
            result.map_err(|error| failure(&kernels, &error, &self.database))?;
        }
        db.rights.clear();
        Ok(())
    }
}

/// The principals of databases, as statements find them from their current database.
pub(super) struct Registry<'a> {
    pub(super) db: &'a mut Db,
    pub(super) current: &'a str,
}

impl Registry<'_> {
    /// Returns what a statement changes in a database. The host makes changes of logins at once.
    pub(super) fn changes(&mut self, principals: &Principals) -> Result<Option<Changes>> {
        let host = self.db.host.clone();
        match principals {
            Principals::CreateLogin { name, password } => host.create_login(name, password)?,
            Principals::AlterLogin { name, password } => host.alter_login(name, password)?,
            Principals::DropLogin(name) => {
                self.refuse_owner(name)?;
                host.drop_login(name)?;
            }
            Principals::ServerRole { role, member, add } => {
                if !role.eq_ignore_ascii_case("sysadmin") {
                    return Err(missing("server role", role));
                }
                host.set_sysadmin(member, *add)?;
            }
            Principals::CreateUser { name, login } => {
                return self.create_user(name, login).map(Some);
            }
            Principals::AlterUser { name, login, new_name } => {
                return self.alter_user(name, login.as_deref(), new_name.as_deref()).map(Some);
            }
            Principals::CreateRole(name) => return self.create_principal(name, None).map(Some),
            Principals::Drop { name, role, if_exists } => {
                return self.drop_principal(name, *role, *if_exists);
            }
            Principals::Member { role, member, add } => {
                return self.member(role, member, *add).map(Some);
            }
            Principals::Permit { verb, permissions, on, grantees } => {
                return self.permit(*verb, permissions, on, grantees).map(Some);
            }
            Principals::Owner { database, login } => {
                return self.set_owner(database, login).map(Some);
            }
        }
        Ok(None)
    }

    /// The principals of a database that can have some of its own.
    fn stored_principals(&mut self, database: &str) -> Result<Stored> {
        if is_system(database) {
            return Err(Error::feature(format!("users, roles and permissions in {database}")));
        }
        self.db.principals(database)
    }

    fn login(&self, name: &str) -> Result<Login> {
        let found = self.db.host.login(name)?;
        found.ok_or_else(|| PermissionError::NoLogin { name: name.to_owned() }.into())
    }

    /// Refuses to drop a login that owns a database. One that cannot be read does not count.
    fn refuse_owner(&mut self, name: &str) -> Result<()> {
        let Some(login) = self.db.host.login(name)? else { return Ok(()) };
        for database in self.db.host.databases()? {
            if !database.state.is_online() || is_system(&database.name) {
                continue;
            }
            let owner = self.db.owner(&database).ok().flatten();
            if owner.is_some_and(|owner| owner == login.sid) {
                return Err(PermissionError::OwnsDatabase { name: login.name }.into());
            }
        }
        Ok(())
    }

    fn create_user(&mut self, name: &str, login: &str) -> Result<Changes> {
        let login = self.login(login)?;
        let current = self.current;
        let stored = self.stored_principals(current)?;
        if stored.principals.iter().any(|own| own.sid.as_ref() == Some(&login.sid)) {
            return Err(PermissionError::LoginHasUser {}.into());
        }
        self.create_principal(name, Some(&login.sid))
    }

    /// A user with the identifier of a login, or a role.
    fn create_principal(&mut self, name: &str, sid: Option<&[u8]>) -> Result<Changes> {
        let current = self.current;
        let stored = self.stored_principals(current)?;
        if stored.named(name).is_some() {
            return Err(PermissionError::PrincipalExists { name: name.to_owned() }.into());
        }
        if name.is_empty() || name.contains('\\') {
            return Err(Error::feature(format!("a user or role named {name}")));
        }
        let own = stored.principals.iter().filter(|own| !own.is_fixed());
        let id = own.map(|own| own.id + 1).max().unwrap_or(FIRST);
        let kind = if sid.is_some() { "S" } else { "R" };
        let made = "INSERT INTO tsql_principal (id, name, kind, sid) VALUES (?1, ?2, ?3, ?4)";
        let connect = "INSERT INTO tsql_permission (grantee, class, object, permission, denied) \
            VALUES (?1, 0, '', 'CONNECT', 0)";
        let stored_sid = sid.map_or(Value::Null, |sid| Value::Blob(sid.to_owned()));
        let with = vec![id.into(), name.to_owned().into(), kind.to_owned().into(), stored_sid];
        let mut changes = vec![("tsql_principal", made, with)];
        if sid.is_some() {
            changes.push(("tsql_permission", connect, vec![id.into()]));
        }
        Ok(Changes::of(current, changes))
    }

    fn alter_user(
        &mut self,
        name: &str,
        login: Option<&str>,
        new: Option<&str>,
    ) -> Result<Changes> {
        let current = self.current;
        let stored = self.stored_principals(current)?;
        let found = stored.named(name).filter(|own| !own.is_role && !own.is_fixed());
        let user = found.ok_or_else(|| missing("user", name))?;
        let mut changes: Vec<Change> = Vec::new();
        if let Some(login) = login {
            let login = self.login(login)?;
            let taken = stored
                .principals
                .iter()
                .any(|own| own.id != user.id && own.sid.as_ref() == Some(&login.sid));
            if taken {
                return Err(PermissionError::LoginHasUser {}.into());
            }
            let sql = "UPDATE tsql_principal SET sid = ?1 WHERE id = ?2";
            changes.push(("tsql_principal", sql, vec![login.sid.into(), user.id.into()]));
        }
        if let Some(new) = new {
            let taken = stored.named(new).filter(|other| other.id != user.id);
            if taken.is_some() || new.is_empty() {
                return Err(PermissionError::PrincipalExists { name: new.to_owned() }.into());
            }
            let sql = "UPDATE tsql_principal SET name = ?1 WHERE id = ?2";
            changes.push(("tsql_principal", sql, vec![new.to_owned().into(), user.id.into()]));
        }
        Ok(Changes::of(current, changes))
    }

    fn drop_principal(
        &mut self,
        name: &str,
        role: bool,
        if_exists: bool,
    ) -> Result<Option<Changes>> {
        let kind = if role { "role" } else { "user" };
        let current = self.current;
        let stored = self.stored_principals(current)?;
        let Some(found) = stored.named(name).filter(|own| own.is_role == role) else {
            let (verb, name) = ("drop", name.to_owned());
            let missing = PermissionError::CannotChange { verb, kind, name };
            return if if_exists { Ok(None) } else { Err(missing.into()) };
        };
        if found.is_fixed() {
            let name = found.name.clone();
            return Err(PermissionError::FixedPrincipal { verb: "drop", kind, name }.into());
        }
        if stored.members.iter().any(|(of, _)| *of == found.id) {
            return Err(PermissionError::RoleHasMembers {}.into());
        }
        let id = || vec![found.id.into()];
        let changes = vec![
            ("tsql_principal", "DELETE FROM tsql_principal WHERE id = ?1", id()),
            ("tsql_member", "DELETE FROM tsql_member WHERE member = ?1", id()),
            ("tsql_permission", "DELETE FROM tsql_permission WHERE grantee = ?1", id()),
        ];
        Ok(Some(Changes::of(current, changes)))
    }

    /// ALTER ROLE.
    fn member(&mut self, role: &str, member: &str, add: bool) -> Result<Changes> {
        let current = self.current;
        let stored = self.stored_principals(current)?;
        let found = stored.named(role).filter(|own| own.is_role);
        let of = found.ok_or_else(|| missing("role", role))?;
        let own = stored.named(member).ok_or_else(|| missing("user", member))?;
        let fixed = |verb, of: &Principal| {
            let (kind, name) = (of.kind(), of.name.clone());
            Err(PermissionError::FixedPrincipal { verb, kind, name }.into())
        };
        if of.id == PUBLIC {
            return fixed("alter", of);
        }
        let guest = own.id == GUEST && !own.is_role;
        if own.is_fixed() && !guest {
            // dbo may do everything, and fixed roles are no members
            return fixed("add", own);
        }
        if own.id == of.id {
            return Err(PermissionError::MemberOfItself {}.into());
        }
        if add && stored.roles_of(of.id).contains(&own.id) {
            return Err(PermissionError::RoleLoop {}.into());
        }
        let sql = match add {
            true => "INSERT OR IGNORE INTO tsql_member (role, member) VALUES (?1, ?2)",
            false => "DELETE FROM tsql_member WHERE role = ?1 AND member = ?2",
        };
        let changes = vec![("tsql_member", sql, vec![of.id.into(), own.id.into()])];
        Ok(Changes::of(current, changes))
    }

    fn permit(
        &mut self,
        verb: Verb,
        permissions: &[String],
        on: &Securable,
        grantees: &[String],
    ) -> Result<Changes> {
        let current = self.current;
        let module = match on {
            Securable::Object(name) => self.module_kind(name, current)?,
            _ => None,
        };
        let (database, on, classes) = self.securable(on, current)?;
        let stored = self.stored_principals(&database)?;
        let rights = rights(permissions, classes, module)?;
        let own = self.db.rights(&database)?.user.as_ref().map(|(id, _)| *id);
        let mut ids = Vec::new();
        for name in grantees {
            let found = stored.named(name);
            if found.is_none() && same(name, "sa") {
                return Err(PermissionError::Grantor {}.into());
            }
            let found = found.ok_or_else(|| missing("user", name))?;
            match found.id {
                DBO | INFORMATION_SCHEMA | SYS => return Err(PermissionError::Grantor {}.into()),
                id if own == Some(id) => return Err(PermissionError::Grantor {}.into()),
                id if id != PUBLIC && found.is_fixed() && found.is_role => {
                    return Err(PermissionError::NotToSelf {}.into());
                }
                id => ids.push(id),
            }
        }
        let (class, object) = on.class();
        let old = "DELETE FROM tsql_permission WHERE grantee = ?1 AND class = ?2 AND object = ?3 \
            AND permission = ?4";
        let new = "INSERT INTO tsql_permission (grantee, class, object, permission, denied) \
            VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut changes: Vec<Change> = Vec::new();
        for id in ids {
            for right in &rights {
                let name = right.name().to_owned();
                let key: Vec<Value> =
                    vec![id.into(), class.into(), object.to_owned().into(), name.into()];
                changes.push(("tsql_permission", old, key.clone()));
                if verb != Verb::Revoke {
                    let denied = i64::from(verb == Verb::Deny).into();
                    let row = key.into_iter().chain([denied]).collect();
                    changes.push(("tsql_permission", new, row));
                }
            }
        }
        Ok(Changes::of(&database, changes))
    }

    /// What a permission is on: its database, and the classes to which the permission must belong.
    fn securable(&mut self, on: &Securable, current: &str) -> Result<(String, On, u8)> {
        match on {
            Securable::Database(None) => Ok((current.to_owned(), On::Database, DATABASE)),
            Securable::Database(Some(name)) => match name.eq_ignore_ascii_case(current) {
                true => Ok((current.to_owned(), On::Database, DATABASE)),
                false => Err(missing("database", name)),
            },
            Securable::Schema(name) => {
                let made = self.db.schemas(current)?;
                let mut all = FIXED.iter().map(|(name, _)| *name).chain(made.iter().map(|m| &**m));
                match all.any(|known| same(known, name)) {
                    true => Ok((current.to_owned(), On::schema(name), SCHEMA)),
                    false => Err(missing("schema", name)),
                }
            }
            Securable::Object(name) => {
                let (database, stored) = self.object_named(name, current)?;
                match database.eq_ignore_ascii_case(current) {
                    true => Ok((database, On::object(&stored), OBJECT)),
                    false => Err(Error::feature("permissions in another database")),
                }
            }
            Securable::Type(name) => match self.db.user_type(name, current)? {
                Some(found) => Ok((current.to_owned(), On::user_type(&found.name), TYPE)),
                None => Err(missing("type", name.object())),
            },
        }
    }

    /// Returns the kind of a procedure or a scalar function; None for another object.
    fn module_kind(&mut self, name: &Name, current: &str) -> Result<Option<&'static str>> {
        for kind in ["P", "FN"] {
            if self.db.module(name, current, kind)?.is_some() {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// Returns the database and the name in SQLite of an object that is there.
    fn object_named(&mut self, name: &Name, current: &str) -> Result<(String, String)> {
        let there = match self.db.find(name, current) {
            Ok(Some(table)) if matches!(table.schema.as_str(), "temp" | "sys") => false,
            Ok(Some(_)) => true,
            _ => {
                self.db.module(name, current, "P")?.is_some()
                    || self.db.module(name, current, "FN")?.is_some()
                    || self.db.sequence(name, current)?.is_some()
            }
        };
        if !there {
            return Err(missing("object", name.object()));
        }
        let (_, database, stored) = self.db.place(name, current)?;
        Ok((database, stored))
    }

    fn set_owner(&mut self, database: &str, login: &str) -> Result<Changes> {
        let login = self.login(login)?;
        let known = self.db.host.databases()?;
        let found = known.into_iter().find(|known| same(&known.name, database));
        let database = found.ok_or_else(|| missing("database", database))?.name;
        let stored = self.stored_principals(&database)?;
        let user = |own: &&Principal| own.id != DBO && own.sid.as_ref() == Some(&login.sid);
        if stored.principals.iter().any(|own| user(&own)) {
            return Err(PermissionError::OwnerIsUser {}.into());
        }
        let sql = "INSERT OR REPLACE INTO tsql_principal (id, name, kind, sid) \
            VALUES (?1, 'dbo', 'S', ?2)";
        let changes = vec![("tsql_principal", sql, vec![DBO.into(), login.sid.into()])];
        Ok(Changes::of(&database, changes))
    }
}

impl Db {
    /// Forgets the permissions on an object or schema that is dropped, or gives them its new name.
    pub(crate) fn move_permissions(
        &mut self,
        (schema, database): (&str, &str),
        on: &On,
        new: Option<&str>,
    ) -> Result<()> {
        let kernels = self.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, database);
        let (class, object) = on.class();
        let connection = self.connection()?;
        if !has_table(connection, schema, "tsql_permission").map_err(fail)? {
            return Ok(());
        }
        let own = format!("{}.tsql_permission", quote(schema));
        let which = "class = ?1 AND object = ?2 COLLATE NOCASE";
        match new.map(str::to_ascii_lowercase) {
            None => {
                let sql = format!("DELETE FROM {own} WHERE {which}");
                connection.execute(&sql, rusqlite::params![class, object]).map_err(fail)?;
            }
            Some(new) => {
                let sql = format!("UPDATE {own} SET object = ?3 WHERE {which}");
                connection.execute(&sql, rusqlite::params![class, object, new]).map_err(fail)?;
            }
        }
        self.rights.clear();
        Ok(())
    }
}

/// Returns true if a permission means something for an object: for a procedure or a scalar
/// function if it is a `module`, else for a table, a view or a sequence.
fn fits(right: Right, module: Option<&str>) -> bool {
    match module {
        None => right != Right::Execute,
        Some("P") if right == Right::References => false,
        Some(_) => !matches!(right, Right::Select | Right::Insert | Right::Update | Right::Delete),
    }
}

/// The permissions of these names, each of which must be one of the class, and of the kind of
/// object.
fn rights(names: &[String], class: u8, module: Option<&str>) -> Result<Vec<Right>> {
    let mut found = Vec::new();
    for name in names {
        if matches!(name.as_str(), "ALL" | "ALL PRIVILEGES") {
            if class != OBJECT {
                return Err(Error::feature("ALL on other than an object"));
            }
            let all = ALL_OF_OBJECT.iter().filter_map(|name| Right::of(name));
            found.extend(all.filter(|right| fits(*right, module)));
            continue;
        }
        let right =
            Right::of(name).ok_or_else(|| Error::feature(format!("the permission {name}")))?;
        let classes = RIGHTS.iter().find(|(known, ..)| *known == right).map_or(0, |row| row.3);
        if classes & class == 0 || class == OBJECT && !fits(right, module) {
            return Err(PermissionError::UnfitPermission { right: right.name() }.into());
        }
        found.push(right);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_permissions_never_waits_for_ever() {
        assert_eq!([-1, 0, 5, i64::MAX].map(bounded), [MOST_WAIT_MS, 0, 5, MOST_WAIT_MS]);
    }
}
