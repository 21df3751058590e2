//! EC keys of certificates, on the curve P-384 (NIST SP 800-186): wrapping by ECDH and AES key
//! wrap, signatures by ECDSA (FIPS 186-5), PKCS#8 (RFC 5958).
//!
//! A key is wrapped as in NIST SP 800-56A, scheme C(1e, 1s): ECDH of an ephemeral key with the
//! certificate's, HKDF-SHA-256 of the shared secret, and AES-256 key wrap under the result.

use std::fmt;

use aws_lc_rs::agreement::{ECDH_P384, ParsedPublicKey, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::EcdsaKeyPair;
use aws_lc_rs::signature::{self, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA384_ASN1_SIGNING};

use crate::rsa::{MAX_PKCS8_LEN, MAX_WRAPPED_KEY_LEN};
use crate::wrap::{WRAPPING_KEY_LEN, unwrap_key, wrap_key};
use crate::{CryptoError, SecretBytes, hkdf_sha256};

/// Length of an uncompressed point (SEC 1, section 2.3.3) in bytes.
pub const POINT_LEN: usize = 97;

/// `SubjectPublicKeyInfo` of a key on P-384 up to its point (RFC 5480, section 2).
const SPKI_HEAD: [u8; 23] = [
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x05, 0x2B,
    0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];

/// First byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// Begins HKDF's info; the ephemeral and the certificate's point follow.
const LABEL: &[u8] = b"tdekit wrap v1 ECDH P-384";

/// A private key on P-384.
///
/// The library keeps its copy on its own heap and wipes it when it is dropped.
pub struct EcPrivateKey {
    key: PrivateKey,
    public: EcPublicKey,
}

impl EcPrivateKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn generate() -> Result<Self, CryptoError> {
        let key = PrivateKey::generate(&ECDH_P384);
        Self::prepare(key.map_err(|_| CryptoError::Library { operation: "make an EC key" })?)
    }

    /// Reads and checks an unencrypted PKCS#8 `PrivateKeyInfo` with a key on P-384, or an
    /// `ECPrivateKey` (RFC 5915), the content of `BEGIN EC PRIVATE KEY`.
    ///
    /// # Errors
    /// [`CryptoError::Malformed`].
    pub fn from_der(der: &[u8]) -> Result<Self, CryptoError> {
        if der.len() > MAX_PKCS8_LEN {
            return Err(malformed("private key", "it is longer than 16 KiB"));
        }
        let key = PrivateKey::from_private_key_der(&ECDH_P384, der)
            .map_err(|_| malformed("private key", "it is not a key on P-384"))?;
        Self::prepare(key)
    }

    fn prepare(key: PrivateKey) -> Result<Self, CryptoError> {
        let failed = || CryptoError::Library { operation: "prepare an EC key" };
        let public = key.compute_public_key().map_err(|_| failed())?;
        let point = public.as_ref().try_into().map_err(|_| failed())?;
        Ok(Self { key, public: EcPublicKey { point } })
    }

    /// The key as PKCS#8 `PrivateKeyInfo`.
    ///
    /// # Errors
    /// [`CryptoError::Library`]; [`CryptoError::Memory`].
    pub fn to_pkcs8(&self) -> Result<SecretBytes, CryptoError> {
        let der: Pkcs8V1Der<'_> =
            self.key.as_der().map_err(|_| CryptoError::Library { operation: "write an EC key" })?;
        SecretBytes::from_slice(der.as_ref())
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> &EcPublicKey {
        &self.public
    }

    /// Unwraps a key that [`EcPublicKey::wrap`] wrapped.
    ///
    /// # Errors
    /// [`CryptoError::Authentication`] when it was wrapped for another key or was changed.
    pub fn unwrap(&self, wrapped: &[u8]) -> Result<SecretBytes, CryptoError> {
        let (ephemeral, wrapped) =
            wrapped.split_first_chunk().ok_or(CryptoError::Authentication)?;
        let key = wrapping_key(&self.key, ephemeral, (ephemeral, &self.public.point))?;
        unwrap_key(key.expose(), wrapped).map_err(|_| CryptoError::Authentication)
    }

    /// Signs by ECDSA with SHA-384. The signature is DER (RFC 3279, section 2.2.3), of at most 104
    /// bytes, and differs at each call.
    ///
    /// # Errors
    /// [`CryptoError::Library`]; [`CryptoError::Memory`].
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let failed = |_| CryptoError::Library { operation: "sign by ECDSA" };
        let pkcs8 = self.to_pkcs8()?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_ASN1_SIGNING, pkcs8.expose())
            .map_err(|_| CryptoError::Library { operation: "prepare an EC key" })?;
        let signature = key.sign(&SystemRandom::new(), message).map_err(failed)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl fmt::Debug for EcPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EcPrivateKey(P-384, redacted)")
    }
}

/// A public key on P-384.
pub struct EcPublicKey {
    point: [u8; POINT_LEN],
}

impl EcPublicKey {
    /// Reads a `SubjectPublicKeyInfo` (RFC 5480) with an uncompressed point on P-384.
    ///
    /// # Errors
    /// [`CryptoError::Malformed`].
    pub fn from_spki(der: &[u8]) -> Result<Self, CryptoError> {
        let point = der.strip_prefix(&SPKI_HEAD).and_then(|point| point.try_into().ok());
        point
            .filter(|point: &[u8; POINT_LEN]| {
                let parsed = ParsedPublicKey::try_from(UnparsedPublicKey::new(&ECDH_P384, point));
                point[0] == UNCOMPRESSED && parsed.is_ok()
            })
            .map(|point| Self { point })
            .ok_or_else(|| malformed("public key", "it is not a key on P-384"))
    }

