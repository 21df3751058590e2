//! The page of a comparison of two runs: changes of cost.

use maud::{Markup, html};

use super::{ALERT, NOTICE, again, around, contents, notices};
use crate::compare::{Change, Changes, Direction};
use crate::figures::{HEADLINE, Ratio};
use crate::json::JsonError;
use crate::model::Metric;
use crate::piece::{As, Found, Piece, each, number, text};
use crate::plot::{ChartError, Forest, Ink, Key, Line, Mark, forest};
use crate::report::distinct;
use crate::table::Table;

/// Notices that are shown before they are folded.
const MOST_NOTICES: usize = 3;

/// Returns the page of a comparison. It loads nothing, runs nothing, and carries the JSON document.
///
/// # Errors
/// If the JSON document cannot be written, or a chart cannot be drawn.
pub fn changes_html(changes: &Changes) -> Result<String, JsonError> {
    let body = body(changes).map_err(JsonError::chart)?;
    around("Did the cost of encryption change?", &body, changes)
}

fn body(changes: &Changes) -> Result<Markup, ChartError> {
    let sides = changes.sides();
    let mut plots = Vec::new();
    for side in &sides {
        plots.push((side, plot(changes, side)?));
    }
    Ok(html! {
        main {
            (head(changes))
            (contents(&[("changes", "Every cost"), ("runs", "The two runs"), ("method", "Method")]))
            section id="changes" {
                h2 { "Every cost, then and now" }
                p {
                    "A cost is encrypted over plain within a run; the change is the newer cost \
                     over the older one. In the middle nothing changed, to the right it is \
                     dearer now; the axis is logarithmic. A line is the interval that holds the \
                     true change in "
                    (number("confidence", As::Share, changes.confidence))
                    " of comparisons; where it crosses the middle, no change can be seen."
                }
                @for (side, plot) in &plots {
                    h3 { (label(side)) }
                    (plot)
                    (changes.table(side.item))
                }
            }
            (runs(changes))
            (method(changes))
        }
    })
}

fn label(side: &Found<'_, Change>) -> Piece {
    side.text("side_label", &side.item.side_label)
}

/// Title, answer, and reasons for doubt.
fn head(changes: &Changes) -> Markup {
    let heads: Vec<Found<'_, Change>> =
        each(&changes.changes, "changes").filter(|found| found.item.class == HEADLINE).collect();
    html! {
        header {
            p class="subject" {
                "Did the cost of encryption change? · " (text("new/started", &changes.new.started))
                " against " (text("old/started", &changes.old.started))
            }
            @match heads.split_first() {
                Some((first, rest)) => {
                    h1 { (sentence(first)) }
                    @for other in rest { p class="answer" { (sentence(other)) "." } }
                },
                None if changes.changes.is_empty() => {
                    h1 { "These two runs have nothing in common" }
                },
                None => h1 { "Only single classes can be compared" },
            }
            p {
                "Of " (number("compared", As::Count, changes.compared)) " costs "
                (number("dearer", As::Count, changes.dearer)) " are dearer and "
                (number("cheaper", As::Count, changes.cheaper)) " cheaper, each with "
                (number("confidence", As::Share, changes.confidence))
                " confidence; where nothing changed, some say so by chance."
            }
            (notices(&changes.warnings, "warnings", (ALERT, "Not the same: ")))
            (not_compared(&changes.not_compared))
        }
    }
}

/// Long lists are folded.
fn not_compared(all: &[String]) -> Markup {
    let listed = notices(all, "not_compared", (NOTICE, "Not compared: "));
    html! {
        @if all.len() > MOST_NOTICES {
            details {
                summary { "Not compared: classes and sides of one run alone" }
                (listed)
            }
        } @else { (listed) }
    }
}

/// Returns the change of one cost as a sentence.
fn sentence(found: &Found<'_, Change>) -> Markup {
    let what = match found.item.metric {
        Metric::Elapsed => "elapsed time",
        metric => metric.label(),
    };
    let verdict = match found.item.direction {
        Direction::Dearer => "became dearer",
        Direction::Cheaper => "became cheaper",
        Direction::NoChangeSeen => "shows no change",
        Direction::NoInterval => "cannot be judged",
    };
    html! {
        (label(found)) " " (verdict) " in " (what) " over "
        (found.text("label", &found.item.label)) ": "
        // What cannot be told has its interval alone.
        @if found.item.is_unclear() { (found.ends(As::Percent)) } @else { (found.told()) }
    }
}

