//! Charts of single experiments: workloads by threads, messages beside the source's.

use maud::{Markup, html};

use crate::figures::Ratio;
use crate::format::{As, amount, count, duration};
use crate::layout::Of;
use crate::metric::Metric::{self, P95Latency, Throughput};
use crate::model::{Class, Side};
use crate::piece::Piece;
use crate::plot::{Bar, Bars, ChartError, Height, Ink, Key, Lines, Series, bars, lines};
use crate::published::{PUBLISHED, PublishedMessages};
use crate::report::distinct;
use crate::shown::Shown;
use crate::table::Table;

/// Returns cost, throughput and latency of each workload of transactions by threads.
///
/// # Errors
/// If a chart cannot be drawn.
pub(super) fn by_threads(shown: &Shown<'_>) -> Result<Markup, ChartError> {
    let (mut ratios, mut drawn) = (Vec::new(), Vec::new());
    let of_transactions = |cell: &&Class| cell.unit == "transaction";
    let at_full_speed = shown.layout.ratios.contains(&Metric::Throughput);
    for workload in shown.report.along("workload") {
        let cells = shown.report.cells.iter().filter(of_transactions);
        let cells: Vec<&Class> = cells.filter(|cell| cell.axis("workload") == workload).collect();
        if cells.is_empty() {
            continue;
        }
        let plot = |what: &str, height, series| {
            let (title, across) = (format!("{workload}: {what}"), "threads".to_owned());
            lines(&Lines { title, across, height, series })
        };
        let costs = costs(shown, &cells);
        if at_full_speed && !costs.is_empty() {
            let series = [costs, vec![published()]].concat();
            ratios.push(plot("throughput, encrypted over plain", Height::Ratio, series)?);
        }
        let mut amounts = vec![("latency, 95th percentile", time as fn(f64) -> _, P95Latency)];
        if at_full_speed {
            amounts.insert(0, ("transactions a second", count, Throughput));
        }
        for (what, words, metric) in amounts {
            for (server, series) in by_server(shown, &cells, metric) {
                let what = [what, server.as_str()].join("");
                drawn.push(plot(&what, Height::Amount(words), series)?);
            }
        }
    }
    let amounts = html! { div class="charts" { @for chart in &drawn { (chart) } } };
    Ok(html! { @if !drawn.is_empty() {
        p class="quiet" {
            "Medians of the blocks; the tables below hold the same figures. Amounts begin at \
             zero. The axes of threads and of costs are logarithmic."
        }
        @if ratios.is_empty() { (amounts) } @else {
            p class="quiet" data-fixed { (published_words()) }
            div class="charts" { @for chart in &ratios { (chart) } }
            details { summary { "Transactions a second and latency, by threads" } (amounts) }
        }
    } })
}

/// Returns the throughput of each side over its own plain one.
fn costs(shown: &Shown<'_>, cells: &[&Class]) -> Vec<Series> {
    let report = shown.report;
    let of = |(ink, side): (Ink, &Side)| {
        let plain = report.plain(side)?;
        let point = |cell: &&Class| {
            let pair = (side.id.as_str(), plain.id.as_str());
            let found = shown.comparison(&cell.id, Throughput, pair)?;
            Some((threads(cell)?, found.item.ratio))
        };
        joined(Key::new(ink, &side.label), cells.iter().filter_map(point).collect())
    };
    Ink::SIDES.into_iter().zip(report.others()).filter_map(of).collect()
}

/// Returns the published claim, of which only these two points exist.
fn published() -> Series {
    let points = PUBLISHED.threads.iter().map(|said| (said.threads.into(), said.throughput));
    let key = Key::new(Ink::Plain, "the document's words, RDS for MySQL: at worst");
    Series { key, points: points.collect(), joined: false }
}

fn published_words() -> String {
    let said = PUBLISHED.threads.iter().map(|said| {
        format!("{} (drawn at {} thread{})", said.words, said.threads, plural(said.threads))
    });
    let said: Vec<String> = said.collect();
    format!(
        "Hollow marks on the charts of throughput are no figures of ours but the words of the \
         document, of other software and machines: {}. Its own curves are lost.",
        said.join(", ")
    )
}

fn plural(number: u32) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn threads(cell: &Class) -> Option<f64> {
    let threads: f64 = cell.axis("threads").parse().ok()?;
    Some(threads.max(1.0))
}

/// Returns a line from left to right; none without points.
fn joined(key: Key, mut points: Vec<(f64, f64)>) -> Option<Series> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    (!points.is_empty()).then_some(Series { key, points, joined: true })
}

