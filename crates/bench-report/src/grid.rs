//! What any experiment measured, seen alike: cells, sides, and runs of a cell on a side, each a map
//! from metrics to values. Ratios, intervals and tables come from this view alone.

use std::collections::BTreeMap;

use crate::figures::Comparison;
use crate::metric::Metric;
use crate::model::{Experiment, Settings, Stopping};
use crate::stats::{Estimate, center, mean, staged_centers, staged_estimate};

/// The view of an experiment, or of those that share their sides.
#[derive(Debug, Clone)]
pub struct Grid {
    /// Identifiers and names of the sides.
    pub(crate) sides: Vec<(String, String)>,
    /// In the order of the report.
    pub(crate) cells: Vec<GridCell>,
    /// What is held against what.
    pub(crate) versus: Vec<Versus>,
    /// Metrics whose ratios are computed.
    pub(crate) ratios: &'static [Metric],
    /// Of those, what a cost is judged by, and what a run is to make narrow.
    pub(crate) wanted: [Metric; 2],
    /// What stands for all of it, and the cells that it is the mean over; may be empty.
    pub(crate) heads: (String, Vec<String>),
    pub(crate) runs: Vec<Run>,
}

/// Something measured as a unit.
#[derive(Debug, Clone)]
pub(crate) struct GridCell {
    pub(crate) experiment: Experiment,
    pub(crate) id: String,
    /// Name shown.
    pub(crate) label: String,
    /// What a run of it does.
    pub(crate) what: String,
}

/// A side held against another one of the same cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versus {
    /// None for every cell.
    pub(crate) cell: Option<String>,
    pub(crate) side: String,
    pub(crate) against: String,
    /// Cell of `against`, where it is another one.
    pub(crate) against_cell: Option<String>,
    /// It is what encryption adds: its cost is judged, and made narrow.
    pub(crate) shown: bool,
}

/// A measured block of a cell, or of one of its statements, on a side.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) cell: String,
    pub(crate) statement: Option<u32>,
    pub(crate) side: String,
    pub(crate) restart: u32,
    pub(crate) pair: u32,
    pub(crate) position: u32,
    pub(crate) values: Vec<(Metric, f64)>,
}

impl Run {
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        let found = self.values.iter().find(|(known, _)| *known == metric);
        found.map(|(_, value)| *value)
    }
}

/// How intervals come about: their confidence, and the restarts of the first stage of a run that
/// ended by their widths.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    pub(crate) confidence: f64,
    pub(crate) first: Option<usize>,
}

impl Stage {
    /// Of a run whose length is fixed.
    #[must_use]
    pub fn fixed(confidence: f64) -> Self {
        Self { confidence, first: None }
    }

    /// Of what a run measured beside its headline.
    #[must_use]
    pub fn beside(settings: &Settings) -> Self {
        let stopping = settings.stopping.filter(|plan| plan.all_ppm.is_some());
        Self::new(stopping, settings.confidence())
    }

    /// Of one experiment of a run.
    pub(crate) fn of(settings: &Settings, grid: &Grid) -> Self {
        if grid.heads.1.is_empty() {
            Self::beside(settings)
        } else {
            Self::new(settings.stopping, settings.confidence())
        }
    }

    pub(crate) fn new(stopping: Option<Stopping>, confidence: f64) -> Self {
        let first = stopping.and_then(|plan| usize::try_from(plan.first_restarts).ok());
        Self { confidence, first }
    }
}

/// A cell and, if need be, one of its statements.
type Key<'a> = (&'a str, Option<u32>);

/// Runs by restart and pair.
type ByPlace<'a> = BTreeMap<(u32, u32), &'a Run>;

/// Runs of a grid by cell, side, and place in the run.
pub(crate) struct Index<'a> {
    pub(crate) grid: &'a Grid,
    runs: BTreeMap<(Key<'a>, &'a str), ByPlace<'a>>,
}

