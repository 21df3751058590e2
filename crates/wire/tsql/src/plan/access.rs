//! What a statement does to the tables that it names: the permissions that it needs.

use super::table::Table;
use crate::name::is_global;

/// A permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Right {
    Select,
    Insert,
    Update,
    Delete,
    Execute,
    References,
    Alter,
    Control,
    ViewDefinition,
    Connect,
    CreateTable,
    CreateView,
    CreateProcedure,
    CreateSchema,
    CreateSequence,
    CreateType,
    CreateFunction,
    BackupDatabase,
    BackupLog,
    Checkpoint,
    AlterAnySchema,
    AlterAnyUser,
    AlterAnyRole,
}

/// The classes of things that a permission can be granted on.
pub(crate) const DATABASE: u8 = 1;
pub(crate) const SCHEMA: u8 = 2;
pub(crate) const OBJECT: u8 = 4;
pub(crate) const TYPE: u8 = 8;

const ALL: u8 = DATABASE | SCHEMA | OBJECT;

/// Each permission: name, type in `sys.database_permissions`, classes.
pub(crate) const RIGHTS: &[(Right, &str, &str, u8)] = &[
    (Right::Select, "SELECT", "SL", ALL),
    (Right::Insert, "INSERT", "IN", ALL),
    (Right::Update, "UPDATE", "UP", ALL),
    (Right::Delete, "DELETE", "DL", ALL),
    (Right::Execute, "EXECUTE", "EX", ALL | TYPE),
    (Right::References, "REFERENCES", "RF", ALL | TYPE),
    (Right::Alter, "ALTER", "AL", ALL),
    (Right::Control, "CONTROL", "CL", ALL | TYPE),
    (Right::ViewDefinition, "VIEW DEFINITION", "VW", ALL | TYPE),
    (Right::Connect, "CONNECT", "CO", DATABASE),
    (Right::CreateTable, "CREATE TABLE", "CRTB", DATABASE),
    (Right::CreateView, "CREATE VIEW", "CRVW", DATABASE),
    (Right::CreateProcedure, "CREATE PROCEDURE", "CRPR", DATABASE),
    (Right::CreateSchema, "CREATE SCHEMA", "CRSM", DATABASE),
    (Right::CreateSequence, "CREATE SEQUENCE", "CRSO", SCHEMA),
    (Right::CreateType, "CREATE TYPE", "CRTY", DATABASE),
    (Right::CreateFunction, "CREATE FUNCTION", "CRFN", DATABASE),
    (Right::BackupDatabase, "BACKUP DATABASE", "BADB", DATABASE),
    (Right::BackupLog, "BACKUP LOG", "BALO", DATABASE),
    (Right::Checkpoint, "CHECKPOINT", "CP", DATABASE),
    (Right::AlterAnySchema, "ALTER ANY SCHEMA", "ALSM", DATABASE),
    (Right::AlterAnyUser, "ALTER ANY USER", "ALUS", DATABASE),
    (Right::AlterAnyRole, "ALTER ANY ROLE", "ALRL", DATABASE),
];

impl Right {
    /// Returns the permission of this name, in upper case.
    pub(crate) fn of(name: &str) -> Option<Right> {
        let name = if name == "EXEC" { "EXECUTE" } else { name };
        RIGHTS.iter().find(|(_, known, ..)| *known == name).map(|(right, ..)| *right)
    }

    pub(crate) fn name(self) -> &'static str {
        RIGHTS.iter().find(|(right, ..)| *right == self).map_or("", |(_, name, ..)| name)
    }
}

/// A table or sequence that a statement uses, with the permission that it needs for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    /// The database's own name.
    pub(crate) database: String,
    /// The name in SQLite.
    pub(crate) object: String,
    pub(crate) right: Right,
    /// The database of the view by which it is reached.
    pub(crate) within: Option<String>,
}

impl Access {
    /// None for a temporary table or a system view: those need no permission on an object.
    pub(crate) fn of(table: &Table, right: Right, within: Option<&str>) -> Option<Access> {
        let own = matches!(table.schema.as_str(), "temp" | "sys") || is_global(&table.name);
        (!own).then(|| Access {
            database: table.database.clone(),
            object: table.name.clone(),
            right,
            within: within.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_permission_has_one_row() {
        for (right, name, ..) in RIGHTS {
            assert_eq!(Right::of(name), Some(*right));
            assert_eq!(right.name(), *name);
        }
        assert_eq!(Right::of("EXEC"), Some(Right::Execute));
        assert_eq!(Right::of("IMPERSONATE"), None);
    }
}
