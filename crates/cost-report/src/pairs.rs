//! Runs of two sides, side by side: what a ratio with the restart as its unit is made of.

use std::collections::BTreeMap;

use crate::stats::{Estimate, ratio_estimate};

/// A run on one side.
pub(crate) trait Paired {
    /// Restart, and the pair within it.
    fn place(&self) -> (u32, u32);
    /// Identifier of the side.
    fn side(&self) -> &str;
}

/// Runs of a side, each beside that of the base in the same pair.
pub(crate) struct Pairs<'a, R>(BTreeMap<(u32, u32), Both<'a, R>>);

/// The side's run and the base's.
type Both<'a, R> = (Option<&'a R>, Option<&'a R>);

impl<'a, R: Paired> Pairs<'a, R> {
    /// Pairs up the runs of `side` and `base`; those of other sides are left out.
    pub(crate) fn of(runs: &[&'a R], side: &str, base: &str) -> Self {
        let mut pairs: BTreeMap<(u32, u32), Both<'a, R>> = BTreeMap::new();
        for run in runs {
            let pair = pairs.entry(run.place()).or_default();
            if run.side() == side {
                pair.0 = Some(run);
            } else if run.side() == base {
                pair.1 = Some(run);
            }
        }
        Self(pairs)
    }

    /// The side over the base, by restart; pairs of which one lacks the value are left out.
    pub(crate) fn ratio(
        &self,
        value: impl Fn(&R) -> Option<f64>,
        confidence: f64,
    ) -> Option<Estimate> {
        let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (&(restart, _), &(above, below)) in &self.0 {
            let values = above.and_then(&value).zip(below.and_then(&value));
            if let Some((above, below)) = values {
                groups.entry(restart).or_default().push((above / below).ln());
            }
        }
        let groups: Vec<Vec<f64>> = groups.into_values().collect();
        ratio_estimate(&groups, confidence)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    struct Run(u32, u32, &'static str, Option<f64>);

    impl Paired for Run {
        fn place(&self) -> (u32, u32) {
            (self.0, self.1)
        }

        fn side(&self) -> &str {
            self.2
        }
    }

    #[test]
    fn only_whole_pairs_count() {
        let runs = [
            Run(0, 0, "base", Some(2.0)),
            Run(0, 0, "ours", Some(3.0)),
            Run(0, 0, "other", Some(50.0)),
            Run(1, 0, "ours", Some(6.0)),
            Run(1, 0, "base", Some(4.0)),
            Run(1, 1, "ours", Some(9.0)),
            Run(2, 0, "ours", Some(9.0)),
            Run(2, 0, "base", None),
        ];
        let runs: Vec<&Run> = runs.iter().collect();
        let found = Pairs::of(&runs, "ours", "base").ratio(|run| run.3, 0.95).unwrap();
        assert!((found.center - 1.5).abs() < 1e-12);
        assert_eq!((found.groups, found.values), (2, 2));
    }
}