impl<'a> Index<'a> {
    pub(crate) fn of(grid: &'a Grid) -> Self {
        let mut runs: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for run in &grid.runs {
            let key = ((run.cell.as_str(), run.statement), run.side.as_str());
            runs.entry(key).or_default().insert((run.restart, run.pair), run);
        }
        Self { grid, runs }
    }

    /// Log ratios of one metric, a group for each restart. Pairs of which one side lacks the value
    /// or has a zero are left out: the clock did not tick.
    pub(crate) fn log_ratios(
        &self,
        (cell, statement): Key<'_>,
        versus: &Versus,
        metric: Metric,
    ) -> BTreeMap<u32, Vec<f64>> {
        let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let other = versus.against_cell.as_deref().unwrap_or(cell);
        let above = self.runs.get(&((cell, statement), versus.side.as_str()));
        let below = self.runs.get(&((other, statement), versus.against.as_str()));
        let Some((above, below)) = above.zip(below) else { return groups };
        for ((restart, pair), above) in above {
            let Some(below) = below.get(&(*restart, *pair)) else { continue };
            if let (Some(above), Some(below)) = (above.value(metric), below.value(metric))
                && above > 0.0
                && below > 0.0
            {
                groups.entry(*restart).or_default().push((above / below).ln());
            }
        }
        groups
    }

    /// The logarithm of a cell's ratio.
    pub(crate) fn estimate(
        &self,
        cell: Key<'_>,
        versus: &Versus,
        metric: Metric,
        stage: Stage,
    ) -> Option<Estimate> {
        let groups = self.log_ratios(cell, versus, metric).into_values();
        staged_estimate(&groups.collect::<Vec<_>>(), stage.confidence, stage.first)
    }

    /// Mean of the log ratio over cells within each restart that measured all of them, then over
    /// restarts. None when no restart did.
    pub(crate) fn mean_over(
        &self,
        cells: &[String],
        versus: &Versus,
        metric: Metric,
        stage: Stage,
    ) -> Option<Estimate> {
        let mut by_restart: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for cell in cells {
            for (restart, ratios) in self.log_ratios((cell, None), versus, metric) {
                by_restart.entry(restart).or_default().extend(center(&ratios));
            }
        }
        let centers: Vec<f64> = by_restart
            .into_values()
            .filter(|centers| centers.len() == cells.len())
            .filter_map(|centers| mean(&centers))
            .collect();
        staged_centers(&centers, stage.confidence, stage.first)
    }

    /// Every ratio, a cell after the other.
    pub(crate) fn comparisons(&self, stage: Stage) -> Vec<Comparison> {
        let mut found = Vec::new();
        for cell in &self.grid.cells {
            let id = cell.id.as_str();
            for versus in self.grid.versus.iter().filter(|versus| versus.is_of(id)) {
                for metric in self.grid.ratios {
                    found.extend(self.comparison((id, None), versus, *metric, stage));
                }
                let start = ((id, Some(0)), "");
                let statements: Vec<Option<u32>> = self
                    .runs
                    .range(start..)
                    .map(|((key, side), _)| (*key, *side))
                    .take_while(|((cell, _), _)| *cell == id)
                    .filter(|(_, side)| *side == versus.side)
                    .map(|((_, statement), _)| statement)
                    .collect();
                for statement in statements {
                    for metric in [Metric::Elapsed, Metric::Cpu] {
                        found.extend(self.comparison((id, statement), versus, metric, stage));
                    }
                }
            }
        }
        found
    }

    fn comparison(
        &self,
        (cell, statement): Key<'_>,
        versus: &Versus,
        metric: Metric,
        stage: Stage,
    ) -> Option<Comparison> {
        let estimate = self.estimate((cell, statement), versus, metric, stage)?.exp();
        Some(Comparison {
            class: cell.to_owned(),
            statement,
            metric,
            side: versus.side.clone(),
            against: versus.against.clone(),
            ratio: estimate.center,
            low: estimate.interval.map(|(low, _)| low),
            high: estimate.interval.map(|(_, high)| high),
            restarts: estimate.groups as u64,
            pairs: estimate.values as u64,
        })
    }
}

