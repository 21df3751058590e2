//! Fingerprints that distinguish changed pages from unchanged ones.

use tdekit_key_crypto::{CryptoError, random_bytes};

/// Sums of products of a page's words, each with a random word added (the universal hash NH). Two
/// pages that differ have the same sum with a probability of 2⁻⁶⁴, whatever their content: a writer
/// of pages does not know the random words.
pub(crate) struct Fingerprints {
    words: Vec<u64>,
}

impl Fingerprints {
    /// Makes fingerprints for pages of `page_len` bytes.
    pub(crate) fn new(page_len: usize) -> Result<Self, CryptoError> {
        let mut bytes = vec![0; page_len];
        random_bytes(&mut bytes)?;
        Ok(Self { words: bytes.chunks_exact(8).map(word).collect() })
    }

    /// Returns the fingerprint of a page.
    pub(crate) fn of(&self, page: &[u8]) -> u128 {
        let mut sum = 0_u128;
        for (bytes, words) in page.chunks_exact(16).zip(self.words.chunks_exact(2)) {
            let (low, high) = bytes.split_at(8);
            let a = word(low).wrapping_add(words[0]);
            let b = word(high).wrapping_add(words[1]);
            sum = sum.wrapping_add(u128::from(a) * u128::from(b));
        }
        sum
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts() {
        let prints = Fingerprints::new(512).unwrap();
        let page: Vec<u8> = (0..512_u32).map(|at| at.to_le_bytes()[0]).collect();
        let own = prints.of(&page);
        assert_eq!(prints.of(&page.clone()), own);
        for bit in 0..512 * 8 {
            let mut other = page.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(prints.of(&other), own, "bit {bit}");
        }
    }
}
