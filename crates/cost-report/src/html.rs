//! One self-contained HTML page: the answer first, then the figures, then how they came about.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::backup;
use crate::format::{bytes, count, duration, interval, percent};
use crate::json::{JsonError, to_json};
use crate::model::{Class, Comparison, Experiment, Metric, Results, Role, Side};
use crate::plot::{Row, forest};
use crate::published::{PUBLISHED, Published};
use crate::summary::verdict;
use crate::terminal::{more, probe_value};

const STYLE: &str = include_str!("style.css");

/// The page. It fetches nothing, and holds the JSON document of the same run in a `script`
/// element of type `application/json`.
///
/// # Errors
/// Fails when the JSON document cannot be written.
pub fn html(results: &Results) -> Result<String, JsonError> {
    // `<` occurs in JSON only within strings, where the escape means the same.
    let data = to_json(results)?.replace('<', "\\u003c");
    let base = results.sides.iter().find(|side| side.role == Role::Base);
    let side = results.sides.iter().find(|side| side.role == Role::Encrypted);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "What encryption costs: " (results.subject.label) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (head(results))
                    @if let (Some(base), Some(side)) = (base, side) {
                        (overheads(results, side, base))
                        (volumes(results, side, base))
                        (peers(results, side, base))
                        (published(results, side, base))
                    }
                    (probes(results))
                    @if let Some(matrix) = &results.backup { (backup::section(matrix)) }
                    @if let (Some(base), Some(side)) = (base, side) {
                        (statements(results, side, base))
                    }
                    (circumstances(results))
                    (method(results))
                }
                script type="application/json" id="results" { (PreEscaped(data)) }
            }
        }
    };
    Ok(page.into_string())
}

fn head(results: &Results) -> Markup {
    html! {
        header {
            h1 { "What encryption costs" }
            p class="subject" {
                (results.subject.label) ", " (bytes(float(results.subject.bytes)))
                " · " (results.settings.algorithm) " · " (results.started)
            }
            @for reason in &results.incomplete {
                p class="notice" role="alert" {
                    strong { "Incomplete: " } (reason)
                }
            }
            section class="verdict" aria-label="Verdict" {
                @for line in verdict(results) { p { (line) } }
            }
            @for warning in &results.warnings {
                p class="notice" { strong { "Note: " } (warning) }
            }
        }
    }
}

