//! Updates an encrypted copy to the current state of its original.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::mirror::{Changes, Mirror};
use super::tree::{Rows, Trees};
use crate::error::DatabaseError;
use crate::source::{Source, pragma};
use crate::target::Target;
use crate::verify::{self, columns_of, compare_table, open_copy, quoted, tables};
use crate::watch::Watch;

/// Settings in the header that may change without the schema.
const SETTINGS: [&str; 3] = ["user_version", "application_id", "auto_vacuum"];
/// The table that SQLite itself keeps beside tables with AUTOINCREMENT.
const SEQUENCE: &str = "sqlite_sequence";
/// Offsets in page 1 of the versions that show whether the journal is a log, and the values for a
/// log.
const VERSIONS: std::ops::Range<usize> = 18..20;
const LOG: [u8; 2] = [2, 2];

/// A copy and its known content.
pub(crate) struct Follower<'a> {
    path: &'a Path,
    copy: Connection,
    trees: Trees,
    tables: Vec<Table>,
}

/// A table, and the way to copy its rows.
struct Table {
    of: verify::Table,
    /// SQL of the copied columns, after the row number if there is one.
    columns: String,
    /// Name of the row number; a table without one is compared as a whole.
    row: Option<&'static str>,
}

impl<'a> Follower<'a> {
    /// Makes a follower for the copy in `target` of the content of `mirror`. `original` is the path
    /// of the database.
    pub(crate) fn new(
        original: &'a Source,
        mirror: &Mirror,
        target: &Target,
    ) -> Result<Self, DatabaseError> {
        let path = original.path.as_path();
        let copy = open_copy(original, target)?;
        let failed = |db| DatabaseError::sqlite("read the schema of", path, Some(db));
        let db = mirror.open().map_err(DatabaseError::sqlite("read the pages of", path, None))?;
        let tables = tables_of(path, &db)?;
        let mut trees = Trees::default();
        trees.follow((path, &db), &with_rows(&tables), None)?;
        let prepare = || -> rusqlite::Result<()> {
            copy.execute_batch(
                "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;
                 PRAGMA main.synchronous = OFF; PRAGMA main.cache_size = -65536",
            )?;
            copy.query_row("PRAGMA main.journal_mode = MEMORY", [], |_| Ok(()))?;
            copy.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            copy.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).map(drop)
        };
        prepare().map_err(failed(&copy))?;
        Ok(Self { path, copy, trees, tables })
    }

    /// Copies the rows of the pages that changed.
    pub(crate) fn follow(
        &mut self,
        mirror: &Mirror,
        changes: &Changes,
        watch: &dyn Watch,
    ) -> Result<(), DatabaseError> {
        if changes.pages.is_empty() {
            return Ok(());
        }
        let path = self.path;
        let db = mirror.open().map_err(DatabaseError::sqlite("read the pages of", path, None))?;
        let rows =
            self.trees.follow((path, &db), &with_rows(&self.tables), Some(&changes.pages))?;
        let failed = || DatabaseError::sqlite("bring up the copy of", path, Some(&self.copy));
        self.copy.execute("ATTACH ?1 AS mirror", [mirror.uri()]).map_err(failed())?;
        let applied = self.apply(&db, &rows, watch);
        if applied.is_err() && !self.copy.is_autocommit() {
            self.copy.execute_batch("ROLLBACK").map_err(failed())?;
        }
        self.copy.execute_batch("DETACH mirror").map_err(failed())?;
        applied
    }

    fn apply(
        &self,
        db: &Connection,
        rows: &HashMap<String, Vec<Rows>>,
        watch: &dyn Watch,
    ) -> Result<(), DatabaseError> {
        let copy = &self.copy;
        let failed = || DatabaseError::sqlite("bring up the copy of", self.path, Some(copy));
        copy.execute_batch("BEGIN").map_err(failed())?;
        for table in &self.tables {
            match (table.row, rows.get(&table.of.name)) {
                (Some(row), Some(ranges)) => table.replace(copy, row, ranges).map_err(failed())?,
                (Some(_), None) => {}
                (None, _) if compare_table((self.path, db), copy, &table.of, watch)? => {}
                (None, _) => table.replace_all(copy).map_err(failed())?,
            }
        }
        // Adding rows has changed it.
        if let Some(table) = self.tables.iter().find(|table| table.of.name == SEQUENCE) {
            table.replace_all(copy).map_err(failed())?;
        }
        copy.execute_batch("COMMIT").map_err(failed())?;
        for name in SETTINGS {
            let of = |db| pragma::<i64>(db, name);
            let (old, new) = (of(copy).map_err(failed())?, of(db).map_err(failed())?);
            if old != new {
                copy.pragma_update(Some("main"), name, new).map_err(failed())?;
            }
        }
        Ok(())
    }

    /// Makes the copy's header say that its journal is a log. Nothing may be written to it
    /// afterwards.
    pub(crate) fn set_log(&self) -> Result<(), DatabaseError> {
        let set = || -> rusqlite::Result<()> {
            let read = "SELECT data FROM sqlite_dbpage WHERE pgno = 1";
            let mut first: Vec<u8> = self.copy.query_row(read, [], |row| row.get(0))?;
            first[VERSIONS].copy_from_slice(&LOG);
            let write = "UPDATE sqlite_dbpage SET data = ?1 WHERE pgno = 1";
            self.copy.execute(write, [first]).map(drop)
        };
        set().map_err(DatabaseError::sqlite("finish the copy of", self.path, Some(&self.copy)))
    }
}

