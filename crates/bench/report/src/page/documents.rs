//! The documents on which experiments are based, and their published figures.

use maud::{Markup, Render, html};

use super::book::Book;
use crate::format::percent;
use crate::model::{Metric, Results};
use crate::piece::{As, Piece, all, text};
use crate::published::{PUBLISHED, PublishedOperation};
use crate::table::Table;

/// Source, its method, our method, and the command to repeat it.
pub(super) fn provenance(results: &Results, name: &str, here: &impl Render) -> Markup {
    html! {
        dl class="provenance" {
            @if let Some(document) = PUBLISHED.documents.get(name) {
                div { dt { "Follows" } dd data-fixed { (document.citation) } }
                div { dt { "There" } dd data-fixed { (document.environment) } }
                div { dt { "How, there" } dd data-fixed { (document.method) } }
                div { dt { "Found there" } dd data-fixed { (document.result) } }
            }
            div { dt { "How, here" } dd { (here) } }
            div { dt { "Run it again" } dd { (rerun(results, name)) } }
        }
    }
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

/// Returns published figures beside ours, of the classes with this prefix.
pub(super) fn beside(book: &Book<'_>, start: &str) -> Markup {
    let of_start =
        |figure: &&PublishedOperation| figure.classes.iter().any(|one| one.starts_with(start));
    let rows = PUBLISHED.operations.iter().filter(of_start).map(|figure| {
        vec![
            figure.operation.as_str().into(),
            percent(figure.elapsed_ratio()).into(),
            ours(book, figure, Metric::Elapsed),
            figure.cpu_ratio().map_or_else(|| "none given".to_owned(), percent).into(),
            ours(book, figure, Metric::Cpu),
        ]
    });
    let name = format!("Published figures beside ours, {}", start.trim_end_matches('/'));
    let head = ["Published for", "Elapsed there", "Elapsed here", "CPU there", "CPU here"];
    html! {
        h3 { "Published figures beside ours" }
        p class="quiet" {
            "Other software, machines and years: what readers have come to expect, not a race."
        }
        (Table::new(name, head, rows))
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
