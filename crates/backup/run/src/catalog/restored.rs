//! Restores of databases, and the statements of T-SQL that asked for them.

use rusqlite::{Row, TransactionBehavior, params};

use super::dates::{lossy, lossy_or_null};
use super::{Catalog, date_of_ms, failed};
use crate::{RunError, SetKind};

/// Removes statements whose restore was removed.
pub(super) const DELETE_ORPHANS: &str = "DELETE FROM restorestatement
    WHERE restore_history_id NOT IN (SELECT restore_history_id FROM restorehistory)";

/// A restore of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogRestore {
    /// Its number.
    pub id: i64,
    /// Its time, as [`date_of_ms`].
    pub restore_date: String,
    /// The set's id.
    pub backup_set_uuid: String,
    /// Path of the restored database.
    pub destination: Option<String>,
    /// Who restored it: the user of the operating system.
    pub user_name: String,
    /// The statement, if it was one of T-SQL.
    pub statement: Option<CatalogStatement>,
}

/// A `RESTORE DATABASE` or `RESTORE LOG`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogStatement {
    /// Name of the database that it made.
    pub database_name: String,
    /// Login whose statement it was.
    pub login_name: String,
    /// `D` for a full set, `I` for a differential one, `L` for a log backup.
    pub set_type: String,
    /// True with `REPLACE`.
    pub replace: bool,
    /// False with `NORECOVERY`.
    pub recovery: bool,
    /// The time of `STOPAT`, as [`date_of_ms`].
    pub stop_date: Option<String>,
    /// Number of devices that it named.
    pub device_count: u32,
}

impl CatalogStatement {
    /// Returns the letter of a kind of set.
    #[must_use]
    pub fn type_of(kind: SetKind) -> &'static str {
        match kind {
            SetKind::Full => "D",
            SetKind::Differential => "I",
            SetKind::Log => "L",
        }
    }

    /// Reads the columns of `restorestatement`, all of them NULL where there is none.
    fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let Some(set_type) = row.get("set_type")? else { return Ok(None) };
        Ok(Some(Self {
            database_name: lossy(row, "database_name")?,
            login_name: lossy(row, "login_name")?,
            set_type,
            replace: row.get("is_replace")?,
            recovery: row.get("is_recovery")?,
            stop_date: lossy_or_null(row, "stop_date")?,
            device_count: row.get("device_count")?,
        }))
    }
}

impl Catalog {
    /// Records that a statement restored the database at `destination` from a set. The time is
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// `History`.
    pub fn record_statement(
        &mut self,
        set_uuid: &str,
        statement: &CatalogStatement,
        (destination, user, at_ms): (&str, &str, i64),
    ) -> Result<(), RunError> {
        let path = self.path.clone();
        let mut write = || {
            let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute(
                "INSERT INTO restorehistory(restore_date, restore_type, backup_set_uuid,
                     destination_database_name, user_name) VALUES(?1, 'D', ?2, ?3, ?4)",
                params![date_of_ms(at_ms), set_uuid, destination, user],
            )?;
            transaction.execute(
                "INSERT INTO restorestatement VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    transaction.last_insert_rowid(),
                    statement.database_name,
                    statement.login_name,
                    statement.set_type,
                    statement.replace,
                    statement.recovery,
                    statement.stop_date,
                    statement.device_count,
                ],
            )?;
            transaction.commit()
        };
        write().map_err(failed("record a restore in", &path))
    }

    /// Returns the restores of databases, in their order.
    ///
    /// # Errors
    /// `History`.
    pub fn restores(&self) -> Result<Vec<CatalogRestore>, RunError> {
        let read = || {
            let mut list = self.db.prepare(
                "SELECT restorehistory.*, database_name, login_name, set_type, is_replace,
                    is_recovery, stop_date, device_count
                 FROM restorehistory LEFT JOIN restorestatement USING(restore_history_id)
                 WHERE restore_type = 'D' ORDER BY restore_history_id",
            )?;
            let restores = list.query_map([], |row| {
                Ok(CatalogRestore {
                    id: row.get("restore_history_id")?,
                    restore_date: lossy(row, "restore_date")?,
                    backup_set_uuid: row.get("backup_set_uuid")?,
                    destination: row.get("destination_database_name")?,
                    user_name: row.get("user_name")?,
                    statement: CatalogStatement::read(row)?,
                })
            })?;
            restores.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read_with_its_restore_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(dir.path()).unwrap();
        let set = "07".repeat(16);
        let statement = CatalogStatement {
            database_name: "mv".to_owned(),
            login_name: "sa".to_owned(),
            set_type: CatalogStatement::type_of(SetKind::Log).to_owned(),
            replace: false,
            recovery: true,
            stop_date: Some(date_of_ms(1_700_000_000_123)),
            device_count: 2,
        };
        let other = CatalogStatement { stop_date: None, replace: true, ..statement.clone() };
        catalog.record_use(&set, crate::CatalogUse::Database, Some("/a.db"), "me", 1).unwrap();
        for each in [&statement, &other] {
            catalog.record_statement(&set, each, ("/b.db", "me", 2)).unwrap();
        }
        let restores = catalog.restores().unwrap();
        let statements: Vec<_> = restores.iter().map(|it| it.statement.clone()).collect();
        assert_eq!(statements, [None, Some(statement), Some(other)]);
        assert_eq!(restores[1].destination.as_deref(), Some("/b.db"));
        catalog.db.execute_batch("DELETE FROM restorehistory WHERE user_name = 'me'").unwrap();
        catalog.forget("any").unwrap();
        let left = "SELECT count(*) FROM restorestatement";
        assert_eq!(catalog.db.query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}
