//! The page of a calibration, which checks the promise of the method.

use maud::{Markup, html};

use super::{ALERT, again, around, circumstances, contents, made, notices, quality};
use crate::calibration::{CalibratedInterval, Calibration, CalibrationRow, Truth};
use crate::figures::HEADLINE;
use crate::format::percent;
use crate::json::JsonError;
use crate::model::Metric;
use crate::piece::{As, Found, Piece, all, each, find, number, text};
use crate::plot::{Bands, ChartError, Mark, bands};
use crate::table::Table;

/// Maximum number of runs that are drawn and listed individually.
const SHOWN_RUNS: u32 = 200;
const METRICS: [(Metric, &str); 2] = [(Metric::Elapsed, "elapsed time"), (Metric::Cpu, "CPU time")];
const TRUTHS: [Truth; 2] = [Truth::Nothing, Truth::Injected];

/// Returns the page of a calibration. It loads nothing, runs nothing, and carries the JSON
/// document.
///
/// # Errors
/// If the JSON document cannot be written, or a chart cannot be drawn.
pub fn calibration_html(calibration: &Calibration) -> Result<String, JsonError> {
    let body = body(calibration).map_err(JsonError::chart)?;
    around("Does the bench keep its promise?", &body, calibration)
}

fn body(calibration: &Calibration) -> Result<Markup, ChartError> {
    let plots = plots(calibration)?;
    let links = [
        ("coverage", "Every class"),
        ("intervals", "Every run"),
        ("environment", "Environment"),
        ("method", "Method"),
    ];
    Ok(html! {
        main {
            (head(calibration))
            (contents(&links))
            section id="coverage" {
                @let table = calibration.table();
                h2 { (table.title) }
                p {
                    "Of " (number("confidence", As::Share, calibration.confidence)) " confidence. "
                    "\"Of all such\": what share of intervals would hold it if runs went on for \
                     ever, after Clopper and Pearson; the promise is kept where the confidence \
                     lies between. Bias, half-width and what is visible are in points of a percent."
                }
                (table)
            }
            section id="intervals" {
                h2 { "Every run's interval of the headline" }
                p {
                    "From the least ratio found to the largest; the line across is the truth. Of \
                     intervals that keep their promise "
                    (number("confidence", As::Share, calibration.confidence)) " meet it."
                }
                (plots)
                (every_run(calibration))
            }
            section id="environment" {
                h2 { "Environment" }
                dl { @for (name, value) in circumstances::machine(&calibration.environment) {
                    div { dt { (name) } dd { (value) } }
                } }
                @if let Some(noise) = &calibration.noise { (quality::noise(noise)) }
            }
            (method(calibration))
        }
    })
}

fn row(
    calibration: &Calibration,
    metric: Metric,
    truth: Truth,
) -> Option<Found<'_, CalibrationRow>> {
    find(&calibration.rows, "rows", |row| {
        (row.class.as_str(), row.metric, row.truth) == (HEADLINE, metric, truth)
    })
}

/// Title, answer, and the cases in which the promise is not kept.
fn head(calibration: &Calibration) -> Markup {
    let kept = calibration.rows.iter().all(|row| row.kept);
    html! {
        header {
            p class="subject" {
                "Does the bench keep its promise? · "
                (text("environment/cpu", &calibration.environment.cpu)) " · "
                (text("started", &calibration.started))
            }
            h1 {
                @if calibration.rows.is_empty() { "Nothing was measured" }
                @else if kept { "The method keeps its promise on this machine" }
                @else { "The method does not keep its promise everywhere" }
            }
            @for truth in TRUTHS { (answer(calibration, truth)) }
            (visible(calibration))
            @for broken in each(&calibration.rows, "rows").filter(|row| !row.item.kept) {
                p class=(ALERT) {
                    strong { "Not kept: " }
                    (broken.text("class", &broken.item.class)) ", "
                    (broken.item.metric.label()) ", true cost "
                    (calibration.cost(broken.item.truth)) ": "
                    (broken.number("held", As::Count, broken.item.held)) " of "
                    (broken.number("runs", As::Count, broken.item.runs)) " intervals hold it."
                }
            }
            (notices(&calibration.incomplete, "incomplete", (ALERT, "Incomplete: ")))
        }
    }
}

/// Number of intervals of the headline that hold a truth.
fn answer(calibration: &Calibration, truth: Truth) -> Markup {
    let of = |(metric, name)| {
        let row = row(calibration, metric, truth)?;
        let [held, runs, near] = [
            ("held", row.item.held),
            ("runs", row.item.runs),
            ("within_a_point", row.item.within_a_point),
        ]
        .map(|(field, value)| row.number(field, As::Count, value));
        let near = all![" (", near, " are within a point of it)"];
        Some(all![held, " of ", runs, " intervals of ", name, near])
    };
    let found: Vec<Piece> = METRICS.into_iter().filter_map(of).collect();
    html! {
        @if !found.is_empty() { p class="answer" {
            "A true cost of " (calibration.cost(truth)) " lies within "
            (Piece::parted(found, ", and within ")) "."
        } }
    }
}

