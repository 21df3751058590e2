//! What the audit log of the key store tells of a database.

use std::path::Path;

use tdekit_key_store::{
    AuditCertificate, AuditDatabase, AuditKey, KeyStore, WrappedDek, is_workplace,
};
use tdekit_sqlite_page::Header;

/// The database at `path`, with its key in force; `path` as users know it.
#[must_use]
pub fn audited(path: &Path, header: &Header, store: &KeyStore) -> AuditDatabase {
    let recipients = header.dek(header.current).map(|dek| dek.recipients.as_slice());
    let wrapped = recipients.unwrap_or_default().iter().filter_map(|bytes| {
        let (wrapped, _) = WrappedDek::decode(bytes).ok()?;
        Some(AuditCertificate::of_wrapped(&wrapped, store))
    });
    AuditDatabase {
        path: path.to_owned(),
        file_id: Some(header.file_id),
        key: AuditKey {
            version: Some(header.current),
            algorithm: header.algorithm.name().to_owned(),
            certificates: wrapped.collect(),
            ..AuditKey::default()
        },
    }
}

/// Whether `path` is of a file that becomes a database only later, under its own name: what makes
/// it logs that name.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    path.parent().is_some_and(is_workplace)
}
