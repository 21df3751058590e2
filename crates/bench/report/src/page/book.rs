//! Look-ups in the report of mixes and operations.

use crate::figures::Comparison;
use crate::headline::headline_classes;
use crate::metric::Metric;
use crate::model::{Class, Role, Side};
use crate::piece::As;
use crate::piece::{Found, Piece, all, each, number};
use crate::report::Report;
use crate::results::Results;
use crate::shown::Shown;

/// Most classes of a chart that is seen at one look.
const AT_ONE_LOOK: usize = 8;
/// Beside the headline, the classes that readers know by other systems.
const KNOWN: [&str; 4] = [
    "operations/select/warm",
    "operations/insert/warm",
    "operations/update/warm",
    "operations/delete/warm",
];

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

    /// Returns the classes of the chart at the top: those of the headline, then statements, as many
    /// as are seen at one look; all if there are no more.
    pub(super) fn glance(&self) -> Vec<&'a Class> {
        let cells = &self.report.cells;
        if cells.len() <= AT_ONE_LOOK {
            return cells.iter().collect();
        }
        let (_, heads) = headline_classes(cells);
        let wanted = |cell: &&Class| {
            heads.iter().any(|head| head.id == cell.id) || KNOWN.contains(&cell.id.as_str())
        };
        cells.iter().filter(wanted).take(AT_ONE_LOOK).collect()
    }

    /// Returns what was measured of classes: pairs and restarts, from the least to the most.
    pub(super) fn measured(&self, classes: &[Found<'_, Class>]) -> Piece {
        let list = self.shown.place("summary/comparisons");
        let own = |found: &Found<'_, Comparison>| {
            let one = found.item;
            let class = classes.iter().any(|class| class.item.id == one.class);
            let whole = one.statement.is_none() && one.metric == Metric::Elapsed;
            class && whole && one.pair() == (self.side.id.as_str(), self.base.id.as_str())
        };
        let found = each(&self.report.summary.comparisons, &list).filter(own);
        let mut counts: Vec<(u64, u64, String)> =
            found.map(|one| (one.item.restarts, one.item.pairs, one.at)).collect();
        counts.sort();
        let words = |(restarts, pairs, at): &(u64, u64, String)| {
            let pairs = number(&format!("{at}/pairs"), As::Count, *pairs);
            all![pairs, " in ", number(&format!("{at}/restarts"), As::Count, *restarts)]
        };
        match counts.as_slice() {
            [] => "none".into(),
            [least, .., most] if (least.0, least.1) != (most.0, most.1) => {
                all!["from ", words(least), " restarts to ", words(most), " restarts"]
            }
            [one, ..] => all![words(one), " restarts"],
        }
    }
}
