//! Names in SQLite's text.

/// Quotes a name for SQLite's text.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}

/// SQLite's name for a row's number. A column of this name would stand for it: no table of ours has
/// one. Columns named `rowid` or `oid`, SQLite's other two names, are ordinary.
pub(crate) const ROW_ID: &str = "_rowid_";
/// Returns true for the name of a global temporary table, `##t`.
pub(crate) fn is_global(object: &str) -> bool {
    object.starts_with("##")
}

/// Returns true for the name of a temporary table of one session, `#t`.
pub(crate) fn is_local(object: &str) -> bool {
    object.starts_with('#') && !is_global(object)
}

/// Splits `dbo.t` into schema and name.
pub(crate) fn schema_and_name(stored: &str) -> (String, String) {
    match stored.split_once('.') {
        Some((schema, name)) => (schema.to_owned(), name.to_owned()),
        None => ("dbo".to_owned(), stored.to_owned()),
    }
}

/// Compares names of logins, users and roles, as under the server's collation: without case, and
/// without the blanks at their end.
pub(crate) fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_end_matches(' '), other.trim_end_matches(' '));
    one == other || one.to_lowercase() == other.to_lowercase()
}
