//! The numbered keys of a store.

use tdekit_key_store::{KeyStore, ServerKeys, StoreError, thumbprint};

use crate::error::MariadbError;

/// Lower numbers are reserved for the server.
pub const FIRST_FREE_ID: u32 = 10;

/// Returns the existing server keys.
///
/// # Errors
/// `NoServerKeys`, errors of the key store.
pub fn existing_keys(store: &KeyStore) -> Result<ServerKeys, MariadbError> {
    store.server_keys()?.ok_or(MariadbError::NoServerKeys)
}

/// Returns the named certificate, or the name of the one that signed the keys, which then stands
/// for its newest generation.
///
/// # Errors
/// Those of [`existing_keys`]; `CertificateMissing` for a signer that the store does not have.
pub fn certificate_or_signer(
    given: Option<&str>,
    store: &KeyStore,
) -> Result<String, MariadbError> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let signer = *existing_keys(store)?.signer();
    let missing = || StoreError::CertificateMissing { wanted: vec![thumbprint(&signer)] };
    Ok(store.by_sha256(&signer).ok_or_else(missing)?.name.clone())
}
