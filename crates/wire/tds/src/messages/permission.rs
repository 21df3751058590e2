//! Errors of logins, users, roles and permissions.

use super::{Error, raise, table};

table! {
    /// A refusal by permissions, or an error of a statement about principals.
    PermissionError;
    Denied { right: &'static str, object: String, database: String, schema: String } =
        229, 14, 5, Statement,
        "The {right} permission was denied on the object '{object}', database '{database}', \
        schema '{schema}'.";
    DatabaseDenied { right: &'static str, database: String } = 262, 14, 1, Statement,
        "{right} permission denied in database '{database}'.";
    ServerDenied { right: &'static str } = 300, 14, 1, Statement,
        "{right} permission was denied on object 'server', database 'master'.";
    CannotEnter { login: String, database: String } = 916, 14, 2, Statement,
        "The server principal \"{login}\" is not able to access the database \"{database}\" under \
        the current security context.";
    CannotAlter { object: String } = 1088, 16, 9, Statement,
        "Cannot find the object \"{object}\" because it does not exist or you do not have \
        permissions.";
    HighSeverity {} = 2754, 16, 1, Statement,
        "Error severity levels greater than 18 can only be specified by members of the sysadmin \
        role, using the WITH LOG option.";
    LogDenied {} = 2778, 16, 1, Statement,
        "Only System Administrator can specify WITH LOG option for RAISERROR command.";
    DbccDenied { login: String, command: String } = 2571, 14, 3, Statement,
        "User '{login}' does not have permission to run DBCC {command}.";
    SchemaDenied { name: String } = 2760, 16, 1, Statement,
        "The specified schema name \"{name}\" either does not exist or you do not have permission \
        to use it.";
    CannotDrop { kind: &'static str, name: String } = 3701, 14, 20, Statement,
        "Cannot drop the {kind} '{name}', because it does not exist or you do not have permission.";
    GranteeMissing { kind: &'static str, name: String } = 15151, 16, 1, Statement,
        "Cannot find the {kind} '{name}', because it does not exist or you do not have permission.";
    CannotChange { verb: &'static str, kind: &'static str, name: String } =
        15151, 16, 1, Statement,
        "Cannot {verb} the {kind} '{name}', because it does not exist or you do not have \
        permission.";
    NotToSelf {} = 4617, 16, 1, Statement,
        "Cannot grant, deny or revoke permissions to or from special roles.";
    Grantor {} = 4624, 16, 1, Statement,
        "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner, information_schema, \
        sys, or yourself.";
    BadPermission { name: String } = 102, 15, 1, Batch, "Incorrect syntax near '{name}'.";
    UnfitPermission { right: &'static str } = 4606, 16, 1, Statement,
        "Granted or revoked privilege {right} is not compatible with object.";
    CannotAlterDatabase { name: String } = 5011, 14, 7, Statement,
        "User does not have permission to alter database '{name}', the database does not exist, \
        or the database is not in a state that allows access checks.";
    KillDenied {} = 6102, 14, 1, Statement,
        "User does not have permission to use the KILL statement.";
    PrincipalExists { name: String } = 15023, 16, 1, Statement,
        "User, group, or role '{name}' already exists in the current database.";
    LoginExists { name: String } = 15025, 16, 1, Statement,
        "The server principal '{name}' already exists.";
    NoLogin { name: String } = 15007, 16, 1, Statement,
        "'{name}' is not a valid login or you do not have permission.";
    LoginHasUser {} = 15063, 16, 1, Statement,
        "The login already has an account under a different user name.";
    RoleHasMembers {} = 15144, 16, 1, Statement,
        "The role has members. It must be empty before it can be dropped.";
    FixedPrincipal { verb: &'static str, kind: &'static str, name: String } =
        15150, 16, 1, Statement,
        "Cannot {verb} the {kind} '{name}'.";
    OwnerIsUser {} = 15110, 16, 1, Statement,
        "The proposed new database owner is already a user or aliased in the database.";
    Action {} = 15247, 16, 1, Statement,
        "User does not have permission to perform this action.";
    MemberOfItself {} = 15413, 11, 1, Statement, "Cannot make a role a member of itself.";
    RoleLoop {} = 15414, 16, 1, Statement,
        "Cannot add the member: the role would be a member of itself.";
    BadLogin { reason: String } = 15116, 16, 1, Statement,
        "The login's name or password does not meet the requirements: {reason}.";
    LastSysadmin {} = 15150, 16, 1, Statement,
        "Cannot drop the last member of sysadmin, nor take it out of the role.";
    OwnsDatabase { name: String } = 15174, 16, 1, Statement,
        "Login '{name}' owns one or more database(s). Change the owner of the database(s) before \
        dropping the login.";
    NotOfPrincipal { name: String } = 1202, 16, 1, Statement,
        "The database principal '{name}' does not exist, or user is not a member.";
}

impl From<PermissionError> for Error {
    /// The interpreter adds the line.
    fn from(error: PermissionError) -> Self {
        raise(error.code(), &error)
    }
}
