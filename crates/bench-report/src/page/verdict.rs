//! The answer: what stands first on the page.

use maud::{Markup, html};

use super::cell::{As, Found, Ratio, each, ends, find, float, number, ratio, text};
use crate::backup::cipher_of;
use crate::figures::{HEADLINE, Pooled};
use crate::model::{Difference, Metric, ProbeKind, Results, Role, Side};
use crate::report::Report;
use crate::table::more;

/// Title, verdict, and what a reader should know before trusting it.
pub(super) fn head(results: &Results) -> Markup {
    let mut answers = results.embedded.as_ref().map_or_else(Vec::new, of_embedded);
    answers.extend(of_threads(results));
    answers.extend(of_backups(results));
    html! {
        header {
            p class="subject" {
                "What encryption costs"
                @if !results.subject.label.is_empty() {
                    " · " (text("subject/label", &results.subject.label)) ", "
                    (number("subject/bytes", As::Bytes, float(results.subject.bytes)))
                }
                " · " (text("started", &results.started))
            }
            @match answers.split_first() {
                Some((first, rest)) => {
                    h1 { (first) }
                    @for answer in rest { p class="answer" { (answer) } }
                },
                None => h1 { "Nothing was compared" },
            }
            @if results.control {
                p class="notice" {
                    strong { "Base against base: " } "the true cost is none; what is found is the \
                     method's own error."
                }
            }
            (facts(results))
            @for reason in each(&results.incomplete, "incomplete") {
                p class="notice alert" {
                    strong { "Incomplete: " } (text(&reason.at, reason.item))
                }
            }
            @for warning in each(&results.warnings, "warnings") {
                p class="notice" { strong { "Note: " } (text(&warning.at, warning.item)) }
            }
        }
    }
}

/// The headline of a side against its own library without encryption.
fn headline<'a>(report: &'a Report, side: &Side, metric: Metric) -> Option<Found<'a, Pooled>> {
    let against = side.plain.as_ref().unwrap_or(&report.base()?.id);
    find(&report.summary.pooled, "embedded/summary/pooled", |found| {
        found.id == HEADLINE
            && found.metric == metric
            && found.side == side.id
            && found.against == *against
    })
}

/// `+1.8 % (+1.1 to +2.5)`.
fn with_ends<T: Ratio>(found: &Found<'_, T>) -> Markup {
    html! { span class="number" { (ratio(found, As::Percent)) } " (" (ends(found, As::Bare)) ")" }
}

/// Ours first, then each peer.
fn of_embedded(report: &Report) -> Vec<Markup> {
    let encrypting = each(&report.sides, "embedded/sides").filter(|side| side.item.encrypts());
    let mut answers = Vec::new();
    for side in encrypting {
        let Some(elapsed) = headline(report, side.item, Metric::Elapsed) else { continue };
        let label = text(&format!("{}/label", side.at), &side.item.label);
        let what = text(&format!("{}/what", elapsed.at), &elapsed.item.what);
        answers.push(match (side.item.role, headline(report, side.item, Metric::Cpu)) {
            (Role::Encrypted, _) => html! {
                (label) " costs " (with_ends(&elapsed)) " of elapsed time over " (what)
            },
            (_, Some(cpu)) => html! {
                (label) " would cost " (with_ends(&elapsed)) ", and " (with_ends(&cpu)) " of CPU."
            },
            (_, None) => html! { (label) " would cost " (with_ends(&elapsed)) "." },
        });
    }
    answers
}

/// Throughput over all workloads and threads.
fn of_threads(results: &Results) -> Vec<Markup> {
    let Some(report) = &results.oltp else { return Vec::new() };
    let throughput = each(&report.summary.pooled, "oltp/summary/pooled")
        .filter(|found| found.item.metric == Metric::Throughput);
    throughput
        .filter_map(|found| {
            let mut sides = each(&report.sides, "oltp/sides");
            let side =
                sides.find(|side| side.item.id == found.item.side && side.item.encrypts())?;
            let value =
                |field: &str, value| number(&format!("{}/{field}", found.at), As::Percent, value);
            Some(html! {
                (text(&format!("{}/label", side.at), &side.item.label)) ": throughput "
                span class="number" { (value("ratio", found.item.ratio)) } " (from "
                (value("least", found.item.least)) " to " (value("most", found.item.most))
                ") over " (text(&format!("{}/what", found.at), &found.item.what)) "."
            })
        })
        .collect()
}

/// The cost in backups of the run's cipher, or of the last one: a sentence for each compression.
fn of_backups(results: &Results) -> Vec<Markup> {
    let Some(report) = &results.backup else { return Vec::new() };
    let Some(cipher) = cipher_of(report, &results.settings.algorithm) else { return Vec::new() };
    let of = |action: &str, compression: &str| {
        find(&report.summary.pooled, "backup/summary/pooled", |found: &Pooled| {
            found.side == cipher
                && found.metric == Metric::Elapsed
                && found.id == format!("{action}/{compression}")
        })
    };
    let sentence = |compression: &&str| {
        let elapsed = of("backup", compression)?;
        let restore = of("restore", compression);
        let cell = each(&report.cells, "backup/cells")
            .find(|cell| cell.item.axis("compression") == *compression)?;
        Some(html! {
            (text(&format!("{}/side", elapsed.at), cipher)) " costs " (with_ends(&elapsed))
            " of a backup's time"
            @match *compression {
                "none" => " without compression",
                name => {
                    " with " (text(&format!("{}/axes/compression", cell.at), name))
                },
            }
            @if let Some(restore) = &restore { ", of its restore's " (with_ends(restore)) }
            "."
        })
    };
    report.along("compression").iter().filter_map(sentence).collect()
}

/// CPU, and what encryption adds beside time, each in a box.
fn facts(results: &Results) -> Markup {
    let Some(report) = &results.embedded else { return html! {} };
    let Some(side) = report.sides.iter().find(|side| side.role == Role::Encrypted) else {
        return html! {};
    };
    let metrics = [(Metric::Cpu, "CPU time"), (Metric::Instructions, "Instructions")];
    let heads: Vec<(&str, Found<'_, Pooled>)> = metrics
        .into_iter()
        .filter_map(|(metric, name)| Some((name, headline(report, side, metric)?)))
        .collect();
    let found: Vec<Found<'_, Difference>> =
        each(&report.summary.differences, "embedded/summary/differences")
            .filter(|found| found.item.side == side.id)
            .collect();
    html! {
        @if !(heads.is_empty() && found.is_empty()) { dl class="facts" {
            @for (name, found) in &heads { div {
                dt { (name) }
                dd { (ratio(found, As::Percent)) " " small { (ends(found, As::Bare)) } }
            } }
            @for found in &found { div {
                dt { (short(found.item.kind)) }
                dd { (more(&found.at, found.item)) }
            } }
        } }
    }
}

fn short(kind: ProbeKind) -> &'static str {
    match kind {
        ProbeKind::OpenOther => "Opening a database",
        ProbeKind::OpenAgain => "Opening it again",
        ProbeKind::ProcessMemory => "Memory of a process",
        ProbeKind::FileBytes => "File size",
    }
}
