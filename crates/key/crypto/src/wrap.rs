//! Wrapping of keys by keys: AES-256 key wrap with padding (RFC 5649, NIST SP 800-38F KWP).

use crate::aws_lc::{self, AesKey};
use crate::{CryptoError, SecretBytes};

/// Length of a wrapping key in bytes.
pub const WRAPPING_KEY_LEN: usize = 32;

/// Maximum length of a key to wrap, in bytes.
pub const MAX_KEY_LEN: usize = 64 * 1024;

/// Wraps `key` under `wrapping_key`. The result has 8 bytes more than `key` rounded up to a
/// multiple of 8.
///
/// # Errors
/// [`CryptoError::Length`] for a wrapping key that is not [`WRAPPING_KEY_LEN`] bytes long or a
/// key that is empty or longer than [`MAX_KEY_LEN`].
pub fn wrap_key(wrapping_key: &[u8], key: &[u8]) -> Result<Vec<u8>, CryptoError> {
    check("key to wrap", key.len(), 1, MAX_KEY_LEN)?;
    check_wrapping_key(wrapping_key)?;
    let mut wrapped = vec![0; key.len().next_multiple_of(8) + 8];
    let len = AesKey::new(wrapping_key, 0)?.wrap(key, &mut wrapped)?;
    wrapped.truncate(len);
    Ok(wrapped)
}

/// Unwraps the output of [`wrap_key`].
///
/// # Errors
/// [`CryptoError::Authentication`] for the wrong wrapping key or changed bytes;
/// [`CryptoError::Length`] for lengths that no wrapped key has.
pub fn unwrap_key(wrapping_key: &[u8], wrapped: &[u8]) -> Result<SecretBytes, CryptoError> {
    check("wrapped key", wrapped.len(), 16, MAX_KEY_LEN + 8)?;
    check_wrapping_key(wrapping_key)?;
    let mut key = SecretBytes::new_zeroed(wrapped.len())?;
    let len = aws_lc::unwrap(wrapping_key, wrapped, key.expose_mut())?;
    key.truncate(len);
    Ok(key)
}

fn check_wrapping_key(key: &[u8]) -> Result<(), CryptoError> {
    check("wrapping key", key.len(), WRAPPING_KEY_LEN, WRAPPING_KEY_LEN)
}

fn check(what: &'static str, actual: usize, min: usize, max: usize) -> Result<(), CryptoError> {
    if (min..=max).contains(&actual) {
        return Ok(());
    }
    Err(CryptoError::Length { what, min, max, actual })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bounded() {
        let kek = [1; WRAPPING_KEY_LEN];
        for len in [1, 16, 24, 31, 32, 4096, MAX_KEY_LEN] {
            let key = vec![7; len];
            let wrapped = wrap_key(&kek, &key).unwrap();
            assert_eq!(wrapped.len(), len.next_multiple_of(8) + 8);
            assert_eq!(unwrap_key(&kek, &wrapped).unwrap().expose(), key);
            let other = unwrap_key(&[2; WRAPPING_KEY_LEN], &wrapped);
            assert_eq!(other.err(), Some(CryptoError::Authentication));
        }
        let refused = |result: Result<(), CryptoError>| {
            assert!(matches!(result, Err(CryptoError::Length { .. })), "{result:?}");
        };
        refused(wrap_key(&kek, &[]).map(drop));
        refused(wrap_key(&kek, &vec![0; MAX_KEY_LEN + 1]).map(drop));
        refused(wrap_key(&[1; 16], &[0; 32]).map(drop));
        refused(unwrap_key(&[1; 24], &[0; 40]).map(drop));
        refused(unwrap_key(&kek, &[0; 15]).map(drop));
        refused(unwrap_key(&kek, &vec![0; MAX_KEY_LEN + 16]).map(drop));
        assert_eq!(unwrap_key(&kek, &[0; 17]).err(), Some(CryptoError::Authentication));
    }
}
