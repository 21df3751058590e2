//! The description of a database in the key store's audit log.

use std::path::Path;

use tdekit_key_store::{
    AuditCertificate, AuditDatabase, AuditKey, KeyStore, WrappedDek, is_workplace,
};
use tdekit_sqlite_page::Header;

/// Describes the database at `path`, with its key in force; `path` is the one that users know.
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

/// Returns true if `path` is a file that becomes a database later, under its own name: its maker
/// logs that name.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    path.parent().is_some_and(is_workplace)
}
