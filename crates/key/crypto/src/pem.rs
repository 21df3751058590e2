//! PEM files (RFC 7468) with certificates and private keys, and PKCS#8 encrypted by a password
//! (PBES2 of RFC 8018).

use pem::{EncodeConfig, LineEnding, Pem};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::Encode;
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::pkcs5::{self, EncryptionScheme, pbes2};
use zeroize::Zeroizing;

use crate::fips::not_approved;
use crate::pbes2::Prepared;
use crate::rsa::{MAX_PKCS8_LEN, RsaPrivateKey};
use crate::{CryptoError, SecretBytes, random_bytes};

/// Longest PEM file that is read, in bytes.
pub const MAX_PEM_LEN: usize = 1024 * 1024;

/// Rounds of PBKDF2-HMAC-SHA-256 in files that we write (OWASP, 2023).
pub const PBKDF2_ROUNDS: u32 = 600_000;

/// Most rounds that are accepted from a file: about 3 s.
const MAX_PBKDF2_ROUNDS: u32 = 10_000_000;
const MAX_SCRYPT_MEMORY: u64 = 256 << 20;
const MAX_SCRYPT_LANES: u16 = 16;

const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";
const RSA_PRIVATE_KEY: &str = "RSA PRIVATE KEY";
const ENCRYPTED_PRIVATE_KEY: &str = "ENCRYPTED PRIVATE KEY";

/// A private key as it stands in a PEM file.
#[derive(Debug)]
pub enum PemKey {
    /// Not encrypted.
    Plain(RsaPrivateKey),
    /// PKCS#8 `EncryptedPrivateKeyInfo`, DER: see [`decrypt_pkcs8`].
    Encrypted(Vec<u8>),
}

/// The blocks of a PEM file that we read; others are passed over.
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
/// [`CryptoError::Random`]; [`CryptoError::Library`]; [`CryptoError::Memory`].
pub fn encode_encrypted_key(key: &RsaPrivateKey, password: &[u8]) -> Result<String, CryptoError> {
    let failed = || CryptoError::Library { operation: "encrypt a private key" };
    let (mut salt, mut iv) = ([0; 16], [0; 16]);
    random_bytes(&mut salt)?;
    random_bytes(&mut iv)?;
    let params = pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(PBKDF2_ROUNDS, &salt, iv)
        .map_err(|_| failed())?;
    let pkcs8 = key.to_pkcs8()?;
    let scheme = EncryptionScheme::Pbes2(params);
    let prepared = Prepared::new(&scheme, password)?.ok_or_else(failed)?;
    let encrypted = prepared.encrypt(pkcs8.expose())?;
    let info = EncryptedPrivateKeyInfoRef {
        encryption_algorithm: scheme,
        encrypted_data: OctetStringRef::new(&encrypted).map_err(|_| failed())?,
    };
    Ok(encode(ENCRYPTED_PRIVATE_KEY, &info.to_der().map_err(|_| failed())?))
}

/// Reads the certificates and private keys of a PEM file, in their order.
///
/// # Errors
/// [`CryptoError::Malformed`] when a block cannot be read or there is none that we read.
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
            PRIVATE_KEY => content.keys.push(PemKey::Plain(RsaPrivateKey::from_pkcs8(&der)?)),
            RSA_PRIVATE_KEY if headers => {
                return Err(malformed(
                    "the private key is encrypted in OpenSSL's old form; convert it with \
                     `openssl pkcs8 -topk8`",
                ));
            }
            RSA_PRIVATE_KEY => content.keys.push(PemKey::Plain(RsaPrivateKey::from_pkcs1(&der)?)),
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
/// [`CryptoError::Malformed`].
pub fn decrypt_pkcs8(der: &[u8], password: &[u8]) -> Result<RsaPrivateKey, CryptoError> {
    let unreadable = |reason: String| CryptoError::Malformed { what: "private key", reason };
    if der.len() > MAX_PKCS8_LEN {
        return Err(unreadable("it is longer than 16 KiB".to_owned()));
    }
    let info =
        EncryptedPrivateKeyInfoRef::try_from(der).map_err(|error| unreadable(error.to_string()))?;
    check_cost(&info.encryption_algorithm)?;
    let mut buffer = SecretBytes::from_slice(info.encrypted_data.as_bytes())?;
    let len = match Prepared::new(&info.encryption_algorithm, password)? {
        Some(prepared) => prepared.decrypt(buffer.expose_mut())?,
        None => {
            not_approved("a private key's encryption by other than PBKDF2 and AES-CBC")?;
            info.encryption_algorithm
                .decrypt_in_place(password, buffer.expose_mut())
                .map_err(|error| match error {
                    pkcs5::Error::DecryptFailed => CryptoError::Authentication,
                    other => unreadable(other.to_string()),
                })?
                .len()
        }
    };
    buffer.truncate(len);
    // A wrong password passes the padding check once in 256; the result is no key then.
    RsaPrivateKey::from_pkcs8(buffer.expose()).map_err(|_| CryptoError::Authentication)
}

