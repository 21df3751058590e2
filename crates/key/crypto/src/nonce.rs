//! Random bytes, and nonces drawn in batches that a fork drops.

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use crate::fips::IS_FIPS_BUILD;
use crate::sealing::NONCE_LEN;
use crate::subkey::PREFIX_LEN;
use crate::{CryptoError, fork_generation};

/// Fills `out` with random bytes from the system's generator; in a FIPS build from the module's,
/// which the system's seeds.
///
/// # Errors
/// [`CryptoError::Random`] when the generator fails.
pub fn random_bytes(out: &mut [u8]) -> Result<(), CryptoError> {
    if IS_FIPS_BUILD {
        return aws_lc_rs::rand::fill(out).map_err(|_| CryptoError::Random);
    }
    getrandom::fill(out).map_err(|_| CryptoError::Random)
}

/// Source of nonces: a random 12-byte prefix that is kept for a run of nonces, then 12 random bytes
/// for each nonce.
///
/// The prefix is kept so that a reader finds its subkey prepared. A run ends after
/// [`NonceSource::RUN_LEN`] nonces or with a fork; two nonces of one run collide with a probability
/// of at most `RUN_LEN^2 / 2^97` (2^-57). Random bytes come in batches for 64 nonces: 32 bytes of
/// the system's generator, expanded by AES-256-CTR, so a virtual machine snapshot that is resumed
/// twice can repeat one batch at most. Not `Clone`: a copy would give the same nonces.
#[derive(Debug)]
pub struct NonceSource {
    prefix: [u8; PREFIX_LEN],
    left_in_run: u32,
    batch: [u8; BATCH_LEN],
    used: usize,
    generation: u64,
}

const SUFFIX_LEN: usize = NONCE_LEN - PREFIX_LEN;
const BATCH_LEN: usize = 64 * SUFFIX_LEN;

impl NonceSource {
    /// Maximum number of nonces that share a prefix.
    pub const RUN_LEN: u32 = 1 << 20;

    /// A source that has drawn nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            prefix: [0; PREFIX_LEN],
            left_in_run: 0,
            batch: [0; BATCH_LEN],
            used: BATCH_LEN,
            generation: 0,
        }
    }

    /// Returns the next nonce.
    ///
    /// # Errors
    /// [`CryptoError::Random`] when the generator fails; no nonce is returned then.
    #[inline]
    #[allow(clippy::should_implement_trait)] // it fails, and it never ends
    pub fn next(&mut self) -> Result<[u8; NONCE_LEN], CryptoError> {
        let generation = fork_generation();
        if generation != self.generation || self.left_in_run == 0 {
            self.start_run(generation)?;
        }
        if self.used == BATCH_LEN {
            self.refill()?;
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[..PREFIX_LEN].copy_from_slice(&self.prefix);
        nonce[PREFIX_LEN..].copy_from_slice(&self.batch[self.used..self.used + SUFFIX_LEN]);
        self.used += SUFFIX_LEN;
        self.left_in_run -= 1;
        Ok(nonce)
    }

    #[cold]
    fn start_run(&mut self, generation: u64) -> Result<(), CryptoError> {
        self.used = BATCH_LEN;
        self.left_in_run = 0;
        random_bytes(&mut self.prefix)?;
        self.generation = generation;
        self.left_in_run = Self::RUN_LEN;
        Ok(())
    }

    #[cold]
    fn refill(&mut self) -> Result<(), CryptoError> {
        if IS_FIPS_BUILD {
            // NIST SP 800-38D, 8.2.2: a random IV comes from an approved generator, as it is.
            random_bytes(&mut self.batch)?;
            self.used = 0;
            return Ok(());
        }
        let mut seed = Zeroizing::new([0; 32]);
        random_bytes(seed.as_mut_slice())?;
        self.batch.fill(0);
        let zero_iv = EncryptionContext::Iv128(FixedLength::from([0; 16]));
        UnboundCipherKey::new(&AES_256, seed.as_slice())
            .and_then(EncryptingKey::ctr)
            .and_then(|key| key.less_safe_encrypt(&mut self.batch, zero_iv))
            .map_err(|_| CryptoError::Random)?;
        self.used = 0;
        Ok(())
    }
}

impl Default for NonceSource {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nonces_share_a_prefix_and_never_repeat() {
        let mut source = NonceSource::new();
        let nonces: Vec<_> = (0..10_000).map(|_| source.next().unwrap()).collect();
        let prefixes: HashSet<_> = nonces.iter().map(|nonce| &nonce[..PREFIX_LEN]).collect();
        assert_eq!(prefixes.len(), 1);
        let suffixes: HashSet<_> = nonces.iter().map(|nonce| &nonce[PREFIX_LEN..]).collect();
        assert_eq!(suffixes.len(), nonces.len());
    }

    #[test]
    fn a_run_ends_and_two_sources_differ() {
        let mut source = NonceSource::new();
        let first = source.next().unwrap();
        source.left_in_run = 1;
        let last = source.next().unwrap();
        let after = source.next().unwrap();
        assert_eq!(first[..PREFIX_LEN], last[..PREFIX_LEN]);
        assert_ne!(last[..PREFIX_LEN], after[..PREFIX_LEN]);
        assert_ne!(NonceSource::new().next().unwrap()[..PREFIX_LEN], after[..PREFIX_LEN]);
    }
}
