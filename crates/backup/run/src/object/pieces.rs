//! Sizes of the pieces of an upload.

use super::ObjectOptions;

/// Maximum number of pieces for S3 and Google; Azure accepts more.
const MOST_PIECES: u64 = 10_000;
/// Minimum piece size of S3, except for the last.
const LEAST_BYTES: u64 = 5 << 20;
/// Below the maximum piece size of the stores: 5 GiB, on Azure 4,000 MiB.
const MOST_BYTES: u64 = 3 << 30;
/// Number of pieces after which they double, without a known size.
const STEP: u64 = 1000;
/// Number of pieces for the expected size, of those that a store accepts. The remaining ones double
/// quickly: they hold 5 TiB even if the expected size is far too small.
const EXPECTED_PIECES: u64 = 8000;
const STEP_PAST_EXPECTED: u64 = 30;

/// The sizes of the pieces of one upload. Whatever the expected size, 10,000 pieces hold 5 TiB, the
/// largest object of S3 and Google.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces {
    base: u64,
    /// Pieces of the base size before they begin to double.
    steady: u64,
    /// Pieces of each size after that.
    step: u64,
    in_flight_bytes: u64,
}

impl Pieces {
    pub(super) fn new(options: &ObjectOptions) -> Self {
        let wanted = u64::try_from(options.piece_bytes).unwrap_or(MOST_BYTES);
        let needed = options.expected_bytes.div_ceil(EXPECTED_PIECES).next_multiple_of(1 << 20);
        let wanted = wanted.clamp(LEAST_BYTES, MOST_BYTES);
        let base = wanted.max(needed).min(MOST_BYTES);
        let (steady, step) = match options.expected_bytes {
            0 => (STEP, STEP),
            _ => (EXPECTED_PIECES, STEP_PAST_EXPECTED),
        };
        let in_flight = u64::try_from(options.pieces_in_flight).unwrap_or(1).max(1);
        Self { base, steady, step, in_flight_bytes: wanted.saturating_mul(in_flight) }
    }

    /// Returns the size of the piece with this number, from 0; `None` past the maximum number of
    /// pieces.
    pub(super) fn bytes(&self, index: u64) -> Option<usize> {
        if index >= MOST_PIECES {
            return None;
        }
        let doublings = index.checked_sub(self.steady).map_or(0, |past| past / self.step + 1);
        let factor = 1_u64.checked_shl(u32::try_from(doublings).ok()?).unwrap_or(u64::MAX);
        usize::try_from(self.base.saturating_mul(factor).min(MOST_BYTES)).ok()
    }

    /// Returns how many pieces of a size are uploaded at once. Large ones are fewer, so that memory
    /// grows no faster than pieces do.
    pub(super) fn in_flight(&self, bytes: usize) -> usize {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(1);
        usize::try_from((self.in_flight_bytes / bytes).max(1)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    fn total(pieces: &Pieces) -> u64 {
        (0..MOST_PIECES).map(|index| pieces.bytes(index).unwrap() as u64).sum()
    }

    #[test]
    fn any_set_that_a_store_takes_fits() {
        for expected_bytes in [0, 1, 1 << 30, 100 << 30, TIB, 5 * TIB, u64::MAX] {
            let options = ObjectOptions { expected_bytes, ..ObjectOptions::default() };
            let pieces = Pieces::new(&options);
            assert!(total(&pieces) >= 5 * TIB, "{expected_bytes}: {}", total(&pieces));
            assert_eq!(pieces.bytes(MOST_PIECES), None);
        }
    }

    #[test]
    fn pieces_never_shrink_and_stay_within_what_a_store_takes() {
        for piece_bytes in [0, 1 << 20, 8 << 20, usize::MAX] {
            let pieces = Pieces::new(&ObjectOptions { piece_bytes, ..ObjectOptions::default() });
            let sizes: Vec<_> =
                (0..MOST_PIECES).map(|index| pieces.bytes(index).unwrap()).collect();
            assert!(sizes.is_sorted());
            assert!(sizes[0] >= 5 << 20 && sizes[9999] as u64 <= MOST_BYTES);
        }
    }

    #[test]
    fn an_expected_size_needs_little_memory() {
        let expected_bytes = 100 << 30;
        let options = ObjectOptions { expected_bytes, ..ObjectOptions::default() };
        let pieces = Pieces::new(&options);
        let first = pieces.bytes(0).unwrap();
        assert!(first <= 14 << 20, "{first}");
        assert_eq!(pieces.bytes(7999), Some(first));
        assert!(first as u64 * EXPECTED_PIECES >= expected_bytes);
    }

    #[test]
    fn large_pieces_go_one_by_one() {
        let pieces = Pieces::new(&ObjectOptions::default());
        assert_eq!(pieces.in_flight(8 << 20), 2);
        assert_eq!(pieces.in_flight(16 << 20), 1);
        assert_eq!(pieces.in_flight(1 << 30), 1);
    }
}
