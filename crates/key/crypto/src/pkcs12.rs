//! PKCS#12 files (RFC 7292): a certificate and its private key under one password.

use p12_keystore::error::Error;
use p12_keystore::{
    Certificate, EncryptionAlgorithm, KeyStore, KeyStoreEntry, MacAlgorithm, Pkcs12Archive,
    PrivateKey, PrivateKeyChain,
};

use crate::fips::not_approved;
use crate::rsa::RsaPrivateKey;
use crate::{CryptoError, sha1_thumbprint};

/// Longest PKCS#12 file that is read, in bytes.
pub const MAX_PKCS12_LEN: usize = 1024 * 1024;

/// Rounds of the key derivations in files that we write.
const ROUNDS: u32 = 600_000;

/// The parts of a PKCS#12 file that we read.
#[derive(Debug, Default)]
pub struct Pkcs12Content {
    /// Certificates, DER, in their order.
    pub certificates: Vec<Vec<u8>>,
    /// RSA private keys.
    pub keys: Vec<RsaPrivateKey>,
    /// The private key's friendly name, where it has one.
    pub friendly_name: Option<String>,
}

/// Writes a certificate and its private key: AES-256-CBC by PBES2 with PBKDF2-HMAC-SHA-256, MAC
/// HMAC-SHA-256, which OpenSSL 1.1, Java 8u301 and Windows Server 2019 (and later) open.
///
/// # Errors
/// [`CryptoError::Library`] when the certificate or key is refused; [`CryptoError::Memory`].
pub fn encode(
    friendly_name: &str,
    certificate: &[u8],
    key: &RsaPrivateKey,
    password: &str,
) -> Result<Vec<u8>, CryptoError> {
    not_approved("PKCS#12")?;
    let failed = |_| CryptoError::Library { operation: "write a PKCS#12 file" };
    let local_key_id = sha1_thumbprint(certificate);
    let pkcs8 = key.to_pkcs8()?;
    let chain = PrivateKeyChain::new(
        local_key_id.as_slice(),
        PrivateKey::from_der(pkcs8.expose()).map_err(failed)?,
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

/// Reads a PKCS#12 file: PBES2, or the older 3DES and RC2 schemes that Windows and SQL Server
/// still write. The cost that the file asks for is bounded by the library (1,000,000 rounds,
/// 1 GiB).
///
/// # Errors
/// [`CryptoError::Authentication`] for a wrong password; [`CryptoError::Malformed`].
pub fn decode(bytes: &[u8], password: &str) -> Result<Pkcs12Content, CryptoError> {
    not_approved("PKCS#12")?;
    if bytes.len() > MAX_PKCS12_LEN {
        return Err(malformed("it is longer than 1 MiB".to_owned()));
    }
    let archive = Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| match error {
        Error::MacError(_) | Error::UnpadError => CryptoError::Authentication,
        other => malformed(other.to_string()),
    })?;
    let mut content = Pkcs12Content::default();
    for bag in archive.keys {
        content.keys.push(RsaPrivateKey::from_pkcs8(bag.key.as_der())?);
        content.friendly_name = content.friendly_name.or(bag.friendly_name);
    }
    content.certificates.extend(archive.certs.iter().map(|bag| bag.cert.as_der().to_vec()));
    if content.certificates.is_empty() && content.keys.is_empty() {
        return Err(malformed("it has neither a certificate nor a private key".to_owned()));
    }
    Ok(content)
}

fn malformed(reason: String) -> CryptoError {
    CryptoError::Malformed { what: "PKCS#12 file", reason }
}

#[cfg(test)]
#[cfg(not(feature = "fips"))]
mod tests {
    use super::*;
    use crate::rsa::RsaBits;
    use crate::x509;

    #[test]
    fn certificate_and_key_come_back() {
        let key = RsaPrivateKey::generate(RsaBits::Rsa3072).unwrap();
        let der = x509::self_signed(&key, "Müller & Söhne", 0, 86_400).unwrap();
        let mut bytes = encode("AppCert", &der, &key, "p\u{e4}ssword").unwrap();
        let content = decode(&bytes, "p\u{e4}ssword").unwrap();
        assert_eq!(content.certificates, [der]);
        assert_eq!(content.friendly_name.as_deref(), Some("AppCert"));
        assert_eq!(content.keys[0].public_key().spki(), key.public_key().spki());
        assert_eq!(decode(&bytes, "password").unwrap_err(), CryptoError::Authentication);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        assert!(decode(&bytes, "p\u{e4}ssword").is_err());
        assert!(decode(&bytes[..middle], "p\u{e4}ssword").is_err());
        assert!(decode(&[], "x").is_err());
    }
}
