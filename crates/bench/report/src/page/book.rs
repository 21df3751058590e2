//! Look-ups in the report of mixes and operations.

use crate::figures::Comparison;
use crate::metric::Metric;
use crate::model::{Class, Results, Role, Side};
use crate::piece::Found;
use crate::report::Report;
use crate::shown::Shown;

/// A run with the two sides that are the subject of its page.
pub(super) struct Book<'a> {
    pub(super) results: &'a Results,
    pub(super) report: &'a Report,
    pub(super) shown: Shown<'a>,
    pub(super) base: &'a Side,
    pub(super) side: &'a Side,
}

impl<'a> Book<'a> {
    /// Opens it; none if no sides were compared.
    pub(super) fn open(results: &'a Results) -> Option<Self> {
        let (name, report) = results.classes()?;
        let shown = Shown::of(name, report);
        let side = report.sides.iter().find(|side| side.role == Role::Encrypted)?;
        Some(Self { results, report, shown, base: report.base()?, side })
    }

    /// Returns the ratio of the whole class, the encrypted side over the base.
    pub(super) fn overhead(&self, class: &Class, metric: Metric) -> Option<Found<'a, Comparison>> {
        self.shown.comparison(&class.id, metric, (&self.side.id, &self.base.id))
    }
}
