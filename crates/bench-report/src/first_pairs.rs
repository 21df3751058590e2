//! Whether the first pairs of a restart differ from the later ones, as they would if the warm-up
//! had been too short and cost one side more than the other.

use crate::index::{Index, Versus};
use crate::model::{Metric, Results, Role, WarmUp};
use crate::stats::{center, grouped_estimate};
use crate::summary::sides_report;

/// Of that many classes a false alarm must be rare.
const CONFIDENCE: f64 = 0.999;

/// Notes for each class by which factor its first pairs' overhead differs from the later ones'.
pub fn note_first_pairs(results: &mut Results) {
    let base = results.sides.iter().find(|side| side.role == Role::Base);
    let side = results.sides.iter().find(|side| side.role == Role::Encrypted);
    let Some((base, side)) = base.zip(side) else { return };
    let (base, side) = (base.id.clone(), side.id.clone());
    let sides = sides_report(&results.sides, &results.classes, &results.samples);
    let index = Index::of(&sides);
    let versus = Versus { cell: None, side, against: base, against_cell: None, shown: true };
    for class in &results.classes {
        let groups: Vec<Vec<f64>> = index
            .log_ratios((&class.id, None), &versus, Metric::Elapsed)
            .into_values()
            .filter_map(|ratios| {
                let (first, later) = ratios.split_first()?;
                Some(vec![first - center(later)?])
            })
            .collect();
        let Some(found) = grouped_estimate(&groups, CONFIDENCE) else { continue };
        let found = found.exp();
        let note = |warm_up: &mut WarmUp| {
            warm_up.first_pair = Some(found.center);
            warm_up.first_pair_interval = found.interval;
        };
        match results.warm_up.iter_mut().find(|known| known.class == class.id) {
            Some(known) => note(known),
            None => {
                let mut new = WarmUp {
                    class: class.id.clone(),
                    tried: 0,
                    needed: 0,
                    first_pair: None,
                    first_pair_interval: None,
                };
                note(&mut new);
                results.warm_up.push(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::example;

    #[test]
    fn slower_first_pairs_are_seen() {
        let mut results = example();
        note_first_pairs(&mut results);
        assert!((results.warm_up[0].first_pair.unwrap() - 1.0).abs() < 1e-4);
        for sample in &mut results.samples {
            if sample.side == "encrypted" && sample.pair == 0 {
                sample.elapsed_ns = sample.elapsed_ns * 3 / 2;
            }
        }
        note_first_pairs(&mut results);
        let [found] = results.warm_up.as_slice() else { panic!("{:?}", results.warm_up) };
        assert!((found.first_pair.unwrap() - 1.5).abs() < 1e-3, "{found:?}");
        let (low, high) = found.first_pair_interval.unwrap();
        assert!(low > 1.0 && high < 2.0, "{found:?}");
    }
}
