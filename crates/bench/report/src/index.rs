//! The runs of an experiment by cell, side and place, the pairs of sides that are compared, and
//! their ratios.

use std::collections::BTreeMap;

use crate::figures::{Comparison, HEADLINE, Pooled};
use crate::headline::headline_classes;
use crate::layout::{Layout, Way};
use crate::metric::Metric;
use crate::model::{Class, Experiment, Role, Settings, Stopping};
use crate::report::{Report, Run};
use crate::stats::{Estimate, center, mean, median, staged_centers, staged_estimate};

/// A side compared with another one of the same cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versus {
    /// None for every cell.
    pub(crate) cell: Option<String>,
    pub(crate) side: String,
    pub(crate) against: String,
    /// Cell of `against`, if it differs.
    pub(crate) against_cell: Option<String>,
    /// True for the cost of encryption, which is reported and whose interval is narrowed.
    pub(crate) shown: bool,
}

/// Cells over which a ratio is computed.
pub(crate) struct Pool {
    id: String,
    pub(crate) what: String,
    pub(crate) cells: Vec<String>,
}

/// Returns the pairs of sides that are compared: all against the base, a peer also against its own
/// library without a cipher, our further algorithms also against the first one, and all against
/// each reference. For a backup tool that is its cell of the same action, source and target.
fn opponents(report: &Report) -> Vec<Versus> {
    let mut found = Vec::new();
    let versus = |side: &str, against: &str, shown| Versus {
        cell: None,
        side: side.to_owned(),
        against: against.to_owned(),
        against_cell: None,
        shown,
    };
    let Some(base) = report.base() else { return found };
    let own = || report.sides.iter().filter(|side| side.role != Role::Reference);
    for side in own().filter(|side| side.id != base.id) {
        let plain = side.plain.as_deref();
        found.push(versus(&side.id, &base.id, side.encrypts() && plain.is_none()));
        found.extend(plain.map(|plain| versus(&side.id, plain, side.encrypts())));
    }
    if let Some(first) = report.ours() {
        found.extend(report.further().map(|side| versus(&side.id, &first.id, false)));
    }
    for other in report.sides.iter().filter(|side| side.role == Role::Reference) {
        if report.experiment != Experiment::Backup {
            found.extend(own().map(|side| versus(&side.id, &other.id, false)));
            continue;
        }
        let route =
            |cell: &Class| ["action", "source", "target"].map(|name| cell.axis(name).to_owned());
        for cell in report.cells.iter().filter(|cell| cell.axis("tool").is_empty()) {
            let theirs =
                |there: &&Class| there.axis("tool") == other.id && route(there) == route(cell);
            let Some(theirs) = report.cells.iter().find(theirs) else { continue };
            found.extend(report.others().map(|side| Versus {
                cell: Some(cell.id.clone()),
                against_cell: Some(theirs.id.clone()),
                ..versus(&side.id, &other.id, false)
            }));
        }
    }
    found
}

/// Returns sets of cells with their names.
fn pools(report: &Report) -> Vec<Pool> {
    let pool = |id: &str, what: String, fits: &dyn Fn(&Class) -> bool| Pool {
        id: id.to_owned(),
        what,
        cells: report.cells.iter().filter(|cell| fits(cell)).map(|cell| cell.id.clone()).collect(),
    };
    match report.experiment {
        Experiment::Messages | Experiment::Replicate => Vec::new(),
        // A scan of pages is a separate question.
        Experiment::Oltp => {
            let mut all = pool("all", String::new(), &|cell| cell.unit == "transaction");
            all.what = format!("{} workloads and numbers of threads", all.cells.len());
            vec![all]
        }
        Experiment::Backup => {
            let mut found = Vec::new();
            for action in report.along("action") {
                for name in report.along("compression") {
                    let what = format!("{action}, {}", compression_words(name));
                    found.push(pool(&format!("{action}/{name}"), what, &|cell| {
                        cell.axis("action") == action && cell.axis("compression") == name
                    }));
                }
                let own =
                    |cell: &Class| cell.axis("action") == action && cell.axis("tool").is_empty();
                found.push(pool(&format!("{action}/all"), format!("{action}, all together"), &own));
            }
            found
        }
        _ => {
            let (what, classes) = headline_classes(&report.cells);
            let cells = classes.into_iter().map(|class| class.id.clone()).collect();
            vec![Pool { id: HEADLINE.to_owned(), what, cells }]
        }
    }
}

/// Returns the displayed name of a compression.
pub(crate) fn compression_words(name: &str) -> &str {
    if name == "none" { "uncompressed" } else { name }
}

/// Parameters of intervals: their confidence, and the restarts of the first stage of a run that
/// ended by their widths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) confidence: f64,
    pub(crate) first: Option<usize>,
}

