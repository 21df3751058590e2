//! Media sets that `prune` removed, and removals that were begun.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{TransactionBehavior, params};

use super::checks::{ABSENT, BESIDE_FAULT};
use super::dates::is_date;
use super::{Catalog, CatalogDevice, date_of_ms, failed};
use crate::RunError;

/// True in SQL for a row of `backupset` whose media set was removed from all its known places.
pub(super) const GONE: &str = "(EXISTS(SELECT * FROM prunedmedia AS p
        WHERE p.media_uuid = backupset.media_uuid AND p.prune_date IS NOT NULL)
     AND NOT EXISTS(SELECT * FROM backupmediafamily AS f
        WHERE f.media_uuid = backupset.media_uuid
          AND NOT EXISTS(SELECT * FROM prunedmedia AS p WHERE p.media_uuid = f.media_uuid
            AND p.physical_device_name = f.physical_device_name AND p.prune_date IS NOT NULL)))";

/// A file or object of a media set that is being removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// The media set's identifier, in hexadecimal digits.
    pub(crate) media_uuid: String,
    /// Absolute path, or address.
    pub(crate) device: String,
    /// Number of parts.
    pub(crate) parts: u32,
    /// Bytes of all parts.
    pub(crate) bytes: u64,
}

/// Media sets by identifier, each with a place from which it was removed.
pub(crate) type PrunedPlaces = BTreeSet<(String, String)>;

