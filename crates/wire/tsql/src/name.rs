//! Names as SQLite's text has them.

/// A name in SQLite's text.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}
