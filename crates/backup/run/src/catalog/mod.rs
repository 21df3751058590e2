//! The backup history: an SQLite database beside the key store, with the columns of SQL Server's
//! `msdb.dbo.backupset`.
//!
//! It is only informative; no restore needs it, and [`Catalog::record`] of each set in the
//! available media sets rebuilds it. Several processes may write at once.

mod checks;
mod dates;
mod pruned;
mod restored;
mod row;
mod schema;
mod unfinished;

use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use tdekit_key_store::{give_to_owner_of_directory, open_ordinary};
use tdekit_sqlite_convert::file_uri;

pub(crate) use checks::WRONG_STATE;
pub use checks::{Check, CheckedKind, LastCheck, NewestBackup};
pub use dates::Undated;
pub(crate) use pruned::{Doomed, PrunedPlaces};
pub use restored::{CatalogRestore, CatalogStatement};
pub use row::{CatalogDevice, CatalogEncryptor, CatalogSet, date_of_ms};
pub(crate) use unfinished::Removal;

use crate::{RunError, SetInfo};

/// Name of the catalog in the key store's directory.
pub use tdekit_key_store::HISTORY_FILE_NAME as CATALOG_FILE_NAME;

/// `PRAGMA application_id`: "tdkh".
const APPLICATION_ID: i64 = 0x7464_6b68;
/// Mark of a file without tables.
const NEW: i64 = 0;
/// Stands for tables without a mark: those of another program.
const FOREIGN: i64 = -1;
/// Maximum wait for another writer.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Writes a row. A date of a known one is written only where it is not one.
const INSERT: &str = "
    INSERT INTO backupset(backup_set_uuid, media_uuid, name, description, position, type,
        database_name, database_path, database_guid, server_name, user_name, software_name,
        backup_start_date, backup_finish_date, expiration_date, backup_size,
        compressed_backup_size, compression_algorithm, key_algorithm, encryptor_thumbprint,
        encryptor_type, is_copy_only, is_source_encrypted, is_stream, is_signed,
        has_backup_checksums, page_size, pages, differential_base_guid)
    VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)
    ON CONFLICT(backup_set_uuid) DO UPDATE SET is_signed = max(is_signed, excluded.is_signed)";
const DATES: [&str; 3] = ["backup_start_date", "backup_finish_date", "expiration_date"];

/// The use of a set of the media, for [`Catalog::record_use`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogUse {
    /// A database was restored.
    Database,
    /// A stream was restored.
    Stream,
    /// It was verified with the key.
    Verified,
}

/// Returns true if a file with this beginning is a history: SQLite's header has its
/// `application_id` at 68.
pub(crate) fn is_history(head: &[u8]) -> bool {
    let id = head.get(68..).and_then(|bytes| bytes.first_chunk());
    id.is_some_and(|id| i64::from(u32::from_be_bytes(*id)) == APPLICATION_ID)
}

/// Fails for a file that somebody else may have put there: a link, a pipe, another user's file.
/// Root reads those of the user whose directory it is, whose key store it opens as well.
fn refuse_foreign(path: &Path) -> io::Result<()> {
    let facts = std::fs::symlink_metadata(path)?;
    let me = match rustix::process::geteuid().as_raw() {
        0 => std::fs::metadata(path.parent().unwrap_or(path))?.uid(),
        me => me,
    };
    let foreign = facts.uid() != me && facts.uid() != 0;
    match facts.is_file() && facts.nlink() == 1 && !foreign {
        true => Ok(()),
        false => Err(io::Error::other("it is not an ordinary file of yours with one name")),
    }
}

/// The requested rows of the history.
#[derive(Debug, Clone, Default)]
pub struct CatalogFilter {
    /// Only rows of the database with this name or this path.
    pub database: Option<String>,
}

/// The history, open.
#[derive(Debug)]
pub struct Catalog {
    db: Connection,
    path: PathBuf,
}

