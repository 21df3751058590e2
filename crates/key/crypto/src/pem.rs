//! PEM files (RFC 7468) with certificates and private keys, and PKCS#8 encrypted by a password
//! (PBES2 of RFC 8018). A build without the feature `certificate-files` refuses encrypted PKCS#8.

#[cfg(feature = "certificate-files")]
mod encrypted;

use pem::{EncodeConfig, LineEnding, Pem};
use zeroize::Zeroizing;

use crate::ec::EcPrivateKey;
use crate::rsa::{MAX_PKCS8_LEN, RsaPrivateKey};
use crate::{CryptoError, PrivateKey};

#[cfg(feature = "certificate-files")]
use encrypted::{decrypt, encrypt};

/// Longest PEM file that is read, in bytes.
pub const MAX_PEM_LEN: usize = 1024 * 1024;

/// Rounds of PBKDF2-HMAC-SHA-256 in files that we write (OWASP, 2023).
pub const PBKDF2_ROUNDS: u32 = 600_000;

const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";
const RSA_PRIVATE_KEY: &str = "RSA PRIVATE KEY";
const EC_PRIVATE_KEY: &str = "EC PRIVATE KEY";
const ENCRYPTED_PRIVATE_KEY: &str = "ENCRYPTED PRIVATE KEY";

/// A private key, as stored in a PEM file.
#[derive(Debug)]
pub enum PemKey {
    /// Not encrypted.
    Plain(PrivateKey),
    /// PKCS#8 `EncryptedPrivateKeyInfo`, DER: see [`decrypt_pkcs8`].
    Encrypted(Vec<u8>),
}

/// The blocks of a PEM file that we read; others are skipped.
#[derive(Debug, Default)]
pub struct PemContent {
    /// Certificates, DER.
    pub certificates: Vec<Vec<u8>>,
    /// Private keys.
    pub keys: Vec<PemKey>,
}

/// A certificate as PEM, with line feeds.
#[must_use]
pub fn encode_certificate(der: &[u8]) -> String {
    encode(CERTIFICATE, der)
}

/// A private key as PEM, encrypted by `password`: PKCS#8 with PBES2, PBKDF2-HMAC-SHA-256 of
/// [`PBKDF2_ROUNDS`] and AES-256-CBC, which OpenSSL 1.1 and later and Java open.
///
/// # Errors
/// [`CryptoError::Random`]; [`CryptoError::Library`]; [`CryptoError::Memory`];
/// [`CryptoError::NotBuilt`].
pub fn encode_encrypted_key(key: &PrivateKey, password: &[u8]) -> Result<String, CryptoError> {
    Ok(encode(ENCRYPTED_PRIVATE_KEY, &encrypt(key, password)?))
}

/// Reads the certificates and private keys of a PEM file, in their order.
///
/// # Errors
/// [`CryptoError::Malformed`] when a block cannot be read or the file has none that we support.
pub fn decode(text: &[u8]) -> Result<PemContent, CryptoError> {
    if text.len() > MAX_PEM_LEN {
        return Err(malformed("it is longer than 1 MiB"));
    }
    let blocks = pem::parse_many(text).map_err(|error| malformed(&error.to_string()))?;
    let mut content = PemContent::default();
    for block in blocks {
        let tag = block.tag().to_owned();
        let headers = block.headers().iter().next().is_some();
        let der = Zeroizing::new(block.into_contents());
        match tag.as_str() {
            CERTIFICATE => content.certificates.push(der.to_vec()),
            PRIVATE_KEY => content.keys.push(PemKey::Plain(PrivateKey::from_pkcs8(&der)?)),
            RSA_PRIVATE_KEY | EC_PRIVATE_KEY if headers => {
                return Err(malformed(
                    "the private key is encrypted in OpenSSL's old form; convert it with \
                     `openssl pkcs8 -topk8`",
                ));
            }
            RSA_PRIVATE_KEY => {
                let key = RsaPrivateKey::from_pkcs1(&der)?;
                content.keys.push(PemKey::Plain(PrivateKey::Rsa(key)));
            }
            EC_PRIVATE_KEY => {
                let key = EcPrivateKey::from_der(&der)?;
                content.keys.push(PemKey::Plain(PrivateKey::Ec(key)));
            }
            ENCRYPTED_PRIVATE_KEY => content.keys.push(PemKey::Encrypted(der.to_vec())),
            _ => {}
        }
    }
    if content.certificates.is_empty() && content.keys.is_empty() {
        return Err(malformed("it has neither a certificate nor a private key"));
    }
    Ok(content)
}

/// Decrypts a PKCS#8 `EncryptedPrivateKeyInfo`: PBES2 with PBKDF2 or scrypt, AES-CBC, AES-GCM or
/// 3DES. The cost that the file asks for is bounded.
///
/// # Errors
/// [`CryptoError::Authentication`] for a wrong password (or changed bytes: the CBC schemes cannot
/// tell these apart); [`CryptoError::Parameter`] for a cost out of bounds;
/// [`CryptoError::Malformed`]; [`CryptoError::NotBuilt`].
pub fn decrypt_pkcs8(der: &[u8], password: &[u8]) -> Result<PrivateKey, CryptoError> {
    if der.len() > MAX_PKCS8_LEN {
        return Err(CryptoError::Malformed {
            what: "private key",
            reason: "it is longer than 16 KiB".to_owned(),
        });
    }
    decrypt(der, password)
}

#[cfg(not(feature = "certificate-files"))]
fn encrypt(_: &PrivateKey, _: &[u8]) -> Result<Vec<u8>, CryptoError> {
    Err(CryptoError::NotBuilt { what: "private keys in files" })
}

#[cfg(not(feature = "certificate-files"))]
fn decrypt(_: &[u8], _: &[u8]) -> Result<PrivateKey, CryptoError> {
    Err(CryptoError::NotBuilt { what: "private keys in files" })
}

fn encode(tag: &str, der: &[u8]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(tag, der), config)
}

fn malformed(reason: &str) -> CryptoError {
    CryptoError::Malformed { what: "PEM file", reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "certificate-files")]
    #[test]
    fn certificate_and_encrypted_key_come_back() {
        use crate::{KeyType, x509};
        let key = PrivateKey::generate(KeyType::default()).unwrap();
        let der = x509::self_signed(&key, "x", 0, 86_400).unwrap();
        let mut text = encode_certificate(&der);
        text.push_str(&encode_encrypted_key(&key, b"secret").unwrap());
        assert!(!text.contains('\r'));
        let content = decode(text.as_bytes()).unwrap();
        assert_eq!(content.certificates, [der]);
        let [PemKey::Encrypted(encrypted)] = content.keys.as_slice() else {
            panic!("{content:?}");
        };
        let opened = decrypt_pkcs8(encrypted, b"secret").unwrap();
        assert_eq!(opened.spki(), key.spki());
        assert_eq!(decrypt_pkcs8(encrypted, b"Secret").unwrap_err(), CryptoError::Authentication);
        for cut in 0..encrypted.len() {
            assert!(decrypt_pkcs8(&encrypted[..cut], b"secret").is_err());
        }
    }

    #[test]
    fn what_is_no_pem_is_refused() {
        assert!(decode(b"").is_err());
        assert!(decode(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n").is_err());
        assert!(decode(b"-----BEGIN X-----\nAAAA\n-----END X-----\n").is_err());
        assert!(decode(&vec![b'-'; MAX_PEM_LEN + 1]).is_err());
    }
}