/// A time on an axis that begins at 0.
fn time(ns: f64) -> String {
    if ns == 0.0 { "0".to_owned() } else { duration(ns) }
}

/// Returns the amounts of each plain side with the sides that are held against it: another server's
/// amounts say nothing beside them. Each has its server's name if there are several.
fn by_server(shown: &Shown<'_>, cells: &[&Class], metric: Metric) -> Vec<(String, Vec<Series>)> {
    let report = shown.report;
    let series = |(ink, side): (Ink, &Side)| {
        let point =
            |cell: &&Class| Some((threads(cell)?, report.median(&cell.id, &side.id, metric)?));
        joined(Key::new(ink, &side.label), cells.iter().filter_map(point).collect())
    };
    // A side keeps its ink in every chart.
    let inked: Vec<(Ink, &Side)> = Ink::SIDES.into_iter().zip(report.others()).collect();
    let plain = distinct(inked.iter().filter_map(|(_, side)| report.plain(side)), |side| &side.id);
    let several = plain.len() > 1;
    let chart = |plain: &Side| {
        let own = |(_, side): &&(Ink, &Side)| {
            report.plain(side).is_some_and(|known| known.id == plain.id)
        };
        let sides = inked.iter().filter(own).copied();
        let drawn: Vec<Series> =
            std::iter::once((Ink::Plain, plain)).chain(sides).filter_map(series).collect();
        let name = if several { format!(", beside {}", plain.label) } else { String::new() };
        (!drawn.is_empty()).then_some((name, drawn))
    };
    plain.into_iter().filter_map(chart).collect()
}

/// The cell that the source measured.
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

/// A bar, and its text in the table.
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

/// Returns the source's figures beside ours, and their numbers; nothing without the message loop.
///
/// # Errors
/// If a chart cannot be drawn.
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
    use crate::model::Role;
    use crate::report::{Report, Run};

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
    fn costs_by_threads_have_the_documents_words_beside_them() {
        let report = examples::oltp();
        let shown = Shown::of("oltp", &report);
        let cells: Vec<&Class> = report.cells.iter().collect();
        let ours = costs(&shown, &cells);
        assert_eq!(ours.len(), 2);
        let ratios: Vec<f64> = ours[0].points.iter().map(|(_, ratio)| *ratio).collect();
        assert!((ratios[0] - 0.96).abs() < 1e-3 && (ratios[1] - 0.99).abs() < 1e-3, "{ratios:?}");
        assert_eq!(published().points, [(1.0, 0.8), (256.0, 0.95)]);
        assert!(!published().joined && ours[0].joined);
        let page = by_threads(&shown).unwrap().into_string();
        let wanted = "oltp_read_write: throughput, encrypted over plain";
        assert!(page.contains(wanted) && page.contains("no figures of ours"), "{page}");
        let mut paced = examples::oltp();
        paced.set(crate::fact::RATE, 50_u32);
        examples::summarize(&mut paced);
        let page = by_threads(&Shown::of("oltp", &paced)).unwrap().into_string();
        assert!(!page.contains(wanted) && page.contains("latency"), "{page}");
    }

    #[test]
    fn another_servers_curves_have_a_chart_of_their_own() {
        let mut report = examples::oltp();
        let one = |report: &Report| {
            let shown = Shown::of("oltp", report);
            let cells: Vec<&Class> = report.cells.iter().collect();
            by_server(&shown, &cells, Throughput)
                .into_iter()
                .map(|(name, all)| (name, all.into_iter().map(|one| one.key.name).collect()))
                .collect::<Vec<(String, Vec<String>)>>()
        };
        let [(name, keys)] = one(&report).try_into().unwrap();
        assert_eq!((name.as_str(), keys.len()), ("", 3));
        let mut plain = report.base().unwrap().clone();
        (plain.id, plain.label) = ("own".to_owned(), "own plain".to_owned());
        plain.role = Role::PeerPlain;
        report.sides.push(plain);
        report.sides.iter_mut().find(|side| side.id == "peer").unwrap().plain = Some("own".into());
        let more: Vec<_> = report.runs.iter().filter(|run| run.side == "base").cloned().collect();
        report.runs.extend(more.into_iter().map(|run| Run { side: "own".to_owned(), ..run }));
        examples::summarize(&mut report);
        let [first, second] = one(&report).try_into().unwrap();
        assert_eq!(first.1, ["base", "tdekit"]);
        assert_eq!(
            second,
            (", beside own plain".to_owned(), vec!["own plain".to_owned(), "peer".to_owned()])
        );
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
