//! Names in SQLite's text.

/// Quotes a name for SQLite's text.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}
