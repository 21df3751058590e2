//! Sections beside the overheads: the machine, settings and method.

use maud::{Markup, html};

use super::{again, made};
use crate::model::{Environment, Results, Settings, Side, Stopping};
use crate::piece::{As, Found, Piece, all, each, number, text};

/// The machine, whose description is under `environment` in every document.
pub(super) fn machine(machine: &Environment) -> Vec<(&'static str, Piece)> {
    let found = Found::at("environment", machine);
    // Older documents lack some.
    let known = |field: &str, words: &str| match words {
        "" => Piece::Nothing,
        _ => found.text(field, words),
    };
    let cpus = found.number("cpus", As::Count, machine.cpus);
    let clock = known("clock_source", &machine.clock_source);
    let clock = match machine.clock_step_ns {
        0 => clock,
        step => all![clock, ", steps of ", found.number("clock_step_ns", As::Duration, step)],
    };
    let os = all![found.text("os", &machine.os), ", ", found.text("kernel", &machine.kernel)];
    vec![
        ("Operating system", os),
        ("Processor", all![found.text("cpu", &machine.cpu), ", ", cpus, " usable"]),
        ("Memory", found.number("memory_bytes", As::Bytes, machine.memory_bytes)),
        ("File system", found.text("file_system", &machine.file_system)),
        ("Load average at the start", found.text("load_average", &machine.load_average)),
        ("Clock", clock),
        ("Instructions counted", known("instructions", &machine.instructions)),
    ]
}

/// Machine and settings.
pub(super) fn environment(results: &Results) -> Markup {
    let given = &results.settings;
    let found = Found::at("settings", given);
    let mut rows = match results.environment == Environment::default() {
        true => vec![("Machine", "the server's, which does not tell it".into())],
        false => machine(&results.environment),
    };
    rows.extend([
        ("Page size", found.number("page_size_bytes", As::Count, given.page_size_bytes)),
        ("Seed", found.text("seed", &given.seed.to_string())),
    ]);
    if results.embedded.is_some() {
        let dropped = if given.drop_caches { "the whole system's" } else { "the files' own" };
        let wait = all![found.number("busy_wait_us", As::Count, given.busy_wait_us), " us"];
        rows.extend([
            ("journal_mode", found.text("journal_mode", &given.journal_mode)),
            ("synchronous", found.text("synchronous", &given.synchronous)),
            ("cache_size", found.text("cache_size", &given.cache_size.to_string())),
            ("Processes of the mixes", found.number("processes", As::Count, given.processes)),
            ("Caches dropped for cold classes", dropped.into()),
            ("Pace", pace(&found)),
            ("Wait before a locked database is tried again", wait),
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

/// Rate and think time.
fn pace(given: &Found<'_, Settings>) -> Piece {
    let number = |field: &str, value: u64| given.number(field, As::Count, value);
    let rate = match given.item.rate_per_s {
        Some(rate) => all![number("rate_per_s", rate), " operations a second"],
        None => "as fast as they go".into(),
    };
    let Some(think) = given.item.think_time else { return rate };
    let pause = number("think_time/pause_ms", think.pause_ms);
    let every = number("think_time/every_loops", think.every_loops);
    all![rate, ", a pause of ", pause, " ms every ", every, " loops"]
}

fn library(side: &Found<'_, Side>) -> Markup {
    let words = |field: &str, words: &str| side.text(field, words);
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

/// Computation of the figures, and how to repeat the run.
pub(super) fn method(results: &Results) -> Markup {
    html! {
        section id="method" {
            h2 { "Method" }
            @if results.embedded.is_some() { (of_sides(results)) }
            @if results.server.is_some() { (super::server::method(results)) }
            @if let Some(matrix) = &results.backup { (super::own::backup_method(matrix)) }
            (again(&results.command))
            p {
                (made(&results.tool, &results.started, results.duration_s))
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
            (number("settings/pairs", As::Count, settings.pairs))
            " such rounds all processes are started anew on freshly copied files: a restart. "
            (number("settings/restarts", As::Count, settings.restarts)) " restarts were planned"
            @if settings.stopping.is_some() { " with every class" }
            "."
        }
        @if let Some(stopping) = &settings.stopping {
            (until_narrow(&Found::at("settings/stopping", stopping)))
        }
        p {
            "A ratio is the Hodges-Lehmann estimate of the paired log ratios within a restart, \
             averaged over restarts. Its interval is Student's t over the restarts, because pairs \
             of one restart share file layout and placement and are not independent. CPU is that \
             of the measured processes, user and system."
        }
    }
}

/// End of a run whose length follows from its intervals.
fn until_narrow(found: &Found<'_, Stopping>) -> Markup {
    let stopping = found.item;
    let width = |field: &str, ppm: u32| found.number(field, As::Millionths, ppm);
    html! {
        p {
            "The run went on until its intervals were narrow enough, never looking at where they \
             lie: the spread of a class's first "
            (found.number("first_restarts", As::Count, stopping.first_restarts))
            " restarts gives the width of every interval. Wanted was a half-width of "
            (width("headline_ppm", stopping.headline_ppm)) " of the headline"
            @if let Some(ppm) = stopping.all_ppm {
                " and " (width("all_ppm", ppm)) " of every class"
            }
            @if stopping.reached { ", which was reached." } @else { ", which was not reached." }
        }
    }
}