/// Lower values are better for these, so that a mark to the right is dearer. Throughput is in the
/// table.
const TIMES: &[Metric] = &[Metric::Elapsed];
const CPU: &[Metric] = &[Metric::Cpu, Metric::CpuEach, Metric::ServerCpu];

fn plot(changes: &Changes, side: &Found<'_, Change>) -> Result<Markup, ChartError> {
    let own = || changes.changes.iter().filter(|found| found.side == side.item.side);
    let mark = |class: &str, metrics: &[Metric]| {
        own().find(|one| one.class == class && metrics.contains(&one.metric)).map(Mark::of)
    };
    let line = |class: &Change| {
        let marks = [TIMES, CPU].map(|metrics| mark(&class.class, metrics));
        Line::Row(class.label.clone(), marks.to_vec())
    };
    forest(&Forest {
        title: format!(
            "Change of the cost of {} by class, with intervals; the table below holds the numbers",
            side.item.side_label
        ),
        series: vec![Key::new(Ink::One, "elapsed time"), Key::new(Ink::Two, "CPU time")],
        lines: distinct(own(), |found| &found.class).into_iter().map(line).collect(),
    })
}

fn runs(changes: &Changes) -> Markup {
    let both = [("old", &changes.old), ("new", &changes.new)].map(|(at, run)| Found::at(at, run));
    let rows = both.iter().map(|run| {
        vec![
            run.text("started", &run.item.started),
            run.text("subject", &run.item.subject),
            run.text("cpu", &run.item.cpu),
            run.text("version", &run.item.version),
            run.number("restarts", As::Count, run.item.restarts),
        ]
    });
    let table =
        Table::new("The two runs", ["Run", "Database", "Processor", "Program", "Restarts"], rows);
    html! {
        section id="runs" {
            h2 { (table.title) }
            (table)
            details {
                summary { "How each came about" }
                @for run in &both {
                    pre tabindex="0" { code { (run.text("command", &run.item.command)) } }
                }
            }
        }
    }
}

fn method(changes: &Changes) -> Markup {
    html! {
        section id="method" {
            h2 { "Method" }
            details {
                summary { "How it was reckoned" }
                p {
                    "Each cost is the mean, over a run's restarts, of the Hodges-Lehmann estimate \
                     of the paired log ratios. Nothing pairs the two runs, so the interval of \
                     their difference is Welch's, with the standard errors and degrees of freedom \
                     of both. A machine that is faster as a whole moves no cost, since each is a \
                     ratio; one with another processor, library or file system may, which stands \
                     above."
                }
                @if !changes.command.is_empty() { (again(&changes.command)) }
                p {
                    "The comparison stands in this page's source as JSON, in the element with the \
                     id \"results\": the same document as the figures file."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::changed;
    use crate::format::percent;
    use crate::page::checks::{harmless, pointed};

    #[test]
    fn the_answer_stands_first_and_each_number_has_its_place() {
        let changes = changed();
        let page = changes_html(&changes).unwrap();
        let title = page.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
        assert!(title.contains("became dearer in elapsed time"), "{title}");
        let first = changes.changes.first().unwrap();
        assert!(title.contains(&percent(first.ratio)), "{title}");
        assert!(page.contains("Not the same: ") && page.contains("The kernel differs: &lt;one"));
        assert!(pointed(&page, &serde_json::to_value(&changes).unwrap()) > 40);
        harmless(&page);
        // One plot for each side, each in two shapes.
        assert_eq!(page.matches("<svg").count(), 4);
    }

    #[test]
    fn without_a_headline_classes_are_compared() {
        let mut changes = changed();
        changes.changes.retain(|found| found.class != HEADLINE);
        changes.command.clear();
        let page = changes_html(&changes).unwrap();
        assert!(page.contains("Only single classes") && !page.contains("Run it again"));
        changes.changes.clear();
        changes.not_compared = vec!["crud/load is in the newer run alone".to_owned(); 4];
        let page = changes_html(&changes).unwrap();
        assert!(page.contains("nothing in common") && page.contains("<summary>Not compared"));
    }
}