impl Stage {
    /// Returns those of a run of fixed length.
    #[cfg(test)]
    pub(crate) fn fixed(confidence: f64) -> Self {
        Self { confidence, first: None }
    }

    /// Returns those of one experiment of a run. An experiment without the headline may end by its
    /// widths alone.
    pub(crate) fn of(settings: &Settings, experiment: Experiment) -> Self {
        let heads = [Experiment::Embedded, Experiment::Server]
            .iter()
            .any(|head| experiment.layout() == head.layout());
        let stopping = settings.stopping.filter(|plan| heads || plan.all_ppm.is_some());
        Self::new(stopping, settings.confidence())
    }

    fn new(stopping: Option<Stopping>, confidence: f64) -> Self {
        let first = stopping.and_then(|plan| usize::try_from(plan.first_restarts).ok());
        Self { confidence, first }
    }
}

/// A cell and optionally one of its statements.
type Key<'a> = (&'a str, Option<u32>);

/// Runs by restart and pair.
type ByPlace<'a> = BTreeMap<(u32, u32), &'a Run>;

/// Runs of a report by cell, side, and place in the run.
pub(crate) struct Index<'a> {
    pub(crate) report: &'a Report,
    pub(crate) layout: &'static Layout,
    /// The pairs of sides that are compared.
    pub(crate) versus: Vec<Versus>,
    /// The sets of cells.
    pub(crate) pools: Vec<Pool>,
    runs: BTreeMap<(Key<'a>, &'a str), ByPlace<'a>>,
}

impl<'a> Index<'a> {
    pub(crate) fn of(report: &'a Report) -> Self {
        let mut runs: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for run in &report.runs {
            let key = ((run.cell.as_str(), run.statement), run.side.as_str());
            runs.entry(key).or_default().insert((run.restart, run.pair), run);
        }
        let (versus, pools) = (opponents(report), pools(report));
        Self { report, layout: report.layout(), versus, pools, runs }
    }

    /// Returns the log ratios of one metric, a group for each restart. Pairs in which one side
    /// lacks the value or has a zero are left out: the clock did not tick.
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

    /// Returns the logarithm of a cell's ratio.
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

    /// Returns the logarithm of a ratio over several cells, from their pairs. None for a [`Way`]
    /// that has none, and if no restart measured all that it needs.
    pub(crate) fn over(
        &self,
        way: Way,
        cells: &[String],
        (versus, metric): (&Versus, Metric),
        stage: Stage,
    ) -> Option<Estimate> {
        let mut restarts: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
        for cell in cells {
            for (restart, ratios) in self.log_ratios((cell, None), versus, metric) {
                restarts.entry(restart).or_default().push(ratios);
            }
        }
        let restarts = restarts.into_values();
        let whole_mean = |found: Vec<Vec<f64>>| {
            let centers: Option<Vec<f64>> = found.iter().map(|ratios| center(ratios)).collect();
            mean(&centers.filter(|centers| centers.len() == cells.len())?)
        };
        match way {
            Way::Mean => {
                let centers: Vec<f64> = restarts.filter_map(whole_mean).collect();
                staged_centers(&centers, stage.confidence, stage.first)
            }
            Way::Middle => {
                let groups: Vec<Vec<f64>> = restarts.map(|found| found.concat()).collect();
                staged_estimate(&groups, stage.confidence, stage.first)
            }
            Way::Median => None,
        }
    }

    /// Returns every ratio, cell by cell.
    pub(crate) fn comparisons(&self, stage: Stage) -> Vec<Comparison> {
        let mut found = Vec::new();
        for cell in &self.report.cells {
            let id = cell.id.as_str();
            for versus in self.versus.iter().filter(|versus| versus.is_of(id)) {
                for metric in self.layout.ratios {
                    found.extend(self.comparison((id, None), versus, *metric, stage));
                }
                let keys = self.runs.range(((id, Some(0)), "")..).map(|(key, _)| *key);
                let own = keys.take_while(|((cell, _), _)| *cell == id);
                for (key, _) in own.filter(|(_, side)| *side == versus.side) {
                    for metric in [Metric::Elapsed, Metric::Cpu] {
                        found.extend(self.comparison(key, versus, metric, stage));
                    }
                }
            }
        }
        found
    }

    /// Returns every ratio over several cells; `comparisons` are the cells' own.
    pub(crate) fn pooled(&self, comparisons: &[Comparison], stage: Stage) -> Vec<Pooled> {
        let mut found = Vec::new();
        for pool in &self.pools {
            for versus in self.versus.iter().filter(|versus| versus.cell.is_none()) {
                for metric in self.layout.ratios {
                    found.extend(self.pool(pool, (versus, *metric), comparisons, stage));
                }
            }
        }
        found
    }

