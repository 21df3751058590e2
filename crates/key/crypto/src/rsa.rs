//! RSA keys of certificates: wrapping by OAEP-SHA-256, signatures by PSS (RFC 8017), PKCS#8
//! (RFC 5958).

use std::fmt;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{
    KeyPair, KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA256, RSA_PSS_SHA256, RsaEncoding,
    UnparsedPublicKey,
};

use crate::{CryptoError, SecretBytes};

/// Maximum length of a PKCS#8 document, in bytes: RSA of 8192 bits needs some 4.7 KiB.
pub const MAX_PKCS8_LEN: usize = 16 * 1024;

/// Maximum length of a key for [`RsaPublicKey::wrap`]: the capacity of OAEP-SHA-256 with 2048 bits.
pub const MAX_WRAPPED_KEY_LEN: usize = 190;

/// Size of a key to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RsaBits {
    /// 3072 bits: 128 bits of security.
    Rsa3072,
    /// 4096 bits.
    Rsa4096,
}

impl RsaBits {
    /// The number of bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Rsa3072 => 3072,
            Self::Rsa4096 => 4096,
        }
    }
}

/// An RSA private key, prepared.
///
/// The library keeps its copy on its own heap and wipes it when it is dropped.
pub struct RsaPrivateKey {
    key: PrivateDecryptingKey,
    decrypting: OaepPrivateDecryptingKey,
    public: RsaPublicKey,
}

impl RsaPrivateKey {
    /// Generates a key with public exponent 65537.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn generate(bits: RsaBits) -> Result<Self, CryptoError> {
        let size = match bits {
            RsaBits::Rsa3072 => KeySize::Rsa3072,
            RsaBits::Rsa4096 => KeySize::Rsa4096,
        };
        let key = PrivateDecryptingKey::generate(size)
            .map_err(|_| CryptoError::Library { operation: "make an RSA key" })?;
        Self::prepare(key)
    }

    /// Reads and checks an unencrypted PKCS#8 `PrivateKeyInfo` with an RSA key of 2048 to 8192
    /// bits.
    ///
    /// # Errors
    /// [`CryptoError::Malformed`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, CryptoError> {
        if der.len() > MAX_PKCS8_LEN {
            return Err(malformed("it is longer than 16 KiB"));
        }
        let key = PrivateDecryptingKey::from_pkcs8(der).map_err(|_| {
            malformed("it is neither an RSA key of 2048 to 8192 bits nor an EC key on P-384")
        })?;
        Self::prepare(key)
    }

    /// Reads an unencrypted `RSAPrivateKey` (PKCS#1), the content of `BEGIN RSA PRIVATE KEY`.
    ///
    /// # Errors
    /// [`CryptoError::Malformed`].
    pub fn from_pkcs1(der: &[u8]) -> Result<Self, CryptoError> {
        if der.len() > MAX_PKCS8_LEN {
            return Err(malformed("it is longer than 16 KiB"));
        }
        let pair = KeyPair::from_der(der)
            .map_err(|_| malformed("it is not an RSA key of 2048 to 8192 bits in PKCS#1"))?;
        let pkcs8 = pair.as_der().map_err(|_| malformed("it has no PKCS#8 form"))?;
        Self::from_pkcs8(pkcs8.as_ref())
    }

    fn prepare(key: PrivateDecryptingKey) -> Result<Self, CryptoError> {
        let failed = |_| CryptoError::Library { operation: "prepare an RSA key" };
        let spki = key.public_key().as_der().map_err(failed)?;
        let public = RsaPublicKey::from_spki(spki.as_ref())?;
        let decrypting = OaepPrivateDecryptingKey::new(key.clone()).map_err(failed)?;
        Ok(Self { key, decrypting, public })
    }

    /// The key as PKCS#8 `PrivateKeyInfo`.
    ///
    /// # Errors
    /// [`CryptoError::Library`]; [`CryptoError::Memory`].
    pub fn to_pkcs8(&self) -> Result<SecretBytes, CryptoError> {
        let der = self
            .key
            .as_der()
            .map_err(|_| CryptoError::Library { operation: "write an RSA key" })?;
        SecretBytes::from_slice(der.as_ref())
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> &RsaPublicKey {
        &self.public
    }

    /// Unwraps a key that [`RsaPublicKey::wrap`] wrapped.
    ///
    /// # Errors
    /// [`CryptoError::Authentication`] when it was wrapped for another key or was changed.
    pub fn unwrap(&self, wrapped: &[u8]) -> Result<SecretBytes, CryptoError> {
        if wrapped.len() != self.decrypting.key_size_bytes() {
            return Err(CryptoError::Authentication);
        }
        let mut key = SecretBytes::new_zeroed(self.decrypting.min_output_size())?;
        let len = self
            .decrypting
            .decrypt(&OAEP_SHA256_MGF1SHA256, wrapped, key.expose_mut(), None)
            .map_err(|_| CryptoError::Authentication)?
            .len();
        key.truncate(len);
        Ok(key)
    }

    /// Signs by RSASSA-PSS with SHA-256, MGF1 of SHA-256 and a salt of 32 bytes. The signature is
    /// as long as the modulus and differs at each call.
    ///
    /// # Errors
    /// [`CryptoError::Library`]; [`CryptoError::Memory`].
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        self.sign_by(&RSA_PSS_SHA256, message)
    }

    /// Signs by RSASSA-PKCS1-v1_5 with SHA-256, as certificates are signed.
    pub(crate) fn sign_pkcs1(&self, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        self.sign_by(&RSA_PKCS1_SHA256, message)
    }

    /// `RSAPublicKey` (RFC 8017), DER: the bits within `SubjectPublicKeyInfo`.
    pub(crate) fn public_key_bits(&self) -> Result<Vec<u8>, CryptoError> {
        Ok(self.signing_key()?.public_key().as_ref().to_vec())
    }

    fn sign_by(
        &self,
        padding: &'static dyn RsaEncoding,
        message: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        let key = self.signing_key()?;
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(padding, &SystemRandom::new(), message, &mut signature)
            .map_err(|_| CryptoError::Library { operation: "sign by RSA" })?;
        Ok(signature)
    }

    /// The same key, prepared for signing.
    fn signing_key(&self) -> Result<KeyPair, CryptoError> {
        KeyPair::from_pkcs8(self.to_pkcs8()?.expose())
            .map_err(|_| CryptoError::Library { operation: "prepare an RSA key" })
    }
}

