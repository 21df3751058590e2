//! Dates of the history that are not as [`super::date_of_ms`] writes them. Such a row is left out
//! where its date decides, and named; it hides no other row.

use std::fmt;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::pruned::GONE;
use super::{Catalog, failed};
use crate::RunError;

/// A row of the history whose date cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undated {
    /// Its table.
    pub table: &'static str,
    /// The column of the date.
    pub column: &'static str,
    /// The row's subject: a `backup_set_uuid`, or that of a check.
    pub subject: String,
    /// Path of the database, of a set.
    pub database_path: Option<String>,
    /// The content of the column.
    pub content: String,
}

impl fmt::Display for Undated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, column, subject, database_path, content } = self;
        write!(f, "the row of {subject}")?;
        if let Some(path) = database_path.as_deref().filter(|path| !path.is_empty()) {
            write!(f, ", of {path},")?;
        }
        write!(f, " in {table}: {column} is not a date: {content:?}")
    }
}

/// Returns SQL that is true for a column with a date. Other texts that SQLite takes for one (`now`,
/// a Julian day) are not in the order of their times.
pub(super) fn is_date(column: &str) -> String {
    let day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ]*";
    format!("({column} GLOB '{day}' AND unixepoch({column}) IS NOT NULL)")
}

/// Reads a text even if it is not UTF-8.
pub(super) fn lossy(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    Ok(lossy_or_null(row, column)?.unwrap_or_default())
}

/// As [`lossy`]; `None` for NULL.
pub(super) fn lossy_or_null(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    })
}

impl Catalog {
    /// Returns the rows whose date cannot be read: they count neither as a backup nor as a reading.
    ///
    /// # Errors
    /// `History`.
    pub fn undated(&self) -> Result<Vec<Undated>, RunError> {
        self.read_undated().map_err(failed("read", &self.path))
    }

    fn read_undated(&self) -> rusqlite::Result<Vec<Undated>> {
        const COLUMNS: [(&str, &str, &str, &str); 4] = [
            ("backupset", "backup_start_date", "backup_set_uuid", "database_path"),
            ("backupset", "backup_finish_date", "backup_set_uuid", "database_path"),
            ("restorehistory", "restore_date", "backup_set_uuid", "NULL"),
            ("lastcheck", "check_date", "subject", "NULL"),
        ];
        let mut all = Vec::new();
        for (table, column, subject, path) in COLUMNS {
            let mut sql = format!(
                "SELECT {subject} AS subject, {path} AS path, {column} AS content FROM {table}
                 WHERE NOT {}",
                is_date(column)
            );
            if table == "backupset" {
                sql = format!("{sql} AND NOT {GONE}");
            }
            let mut list = self.db.prepare(&sql)?;
            let rows = list.query_map([], |row| {
                Ok(Undated {
                    table,
                    column,
                    subject: lossy(row, "subject")?,
                    database_path: lossy_or_null(row, "path")?,
                    content: lossy(row, "content")?,
                })
            })?;
            all.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(all)
    }
}
