//! A row of the history: from a media set's data, and to and from SQLite.

use rusqlite::{Row, Statement, params};
use serde::Serialize;
use tdekit_key_store::{iso8601, thumbprint};

use super::dates::{lossy, lossy_or_null};
use crate::{Compression, SetInfo, SetKind, SourceKind};

/// Formats milliseconds since 1970 as ISO 8601 in UTC, such as `2036-11-21T00:00:00.000Z`.
#[must_use]
pub fn date_of_ms(ms: i64) -> String {
    let seconds = iso8601(ms.div_euclid(1000));
    match seconds.strip_suffix('Z') {
        Some(seconds) => format!("{seconds}.{:03}Z", ms.rem_euclid(1000)),
        None => seconds,
    }
}

/// A set of the history. Names as in `msdb.dbo.backupset` if that has such a column; dates as
/// [`date_of_ms`], ids in hexadecimal digits, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogSet {
    /// The set's id.
    pub backup_set_uuid: String,
    /// The media set's id.
    pub media_uuid: String,
    /// Name of the set.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Its place in the media set, from 1.
    pub position: u32,
    /// `D` full, `I` differential, `L` log backup.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the database.
    pub database_name: String,
    /// Its path; empty for a stream.
    pub database_path: String,
    /// File id of an encrypted database.
    pub database_guid: Option<String>,
    /// Host.
    pub server_name: String,
    /// User.
    pub user_name: String,
    /// Program that wrote it.
    pub software_name: String,
    /// Start time.
    pub backup_start_date: String,
    /// Time of completion.
    pub backup_finish_date: String,
    /// Expiration time, if any.
    pub expiration_date: Option<String>,
    /// Bytes before compression.
    pub backup_size: u64,
    /// Bytes of the set's records.
    pub compressed_backup_size: u64,
    /// `LZ4` or `ZSTD`.
    pub compression_algorithm: Option<String>,
    /// The algorithm, for an encrypted set.
    pub key_algorithm: Option<String>,
    /// SHA-1 thumbprint of its first certificate, as SQL Server shows it.
    pub encryptor_thumbprint: Option<String>,
    /// `CERTIFICATE`.
    pub encryptor_type: Option<String>,
    /// True if it cannot be a base of differential sets.
    pub is_copy_only: bool,
    /// True if the database was encrypted at rest.
    pub is_source_encrypted: bool,
    /// True for a stream, false for a database.
    pub is_stream: bool,
    /// True if it is signed.
    pub is_signed: bool,
    /// Always true: each block has a checksum.
    pub has_backup_checksums: bool,
    /// Page size; 0 for a stream.
    pub page_size: u32,
    /// Pages of the database; 0 for a stream.
    pub pages: u64,
    /// Id of the full set on which a differential one is based, or of the set before a log backup.
    pub differential_base_guid: Option<String>,
    /// All certificates that open it.
    pub encryptors: Vec<CatalogEncryptor>,
    /// Places where the media set was seen.
    pub devices: Vec<CatalogDevice>,
    /// Time at which `prune` removed the media set from the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune_date: Option<String>,
}

/// A certificate that opens a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogEncryptor {
    /// Its name when it wrapped the key.
    pub certificate_name: String,
    /// SHA-1, as SQL Server shows it.
    pub thumbprint: String,
    /// SHA-256.
    pub thumbprint_sha256: String,
}

/// A file or object of a media set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogDevice {
    /// 1 for the first stripe; 1 for every mirror.
    pub family_sequence_number: u32,
    /// Absolute path, or address.
    pub physical_device_name: String,
}

