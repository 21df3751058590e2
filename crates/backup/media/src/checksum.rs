//! The checksum that needs no key.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// XXH3-64, seed 0, of a block header's checked bytes and the stored bytes.
pub(crate) fn checksum(header: &[u8], stored: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::new();
    hasher.write(header);
    hasher.write(stored);
    hasher.finish()
}