impl fmt::Debug for RsaPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RsaPrivateKey({} bits, redacted)", self.public.bits())
    }
}

/// An RSA public key, prepared.
pub struct RsaPublicKey {
    encrypting: OaepPublicEncryptingKey,
    spki: Vec<u8>,
}

impl RsaPublicKey {
    /// Reads a `SubjectPublicKeyInfo` (RFC 5280) with an RSA key of 2048 to 8192 bits.
    ///
    /// # Errors
    /// [`CryptoError::Malformed`].
    pub fn from_spki(der: &[u8]) -> Result<Self, CryptoError> {
        let refused = || CryptoError::Malformed {
            what: "public key",
            reason: "it is not an RSA key of 2048 to 8192 bits".to_owned(),
        };
        if der.len() > MAX_PKCS8_LEN {
            return Err(refused());
        }
        let encrypting = PublicEncryptingKey::from_der(der).map_err(|_| refused())?;
        let encrypting = OaepPublicEncryptingKey::new(encrypting).map_err(|_| refused())?;
        Ok(Self { encrypting, spki: der.to_vec() })
    }

    /// The `SubjectPublicKeyInfo`, DER.
    #[must_use]
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Size of the modulus in bits.
    #[must_use]
    pub fn bits(&self) -> u32 {
        u32::try_from(self.encrypting.key_size_bits()).unwrap_or(u32::MAX)
    }

    /// Wraps `key` by RSAES-OAEP with SHA-256 for digest and MGF1 and an empty label, a scheme that
    /// hardware tokens and key services also offer. The result is as long as the modulus and
    /// differs at each call.
    ///
    /// # Errors
    /// [`CryptoError::Length`] for a key that is empty or longer than [`MAX_WRAPPED_KEY_LEN`].
    pub fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, CryptoError> {
        if key.is_empty() || key.len() > MAX_WRAPPED_KEY_LEN {
            let (max, actual) = (MAX_WRAPPED_KEY_LEN, key.len());
            return Err(CryptoError::Length { what: "key to wrap", min: 1, max, actual });
        }
        let mut wrapped = vec![0; self.encrypting.ciphertext_size()];
        let len = self
            .encrypting
            .encrypt(&OAEP_SHA256_MGF1SHA256, key, &mut wrapped, None)
            .map_err(|_| CryptoError::Library { operation: "wrap by RSA-OAEP" })?
            .len();
        wrapped.truncate(len);
        Ok(wrapped)
    }

