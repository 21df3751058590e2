//! The secret of a set, and the keys derived from it for one header.

use std::fmt;

use tdekit_key_crypto::{
    Algorithm, SecretBytes, hkdf_sha256, hmac_sha256, sha256, verify_hmac_sha256,
};

use crate::error::{MediaError, Part};
use crate::{Digest, Id};

/// Length of a set's secret in bytes.
pub const SECRET_LEN: usize = 32;

pub(crate) const COMMITMENT_LEN: usize = 32;

const MAC_LEN: usize = 32;

/// The random secret of one backup set, which its recipients unwrap.
pub struct SetSecret(SecretBytes);

impl SetSecret {
    /// Makes a new secret.
    ///
    /// # Errors
    /// [`MediaError::Crypto`].
    pub fn random() -> Result<Self, MediaError> {
        Ok(Self(SecretBytes::random(SECRET_LEN)?))
    }

    /// Takes the secret that a recipient unwrapped.
    ///
    /// # Errors
    /// [`MediaError::WrongKey`] if its length is not [`SECRET_LEN`].
    pub fn from_unwrapped(secret: SecretBytes) -> Result<Self, MediaError> {
        if secret.len() == SECRET_LEN { Ok(Self(secret)) } else { Err(MediaError::WrongKey) }
    }

    /// Returns the bytes, for wrapping.
    #[must_use]
    pub fn as_bytes(&self) -> &SecretBytes {
        &self.0
    }
}

impl fmt::Debug for SetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetSecret(redacted)")
    }
}

/// The keys of one set in one family: the block key, and the MAC keys of header and trailer.
///
/// They are bound to all bytes of the header before the commitment.
pub struct SetKeys {
    algorithm: Algorithm,
    pub(crate) set_id: Id,
    pub(crate) family: u16,
    pub(crate) block: SecretBytes,
    header_mac: SecretBytes,
    trailer_mac: SecretBytes,
}

impl SetKeys {
    /// Derives the keys, and the commitment to the secret; `context` is the set's header before
    /// its commitment.
    pub(crate) fn derive(
        secret: &SetSecret,
        algorithm: Algorithm,
        set_id: Id,
        family: u16,
        context: &[u8],
    ) -> Result<(Self, [u8; COMMITMENT_LEN]), MediaError> {
        let context = sha256(&[context]);
        let derive = |purpose: &str, out: &mut [u8]| {
            let info: [&[u8]; 6] = [
                b"tdekit backup/1/",
                purpose.as_bytes(),
                b"/",
                algorithm.name().as_bytes(),
                b"/",
                &context,
            ];
            hkdf_sha256(secret.0.expose(), &set_id, &info, out)
        };
        let key = |purpose, len| -> Result<SecretBytes, MediaError> {
            let mut key = SecretBytes::new_zeroed(len)?;
            derive(purpose, key.expose_mut())?;
            Ok(key)
        };
        let mut commitment = [0; COMMITMENT_LEN];
        derive("commitment", &mut commitment)?;
        let block = key("block", algorithm.key_len())?;
        let (header_mac, trailer_mac) = (key("header mac", MAC_LEN)?, key("trailer mac", MAC_LEN)?);
        Ok((Self { algorithm, set_id, family, block, header_mac, trailer_mac }, commitment))
    }

    /// Returns the set's algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn header_mac(&self, bytes: &[u8]) -> Digest {
        hmac_sha256(self.header_mac.expose(), &[bytes])
    }

    pub(crate) fn trailer_mac(&self, bytes: &[u8]) -> Digest {
        hmac_sha256(self.trailer_mac.expose(), &[bytes])
    }

    /// Returns true if `mac` is that of these bytes of a trailer.
    pub(crate) fn is_trailer_mac(&self, bytes: &[u8], mac: &[u8]) -> bool {
        verify_hmac_sha256(self.trailer_mac.expose(), &[bytes], mac)
    }

    pub(crate) fn check_set(&self, set_id: &Id) -> Result<(), MediaError> {
        if *set_id == self.set_id {
            return Ok(());
        }
        Err(MediaError::Disagreement { what: "the set of the record and the set of the key" })
    }

    pub(crate) fn check_header_mac(&self, header: &[u8]) -> Result<(), MediaError> {
        let forged = MediaError::Forged { part: Part::RecordHeader };
        let Some((bound, mac)) = header.split_last_chunk::<MAC_LEN>() else { return Err(forged) };
        if verify_hmac_sha256(self.header_mac.expose(), &[bound], mac) {
            return Ok(());
        }
        Err(forged)
    }
}

impl fmt::Debug for SetKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetKeys({}, redacted)", self.algorithm)
    }
}