impl Catalog {
    /// Returns the media sets that were removed, each with the place.
    pub(crate) fn pruned_places(&self) -> Result<PrunedPlaces, RunError> {
        let read = || {
            let sql = "SELECT media_uuid, physical_device_name FROM prunedmedia
                 WHERE prune_date IS NOT NULL";
            let mut list = self.db.prepare(sql)?;
            let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }

    /// Records that these will be removed, all in one transaction.
    pub(crate) fn begin_pruning(
        &mut self,
        doomed: &[Doomed],
        (user, at_ms): (&str, i64),
    ) -> Result<(), RunError> {
        let path = self.path.clone();
        let mut write = || {
            // After a power cut SQLite would otherwise roll back the last commit where the end of
            // its journal was not synced: files would be gone of which nothing is known.
            self.db.pragma_update(None, "synchronous", "EXTRA")?;
            let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for each in doomed {
                transaction.execute(
                    "INSERT OR REPLACE INTO prunedmedia VALUES(?1, ?2, ?3, ?4, ?5, NULL, ?6)",
                    params![
                        each.media_uuid,
                        each.device,
                        each.parts,
                        i64::try_from(each.bytes).unwrap_or(i64::MAX),
                        date_of_ms(at_ms),
                        user
                    ],
                )?;
            }
            transaction.commit()
        };
        write().map_err(failed("record what is to be removed in", &path))
    }

    /// Records that a media set is gone from these places.
    pub(crate) fn end_pruning(
        &mut self,
        media_uuid: &str,
        devices: &[String],
        at_ms: i64,
    ) -> Result<(), RunError> {
        let path = self.path.clone();
        let mut write = || {
            let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for device in devices {
                transaction.execute(
                    "UPDATE prunedmedia SET prune_date = ?3
                     WHERE media_uuid = ?1 AND physical_device_name = ?2",
                    params![media_uuid, device, date_of_ms(at_ms)],
                )?;
            }
            transaction.commit()
        };
        write().map_err(failed("record what was removed in", &path))
    }

    /// Withdraws the record that a media set will be removed from a place: it is still there.
    pub(crate) fn drop_pruning(&mut self, media_uuid: &str, device: &str) -> Result<(), RunError> {
        let sql = "DELETE FROM prunedmedia WHERE media_uuid = ?1 AND physical_device_name = ?2
             AND prune_date IS NULL";
        self.db
            .execute(sql, [media_uuid, device])
            .map_err(failed("record what was kept in", &self.path))?;
        Ok(())
    }

    /// Returns the removals that were begun and did not end.
    pub(crate) fn begun_pruning(&self) -> Result<Vec<Doomed>, RunError> {
        let read = || {
            let sql = "SELECT media_uuid, physical_device_name, parts, bytes FROM prunedmedia
                 WHERE prune_date IS NULL ORDER BY media_uuid, physical_device_name";
            let mut list = self.db.prepare(sql)?;
            let rows = list.query_map([], |row| {
                Ok(Doomed {
                    media_uuid: row.get(0)?,
                    device: row.get(1)?,
                    parts: row.get(2)?,
                    bytes: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                })
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }

    /// Returns the time at which `prune` removed the media set that was last at a place: `None` if
    /// none was removed there.
    ///
    /// # Errors
    /// `History`.
    pub fn pruned_at(&self, place: &str) -> Result<Option<String>, RunError> {
        let sql = "SELECT max(prune_date) FROM prunedmedia WHERE physical_device_name = ?1";
        self.db.query_row(sql, [place], |row| row.get(0)).map_err(failed("read", &self.path))
    }

    /// Returns all known places of a media set.
    pub(crate) fn places_of(&self, media_uuid: &str) -> Result<Vec<CatalogDevice>, RunError> {
        let read = || {
            let sql = "SELECT family_sequence_number, physical_device_name FROM backupmediafamily
                 WHERE media_uuid = ?1";
            let mut list = self.db.prepare(sql)?;
            let rows = list.query_map([media_uuid], CatalogDevice::read)?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }

    /// Takes a place off that a media set was moved from.
    pub(crate) fn forget_place(&mut self, media_uuid: &str, device: &str) -> Result<(), RunError> {
        let path = self.path.clone();
        let mut write = || {
            let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for table in ["backupmediafamily", "prunedmedia"] {
                let sql = format!(
                    "DELETE FROM {table} WHERE media_uuid = ?1 AND physical_device_name = ?2"
                );
                transaction.execute(&sql, [media_uuid, device])?;
            }
            transaction.commit()
        };
        write().map_err(failed("record what was moved in", &path))
    }

    /// Returns the places from which no media set was removed, with the media set's identifier.
    pub(crate) fn present_places(&self) -> Result<BTreeMap<String, String>, RunError> {
        let read = || {
            let sql = "SELECT physical_device_name, media_uuid FROM backupmediafamily
                 WHERE physical_device_name NOT IN (SELECT physical_device_name FROM prunedmedia)";
            let mut list = self.db.prepare(sql)?;
            let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }

    /// Returns for each set that was ever read whole with its key, or found damaged, whether the
    /// last of these readings found no fault.
    pub(crate) fn last_readings(&self) -> Result<BTreeMap<String, bool>, RunError> {
        let read = || {
            // Damage counts before a success at the same time. At a time that cannot be read, a
            // success does not count, and damage was not seen to end.
            let sql = format!(
                "WITH reading AS
                 (SELECT backup_set_uuid, restore_date AS at, 0 AS failed FROM restorehistory
                  UNION ALL SELECT subject, check_date, finding_count > 0 FROM lastcheck
                  WHERE subject_type = 'B' AND facts IS NOT '{ABSENT}'
                    AND facts IS NOT '{BESIDE_FAULT}')
                 SELECT backup_set_uuid, substr(max(iif({dated}, at, '~') || failed), -1) = '0'
                 FROM reading WHERE failed OR {dated} GROUP BY backup_set_uuid",
                dated = is_date("at")
            );
            let mut list = self.db.prepare(&sql)?;
            let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }

    /// Returns the SHA-256 thumbprints of the certificates that open sets of a media set.
    pub(crate) fn encryptors_of(&self, media_uuid: &str) -> Result<Vec<String>, RunError> {
        let read = || {
            let sql = "SELECT DISTINCT thumbprint_sha256 FROM backupsetencryptor
                 JOIN backupset USING(backup_set_uuid) WHERE media_uuid = ?1";
            let mut list = self.db.prepare(sql)?;
            let rows = list.query_map([media_uuid], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(failed("read", &self.path))
    }
}
