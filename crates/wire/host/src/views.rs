//! Views whose rows come from the key store, the databases' headers and the backup history.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tdekit_backup_run::{
    Catalog, CatalogFilter, CatalogRestore, CatalogSet, CatalogStatement, RunError,
};
use tdekit_key_crypto::Algorithm;
use tdekit_sqlite_convert::{DatabaseError, key_change_percent};
use tdekit_sqlite_page::Header;
use tdekit_wire_tds::{SqlType, Value};
use tdekit_wire_tsql::{Error, Rows};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::databases::Databases;
use super::encryption::{Encryption, header, thumbprint_of};
use super::keys::Keys;
use super::media::lsn_of;
use super::rows::{
    BIG, BIT, DATETIME, GUID, INT, LSN, Named, REAL, SIZE, TINY, binary, datetime, guid, guid_of,
    int, maybe, rows, size, string, text, thumbprint,
};
use super::scan::Scan;
use super::switches::context_switches;
use super::{fault, kept};

const CERTIFICATES: &[(&str, SqlType)] = &[
    ("name", text(128)),
    ("certificate_id", INT),
    ("principal_id", INT),
    ("pvt_key_encryption_type", SqlType::Char(2)),
    ("pvt_key_encryption_type_desc", text(60)),
    ("is_active_for_begin_dialog", BIT),
    ("issuer_name", text(442)),
    ("cert_serial_number", text(64)),
    ("sid", binary(85)),
    ("string_sid", text(128)),
    ("subject", text(4000)),
    ("expiry_date", DATETIME),
    ("start_date", DATETIME),
    ("thumbprint", binary(32)),
    ("attested_by", text(260)),
    ("pvt_key_last_backup_date", DATETIME),
    ("key_length", INT),
];

const SYMMETRIC_KEYS: &[(&str, SqlType)] = &[
    ("name", text(128)),
    ("principal_id", INT),
    ("symmetric_key_id", INT),
    ("key_length", INT),
    ("key_algorithm", SqlType::Char(2)),
    ("algorithm_desc", text(60)),
    ("create_date", DATETIME),
    ("modify_date", DATETIME),
    ("key_guid", GUID),
    ("key_thumbprint", SqlType::SqlVariant),
    ("provider_type", text(120)),
    ("cryptographic_provider_guid", GUID),
    ("cryptographic_provider_algid", SqlType::SqlVariant),
];

const ENCRYPTION_KEYS: &[(&str, SqlType)] = &[
    ("database_id", INT),
    ("encryption_state", INT),
    ("create_date", DATETIME),
    ("regenerate_date", DATETIME),
    ("modify_date", DATETIME),
    ("set_date", DATETIME),
    ("opened_date", DATETIME),
    ("key_algorithm", text(32)),
    ("key_length", INT),
    ("encryptor_thumbprint", binary(20)),
    ("encryptor_type", text(32)),
    ("percent_complete", REAL),
    ("encryption_state_desc", text(32)),
    ("encryption_scan_state", INT),
    ("encryption_scan_state_desc", text(32)),
    ("encryption_scan_modify_date", DATETIME),
];

const BACKUPSET: &[(&str, SqlType)] = &[
    ("backup_set_id", INT),
    ("backup_set_uuid", GUID),
    ("media_set_id", INT),
    ("first_family_number", TINY),
    ("last_family_number", TINY),
    ("position", INT),
    ("expiration_date", DATETIME),
    ("name", text(128)),
    ("description", text(255)),
    ("user_name", text(128)),
    ("backup_start_date", DATETIME),
    ("backup_finish_date", DATETIME),
    ("type", SqlType::Char(1)),
    ("backup_size", SIZE),
    ("database_name", text(128)),
    ("server_name", text(128)),
    ("machine_name", text(128)),
    ("recovery_model", text(60)),
    ("has_backup_checksums", BIT),
    ("is_damaged", BIT),
    ("is_copy_only", BIT),
    ("first_lsn", LSN),
    ("last_lsn", LSN),
    ("checkpoint_lsn", LSN),
    ("database_backup_lsn", LSN),
    ("differential_base_guid", GUID),
    ("compressed_backup_size", SIZE),
    ("key_algorithm", text(32)),
    ("encryptor_thumbprint", binary(20)),
    ("encryptor_type", text(32)),
    ("compression_algorithm", text(32)),
];

