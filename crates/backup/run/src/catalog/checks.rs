//! The last check of each backup set, database and server, and the newest backup of each database.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use super::dates::is_date;
use super::pruned::GONE;
use super::{Catalog, date_of_ms, failed};
use crate::RunError;

/// The facts of a set that was not there when it was to be read. Such a row is no reading: it says
/// nothing of the set's bytes.
pub(super) const ABSENT: &str = "{\"absent\":true}";

/// The facts of a log set whose pages do not follow their state before. Each block of it opens:
/// only a restore shows that this ended.
pub(crate) const WRONG_STATE: &str = "{\"wrong_state\":true}";

/// The facts of a set of an archive beside which an object is missing, or cannot be read, so that
/// no set of it is known. Such a row is not a reading of the set: only one of the archive ends it.
pub(crate) const BESIDE_FAULT: &str = "{\"beside_fault\":true}";

/// The kind of a check's subject.
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

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a> {
    /// Its subject's kind.
    pub kind: CheckedKind,
    /// Its subject.
    pub subject: &'a str,
    /// Number of findings.
    pub findings: u64,
    /// Its statistics, as JSON.
    pub facts: Option<&'a str>,
    /// The user who requested it.
    pub user: &'a str,
    /// Time of its end, milliseconds since 1970.
    pub at_ms: i64,
}

/// The last check of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCheck {
    /// Time of its end, seconds since 1970.
    pub checked_at: i64,
    /// Number of findings.
    pub findings: u64,
    /// Its statistics, as JSON.
    pub facts: Option<String>,
}

/// The newest backup of a database in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestBackup {
    /// Time of completion, seconds since 1970.
    pub finished_at: i64,
    /// True for a full backup.
    pub full: bool,
    /// True for a log set of an archive, or a log backup.
    pub log: bool,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// Time at which a set of the database was last read completely with its key: verified or
    /// restored.
    pub verified_at: Option<i64>,
    /// Time at which a set of the database was last restored on trial.
    pub restored_at: Option<i64>,
    /// True if no set of the database is known to be damaged; `None` if none was ever read. Damage
    /// of a set, and its absence, count until it, or one at least as new, is read completely later.
    pub verify_ok: Option<bool>,
    /// True if that is not so because a set was not there, and none is known to be damaged.
    pub absent: bool,
    /// The identifier of the encrypted database that was backed up, hexadecimal.
    pub database_guid: Option<String>,
    /// SHA-1 thumbprint of the first certificate that opens it.
    pub encryptor_thumbprint: Option<String>,
}

impl Catalog {
    /// Records a check, replacing an earlier one of its subject. A set that is whole does not end
    /// that an object beside it is not (`end_beside_fault` does).
    ///
    /// # Errors
    /// `History`.
    pub fn record_check(&mut self, check: &Check<'_>) -> Result<(), RunError> {
        let Check { kind, subject, findings, facts, user, at_ms } = *check;
        let date = date_of_ms(at_ms);
        let sql = "INSERT INTO lastcheck VALUES(?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT(subject_type, subject) DO UPDATE SET check_date = excluded.check_date,
                 finding_count = excluded.finding_count, facts = excluded.facts,
                 user_name = excluded.user_name
             WHERE excluded.finding_count > 0 OR facts IS NOT ?7";
        let findings = i64::try_from(findings).unwrap_or(i64::MAX);
        self.db
            .execute(sql, params![kind.code(), subject, date, findings, facts, user, BESIDE_FAULT])
            .map_err(failed("record a check in", &self.path))?;
        Ok(())
    }