impl CatalogSet {
    /// Makes the row of a set of the media set `media_id` on `devices`.
    #[must_use]
    pub fn of(info: &SetInfo, media_id: &[u8; 16], devices: &[CatalogDevice]) -> Self {
        let encryptors: Vec<_> = info
            .recipients
            .iter()
            .map(|recipient| CatalogEncryptor {
                certificate_name: recipient.name.clone(),
                thumbprint: recipient.wrapped.thumbprint(),
                thumbprint_sha256: thumbprint(&recipient.wrapped.sha256),
            })
            .collect();
        Self {
            backup_set_uuid: hex::encode(info.set_id),
            media_uuid: hex::encode(media_id),
            name: info.name.clone(),
            description: info.description.clone(),
            position: info.position,
            kind: match info.kind {
                SetKind::Full => "D",
                SetKind::Differential => "I",
                SetKind::Log => "L",
            }
            .to_owned(),
            database_name: info.database_name.clone(),
            database_path: info.path.clone(),
            database_guid: (info.database_id != [0; 16]).then(|| hex::encode(info.database_id)),
            server_name: info.host.clone(),
            user_name: info.user.clone(),
            software_name: info.program.clone(),
            backup_start_date: date_of_ms(info.begun_ms),
            backup_finish_date: date_of_ms(info.finished_ms),
            expiration_date: (info.expires_ms != 0).then(|| date_of_ms(info.expires_ms)),
            backup_size: info.payload_bytes,
            compressed_backup_size: info.record_bytes,
            compression_algorithm: match info.compression {
                Compression::None => None,
                Compression::Lz4 => Some("LZ4".to_owned()),
                Compression::Zstd { .. } => Some("ZSTD".to_owned()),
            },
            key_algorithm: info.algorithm.map(|algorithm| algorithm.name().to_owned()),
            encryptor_thumbprint: encryptors.first().map(|first| first.thumbprint.clone()),
            encryptor_type: info.algorithm.map(|_| "CERTIFICATE".to_owned()),
            is_copy_only: info.copy_only,
            is_source_encrypted: info.source_encrypted,
            is_stream: info.source == SourceKind::Stream,
            is_signed: !info.signatures.is_empty(),
            has_backup_checksums: true,
            page_size: info.page_size,
            pages: info.pages,
            differential_base_guid: info.base.map(hex::encode),
            encryptors,
            devices: devices.to_vec(),
            prune_date: None,
        }
    }

    /// Binds the row to the statement that writes it, and runs it.
    pub(super) fn write(&self, statement: &mut Statement<'_>) -> rusqlite::Result<usize> {
        statement.execute(params![
            self.backup_set_uuid,
            self.media_uuid,
            self.name,
            self.description,
            self.position,
            // Of a log backup, `logset` has a row.
            if self.kind == "L" { "I" } else { &self.kind },
            self.database_name,
            self.database_path,
            self.database_guid,
            self.server_name,
            self.user_name,
            self.software_name,
            self.backup_start_date,
            self.backup_finish_date,
            self.expiration_date,
            signed(self.backup_size),
            signed(self.compressed_backup_size),
            self.compression_algorithm,
            self.key_algorithm,
            self.encryptor_thumbprint,
            self.encryptor_type,
            self.is_copy_only,
            self.is_source_encrypted,
            self.is_stream,
            self.is_signed,
            self.has_backup_checksums,
            self.page_size,
            signed(self.pages),
            self.differential_base_guid,
        ])
    }

    /// Reads a row of `SELECT *`; encryptors and devices are read separately.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            backup_set_uuid: row.get("backup_set_uuid")?,
            media_uuid: row.get("media_uuid")?,
            name: row.get("name")?,
            description: row.get("description")?,
            position: row.get("position")?,
            kind: row.get("type")?,
            database_name: row.get("database_name")?,
            database_path: row.get("database_path")?,
            database_guid: row.get("database_guid")?,
            server_name: row.get("server_name")?,
            user_name: row.get("user_name")?,
            software_name: row.get("software_name")?,
            backup_start_date: lossy(row, "backup_start_date")?,
            backup_finish_date: lossy(row, "backup_finish_date")?,
            expiration_date: lossy_or_null(row, "expiration_date")?,
            backup_size: unsigned(row.get("backup_size")?),
            compressed_backup_size: unsigned(row.get("compressed_backup_size")?),
            compression_algorithm: row.get("compression_algorithm")?,
            key_algorithm: row.get("key_algorithm")?,
            encryptor_thumbprint: row.get("encryptor_thumbprint")?,
            encryptor_type: row.get("encryptor_type")?,
            is_copy_only: row.get("is_copy_only")?,
            is_source_encrypted: row.get("is_source_encrypted")?,
            is_stream: row.get("is_stream")?,
            is_signed: row.get("is_signed")?,
            has_backup_checksums: row.get("has_backup_checksums")?,
            page_size: row.get("page_size")?,
            pages: unsigned(row.get("pages")?),
            differential_base_guid: row.get("differential_base_guid")?,
            encryptors: Vec::new(),
            devices: Vec::new(),
            prune_date: None,
        })
    }
}

impl CatalogEncryptor {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            certificate_name: row.get(0)?,
            thumbprint: row.get(1)?,
            thumbprint_sha256: row.get(2)?,
        })
    }
}

impl CatalogDevice {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { family_sequence_number: row.get(0)?, physical_device_name: row.get(1)? })
    }
}

/// SQLite has no unsigned integers; no media set is that long.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn unsigned(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
