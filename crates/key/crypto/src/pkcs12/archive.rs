//! PKCS#12 by the library.

use p12_keystore::error::Error;
use p12_keystore::{
    Certificate, EncryptionAlgorithm, KeyStore, KeyStoreEntry, MacAlgorithm, Pkcs12Archive,
    PrivateKeyChain,
};

use super::{Pkcs12Content, malformed};
use crate::{CryptoError, PrivateKey, sha1_thumbprint};

/// Rounds of the key derivations in files that we write.
const ROUNDS: u32 = 600_000;

pub(super) fn write(
    friendly_name: &str,
    certificate: &[u8],
    key: &PrivateKey,
    password: &str,
) -> Result<Vec<u8>, CryptoError> {
    let failed = |_| CryptoError::Library { operation: "write a PKCS#12 file" };
    let local_key_id = sha1_thumbprint(certificate);
    let pkcs8 = key.to_pkcs8()?;
    let chain = PrivateKeyChain::new(
        local_key_id.as_slice(),
        p12_keystore::PrivateKey::from_der(pkcs8.expose()).map_err(failed)?,
        [Certificate::from_der(certificate).map_err(failed)?],
    );
    let mut store = KeyStore::new();
    store.add_entry(friendly_name, KeyStoreEntry::PrivateKeyChain(chain));
    store
        .writer(password)
        .encryption_algorithm(EncryptionAlgorithm::PbeWithHmacSha256AndAes256)
        .encryption_iterations(ROUNDS)
        .mac_algorithm(MacAlgorithm::HmacSha256)
        .mac_iterations(ROUNDS)
        .write()
        .map_err(failed)
}

pub(super) fn read(bytes: &[u8], password: &str) -> Result<Pkcs12Content, CryptoError> {
    let archive = Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| match error {
        Error::MacError(_) | Error::UnpadError => CryptoError::Authentication,
        other => malformed(other.to_string()),
    })?;
    let mut content = Pkcs12Content::default();
    for bag in archive.keys {
        content.keys.push(PrivateKey::from_pkcs8(bag.key.as_der())?);
        content.friendly_name = content.friendly_name.or(bag.friendly_name);
    }
    content.certificates.extend(archive.certs.iter().map(|bag| bag.cert.as_der().to_vec()));
    if content.certificates.is_empty() && content.keys.is_empty() {
        return Err(malformed("it has neither a certificate nor a private key".to_owned()));
    }
    Ok(content)
}