const RESTORES: &[(&str, SqlType)] = &[
    ("restore_history_id", INT),
    ("restore_date", DATETIME),
    ("destination_database_name", text(128)),
    ("user_name", text(128)),
    ("backup_set_id", INT),
    ("restore_type", SqlType::Char(1)),
    ("replace", BIT),
    ("recovery", BIT),
    ("restart", BIT),
    ("stop_at", DATETIME),
    ("device_count", TINY),
    ("stop_at_mark_name", text(128)),
    ("stop_before", BIT),
];

const MEDIA_FAMILY: &[(&str, SqlType)] = &[
    ("media_set_id", INT),
    ("family_sequence_number", TINY),
    ("media_family_id", GUID),
    ("media_count", INT),
    ("logical_device_name", text(128)),
    ("physical_device_name", text(260)),
    ("device_type", TINY),
    ("physical_block_size", INT),
    ("mirror", TINY),
];

const MEDIA_SET: &[(&str, SqlType)] = &[
    ("media_set_id", INT),
    ("media_uuid", GUID),
    ("media_family_count", TINY),
    ("name", text(128)),
    ("description", text(255)),
    ("software_name", text(128)),
    ("mirror_count", TINY),
    ("is_compressed", BIT),
    ("is_encrypted", BIT),
];

/// `sys.certificates`: every generation of every name.
pub(crate) fn certificates(keys: &Keys) -> Result<Rows, Error> {
    const FIRST_ID: usize = 256;
    let store = keys.store()?;
    let infos = store.as_ref().map(|store| store.certificates()).unwrap_or_default();
    let row = |(at, info): (usize, &tdekit_key_store::CertificateInfo)| -> Named {
        let (kind, described) = match info.has_private_key {
            true => ("MK", "ENCRYPTED_BY_MASTER_KEY"),
            false => ("NA", "NO_PRIVATE_KEY"),
        };
        let subject = info.common_name.as_deref().unwrap_or(&info.subject);
        let backed_up = info.backed_up_at.map(seconds);
        vec![
            ("name", string(&*info.name)),
            ("certificate_id", int(FIRST_ID + at)),
            ("principal_id", int(1)),
            ("pvt_key_encryption_type", string(kind)),
            ("pvt_key_encryption_type_desc", string(described)),
            ("is_active_for_begin_dialog", Value::Bit(info.active)),
            ("issuer_name", string(subject)),
            ("cert_serial_number", string(&*info.serial)),
            ("subject", string(subject)),
            ("expiry_date", seconds(info.not_after)),
            ("start_date", seconds(info.not_before)),
            ("thumbprint", thumbprint(&info.thumbprint())),
            ("pvt_key_last_backup_date", backed_up.unwrap_or(Value::Null)),
            ("key_length", int(info.key_bits)),
        ]
    };
    Ok(rows(CERTIFICATES, infos.iter().enumerate().map(row).collect()))
}

/// `sys.symmetric_keys`: the master key.
pub(crate) fn symmetric_keys(keys: &Keys) -> Result<Rows, Error> {
    let Some(store) = keys.store()? else { return Ok(rows(SYMMETRIC_KEYS, Vec::new())) };
    let file = store.file();
    let row: Named = vec![
        ("name", string("##MS_DatabaseMasterKey##")),
        ("principal_id", int(1)),
        ("symmetric_key_id", int(101)),
        ("key_length", int(256)),
        ("key_algorithm", string("A3")),
        ("algorithm_desc", string("AES_256")),
        ("create_date", seconds(file.master_key.created_at)),
        ("modify_date", seconds(file.written_at)),
        ("key_guid", guid(file.master_key.id)),
    ];
    Ok(rows(SYMMETRIC_KEYS, vec![row]))
}

