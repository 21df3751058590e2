//! The report of a separate experiment, from its first block to its end.

use std::time::Duration;

use tdekit_bench_report::{Axes, Class, Experiment, Report, Results, Run, Settings, Stopping};

use crate::error::Result;
use crate::plan::Config;
use crate::schedule::{Ended, Kind, Length, Surroundings};
use crate::tools::Tools;

/// Runs an experiment of the plan, and adds its figures to the results; after a failure those
/// measured before it. Fails if nothing could be measured.
pub(crate) type RunExperiment =
    fn(&Config, &Tools, Surroundings<'_>, &mut Results) -> Result<Ended>;

/// Returns a class of blocks with this many operations each, without a place on any axis.
pub(crate) fn class(
    experiment: Experiment,
    (id, label): (impl Into<String>, impl Into<String>),
    what: String,
    (operations, unit): (u64, &str),
) -> Class {
    let (id, label, unit) = (id.into(), label.into(), unit.to_owned());
    Class { id, experiment, label, what, operations, unit, axes: Axes::new() }
}

/// Returns places on the axes of an experiment of several dimensions.
pub(crate) fn axes<const N: usize>(places: [(&str, &str); N]) -> Axes {
    places.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// A growing report, and the test whether its figures suffice.
pub(crate) struct Figures {
    pub(crate) report: Report,
    stopping: Option<Stopping>,
    confidence: f64,
}

impl Figures {
    /// `reported` is the results' description of intervals.
    pub(crate) fn new(report: Report, config: &Config, reported: &Settings) -> Self {
        let stopping = config.stopping_beside();
        Self { report, stopping, confidence: reported.confidence() }
    }

    /// Returns those of `cells` that a restart of this kind runs; `ids` names the classes that a
    /// cell measures.
    pub(crate) fn wanted<C>(
        &self,
        kind: Kind,
        cells: impl Iterator<Item = C>,
        ids: impl Fn(&C) -> Vec<String>,
    ) -> Vec<C> {
        match self.stopping.filter(|_| kind == Kind::Wanting) {
            None => cells.collect(),
            Some(stopping) => {
                let wide = self.report.too_wide(&stopping, self.confidence);
                cells.filter(|cell| ids(cell).iter().any(|id| wide.contains(id))).collect()
            }
        }
    }

    /// Returns the length of a run of this many restarts and pairs. Two restarts run regardless of
    /// the time limit: an interval needs them.
    pub(crate) fn length(
        &self,
        what: &'static str,
        (restarts, pairs): (u32, u32),
        max_time: Duration,
    ) -> Length {
        let stopping = self.stopping;
        Length { what, restarts, pairs, max_time, least: 2, by_cell: false, stopping }
    }

    pub(crate) fn keep(&mut self, found: Vec<Run>) {
        self.report.runs.extend(found);
    }

    /// Puts the report into its place in the results.
    ///
    /// # Errors
    /// The failure that ended the run, if nothing was measured.
    pub(crate) fn finish(self, ended: Ended, place: &mut Option<Report>) -> Result<Ended> {
        let ended =
            ended.unless_empty(self.report.runs.is_empty() && self.report.idle.is_empty())?;
        *place = Some(self.report);
        Ok(ended)
    }
}
