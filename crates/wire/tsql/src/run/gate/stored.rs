//! The principals and permissions of a database, as its own tables have them: `tsql_principal`,
//! `tsql_member` and `tsql_permission`. A database without these tables has the fixed principals,
//! and nobody is granted anything.

use crate::name::same;
use crate::plan::access::Right;

/// Databases of the server itself: everybody enters them, model apart, and nobody but a sysadmin
/// has rights in them.
const SYSTEM: [&str; 4] = ["master", "tempdb", "model", "msdb"];

/// Returns true for a database of the server itself.
pub(crate) fn is_system(database: &str) -> bool {
    SYSTEM.iter().any(|known| known.eq_ignore_ascii_case(database))
}

/// Returns true for one of our own tables in a database, which T-SQL does not show.
pub(crate) fn is_own(stored: &str) -> bool {
    stored.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("tsql_"))
}

/// Principals that every database has.
pub(crate) const PUBLIC: i64 = 0;
pub(crate) const DBO: i64 = 1;
pub(crate) const GUEST: i64 = 2;
pub(crate) const INFORMATION_SCHEMA: i64 = 3;
pub(crate) const SYS: i64 = 4;
/// The first id of a user or role that was made.
pub(crate) const FIRST: i64 = 5;

pub(crate) const DB_OWNER: i64 = 16384;
pub(crate) const DB_DDLADMIN: i64 = 16387;
pub(crate) const DB_BACKUPOPERATOR: i64 = 16389;
pub(crate) const DB_DATAREADER: i64 = 16390;
pub(crate) const DB_DATAWRITER: i64 = 16391;
pub(crate) const DB_DENYDATAREADER: i64 = 16392;
pub(crate) const DB_DENYDATAWRITER: i64 = 16393;

/// The fixed principals: name, id, true for a role.
const FIXED: &[(&str, i64, bool)] = &[
    ("public", PUBLIC, true),
    ("dbo", DBO, false),
    ("guest", GUEST, false),
    ("INFORMATION_SCHEMA", INFORMATION_SCHEMA, false),
    ("sys", SYS, false),
    ("db_owner", DB_OWNER, true),
    ("db_ddladmin", DB_DDLADMIN, true),
    ("db_backupoperator", DB_BACKUPOPERATOR, true),
    ("db_datareader", DB_DATAREADER, true),
    ("db_datawriter", DB_DATAWRITER, true),
    ("db_denydatareader", DB_DENYDATAREADER, true),
    ("db_denydatawriter", DB_DENYDATAWRITER, true),
];

/// A user or role of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) is_role: bool,
    /// The identifier of its login.
    pub(crate) sid: Option<Vec<u8>>,
}

impl Principal {
    /// Returns true for one that every database has.
    pub(crate) fn is_fixed(&self) -> bool {
        !(FIRST..DB_OWNER).contains(&self.id)
    }

    /// The word for it in messages.
    pub(crate) fn kind(&self) -> &'static str {
        if self.is_role { "role" } else { "user" }
    }
}

/// What a permission is granted or denied on. Names are those of SQLite, which takes only ASCII
/// letters for the same in both cases, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum On {
    Database,
    Schema(String),
    Object(String),
    /// A user-defined type, as `tsql_type` names it.
    Type(String),
}

impl On {
    pub(crate) fn schema(name: &str) -> On {
        On::Schema(name.to_ascii_lowercase())
    }

    pub(crate) fn object(stored: &str) -> On {
        On::Object(stored.to_ascii_lowercase())
    }

    pub(crate) fn user_type(stored: &str) -> On {
        On::Type(stored.to_ascii_lowercase())
    }

    /// Its class in `sys.database_permissions`, and its name.
    pub(crate) fn class(&self) -> (i64, &str) {
        match self {
            On::Database => (0, ""),
            On::Object(name) => (1, name),
            On::Schema(name) => (3, name),
            On::Type(name) => (6, name),
        }
    }
}

/// A permission that was granted or denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) grantee: i64,
    pub(crate) on: On,
    pub(crate) right: Right,
    pub(crate) denies: bool,
}

/// All of a database's principals and permissions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    pub(crate) principals: Vec<Principal>,
    /// Role and member.
    pub(crate) members: Vec<(i64, i64)>,
    pub(crate) rules: Vec<Rule>,
}

impl Stored {
    /// The principals of a database without any of its own.
    pub(crate) fn fresh() -> Stored {
        let fixed = FIXED.iter().map(|(name, id, is_role)| Principal {
            id: *id,
            name: (*name).to_owned(),
            is_role: *is_role,
            sid: None,
        });
        Stored { principals: fixed.collect(), ..Stored::default() }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Principal> {
        self.principals.iter().find(|known| same(&known.name, name))
    }

    pub(crate) fn by_id(&self, id: i64) -> Option<&Principal> {
        self.principals.iter().find(|known| known.id == id)
    }

    /// Returns the roles of a principal, those of its roles, and so on.
    pub(crate) fn roles_of(&self, id: i64) -> Vec<i64> {
        let mut found = vec![id];
        let mut at = 0;
        while let Some(member) = found.get(at).copied() {
            let of = self.members.iter().filter(|(_, own)| *own == member);
            for (role, _) in of {
                if !found.contains(role) {
                    found.push(*role);
                }
            }
            at += 1;
        }
        found.remove(0);
        found
    }
}