fn overheads(results: &Results, side: &Side, base: &Side) -> Markup {
    let find =
        |class: &Class, metric| results.summary.comparison(&class.id, metric, &side.id, &base.id);
    let rows: Vec<Row<'_>> = results
        .classes
        .iter()
        .map(|class| Row {
            label: class.label.clone(),
            elapsed: find(class, Metric::Elapsed),
            cpu: find(class, Metric::Cpu),
        })
        .collect();
    let title = format!("Overhead of {} over {}, with intervals", side.label, base.label);
    html! {
        section {
            h2 { "Overhead" }
            p {
                (side.label) " against " (base.label)
                 ". 0 % is as fast as plain; the interval holds the \
                 true value in " (permille(results.settings.confidence_permille)) " of runs."
            }
            figure {
                (forest(&title, &rows))
                figcaption {
                    span class="key elapsed" { "● elapsed time" } " "
                    span class="key cpu" { "■ CPU time" }
                    ". The same figures stand in the table below."
                }
            }
            div class="wide" { table {
                caption { "Overhead by experiment and class, and time of one operation" }
                thead { tr {
                    th scope="col" { "Class" }
                    th scope="col" { "Elapsed" }
                    th scope="col" { "CPU" }
                    th scope="col" { "User CPU" }
                    th scope="col" { "System CPU" }
                    th scope="col" { "Plain, each" }
                    th scope="col" { "Encrypted, each" }
                } }
                @for experiment in [Experiment::Crud, Experiment::Operations, Experiment::Scans] {
                    @let classes: Vec<&Class> = results.classes.iter()
                        .filter(|class| class.experiment == experiment).collect();
                    @if !classes.is_empty() {
                        tbody {
                            tr { th colspan="7" scope="rowgroup" { (experiment.label()) } }
                            @for class in classes {
                                tr {
                                    th scope="row" title=(class.what) { (class.label) }
                                    @for metric in
                                        [Metric::Elapsed, Metric::Cpu, Metric::User, Metric::System]
                                    {
                                        (overhead_cell(find(class, metric)))
                                    }
                                    td { (each(results, class, &base.id)) }
                                    td { (each(results, class, &side.id)) }
                                }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn overhead_cell(found: Option<&Comparison>) -> Markup {
    html! {
        @match found {
            None => td { "–" },
            Some(found) => td {
                (percent(found.ratio)) br;
                small { (interval(found.low, found.high)) }
            },
        }
    }
}

fn each(results: &Results, class: &Class, side: &str) -> Markup {
    html! {
        @match results.summary.totals(&class.id, side) {
            None => { "–" },
            Some(totals) => {
                (duration(totals.elapsed_ns / float(class.operations.max(1)))) "/" (class.unit)
            },
        }
    }
}

fn volumes(results: &Results, side: &Side, base: &Side) -> Markup {
    html! {
        section {
            h2 { "Reads and writes" }
            p {
                "Medians of a block. Pages are SQLite's own count (not found in its cache; \
                 written); \
                 device bytes are the kernel's, for the measured process."
            }
            div class="wide" { table {
                thead {
                    tr {
                        th scope="col" rowspan="2" { "Class" }
                        th scope="colgroup" colspan="2" { "Pages read" }
                        th scope="colgroup" colspan="2" { "Pages written" }
                        th scope="colgroup" colspan="2" { "Read from the device" }
                        th scope="colgroup" colspan="2" { "Written to the device" }
                    }
                    tr {
                        @for _ in 0..4 {
                            th scope="col" { "plain" }
                            th scope="col" { "encrypted" }
                        }
                    }
                }
                tbody { @for class in &results.classes {
                    @let plain = results.summary.totals(&class.id, &base.id);
                    @let sealed = results.summary.totals(&class.id, &side.id);
                    @if let (Some(plain), Some(sealed)) = (plain, sealed) {
                        tr {
                            th scope="row" { (class.label) }
                            td { (count(plain.logical_reads)) }
                            td { (count(sealed.logical_reads)) }
                            td { (count(plain.logical_writes)) }
                            td { (count(sealed.logical_writes)) }
                            td { (bytes(plain.device_read_bytes)) }
                            td { (bytes(sealed.device_read_bytes)) }
                            td { (bytes(plain.device_write_bytes)) }
                            td { (bytes(sealed.device_write_bytes)) }
                        }
                    }
                } }
            } }
        }
    }
}

fn peers(results: &Results, side: &Side, base: &Side) -> Markup {
    let others: Vec<&Side> = results.sides.iter().filter(|side| side.role == Role::Peer).collect();
    if others.is_empty() {
        return html! {};
    }
    let shown: Vec<&Side> = std::iter::once(side).chain(others).collect();
    html! {
        section {
            h2 { "Beside other encrypting libraries" }
            p {
                "Same run, same statements, same settings. First line: against the same \
                 library without \
                 encryption (elapsed, CPU), which leaves out how that library was built. \
                 Second line: \
                 against " (base.label) "."
            }
            div class="wide" { table {
                thead { tr {
                    th scope="col" { "Class" }
                    @for side in &shown { th scope="col" { (side.label) } }
                } }
                tbody { @for class in &results.classes { tr {
                    th scope="row" { (class.label) }
                    @for side in &shown { td {
                        @let own = side.plain.as_ref().unwrap_or(&base.id);
                        (both(results, class, side, own)) br;
                        small { (both(results, class, side, &base.id)) }
                    } }
                } } }
            } }
        }
    }
}

fn both(results: &Results, class: &Class, side: &Side, against: &str) -> String {
    let of = |metric| {
        results
            .summary
            .comparison(&class.id, metric, &side.id, against)
            .map_or_else(|| "–".to_owned(), |found| percent(found.ratio))
    };
    format!("{}, {}", of(Metric::Elapsed), of(Metric::Cpu))
}

fn published(results: &Results, side: &Side, base: &Side) -> Markup {
    let ours = |figure: &Published, metric| {
        let found: Vec<String> = figure
            .classes
            .iter()
            .filter_map(|id| {
                let class = results.classes.iter().find(|class| class.id == *id)?;
                let found = results.summary.comparison(id, metric, &side.id, &base.id)?;
                Some(format!("{} {}", class.label, percent(found.ratio)))
            })
            .collect();
        if found.is_empty() { "not measured".to_owned() } else { found.join("; ") }
    };
    let mut sources: Vec<&str> = PUBLISHED.iter().map(|figure| figure.source).collect();
    sources.dedup();
    html! {
        section {
            h2 { "Published figures beside ours" }
            p {
                "Other software, machines and years: they show what readers have come to \
                 expect, not a \
                 race."
            }
            div class="wide" { table {
                thead { tr {
                    th scope="col" { "Published for" }
                    th scope="col" { "Elapsed" }
                    th scope="col" { "Elapsed here" }
                    th scope="col" { "CPU" }
                    th scope="col" { "CPU here" }
                    th scope="col" { "Source" }
                } }
                tbody { @for figure in PUBLISHED { tr {
                    th scope="row" { (figure.operation) }
                    td { (percent(figure.elapsed_ratio)) }
                    td { (ours(figure, Metric::Elapsed)) }
                    td { (figure.cpu_ratio.map_or_else(|| "none given".to_owned(), percent)) }
                    td { (ours(figure, Metric::Cpu)) }
                    td {
                        (sources.iter().position(|source| *source == figure.source)
                            .map_or(0, |index| index + 1))
                    }
                } } }
            } }
            ol { @for source in sources { li { (source) } } }
        }
    }
}

fn probes(results: &Results) -> Markup {
    if results.summary.differences.is_empty() {
        return html! {};
    }
    let label = |id: &str| {
        results.sides.iter().find(|side| side.id == id).map_or("?", |side| side.label.as_str())
    };
    html! {
        section {
            h2 { "Opening, memory, size" }
            div class="wide" { table {
                thead { tr {
                    th scope="col" { "What" }
                    th scope="col" { "Side" }
                    th scope="col" { "Value" }
                    th scope="col" { "Against" }
                    th scope="col" { "Value" }
                    th scope="col" { "More" }
                } }
                tbody { @for found in &results.summary.differences { tr {
                    th scope="row" { (found.kind.label()) }
                    td { (label(&found.side)) }
                    td { (probe_value(found.kind, found.value)) }
                    td { (label(&found.against)) }
                    td { (probe_value(found.kind, found.against_value)) }
                    td { (more(found)) }
                } } }
            } }
        }
    }
}

fn statements(results: &Results, side: &Side, base: &Side) -> Markup {
    if results.statements.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Derived statements" }
            @for note in &results.subject.notes { p { (note) } }
            details {
                summary { (results.statements.len()) " statements, each with its overhead" }
                div class="wide" { table {
                    thead { tr {
                        th scope="col" { "Statement" }
                        th scope="col" { "Value sets" }
                        th scope="col" { "Cache" }
                        th scope="col" { "Elapsed" }
                        th scope="col" { "CPU" }
                    } }
                    tbody { @for statement in &results.statements {
                        @let prefix = format!("operations/{}/", statement.operation);
                        @for class in results
                            .classes
                            .iter()
                            .filter(|class| class.id.starts_with(&prefix))
                        {
                            @let find = |metric| results.summary.statement_comparison(
                                &class.id, Some(statement.index), metric, &side.id, &base.id);
                            tr {
                                th scope="row" {
                                    (statement.operation) ", " (statement.what) br;
                                    code { (statement.sql) }
                                }
                                td { (statement.variants) }
                                td { (class.id.trim_start_matches(&prefix)) }
                                (overhead_cell(find(Metric::Elapsed)))
                                (overhead_cell(find(Metric::Cpu)))
                            }
                        }
                    } }
                } }
            }
        }
    }
}

fn circumstances(results: &Results) -> Markup {
    let environment = &results.environment;
    let settings = &results.settings;
    let mut rows = vec![
        ("Operating system", format!("{}, {}", environment.os, environment.kernel)),
        ("Processor", format!("{}, {} usable", environment.cpu, environment.cpus)),
        ("Memory", bytes(float(environment.memory_bytes))),
        ("File system", environment.file_system.clone()),
        ("Load average at the start", environment.load_average.clone()),
        ("Page size", settings.page_size_bytes.to_string()),
        ("Seed", settings.seed.to_string()),
    ];
    if !results.sides.is_empty() {
        let wait = format!("{} us", settings.busy_wait_us);
        rows.extend([
            ("journal_mode", settings.journal_mode.clone()),
            ("synchronous", settings.synchronous.clone()),
            ("cache_size", settings.cache_size.to_string()),
            ("Processes of the mixes", settings.processes.to_string()),
            ("Wait before a locked database is tried again", wait),
        ]);
    }
    html! {
        section {
            h2 { "Environment and settings" }
            p { "The same on every side." }
            dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
            @if !results.sides.is_empty() { h3 { "Sides" } }
            ul { @for side in &results.sides { li {
                strong { (side.label) } ": SQLite " (side.library.version) " ("
                (side.library.origin) ")"
                @if let Some(cipher) = &side.cipher { ", " (cipher) }
                details {
                    summary { "build" }
                    p { code { (side.library.source_id) } }
                    p { code { (side.library.compile_options.join(" ")) } }
                }
            } } }
        }
    }
}

fn method(results: &Results) -> Markup {
    html! {
        section {
            h2 { "Method" }
            @if !results.classes.is_empty() { (method_of_sides(results)) }
            @if let Some(matrix) = &results.backup { (backup::method(matrix)) }
            h3 { "Run it again" }
            pre { code { (results.command) } }
            p {
                (results.tool.name) " " (results.tool.version) ", " (blocks(results)) " in "
                (duration(results.duration_s * 1e9)) ". Each stands in this page's source, in the \
                 element with the id \"results\", as JSON."
            }
        }
    }
}

/// How much was measured, in words.
fn blocks(results: &Results) -> String {
    let runs = results.backup.as_ref().map_or(0, |matrix| matrix.runs.len());
    match (results.samples.len(), runs) {
        (blocks, 0) => format!("{blocks} blocks"),
        (0, runs) => format!("{runs} backups and restores"),
        (blocks, runs) => format!("{blocks} blocks, {runs} backups and restores"),
    }
}

fn method_of_sides(results: &Results) -> Markup {
    let settings = &results.settings;
    html! {
            p {
                "Each block of work runs on every side in random order, directly one after \
                 the other; \
                 the sides never run at the same time. After " (settings.pairs) " such rounds all \
                 processes are started anew on freshly copied files: a restart. This run has "
                (settings.restarts) " restarts planned."
            }
            p {
                "A ratio is the Hodges-Lehmann estimate of the paired log ratios within a restart, \
                 averaged over restarts. Its interval is Student's t over the restarts, \
                 because pairs \
                 of one restart share file layout and placement and are not independent. \
                 CPU is that \
                 of the measured processes, user and system."
            }
            ul { @for class in &results.classes {
                li { strong { (class.label) } ": " (class.what) }
            } }
    }
}

fn permille(value: u32) -> String {
    format!("{} %", f64::from(value) / 10.0)
}

#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{from_json, tests::example};
    use crate::model::StatementInfo;

    #[test]
    fn the_page_holds_the_documents_numbers() {
        let results = example();
        let page = html(&results).unwrap();
        let found = results.summary.comparison("crud/4-3-3", Metric::Cpu, "encrypted", "base");
        let found = found.unwrap();
        for wanted in [
            percent(found.ratio),
            interval(found.low, found.high),
            percent(1.0636),
            percent(7390.0 / 3062.0),
            results.command.clone(),
        ] {
            assert!(page.contains(&wanted), "{wanted}");
        }
        let start = page.find("id=\"results\">").unwrap() + "id=\"results\">".len();
        let end = start + page[start..].find("</script>").unwrap();
        assert_eq!(from_json(&page[start..end]).unwrap(), results);
    }

    #[test]
    fn names_from_a_database_cannot_break_the_page() {
        let mut results = example();
        results.subject.label = "</script><script>alert(1)</script>.db".to_owned();
        results.statements.push(StatementInfo {
            index: 0,
            operation: "select".to_owned(),
            what: "<b>".to_owned(),
            sql: "SELECT * FROM \"</code><img src=x>\"".to_owned(),
            variants: 1,
        });
        let page = html(&results).unwrap();
        assert!(!page.contains("<script>alert") && !page.contains("<img src=x>"));
        assert_eq!(page.matches("</script>").count(), 1);
    }

    #[test]
    fn the_page_fetches_nothing() {
        let page = html(&example()).unwrap();
        for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
    }
}
