//! The numbered keys that a store has.

use tdekit_key_store::{KeyStore, ServerKeys, StoreError, thumbprint};

use crate::error::MariadbError;

/// Numbers below this are the server's own.
pub const FIRST_FREE_ID: u32 = 10;

/// The server keys that there are.
///
/// # Errors
/// `NoServerKeys`, errors of the key store.
pub fn existing_keys(store: &KeyStore) -> Result<ServerKeys, MariadbError> {
    store.server_keys()?.ok_or(MariadbError::NoServerKeys)
}

/// The certificate that was named; else the name of the one that signed the keys, whose newest
/// generation then counts.
///
/// # Errors
/// Those of [`existing_keys`]; `CertificateMissing` of a signer that the store does not have.
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
