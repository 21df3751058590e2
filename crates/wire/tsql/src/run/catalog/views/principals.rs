//! Logins, users, roles and permissions.

use tdekit_wire_tds::{Length, SqlType, Value};

use super::{
    BIT, Columns, DESC, INT, NAME, Row, Server, Source, TIME, TINY, View, bit, epoch, int, text,
};
use crate::error::Result;
use crate::host::Login;
use crate::plan::access::{DATABASE, OBJECT, RIGHTS, SCHEMA, TYPE};
use crate::run::catalog::model::{Facts, object_id, schema_id};
use crate::run::catalog::principal::login_id;
use crate::run::catalog::types::type_id;
use crate::run::db::Db;
use crate::run::gate::stored::{DBO, PUBLIC, Principal};
use crate::run::gate::{On, Rights, Who};

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.database_principals", columns: PRINCIPALS, source: Source::Read(users) },
    View { name: "sys.database_role_members", columns: MEMBERS, source: Source::Read(members) },
    View { name: "sys.database_permissions", columns: PERMISSIONS, source: Source::Read(rules) },
    View { name: "sys.server_principals", columns: LOGINS, source: Source::Read(logins) },
    View { name: "sys.~permissions", columns: BUILT_IN, source: Source::Server(built_in) },
    View { name: "sys.server_role_members", columns: MEMBERS, source: Source::Read(sysadmins) },
];

const SID: SqlType = SqlType::VarBinary(Length::Of(85));
/// The number of the server role sysadmin.
const SYSADMIN: i64 = 3;

const PRINCIPALS: Columns = &[
    ("name", NAME),
    ("principal_id", INT),
    ("type", SqlType::Char(1)),
    ("type_desc", DESC),
    ("default_schema_name", NAME),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("owning_principal_id", INT),
    ("sid", SID),
    ("is_fixed_role", BIT),
    ("authentication_type", INT),
    ("authentication_type_desc", DESC),
    ("default_language_name", NAME),
    ("default_language_lcid", INT),
    ("allow_encrypted_value_modifications", BIT),
];

const MEMBERS: Columns = &[("role_principal_id", INT), ("member_principal_id", INT)];

const PERMISSIONS: Columns = &[
    ("class", TINY),
    ("class_desc", DESC),
    ("major_id", INT),
    ("minor_id", INT),
    ("grantee_principal_id", INT),
    ("grantor_principal_id", INT),
    ("type", SqlType::Char(4)),
    ("permission_name", NAME),
    ("state", SqlType::Char(1)),
    ("state_desc", DESC),
];

/// The permissions that there are on each class, for `fn_my_permissions`.
const BUILT_IN: Columns = &[("class_desc", DESC), ("permission_name", DESC)];

/// Permissions on the server that mean something here: `sysadmin` has all, everybody the first two.
const OF_SERVER: [&str; 9] = [
    "CONNECT SQL",
    "VIEW ANY DATABASE",
    "ADMINISTER BULK OPERATIONS",
    "ALTER ANY CONNECTION",
    "ALTER ANY LOGIN",
    "CONTROL SERVER",
    "CREATE ANY DATABASE",
    "VIEW ANY DEFINITION",
    "VIEW SERVER STATE",
];

const LOGINS: Columns = &[
    ("name", NAME),
    ("principal_id", INT),
    ("sid", SID),
    ("type", SqlType::Char(1)),
    ("type_desc", DESC),
    ("is_disabled", BIT),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("default_database_name", NAME),
    ("default_language_name", NAME),
    ("credential_id", INT),
    ("owning_principal_id", INT),
    ("is_fixed_role", BIT),
    ("default_schema_name", NAME),
];

fn built_in(_: &Server) -> Vec<Row> {
    let classes = [(DATABASE, "DATABASE"), (SCHEMA, "SCHEMA"), (OBJECT, "OBJECT"), (TYPE, "TYPE")];
    let on = |(class, name): (u8, &'static str)| {
        let own = RIGHTS.iter().filter(move |(.., classes)| *classes & class != 0);
        own.map(move |(_, permission, ..)| vec![text(name), text(*permission)])
    };
    let server = OF_SERVER.map(|permission| vec![text("SERVER"), text(permission)]);
    server.into_iter().chain(classes.into_iter().flat_map(on)).collect()
}

/// The rights of the caller with the principals that are stored.
fn of(db: &mut Db, database: &str) -> Result<Rights> {
    let stored = db.principals(database)?;
    let rights = db.rights(database)?;
    Ok(rights.knowing(stored))
}

fn users(db: &mut Db, database: &str, _: &Facts) -> Result<Vec<Row>> {
    let rights = of(db, database)?;
    let seen = rights.stored.principals.iter().filter(|own| rights.knows(own));
    Ok(seen.map(user).collect())
}

