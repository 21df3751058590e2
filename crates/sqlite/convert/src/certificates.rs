//! The certificates that are named to open a database.

use std::path::Path;

use tdekit_key_crypto::SecretBytes;
use tdekit_key_store::{CertificateInfo, StoreError, Unlocked};
use tdekit_sqlite_page::Header;
use tdekit_sqlite_page::header::MAX_RECIPIENTS;
use tdekit_sqlite_page::keys::DEK_LEN;

use crate::convert::Form;
use crate::error::DatabaseError;
use crate::inspect::certificates_of;

/// Finds the certificates without duplicates, and makes sure that they wrap and that one of them
/// unwraps.
///
/// # Errors
/// `TooManyCertificates`, errors of the key store.
pub fn find_certificates(
    unlocked: &Unlocked,
    selectors: &[String],
) -> Result<Vec<CertificateInfo>, DatabaseError> {
    let mut found: Vec<CertificateInfo> = Vec::new();
    let trial = SecretBytes::new_zeroed(DEK_LEN).map_err(StoreError::Crypto)?;
    for selector in selectors {
        let info = unlocked.store().find(selector)?;
        unlocked.wrap_dek(&info.thumbprint(), &trial)?;
        if !found.iter().any(|known| known.sha256 == info.sha256) {
            found.push(info.clone());
        }
    }
    if found.len() > MAX_RECIPIENTS {
        return Err(DatabaseError::TooManyCertificates { most: MAX_RECIPIENTS });
    }
    match found.first() {
        Some(info) if !found.iter().any(|info| info.has_private_key) => {
            let (name, thumbprint) = (info.name.clone(), info.thumbprint());
            Err(StoreError::PrivateKeyMissing { name, thumbprint }.into())
        }
        _ => Ok(found),
    }
}

/// Records a new file in the key store before it takes its place at `path`, so that a crash cannot
/// leave a file whose certificate the store would drop. A record of another file at this path is
/// kept, because that file may have been moved.
pub(crate) fn record(
    form: &Form,
    unlocked: &Unlocked,
    file_id: [u8; 16],
    path: &Path,
) -> Result<(), StoreError> {
    let Form::Encrypted { certificates, .. } = form else { return Ok(()) };
    let store = unlocked.store();
    certificates.iter().try_for_each(|info| store.record_use(&info.sha256, file_id, path))
}

/// Records a database that was changed and not made, such as a copy that the store has not seen
/// yet. Returns the reason if the key store could not do so.
pub(crate) fn note(unlocked: &Unlocked, header: &Header, path: &Path) -> Option<StoreError> {
    let store = unlocked.store();
    let certificates = certificates_of(header);
    let mut ours = certificates.iter().filter(|it| store.by_sha256(it).is_some());
    ours.try_for_each(|sha256| store.record_use(sha256, header.file_id, path)).err()
}

/// Undoes [`record`].
pub(crate) fn forget(
    form: &Form,
    unlocked: &Unlocked,
    file_id: [u8; 16],
    path: &Path,
) -> Result<(), StoreError> {
    let Form::Encrypted { certificates, .. } = form else { return Ok(()) };
    let store = unlocked.store();
    certificates.iter().try_for_each(|info| store.forget_use(&info.sha256, file_id, path))
}
