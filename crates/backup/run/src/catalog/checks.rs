//! The last check of each backup set, database and server, and the newest backup of each database.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use super::{Catalog, date_of_ms, failed};
use crate::RunError;

/// The subject of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedKind {
    /// A backup set, by its `backup_set_uuid`: `verify`.
    Backup,
    /// A database, by its resolved path: `doctor`.
    Database,
    /// A MariaDB server, by its data directory: `mariadb verify`.
    Mariadb,
}

impl CheckedKind {
    fn code(self) -> &'static str {
        match self {
            Self::Backup => "B",
            Self::Database => "D",
            Self::Mariadb => "M",
        }
    }
}

/// A check that was made.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a> {
    /// Its subject's kind.
    pub kind: CheckedKind,
    /// Its subject.
    pub subject: &'a str,
    /// How many things were wrong.
    pub findings: u64,
    /// What it counted, as JSON.
    pub facts: Option<&'a str>,
    /// Who asked for it.
    pub user: &'a str,
    /// When it ended, milliseconds since 1970.
    pub at_ms: i64,
}

/// The last check of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCheck {
    /// When it ended, seconds since 1970.
    pub checked_at: i64,
    /// How many things were wrong.
    pub findings: u64,
    /// What it counted, as JSON.
    pub facts: Option<String>,
}

/// The newest backup of a database in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestBackup {
    /// When it was finished, seconds since 1970.
    pub finished_at: i64,
    /// Whether it is a full one.
    pub full: bool,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// When a set of the database was last read whole with its key: verified or restored.
    pub verified_at: Option<i64>,
    /// Whether the last reading found nothing wrong; none where there was no reading.
    pub verify_ok: Option<bool>,
}

impl Catalog {
    /// Keeps a check, in the place of an earlier one of its subject.
    ///
    /// # Errors
    /// `Database`.
    pub fn record_check(&mut self, check: &Check<'_>) -> Result<(), RunError> {
        let Check { kind, subject, findings, facts, user, at_ms } = *check;
        let date = date_of_ms(at_ms);
        let sql = "INSERT OR REPLACE INTO lastcheck VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
        let findings = i64::try_from(findings).unwrap_or(i64::MAX);
        self.db
            .execute(sql, params![kind.code(), subject, date, findings, facts, user])
            .map_err(failed("record a check in", &self.path))?;
        Ok(())
    }

    /// The last check of each subject of a kind.
    ///
    /// # Errors
    /// `Database`.
    pub fn last_checks(&self, kind: CheckedKind) -> Result<BTreeMap<String, LastCheck>, RunError> {
        self.read_checks(kind).map_err(failed("read", &self.path))
    }

    /// The newest backup of each database, by the database's path. Streams have none.
    ///
    /// # Errors
    /// `Database`.
    pub fn newest_backups(&self) -> Result<BTreeMap<String, NewestBackup>, RunError> {
        self.read_newest().map_err(failed("read", &self.path))
    }

    /// The places of all media sets.
    ///
    /// # Errors
    /// `Database`.
    pub fn media_places(&self) -> Result<BTreeSet<String>, RunError> {
        let read = || {
            let sql = "SELECT DISTINCT physical_device_name FROM backupmediafamily";
            let mut places = self.db.prepare(sql)?;
            let places = places.query_map([], |row| row.get(0))?;
            places.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }

    fn read_checks(&self, kind: CheckedKind) -> rusqlite::Result<BTreeMap<String, LastCheck>> {
        let sql = "SELECT subject, unixepoch(check_date), finding_count, facts FROM lastcheck
             WHERE subject_type = ?1";
        let mut list = self.db.prepare(sql)?;
        let rows = list.query_map([kind.code()], |row| {
            let findings: i64 = row.get(2)?;
            let last = LastCheck {
                checked_at: row.get(1)?,
                findings: findings.unsigned_abs(),
                facts: row.get(3)?,
            };
            Ok((row.get(0)?, last))
        })?;
        rows.collect()
    }

    fn read_newest(&self) -> rusqlite::Result<BTreeMap<String, NewestBackup>> {
        // With max() SQLite takes the other columns from the row that has it.
        let sql = "SELECT database_path, unixepoch(max(backup_finish_date)), type = 'D',
                 key_algorithm IS NOT NULL
             FROM backupset WHERE NOT is_stream GROUP BY database_path";
        let mut list = self.db.prepare(sql)?;
        let rows = list.query_map([], |row| {
            let newest = NewestBackup {
                finished_at: row.get(1)?,
                full: row.get(2)?,
                encrypted: row.get(3)?,
                verified_at: None,
                verify_ok: None,
            };
            Ok((row.get::<_, String>(0)?, newest))
        })?;
        let mut newest = rows.collect::<rusqlite::Result<BTreeMap<_, _>>>()?;
        let sql = "SELECT database_path, failed, unixepoch(max(at)) FROM
             (SELECT database_path, 0 AS failed, restore_date AS at FROM restorehistory
              JOIN backupset USING(backup_set_uuid)
              UNION ALL SELECT database_path, finding_count > 0, check_date FROM lastcheck
              JOIN backupset ON subject_type = 'B' AND subject = backup_set_uuid)
             GROUP BY database_path, failed ORDER BY database_path, max(at), failed";
        let mut list = self.db.prepare(sql)?;
        let mut rows = list.query([])?;
        while let Some(row) = rows.next()? {
            let Some(known) = newest.get_mut(&row.get::<_, String>(0)?) else { continue };
            let failed: bool = row.get(1)?;
            if !failed {
                known.verified_at = row.get(2)?;
            }
            // The later one comes last.
            known.verify_ok = Some(!failed);
        }
        Ok(newest)
    }
}