impl Catalog {
    /// Opens the history in the directory of the key store; makes it, and the directory, for their
    /// owner only, if it does not exist.
    ///
    /// # Errors
    /// `Io`, `History`.
    pub fn open(dir: &Path) -> Result<Self, RunError> {
        let path = dir.join(CATALOG_FILE_NAME);
        if !dir.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(RunError::io("create", dir))?;
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                refuse_foreign(&path).map_err(unusable(&path))?;
            }
            Err(error) => return Err(RunError::io("create", &path)(error)),
            Ok(file) => give_to_owner_of_directory(&file, &path)
                .map_err(RunError::io("change the owner of", &path))?,
        }
        let mut catalog = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        catalog.prepare()?;
        Ok(catalog)
    }

    /// Opens the history for reading; `None` if there is none. The remains of an interrupted writer
    /// are rolled back, and an older version is migrated, which requires a writable file.
    ///
    /// # Errors
    /// `Io`, `History`.
    pub fn open_existing(dir: &Path) -> Result<Option<Self>, RunError> {
        let path = dir.join(CATALOG_FILE_NAME);
        if std::fs::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        refuse_foreign(&path).map_err(unusable(&path))?;
        let catalog = match Self::connect(path.clone(), OpenFlags::SQLITE_OPEN_READ_ONLY) {
            Err(error) if error.sqlite().is_some_and(is_cut_short) => {
                Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?
            }
            other => other?,
        };
        match catalog.marks().map_err(failed("read", &catalog.path))? {
            // A process that is just starting has made it but not filled it yet.
            (0, _) => Ok(None),
            (_, schema::VERSION) => Ok(Some(catalog)),
            (_, version) => match Self::open(dir) {
                Err(error) if error.sqlite().is_some_and(is_read_only) => {
                    schema::complete(&catalog.db, version)
                        .map_err(failed("read", &catalog.path))?;
                    Ok(Some(catalog))
                }
                opened => opened.map(Some),
            },
        }
    }

    /// Returns the file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a set. A known set gets the additions since: recipients, places, a signature.
    /// Returns true if it was new.
    ///
    /// # Errors
    /// `History`.
    pub fn record(&mut self, set: &CatalogSet) -> Result<bool, RunError> {
        let path = self.path.clone();
        self.record_in_transaction(set).map_err(failed("record a set in", &path))
    }

    fn record_in_transaction(&mut self, set: &CatalogSet) -> rusqlite::Result<bool> {
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let known = "SELECT count(*) FROM backupset WHERE backup_set_uuid = ?1";
        let known: i64 = transaction.query_row(known, [&set.backup_set_uuid], |row| row.get(0))?;
        set.write(&mut transaction.prepare(&upsert())?)?;
        if set.kind == "L" {
            let sql = "INSERT OR IGNORE INTO logset VALUES(?1)";
            transaction.execute(sql, [&set.backup_set_uuid])?;
        }
        for (ordinal, encryptor) in (1i64..).zip(&set.encryptors) {
            transaction.execute(
                "INSERT OR IGNORE INTO backupsetencryptor VALUES(?1, ?2, ?3, ?4, ?5)",
                params![
                    set.backup_set_uuid,
                    ordinal,
                    encryptor.certificate_name,
                    encryptor.thumbprint,
                    encryptor.thumbprint_sha256,
                ],
            )?;
        }
        for device in &set.devices {
            transaction.execute(
                "INSERT OR IGNORE INTO backupmediafamily VALUES(?1, ?2, ?3)",
                params![set.media_uuid, device.family_sequence_number, device.physical_device_name],
            )?;
            // It was put back there.
            transaction.execute(
                "DELETE FROM prunedmedia WHERE media_uuid = ?1 AND physical_device_name = ?2
                 AND prune_date IS NOT NULL",
                params![set.media_uuid, device.physical_device_name],
            )?;
        }
        transaction.commit()?;
        Ok(known == 0)
    }

    /// Records that a set was restored or verified. `set_uuid` is as
    /// [`CatalogSet::backup_set_uuid`]; the time is milliseconds since 1970.
    ///
    /// # Errors
    /// `History`.
    pub fn record_use(
        &mut self,
        set_uuid: &str,
        done: CatalogUse,
        destination: Option<&str>,
        user: &str,
        at_ms: i64,
    ) -> Result<(), RunError> {
        let kind = match done {
            CatalogUse::Database => "D",
            CatalogUse::Stream => "S",
            CatalogUse::Verified => "V",
        };
        let sql = "INSERT INTO restorehistory(restore_date, restore_type, backup_set_uuid,
             destination_database_name, user_name) VALUES(?1, ?2, ?3, ?4, ?5)";
        self.db
            .execute(sql, params![date_of_ms(at_ms), kind, set_uuid, destination, user])
            .map_err(failed("record a restore in", &self.path))?;
        Ok(())
    }

    /// Removes the sets of the databases with this name, ignoring case, and their restores from the
    /// history. The sets themselves stay. Returns their number.
    ///
    /// # Errors
    /// `History`.
    pub fn forget(&mut self, database_name: &str) -> Result<usize, RunError> {
        self.remove("database_name = ?1 COLLATE NOCASE", database_name)
            .map_err(failed("change", &self.path))
    }

    /// Removes the sets that ended before this time, in milliseconds since 1970, and their restores
    /// from the history. The sets themselves stay, and so do rows whose time cannot be read.
    /// Returns their number.
    ///
    /// # Errors
    /// `History`.
    pub fn forget_before(&mut self, oldest_ms: i64) -> Result<usize, RunError> {
        let oldest = date_of_ms(oldest_ms);
        self.remove("julianday(backup_finish_date) < julianday(?1)", &oldest)
            .map_err(failed("change", &self.path))
    }

    fn remove(&mut self, which: &str, value: &str) -> rusqlite::Result<usize> {
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let of = format!("SELECT backup_set_uuid FROM backupset WHERE {which}");
        for table in ["restorehistory", "backupsetencryptor", "logset"] {
            let sql = format!("DELETE FROM {table} WHERE backup_set_uuid IN ({of})");
            transaction.execute(&sql, [value])?;
        }
        let sql = format!("DELETE FROM backupset WHERE {which}");
        let count = transaction.execute(&sql, [value])?;
        for table in ["backupmediafamily", "prunedmedia"] {
            let sql = format!(
                "DELETE FROM {table} WHERE media_uuid NOT IN (SELECT media_uuid FROM backupset)"
            );
            transaction.execute(&sql, [])?;
        }
        transaction.execute(restored::DELETE_ORPHANS, [])?;
        transaction.commit()?;
        Ok(count)
    }

    /// Returns the sets, by their start time; first those whose start time cannot be read.
    ///
    /// # Errors
    /// `History`.
    pub fn sets(&self, filter: &CatalogFilter) -> Result<Vec<CatalogSet>, RunError> {
        self.read_sets(filter).map_err(failed("read", &self.path))
    }

    /// Returns the sets of a database by its path as the system resolves it; if there are none,
    /// those by `database` as given: a path or a name.
    ///
    /// # Errors
    /// `History`.
    pub fn sets_of(&self, database: &Path) -> Result<Vec<CatalogSet>, RunError> {
        let resolved = fs::canonicalize(database).or_else(|_| std::path::absolute(database));
        for name in [resolved.ok().as_deref(), Some(database)].into_iter().flatten() {
            let database = Some(name.to_string_lossy().into_owned());
            let found = self.sets(&CatalogFilter { database })?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// Returns the sets of a media set that are not among `present`, the existing ones, and are
    /// newer than all of these: finished later, or recorded later.
    ///
    /// # Errors
    /// `History`.
    pub fn newer_than(
        &self,
        media_id: &[u8; 16],
        present: &[SetInfo],
    ) -> Result<Vec<CatalogSet>, RunError> {
        self.read_newer(media_id, present).map_err(failed("read", &self.path))
    }

    fn read_newer(
        &self,
        media_id: &[u8; 16],
        present: &[SetInfo],
    ) -> rusqlite::Result<Vec<CatalogSet>> {
        let last_date = present.iter().map(|set| set.finished_ms).max().map(date_of_ms);
        let present: HashSet<String> = present.iter().map(|set| hex::encode(set.set_id)).collect();
        let mut list = self.db.prepare(
            "SELECT * FROM backupset WHERE media_uuid = ?1 ORDER BY backup_finish_date, position",
        )?;
        let rows = list.query_map([hex::encode(media_id)], |row| {
            Ok((row.get::<_, i64>("backup_set_id")?, CatalogSet::read(row)?))
        })?;
        let (there, lacking): (Vec<_>, Vec<_>) = rows
            .collect::<rusqlite::Result<Vec<_>>>()?
            .into_iter()
            .partition(|(_, set)| present.contains(&set.backup_set_uuid));
        let last_id = there.iter().map(|(id, _)| *id).max();
        let newer = |(id, set): &(i64, CatalogSet)| {
            last_id.is_some_and(|last| *id > last)
                || Some(&set.backup_finish_date) > last_date.as_ref()
        };
        Ok(lacking.into_iter().filter(newer).map(|(_, set)| set).collect())
    }

    fn read_sets(&self, filter: &CatalogFilter) -> rusqlite::Result<Vec<CatalogSet>> {
        let sql = format!(
            "SELECT * FROM backupset
             WHERE ?1 IS NULL OR database_name = ?1 OR database_path = ?1
             ORDER BY {}, backup_start_date, backup_set_id",
            dates::is_date("backup_start_date")
        );
        let mut list = self.db.prepare(&sql)?;
        let sets = list.query_map([&filter.database], CatalogSet::read)?;
        let mut sets = sets.collect::<rusqlite::Result<Vec<_>>>()?;
        let mut encryptors = self.db.prepare(
            "SELECT certificate_name, thumbprint, thumbprint_sha256 FROM backupsetencryptor
             WHERE backup_set_uuid = ?1 ORDER BY ordinal, thumbprint_sha256",
        )?;
        let mut devices = self.db.prepare(
            "SELECT family_sequence_number, physical_device_name FROM backupmediafamily
             WHERE media_uuid = ?1 ORDER BY family_sequence_number, physical_device_name",
        )?;
        let sql = format!(
            "SELECT max(prune_date) AS pruned FROM backupset JOIN prunedmedia USING(media_uuid)
             WHERE backup_set_uuid = ?1 AND {}",
            pruned::GONE
        );
        let mut pruned = self.db.prepare(&sql)?;
        let mut logs = self.db.prepare("SELECT 1 FROM logset WHERE backup_set_uuid = ?1")?;
        for set in &mut sets {
            if logs.exists([&set.backup_set_uuid])? {
                "L".clone_into(&mut set.kind);
            }
            set.prune_date = pruned
                .query_row([&set.backup_set_uuid], |row| dates::lossy_or_null(row, "pruned"))?;
            set.encryptors = encryptors
                .query_map([&set.backup_set_uuid], CatalogEncryptor::read)?
                .collect::<rusqlite::Result<_>>()?;
            set.devices = devices
                .query_map([&set.media_uuid], CatalogDevice::read)?
                .collect::<rusqlite::Result<_>>()?;
        }
        Ok(sets)
    }

    fn connect(path: PathBuf, flags: OpenFlags) -> Result<Self, RunError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let failed = || failed("open", &path);
        // SQLite would wait for the writer of a pipe.
        open_ordinary(&path).map_err(unusable(&path))?;
        // Plain, whatever the environment requires for new databases: it has only what the headers
        // of the media reveal to anyone.
        let uri = format!("{}?tdekit=plain", file_uri(&path));
        let db = Connection::open_with_flags(uri, flags).map_err(failed())?;
        db.busy_timeout(BUSY_WAIT).map_err(failed())?;
        let catalog = Self { db, path: path.clone() };
        let (application, version) = catalog.marks().map_err(failed())?;
        match (application, version) {
            (NEW, 0) | (APPLICATION_ID, 1..=schema::VERSION) => Ok(catalog),
            (APPLICATION_ID, version) if version > schema::VERSION => {
                let media = path.display().to_string();
                Err(RunError::History(Box::new(RunError::FutureVersion { media, version })))
            }
            _ => Err(failed()(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB),
                Some("it is not a backup history".to_owned()),
            ))),
        }
    }

    /// Returns the application's mark and the version; [`FOREIGN`] for tables without marks. Both
    /// values are of one state: another process may be making the tables.
    fn marks(&self) -> rusqlite::Result<(i64, u16)> {
        let state = self.db.unchecked_transaction()?;
        let pragma = |name| state.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let version = u16::try_from(pragma("user_version")?).unwrap_or(u16::MAX);
        let application = pragma("application_id")?;
        let sql = "SELECT EXISTS(SELECT * FROM sqlite_schema)";
        match application == NEW && state.query_row(sql, [], |row| row.get(0))? {
            true => Ok((FOREIGN, version)),
            false => Ok((application, version)),
        }
    }

    /// Makes the tables if they do not exist, and migrates those of an older version.
    fn prepare(&mut self) -> Result<(), RunError> {
        let (_, version) = self.marks().map_err(failed("read", &self.path))?;
        if version == schema::VERSION {
            return Ok(());
        }
        schema::migrate(&mut self.db, &schema::STEPS)
            .map_err(failed("make the tables of", &self.path))
    }
}