    fn pool(
        &self,
        pool: &Pool,
        (versus, metric): (&Versus, Metric),
        comparisons: &[Comparison],
        stage: Stage,
    ) -> Option<Pooled> {
        let ratios = comparisons.iter().filter(|one| {
            one.statement.is_none()
                && (&one.side, &one.against, one.metric) == (&versus.side, &versus.against, metric)
                && pool.cells.contains(&one.class)
        });
        let ratios: Vec<f64> = ratios.map(|one| one.ratio).collect();
        let least = ratios.iter().copied().min_by(f64::total_cmp)?;
        let most = ratios.iter().copied().max_by(f64::total_cmp)?;
        let way = self.layout.way;
        let found = self.over(way, &pool.cells, (versus, metric), stage).map(Estimate::exp);
        if found.is_none() && way != Way::Median {
            return None;
        }
        let (low, high) = found.and_then(|found| found.interval).unzip();
        Some(Pooled {
            id: pool.id.clone(),
            what: pool.what.clone(),
            cells: pool.cells.clone(),
            metric,
            side: versus.side.clone(),
            against: versus.against.clone(),
            ratio: found.map_or_else(|| median(&ratios), |found| Some(found.center))?,
            low,
            high,
            restarts: found.map_or(0, |found| found.groups as u64),
            least,
            most,
        })
    }

    /// Returns the cells of the headline with their name, if any.
    pub(crate) fn heads(&self) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.id == HEADLINE)
    }

    fn comparison(
        &self,
        (cell, statement): Key<'_>,
        versus: &Versus,
        metric: Metric,
        stage: Stage,
    ) -> Option<Comparison> {
        let estimate = self.estimate((cell, statement), versus, metric, stage)?.exp();
        let (low, high) = estimate.interval.unzip();
        Some(Comparison {
            class: cell.to_owned(),
            statement,
            metric,
            side: versus.side.clone(),
            against: versus.against.clone(),
            ratio: estimate.center,
            low,
            high,
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

impl Report {
    /// Returns the cells that need further restarts before everything that `stopping` asks for is
    /// narrow enough. The cells of the headline continue together until it is narrow, and if all
    /// are wanted, until each of them is. The headline is not that of a further algorithm.
    /// Unmeasured cells are not waited for.
    #[must_use]
    pub fn too_wide(&self, stopping: &Stopping, confidence: f64) -> Vec<String> {
        let stage = Stage::new(Some(*stopping), confidence);
        let index = Index::of(self);
        // A cell in which a side does not take part, as peers in full backups, is not waited for.
        let wide = |found: Option<Estimate>, ppm: u32| {
            let wanted = (f64::from(ppm) / 1e6).ln_1p();
            found.is_some_and(|found| found.half_width().is_none_or(|half| half > wanted))
        };
        let too_wide = |cells: &[String], ppm: u32, whose: &dyn Fn(&str) -> bool| {
            let of = |versus: &&Versus| {
                let all = cells.iter().all(|cell| versus.is_of(cell));
                versus.shown && all && whose(&versus.side)
            };
            index.versus.iter().filter(of).any(|versus| {
                let of = |one: &Metric| index.over(Way::Mean, cells, (versus, *one), stage);
                let wide = |metric: &Metric| wide(of(metric), ppm);
                index.layout.wanted.iter().any(wide)
            })
        };
        let mut wanting: Vec<String> = stopping.all_ppm.map_or_else(Vec::new, |ppm| {
            let ids = self.cells.iter().map(|cell| cell.id.clone());
            ids.filter(|id| too_wide(std::slice::from_ref(id), ppm, &|_| true)).collect()
        });
        let heads = index.heads().map_or(&[][..], |pool| &pool.cells);
        if !heads.is_empty()
            && (too_wide(heads, stopping.headline_ppm, &|side| !self.is_further(side))
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
    use crate::examples::embedded;
    use crate::report::measured;

    #[test]
    fn only_whole_pairs_count() {
        let mut report = embedded();
        let known = report.runs.remove(0);
        let run = |restart, pair, side: &str, elapsed: Option<u64>| Run {
            side: side.to_owned(),
            restart,
            pair,
            values: measured([(Metric::Elapsed, elapsed)]),
            ..known.clone()
        };
        report.runs = vec![
            run(0, 0, "base", Some(2)),
            run(0, 0, "encrypted", Some(3)),
            run(0, 0, "other", Some(50)),
            run(1, 0, "encrypted", Some(6)),
            run(1, 0, "base", Some(4)),
            run(1, 1, "encrypted", Some(9)),
            run(2, 0, "encrypted", Some(9)),
            run(2, 0, "base", None),
            run(3, 0, "encrypted", Some(9)),
            run(3, 0, "base", Some(0)),
        ];
        let stage = Stage::fixed(0.95);
        let [found] = Index::of(&report).comparisons(stage).try_into().unwrap();
        assert!((found.ratio - 1.5).abs() < 1e-12);
        assert_eq!((found.restarts, found.pairs), (2, 2));
    }
}