/// `sys.dm_database_encryption_keys`: encrypted databases, and those with a key for it.
pub(crate) fn encryption_keys(databases: &Databases, notes: &Encryption) -> Result<Rows, Error> {
    let mut found = Vec::new();
    for database in databases.found()? {
        let header = header(&database.path)?;
        let noted = notes.noted(&database.name);
        let changed = header.as_ref().map(|header| key_change(&database.path, header));
        let changed = changed.transpose()?.flatten();
        let mut scan_modified_ms = None;
        let ((state, described), (scan, scan_described)) = match (&header, changed) {
            (Some(header), Some(_)) => {
                let scan = match scan_of(&database.path, header, notes)? {
                    Scan::Running => (1, "RUNNING"),
                    Scan::Suspended(since) => {
                        scan_modified_ms = Some(unix_ms(since));
                        (2, "SUSPENDED")
                    }
                    Scan::Aborted => (3, "ABORTED"),
                };
                ((4, "KEY_CHANGE_IN_PROGRESS"), scan)
            }
            (Some(_), None) => ((3, "ENCRYPTED"), (4, "COMPLETE")),
            (None, _) => ((1, "UNENCRYPTED"), (0, "NONE")),
        };
        let known = match (&header, &noted) {
            (Some(header), _) => {
                let entry = header.dek(header.current);
                let created = entry.and_then(|entry| i64::try_from(entry.created_unix_s).ok());
                let created_ms = created.unwrap_or(0).saturating_mul(1000);
                Some((header.algorithm, thumbprint_of(header), created_ms))
            }
            (None, Some(noted)) => {
                Some((noted.algorithm, Some(noted.certificate.clone()), noted.created_ms))
            }
            (None, None) => None,
        };
        let Some((algorithm, certificate, created_ms)) = known else { continue };
        let (named, bits) = key_of(algorithm);
        let certificate = certificate.as_deref().map_or(Value::Null, thumbprint);
        let row: Named = vec![
            ("database_id", int(database.id)),
            ("encryption_state", int(state)),
            ("create_date", datetime(created_ms)),
            ("modify_date", datetime(created_ms)),
            ("key_algorithm", string(named)),
            ("key_length", int(bits)),
            ("encryptor_thumbprint", certificate),
            ("encryptor_type", string("CERTIFICATE")),
            // For a running scan; 0 if none runs, as in SQL Server.
            ("percent_complete", Value::Float(changed.map_or(0.0, f64::from))),
            ("encryption_state_desc", string(described)),
            ("encryption_scan_state", int(scan)),
            ("encryption_scan_state_desc", string(scan_described)),
            (
                "encryption_scan_modify_date",
                match header {
                    Some(_) => datetime(scan_modified_ms.unwrap_or(created_ms)),
                    None => Value::Null,
                },
            ),
        ];
        found.push(row);
    }
    Ok(rows(ENCRYPTION_KEYS, found))
}

fn scan_of(path: &Path, header: &Header, notes: &Encryption) -> Result<Scan, Error> {
    let failed = |failure: DatabaseError| fault::own(format!("{}: {failure}", path.display()));
    notes.scans.state(path, header).map_err(failed)
}

fn unix_ms(moment: SystemTime) -> i64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the progress of a key change, in percent. Reads through a descriptor that stays open.
fn key_change(path: &Path, header: &Header) -> Result<Option<u8>, Error> {
    let failed =
        |failure: &dyn std::fmt::Display| fault::own(format!("{}: {failure}", path.display()));
    let file = kept::open(path).map_err(|failure| failed(&failure))?;
    key_change_percent((path, &file), header).map_err(|failure| failed(&failure))
}

