//! SplitMix64 (Steele, Lea, Flood 2014): a seed identifies one run for ever, on every machine.

/// A seeded stream of numbers; not for keys.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Makes the stream for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0. The bias is below 2^-32 for the bounds
    /// here.
    pub fn below(&mut self, bound: usize) -> usize {
        match u64::try_from(bound) {
            Ok(bound) if bound > 0 => usize::try_from(self.word() % bound).unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns true in `percent` of 100 calls.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.word() % 100 < percent
    }

    /// Returns one of `choices`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.below(choices.len()))
    }

    /// Returns `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.word().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}
