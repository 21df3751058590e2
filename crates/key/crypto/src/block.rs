//! AES-256 on a single block, for hosts that derive their own keys.

use crate::aws_lc::AesKey;
use crate::{CryptoError, SecretBytes};

/// Encrypts one block with AES-256 (FIPS 197).
///
/// # Errors
/// [`CryptoError::Memory`].
pub fn aes256_block(key: &[u8; 32], block: [u8; 16]) -> Result<SecretBytes, CryptoError> {
    SecretBytes::from_slice(&AesKey::new(key, 0)?.encrypt_block(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendix C.3.
    #[test]
    fn the_standards_example() {
        let key: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let block: [u8; 16] = std::array::from_fn(|at| u8::try_from(at * 0x11).unwrap());
        let expected = 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089_u128.to_be_bytes();
        assert_eq!(aes256_block(&key, block).unwrap().expose(), expected);
    }
}