/// `msdb.dbo.backupset`.
pub(crate) fn backupset(keys: &Keys) -> Result<Rows, Error> {
    let (sets, media) = history(keys)?;
    let known: BTreeMap<&str, &CatalogSet> =
        sets.iter().map(|set| (&*set.backup_set_uuid, set)).collect();
    let row = |(at, set): (usize, &CatalogSet)| -> Named {
        let families = set.devices.iter().map(|device| device.family_sequence_number).max();
        let base = set.differential_base_guid.as_deref();
        let mut row = vec![
            ("backup_set_id", int(at + 1)),
            ("backup_set_uuid", guid_of(&set.backup_set_uuid)),
            ("media_set_id", int(media.get(&set.media_uuid).copied().unwrap_or(0))),
            ("first_family_number", int(1)),
            ("last_family_number", int(families.unwrap_or(1))),
            ("position", int(set.position)),
            ("expiration_date", set.expiration_date.as_deref().map_or(Value::Null, moment)),
            ("name", maybe(Some(set.name.as_str()).filter(|name| !name.is_empty()))),
            ("description", maybe(Some(set.description.as_str()).filter(|d| !d.is_empty()))),
            ("user_name", string(&*set.user_name)),
            ("backup_start_date", moment(&set.backup_start_date)),
            ("backup_finish_date", moment(&set.backup_finish_date)),
            ("type", string(&*set.kind)),
            ("backup_size", size(set.backup_size)),
            ("database_name", string(&*set.database_name)),
            ("server_name", string(&*set.server_name)),
            ("machine_name", string(&*set.server_name)),
            ("recovery_model", maybe((set.kind == "L").then_some("FULL"))),
            ("has_backup_checksums", Value::Bit(set.has_backup_checksums)),
            ("is_damaged", Value::Bit(false)),
            ("is_copy_only", Value::Bit(set.is_copy_only)),
            ("differential_base_guid", base.map_or(Value::Null, guid_of)),
            ("compressed_backup_size", size(set.compressed_backup_size)),
            ("key_algorithm", maybe(set.key_algorithm.as_deref())),
            (
                "encryptor_thumbprint",
                set.encryptor_thumbprint.as_deref().map_or(Value::Null, thumbprint),
            ),
            ("encryptor_type", maybe(set.encryptor_type.as_deref())),
            ("compression_algorithm", maybe(set.compression_algorithm.as_deref())),
        ];
        row.append(&mut lsns(&known, set));
        row
    };
    Ok(rows(BACKUPSET, sets.iter().enumerate().map(row).collect()))
}

/// The numbers of a set's state, as `RESTORE HEADERONLY` has them, as far as the history knows the
/// sets that it stands on, by their ids.
fn lsns(known: &BTreeMap<&str, &CatalogSet>, set: &CatalogSet) -> Named {
    let lsn = |set: &CatalogSet| {
        unix_ms_of(&set.backup_start_date)
            .map_or(Value::Null, |begun_ms| size(lsn_of(begun_ms, set.position)))
    };
    // In its own media set, a set stands on one before it.
    let before = |of: &&CatalogSet| {
        let base = *known.get(of.differential_base_guid.as_deref()?)?;
        (base.media_uuid != of.media_uuid || base.position < of.position).then_some(base)
    };
    let maybe = |set: Option<&CatalogSet>| set.map_or(Value::Null, lsn);
    let log = set.kind == "L";
    // Rows that somebody wrote may name each other in a circle.
    let chain = std::iter::successors(Some(set), before).take(known.len());
    let full = chain.last().filter(|first| first.kind == "D");
    vec![
        ("first_lsn", if log { maybe(before(&set)) } else { lsn(set) }),
        ("last_lsn", lsn(set)),
        ("checkpoint_lsn", if log { maybe(full) } else { lsn(set) }),
        ("database_backup_lsn", if set.kind == "D" { Value::Null } else { maybe(full) }),
    ]
}