impl Versus {
    pub(crate) fn is_of(&self, cell: &str) -> bool {
        self.cell.as_deref().is_none_or(|own| own == cell)
    }
}

impl Grid {
    /// Cells that need further restarts before all that `stopping` wants is narrow enough. The
    /// cells of the headline go on together until it is narrow, and where all are wanted until each
    /// of them is. What was not measured is not waited for.
    #[must_use]
    pub fn too_wide(&self, stopping: &Stopping, confidence: f64) -> Vec<String> {
        let stage = Stage::new(Some(*stopping), confidence);
        let index = Index::of(self);
        // What a side takes no part in, as peers in full backups, is not waited for.
        let wide = |found: Option<Estimate>, ppm: u32| {
            let wanted = (f64::from(ppm) / 1e6).ln_1p();
            found.is_some_and(|found| found.half_width().is_none_or(|half| half > wanted))
        };
        let too_wide = |cells: &[String], ppm: u32| {
            let of = |versus: &&Versus| versus.shown && cells.iter().all(|cell| versus.is_of(cell));
            self.versus.iter().filter(of).any(|versus| {
                let wide =
                    |metric: &Metric| wide(index.mean_over(cells, versus, *metric, stage), ppm);
                self.wanted.iter().any(wide)
            })
        };
        let mut wanting: Vec<String> = stopping.all_ppm.map_or_else(Vec::new, |ppm| {
            let ids = self.cells.iter().map(|cell| cell.id.clone());
            ids.filter(|id| too_wide(std::slice::from_ref(id), ppm)).collect()
        });
        let (_, heads) = &self.heads;
        if !heads.is_empty()
            && (too_wide(heads, stopping.headline_ppm)
                || wanting.iter().any(|id| heads.contains(id)))
        {
            wanting.retain(|id| !heads.contains(id));
            wanting.extend(heads.iter().cloned());
        }
        wanting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(restart: u32, pair: u32, side: &str, value: Option<f64>) -> Run {
        Run {
            cell: "cell".to_owned(),
            statement: None,
            side: side.to_owned(),
            restart,
            pair,
            position: 0,
            values: value.map(|value| (Metric::Elapsed, value)).into_iter().collect(),
        }
    }

    #[test]
    fn only_whole_pairs_count() {
        let grid = Grid {
            sides: Vec::new(),
            cells: vec![GridCell {
                experiment: Experiment::Scans,
                id: "cell".to_owned(),
                label: "a cell".to_owned(),
                what: String::new(),
            }],
            versus: vec![Versus {
                cell: None,
                side: "ours".to_owned(),
                against: "base".to_owned(),
                against_cell: None,
                shown: true,
            }],
            ratios: &[Metric::Elapsed],
            wanted: [Metric::Elapsed, Metric::Cpu],
            heads: (String::new(), Vec::new()),
            runs: vec![
                run(0, 0, "base", Some(2.0)),
                run(0, 0, "ours", Some(3.0)),
                run(0, 0, "other", Some(50.0)),
                run(1, 0, "ours", Some(6.0)),
                run(1, 0, "base", Some(4.0)),
                run(1, 1, "ours", Some(9.0)),
                run(2, 0, "ours", Some(9.0)),
                run(2, 0, "base", None),
                run(3, 0, "ours", Some(9.0)),
                run(3, 0, "base", Some(0.0)),
            ],
        };
        let stage = Stage { confidence: 0.95, first: None };
        let [found] = Index::of(&grid).comparisons(stage).try_into().unwrap();
        assert!((found.ratio - 1.5).abs() < 1e-12);
        assert_eq!((found.restarts, found.pairs), (2, 2));
    }
}
