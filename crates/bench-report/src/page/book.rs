//! Looking things up in a run whose sides are compared.

use super::cell::{As, Found, each, find, number};
use crate::model::{Class, Comparison, Metric, Results, Role, Side, Spread, Totals};
use maud::{Markup, html};

/// A run with the two sides that its page is about.
pub(super) struct Book<'a> {
    pub(super) results: &'a Results,
    pub(super) base: &'a Side,
    pub(super) side: &'a Side,
}

impl<'a> Book<'a> {
    /// None where no sides were compared.
    pub(super) fn open(results: &'a Results) -> Option<Self> {
        let by_role = |role| results.sides.iter().find(|side| side.role == role);
        let (base, side) = (by_role(Role::Base)?, by_role(Role::Encrypted)?);
        Some(Self { results, base, side })
    }

    /// Where a side's name stands.
    pub(super) fn label_at(&self, side: &Side) -> String {
        let index = self.results.sides.iter().position(|each| each.id == side.id);
        format!("sides/{}/label", index.unwrap_or_default())
    }

    /// Classes with an id that begins so, in order of the report.
    pub(super) fn classes(&self, start: &str) -> Vec<Found<'a, Class>> {
        each(&self.results.classes, "classes")
            .filter(|class| class.item.id.starts_with(start))
            .collect()
    }

    /// The whole class, the encrypted side over the base.
    pub(super) fn overhead(&self, class: &Class, metric: Metric) -> Option<Found<'a, Comparison>> {
        self.comparison(class, None, metric, &self.side.id, &self.base.id)
    }

    /// One derived statement of a class, the encrypted side over the base.
    pub(super) fn of_statement(
        &self,
        class: &Class,
        statement: u32,
        metric: Metric,
    ) -> Option<Found<'a, Comparison>> {
        self.comparison(class, Some(statement), metric, &self.side.id, &self.base.id)
    }

    pub(super) fn comparison(
        &self,
        class: &Class,
        statement: Option<u32>,
        metric: Metric,
        side: &str,
        against: &str,
    ) -> Option<Found<'a, Comparison>> {
        find(&self.results.summary.comparisons, "summary/comparisons", |found| {
            found.class == class.id
                && found.statement == statement
                && found.metric == metric
                && found.side == side
                && found.against == against
        })
    }

    fn totals(&self, class: &Class, side: &Side) -> Option<Found<'a, Totals>> {
        find(&self.results.summary.totals, "summary/totals", |found| {
            found.class == class.id && found.side == side.id
        })
    }

    /// Elapsed time of one operation.
    pub(super) fn each(&self, class: &Found<'_, Class>, side: &Side) -> Markup {
        html! {
            @match self.figure(class.item, side, Metric::Elapsed) {
                Some((at, Spread { each: Some(each), .. })) => {
                    (number(&format!("{at}/each"), As::Duration, *each)) "/" (class.item.unit)
                },
                _ => "–",
            }
        }
    }

    /// Figures of a metric of a block, and where they stand.
    pub(super) fn figure(
        &self,
        class: &Class,
        side: &Side,
        metric: Metric,
    ) -> Option<(String, &'a Spread)> {
        let totals = self.totals(class, side)?;
        let spread = totals.item.values.get(&metric)?;
        Some((format!("{}/values/{}", totals.at, metric.name()), spread))
    }

    /// A table's cell: the median of a block.
    pub(super) fn median(&self, class: &Class, side: &Side, metric: Metric) -> Markup {
        html! { td { @match self.figure(class, side, metric) {
            Some((at, found)) => {
                (number(&format!("{at}/median"), metric.info().shown, found.median))
            },
            None => "–",
        } } }
    }
}
