//! Sections beside the overheads: the machine, settings and method.

use maud::{Markup, html};

use super::{again, folded, made};
use crate::model::{Environment, Settings, Side, Stopping};
use crate::piece::{As, Found, Piece, all, each, number, text};
use crate::results::Results;
use crate::shown::known;

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
        ("Instructions counted", instructions(&found)),
    ]
}

/// Kind of counted instructions; in place of the system's error message, its meaning.
fn instructions(found: &Found<'_, Environment>) -> Piece {
    let told = &found.item.instructions;
    let meaning = |number: &str| told.contains(&format!("(os error {number})"));
    if ["1", "13"].into_iter().any(meaning) {
        return "none: this user may not read the processor's counters; `sysctl \
                kernel.perf_event_paranoid=2` or the right CAP_PERFMON allows it"
            .into();
    }
    if told.contains("(os error ") {
        return "none: the processor's counters cannot be read here; a virtual machine has them if \
                its host passes them on (a virtual PMU), a container if its seccomp profile \
                allows perf_event_open"
            .into();
    }
    if told.is_empty() { Piece::Nothing } else { found.text("instructions", told) }
}

/// Machine and settings.
pub(super) fn environment(results: &Results) -> Markup {
    let given = &results.settings;
    let found = Found::at("settings", given);
    let mut rows = match results.environment == Environment::default() {
        true => vec![("Machine", "the server's, which does not say".into())],
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
    let inside = html! {
        p { "The same on every side." }
        dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
        @if let Some(report) = &results.embedded {
            h3 { "Sides" }
            ul class="sides" {
                @for side in each(&report.sides, "embedded/sides") { (library(&side)) }
            }
        }
    };
    folded("environment", "Environment and settings", &inside)
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
            @for fact in known(&side.item.facts, &format!("{}/facts", side.at)) { ", " (fact) }
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
    let inside = html! {
        @if results.embedded.is_some() { (of_sides(results)) }
        @if results.server.is_some() { (super::server::method(results)) }
        @if let Some(matrix) = &results.backup { (super::own::backup_method(matrix)) }
        (again(&results.command))
        p {
            (made(&results.tool, &results.started, results.duration_s))
            ". All that was measured stands in this page's source as JSON, in the element with the \
             id \"results\": the same document as the results file."
        }
    };
    folded("method", "Method, and how to run it again", &inside)
}

fn of_sides(results: &Results) -> Markup {
    let settings = &results.settings;
    html! {
        p {
            "Each block of work runs on every side in random order, directly one after the other; \
             the sides never run at the same time. After some such rounds all processes are \
             started anew on freshly copied files: a restart. Planned were "
            (number("settings/pairs", As::Count, settings.pairs)) " rounds in each of "
            (number("settings/restarts", As::Count, settings.restarts)) " restarts"
            @if settings.stopping.is_some() { " with every class" }
            "; each section says what was measured."
        }
        @if let Some(stopping) = &settings.stopping {
            (until_narrow(&Found::at("settings/stopping", stopping)))
        }
        p {
            "A ratio is the Hodges-Lehmann estimate of the paired log ratios within a restart, \
             averaged over restarts. Its interval is Student's t over the restarts, because pairs \
             of one restart share file layout and placement and are not independent. Of one \
             operation the plain time is a median; the encrypted one is that with the ratio. CPU \
             is that of the measured processes, user and system."
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_cannot_be_read_are_told_in_words() {
        let told = |words: &str| {
            let machine = Environment { instructions: words.to_owned(), ..Environment::default() };
            instructions(&Found::at("environment", &machine)).words()
        };
        let missing = told("not counted: No such file or directory (os error 2)");
        assert!(missing.contains("virtual PMU") && !missing.contains("directory"), "{missing}");
        let denied = told("not counted: Permission denied (os error 13)");
        assert!(denied.contains("perf_event_paranoid") && !denied.contains("denied"), "{denied}");
        assert_eq!(told("user and kernel"), "user and kernel");
        assert_eq!(told(""), "-");
    }
}
