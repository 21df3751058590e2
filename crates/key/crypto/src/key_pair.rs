//! The key pairs of certificates: RSA or EC.

use std::fmt;

use crate::ec::{EcPrivateKey, EcPublicKey};
use crate::rsa::{RsaBits, RsaPrivateKey, RsaPublicKey};
use crate::{CryptoError, SecretBytes};

/// Type of a key pair to generate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyType {
    /// EC on P-384: 192 bits of security. It unwraps ten times as fast as RSA of 3072 bits.
    #[default]
    EcP384,
    /// RSA of 3072 bits: 128 bits of security.
    Rsa3072,
    /// RSA of 4096 bits.
    Rsa4096,
}

/// The algorithm of a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// On P-384.
    Ec,
    /// RSA of 2048 to 8192 bits.
    Rsa,
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ec => "EC",
            Self::Rsa => "RSA",
        })
    }
}

/// A private key of a certificate, prepared.
#[derive(Debug)]
pub enum PrivateKey {
    /// On P-384.
    Ec(EcPrivateKey),
    /// RSA of 2048 to 8192 bits.
    Rsa(RsaPrivateKey),
}

/// A public key of a certificate.
#[derive(Debug)]
pub enum PublicKey {
    /// On P-384.
    Ec(EcPublicKey),
    /// RSA of 2048 to 8192 bits.
    Rsa(RsaPublicKey),
}

impl PrivateKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`CryptoError::Library`].
    pub fn generate(key_type: KeyType) -> Result<Self, CryptoError> {
        match key_type {
            KeyType::EcP384 => EcPrivateKey::generate().map(Self::Ec),
            KeyType::Rsa3072 => RsaPrivateKey::generate(RsaBits::Rsa3072).map(Self::Rsa),
            KeyType::Rsa4096 => RsaPrivateKey::generate(RsaBits::Rsa4096).map(Self::Rsa),
        }
    }

    /// Reads and checks an unencrypted PKCS#8 `PrivateKeyInfo` (RFC 5958).
    ///
    /// # Errors
    /// [`CryptoError::Malformed`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, CryptoError> {
        match EcPrivateKey::from_der(der) {
            Ok(key) => Ok(Self::Ec(key)),
            Err(_) => RsaPrivateKey::from_pkcs8(der).map(Self::Rsa),
        }
    }

    /// The key as PKCS#8 `PrivateKeyInfo`.
    ///
    /// # Errors
    /// [`CryptoError::Library`]; [`CryptoError::Memory`].
    pub fn to_pkcs8(&self) -> Result<SecretBytes, CryptoError> {
        match self {
            Self::Ec(key) => key.to_pkcs8(),
            Self::Rsa(key) => key.to_pkcs8(),
        }
    }

    /// `SubjectPublicKeyInfo` of the public half, DER.
    #[must_use]
    pub fn spki(&self) -> Vec<u8> {
        match self {
            Self::Ec(key) => key.public_key().spki(),
            Self::Rsa(key) => key.public_key().spki().to_vec(),
        }
    }

    /// Unwraps a key that [`PublicKey::wrap`] wrapped.
    ///
    /// # Errors
    /// [`CryptoError::Authentication`] when it was wrapped for another key or was changed.
    pub fn unwrap(&self, wrapped: &[u8]) -> Result<SecretBytes, CryptoError> {
        match self {
            Self::Ec(key) => key.unwrap(wrapped),
            Self::Rsa(key) => key.unwrap(wrapped),
        }
    }

    /// Signs: ECDSA with SHA-384, or RSASSA-PSS with SHA-256.
    ///
    /// # Errors
    /// [`CryptoError::Library`]; [`CryptoError::Memory`].
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        match self {
            Self::Ec(key) => key.sign(message),
            Self::Rsa(key) => key.sign(message),
        }
    }
}

impl PublicKey {
    /// Reads a `SubjectPublicKeyInfo` (RFC 5280).
    ///
    /// # Errors
    /// [`CryptoError::Malformed`].
    pub fn from_spki(der: &[u8]) -> Result<Self, CryptoError> {
        if EcPublicKey::is_of(der) {
            return EcPublicKey::from_spki(der).map(Self::Ec);
        }
        RsaPublicKey::from_spki(der).map(Self::Rsa).map_err(|_| CryptoError::Malformed {
            what: "public key",
            reason: "it is neither RSA of 2048 to 8192 bits nor EC on P-384".to_owned(),
        })
    }

    /// The `SubjectPublicKeyInfo`, DER.
    #[must_use]
    pub fn spki(&self) -> Vec<u8> {
        match self {
            Self::Ec(key) => key.spki(),
            Self::Rsa(key) => key.spki().to_vec(),
        }
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> KeyAlgorithm {
        match self {
            Self::Ec(_) => KeyAlgorithm::Ec,
            Self::Rsa(_) => KeyAlgorithm::Rsa,
        }
    }

    /// Size of the field or the modulus in bits.
    #[must_use]
    pub fn bits(&self) -> u32 {
        match self {
            Self::Ec(_) => 384,
            Self::Rsa(key) => key.bits(),
        }
    }

    /// Wraps a key of at most [`crate::rsa::MAX_WRAPPED_KEY_LEN`] bytes: by ECDH and AES key wrap,
    /// or by RSAES-OAEP. The result differs at each call.
    ///
    /// # Errors
    /// [`CryptoError::Length`] for a key that is empty or too long; [`CryptoError::Library`].
    pub fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, CryptoError> {
        match self {
            Self::Ec(public) => public.wrap(key),
            Self::Rsa(public) => public.wrap(key),
        }
    }

    /// Returns true if [`PrivateKey::sign`] made `signature` for `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ec(key) => key.verifies(message, signature),
            Self::Rsa(key) => key.verifies(message, signature),
        }
    }
}
