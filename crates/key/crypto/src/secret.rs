//! Bytes that must not leak: keys, passwords, private keys.

use std::fmt;

use crate::memory::SecretPages;
use crate::{CryptoError, random_bytes};

/// Secret bytes in dedicated pages: wiped on drop, locked in memory where the system allows it,
/// excluded from core dumps (Linux), never shown by `Debug`.
///
/// Each value takes at least one page of memory: use it for keys, not for data. A forked child
/// keeps its copy, because it must go on reading its files; memory locks are not inherited.
pub struct SecretBytes(SecretPages);

impl SecretBytes {
    /// `len` zero bytes.
    ///
    /// # Errors
    /// [`CryptoError::Memory`] when the system has no memory.
    pub fn new_zeroed(len: usize) -> Result<Self, CryptoError> {
        SecretPages::new(len).map(Self)
    }

    /// `len` random bytes.
    ///
    /// # Errors
    /// [`CryptoError::Memory`] or [`CryptoError::Random`].
    pub fn random(len: usize) -> Result<Self, CryptoError> {
        let mut secret = Self::new_zeroed(len)?;
        random_bytes(secret.expose_mut())?;
        Ok(secret)
    }

    /// Copies `bytes`. The caller wipes the original.
    ///
    /// # Errors
    /// [`CryptoError::Memory`] when the system has no memory.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, CryptoError> {
        let mut secret = Self::new_zeroed(bytes.len())?;
        secret.expose_mut().copy_from_slice(bytes);
        Ok(secret)
    }

    /// Copies the secret. There is no `Clone`, so that copies are deliberate.
    ///
    /// # Errors
    /// [`CryptoError::Memory`] when the system has no memory.
    pub fn try_clone(&self) -> Result<Self, CryptoError> {
        Self::from_slice(self.expose())
    }

    /// The bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The bytes, writable.
    pub fn expose_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_slice().len()
    }

    /// Returns true if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first `len` bytes and wipes the rest. Does nothing if the secret is not longer.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Compares in time that depends only on the lengths.
    #[must_use]
    pub fn ct_eq(&self, other: &[u8]) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(self.expose(), other).is_ok()
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes, redacted)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_compares_and_hides_its_bytes() {
        let mut secret = SecretBytes::from_slice(b"correct horse").unwrap();
        assert_eq!(secret.expose(), b"correct horse");
        assert!(secret.ct_eq(b"correct horse"));
        assert!(!secret.ct_eq(b"correct horsf"));
        assert!(!secret.ct_eq(b"correct"));
        assert_eq!(format!("{secret:?}"), "SecretBytes(13 bytes, redacted)");
        let copy = secret.try_clone().unwrap();
        secret.truncate(7);
        assert_eq!(secret.expose(), b"correct");
        assert_eq!(copy.expose(), b"correct horse");
        assert!(SecretBytes::new_zeroed(0).unwrap().is_empty());
        assert_eq!(SecretBytes::new_zeroed(5000).unwrap().expose(), [0; 5000]);
        assert!(SecretBytes::new_zeroed(usize::MAX).is_err());
    }

    #[test]
    fn random_secrets_differ() {
        let (a, b) = (SecretBytes::random(32).unwrap(), SecretBytes::random(32).unwrap());
        assert_ne!(a.expose(), b.expose());
    }

    /// The kernel shows "dd" (do not dump) and "lo" (locked) among a mapping's flags.
    #[cfg(target_os = "linux")]
    #[test]
    fn mapping_is_left_out_of_core_dumps() {
        let secret = SecretBytes::random(32).unwrap();
        let address = secret.expose().as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((Ok(start), Ok(end))) = range.map(|(start, end)| {
                (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
            }) {
                inside = (start..end).contains(&address);
            }
            if let (true, Some(flags)) = (inside, line.strip_prefix("VmFlags:")) {
                assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
                return;
            }
        }
        panic!("mapping not found");
    }
}
