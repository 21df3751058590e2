//! The documents on which experiments are based, and their published figures.

use maud::{Markup, Render, html};

use super::book::Book;
use crate::format::percent;
use crate::model::Metric;
use crate::piece::{As, Piece, all, text};
use crate::published::{PUBLISHED, PublishedOperation};
use crate::results::Results;
use crate::table::Table;

const BESIDE: &str = "Published figures beside ours";

/// Source, its method, our method, and the command to repeat it.
pub(super) fn provenance(results: &Results, name: &str, here: &impl Render) -> Markup {
    let document = PUBLISHED.documents.get(name);
    let summary = match document {
        Some(_) => "The document that it follows, how it was measured, and how to run it again",
        None => "How it was measured, and how to run it again",
    };
    html! { details { summary { (summary) }
        dl class="provenance" {
            @if let Some(document) = document {
                div { dt { "Follows" } dd data-fixed { (document.citation) } }
                div { dt { "There" } dd data-fixed { (document.environment) } }
                div { dt { "How, there" } dd data-fixed { (document.method) } }
                div { dt { "Found there" } dd data-fixed { (document.result) } }
            }
            div { dt { "How, here" } dd { (here) } }
            div { dt { "Run it again" } dd { (rerun(results, name)) } }
        }
    } }
}

/// Returns the command that repeats one experiment: the run's own with its seed, and with the
/// experiment if the run did not name one.
fn rerun(results: &Results, name: &str) -> Markup {
    let missing = |option: &str| !results.command.split(' ').any(|word| word.starts_with(option));
    html! {
        code class="command" {
            (text("command", &results.command))
            @if missing("--experiment") { " --experiment " (name) }
            @if missing("--seed") {
                " --seed " (text("settings/seed", &results.settings.seed.to_string()))
            }
        }
    }
}

/// Returns published figures beside ours, of the classes that ran; nothing without any.
pub(super) fn beside(book: &Book<'_>) -> Markup {
    let ran = |figure: &&PublishedOperation| {
        figure.classes.iter().any(|id| book.report.cells.iter().any(|class| class.id == *id))
    };
    let rows = PUBLISHED.operations.iter().filter(ran).map(|figure| {
        vec![
            figure.operation.as_str().into(),
            percent(figure.elapsed_ratio()).into(),
            ours(book, figure, Metric::Elapsed),
            figure.cpu_ratio().map_or_else(|| "none given".to_owned(), percent).into(),
            ours(book, figure, Metric::Cpu),
        ]
    });
    let head = ["Published for", "Elapsed there", "Elapsed here", "CPU there", "CPU here"];
    let Some(table) = Table::new(BESIDE, head, rows).filled() else { return html! {} };
    let sources = ["crud", "operations"].into_iter().filter(|name| {
        book.report.cells.iter().any(|class| class.id.starts_with(&format!("{name}/")))
    });
    let sources = sources.filter_map(|name| PUBLISHED.documents.get(name));
    let cited = sources.map(|document| document.citation.as_str().into()).collect();
    html! {
        section id="published" {
            h2 { (table.title) }
            p class="quiet" {
                "Other software, machines and years: what readers have come to expect, not a race. "
                (Piece::parted(cited, "; ")) "."
            }
            (table)
        }
    }
}

/// Returns our classes of the same kind of work, one on each line.
fn ours(book: &Book<'_>, figure: &PublishedOperation, metric: Metric) -> Piece {
    let of = |id: &String| {
        let class = book.shown.cells(id).into_iter().find(|class| class.item.id == *id)?;
        let found = book.overhead(class.item, metric)?;
        let label = class.text("label", &class.item.label).small();
        Some(all![found.ratio(As::Percent), " ", label])
    };
    Piece::lines(figure.classes.iter().filter_map(of))
}
