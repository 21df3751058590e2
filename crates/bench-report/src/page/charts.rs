//! Charts that experiments have of their own: workloads by threads, messages beside the source's.

use maud::{Markup, html};

use crate::figures::Ratio;
use crate::format::{As, amount, count, duration};
use crate::layout::Of;
use crate::model::{Class, Metric, Side};
use crate::piece::Piece;
use crate::plot::{Bar, Bars, ChartError, Ink, Key, Lines, Series, bars, lines};
use crate::published::{PUBLISHED, PublishedMessages};
use crate::shown::Shown;
use crate::table::Table;

/// Throughput and latency of each workload of transactions by threads.
///
/// # Errors
/// When a chart cannot be drawn.
pub(super) fn by_threads(shown: &Shown<'_>) -> Result<Markup, ChartError> {
    let mut drawn = Vec::new();
    let of_transactions = |cell: &&Class| cell.unit == "transaction";
    for workload in shown.report.along("workload") {
        let cells = shown.report.cells.iter().filter(of_transactions);
        let cells: Vec<&Class> = cells.filter(|cell| cell.axis("workload") == workload).collect();
        if cells.is_empty() {
            continue;
        }
        let plot = |what: &str, words: fn(f64) -> String, metric| {
            lines(&Lines {
                title: format!("{workload}: {what}"),
                across: "threads".to_owned(),
                words,
                series: series(shown, &cells, metric),
            })
        };
        drawn.push(plot("transactions a second", count, Metric::Throughput)?);
        drawn.push(plot("latency, 95th percentile", time, Metric::P95Latency)?);
    }
    Ok(html! { @if !drawn.is_empty() {
        p class="quiet" {
            "Medians of the blocks; the tables below hold the same figures. Amounts begin at \
             zero, threads double."
        }
        div class="charts" { @for chart in &drawn { (chart) } }
    } })
}

/// A time on an axis that begins at 0.
fn time(ns: f64) -> String {
    if ns == 0.0 { "0".to_owned() } else { duration(ns) }
}

fn series(shown: &Shown<'_>, cells: &[&Class], metric: Metric) -> Vec<Series> {
    let report = shown.report;
    let series = |(ink, side): (Ink, &Side)| {
        let point = |cell: &&Class| {
            let threads: f64 = cell.axis("threads").parse().ok()?;
            Some((threads.max(1.0), report.median(&cell.id, &side.id, metric)?))
        };
        let mut points: Vec<(f64, f64)> = cells.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!points.is_empty()).then(|| Series { key: Key::new(ink, &side.label), points })
    };
    let base = report.base().map(|side| (Ink::Plain, side));
    base.into_iter().chain(Ink::SIDES.into_iter().zip(report.others())).filter_map(series).collect()
}

/// The cell that the source has.
const LOOP: &str = "loop";

/// A chart of messages.
struct Figure {
    title: &'static str,
    /// The source's.
    published: fn(&PublishedMessages) -> f64,
    /// Ours.
    metric: Metric,
    /// None for the encrypted connections over the plain ones.
    of: Option<Of>,
}

const FIGURES: [Figure; 4] = [
    Figure {
        title: "Context switches of the server a packet, message loop",
        published: PublishedMessages::switches_each,
        metric: Metric::SwitchesEach,
        of: Some(Of::Median),
    },
    Figure {
        title: "Elapsed time, encrypted over plain, message loop",
        published: PublishedMessages::step_ns,
        metric: Metric::Elapsed,
        of: None,
    },
    Figure {
        title: "CPU of the server, encrypted over plain, message loop",
        published: |found| found.cpu_ms.into(),
        metric: Metric::ServerCpu,
        of: None,
    },
    Figure {
        title: "Elapsed time a step, message loop, ns",
        published: PublishedMessages::step_ns,
        metric: Metric::Elapsed,
        of: Some(Of::Each),
    },
];

/// A bar, and what stands for it in the table.
type Drawn = (Bar, Piece);

impl Figure {
    fn theirs(&self) -> Vec<Drawn> {
        let bar = |name: String, value: f64| {
            (Bar { name, ink: Ink::Plain, value, ends: None }, amount(value).into())
        };
        let of = |found: &PublishedMessages| {
            let kind = if found.encrypted { "encrypted" } else { "plain" };
            let value = (self.published)(found);
            if self.of.is_some() {
                return Some(bar(format!("{}, {kind}", found.server), value));
            }
            let plain =
                |other: &&PublishedMessages| !other.encrypted && other.server == found.server;
            let below = PUBLISHED.messages.iter().find(plain).filter(|_| found.encrypted)?;
            Some(bar(found.server.clone(), value / (self.published)(below)))
        };
        PUBLISHED.messages.iter().filter_map(of).collect()
    }

