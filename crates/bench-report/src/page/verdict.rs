//! The answer: what stands first on the page.

use maud::{Markup, html};

use super::{ALERT, NOTICE, notices};
use crate::backup::cipher_of;
use crate::figures::{HEADLINE, Pooled, Ratio};
use crate::model::{Metric, ProbeKind, Results, Role, Side};
use crate::piece::{As, Found, Piece, all, each, find, number, text};
use crate::report::Report;
use crate::shown::{Shown, more};

/// Title, verdict, and what a reader should know before trusting it.
pub(super) fn head(results: &Results) -> Markup {
    let mut answers = results.embedded.as_ref().map_or_else(Vec::new, of_embedded);
    answers.extend(results.oltp.iter().flat_map(of_threads));
    let algorithm = &results.settings.algorithm;
    answers.extend(results.backup.iter().flat_map(|report| of_backups(report, algorithm)));
    html! {
        header {
            p class="subject" {
                "What encryption costs"
                @if !results.subject.label.is_empty() {
                    " · " (text("subject/label", &results.subject.label)) ", "
                    (number("subject/bytes", As::Bytes, results.subject.bytes))
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
                p class=(NOTICE) {
                    strong { "Base against base: " } "the true cost is none; what is found is the \
                     method's own error."
                }
            }
            @if let Some(report) = &results.embedded { (facts(report)) }
            (notices(&results.incomplete, "incomplete", (ALERT, "Incomplete: ")))
            (notices(&results.warnings, "warnings", (NOTICE, "Note: ")))
        }
    }
}

/// The headline of a side against its own library without encryption.
fn headline<'a>(report: &'a Report, side: &Side, metric: Metric) -> Option<Found<'a, Pooled>> {
    let against = side.plain.as_ref().unwrap_or(&report.base()?.id);
    find(&report.summary.pooled, "embedded/summary/pooled", |found| {
        found.is(HEADLINE, metric, (&side.id, against))
    })
}

/// `+1.8 % (+1.1 to +2.5)`.
fn with_ends<T: Ratio>(found: &Found<'_, T>) -> Markup {
    html! {
        span class="number" { (found.ratio(As::Percent)) } " (" (found.ends(As::Percent)) ")"
    }
}

/// Ours first, then each peer.
fn of_embedded(report: &Report) -> Vec<Markup> {
    let answer = |side: Found<'_, Side>| {
        let elapsed = headline(report, side.item, Metric::Elapsed)?;
        let cpu = headline(report, side.item, Metric::Cpu);
        let label = side.text("label", &side.item.label);
        Some(html! {
            (label)
            @if side.item.role == Role::Encrypted {
                " costs " (with_ends(&elapsed)) " of elapsed time over "
                (elapsed.text("what", &elapsed.item.what))
            } @else {
                " would cost " (with_ends(&elapsed))
                @if let Some(cpu) = &cpu { ", and " (with_ends(cpu)) " of CPU" }
                "."
            }
        })
    };
    let encrypting = each(&report.sides, "embedded/sides").filter(|side| side.item.encrypts());
    encrypting.filter_map(answer).collect()
}

/// Throughput over all workloads and threads.
fn of_threads(report: &Report) -> Vec<Markup> {
    let answer = |found: Found<'_, Pooled>| {
        let item = found.item;
        let side = report.others().find(|side| side.id == item.side)?;
        let value = |field: &str, value: f64| found.number(field, As::Percent, value);
        (item.metric == Metric::Throughput).then(|| {
            html! {
                (Shown::of("oltp", report).side(&side.id)) ": throughput "
                span class="number" { (value("ratio", item.ratio)) } " (from "
                (value("least", item.least)) " to " (value("most", item.most)) ") over "
                (found.text("what", &item.what)) "."
            }
        })
    };
    each(&report.summary.pooled, "oltp/summary/pooled").filter_map(answer).collect()
}

/// The cost in backups of the run's cipher, or of the last one: a sentence for each compression.
fn of_backups(report: &Report, algorithm: &str) -> Vec<Markup> {
    let Some(cipher) = cipher_of(report, algorithm) else { return Vec::new() };
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
            (elapsed.text("side", cipher)) " costs " (with_ends(&elapsed)) " of a backup's time"
            @match *compression {
                "none" => " without compression",
                name => { " with " (cell.text("axes/compression", name)) },
            }
            @if let Some(restore) = &restore { ", of its restore's " (with_ends(restore)) }
            "."
        })
    };
    report.along("compression").iter().filter_map(sentence).collect()
}

/// CPU, and what encryption adds beside time, each in a box.
fn facts(report: &Report) -> Markup {
    let side = report.sides.iter().find(|side| side.role == Role::Encrypted);
    let heads = [(Metric::Cpu, "CPU time"), (Metric::Instructions, "Instructions")];
    let heads = heads.into_iter().filter_map(|(metric, name)| {
        let found = headline(report, side?, metric)?;
        Some((name, all![found.ratio(As::Percent), " ", found.ends(As::Percent).small()]))
    });
    let differences = each(&report.summary.differences, "embedded/summary/differences")
        .filter(|found| side.is_some_and(|side| found.item.side == side.id))
        .map(|found| (short(found.item.kind), more(&found)));
    let boxes: Vec<(&str, Piece)> = heads.chain(differences).collect();
    html! {
        @if !boxes.is_empty() { dl class="facts" {
            @for (name, value) in boxes { div { dt { (name) } dd { (value) } } }
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
