//! One self-contained HTML page: the answer first, then the figures, then the method.
//!
//! It has no script and loads nothing, which its Content-Security-Policy makes the browser enforce.
//! Every number names its place in the JSON document that the page carries.

mod book;
mod calibration;
mod changes;
mod charts;
#[cfg(test)]
mod checks;
mod circumstances;
mod documents;
mod experiments;
mod heat;
mod overhead;
mod own;
mod peers;
mod published;
mod quality;
mod server;
mod statements;
mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use crate::json::{JsonError, document};
use crate::model::{Role, Tool};
use crate::piece::{As, each, number, text};
use crate::plot::ChartError;
use crate::report::Report;
use crate::results::{Results, is_of_classes};
use crate::shown::Shown;
use book::Book;

pub use calibration::calibration_html;
pub use changes::changes_html;

const STYLE: &str = include_str!("../../assets/page.css");

/// Nothing is loaded, no script runs; styles are inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Returns the page. It loads nothing, and holds the JSON document of the same run in a `script`
/// element of type `application/json`.
///
/// # Errors
/// If the JSON document cannot be written, or a chart cannot be drawn.
pub fn html(results: &Results) -> Result<String, JsonError> {
    let body = body(results).map_err(JsonError::chart)?;
    let title = format!("What encryption costs: {}", results.subject.label);
    around(&title, &body, &document(results))
}

/// Returns a page around its body; it carries `document`.
fn around(title: &str, body: &Markup, document: &impl Serialize) -> Result<String, JsonError> {
    // `<` occurs in JSON only within strings, where the escape means the same.
    let data = serde_json::to_string(document)?.replace('<', "\\u003c");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                // Without this, a browser requests an icon from the server.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script type="application/json" id="results" { (PreEscaped(data)) }
            }
        }
    };
    Ok(page.into_string())
}

/// Returns the notices that the document lists; `of` is a class and a name.
fn notices(all: &[String], path: &str, of: (&str, &str)) -> Markup {
    html! { @for one in each(all, path) {
        p class=(of.0) { strong { (of.1) } (text(&one.at, one.item)) }
    } }
}

/// Returns the command that repeats the measurement.
fn again(command: &str) -> Markup {
    html! {
        h3 { "Run it again" }
        pre tabindex="0" { code { (text("command", command)) } }
    }
}

/// The program, its start time and duration.
fn made(tool: &Tool, started: &str, duration_s: f64) -> Markup {
    html! {
        (text("tool/name", &tool.name)) " " (text("tool/version", &tool.version)) ", started "
        (text("started", started)) ", took " (number("duration_s", As::Seconds, duration_s))
    }
}

/// A section that is folded until a reader opens it; paper gets it only if it is open.
fn folded(id: &str, heading: &str, inside: &Markup) -> Markup {
    html! { section id=(id) { details { summary { h2 { (heading) } } (inside) } } }
}

const NOTICE: &str = "notice";
const ALERT: &str = "notice alert";

fn body(results: &Results) -> Result<Markup, ChartError> {
    let book = Book::open(results);
    let (overhead, peers) = match &book {
        Some(book) => (overhead::section(book)?, peers::section(book)?),
        None => (html! {}, html! {}),
    };
    let mut own = Vec::new();
    let first = results.reports().next().map(|(name, _)| name);
    for (name, report) in results.reports().filter(|(name, _)| !is_of_classes(name)) {
        let section = own::section(results, name, report)?;
        // The first experiment is the subject of the page.
        own.push(match Some(name) == first {
            true => html! { section id=(name) { h2 { (report.layout().title) } (section) } },
            false => folded(name, report.layout().title, &section),
        });
    }
    Ok(html! {
        main {
            (verdict::head(results))
            (overhead)
            @if let Some(book) = &book { (documents::beside(book)) }
            (contents(&links(results)))
            (peers)
            @if let Some(book) = &book { (experiments::sections(book)) }
            @if let Some(report) = &results.server { (server::section(report)) }
            @for section in &own { (section) }
            (opening(results))
            @if let Some(book) = &book { (quality::latency(book)) (experiments::volumes(book)) }
            (quality::section(results))
            (circumstances::environment(results))
            (circumstances::method(results))
        }
    })
}

/// Opening, memory and size: our side's, those of peers in a fold.
fn opening(results: &Results) -> Markup {
    let of = |role| Shown::of("embedded", results.embedded.as_ref()?).probes(&[role]);
    let peers = of(Role::Peer).map(|mut table| {
        table.title.push_str(": other libraries");
        table
    });
    html! {
        @if let Some(table) = of(Role::Encrypted) {
            section id="opening" {
                h2 { (table.title) }
                (table)
                @if let Some(peers) = peers {
                    details { summary { "The same of other libraries" } (peers) }
                }
            }
        }
    }
}

/// Links to sections.
fn contents(links: &[(&str, &str)]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul { @for (id, name) in links { li { a href=(format!("#{id}")) { (name) } } } }
        }
    }
}

/// Returns the sections of the page, with their names.
fn links(results: &Results) -> Vec<(&'static str, &'static str)> {
    // Without an encrypted side there is nothing to compare, and no section for comparisons.
    let compared = |report: &&Report| report.sides.iter().any(|side| side.role == Role::Encrypted);
    let embedded = results.classes().map(|(_, report)| report).filter(compared);
    let sides = embedded.is_some_and(|report| !report.cells.is_empty());
    let has = |start: &str| {
        embedded.is_some_and(|one| one.cells.iter().any(|class| class.id.starts_with(start)))
    };
    let has_peers = embedded.is_some_and(|report| {
        report.others().any(|side| side.role == Role::Peer || report.is_further(&side.id))
    });
    let own = |one: &Report| Shown::of("embedded", one).probes(&[Role::Encrypted]).is_some();
    let differences = results.embedded.as_ref().is_some_and(own);
    let timed = embedded.is_some_and(|report| !report.latencies.is_empty());
    let links = [
        ("peers", "Other ways", sides && has_peers),
        ("script", "Your statements", has("script/")),
        ("crud", "CRUD mixes", has("crud/")),
        ("operations", "Operations", has("operations/")),
        ("scans", "Scans", has("scans/")),
        ("speedtest1", "speedtest1", has("speedtest1/")),
        ("server", "The server", results.server.is_some()),
        ("oltp", "OLTP by threads", results.oltp.is_some()),
        ("messages", "Messages", results.messages.is_some()),
        ("backup", "Backups", results.backup.is_some()),
        ("replicate", "Followers", results.replicate.is_some()),
        ("opening", "Opening, memory, size", differences),
        ("latency", "Latency", sides && timed),
        ("volumes", "Reads and writes", sides),
        ("quality", "How far to trust it", quality::measured(results)),
        ("environment", "Environment", true),
        ("method", "Method", true),
    ];
    links.into_iter().filter(|(.., shown)| *shown).map(|(id, name, _)| (id, name)).collect()
}

#[cfg(test)]
mod tests;
