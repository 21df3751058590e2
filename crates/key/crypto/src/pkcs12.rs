//! PKCS#12 files (RFC 7292): a certificate and its private key under one password.
//!
//! A build without the feature `certificate-files` refuses them, because it has no library for the
//! format.

#[cfg(feature = "certificate-files")]
mod archive;

#[cfg(feature = "certificate-files")]
use archive::{read, write};

use crate::fips::not_approved;
use crate::{CryptoError, PrivateKey};

/// Longest PKCS#12 file that is read, in bytes.
pub const MAX_PKCS12_LEN: usize = 1024 * 1024;

/// The parts of a PKCS#12 file that we read.
#[derive(Debug, Default)]
pub struct Pkcs12Content {
    /// Certificates, DER, in their order.
    pub certificates: Vec<Vec<u8>>,
    /// Private keys.
    pub keys: Vec<PrivateKey>,
    /// The private key's friendly name, where it has one.
    pub friendly_name: Option<String>,
}

/// Writes a certificate and its private key: AES-256-CBC by PBES2 with PBKDF2-HMAC-SHA-256, MAC
/// HMAC-SHA-256, which OpenSSL 1.1, Java 8u301 and Windows Server 2019 (and later) open.
///
/// # Errors
/// [`CryptoError::Library`] when the certificate or key is refused; [`CryptoError::Memory`];
/// [`CryptoError::NotApproved`] and [`CryptoError::NotBuilt`].
pub fn encode(
    friendly_name: &str,
    certificate: &[u8],
    key: &PrivateKey,
    password: &str,
) -> Result<Vec<u8>, CryptoError> {
    not_approved("PKCS#12")?;
    write(friendly_name, certificate, key, password)
}

/// Reads a PKCS#12 file: PBES2, or the older 3DES and RC2 schemes that Windows and SQL Server
/// still write. The cost that the file asks for is bounded by the library (1,000,000 rounds,
/// 1 GiB).
///
/// # Errors
/// [`CryptoError::Authentication`] for a wrong password; [`CryptoError::Malformed`];
/// [`CryptoError::NotApproved`] and [`CryptoError::NotBuilt`].
pub fn decode(bytes: &[u8], password: &str) -> Result<Pkcs12Content, CryptoError> {
    not_approved("PKCS#12")?;
    if bytes.len() > MAX_PKCS12_LEN {
        return Err(malformed("it is longer than 1 MiB".to_owned()));
    }
    read(bytes, password)
}

#[cfg(not(feature = "certificate-files"))]
fn write(_: &str, _: &[u8], _: &PrivateKey, _: &str) -> Result<Vec<u8>, CryptoError> {
    Err(CryptoError::NotBuilt { what: "PKCS#12" })
}

#[cfg(not(feature = "certificate-files"))]
fn read(_: &[u8], _: &str) -> Result<Pkcs12Content, CryptoError> {
    Err(CryptoError::NotBuilt { what: "PKCS#12" })
}

fn malformed(reason: String) -> CryptoError {
    CryptoError::Malformed { what: "PKCS#12 file", reason }
}

#[cfg(test)]
#[cfg(all(feature = "certificate-files", not(feature = "fips")))]
mod tests {
    use super::*;
    use crate::KeyType;
    use crate::x509;

    #[test]
    fn certificate_and_key_come_back() {
        let key = PrivateKey::generate(KeyType::default()).unwrap();
        let der = x509::self_signed(&key, "Müller & Söhne", 0, 86_400).unwrap();
        let mut bytes = encode("AppCert", &der, &key, "p\u{e4}ssword").unwrap();
        let content = decode(&bytes, "p\u{e4}ssword").unwrap();
        assert_eq!(content.certificates, [der]);
        assert_eq!(content.friendly_name.as_deref(), Some("AppCert"));
        assert_eq!(content.keys[0].spki(), key.spki());
        assert_eq!(decode(&bytes, "password").unwrap_err(), CryptoError::Authentication);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        assert!(decode(&bytes, "p\u{e4}ssword").is_err());
        assert!(decode(&bytes[..middle], "p\u{e4}ssword").is_err());
        assert!(decode(&[], "x").is_err());
    }
}
