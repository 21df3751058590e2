//! System views that are T-SQL over other system views, and system procedures: their texts are in
//! `sql/`. Columns as in the documentation of each.

use super::TableKind;

/// Views by name in lower case; each text follows `CREATE VIEW v AS`.
pub(crate) const VIEWS: &[(&str, &str)] = &[
    ("sys.tables", include_str!("sql/sys.tables.sql")),
    ("sys.views", include_str!("sql/sys.views.sql")),
    ("sys.procedures", "SELECT * FROM sys.objects WHERE type = 'P'"),
    ("sys.all_objects", include_str!("sql/sys.all_objects.sql")),
    ("sys.all_columns", "SELECT * FROM sys.columns UNION ALL SELECT * FROM sys.system_columns"),
    ("sys.database_files", include_str!("sql/sys.database_files.sql")),
    ("sys.stats", include_str!("sql/sys.stats.sql")),
    (
        "sys.stats_columns",
        "SELECT object_id, index_id AS stats_id, key_ordinal AS stats_column_id, column_id FROM \
         sys.index_columns WHERE key_ordinal > 0",
    ),
    ("sys.all_views", include_str!("sql/sys.all_views.sql")),
    ("sys.all_sql_modules", "SELECT * FROM sys.sql_modules"),
    ("sys.all_parameters", "SELECT * FROM sys.parameters"),
    ("sys.sysobjects", include_str!("sql/sys.sysobjects.sql")),
    ("sys.syscolumns", include_str!("sql/sys.syscolumns.sql")),
    ("sys.sysdatabases", include_str!("sql/sys.sysdatabases.sql")),
    ("sys.sysprocesses", include_str!("sql/sys.sysprocesses.sql")),
    ("information_schema.tables", include_str!("sql/information_schema.tables.sql")),
    ("information_schema.columns", include_str!("sql/information_schema.columns.sql")),
    ("information_schema.domains", include_str!("sql/information_schema.domains.sql")),
    ("information_schema.views", include_str!("sql/information_schema.views.sql")),
    ("information_schema.schemata", include_str!("sql/information_schema.schemata.sql")),
    ("information_schema.routines", include_str!("sql/information_schema.routines.sql")),
    ("information_schema.parameters", include_str!("sql/information_schema.parameters.sql")),
    (
        "information_schema.table_constraints",
        include_str!("sql/information_schema.table_constraints.sql"),
    ),
    (
        "information_schema.key_column_usage",
        include_str!("sql/information_schema.key_column_usage.sql"),
    ),
    (
        "information_schema.constraint_table_usage",
        include_str!("sql/information_schema.constraint_table_usage.sql"),
    ),
    (
        "information_schema.referential_constraints",
        include_str!("sql/information_schema.referential_constraints.sql"),
    ),
    (
        "information_schema.check_constraints",
        include_str!("sql/information_schema.check_constraints.sql"),
    ),
    ("information_schema.sequences", include_str!("sql/information_schema.sequences.sql")),
];

/// Table-valued functions by name in lower case, with the schema `sys`, which may be left out; each
/// text is a CREATE FUNCTION.
pub(crate) const FUNCTIONS: &[(&str, &str)] =
    &[("sys.fn_my_permissions", include_str!("sql/sys.fn_my_permissions.sql"))];

/// Views of earlier versions, without their schema `sys`: every database has them under their bare
/// names and in `dbo`, before any table of that name.
pub(crate) const COMPATIBILITY: &[&str] =
    &["syscolumns", "sysdatabases", "syslanguages", "sysobjects", "sysprocesses"];

/// Procedures by name in lower case; each text is a CREATE PROCEDURE.
pub(crate) const PROCEDURES: &[(&str, &str)] = &[
    ("sp_columns", include_str!("sql/sp_columns.sql")),
    ("sp_columns_90", include_str!("sql/sp_columns_100.sql")),
    ("sp_columns_100", include_str!("sql/sp_columns_100.sql")),
    ("sp_databases", include_str!("sql/sp_databases.sql")),
    ("sp_datatype_info", include_str!("sql/sp_datatype_info.sql")),
    ("sp_datatype_info_90", include_str!("sql/sp_datatype_info.sql")),
    ("sp_datatype_info_100", include_str!("sql/sp_datatype_info.sql")),
    ("sp_fkeys", include_str!("sql/sp_fkeys.sql")),
    ("sp_column_privileges", include_str!("sql/sp_column_privileges.sql")),
    ("sp_help", include_str!("sql/sp_help.sql")),
    ("sp_helpdb", include_str!("sql/sp_helpdb.sql")),
    ("sp_helpfile", include_str!("sql/sp_helpfile.sql")),
    ("sp_helprole", include_str!("sql/sp_helprole.sql")),
    ("sp_helprolemember", include_str!("sql/sp_helprolemember.sql")),
    ("sp_helpuser", include_str!("sql/sp_helpuser.sql")),
    ("sp_helpindex", include_str!("sql/sp_helpindex.sql")),
    ("sp_helptext", include_str!("sql/sp_helptext.sql")),
    ("sp_helptrigger", include_str!("sql/sp_helptrigger.sql")),
    ("sp_pkeys", include_str!("sql/sp_pkeys.sql")),
    ("sp_special_columns", include_str!("sql/sp_special_columns.sql")),
    ("sp_special_columns_90", include_str!("sql/sp_special_columns.sql")),
    ("sp_special_columns_100", include_str!("sql/sp_special_columns.sql")),
    ("sp_sproc_columns", include_str!("sql/sp_sproc_columns.sql")),
    ("sp_sproc_columns_90", include_str!("sql/sp_sproc_columns.sql")),
    ("sp_sproc_columns_100", include_str!("sql/sp_sproc_columns.sql")),
    ("sp_statistics", include_str!("sql/sp_statistics.sql")),
    ("sp_statistics_100", include_str!("sql/sp_statistics.sql")),
    ("sp_stored_procedures", include_str!("sql/sp_stored_procedures.sql")),
    ("sp_tablecollations", include_str!("sql/sp_tablecollations.sql")),
    ("sp_tablecollations_90", include_str!("sql/sp_tablecollations.sql")),
    ("sp_tablecollations_100", include_str!("sql/sp_tablecollations.sql")),
    ("sp_spaceused", include_str!("sql/sp_spaceused.sql")),
    ("sp_table_privileges", include_str!("sql/sp_table_privileges.sql")),
    ("sp_who2", include_str!("sql/sp_who2.sql")),
    ("sp_tables", include_str!("sql/sp_tables.sql")),
];

/// Returns a view with its text as CREATE VIEW, or a function.
pub(crate) fn find(name: &str) -> Option<TableKind> {
    if let Some((_, text)) = FUNCTIONS.iter().find(|(known, _)| *known == name) {
        return Some(TableKind::Function((*text).to_owned()));
    }
    let (_, text) = VIEWS.iter().find(|(known, _)| *known == name)?;
    Some(TableKind::View(format!("CREATE VIEW v AS {text}")))
}

/// Returns true for a function that is found without its schema.
pub(crate) fn is_function(object: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| known.strip_prefix("sys.") == Some(object))
}

/// Returns the text of a procedure.
pub(crate) fn procedure(name: &str) -> Option<&'static str> {
    PROCEDURES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
