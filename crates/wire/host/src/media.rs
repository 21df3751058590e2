//! Answers to `RESTORE HEADERONLY`, `FILELISTONLY`, `LABELONLY` and `VERIFYONLY`.

use std::path::Path;

use tdekit_backup_run::FindingReport;
use tdekit_backup_run::{
    CatalogUse, Compression, Media, NoBaseHere, SetInfo, SetKind, UnwrapSecret,
};
use tdekit_backup_run::{history, readings};
use tdekit_key_crypto::Kind;
use tdekit_wire_tds::messages::{ServerError, Told};
use tdekit_wire_tds::{SqlType, Value};
use tdekit_wire_tsql::{Error, Progress, Restore, Rows};

use super::databases::Databases;
use super::fault;
use super::keys::Keys;
use super::restore::{media, set_of};
use super::rows::{
    BIG, BIT, DATETIME, GUID, INT, LSN, Named, SIZE, SMALL, TINY, binary, datetime, guid, int,
    maybe, rows, size, string, text, thumbprint,
};
use super::steer::steer;

/// Columns of RESTORE HEADERONLY, as SQL Server 2022 has them.
const HEADER: &[(&str, SqlType)] = &[
    ("BackupName", text(128)),
    ("BackupDescription", text(255)),
    ("BackupType", SMALL),
    ("ExpirationDate", DATETIME),
    ("Compressed", TINY),
    ("Position", SMALL),
    ("DeviceType", TINY),
    ("UserName", text(128)),
    ("ServerName", text(128)),
    ("DatabaseName", text(128)),
    ("DatabaseVersion", INT),
    ("DatabaseCreationDate", DATETIME),
    ("BackupSize", SIZE),
    ("FirstLSN", LSN),
    ("LastLSN", LSN),
    ("CheckpointLSN", LSN),
    ("DatabaseBackupLSN", LSN),
    ("BackupStartDate", DATETIME),
    ("BackupFinishDate", DATETIME),
    ("SortOrder", SMALL),
    ("CodePage", SMALL),
    ("UnicodeLocaleId", INT),
    ("UnicodeComparisonStyle", INT),
    ("CompatibilityLevel", TINY),
    ("SoftwareVendorId", INT),
    ("SoftwareVersionMajor", INT),
    ("SoftwareVersionMinor", INT),
    ("SoftwareVersionBuild", INT),
    ("MachineName", text(128)),
    ("Flags", INT),
    ("BindingID", GUID),
    ("RecoveryForkID", GUID),
    ("Collation", text(128)),
    ("FamilyGUID", GUID),
    ("HasBulkLoggedData", BIT),
    ("IsSnapshot", BIT),
    ("IsReadOnly", BIT),
    ("IsSingleUser", BIT),
    ("HasBackupChecksums", BIT),
    ("IsDamaged", BIT),
    ("BeginsLogChain", BIT),
    ("HasIncompleteMetaData", BIT),
    ("IsForceOffline", BIT),
    ("IsCopyOnly", BIT),
    ("FirstRecoveryForkID", GUID),
    ("ForkPointLSN", LSN),
    ("RecoveryModel", text(60)),
    ("DifferentialBaseLSN", LSN),
    ("DifferentialBaseGUID", GUID),
    ("BackupTypeDescription", text(60)),
    ("BackupSetGUID", GUID),
    ("CompressedBackupSize", BIG),
    ("Containment", TINY),
    ("KeyAlgorithm", text(32)),
    ("EncryptorThumbprint", binary(20)),
    ("EncryptorType", text(32)),
    ("LastValidRestoreTime", DATETIME),
    ("TimeZone", SMALL),
    ("CompressionAlgorithm", text(32)),
];

const FILE_LIST: &[(&str, SqlType)] = &[
    ("LogicalName", text(128)),
    ("PhysicalName", text(260)),
    ("Type", SqlType::Char(1)),
    ("FileGroupName", text(128)),
    ("Size", SIZE),
    ("MaxSize", SIZE),
    ("FileId", BIG),
    ("CreateLSN", LSN),
    ("DropLSN", LSN),
    ("UniqueId", GUID),
    ("ReadOnlyLSN", LSN),
    ("ReadWriteLSN", LSN),
    ("BackupSizeInBytes", BIG),
    ("SourceBlockSize", INT),
    ("FileGroupId", INT),
    ("LogGroupGUID", GUID),
    ("DifferentialBaseLSN", LSN),
    ("DifferentialBaseGUID", GUID),
    ("IsReadOnly", BIT),
    ("IsPresent", BIT),
    ("TDEThumbprint", binary(20)),
    ("SnapshotUrl", text(336)),
];

const LABEL: &[(&str, SqlType)] = &[
    ("MediaName", text(128)),
    ("MediaSetId", GUID),
    ("FamilyCount", INT),
    ("FamilySequenceNumber", INT),
    ("MediaFamilyId", GUID),
    ("MediaSequenceNumber", INT),
    ("MediaLabelPresent", TINY),
    ("MediaDescription", text(255)),
    ("SoftwareName", text(128)),
    ("SoftwareVendorId", INT),
    ("MediaDate", DATETIME),
    ("MirrorCount", INT),
    ("IsCompressed", BIT),
];