impl Table {
    /// Replaces the copy's rows in these ranges by the mirror's. All are deleted before any is
    /// inserted: a unique value may have moved to another row.
    fn replace(&self, copy: &Connection, row: &str, ranges: &[Rows]) -> rusqlite::Result<()> {
        let (name, columns) = (quoted(&self.of.name), &self.columns);
        let mut delete =
            copy.prepare(&format!("DELETE FROM main.{name} WHERE {row} BETWEEN ?1 AND ?2"))?;
        for range in ranges {
            delete.execute([range.0, range.1])?;
        }
        let mut insert = copy.prepare(&format!(
            "INSERT INTO main.{name}({columns}) SELECT {columns} FROM mirror.{name} NOT INDEXED
             WHERE {row} BETWEEN ?1 AND ?2"
        ))?;
        for range in ranges {
            insert.execute([range.0, range.1])?;
        }
        Ok(())
    }

    fn replace_all(&self, copy: &Connection) -> rusqlite::Result<()> {
        let (name, columns) = (quoted(&self.of.name), &self.columns);
        copy.execute_batch(&format!(
            "DELETE FROM main.{name}; INSERT INTO main.{name}({columns}) SELECT {columns}
             FROM mirror.{name} NOT INDEXED"
        ))
    }
}

fn with_rows(tables: &[Table]) -> Vec<(String, u32)> {
    let with_rows = tables.iter().filter(|table| table.row.is_some());
    with_rows.map(|table| (table.of.name.clone(), table.of.root)).collect()
}

/// Returns the tables of the database `db`.
fn tables_of(path: &Path, db: &Connection) -> Result<Vec<Table>, DatabaseError> {
    let failed = || DatabaseError::sqlite("read the schema of", path, Some(db));
    let mut found = Vec::new();
    for of in tables(db).map_err(failed())? {
        let (row, mut columns) = columns_of(db, &of, false).map_err(failed())?;
        if of.has_rowid && row.is_none() {
            let problem = format!("the columns of {} hide its row numbers", of.name);
            return Err(DatabaseError::NotOnline { path: path.to_owned(), problem });
        }
        columns.splice(0..0, row.map(str::to_owned));
        found.push(Table { of, columns: columns.join(", "), row });
    }
    Ok(found)
}
