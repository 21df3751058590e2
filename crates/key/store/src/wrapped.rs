//! A database encryption key wrapped by a certificate, and its encoding.

use tdekit_key_crypto::{CryptoError, PrivateKey, PublicKey, SecretBytes};

use crate::bytes::{Reader, put_short};
use crate::error::StoreError;

/// Most bytes of a wrapped key: RSA of 8192 bits.
pub const MAX_BLOB_BYTES: usize = 1024;

const FIXED_BYTES: usize = 2 + 32 + 20 + 32 + 2;

/// The mechanism that wrapped a key; recorded beside it because hardware tokens differ in what they
/// offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WrapMechanism {
    /// RSAES-OAEP with SHA-256 for both the digest and MGF1, no label (RFC 8017). Identifier 1.
    RsaOaepSha256,
    /// ECDH on P-384 with an ephemeral key, HKDF-SHA-256, AES-256 key wrap with padding (see
    /// `docs/crypto.md`). Identifier 2.
    EcdhP384,
    /// A mechanism of a newer program. It is kept unchanged and cannot be unwrapped.
    Other(u16),
}

impl WrapMechanism {
    /// The identifier on disk.
    #[must_use]
    pub fn id(self) -> u16 {
        match self {
            Self::RsaOaepSha256 => 1,
            Self::EcdhP384 => 2,
            Self::Other(id) => id,
        }
    }

    /// The mechanism of a public key.
    #[must_use]
    pub fn of(key: &PublicKey) -> Self {
        match key {
            PublicKey::Rsa(_) => Self::RsaOaepSha256,
            PublicKey::Ec(_) => Self::EcdhP384,
        }
    }

    /// The mechanism with this identifier.
    #[must_use]
    pub fn from_id(id: u16) -> Self {
        match id {
            1 => Self::RsaOaepSha256,
            2 => Self::EcdhP384,
            other => Self::Other(other),
        }
    }
}

/// A database encryption key, wrapped for one certificate. Plain data: it holds no secret.
///
/// The wrap has no integrity protection of its own: a reader must check that the key it gets is the
/// key that sealed the file (a MAC or a key commitment in the file's header).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedDek {
    /// The mechanism that wrapped the key.
    pub mechanism: WrapMechanism,
    /// SHA-256 of the certificate's DER.
    pub sha256: [u8; 32],
    /// SHA-1 of the certificate's DER: the thumbprint that SQL Server shows.
    pub sha1: [u8; 20],
    /// SHA-256 of the certificate's `SubjectPublicKeyInfo`; equal for a renewed certificate of the
    /// same key.
    pub public_key_sha256: [u8; 32],
    /// The wrapped key, at most [`MAX_BLOB_BYTES`].
    pub blob: Vec<u8>,
}

impl WrappedDek {
    /// Unwraps the key by a certificate's private key.
    ///
    /// # Errors
    /// `UnknownMechanism`; `WrappedKeyDamaged`, also for a key of another type.
    pub(crate) fn unwrap_by(&self, key: &PrivateKey) -> Result<SecretBytes, StoreError> {
        let fits = match (self.mechanism, key) {
            (WrapMechanism::Other(mechanism), _) => {
                return Err(StoreError::UnknownMechanism { mechanism });
            }
            (WrapMechanism::RsaOaepSha256, key) => matches!(key, PrivateKey::Rsa(_)),
            (WrapMechanism::EcdhP384, key) => matches!(key, PrivateKey::Ec(_)),
        };
        let damaged = |_| StoreError::WrappedKeyDamaged { thumbprint: self.thumbprint() };
        let unwrapped =
            if fits { key.unwrap(&self.blob) } else { Err(CryptoError::Authentication) };
        unwrapped.map_err(damaged)
    }

    /// Length of [`Self::encode`]'s result: 225 bytes for P-384, 472 bytes for RSA-3072.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        FIXED_BYTES + self.blob.len()
    }

    /// Returns the encoding: mechanism (2), SHA-256 (32), SHA-1 (20), public key SHA-256 (32),
    /// length of the blob (2), blob. Integers are little-endian.
    ///
    /// # Errors
    /// `Corrupt` when the blob is longer than [`MAX_BLOB_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        if self.blob.len() > MAX_BLOB_BYTES {
            return Err(StoreError::corrupt("wrapped key", "longer than 1024 bytes"));
        }
        let mut out = Vec::with_capacity(self.encoded_len());
        out.extend_from_slice(&self.mechanism.id().to_le_bytes());
        out.extend_from_slice(&self.sha256);
        out.extend_from_slice(&self.sha1);
        out.extend_from_slice(&self.public_key_sha256);
        put_short(&mut out, &self.blob, "wrapped key")?;
        Ok(out)
    }

    /// Reads one wrapped key from the front of `bytes`, and returns it with the number of bytes
    /// read.
    ///
    /// # Errors
    /// `Corrupt` when the bytes end early or the blob is longer than [`MAX_BLOB_BYTES`].
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), StoreError> {
        let mut reader = Reader::new(bytes);
        let wrapped = Self {
            mechanism: WrapMechanism::from_id(reader.u16("wrapped key mechanism")?),
            sha256: reader.array("wrapped key thumbprint")?,
            sha1: reader.array("wrapped key thumbprint")?,
            public_key_sha256: reader.array("wrapped key public key")?,
            blob: reader.short(MAX_BLOB_BYTES, "wrapped key")?.to_vec(),
        };
        Ok((wrapped, bytes.len() - reader.remaining()))
    }

    /// SHA-1 thumbprint as SQL Server shows it: `0x` and upper-case hexadecimal digits.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        thumbprint(&self.sha1)
    }
}

/// Formats a thumbprint as SQL Server shows it: `0x` and upper-case hexadecimal digits.
#[must_use]
pub fn thumbprint(digest: &[u8]) -> String {
    format!("0x{}", hex::encode_upper(digest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(blob: Vec<u8>, mechanism: u16) -> WrappedDek {
        WrappedDek {
            mechanism: WrapMechanism::from_id(mechanism),
            sha256: [1; 32],
            sha1: [0xAB; 20],
            public_key_sha256: [3; 32],
            blob,
        }
    }

    #[test]
    fn rsa_3072_fits_in_520_bytes() {
        let wrapped = sample(vec![0; 384], 1);
        assert_eq!(wrapped.encode().unwrap().len(), 472);
        assert_eq!(wrapped.encoded_len(), 472);
        assert_eq!(wrapped.thumbprint(), format!("0x{}", "AB".repeat(20)));
    }

    #[test]
    fn too_long_blob_is_refused_both_ways() {
        assert!(sample(vec![0; 1025], 1).encode().is_err());
        let mut bytes = sample(vec![0; 1024], 1).encode().unwrap();
        bytes[86..88].copy_from_slice(&1025u16.to_le_bytes());
        bytes.push(0);
        assert!(WrappedDek::decode(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn round_trips_with_any_tail(
            blob in proptest::collection::vec(any::<u8>(), 0..=1024),
            mechanism: u16,
            tail in proptest::collection::vec(any::<u8>(), 0..8),
        ) {
            let wrapped = sample(blob, mechanism);
            let mut bytes = wrapped.encode().unwrap();
            let len = bytes.len();
            for cut in 0..len {
                prop_assert!(WrappedDek::decode(&bytes[..cut]).is_err());
            }
            bytes.extend_from_slice(&tail);
            prop_assert_eq!(WrappedDek::decode(&bytes).unwrap(), (wrapped, len));
        }
    }
}