/// `RESTORE HEADERONLY`. Needs no key.
pub(crate) fn header(
    (databases, keys): (&Databases, &Keys),
    wanted: &Restore,
) -> Result<Rows, Error> {
    let (_, opened) = media((databases, keys), wanted)?;
    let sets: Vec<_> = match wanted.position {
        Some(_) => vec![set_of(&opened.media, wanted)?],
        None => opened.media.sets().iter().collect(),
    };
    let family = opened.media.id();
    let row = |set| header_row(&opened.media, set, family);
    Ok(rows(HEADER, sets.into_iter().map(row).collect()))
}

/// `RESTORE FILELISTONLY`: a database is one file.
pub(crate) fn file_list(
    (databases, keys): (&Databases, &Keys),
    wanted: &Restore,
) -> Result<Rows, Error> {
    let (_, opened) = media((databases, keys), wanted)?;
    let set = set_of(&opened.media, wanted)?;
    let recipient = set.recipients.first().filter(|_| set.source_encrypted);
    let row: Named = vec![
        ("LogicalName", string(&*set.database_name)),
        ("PhysicalName", string(databases.shown(Path::new(&set.path)))),
        ("Type", string("D")),
        ("FileGroupName", string("PRIMARY")),
        ("Size", size(set.pages.saturating_mul(u64::from(set.page_size)))),
        ("MaxSize", Value::Null),
        ("FileId", int(1)),
        ("UniqueId", guid(set.database_id)),
        ("BackupSizeInBytes", int(set.payload_bytes)),
        ("SourceBlockSize", int(512)),
        ("FileGroupId", int(1)),
        ("DifferentialBaseGUID", set.base.map_or(Value::Null, guid)),
        ("IsReadOnly", Value::Bit(false)),
        ("IsPresent", Value::Bit(true)),
        ("TDEThumbprint", recipient.map_or(Value::Null, |r| thumbprint(&r.wrapped.thumbprint()))),
    ];
    Ok(rows(FILE_LIST, vec![row]))
}

/// `RESTORE LABELONLY`.
pub(crate) fn label(
    (databases, keys): (&Databases, &Keys),
    wanted: &Restore,
) -> Result<Rows, Error> {
    let (_, opened) = media((databases, keys), wanted)?;
    let id = opened.media.id();
    let first = opened.media.sets().first();
    let row: Named = vec![
        ("MediaSetId", guid(id)),
        ("FamilyCount", int(opened.media.families())),
        (
            "FamilySequenceNumber",
            int(opened.devices.first().map_or(1, |d| d.family_sequence_number)),
        ),
        ("MediaFamilyId", guid(id)),
        ("MediaSequenceNumber", int(1)),
        ("MediaLabelPresent", int(0)),
        ("SoftwareName", maybe(first.map(|set| set.program.as_str()))),
        ("MediaDate", first.map_or(Value::Null, |set| datetime(set.begun_ms))),
        ("MirrorCount", int(1)),
        ("IsCompressed", Value::Bit(first.is_some_and(|s| s.compression != Compression::None))),
    ];
    Ok(rows(LABEL, vec![row]))
}

/// `RESTORE VERIFYONLY`.
pub(crate) fn verify(
    databases: &Databases,
    keys: &Keys,
    wanted: &Restore,
    out: &mut Progress<'_>,
) -> Result<(), Error> {
    let (places, opened) = media((databases, keys), wanted)?;
    let set = set_of(&opened.media, wanted)?;
    let record = |set: &SetInfo, failure| {
        readings::record_restore(keys.operator(), (&places, &opened.media), Some(set), failure);
    };
    let sets: Vec<_> = opened.media.with_base(set).collect();
    let unlocked = match sets.iter().any(|set| set.algorithm.is_some()) {
        true => Some(keys.open().map_err(|failure| fault::of_store(&failure))?),
        false => None,
    };
    let mut alone = false;
    for each in sets {
        let checked = steer(wanted.stats_percent, out, |run| {
            let keys = unlocked.as_deref().map(|keys| keys as &dyn UnwrapSecret);
            opened.media.verify_set(each, keys, run)
        });
        let report = checked.map_err(|failure| {
            record(each, Some(failure.kind()));
            fault::of_run(&failure)
        })?;
        let base = match report.base {
            // The set itself is whole, and may be all that was sent here.
            Some(NoBaseHere::Lost { is_missing: true, .. }) => {
                alone = true;
                None
            }
            Some(NoBaseHere::Lost { reason, .. } | NoBaseHere::NotSearched { reason, .. }) => {
                Some(reason)
            }
            None => None,
        };
        if let Some(damage) = report.damages.into_iter().next().or(base) {
            record(each, Some(Kind::Damaged));
            return Err(ServerError::DamagedSet { damage }.into());
        }
        if let Some(problem) = report.signatures.iter().find_map(|signature| signature.problem) {
            let damage = format!("A signature: {problem}.");
            return Err(ServerError::DamagedSet { damage }.into());
        }
    }
    if let Some(finding) = FindingReport::all(keys.operator(), &opened.media).first() {
        let device = opened.media.names().join(", ");
        let finding = finding.message.clone();
        return Err(ServerError::UnsoundMedia { device, finding }.into());
    }
    match alone {
        true => {
            // What it stands on was not there.
            record(set, Some(Kind::Damaged));
            let text = "The set is whole. It stands on a set that is not in this media set, and \
                        not where the backup history knows it: RESTORE needs that one, or a \
                        database that was restored from it.";
            out.tell(Told::Own { text: text.to_owned() }.message());
        }
        false => {
            let done = CatalogUse::Verified;
            history::record_use(keys.operator(), &opened.media, set.position, done, None);
            record(set, None);
        }
    }
    out.tell(Told::Valid { position: set.position }.message());
    Ok(())
}