/// `msdb.dbo.restorehistory`.
pub(crate) fn restores(keys: &Keys) -> Result<Rows, Error> {
    let (sets, _) = history(keys)?;
    let of_run = |failure: RunError| fault::of_run(&failure);
    let restores = match Catalog::open_existing(&keys.dir()?).map_err(of_run)? {
        Some(catalog) => catalog.restores().map_err(of_run)?,
        None => Vec::new(),
    };
    let row = |restore: &CatalogRestore| -> Named {
        let at = sets.iter().position(|set| set.backup_set_uuid == restore.backup_set_uuid);
        let kind = at.and_then(|at| sets.get(at)).map(|set| set.kind.as_str());
        let mut row = vec![
            ("restore_history_id", int(restore.id)),
            ("restore_date", moment(&restore.restore_date)),
            ("backup_set_id", at.map_or(Value::Null, |at| int(at + 1))),
        ];
        match &restore.statement {
            Some(statement) => row.append(&mut of_statement(statement)),
            // `tdekit restore` makes a file, and has no logins and none of the options.
            None => {
                let path = restore.destination.as_deref().map(Path::new);
                let name = path.and_then(Path::file_stem).map(|name| name.to_string_lossy());
                row.push(("destination_database_name", maybe(name.as_deref())));
                row.push(("user_name", string(&*restore.user_name)));
                row.push(("restore_type", maybe(kind)));
            }
        }
        row
    };
    Ok(rows(RESTORES, restores.iter().map(row).collect()))
}

fn of_statement(statement: &CatalogStatement) -> Named {
    vec![
        ("destination_database_name", string(&*statement.database_name)),
        ("user_name", string(&*statement.login_name)),
        ("restore_type", string(&*statement.set_type)),
        ("replace", Value::Bit(statement.replace)),
        ("recovery", Value::Bit(statement.recovery)),
        // A statement with RESTART is refused, and so is one with a mark.
        ("restart", Value::Bit(false)),
        ("stop_at", statement.stop_date.as_deref().map_or(Value::Null, moment)),
        ("device_count", int(statement.device_count)),
    ]
}

/// `msdb.dbo.backupmediafamily`.
pub(crate) fn media_family((databases, keys): (&Databases, &Keys)) -> Result<Rows, Error> {
    let (sets, media) = history(keys)?;
    let mut told = Vec::new();
    let mut found = Vec::new();
    for set in &sets {
        for device in &set.devices {
            let place = (&set.media_uuid, &device.physical_device_name);
            if told.contains(&place) {
                continue;
            }
            told.push(place);
            // An address of a store is no path of a drive.
            let shown = databases.shown(Path::new(&device.physical_device_name));
            let row: Named = vec![
                ("media_set_id", int(media.get(&set.media_uuid).copied().unwrap_or(0))),
                ("family_sequence_number", int(device.family_sequence_number)),
                ("media_family_id", guid_of(&set.media_uuid)),
                ("media_count", int(1)),
                ("physical_device_name", string(shown)),
                (
                    "device_type",
                    int(if device.physical_device_name.contains("://") { 9 } else { 2 }),
                ),
                ("physical_block_size", int(512)),
                ("mirror", int(0)),
            ];
            found.push(row);
        }
    }
    Ok(rows(MEDIA_FAMILY, found))
}

/// `msdb.dbo.backupmediaset`.
pub(crate) fn media_set(keys: &Keys) -> Result<Rows, Error> {
    let (sets, media) = history(keys)?;
    let row = |(uuid, id): (&String, &usize)| -> Option<Named> {
        let set = sets.iter().find(|set| set.media_uuid == *uuid)?;
        let families = set.devices.iter().map(|device| device.family_sequence_number).max();
        Some(vec![
            ("media_set_id", int(*id)),
            ("media_uuid", guid_of(uuid)),
            ("media_family_count", int(families.unwrap_or(1))),
            ("software_name", string(&*set.software_name)),
            ("mirror_count", int(1)),
            ("is_compressed", Value::Bit(set.compression_algorithm.is_some())),
            ("is_encrypted", Value::Bit(set.key_algorithm.is_some())),
        ])
    };
    Ok(rows(MEDIA_SET, media.iter().filter_map(row).collect()))
}

