//! The report of an experiment that has one of its own, from its first block to its end.

use std::time::Duration;

use tdekit_bench_report::{Report, Run, Settings, Stopping};

use crate::config::Config;
use crate::error::BenchError;
use crate::schedule::{Ended, Kind, Length};

/// The result of an experiment. After a failure the report holds what was measured until then.
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) ended: Ended,
}

/// A report that grows, and when its figures suffice.
pub(crate) struct Figures {
    pub(crate) report: Report,
    stopping: Option<Stopping>,
    confidence: f64,
}

impl Figures {
    /// `reported` is what the results say of intervals.
    pub(crate) fn new(report: Report, config: &Config, reported: &Settings) -> Self {
        let stopping = config.stopping_beside();
        Self { report, stopping, confidence: reported.confidence() }
    }

    /// Those of `cells` that a restart of this kind runs; `ids` names what a cell measures.
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

    /// The length of a run of so many restarts and pairs. Two restarts run whatever the time limit:
    /// an interval needs them.
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

    /// # Errors
    /// The failure that ended the run, where nothing was measured.
    pub(crate) fn outcome(self, ended: Ended) -> Result<Outcome, BenchError> {
        let ended =
            ended.unless_empty(self.report.runs.is_empty() && self.report.idle.is_empty())?;
        Ok(Outcome { report: self.report, ended })
    }
}
