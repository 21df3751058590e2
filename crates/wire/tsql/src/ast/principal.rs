//! Statements about logins, users, roles and permissions.

use super::Name;

/// GRANT, DENY or REVOKE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Grant,
    Deny,
    Revoke,
}

/// What stands behind ON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Securable {
    /// Nothing, or DATABASE::.
    Database(Option<String>),
    Schema(String),
    /// OBJECT::, or a bare name.
    Object(Name),
    /// TYPE::.
    Type(Name),
}

/// A statement about principals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principals {
    CreateLogin {
        name: String,
        password: String,
    },
    /// A new password.
    AlterLogin {
        name: String,
        password: String,
    },
    DropLogin(String),
    /// ALTER SERVER ROLE: ADD MEMBER, or DROP MEMBER.
    ServerRole {
        role: String,
        member: String,
        add: bool,
    },
    /// FOR LOGIN, or the user's own name.
    CreateUser {
        name: String,
        login: String,
    },
    /// WITH LOGIN, WITH NAME.
    AlterUser {
        name: String,
        login: Option<String>,
        new_name: Option<String>,
    },
    CreateRole(String),
    /// DROP USER or DROP ROLE.
    Drop {
        name: String,
        role: bool,
        if_exists: bool,
    },
    /// ALTER ROLE: ADD MEMBER, or DROP MEMBER.
    Member {
        role: String,
        member: String,
        add: bool,
    },
    /// GRANT, DENY and REVOKE: names of permissions in upper case.
    Permit {
        verb: Verb,
        permissions: Vec<String>,
        on: Securable,
        grantees: Vec<String>,
    },
    /// ALTER AUTHORIZATION ON DATABASE.
    Owner {
        database: String,
        login: String,
    },
}