fn upsert() -> String {
    let mend = |column: &str| {
        let is_date = dates::is_date(&format!("backupset.{column}"));
        let keep = format!("{is_date} OR backupset.{column} IS NULL");
        format!(", {column} = iif({keep}, backupset.{column}, excluded.{column})")
    };
    let mends: String = DATES.into_iter().map(mend).collect();
    format!("{INSERT}{mends}")
}

/// Returns true if a history cannot be written, which only reading tolerates.
fn is_read_only(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    let code = error.sqlite_error_code();
    matches!(code, Some(ReadOnly | CannotOpen | PermissionDenied))
}

/// Returns true if a read-only connection found a transaction that must be rolled back.
fn is_cut_short(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::SQLITE_READONLY_ROLLBACK;
    error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_READONLY_ROLLBACK)
}

/// For `map_err`: SQLite refused an operation on the catalog.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(rusqlite::Error) -> RunError + use<> {
    let path = path.to_path_buf();
    move |source| RunError::History(Box::new(RunError::Database { action, path, source }))
}

/// For `map_err`: what is there is not a file that can be used.
fn unusable(path: &Path) -> impl FnOnce(io::Error) -> RunError + use<> {
    let path = path.to_path_buf();
    move |source| RunError::History(Box::new(RunError::Io { action: "use", path, source }))
}

#[cfg(test)]
mod tests;