fn user(own: &Principal) -> Row {
    let (kind, described) = if own.is_role { ("R", "DATABASE_ROLE") } else { ("S", "SQL_USER") };
    let sid = match (&own.sid, own.id) {
        (Some(sid), _) => Value::Binary(sid.clone().into()),
        (None, DBO) => Value::Binary(vec![1].into()),
        (None, _) => Value::Null,
    };
    let has_login = own.sid.is_some() || own.id == DBO;
    vec![
        text(own.name.clone()),
        int(own.id),
        text(kind),
        text(described),
        if own.is_role { Value::Null } else { text("dbo") },
        epoch(),
        epoch(),
        if own.is_role { int(DBO) } else { Value::Null },
        sid,
        bit(own.is_role && own.is_fixed() && own.id != PUBLIC),
        int(i64::from(has_login)),
        text(if has_login { "INSTANCE" } else { "NONE" }),
        Value::Null,
        Value::Null,
        bit(false),
    ]
}

fn members(db: &mut Db, database: &str, _: &Facts) -> Result<Vec<Row>> {
    let rights = of(db, database)?;
    let known = |id: i64| rights.stored.by_id(id).is_some_and(|own| rights.knows(own));
    let seen = rights.stored.members.iter().filter(|(role, member)| known(*role) && known(*member));
    Ok(seen.map(|(role, member)| vec![int(*role), int(*member)]).collect())
}

fn rules(db: &mut Db, database: &str, facts: &Facts) -> Result<Vec<Row>> {
    let rights = of(db, database)?;
    let mut rows = Vec::new();
    for rule in &rights.stored.rules {
        if !rights.stored.by_id(rule.grantee).is_some_and(|own| rights.knows(own)) {
            continue;
        }
        let (class, name) = rule.on.class();
        let (described, major) = match &rule.on {
            On::Database => ("DATABASE", 0),
            On::Schema(_) => ("SCHEMA", schema_id(name)),
            // what the caller does not see
            On::Object(_) if facts.object(object_id(name)).is_none() => continue,
            On::Object(_) => ("OBJECT_OR_COLUMN", object_id(name)),
            On::Type(_) if !facts.types.iter().any(|own| own.is(name)) => continue,
            On::Type(_) => ("TYPE", type_id(name)),
        };
        let row = RIGHTS.iter().find(|(right, ..)| *right == rule.right);
        let (_, right, letters, _) = row.copied().unwrap_or(RIGHTS[0]);
        let (state, state_desc) = if rule.denies { ("D", "DENY") } else { ("G", "GRANT") };
        rows.push(vec![
            int(class),
            text(described),
            int(major),
            int(0),
            int(rule.grantee),
            int(DBO),
            text(letters),
            text(right),
            text(state),
            text(state_desc),
        ]);
    }
    Ok(rows)
}

/// The logins that the caller sees: itself, and all of them if it is a member of sysadmin.
fn seen(db: &Db) -> Result<Vec<Login>> {
    let Who { sid, sysadmin, .. } = &db.who;
    let mut all = db.host.logins()?;
    all.retain(|login| *sysadmin || Some(&login.sid) == sid.as_ref());
    Ok(all)
}

fn logins(db: &mut Db, _: &str, _: &Facts) -> Result<Vec<Row>> {
    let row = |name: &str, id: i64, sid: &[u8], is_role: bool| {
        let (kind, described) = if is_role { ("R", "SERVER_ROLE") } else { ("S", "SQL_LOGIN") };
        let of_login = |value: &str| if is_role { Value::Null } else { text(value) };
        vec![
            text(name),
            int(id),
            Value::Binary(sid.to_owned().into()),
            text(kind),
            text(described),
            bit(false),
            epoch(),
            epoch(),
            of_login("master"),
            of_login("us_english"),
            Value::Null,
            if is_role { int(1) } else { Value::Null },
            bit(is_role && id == SYSADMIN),
            Value::Null,
        ]
    };
    let roles = [("public", 2_u8), ("sysadmin", 3)];
    let mut rows: Vec<Row> =
        roles.iter().map(|(name, id)| row(name, i64::from(*id), &[*id], true)).collect();
    for login in seen(db)? {
        rows.push(row(&login.name, login_id(&login), &login.sid, false));
    }
    Ok(rows)
}

fn sysadmins(db: &mut Db, _: &str, _: &Facts) -> Result<Vec<Row>> {
    let members = seen(db)?.into_iter().filter(|login| login.sysadmin);
    Ok(members.map(|login| vec![int(SYSADMIN), int(login_id(&login))]).collect())
}
