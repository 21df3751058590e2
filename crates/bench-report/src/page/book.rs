//! Looking things up in the report of databases in the process.

use maud::{Markup, html};

use super::cell::{Found, number};
use crate::figures::Comparison;
use crate::metric::Metric;
use crate::model::{Class, Results, Role, Side};
use crate::report::Report;
use crate::shown::Shown;

/// A run with the two sides that its page is about.
pub(super) struct Book<'a> {
    pub(super) results: &'a Results,
    pub(super) report: &'a Report,
    pub(super) shown: Shown<'a>,
    pub(super) base: &'a Side,
    pub(super) side: &'a Side,
}

impl<'a> Book<'a> {
    /// None where no sides were compared.
    pub(super) fn open(results: &'a Results) -> Option<Self> {
        let report = results.embedded.as_ref()?;
        let shown = Shown::of("embedded", report);
        let side = report.sides.iter().find(|side| side.role == Role::Encrypted)?;
        Some(Self { results, report, shown, base: report.base()?, side })
    }

    /// Where a side's name stands.
    pub(super) fn label_at(&self, side: &Side) -> String {
        let index = self.report.sides.iter().position(|each| each.id == side.id);
        format!("embedded/sides/{}/label", index.unwrap_or_default())
    }

    /// The whole class, the encrypted side over the base.
    pub(super) fn overhead(&self, class: &Class, metric: Metric) -> Option<Found<'a, Comparison>> {
        self.shown.comparison(&class.id, metric, (&self.side.id, &self.base.id))
    }

    /// A table's cell: the median of a block.
    pub(super) fn median(&self, class: &Class, side: &Side, metric: Metric) -> Markup {
        let totals = self.shown.totals(&class.id, &side.id);
        let found = totals.as_ref().and_then(|totals| {
            let spread = totals.item.values.get(&metric)?;
            Some((format!("{}/values/{}/median", totals.at, metric.name()), spread.median))
        });
        html! { td { @match found {
            Some((at, median)) => (number(&at, metric.info().shown, median)),
            None => "–",
        } } }
    }
}