/// The smallest detectable overhead.
fn visible(calibration: &Calibration) -> Markup {
    let of = |(metric, name)| {
        let row = row(calibration, metric, Truth::Nothing)?;
        let points = row.number("visible_points", As::Decimal, row.item.visible_points?);
        Some(all![points, " points of ", name])
    };
    let found: Vec<Piece> = METRICS.into_iter().filter_map(of).collect();
    html! {
        @if !found.is_empty() { p class="answer" {
            "Most runs such as these, eight of ten, would tell from nothing a cost of "
            (Piece::parted(found, " and ")) "."
        } }
    }
}

/// Returns the headline's intervals of a metric and truth, of the displayed runs.
fn shown(
    calibration: &Calibration,
    metric: Metric,
    truth: Truth,
) -> impl Iterator<Item = Found<'_, CalibratedInterval>> {
    each(&calibration.intervals, "intervals").filter(move |found| {
        found.item.run < SHOWN_RUNS && found.item.key() == (HEADLINE, metric, truth)
    })
}

fn plots(calibration: &Calibration) -> Result<Markup, ChartError> {
    let mut drawn = Vec::new();
    for truth in TRUTHS {
        for (metric, name) in METRICS {
            let Some(row) = row(calibration, metric, truth) else { continue };
            let ratio = truth.ratio(calibration.injected);
            drawn.push(bands(&Bands {
                title: format!("{name}, true cost {}", percent(ratio)),
                truth: ratio,
                counted: row.at,
                bands: shown(calibration, metric, truth).map(|one| Mark::of(one.item)).collect(),
            })?);
        }
    }
    Ok(html! { div class="charts" { @for plot in &drawn { (plot) } } })
}

fn every_run(calibration: &Calibration) -> Markup {
    let columns = TRUTHS.map(|truth| METRICS.map(|(metric, name)| (truth, metric, name)));
    let columns = columns.concat().into_iter().map(|(truth, metric, name)| {
        let cost = percent(truth.ratio(calibration.injected));
        (format!("{name}, {cost}"), shown(calibration, metric, truth).collect::<Vec<_>>())
    });
    let (heads, columns): (Vec<_>, Vec<_>) = columns.unzip();
    let mut runs: Vec<u32> = calibration.intervals.iter().map(|found| found.run).collect();
    runs.retain(|run| *run < SHOWN_RUNS);
    runs.sort_unstable();
    runs.dedup();
    let rows = runs.into_iter().map(|run| {
        let of = |column: &Vec<Found<'_, CalibratedInterval>>| {
            let found = column.iter().find(|found| found.item.run == run);
            found.map_or(Piece::Nothing, |found| {
                all![found.ratio(As::Percent), " ", found.ends(As::Percent).small()]
            })
        };
        let name = (run + 1).to_string().into();
        std::iter::once(name).chain(columns.iter().map(of)).collect()
    });
    let head = std::iter::once("Run".to_owned()).chain(heads);
    html! {
        details {
            summary { "The numbers" }
            @if calibration.rows.iter().any(|row| row.runs > u64::from(SHOWN_RUNS)) {
                p { "The first runs are shown; the figures file has all." }
            }
            (Table::new("Every run's interval of the headline", head, rows))
        }
    }
}

fn method(calibration: &Calibration) -> Markup {
    html! {
        section id="method" {
            h2 { "Method" }
            p { (text("design", &calibration.design)) }
            p {
                "Base against base the true cost is nothing. The dearer base does the same work; \
                 when a block has ended, its processes compute and wait until CPU and elapsed time \
                 are dearer by "
                (calibration.cost(Truth::Injected))
                " of what that very block took. The method knows of neither."
                @if calibration.added_cpu > 0.0 {
                    " Really added were "
                    (number("added_elapsed", As::Growth, calibration.added_elapsed))
                    " of elapsed time and "
                    (number("added_cpu", As::Growth, calibration.added_cpu)) " of CPU."
                }
            }
            p {
                "Of " (number("runs_wanted", As::Count, calibration.runs_wanted))
                " runs that were wanted all that ended are counted, whatever they found."
            }
            (again(&calibration.command))
            p {
                (made(&calibration.tool, &calibration.started, calibration.duration_s))
                ". Every interval stands in this page's source as JSON, in the element with the id \
                 \"results\": the same document as the figures file."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::tests::calibration;
    use crate::page::checks::{harmless, pointed};

    #[test]
    fn the_answer_stands_first_and_each_number_has_its_place() {
        let calibration = calibration();
        let page = calibration_html(&calibration).unwrap();
        assert!(page.contains("does not keep its promise"), "{page}");
        assert_eq!(page.matches("Not kept: ").count(), 4);
        assert!(page.contains("Incomplete: ") && page.contains("lies within <span"));
        assert_eq!(page.matches("class=\"bands\"").count(), 4);
        assert!(pointed(&page, &serde_json::to_value(&calibration).unwrap()) > 80);
        harmless(&page);
    }

    #[test]
    fn a_promise_that_is_kept_is_told() {
        let mut calibration = calibration();
        for found in &mut calibration.intervals {
            (found.low, found.high) = (0.5, 1.5);
        }
        calibration.summarize();
        let page = calibration_html(&calibration).unwrap();
        assert!(page.contains("keeps its promise") && !page.contains("Not kept: "));
        calibration.intervals.clear();
        calibration.summarize();
        assert!(calibration_html(&calibration).unwrap().contains("Nothing was measured"));
    }
}
