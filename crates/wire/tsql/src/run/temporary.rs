//! Temporary tables by the scopes that created them, and table variables, which survive rollbacks.
//!
//! A procedure or a text may create a `#t` even if its caller has one: each has its own name in
//! SQLite, and the innermost one is found. Table variables are temporary tables, too; no rollback
//! affects their content.

use rusqlite::types::Value as Stored;

use super::db::{Db, Temporary, failure};
use crate::error::{Error, Result};
use crate::name::quote;
use crate::run::catalog::named::has_table;

/// Tables with records about other tables.
const NOTES: [&str; 3] = ["tsql_identity", "tsql_default", "tsql_column"];

/// The content of a table variable.
pub(super) struct Kept {
    stored: String,
    /// CREATE TABLE, then the texts of its indexes, without a schema.
    texts: Vec<String>,
    rows: Vec<Vec<Stored>>,
    /// Its rows in [`NOTES`].
    notes: Vec<(&'static str, Vec<Vec<Stored>>)>,
}

/// Returns true if a temporary table's name is that of a table variable.
fn is_variable(name: &str) -> bool {
    name.starts_with("#@")
}

impl Db {
    fn has_temporary(&self, stored: &str) -> bool {
        self.peek().is_some_and(|open| has_table(open, "temp", stored).unwrap_or(false))
    }

    /// Returns the name in SQLite of the temporary table in scope; for a missing one, a name that
    /// no table has.
    pub(crate) fn temporary(&self, name: &str) -> String {
        let lower = name.to_lowercase();
        let known = self.temporaries.iter().rev().filter(|known| known.name == lower);
        let mut known = known.filter(|known| self.has_temporary(&known.stored));
        match known.next() {
            Some(found) => found.stored.clone(),
            // left over from a scope that has ended
            None if self.has_temporary(name) => format!("{name}~"),
            None => name.to_owned(),
        }
    }

    /// Returns the name in SQLite for a temporary table that a scope creates; None if it has
    /// created one of this name already.
    pub(crate) fn new_temporary(&mut self, name: &str, level: u32) -> Option<String> {
        let lower = name.to_lowercase();
        let own = |known: &&Temporary| known.name == lower && known.level == level;
        if let Some(known) = self.temporaries.iter().find(own) {
            let stored = known.stored.clone();
            return if self.has_temporary(&stored) { None } else { Some(stored) };
        }
        let mut stored = name.to_owned();
        let mut number = 1;
        while self.has_temporary(&stored)
            || self.temporaries.iter().any(|known| known.stored.eq_ignore_ascii_case(&stored))
        {
            number += 1;
            stored = format!("{name}~{number}");
        }
        self.temporaries.push(Temporary {
            name: lower,
            stored: stored.clone(),
            level,
            lent: false,
        });
        Some(stored)
    }

    /// Gives a scope a table variable of another under this name. Plans of the name are bound anew.
    pub(super) fn lend(&mut self, name: &str, stored: &str, level: u32) {
        let (name, stored) = (name.to_lowercase(), stored.to_owned());
        self.temporaries.push(Temporary { name, stored, level, lent: true });
        self.renew();
    }

    /// Forgets a temporary table that is not there any more.
    pub(super) fn forget_temporary(&mut self, name: &str) {
        let lower = name.to_lowercase();
        self.temporaries.retain(|known| known.name != lower);
    }

    /// Takes out the temporary tables that end with a batch, or with the text at this level of
    /// procedures. A batch keeps those that are not variables.
    pub(super) fn take_ended(&mut self, level: u32) -> Vec<Temporary> {
        let ends = |known: &Temporary| {
            known.level > level || known.level == level && (level > 0 || is_variable(&known.name))
        };
        self.temporaries.extract_if(.., |known| ends(known)).collect()
    }

    /// Returns the content of all table variables of the session.
    pub(super) fn keep_variables(&mut self) -> Result<Vec<Kept>> {
        let kernels = self.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, "tempdb");
        let variables: Vec<String> = self
            .temporaries
            .iter()
            .filter(|known| is_variable(&known.name) && !known.lent)
            .map(|known| known.stored.clone())
            .collect();
        let mut kept = Vec::new();
        for stored in variables {
            if !self.has_temporary(&stored) {
                continue;
            }
            let sql = "SELECT sql FROM temp.sqlite_schema WHERE tbl_name = ?1 AND sql IS NOT NULL \
                ORDER BY type = 'index', rowid";
            let texts = self.all_rows(sql, &[&stored]).map_err(fail)?;
            let texts = texts.into_iter().flatten().filter_map(|value| match value {
                Stored::Text(text) => Some(text),
                _ => None,
            });
            let texts = texts.collect();
            let sql = format!("SELECT * FROM temp.{} ORDER BY rowid", quote(&stored));
            let rows = self.all_rows(&sql, &[]).map_err(fail)?;
            let mut notes = Vec::new();
            for own in NOTES {
                if self.has_temporary(own) {
                    let sql = format!("SELECT * FROM temp.{own} WHERE table_name = ?1");
                    notes.push((own, self.all_rows(&sql, &[&stored]).map_err(fail)?));
                }
            }
            kept.push(Kept { stored, texts, rows, notes });
        }
        Ok(kept)
    }

    fn all_rows(&self, sql: &str, params: &[&str]) -> rusqlite::Result<Vec<Vec<Stored>>> {
        let Some(connection) = self.peek() else { return Ok(Vec::new()) };
        let mut statement = connection.prepare(sql)?;
        let width = statement.column_count();
        let rows = statement.query_map(rusqlite::params_from_iter(params), |row| {
            (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<Vec<Stored>>>()
        })?;
        rows.collect()
    }

    /// Gives a table variable its content back, in a current database.
    pub(super) fn put_back(&mut self, kept: &Kept, database: &str) -> Result<()> {
        if self.has_temporary(&kept.stored) {
            self.execute(&format!("DELETE FROM temp.{}", quote(&kept.stored)), database)?;
        } else {
            for text in &kept.texts {
                self.execute(&in_temp(text)?, database)?;
            }
        }
        self.insert_all(&kept.stored, "INSERT", &kept.rows)?;
        for (own, rows) in &kept.notes {
            if !rows.is_empty() {
                self.own_table("temp", own)?;
                self.insert_all(own, "INSERT OR REPLACE", rows)?;
            }
        }
        Ok(())
    }

    fn insert_all(&mut self, table: &str, verb: &str, rows: &[Vec<Stored>]) -> Result<()> {
        let kernels = self.kernels.clone();
        let fail = |error: rusqlite::Error| failure(&kernels, &error, "tempdb");
        let Some(width) = rows.first().map(Vec::len) else { return Ok(()) };
        let places: Vec<String> = (1..=width).map(|at| format!("?{at}")).collect();
        let sql = format!("{verb} INTO temp.{} VALUES ({})", quote(table), places.join(", "));
        let connection = self.connection()?;
        let mut statement = connection.prepare(&sql).map_err(fail)?;
        for row in rows {
            statement.execute(rusqlite::params_from_iter(row)).map_err(fail)?;
        }
        Ok(())
    }
}

/// Converts a text of SQLite's schema, whose names have no schema, for the temporary one.
fn in_temp(text: &str) -> Result<String> {
    for begin in ["CREATE TABLE ", "CREATE UNIQUE INDEX ", "CREATE INDEX "] {
        if let Some(rest) = text.strip_prefix(begin) {
            return Ok(format!("{begin}temp.{rest}"));
        }
    }
    Err(Error::Internal { detail: "a table variable cannot be made again".to_owned() })
}
