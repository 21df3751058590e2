//! The page of a calibration: does the method keep its promise?

use maud::{Markup, html};

use super::cell::{As, Found, Ratio, each, ends, find, float, number, ratio, text, wide};
use super::{around, circumstances, quality};
use crate::calibration::{CalibratedInterval, Calibration, CalibrationRow, HEADLINE, Truth};
use crate::format::percent;
use crate::json::JsonError;
use crate::model::Metric;
use crate::plot::{Band, Bands, ChartError, bands};

/// Runs that are drawn and listed one by one.
const SHOWN_RUNS: u32 = 200;
const METRICS: [(Metric, &str); 2] = [(Metric::Elapsed, "elapsed time"), (Metric::Cpu, "CPU time")];
const TRUTHS: [Truth; 2] = [Truth::Nothing, Truth::Injected];

impl Ratio for CalibratedInterval {
    fn ratio(&self) -> f64 {
        self.ratio
    }

    fn ends(&self) -> Option<(f64, f64)> {
        Some((self.low, self.high))
    }
}

/// The page of a calibration. It fetches nothing, runs nothing, and carries the JSON document.
///
/// # Errors
/// Fails when the JSON document cannot be written, or a chart cannot be drawn.
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
            nav aria-label="Contents" { ul {
                @for (id, name) in links { li { a href=(format!("#{id}")) { (name) } } }
            } }
            (coverage(calibration))
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

fn count(found: &Found<'_, CalibrationRow>, field: &str, value: u64) -> Markup {
    number(&format!("{}/{field}", found.at), As::Count, float(value))
}

/// A true cost, in words.
fn cost(calibration: &Calibration, truth: Truth) -> Markup {
    match truth {
        Truth::Nothing => html! { span data-fixed { "0 %" } },
        Truth::Injected => number("injected", As::Growth, calibration.injected),
    }
}

/// Title, answer, and where the promise is not kept.
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
                p class="notice alert" {
                    strong { "Not kept: " }
                    (text(&format!("{}/class", broken.at), &broken.item.class)) ", "
                    (broken.item.metric.label()) ", true cost "
                    (cost(calibration, broken.item.truth)) ": "
                    (count(&broken, "held", broken.item.held)) " of "
                    (count(&broken, "runs", broken.item.runs)) " intervals hold it."
                }
            }
            @for reason in each(&calibration.incomplete, "incomplete") {
                p class="notice alert" {
                    strong { "Incomplete: " } (text(&reason.at, reason.item))
                }
            }
        }
    }
}

/// How many intervals of the headline hold a truth.
fn answer(calibration: &Calibration, truth: Truth) -> Markup {
    let found: Vec<_> = METRICS
        .into_iter()
        .filter_map(|(metric, name)| Some((name, row(calibration, metric, truth)?)))
        .collect();
    html! {
        @if !found.is_empty() { p class="answer" {
            "A true cost of " (cost(calibration, truth)) " lies within"
            @for (index, (name, row)) in found.iter().enumerate() {
                @if index > 0 { ", and within" }
                " " (count(row, "held", row.item.held)) " of "
                (count(row, "runs", row.item.runs)) " intervals of " (name) " ("
                (count(row, "within_a_point", row.item.within_a_point))
                " are within a point of it)"
            }
            "."
        } }
    }
}

/// The least overhead that can be seen.
fn visible(calibration: &Calibration) -> Markup {
    let found: Vec<_> = METRICS
        .into_iter()
        .filter_map(|(metric, name)| {
            let row = row(calibration, metric, Truth::Nothing)?;
            let points = row.item.visible_points?;
            Some((name, number(&format!("{}/visible_points", row.at), As::Decimal, points)))
        })
        .collect();
    html! {
        @if !found.is_empty() { p class="answer" {
            "Most runs such as these, eight of ten, would tell from nothing a cost of"
            @for (index, (name, points)) in found.iter().enumerate() {
                @if index > 0 { " and" }
                " " (points) " points of " (name)
            }
            "."
        } }
    }
}

fn coverage(calibration: &Calibration) -> Markup {
    html! {
        section id="coverage" {
            h2 { "Intervals that hold the truth" }
            p {
                "Of " (number("confidence", As::Share, calibration.confidence)) " confidence. "
                "\"Of all such\": what share of intervals would hold it if runs went on for ever, \
                 after Clopper and Pearson; the promise is kept where the confidence lies between. \
                 Bias, half-width and what is visible are in points of a percent."
            }
            (wide("Intervals that hold the truth", &html! { table {
                thead { tr {
                    @for name in [
                        "Class", "In", "True cost", "Hold it", "Runs", "Of all such", "Above",
                        "Below", "Within a point", "Bias", "Half-width", "Visible",
                    ] { th scope="col" { (name) } }
                } }
                tbody { @for found in each(&calibration.rows, "rows") {
                    (coverage_row(calibration, &found))
                } }
            } }))
        }
    }
}

