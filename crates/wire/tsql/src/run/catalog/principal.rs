//! Functions about principals and permissions: HAS_PERMS_BY_NAME, IS_MEMBER, USER_NAME.

use tdekit_wire_tds::Value;

use super::lookup::{given, int, text};
use super::model::{FIXED, Snapshot, object_id};
use crate::error::Result;
use crate::functions::wanted::parts;
use crate::host::Login;
use crate::name::same;
use crate::plan::access::{RIGHTS, Right};
use crate::run::gate::stored::{DB_OWNER, DBO, PUBLIC, Principal};
use crate::run::gate::{On, Rights};
use crate::value::Val;

/// Server roles that nobody can be made a member of here, as SQL Server names them: members of
/// sysadmin do what each of them does.
const SERVER_ROLES: [&str; 8] = [
    "bulkadmin",
    "dbcreator",
    "diskadmin",
    "processadmin",
    "securityadmin",
    "serveradmin",
    "setupadmin",
    "sysadmin",
];

/// Permissions on the server that everybody has.
const OF_EVERYBODY: [&str; 3] = ["ANY", "CONNECT SQL", "VIEW ANY DATABASE"];

/// Returns the number of a login: 1 for `sa`, as on SQL Server.
pub(crate) fn login_id(login: &Login) -> i64 {
    if same(&login.name, "sa") {
        return 1;
    }
    object_id(&login.sid.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn bit(value: bool) -> Val {
    int(i64::from(value))
}

/// Returns true if these rights contain a permission of this name, in upper case. Those that are
/// not known here belong to whoever controls the thing.
fn holds(rights: &Rights, permission: &str, on: &On) -> bool {
    match (permission, Right::of(permission)) {
        ("ANY", _) => RIGHTS.iter().any(|(right, ..)| rights.holds(*right, on)),
        (_, Some(right)) => rights.holds(right, on),
        (_, None) => rights.holds(Right::Control, on),
    }
}

impl Snapshot {
    fn current_rights(&self) -> Option<&Rights> {
        self.rights_in(&self.current)
    }

    /// The rights in a database that the caller may enter.
    fn rights_in(&self, database: &str) -> Option<&Rights> {
        let found = self.entered.iter().find(|rights| same(&rights.database, database));
        found.map(|rights| &**rights).filter(|rights| rights.user.is_some())
    }

    fn user_of(&self, args: &[Value<'_>], at: usize) -> Option<&Principal> {
        let stored = &self.current_rights()?.stored;
        match given(args, at) {
            Some(name) => stored.named(&name),
            None => {
                let (id, _) = self.current_rights()?.user.as_ref()?;
                stored.by_id(*id)
            }
        }
    }

    fn login_of(&self, args: &[Value<'_>], at: usize) -> Option<&Login> {
        let name = given(args, at).unwrap_or_else(|| self.login.clone());
        self.logins.iter().find(|login| same(&login.name, &name))
    }

    /// A function of principals.
    pub(super) fn of_principals(&self, name: &'static str, args: &[Value<'_>]) -> Result<Val> {
        let found = match name {
            "HAS_DBACCESS" => {
                let database = given(args, 0).unwrap_or_default();
                let known = self.databases.iter().find(|known| same(&known.name, &database));
                known.map(|known| {
                    bit(known.state.is_online() && self.rights_in(&known.name).is_some())
                })
            }
            "HAS_PERMS_BY_NAME" => return self.has_permission(args),
            "IS_MEMBER" => self.is_member(args, None),
            "IS_ROLEMEMBER" => self.is_member(args, Some(1)),
            "IS_SRVROLEMEMBER" => self.is_server_member(args),
            "USER_NAME" => match args.first() {
                Some(Value::Int(id)) => {
                    let stored = self.current_rights().map(|rights| &rights.stored);
                    stored.and_then(|stored| stored.by_id(*id)).map(|own| text(own.name.clone()))
                }
                _ => None,
            },
            "USER_ID" | "DATABASE_PRINCIPAL_ID" => {
                let found = self.user_of(args, 0);
                found
                    .filter(|own| name != "USER_ID" || !own.is_role || own.id == PUBLIC)
                    .map(|own| int(own.id))
            }
            "SUSER_ID" => self.login_of(args, 0).map(|login| int(login_id(login))),
            "SUSER_SID" => self.login_of(args, 0).map(|own| Value::Binary(own.sid.clone().into())),
            "SUSER_NAME" | "SUSER_SNAME" => match args.first() {
                Some(Value::Int(id)) => self.login_by(|login| login_id(login) == *id),
                // the owner of databases that have none
                Some(Value::Binary(sid)) if **sid == [1] => Some(text("sa")),
                Some(Value::Binary(sid)) => self.login_by(|login| login.sid == **sid),
                _ => None,
            },
            _ => None,
        };
        Ok(found.unwrap_or(Value::Null))
    }

    fn login_by(&self, which: impl Fn(&Login) -> bool) -> Option<Val> {
        self.logins.iter().find(|login| which(login)).map(|login| text(login.name.clone()))
    }

    fn is_member(&self, args: &[Value<'_>], member: Option<usize>) -> Option<Val> {
        let rights = self.current_rights()?;
        let role = rights.stored.named(&given(args, 0)?).filter(|own| own.is_role)?;
        let own = match member.filter(|at| *at < args.len()) {
            Some(at) => rights.stored.named(&given(args, at)?)?.id,
            None => rights.user.as_ref()?.0,
        };
        let caller = rights.user.as_ref().map(|user| user.0);
        let is_known = rights.all
            || caller.is_some_and(|id| id == own || rights.stored.roles_of(id).contains(&own));
        // members of roles are for those to whom the catalog shows them
        is_known.then_some(())?;
        let is_public = role.id == PUBLIC && member.is_none();
        let is_owner = role.id == DB_OWNER && own == DBO;
        Some(bit(is_public || is_owner || rights.stored.roles_of(own).contains(&role.id)))
    }

    fn is_server_member(&self, args: &[Value<'_>]) -> Option<Val> {
        let role = given(args, 0)?.to_lowercase();
        if role == "public" {
            return Some(int(1));
        }
        SERVER_ROLES.contains(&role.as_str()).then_some(())?;
        let caller = self.login_of(&[], 0)?;
        let asked = self.login_of(args, 1)?;
        (caller.sysadmin || same(&caller.name, &asked.name)).then_some(())?;
        Some(bit(asked.sysadmin))
    }

    fn has_permission(&self, args: &[Value<'_>]) -> Result<Val> {
        let class = given(args, 1).unwrap_or_else(|| "SERVER".to_owned()).to_uppercase();
        let Some(permission) = given(args, 2).map(|name| name.to_uppercase()) else {
            return Ok(Value::Null);
        };
        let permission = permission.trim();
        let sysadmin = self.login_of(&[], 0).is_some_and(|login| login.sysadmin);
        let name = given(args, 0);
        Ok(match (class.as_str(), name) {
            ("SERVER", _) => bit(sysadmin || OF_EVERYBODY.contains(&permission)),
            ("DATABASE", name) => {
                let database = name
                    .map_or_else(|| self.current.clone(), |name| parts(&name).object().to_owned());
                match self.databases.iter().any(|known| same(&known.name, &database)) {
                    true => {
                        let rights = self.rights_in(&database);
                        bit(rights.is_some_and(|own| holds(own, permission, &On::Database)))
                    }
                    false => Value::Null,
                }
            }
            ("SCHEMA", Some(name)) => {
                let name = parts(&name).object().to_owned();
                let made = self.read.iter().filter(|own| same(&own.database, &self.current));
                let made = made.flat_map(|facts| facts.schemas.iter().map(String::as_str));
                let rights = self.current_rights();
                match FIXED.iter().map(|(name, _)| *name).chain(made).any(|own| same(own, &name)) {
                    true => {
                        bit(rights.is_some_and(|own| holds(own, permission, &On::schema(&name))))
                    }
                    false => Value::Null,
                }
            }
            ("OBJECT", Some(name)) => self.has_on_object(&name, permission)?,
            (_, Some(_)) => bit(self.current_rights().is_some_and(|rights| rights.all)),
            (_, None) => Value::Null,
        })
    }

    fn has_on_object(&self, name: &str, permission: &str) -> Result<Val> {
        if self.is_system_view(name) {
            return Ok(bit(matches!(permission, "SELECT" | "ANY" | "VIEW DEFINITION")));
        }
        let Some((facts, object)) = self.named(name, "HAS_PERMS_BY_NAME")? else {
            return Ok(Value::Null);
        };
        if object.name.starts_with('#') {
            return Ok(int(1));
        }
        let stored = match object.schema.eq_ignore_ascii_case("dbo") {
            true => object.name.clone(),
            false => format!("{}.{}", object.schema, object.name),
        };
        let rights = self.rights_in(&facts.database);
        Ok(bit(rights.is_some_and(|own| holds(own, permission, &On::object(&stored)))))
    }
}
