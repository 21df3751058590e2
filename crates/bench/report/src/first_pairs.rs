//! Test for a difference between the first pairs of a restart and the later ones, which would
//! result from a warm-up that was too short and cost one side more than the other.

use crate::index::{Index, Versus};
use crate::model::{Metric, WarmUp};
use crate::report::Report;
use crate::stats::{center, grouped_estimate};

/// High, because a false alarm must be rare among many classes.
const CONFIDENCE: f64 = 0.999;

/// Notes for each cell the factor by which its first pairs' overhead differs from the later ones'.
pub fn note_first_pairs(report: &mut Report) {
    let Some((base, side)) = report.base().zip(report.ours()) else { return };
    let (against, side) = (base.id.clone(), side.id.clone());
    let versus = Versus { cell: None, side, against, against_cell: None, shown: true };
    let index = Index::of(report);
    let mut notes = Vec::new();
    for class in &report.cells {
        let groups: Vec<Vec<f64>> = index
            .log_ratios((&class.id, None), &versus, Metric::Elapsed)
            .into_values()
            .filter_map(|ratios| {
                let (first, later) = ratios.split_first()?;
                Some(vec![first - center(later)?])
            })
            .collect();
        let Some(found) = grouped_estimate(&groups, CONFIDENCE) else { continue };
        notes.push((class.id.clone(), found.exp()));
    }
    for (class, found) in notes {
        let (first_pair, first_pair_interval) = (Some(found.center), found.interval);
        match report.warm_up.iter_mut().find(|known| known.class == class) {
            Some(known) => {
                (known.first_pair, known.first_pair_interval) = (first_pair, first_pair_interval);
            }
            None => report.warm_up.push(WarmUp {
                class,
                tried: 0,
                needed: 0,
                first_pair,
                first_pair_interval,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::embedded;

    #[test]
    fn slower_first_pairs_are_seen() {
        let mut report = embedded();
        note_first_pairs(&mut report);
        assert!((report.warm_up[0].first_pair.unwrap() - 1.0).abs() < 1e-4);
        for run in &mut report.runs {
            if run.side == "encrypted" && run.pair == 0 {
                *run.values.get_mut(&Metric::Elapsed).unwrap() *= 1.5;
            }
        }
        note_first_pairs(&mut report);
        let [found] = report.warm_up.as_slice() else { panic!("{:?}", report.warm_up) };
        assert!((found.first_pair.unwrap() - 1.5).abs() < 1e-3, "{found:?}");
        let (low, high) = found.first_pair_interval.unwrap();
        assert!(low > 1.0 && high < 2.0, "{found:?}");
    }
}
