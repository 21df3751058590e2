//! POLYVAL of long messages by processors that multiply four blocks at once (VPCLMULQDQ with
//! AVX-512), which no library offers.
//!
//! The library's POLYVAL stays the reference: powers of the key come from it, it hashes what is
//! short and every message on other processors, and the tests hold this against it.
//!
//! The blocks go round four lanes. A lane's sum is a polynomial in the key's fourth power; in the
//! end the lanes are multiplied by the powers 4, 3, 2, 1 and added. A product is left in two halves
//! of 128 bits, R and F, and reduced once for a whole sum ("Efficient GHASH Implementation Using
//! CLMUL", eprint 2025/2171, as the library has it, too).
//!
//! Intrinsics: `unsafe` is for loads through pointers and for calls of functions that need the
//! processor's features, which [`WidePolyval::new`] looked for.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm_xor_si128, _mm512_broadcast_i32x4,
    _mm512_castsi512_si128, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32,
    _mm512_inserti32x4, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_shuffle_epi32, _mm512_xor_si512,
};

const BLOCK_LEN: usize = 16;
/// Blocks in a vector.
const LANES: usize = 4;
/// Vectors whose products are reduced together.
const STEPS: usize = 8;

/// x^63 + x^62 + x^57: what the reduction multiplies by.
const REDUCER: i64 = 0xc200_0000_0000_0000_u64.cast_signed();

/// A factor in the form that multiplying takes.
#[derive(Clone, Copy)]
struct Factor {
    h: __m512i,
    d: __m512i,
}

/// Powers of a key of POLYVAL.
pub(crate) struct WidePolyval {
    /// The powers 32, 28, ... 4, each in all lanes.
    powers: [Factor; STEPS],
    /// The powers 4, 3, 2, 1, one a lane.
    last: Factor,
}

impl WidePolyval {
    /// Blocks that are hashed at once: messages are cut to multiples of this.
    pub(crate) const UNIT: usize = LANES * STEPS;

    /// Prepares a key; `power` gives its powers. `None` on processors that have not what it takes.
    pub(crate) fn new(power: impl Fn(usize) -> [u8; BLOCK_LEN]) -> Option<Self> {
        if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("vpclmulqdq") {
            return None;
        }
        let all: [_; STEPS] = std::array::from_fn(|step| power(LANES * (STEPS - step)));
        let last: [_; LANES] = std::array::from_fn(|lane| power(LANES - lane));
        // SAFETY: the processor has the features (checked above).
        Some(unsafe { Self::prepare(&all, &last) })
    }

    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn prepare(all: &[[u8; BLOCK_LEN]; STEPS], last: &[[u8; BLOCK_LEN]; LANES]) -> Self {
        let powers = all.map(|power| Factor::new(_mm512_broadcast_i32x4(load_block(&power))));
        let [a, b, c, d] = last.map(|power| load_block(&power));
        let lanes = _mm512_broadcast_i32x4(a);
        let lanes = _mm512_inserti32x4::<1>(lanes, b);
        let lanes = _mm512_inserti32x4::<2>(lanes, c);
        let lanes = _mm512_inserti32x4::<3>(lanes, d);
        Self { powers, last: Factor::new(lanes) }
    }

    /// The hash after `blocks`, where it was `state` before. Whole units are hashed; what is left
    /// over is not looked at.
    pub(crate) fn hash(
        &self,
        state: [u8; BLOCK_LEN],
        blocks: &[[u8; BLOCK_LEN]],
    ) -> [u8; BLOCK_LEN] {
        let (units, _) = blocks.as_chunks::<{ Self::UNIT }>();
        if units.is_empty() {
            return state;
        }
        // SAFETY: there is a `self` only where the processor has the features.
        unsafe { self.hash_units(state, units) }
    }

    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn hash_units(
        &self,
        state: [u8; BLOCK_LEN],
        units: &[[[u8; BLOCK_LEN]; Self::UNIT]],
    ) -> [u8; BLOCK_LEN] {
        // What is there before is added to the first block, which lies in lane 0.
        let zero = _mm512_setzero_si512();
        let mut sum = zero;
        let mut before = _mm512_inserti32x4::<0>(zero, load_block(&state));
        for unit in units {
            let (vectors, _) = unit.as_chunks::<LANES>();
            let (mut r, mut f) = (zero, zero);
            // sum * h^32 + v0 * h^28 + ... + v6 * h^4 + v7
            let mut term = sum;
            let mut extra = before;
            before = zero;
            for (factor, vector) in self.powers.iter().zip(vectors) {
                let (more_r, more_f) = factor.times(term);
                r = _mm512_xor_si512(r, more_r);
                f = _mm512_xor_si512(f, more_f);
                term = _mm512_xor_si512(load_vector(vector), extra);
                extra = zero;
            }
            sum = _mm512_xor_si512(reduce(r, f), term);
        }
        let (r, f) = self.last.times(sum);
        let lanes = reduce(r, f);
        let low =
            _mm_xor_si128(_mm512_castsi512_si128(lanes), _mm512_extracti32x4_epi32::<1>(lanes));
        let high = _mm_xor_si128(
            _mm512_extracti32x4_epi32::<2>(lanes),
            _mm512_extracti32x4_epi32::<3>(lanes),
        );
        let mut out = [0; BLOCK_LEN];
        // SAFETY: the place has the length of a block; any alignment will do.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_xor_si128(low, high)) };
        out
    }
}

