//! The history's tables, version by version: `docs/format/history.md`.

use rusqlite::{Connection, TransactionBehavior};

use super::APPLICATION_ID;

/// `PRAGMA user_version` of the newest tables.
pub(super) const VERSION: u16 = 5;

/// The migration from each version to the next one; the first makes the tables.
pub(super) const STEPS: [&str; VERSION as usize] = [TABLES, CHECKS, PRUNED, LOGS, STATEMENTS];

const TABLES: &str = "
    CREATE TABLE backupset(
        backup_set_id INTEGER PRIMARY KEY AUTOINCREMENT,
        backup_set_uuid TEXT NOT NULL UNIQUE,
        media_uuid TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        position INTEGER NOT NULL,
        type TEXT NOT NULL CHECK(type IN ('D', 'I')),
        database_name TEXT NOT NULL,
        database_path TEXT NOT NULL,
        database_guid TEXT,
        server_name TEXT NOT NULL,
        user_name TEXT NOT NULL,
        software_name TEXT NOT NULL,
        backup_start_date TEXT NOT NULL,
        backup_finish_date TEXT NOT NULL,
        expiration_date TEXT,
        backup_size INTEGER NOT NULL,
        compressed_backup_size INTEGER NOT NULL,
        compression_algorithm TEXT,
        key_algorithm TEXT,
        encryptor_thumbprint TEXT,
        encryptor_type TEXT,
        is_copy_only INTEGER NOT NULL,
        is_source_encrypted INTEGER NOT NULL,
        is_stream INTEGER NOT NULL,
        is_signed INTEGER NOT NULL,
        has_backup_checksums INTEGER NOT NULL,
        page_size INTEGER NOT NULL,
        pages INTEGER NOT NULL,
        differential_base_guid TEXT);
    CREATE INDEX backupset_by_database ON backupset(database_name, backup_start_date);
    CREATE TABLE backupsetencryptor(
        backup_set_uuid TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        certificate_name TEXT NOT NULL,
        thumbprint TEXT NOT NULL,
        thumbprint_sha256 TEXT NOT NULL,
        PRIMARY KEY(backup_set_uuid, thumbprint_sha256)) WITHOUT ROWID;
    CREATE TABLE backupmediafamily(
        media_uuid TEXT NOT NULL,
        family_sequence_number INTEGER NOT NULL,
        physical_device_name TEXT NOT NULL,
        PRIMARY KEY(media_uuid, family_sequence_number, physical_device_name)) WITHOUT ROWID;
    CREATE TABLE restorehistory(
        restore_history_id INTEGER PRIMARY KEY AUTOINCREMENT,
        restore_date TEXT NOT NULL,
        restore_type TEXT NOT NULL CHECK(restore_type IN ('D', 'S', 'V')),
        backup_set_uuid TEXT NOT NULL,
        destination_database_name TEXT,
        user_name TEXT NOT NULL);";

/// Version 2: the last check of each subject.
const CHECKS: &str = "
    CREATE TABLE lastcheck(
        subject_type TEXT NOT NULL CHECK(subject_type IN ('B', 'D', 'M')),
        subject TEXT NOT NULL,
        check_date TEXT NOT NULL,
        finding_count INTEGER NOT NULL,
        facts TEXT,
        user_name TEXT NOT NULL,
        PRIMARY KEY(subject_type, subject)) WITHOUT ROWID;";

/// Version 3: media sets that were removed.
const PRUNED: &str = "
    CREATE TABLE prunedmedia(
        media_uuid TEXT NOT NULL,
        physical_device_name TEXT NOT NULL,
        parts INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        begin_date TEXT NOT NULL,
        prune_date TEXT,
        user_name TEXT NOT NULL,
        PRIMARY KEY(media_uuid, physical_device_name)) WITHOUT ROWID;";

/// Version 4: the sets of type `I` that are log backups.
const LOGS: &str = "
    CREATE TABLE logset(backup_set_uuid TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;";

/// Version 5: the statements of T-SQL that restored databases.
const STATEMENTS: &str = "
    CREATE TABLE restorestatement(
        restore_history_id INTEGER NOT NULL PRIMARY KEY,
        database_name TEXT NOT NULL,
        login_name TEXT NOT NULL,
        set_type TEXT NOT NULL CHECK(set_type IN ('D', 'I', 'L')),
        is_replace INTEGER NOT NULL,
        is_recovery INTEGER NOT NULL,
        stop_date TEXT,
        device_count INTEGER NOT NULL);";

/// Completes a history of an older version for this connection alone, which may not write it: the
/// additions of later versions are present but empty.
pub(super) fn complete(db: &Connection, version: u16) -> rusqlite::Result<()> {
    for step in STEPS.iter().skip(version.into()) {
        db.execute_batch(&step.replace("CREATE TABLE", "CREATE TEMP TABLE"))?;
    }
    Ok(())
}

/// Migrates a history to the version at the end of the steps, in one transaction. A history that is
/// already migrated, perhaps by another process, is left alone.
pub(super) fn migrate(db: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: u16 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in steps.iter().skip(version.into()) {
        transaction.execute_batch(step)?;
    }
    let newest = u16::try_from(steps.len()).unwrap_or(u16::MAX);
    if version < newest {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", newest)?;
    }
    transaction.commit()
}
