//! Functions that look up objects, and the names passed to them.

use crate::ast::Name;

/// Functions that need the objects of a database.
pub(crate) const OBJECTS: &[&str] = &[
    "COLUMNPROPERTY",
    "COL_LENGTH",
    "COL_NAME",
    "IDENT_CURRENT",
    "IDENT_INCR",
    "IDENT_SEED",
    "INDEXPROPERTY",
    "INDEX_COL",
    "OBJECTPROPERTY",
    "OBJECTPROPERTYEX",
    "OBJECT_DEFINITION",
    "OBJECT_ID",
    "OBJECT_NAME",
    "OBJECT_SCHEMA_NAME",
    "SCHEMA_ID",
    "SCHEMA_NAME",
];

/// Functions that need the list of databases, or nothing but their arguments.
pub(crate) const PLAIN: &[&str] = &[
    "DATABASEPROPERTYEX",
    "DATABASE_PRINCIPAL_ID",
    "DB_ID",
    "DB_NAME",
    "HAS_DBACCESS",
    "HAS_PERMS_BY_NAME",
    "IS_MEMBER",
    "IS_ROLEMEMBER",
    "IS_SRVROLEMEMBER",
    "SUSER_ID",
    "SUSER_NAME",
    "SUSER_SNAME",
    "TYPE_ID",
    "TYPE_NAME",
    "USER_ID",
    "USER_NAME",
];

/// Returns the parts of a name in a string: brackets and quotes as in text, else split at dots.
pub(crate) fn parts(text: &str) -> Name {
    crate::parse::parse_name(text)
        .unwrap_or_else(|_| Name(text.split('.').map(|part| part.trim().to_owned()).collect()))
}

/// Returns the database of a name in a string; None for the current one.
pub(crate) fn database_in(text: &str) -> Option<String> {
    let name = parts(text);
    if name.object().starts_with('#') {
        return None;
    }
    name.part(2).map(str::to_owned)
}