    /// Returns true for a `SubjectPublicKeyInfo` that begins as that of a key on P-384.
    pub(crate) fn is_of(spki: &[u8]) -> bool {
        spki.starts_with(&SPKI_HEAD)
    }

    /// The `SubjectPublicKeyInfo`, DER.
    #[must_use]
    pub fn spki(&self) -> Vec<u8> {
        [&SPKI_HEAD[..], &self.point].concat()
    }

    /// The uncompressed point.
    pub(crate) fn point(&self) -> &[u8; POINT_LEN] {
        &self.point
    }

    /// Wraps `key`. The result has [`POINT_LEN`] bytes of an ephemeral public key, then 8 bytes
    /// more than `key` rounded up to a multiple of 8, and differs at each call.
    ///
    /// # Errors
    /// [`CryptoError::Length`] for a key that is empty or longer than [`MAX_WRAPPED_KEY_LEN`];
    /// [`CryptoError::Library`].
    pub fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, CryptoError> {
        if key.is_empty() || key.len() > MAX_WRAPPED_KEY_LEN {
            let (max, actual) = (MAX_WRAPPED_KEY_LEN, key.len());
            return Err(CryptoError::Length { what: "key to wrap", min: 1, max, actual });
        }
        let ephemeral = EcPrivateKey::generate()?;
        let point = ephemeral.public.point;
        let wrapping_key = wrapping_key(&ephemeral.key, &self.point, (&point, &self.point))?;
        Ok([&point[..], &wrap_key(wrapping_key.expose(), key)?].concat())
    }

    /// Returns true if [`EcPrivateKey::sign`] made `signature` for `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = signature::UnparsedPublicKey::new(&ECDSA_P384_SHA384_ASN1, &self.point);
        key.verify(message, signature).is_ok()
    }
}

impl fmt::Debug for EcPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EcPublicKey(P-384)")
    }
}

/// The key that wraps: HKDF-SHA-256 of ECDH's shared secret, without a salt, with the label and
/// both points, the ephemeral one first, as its info.
fn wrapping_key(
    own: &PrivateKey,
    peer: &[u8; POINT_LEN],
    (ephemeral, certificate): (&[u8; POINT_LEN], &[u8; POINT_LEN]),
) -> Result<SecretBytes, CryptoError> {
    let peer = UnparsedPublicKey::new(&ECDH_P384, peer);
    agree(own, peer, CryptoError::Authentication, |shared| {
        let mut key = SecretBytes::new_zeroed(WRAPPING_KEY_LEN)?;
        hkdf_sha256(shared, b"", &[LABEL, ephemeral, certificate], key.expose_mut())?;
        Ok(key)
    })
}

fn malformed(what: &'static str, reason: &str) -> CryptoError {
    CryptoError::Malformed { what, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_unwraps() {
        let key = EcPrivateKey::generate().unwrap();
        let dek = [7; 32];
        let wrapped = key.public_key().wrap(&dek).unwrap();
        assert_eq!(wrapped.len(), POINT_LEN + 40);
        assert_ne!(wrapped, key.public_key().wrap(&dek).unwrap());
        assert_eq!(key.unwrap(&wrapped).unwrap().expose(), dek);

        let again = EcPrivateKey::from_der(key.to_pkcs8().unwrap().expose()).unwrap();
        assert_eq!(again.unwrap(&wrapped).unwrap().expose(), dek);
        let public = EcPublicKey::from_spki(&key.public_key().spki()).unwrap();
        assert_eq!(public.point(), again.public_key().point());
        assert_eq!(again.unwrap(&public.wrap(&dek).unwrap()).unwrap().expose(), dek);
    }

    #[test]
    fn other_keys_and_changed_bytes_are_refused() {
        let (key, other) = (EcPrivateKey::generate().unwrap(), EcPrivateKey::generate().unwrap());
        let wrapped = key.public_key().wrap(&[7; 32]).unwrap();
        assert_eq!(other.unwrap(&wrapped).err(), Some(CryptoError::Authentication));
        for at in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            assert_eq!(key.unwrap(&changed).err(), Some(CryptoError::Authentication), "{at}");
            assert_eq!(key.unwrap(&wrapped[..at]).err(), Some(CryptoError::Authentication), "{at}");
        }
        assert!(key.public_key().wrap(&[]).is_err());
        assert!(key.public_key().wrap(&[0; MAX_WRAPPED_KEY_LEN + 1]).is_err());
        let mut spki = key.public_key().spki();
        spki[60] ^= 1;
        assert!(EcPublicKey::from_spki(&spki).is_err(), "not on the curve");
        assert!(EcPublicKey::from_spki(&spki[..119]).is_err());
        assert!(EcPrivateKey::from_der(&[0; 40]).is_err());
    }

    #[test]
    fn signs_and_verifies() {
        let (key, other) = (EcPrivateKey::generate().unwrap(), EcPrivateKey::generate().unwrap());
        let mut signature = key.sign(b"message").unwrap();
        assert!(signature.len() <= 104 && key.public_key().verifies(b"message", &signature));
        assert!(!key.public_key().verifies(b"other", &signature));
        assert!(!other.public_key().verifies(b"message", &signature));
        signature[20] ^= 1;
        assert!(!key.public_key().verifies(b"message", &signature));
        assert_eq!(format!("{key:?}"), "EcPrivateKey(P-384, redacted)");
    }
}