/// `sys.dm_os_schedulers`: the server is presented as one scheduler, with the context switches of
/// all threads that were seen.
pub(crate) fn schedulers() -> Rows {
    const COLUMNS: &[(&str, SqlType)] = &[
        ("scheduler_id", INT),
        ("cpu_id", SqlType::SmallInt),
        ("status", text(60)),
        ("is_online", BIT),
        ("context_switches_count", BIG),
    ];
    let row: Named = vec![
        ("scheduler_id", int(0)),
        ("cpu_id", int(0)),
        ("status", string("VISIBLE ONLINE")),
        ("is_online", Value::Bit(true)),
        ("context_switches_count", int(context_switches())),
    ];
    rows(COLUMNS, vec![row])
}

/// `sys.dm_os_wait_stats`: waits for encryption by the operating system, which do not occur here,
/// because TLS runs in the process itself.
pub(crate) fn wait_stats() -> Rows {
    const COLUMNS: &[(&str, SqlType)] = &[
        ("wait_type", text(60)),
        ("waiting_tasks_count", BIG),
        ("wait_time_ms", BIG),
        ("max_wait_time_ms", BIG),
        ("signal_wait_time_ms", BIG),
    ];
    let row = |name: &str| -> Named {
        vec![
            ("wait_type", string(name)),
            ("waiting_tasks_count", int(0)),
            ("wait_time_ms", int(0)),
            ("max_wait_time_ms", int(0)),
            ("signal_wait_time_ms", int(0)),
        ]
    };
    let waits = ["PREEMPTIVE_OS_DECRYPTMESSAGE", "PREEMPTIVE_OS_ENCRYPTMESSAGE"];
    rows(COLUMNS, waits.into_iter().map(row).collect())
}

/// Returns the history, and the numbers of its media sets, in order of arrival.
fn history(keys: &Keys) -> Result<(Vec<CatalogSet>, BTreeMap<String, usize>), Error> {
    let read = || match Catalog::open_existing(&keys.dir()?) {
        Ok(Some(catalog)) => {
            catalog.sets(&CatalogFilter::default()).map_err(|failure| fault::of_run(&failure))
        }
        Ok(None) => Ok(Vec::new()),
        Err(failure) => Err(fault::of_run(&failure)),
    };
    let sets = read()?;
    let mut media = BTreeMap::new();
    for set in &sets {
        let next = media.len() + 1;
        media.entry(set.media_uuid.clone()).or_insert(next);
    }
    Ok((sets, media))
}

/// Returns SQL Server's name and bits of a key.
fn key_of(algorithm: Algorithm) -> (&'static str, u16) {
    match algorithm {
        Algorithm::Aes128 => ("AES", 128),
        Algorithm::Aes192 => ("AES", 192),
        Algorithm::Aes256 => ("AES", 256),
        Algorithm::Aegis128X2 => ("AEGIS_128X2", 128),
        Algorithm::Aegis256X2 => ("AEGIS_256X2", 256),
        Algorithm::TripleDes3Key => ("TRIPLE_DES_3KEY", 192),
    }
}

fn seconds(seconds: i64) -> Value<'static> {
    datetime(seconds.saturating_mul(1000))
}

/// Converts a time of the history.
fn moment(text: &str) -> Value<'static> {
    unix_ms_of(text).map_or(Value::Null, datetime)
}

fn unix_ms_of(text: &str) -> Option<i64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_this_process_are_counted() {
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(context_switches() > 0);
    }

    #[test]
    fn moments_of_the_history_are_read() {
        let expected = datetime(1_700_000_000_123);
        assert_eq!(moment(&tdekit_backup_run::date_of_ms(1_700_000_000_123)), expected);
        assert_eq!(moment("soon"), Value::Null);
    }
}