    /// Returns true if [`RsaPrivateKey::sign`] made `signature` for `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, &self.spki);
        key.verify(message, signature).is_ok()
    }
}

impl fmt::Debug for RsaPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RsaPublicKey({} bits)", self.bits())
    }
}

fn malformed(reason: &str) -> CryptoError {
    CryptoError::Malformed { what: "private key", reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_unwraps() {
        let key = RsaPrivateKey::generate(RsaBits::Rsa3072).unwrap();
        assert_eq!(key.public_key().bits(), 3072);
        let dek = [7; 32];
        let wrapped = key.public_key().wrap(&dek).unwrap();
        assert_eq!(wrapped.len(), 384);
        assert_ne!(wrapped, key.public_key().wrap(&dek).unwrap());
        assert_eq!(key.unwrap(&wrapped).unwrap().expose(), dek);

        let again = RsaPrivateKey::from_pkcs8(key.to_pkcs8().unwrap().expose()).unwrap();
        assert_eq!(again.unwrap(&wrapped).unwrap().expose(), dek);
        assert_eq!(again.public_key().spki(), key.public_key().spki());
        let public = RsaPublicKey::from_spki(key.public_key().spki()).unwrap();
        assert_eq!(key.unwrap(&public.wrap(&dek).unwrap()).unwrap().expose(), dek);
        assert_eq!(format!("{key:?}"), "RsaPrivateKey(3072 bits, redacted)");
    }

    #[test]
    fn changed_bytes_and_other_keys_do_not_unwrap() {
        let key = RsaPrivateKey::generate(RsaBits::Rsa3072).unwrap();
        let other = RsaPrivateKey::generate(RsaBits::Rsa3072).unwrap();
        let mut wrapped = key.public_key().wrap(&[7; 32]).unwrap();
        assert_eq!(other.unwrap(&wrapped).unwrap_err(), CryptoError::Authentication);
        wrapped[200] ^= 1;
        assert_eq!(key.unwrap(&wrapped).unwrap_err(), CryptoError::Authentication);
        assert_eq!(key.unwrap(&wrapped[1..]).unwrap_err(), CryptoError::Authentication);
        assert_eq!(key.unwrap(&[]).unwrap_err(), CryptoError::Authentication);
        assert!(key.public_key().wrap(&[]).is_err());
        assert!(key.public_key().wrap(&[0; MAX_WRAPPED_KEY_LEN + 1]).is_err());
        assert!(key.public_key().wrap(&[0; MAX_WRAPPED_KEY_LEN]).is_ok());
    }

    #[test]
    fn a_signature_is_of_its_message_and_key() {
        let key = RsaPrivateKey::generate(RsaBits::Rsa3072).unwrap();
        let other = RsaPrivateKey::generate(RsaBits::Rsa3072).unwrap();
        let mut signature = key.sign(b"message").unwrap();
        assert_eq!(signature.len(), 384);
        assert!(key.public_key().verifies(b"message", &signature));
        assert!(!key.public_key().verifies(b"messagE", &signature));
        assert!(!other.public_key().verifies(b"message", &signature));
        assert!(!key.public_key().verifies(b"message", &signature[1..]));
        assert!(!key.public_key().verifies(b"message", &[]));
        signature[100] ^= 1;
        assert!(!key.public_key().verifies(b"message", &signature));
    }

    #[test]
    fn garbage_is_refused() {
        for len in [0, 1, 10, 2000, MAX_PKCS8_LEN + 1] {
            let bytes = vec![0x30; len];
            assert!(RsaPrivateKey::from_pkcs8(&bytes).is_err());
            assert!(RsaPrivateKey::from_pkcs1(&bytes).is_err());
            assert!(RsaPublicKey::from_spki(&bytes).is_err());
        }
    }
}
