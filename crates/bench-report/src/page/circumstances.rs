//! Sections beside the overheads: opening, memory and size; the machine, settings and method.

use maud::{Markup, html};

use super::cell::{As, Found, each, float, number, text};
use crate::model::{Environment, Results, Side};
use crate::report::Report;
use crate::shown::Shown;

/// Single values beside the blocks.
pub(super) fn probes(report: &Report) -> Markup {
    html! {
        @if let Some(table) = Shown::of("embedded", report).probes() {
            section id="opening" { h2 { (table.title) } (table.markup()) }
        }
    }
}

/// The machine, whose description stands under `environment` in every document.
pub(super) fn machine(machine: &Environment) -> Vec<(&'static str, Markup)> {
    let words = |name: &str, words: &str| text(&format!("environment/{name}"), words);
    vec![
        (
            "Operating system",
            html! {
                (words("os", &machine.os)) ", " (words("kernel", &machine.kernel))
            },
        ),
        (
            "Processor",
            html! {
                (words("cpu", &machine.cpu)) ", "
                (number("environment/cpus", As::Count, float(machine.cpus))) " usable"
            },
        ),
        ("Memory", number("environment/memory_bytes", As::Bytes, float(machine.memory_bytes))),
        ("File system", words("file_system", &machine.file_system)),
        ("Load average at the start", words("load_average", &machine.load_average)),
        ("Clock", clock(machine)),
        ("Instructions counted", known("environment/instructions", &machine.instructions)),
    ]
}

/// Machine and settings.
pub(super) fn environment(results: &Results) -> Markup {
    let given = &results.settings;
    let count = |name: &str, value: f64| number(&format!("settings/{name}"), As::Count, value);
    let mut rows = machine(&results.environment);
    rows.extend([
        ("Page size", count("page_size_bytes", f64::from(given.page_size_bytes))),
        ("Seed", text("settings/seed", &given.seed.to_string())),
    ]);
    if results.embedded.is_some() {
        rows.extend([
            ("journal_mode", text("settings/journal_mode", &given.journal_mode)),
            ("synchronous", text("settings/synchronous", &given.synchronous)),
            ("cache_size", text("settings/cache_size", &given.cache_size.to_string())),
            ("Processes of the mixes", count("processes", f64::from(given.processes))),
            (
                "Caches dropped for cold classes",
                html! {
                    @if given.drop_caches { "the whole system's" } @else { "the files' own" }
                },
            ),
            ("Pace", pace(results)),
            (
                "Wait before a locked database is tried again",
                html! {
                    (count("busy_wait_us", float(given.busy_wait_us))) " us"
                },
            ),
        ]);
    }
    html! {
        section id="environment" {
            h2 { "Environment and settings" }
            p { "The same on every side." }
            dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
            @if let Some(report) = &results.embedded {
                h3 { "Sides" }
                ul class="sides" {
                    @for side in each(&report.sides, "embedded/sides") { (library(&side)) }
                }
            }
        }
    }
}

/// A text that older documents lack.
fn known(at: &str, words: &str) -> Markup {
    if words.is_empty() {
        html! { "–" }
    } else {
        text(at, words)
    }
}

fn clock(machine: &Environment) -> Markup {
    html! {
        (known("environment/clock_source", &machine.clock_source))
        @if machine.clock_step_ns > 0 {
            ", steps of "
            (number("environment/clock_step_ns", As::Duration, float(machine.clock_step_ns)))
        }
    }
}

/// Rate and think time.
fn pace(results: &Results) -> Markup {
    let given = &results.settings;
    html! {
        @match given.rate_per_s {
            Some(rate) => {
                (number("settings/rate_per_s", As::Count, float(rate))) " operations a second"
            },
            None => "as fast as they go",
        }
        @if let Some(think) = given.think_time {
            ", a pause of "
            (number("settings/think_time/pause_ms", As::Count, float(think.pause_ms)))
            " ms every "
            (number("settings/think_time/every_loops", As::Count, float(think.every_loops)))
            " loops"
        }
    }
}

fn library(side: &Found<'_, Side>) -> Markup {
    let words = |field: &str, words: &str| text(&format!("{}/{field}", side.at), words);
    let library = &side.item.library;
    html! {
        li {
            strong { (words("label", &side.item.label)) } ": SQLite "
            (words("library/version", &library.version)) " ("
            (words("library/origin", &library.origin)) ")"
            @if let Some(cipher) = &side.item.cipher { ", " (words("cipher", cipher)) }
            details {
                summary { "How it was built" }
                p { code { (words("library/source_id", &library.source_id)) } }
                p {
                    @let path = format!("{}/library/compile_options", side.at);
                    @for option in each(&library.compile_options, &path) {
                        code { (text(&option.at, option.item)) } " "
                    }
                }
            }
        }
    }
}

/// How figures came about, and how to get them again.
pub(super) fn method(results: &Results) -> Markup {
    html! {
        section id="method" {
            h2 { "Method" }
            @if results.embedded.is_some() { (of_sides(results)) }
            @if let Some(matrix) = &results.backup { (super::own::backup_method(matrix)) }
            h3 { "Run it again" }
            pre tabindex="0" { code { (text("command", &results.command)) } }
            p {
                (text("tool/name", &results.tool.name)) " "
                (text("tool/version", &results.tool.version)) ", started "
                (text("started", &results.started)) ", took "
                (number("duration_s", As::Seconds, results.duration_s))
                ". All that was measured stands in this page's source as JSON, in the element \
                 with the id \"results\": the same document as the results file."
            }
        }
    }
}

fn of_sides(results: &Results) -> Markup {
    let settings = &results.settings;
    html! {
        p {
            "Each block of work runs on every side in random order, directly one after the other; \
             the sides never run at the same time. After "
            (number("settings/pairs", As::Count, f64::from(settings.pairs)))
            " such rounds all processes are started anew on freshly copied files: a restart. "
            (number("settings/restarts", As::Count, f64::from(settings.restarts)))
            " restarts were planned"
            @if settings.stopping.is_some() { " with every class" }
            "."
        }
        (stopping(results))
        p {
            "A ratio is the Hodges-Lehmann estimate of the paired log ratios within a restart, \
             averaged over restarts. Its interval is Student's t over the restarts, because pairs \
             of one restart share file layout and placement and are not independent. CPU is that \
             of the measured processes, user and system."
        }
    }
}

/// When a run ends whose length follows from its intervals.
fn stopping(results: &Results) -> Markup {
    let Some(stopping) = &results.settings.stopping else { return html! {} };
    let width = |field: &str, ppm: u32| {
        number(&format!("settings/stopping/{field}"), As::Millionths, f64::from(ppm))
    };
    html! {
        p {
            "The run went on until its intervals were narrow enough, never looking at where they \
             lie: the spread of a class's first "
            (number(
                "settings/stopping/first_restarts",
                As::Count,
                f64::from(stopping.first_restarts),
            ))
            " restarts gives the width of every interval. Wanted was a half-width of "
            (width("headline_ppm", stopping.headline_ppm)) " of the headline"
            @if let Some(ppm) = stopping.all_ppm {
                " and " (width("all_ppm", ppm)) " of every class"
            }
            @if stopping.reached { ", which was reached." } @else { ", which was not reached." }
        }
    }
}
