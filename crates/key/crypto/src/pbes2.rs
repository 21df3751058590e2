//! PBES2 (RFC 8018, section 6.2) with PBKDF2 and AES-CBC, by AWS-LC.
//!
//! In a FIPS build the FIPS module does the work, so a private key in a file is protected by
//! approved algorithms (NIST SP 800-132).

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, EncryptionContext,
    PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2::{
    self, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA384, PBKDF2_HMAC_SHA512,
};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::{EncryptionScheme as Cipher, Kdf, Parameters, Pbkdf2Prf};
use zeroize::Zeroizing;

use crate::{CryptoError, SecretBytes};

/// Cipher and key, derived from a password and stored parameters.
pub(crate) struct Prepared {
    cipher: &'static Algorithm,
    key: SecretBytes,
    iv: [u8; 16],
}

impl Prepared {
    /// Derives the key. Returns `None` unless the scheme is PBKDF2 by SHA-1, -256, -384 or -512
    /// with AES in CBC mode.
    ///
    /// The caller bounds the number of rounds.
    pub(crate) fn new(
        scheme: &EncryptionScheme,
        password: &[u8],
    ) -> Result<Option<Self>, CryptoError> {
        let Some(Parameters { kdf: Kdf::Pbkdf2(kdf), encryption }) = scheme.pbes2() else {
            return Ok(None);
        };
        let (cipher, iv) = match encryption {
            Cipher::Aes128Cbc { iv } => (&AES_128, *iv),
            Cipher::Aes192Cbc { iv } => (&AES_192, *iv),
            Cipher::Aes256Cbc { iv } => (&AES_256, *iv),
            _ => return Ok(None),
        };
        let hash = match kdf.prf {
            Pbkdf2Prf::HmacWithSha1 => PBKDF2_HMAC_SHA1,
            Pbkdf2Prf::HmacWithSha256 => PBKDF2_HMAC_SHA256,
            Pbkdf2Prf::HmacWithSha384 => PBKDF2_HMAC_SHA384,
            Pbkdf2Prf::HmacWithSha512 => PBKDF2_HMAC_SHA512,
            _ => return Ok(None),
        };
        let malformed = |reason: &str| CryptoError::Malformed {
            what: "private key",
            reason: reason.to_owned(),
        };
        let rounds = NonZeroU32::new(kdf.iteration_count)
            .ok_or_else(|| malformed("its password is hashed in 0 rounds"))?;
        let len = encryption.key_size();
        if kdf.key_length.is_some_and(|stored| usize::from(stored) != len) {
            return Err(malformed("its key has another length than its cipher takes"));
        }
        let mut key = SecretBytes::new_zeroed(len)?;
        pbkdf2::derive(hash, rounds, kdf.salt.as_ref(), password, key.expose_mut());
        Ok(Some(Self { cipher, key, iv }))
    }

    /// Encrypts with PKCS#7 padding.
    pub(crate) fn encrypt(&self, plaintext: &[u8]) -> Result<Vec<u8>, CryptoError> {
        // Reserve room for the padding: a vector that grows leaves its bytes behind.
        let mut data = Zeroizing::new(Vec::with_capacity(plaintext.len() + self.iv.len()));
        data.extend_from_slice(plaintext);
        let iv = EncryptionContext::Iv128(FixedLength::from(self.iv));
        UnboundCipherKey::new(self.cipher, self.key.expose())
            .and_then(PaddedBlockEncryptingKey::cbc_pkcs7)
            .and_then(|key| key.less_safe_encrypt(&mut *data, iv))
            .map_err(|_| CryptoError::Library { operation: "encrypt a private key" })?;
        Ok(std::mem::take(&mut *data))
    }

    /// Decrypts in place and returns the length of the plaintext.
    ///
    /// # Errors
    /// [`CryptoError::Authentication`] where the padding is wrong.
    pub(crate) fn decrypt(&self, data: &mut [u8]) -> Result<usize, CryptoError> {
        let iv = DecryptionContext::Iv128(FixedLength::from(self.iv));
        UnboundCipherKey::new(self.cipher, self.key.expose())
            .and_then(PaddedBlockDecryptingKey::cbc_pkcs7)
            .and_then(|key| key.decrypt(data, iv).map(|plain| plain.len()))
            .map_err(|_| CryptoError::Authentication)
    }
}