/// Returns the number of a set's state: it rises from set to set of a media set.
pub(crate) fn lsn_of(begun_ms: i64, position: u32) -> u64 {
    u64::try_from(begun_ms).unwrap_or(0).saturating_mul(1_000_000).saturating_add(position.into())
}

/// First and last number of a set, that of the full set it stands on, and the recovery model.
fn lsns(media: &Media, set: &SetInfo) -> Named {
    let lsn = |set: &SetInfo| size(lsn_of(set.begun_ms, set.position));
    let chain: Vec<&SetInfo> = media.with_base(set).collect();
    let base = chain.iter().rev().nth(1);
    let full = chain.first().filter(|first| first.kind == SetKind::Full);
    let log = set.kind == SetKind::Log;
    let maybe = |set: Option<&&SetInfo>| set.map_or(Value::Null, |set| lsn(set));
    vec![
        ("FirstLSN", if log { maybe(base) } else { lsn(set) }),
        ("LastLSN", lsn(set)),
        ("CheckpointLSN", if log { maybe(full) } else { lsn(set) }),
        ("DatabaseBackupLSN", if set.base.is_some() { maybe(full) } else { Value::Null }),
        ("RecoveryModel", if log { string("FULL") } else { Value::Null }),
        ("BeginsLogChain", Value::Bit(log && base.is_some_and(|set| set.kind == SetKind::Full))),
    ]
}

fn header_row(media: &Media, set: &SetInfo, family: [u8; 16]) -> Named {
    let (kind, described) = match set.kind {
        SetKind::Full => (1, "Database"),
        SetKind::Differential => (5, "Database Differential"),
        SetKind::Log => (2, "Transaction Log"),
    };
    let compression = match set.compression {
        Compression::None => None,
        Compression::Lz4 => Some("LZ4"),
        Compression::Zstd { .. } => Some("ZSTD"),
    };
    let expires = Some(set.expires_ms).filter(|ms| *ms != 0);
    let recipient = set.recipients.first();
    let no = || Value::Bit(false);
    let mut row = vec![
        ("BackupName", string(&*set.name)),
        ("BackupDescription", maybe(Some(set.description.as_str()).filter(|d| !d.is_empty()))),
        ("BackupType", int(kind)),
        ("ExpirationDate", expires.map_or(Value::Null, datetime)),
        ("Compressed", int(u8::from(compression.is_some()))),
        ("Position", int(set.position)),
        ("DeviceType", int(2)),
        ("UserName", string(&*set.user)),
        ("ServerName", string(&*set.host)),
        ("DatabaseName", string(&*set.database_name)),
        ("BackupSize", size(set.payload_bytes)),
        ("BackupStartDate", datetime(set.begun_ms)),
        ("BackupFinishDate", datetime(set.finished_ms)),
        ("MachineName", string(&*set.host)),
        ("FamilyGUID", guid(family)),
        ("HasBulkLoggedData", no()),
        ("IsSnapshot", no()),
        ("IsReadOnly", no()),
        ("IsSingleUser", no()),
        ("HasBackupChecksums", Value::Bit(true)),
        ("IsDamaged", Value::Bit(set.damage.is_some())),
        ("HasIncompleteMetaData", no()),
        ("IsForceOffline", no()),
        ("IsCopyOnly", Value::Bit(set.copy_only)),
        ("DifferentialBaseGUID", set.base.map_or(Value::Null, guid)),
        ("BackupTypeDescription", string(described)),
        ("BackupSetGUID", guid(set.set_id)),
        ("CompressedBackupSize", int(set.record_bytes)),
        ("Containment", int(0)),
        ("KeyAlgorithm", maybe(set.algorithm.map(|algorithm| algorithm.name()))),
        (
            "EncryptorThumbprint",
            recipient.map_or(Value::Null, |r| thumbprint(&r.wrapped.thumbprint())),
        ),
        ("EncryptorType", maybe(set.algorithm.map(|_| "CERTIFICATE"))),
        ("TimeZone", int(0)),
        ("CompressionAlgorithm", maybe(compression)),
    ];
    row.append(&mut lsns(media, set));
    row
}
