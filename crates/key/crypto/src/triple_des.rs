//! `TRIPLE_DES_3KEY` for backups: 3DES-CBC, then HMAC-SHA-256, each segment under keys of its own.
//!
//! Legacy: 3DES is disallowed by NIST since 2024. A segment is at most 8 MiB, 2^20 blocks of 8
//! bytes (NIST SP 800-67r2), which keeps it clear of Sweet32.

use aws_lc_rs::cipher::{
    DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

use crate::sealing::NONCE_LEN;
use crate::{Algorithm, CryptoError, SecretBytes, digest};

/// Longest segment in bytes of plaintext: with its padding, 2^20 blocks.
pub const MAX_SEGMENT_LEN: usize = 8 * 1024 * 1024 - BLOCK_LEN;

/// Length of a segment's tag in bytes.
pub const SEGMENT_TAG_LEN: usize = 32;

const BLOCK_LEN: usize = 8;
const CIPHER_KEY_LEN: usize = 24;
const MAC_KEY_LEN: usize = 32;
const INFO: &[u8] = b"tdekit TRIPLE_DES_3KEY segment v1";

/// Seals a segment: returns the ciphertext (padded by PKCS#7 to whole blocks), then the tag.
///
/// `nonce` must be new for every segment under `key`: all keys of the segment derive from it.
///
/// # Errors
/// [`CryptoError::KeyLength`]; [`CryptoError::Length`] for a segment longer than
/// [`MAX_SEGMENT_LEN`]; [`CryptoError::Library`] with a chance below 2^-49 when a weak DES key
/// was derived (draw another nonce).
pub fn seal_segment(
    key: &[u8],
    nonce: &[u8; NONCE_LEN],
    aad: &[u8],
    plaintext: &[u8],
) -> Result<Vec<u8>, CryptoError> {
    check_len("segment", plaintext.len(), 0, MAX_SEGMENT_LEN)?;
    let keys = SegmentKeys::derive(key, nonce)?;
    let failed = |_| CryptoError::Library { operation: "encrypt with 3DES" };
    let mut sealed = Vec::with_capacity(plaintext.len() + BLOCK_LEN + SEGMENT_TAG_LEN);
    sealed.extend_from_slice(plaintext);
    PaddedBlockEncryptingKey::cbc_pkcs7(keys.cipher_key()?)
        .and_then(|cipher| {
            cipher.less_safe_encrypt(&mut sealed, EncryptionContext::Iv64(keys.iv()))
        })
        .map_err(failed)?;
    let tag = keys.tag(aad, &sealed);
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

/// Opens the output of [`seal_segment`]. The tag is checked before anything is decrypted.
///
/// # Errors
/// [`CryptoError::Authentication`]; [`CryptoError::KeyLength`]; [`CryptoError::Length`] for lengths
/// that no segment has.
pub fn open_segment(
    key: &[u8],
    nonce: &[u8; NONCE_LEN],
    aad: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, CryptoError> {
    const MIN_LEN: usize = BLOCK_LEN + SEGMENT_TAG_LEN;
    check_len("sealed segment", sealed.len(), MIN_LEN, MAX_SEGMENT_LEN + MIN_LEN)?;
    let keys = SegmentKeys::derive(key, nonce)?;
    let (ciphertext, tag) = sealed.split_at(sealed.len() - SEGMENT_TAG_LEN);
    let expected = keys.tag(aad, ciphertext);
    aws_lc_rs::constant_time::verify_slices_are_equal(&expected, tag)
        .map_err(|_| CryptoError::Authentication)?;
    let mut plaintext = ciphertext.to_vec();
    let len = PaddedBlockDecryptingKey::cbc_pkcs7(keys.cipher_key()?)
        .and_then(|cipher| {
            let context = DecryptionContext::Iv64(keys.iv());
            cipher.decrypt(&mut plaintext, context).map(|plaintext| plaintext.len())
        })
        .map_err(|_| CryptoError::Authentication)?;
    plaintext.truncate(len);
    Ok(plaintext)
}

/// A segment's cipher key, MAC key and IV, by HKDF-SHA-256 with the nonce as salt.
struct SegmentKeys(SecretBytes);

impl SegmentKeys {
    fn derive(key: &[u8], nonce: &[u8; NONCE_LEN]) -> Result<Self, CryptoError> {
        let algorithm = Algorithm::TripleDes3Key;
        algorithm.check_offered()?;
        let expected = algorithm.key_len();
        if key.len() != expected {
            return Err(CryptoError::KeyLength { algorithm, expected, actual: key.len() });
        }
        let mut keys = SecretBytes::new_zeroed(CIPHER_KEY_LEN + MAC_KEY_LEN + BLOCK_LEN)?;
        digest::hkdf_sha256(key, nonce, &[INFO], keys.expose_mut())?;
        Ok(Self(keys))
    }

    #[allow(deprecated)] // 3DES is intended, and marked as legacy everywhere
    fn cipher_key(&self) -> Result<UnboundCipherKey, CryptoError> {
        let key = &self.0.expose()[..CIPHER_KEY_LEN];
        UnboundCipherKey::new(&aws_lc_rs::cipher::DES_EDE3_FOR_LEGACY_USE_ONLY, key)
            .map_err(|_| CryptoError::Library { operation: "prepare a 3DES key" })
    }

    fn iv(&self) -> FixedLength<BLOCK_LEN> {
        let mut iv = [0; BLOCK_LEN];
        iv.copy_from_slice(&self.0.expose()[CIPHER_KEY_LEN + MAC_KEY_LEN..]);
        FixedLength::from(&iv)
    }

    /// HMAC over the AAD's length as a little-endian `u64`, the AAD and the ciphertext.
    fn tag(&self, aad: &[u8], ciphertext: &[u8]) -> [u8; SEGMENT_TAG_LEN] {
        let mac_key = &self.0.expose()[CIPHER_KEY_LEN..CIPHER_KEY_LEN + MAC_KEY_LEN];
        let aad_len = (aad.len() as u64).to_le_bytes();
        digest::hmac_sha256(mac_key, &[&aad_len, aad, ciphertext])
    }
}

fn check_len(what: &'static str, actual: usize, min: usize, max: usize) -> Result<(), CryptoError> {
    if (min..=max).contains(&actual) {
        return Ok(());
    }
    Err(CryptoError::Length { what, min, max, actual })
}

#[cfg(test)]
#[cfg(not(feature = "fips"))]
mod tests {
    use super::*;

    #[test]
    fn segments_have_bounded_lengths() {
        let (key, nonce) = ([3; 24], [4; NONCE_LEN]);
        let longest = vec![5; MAX_SEGMENT_LEN];
        let sealed = seal_segment(&key, &nonce, b"", &longest).unwrap();
        assert_eq!(sealed.len(), 8 * 1024 * 1024 + SEGMENT_TAG_LEN);
        assert_eq!(open_segment(&key, &nonce, b"", &sealed).unwrap(), longest);
        let refused = |result: Result<Vec<u8>, CryptoError>| {
            assert!(matches!(result, Err(CryptoError::Length { .. })));
        };
        refused(seal_segment(&key, &nonce, b"", &vec![5; MAX_SEGMENT_LEN + 1]));
        refused(open_segment(&key, &nonce, b"", &sealed[..39]));
        refused(open_segment(&key, &nonce, b"", &vec![0; sealed.len() + 1]));
        let short = seal_segment(&key[..16], &nonce, b"", b"");
        assert!(matches!(short, Err(CryptoError::KeyLength { actual: 16, .. })));
    }
}