    /// Records that a backup set, or what it stands on, was not there when it was to be read.
    /// Damage that is recorded stays so: only a reading shows that it ended.
    ///
    /// # Errors
    /// `History`.
    pub fn record_absent(&mut self, set: &str, user: &str, at_ms: i64) -> Result<(), RunError> {
        let kind = CheckedKind::Backup.code();
        let sql = "INSERT INTO lastcheck VALUES(?1, ?2, ?3, 1, ?4, ?5)
             ON CONFLICT(subject_type, subject) DO UPDATE SET check_date = excluded.check_date,
                 finding_count = 1, facts = excluded.facts, user_name = excluded.user_name
             WHERE finding_count = 0 OR facts IS excluded.facts";
        self.db
            .execute(sql, params![kind, set, date_of_ms(at_ms), ABSENT, user])
            .map_err(failed("record a check in", &self.path))?;
        Ok(())
    }

    /// Records that an object of an archive is missing, or cannot be read, by a set of the archive:
    /// the nearest one before it. Damage of that set itself stays recorded, with the new time.
    ///
    /// # Errors
    /// `History`.
    pub(crate) fn record_beside_fault(
        &mut self,
        set: &str,
        user: &str,
        at_ms: i64,
    ) -> Result<(), RunError> {
        let kind = CheckedKind::Backup.code();
        let sql = "INSERT INTO lastcheck VALUES(?1, ?2, ?3, 1, ?4, ?5)
             ON CONFLICT(subject_type, subject) DO UPDATE SET check_date = excluded.check_date,
                 user_name = excluded.user_name, finding_count = max(finding_count, 1),
                 facts = iif(finding_count = 0 OR facts IS ?6, excluded.facts, facts)";
        self.db
            .execute(sql, params![kind, set, date_of_ms(at_ms), BESIDE_FAULT, user, ABSENT])
            .map_err(failed("record a check in", &self.path))?;
        Ok(())
    }

    /// Ends what [`Self::record_beside_fault`] records of a set: its archive was read, and nothing
    /// beside it is wrong any more.
    ///
    /// # Errors
    /// `History`.
    pub(crate) fn end_beside_fault(&mut self, set: &str) -> Result<(), RunError> {
        let sql = "DELETE FROM lastcheck WHERE subject_type = ?1 AND subject = ?2 AND facts = ?3";
        self.db
            .execute(sql, params![CheckedKind::Backup.code(), set, BESIDE_FAULT])
            .map_err(failed("record a check in", &self.path))?;
        Ok(())
    }