fn check_cost(scheme: &EncryptionScheme) -> Result<(), CryptoError> {
    let (what, max, actual) = match scheme.pbes2().map(|params| &params.kdf) {
        Some(pbes2::Kdf::Pbkdf2(params)) => {
            ("PBKDF2 rounds", MAX_PBKDF2_ROUNDS.into(), params.iteration_count.into())
        }
        Some(pbes2::Kdf::Scrypt(params)) if params.parallelization > MAX_SCRYPT_LANES => {
            ("scrypt lanes", MAX_SCRYPT_LANES.into(), params.parallelization.into())
        }
        Some(pbes2::Kdf::Scrypt(params)) => {
            let memory = params
                .cost_parameter
                .saturating_mul(128)
                .saturating_mul(u64::from(params.block_size));
            ("scrypt memory in bytes", MAX_SCRYPT_MEMORY, memory)
        }
        _ => {
            return Err(CryptoError::Malformed {
                what: "private key",
                reason: "it is encrypted by an old scheme (PBES1); convert it with \
                         `openssl pkcs8 -topk8 -v2 aes-256-cbc`"
                    .to_owned(),
            });
        }
    };
    if actual > max {
        return Err(CryptoError::Parameter { what, min: 1, max, actual });
    }
    Ok(())
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
    use crate::rsa::RsaBits;
    use crate::x509;

    #[test]
    fn certificate_and_encrypted_key_come_back() {
        let key = RsaPrivateKey::generate(RsaBits::Rsa3072).unwrap();
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
        assert_eq!(opened.public_key().spki(), key.public_key().spki());
        assert_eq!(decrypt_pkcs8(encrypted, b"Secret").unwrap_err(), CryptoError::Authentication);
        for cut in 0..encrypted.len() {
            assert!(decrypt_pkcs8(&encrypted[..cut], b"secret").is_err());
        }
    }

    #[test]
    fn costs_from_a_file_are_bounded() {
        let costly = |params| check_cost(&EncryptionScheme::Pbes2(params));
        let pbkdf2 = |rounds| {
            pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(rounds, &[0; 16], [0; 16]).unwrap()
        };
        assert!(costly(pbkdf2(MAX_PBKDF2_ROUNDS)).is_ok());
        assert!(costly(pbkdf2(MAX_PBKDF2_ROUNDS + 1)).is_err());
        let scrypt = |log_n, r, p| {
            let params = pkcs5::scrypt::Params::new(log_n, r, p).unwrap();
            pbes2::Parameters::generate_scrypt_aes256cbc(params, &[0; 16], [0; 16]).unwrap()
        };
        assert!(costly(scrypt(15, 8, 1)).is_ok());
        assert!(costly(scrypt(20, 8, 1)).is_err());
        assert!(costly(scrypt(15, 8, 17)).is_err());
    }

    #[test]
    fn what_is_no_pem_is_refused() {
        assert!(decode(b"").is_err());
        assert!(decode(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n").is_err());
        assert!(decode(b"-----BEGIN X-----\nAAAA\n-----END X-----\n").is_err());
        assert!(decode(&vec![b'-'; MAX_PEM_LEN + 1]).is_err());
    }
}