impl Factor {
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn new(h: __m512i) -> Self {
        let part = _mm512_clmulepi64_epi128::<0x00>(h, _mm512_set1_epi64(REDUCER));
        Self { h, d: _mm512_xor_si512(swap(h), part) }
    }

    /// The halves R and F of the product, lane by lane.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn times(&self, m: __m512i) -> (__m512i, __m512i) {
        let r = _mm512_xor_si512(
            _mm512_clmulepi64_epi128::<0x10>(m, self.d),
            _mm512_clmulepi64_epi128::<0x11>(m, self.h),
        );
        let f = _mm512_xor_si512(
            _mm512_clmulepi64_epi128::<0x00>(m, self.d),
            _mm512_clmulepi64_epi128::<0x01>(m, self.h),
        );
        (r, f)
    }
}

/// R + F1 + x^64 F0 + P1 F0.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn reduce(r: __m512i, f: __m512i) -> __m512i {
    let part = _mm512_clmulepi64_epi128::<0x00>(f, _mm512_set1_epi64(REDUCER));
    _mm512_xor_si512(_mm512_xor_si512(r, swap(f)), part)
}

/// The halves of each lane exchanged.
#[inline]
#[target_feature(enable = "avx512f")]
fn swap(lanes: __m512i) -> __m512i {
    _mm512_shuffle_epi32::<0b01_00_11_10>(lanes)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_block(block: &[u8; BLOCK_LEN]) -> __m128i {
    // SAFETY: the block is readable; any alignment will do.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_vector(blocks: &[[u8; BLOCK_LEN]; LANES]) -> __m512i {
    // SAFETY: the blocks are readable; any alignment will do.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use polyval::Polyval;
    use polyval::universal_hash::UniversalHash;
    use proptest::prelude::*;

    use super::*;

    /// By the library, block by block.
    fn expected(key: [u8; 16], state: [u8; 16], blocks: &[[u8; 16]]) -> [u8; 16] {
        let mut hash = Polyval::new(&key.into());
        let mut carried = state;
        for block in blocks {
            let sum = u128::from_ne_bytes(*block) ^ u128::from_ne_bytes(carried);
            hash.update(&[sum.to_ne_bytes().into()]);
            carried = [0; 16];
        }
        hash.finalize().into()
    }

    fn power(key: [u8; 16], exponent: usize) -> [u8; 16] {
        // The hash of a key and `exponent - 1` zero blocks.
        let mut blocks = vec![[0; 16]; exponent - 1];
        match blocks.first_mut() {
            Some(first) => *first = key,
            None => return key,
        }
        expected(key, [0; 16], &blocks)
    }

    fn check(key: [u8; 16], state: [u8; 16], blocks: &[[u8; 16]]) {
        // On other processors there is nothing to test.
        let Some(wide) = WidePolyval::new(|exponent| power(key, exponent)) else { return };
        let whole = blocks.len() / WidePolyval::UNIT * WidePolyval::UNIT;
        let found = wide.hash(state, blocks);
        let wanted = if whole == 0 { state } else { expected(key, state, &blocks[..whole]) };
        assert_eq!(found, wanted, "{} blocks", blocks.len());
    }

    #[test]
    fn every_number_of_units_hashes_as_the_library_does() {
        let blocks: Vec<[u8; 16]> = (0..1100u32)
            .map(|at| (u128::from(at) * 0x9e37_79b9_7f4a_7c15_f39c_c060).to_le_bytes())
            .collect();
        for count in [0, 31, 32, 33, 63, 64, 96, 128, 992, 1021, 1100] {
            check([0x81; 16], [0x7f; 16], &blocks[..count]);
            check([0xff; 16], [0; 16], &blocks[..count]);
        }
    }

    proptest! {
        #[test]
        fn any_key_state_and_blocks(
            key: [u8; 16],
            state: [u8; 16],
            blocks in proptest::collection::vec(any::<[u8; 16]>(), 0..200),
        ) {
            check(key, state, &blocks);
        }
    }
}
