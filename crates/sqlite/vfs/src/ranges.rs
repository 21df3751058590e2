//! Maps each byte to the last extent that was laid over it.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges by their start, each with its end and its extent.
#[derive(Default)]
pub(crate) struct Ranges(BTreeMap<u64, (u64, usize)>);

impl Ranges {
    /// Lays extent `index` over `range`, which is not empty.
    pub(crate) fn lay(&mut self, range: Range<u64>, index: usize) {
        let Range { start, end } = range;
        if let Some((&at, &(to, older))) = self.0.range(..start).next_back()
            && to > start
        {
            self.0.insert(at, (start, older));
            if to > end {
                self.0.insert(end, (to, older));
            }
        }
        while let Some((&at, &(to, older))) = self.0.range(start..end).next() {
            self.0.remove(&at);
            if to > end {
                self.0.insert(end, (to, older));
            }
        }
        self.0.insert(start, (end, index));
    }

    /// Returns the parts of `range` that an extent covers, each with that extent.
    pub(crate) fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, usize)> {
        let Range { start, end } = range;
        let before = self.0.range(..start).next_back();
        let parts = before.into_iter().chain(self.0.range(start..end));
        let cut = parts.map(|(&at, &(to, index))| (at.max(start)..to.min(end), index));
        cut.filter(|(part, _)| !part.is_empty()).collect()
    }

    /// Returns the end of the last range; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(_, &(end, _))| end)
    }

    /// Removes all ranges.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Extents of any place and length, overlapping in any way.
    #[test]
    fn each_byte_is_the_last_extents() {
        let mut state = 1_u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        for _ in 0..300 {
            let (mut ranges, mut model) = (Ranges::default(), [None; 64]);
            for index in 0..12 {
                let start = below(56);
                let end = start + 1 + below(8);
                ranges.lay(start..end, index);
                (start..end).for_each(|at| model[usize::try_from(at).unwrap()] = Some(index));
                let last = model.iter().rposition(Option::is_some).unwrap();
                assert_eq!(ranges.end(), last as u64 + 1);
            }
            let from = below(60);
            let mut found = [None; 64];
            for (part, index) in ranges.parts(from..64) {
                part.for_each(|at| found[usize::try_from(at).unwrap()] = Some(index));
            }
            let from = usize::try_from(from).unwrap();
            assert_eq!(found[from..], model[from..]);
            assert!(found[..from].iter().all(Option::is_none));
        }
        let mut ranges = Ranges::default();
        ranges.lay(3..9, 0);
        ranges.clear();
        assert!(ranges.parts(0..20).is_empty() && ranges.end() == 0);
    }
}
