//! PKCS#8 `EncryptedPrivateKeyInfo`.

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::Encode;
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::pkcs5::{self, EncryptionScheme, pbes2};

use super::PBKDF2_ROUNDS;
use crate::fips::not_approved;
use crate::pbes2::Prepared;
use crate::{CryptoError, PrivateKey, SecretBytes, random_bytes};

/// Maximum number of rounds accepted from a file: about 3 s.
const MAX_PBKDF2_ROUNDS: u32 = 10_000_000;
const MAX_SCRYPT_MEMORY: u64 = 256 << 20;
const MAX_SCRYPT_LANES: u16 = 16;

pub(super) fn encrypt(key: &PrivateKey, password: &[u8]) -> Result<Vec<u8>, CryptoError> {
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
    info.to_der().map_err(|_| failed())
}

pub(super) fn decrypt(der: &[u8], password: &[u8]) -> Result<PrivateKey, CryptoError> {
    let unreadable = |reason: String| CryptoError::Malformed { what: "private key", reason };
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
    // A wrong password passes the padding check once in 256 times; the result is then not a key.
    PrivateKey::from_pkcs8(buffer.expose()).map_err(|_| CryptoError::Authentication)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