    fn ours(&self, shown: &Shown<'_>) -> Vec<Drawn> {
        let base = shown.report.base().map_or("", |base| base.id.as_str());
        let of = |side: &Side| {
            let ratio = || shown.comparison(LOOP, self.metric, (&side.id, base));
            let (piece, ends) = match self.of {
                Some(of) => (shown.figure(LOOP, &side.id, self.metric, of), None),
                None => ratio().map(|found| (found.ratio(As::Amount), found.item.ends()))?,
            };
            let Piece::Number(at, _, value) = piece else { return None };
            let ink = if side.encrypts() { Ink::One } else { Ink::Three };
            let ends = ends.map(|ends| ends.map(|(_, end)| end));
            let bar = Bar { name: side.label.clone(), ink, value, ends };
            Some((bar, Piece::Number(at, As::Amount, value)))
        };
        shown.report.sides.iter().filter_map(of).collect()
    }
}

/// The source's figures beside ours, and their numbers; nothing without the message loop.
///
/// # Errors
/// When a chart cannot be drawn.
pub(super) fn of_messages(shown: &Shown<'_>) -> Result<Markup, ChartError> {
    if !shown.report.cells.iter().any(|cell| cell.id == LOOP) {
        return Ok(html! {});
    }
    let mut charts = Vec::new();
    let mut tables = Vec::new();
    for figure in &FIGURES {
        let whose = |all: Vec<Drawn>, whose: &'static str| {
            all.into_iter().map(move |(bar, piece)| (bar, whose, piece))
        };
        let all: Vec<_> =
            whose(figure.theirs(), "published").chain(whose(figure.ours(shown), "here")).collect();
        let rows = all.iter().map(|(bar, whose, piece)| {
            vec![bar.name.as_str().into(), (*whose).into(), piece.clone()]
        });
        tables.push(Table::new(figure.title, ["Connection", "Whose", "Figure"], rows));
        charts.push(bars(&Bars {
            title: figure.title.to_owned(),
            words: amount,
            bars: all.into_iter().map(|(bar, ..)| bar).collect(),
        })?);
    }
    Ok(html! {
        div class="charts" { @for chart in &charts { (chart) } }
        details {
            summary { "The charts' numbers" }
            @for table in &tables { p { (table.title) } (table) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    fn values(drawn: &[Drawn]) -> Vec<f64> {
        drawn.iter().map(|(bar, _)| bar.value).collect()
    }

    #[test]
    fn a_chart_has_the_document_beside_ours() {
        let report = examples::messages();
        let shown = Shown::of("messages", &report);
        let [switches, elapsed, _, step] = &FIGURES;
        let theirs = values(&switches.theirs());
        assert!(theirs.len() == 4 && (theirs[0] - 2.002).abs() < 1e-3, "{theirs:?}");
        assert!((values(&switches.ours(&shown))[1] - 2.0).abs() < 1e-9);
        assert_eq!(elapsed.theirs().len(), 2);
        assert!((values(&elapsed.theirs())[0] - 1.605).abs() < 1e-3);
        let ours = elapsed.ours(&shown);
        assert!((ours[0].0.value - 1.1).abs() < 1e-4 && ours[0].0.ends.is_some());
        // The time of a step does not depend on the number of steps.
        assert!((values(&step.theirs())[1] - 621.27).abs() < 1e-6);
        let median = report.median("loop", "off", Metric::Elapsed).unwrap();
        assert!((values(&step.ours(&shown))[0] - median / 1000.0).abs() < 1e-9);
    }

    #[test]
    fn a_server_that_cannot_be_seen_has_no_switches() {
        let mut report = examples::messages();
        for run in &mut report.runs {
            run.values.remove(&Metric::ServerCpu);
            run.values.remove(&Metric::ServerSwitches);
        }
        examples::summarize(&mut report);
        let shown = Shown::of("messages", &report);
        assert!(FIGURES[0].ours(&shown).is_empty() && FIGURES[2].ours(&shown).is_empty());
        assert_eq!(FIGURES[1].ours(&shown).len(), 1);
        assert_eq!(report.median("loop", "off", Metric::ServerSwitches), None);
    }
}