    /// Returns the identifiers of the sets that the history knows at these places, without those
    /// that `prune` removed from there.
    ///
    /// # Errors
    /// `History`.
    pub fn sets_at(&self, places: &[String]) -> Result<Vec<String>, RunError> {
        let read = || {
            let sql = "SELECT DISTINCT backup_set_uuid FROM backupset
                 JOIN backupmediafamily AS place USING(media_uuid)
                 WHERE place.physical_device_name = ?1 AND NOT EXISTS(SELECT * FROM prunedmedia AS p
                     WHERE p.media_uuid = place.media_uuid AND p.prune_date IS NOT NULL
                       AND p.physical_device_name = place.physical_device_name)";
            let mut list = self.db.prepare(sql)?;
            let mut all = Vec::new();
            for place in places {
                let found = list.query_map([place], |row| row.get(0))?;
                all.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            Ok(all)
        };
        read().map_err(failed("read", &self.path))
    }

    /// Returns the last check of each subject of a kind, without those whose date cannot be read.
    ///
    /// # Errors
    /// `History`.
    pub fn last_checks(&self, kind: CheckedKind) -> Result<BTreeMap<String, LastCheck>, RunError> {
        self.read_checks(kind).map_err(failed("read", &self.path))
    }

    /// Returns the newest backup of each database, by the database's path. Streams have none, and
    /// what `prune` removed does not count; nor does a set or a reading whose date cannot be read,
    /// except as damage.
    ///
    /// # Errors
    /// `History`.
    pub fn newest_backups(&self) -> Result<BTreeMap<String, NewestBackup>, RunError> {
        self.read_newest().map_err(failed("read", &self.path))
    }

    /// Returns the places of all media sets.
    ///
    /// # Errors
    /// `History`.
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
        let sql = format!(
            "SELECT subject, unixepoch(check_date), finding_count, facts FROM lastcheck
             WHERE subject_type = ?1 AND {}",
            is_date("check_date")
        );
        let mut list = self.db.prepare(&sql)?;
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
        // With max(), SQLite takes the other columns from the row with the maximum.
        let sql = format!(
            "SELECT database_path, unixepoch(max(backup_finish_date)), type = 'D',
                 key_algorithm IS NOT NULL, database_guid, encryptor_thumbprint,
                 log.backup_set_uuid IS NOT NULL
             FROM backupset LEFT JOIN logset AS log
                 ON log.backup_set_uuid = backupset.backup_set_uuid
             WHERE NOT is_stream AND NOT {GONE} AND {}
             GROUP BY database_path",
            is_date("backup_finish_date")
        );
        let mut list = self.db.prepare(&sql)?;
        let rows = list.query_map([], |row| {
            let newest = NewestBackup {
                finished_at: row.get(1)?,
                full: row.get(2)?,
                log: row.get(6)?,
                encrypted: row.get(3)?,
                verified_at: None,
                restored_at: None,
                verify_ok: None,
                absent: false,
                database_guid: row.get(4)?,
                encryptor_thumbprint: row.get(5)?,
            };
            Ok((row.get::<_, String>(0)?, newest))
        })?;
        let mut newest = rows.collect::<rusqlite::Result<BTreeMap<_, _>>>()?;
        let sql = format!(
            "SELECT database_path, unixepoch(max(restore_date)) FROM restorehistory
             JOIN backupset USING(backup_set_uuid)
             WHERE restore_type = 'V' AND destination_database_name IS NOT NULL AND NOT {GONE}
                 AND {} GROUP BY database_path",
            is_date("restore_date")
        );
        let mut list = self.db.prepare(&sql)?;
        let mut rows = list.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(known) = newest.get_mut(&row.get::<_, String>(0)?) {
                known.restored_at = row.get(1)?;
            }
        }
        // A reading with its result: the set, its age, the time, whether it found it absent (1) or
        // damaged (2), and whether the damage is that of an object beside it: a later reading of
        // the same set does not end that.
        let sql = format!(
            "WITH reading AS
             (SELECT database_path, backup_finish_date AS made, restore_date AS at, 0 AS failed,
                  0 AS beside
              FROM restorehistory JOIN backupset USING(backup_set_uuid) WHERE NOT {GONE}
              UNION ALL SELECT database_path, backup_finish_date, check_date,
                  iif(finding_count = 0, 0, iif(facts IS '{ABSENT}', 1, 2)),
                  facts IS '{BESIDE_FAULT}'
              FROM lastcheck JOIN backupset ON subject_type = 'B' AND subject = backup_set_uuid
              WHERE NOT {GONE}),
             success AS (SELECT * FROM reading AS one WHERE NOT failed AND {dated})
             SELECT database_path, failed, unixepoch(max(at)) FROM
             (SELECT * FROM success UNION ALL SELECT * FROM reading AS one
              WHERE failed AND NOT EXISTS(SELECT * FROM success AS later
                 WHERE {dated} AND later.database_path = one.database_path
                   AND later.made >= one.made AND later.at > one.at
                   AND (later.made > one.made OR NOT one.beside)))
             GROUP BY database_path, failed ORDER BY failed",
            dated = format_args!("{} AND {}", is_date("one.at"), is_date("one.made"))
        );
        let mut list = self.db.prepare(&sql)?;
        let mut rows = list.query([])?;
        while let Some(row) = rows.next()? {
            let Some(known) = newest.get_mut(&row.get::<_, String>(0)?) else { continue };
            let failed: i64 = row.get(1)?;
            if failed == 0 {
                known.verified_at = row.get(2)?;
            }
            // Damage comes last.
            known.verify_ok = Some(failed == 0);
            known.absent = failed == 1;
        }
        Ok(newest)
    }
}