fn coverage_row(calibration: &Calibration, found: &Found<'_, CalibrationRow>) -> Markup {
    let item = found.item;
    let points = |field: &str, value| number(&format!("{}/{field}", found.at), As::Points, value);
    let width = |field: &str, value| number(&format!("{}/{field}", found.at), As::Decimal, value);
    let share = |field: &str, value| number(&format!("{}/{field}", found.at), As::Share, value);
    html! { tr {
        th scope="row" { (text(&format!("{}/class", found.at), &item.class)) }
        td { (item.metric.label()) }
        td { (cost(calibration, item.truth)) }
        td { (count(found, "held", item.held)) }
        td { (count(found, "runs", item.runs)) }
        td {
            (share("share_low", item.share_low)) " to " (share("share_high", item.share_high)) br;
            small { @if item.kept { "kept" } @else { "not kept" } }
        }
        td { (count(found, "above", item.above)) }
        td { (count(found, "below", item.below)) }
        td { (count(found, "within_a_point", item.within_a_point)) }
        td { (points("bias_points", item.bias_points)) }
        td { (width("half_width_points", item.half_width_points)) }
        td { @match item.visible_points {
            Some(value) => (width("visible_points", value)),
            None => "–",
        } }
    } }
}

/// The headline's intervals of a metric and truth, of the runs that are shown.
fn shown(
    calibration: &Calibration,
    metric: Metric,
    truth: Truth,
) -> impl Iterator<Item = Found<'_, CalibratedInterval>> {
    each(&calibration.intervals, "intervals").filter(move |found| {
        found.item.run < SHOWN_RUNS
            && (found.item.class.as_str(), found.item.metric, found.item.truth)
                == (HEADLINE, metric, truth)
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
                bands: shown(calibration, metric, truth)
                    .map(|found| Band {
                        ratio: found.item.ratio,
                        low: found.item.low,
                        high: found.item.high,
                    })
                    .collect(),
            })?);
        }
    }
    Ok(html! { div class="charts" { @for plot in &drawn { (plot) } } })
}

fn every_run(calibration: &Calibration) -> Markup {
    let columns: Vec<(String, Vec<Found<'_, CalibratedInterval>>)> = TRUTHS
        .into_iter()
        .flat_map(|truth| METRICS.map(|(metric, name)| (truth, metric, name)))
        .map(|(truth, metric, name)| {
            let cost = percent(truth.ratio(calibration.injected));
            (format!("{name}, {cost}"), shown(calibration, metric, truth).collect())
        })
        .collect();
    let mut runs: Vec<u32> = calibration.intervals.iter().map(|found| found.run).collect();
    runs.retain(|run| *run < SHOWN_RUNS);
    runs.sort_unstable();
    runs.dedup();
    html! {
        details {
            summary { "The numbers" }
            @if calibration.rows.iter().any(|row| row.runs > u64::from(SHOWN_RUNS)) {
                p { "The first runs are shown; the figures file has all." }
            }
            (wide("Every run's interval of the headline", &html! { table {
                thead { tr {
                    th scope="col" { "Run" }
                    @for (name, _) in &columns { th scope="col" data-fixed { (name) } }
                } }
                tbody { @for run in runs { tr {
                    th scope="row" data-fixed { (run + 1) }
                    @for (_, found) in &columns {
                        @match found.iter().find(|found| found.item.run == run) {
                            Some(found) => td {
                                (ratio(found, As::Percent)) " "
                                small { (ends(found, As::Bare)) }
                            },
                            None => td { "–" },
                        }
                    }
                } } }
            } }))
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
                (cost(calibration, Truth::Injected))
                " of what that very block took. The method knows of neither."
                @if calibration.added_cpu > 0.0 {
                    " Really added were "
                    (number("added_elapsed", As::Growth, calibration.added_elapsed))
                    " of elapsed time and "
                    (number("added_cpu", As::Growth, calibration.added_cpu)) " of CPU."
                }
            }
            p {
                "Of " (number("runs_wanted", As::Count, f64::from(calibration.runs_wanted)))
                " runs that were wanted all that ended are counted, whatever they found."
            }
            h3 { "Run it again" }
            pre tabindex="0" { code { (text("command", &calibration.command)) } }
            p {
                (text("tool/name", &calibration.tool.name)) " "
                (text("tool/version", &calibration.tool.version)) ", started "
                (text("started", &calibration.started)) ", took "
                (number("duration_s", As::Seconds, calibration.duration_s))
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
