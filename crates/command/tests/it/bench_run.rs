//! `tdekit bench` as a user runs it: the shipped extension against plain SQLite, through the
//! command itself. A run that ends early keeps its measurements; the user's database stays
//! unchanged.

use std::fs;
use std::process::Command;

use crate::bench::{Bench, SMALL, signal, wait_until, whole_blocks};
use crate::common::Run;
use rusqlite::Connection;
use serde_json::Value;

/// Runs until it is interrupted.
const ENDLESS: [&str; 2] = ["--pairs", "1000"];

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let bench = Bench::new();
    let before = bench.app();
    let words = ["app.db", "--experiment", "operations", "--restarts", "2"];
    let mut running = bench.start(words.iter().chain(&ENDLESS));
    bench.wait_for_blocks();
    signal(running.0.id(), "INT");
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    let results = bench.partial("interrupted");
    assert!(
        results["embedded"]["sides"].as_array().unwrap().iter().any(|side| side["id"] == "tdekit")
    );
    assert_eq!(fs::read(bench.path("app.db")).unwrap(), before);
}

#[test]
fn a_killed_worker_leaves_partial_results() {
    let bench = Bench::new();
    let mut running = bench.start(SMALL.iter().chain(&ENDLESS));
    bench.wait_for_blocks();
    let workers = running.children();
    assert!(workers.len() >= 4, "{workers:?}");
    signal(workers[workers.len() - 1], "KILL");
    assert_eq!(running.0.wait().unwrap().code(), Some(1));
    bench.partial("signal: 9");
}

/// Files may grow only to 1.5 MB, and the load mix makes the database larger than that.
#[test]
#[ignore = "full: a bench"]
fn a_full_disk_leaves_partial_results() {
    let bench = Bench::new();
    let words = ["--experiment", "crud", "--mix", "load", "--rows", "10", "--processes", "2"];
    let command = bench
        .command(words.iter().chain(&["--loops", "6", "--synchronous", "off"]).chain(&ENDLESS));
    let mut limited = Command::new("dash");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 3000; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(bench.path(""))
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = Run::of(&limited.output().unwrap());
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("incomplete: side"), "{run:?}");
    bench.partial("");
}

#[test]
fn a_second_terminal_changes_and_stops_a_run() {
    let bench = Bench::new();
    assert!(bench.fails(["--control", "status"]).contains("no bench is running"));
    let mut running = bench.start(SMALL.iter().chain(&ENDLESS));
    bench.wait_for_blocks();
    assert!(bench.ok(["--control", "status"]).out.starts_with("restart 1"));
    assert!(bench.fails(["--control", "set", "mix=1/1/1"]).contains("add up to 10"));
    let answer = bench.ok(["--control", "set", "mix=0/5/5", "delay=5/1ms"]).out;
    assert!(answer.contains("goes on with the mix 0/5/5"), "{answer}");
    // The order is accepted at once; the results must contain a pair after it.
    wait_until("no pair after the change", || {
        let place = bench.ok(["--control", "status"]).out;
        std::thread::sleep(std::time::Duration::from_millis(500));
        bench.ok(["--control", "status"]).out != place
    });
    let process = running.0.id().to_string();
    assert!(bench.ok(["--control", "stop", "--run", &process]).out.contains("stopping"));
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    let results = bench.partial("stopped by `--control stop`");
    let classes: Vec<&str> = results["embedded"]["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| class["id"].as_str().unwrap())
        .collect();
    assert_eq!(classes, ["crud/4-3-3", "crud/0-5-5"]);
    assert!(bench.blocks(&results, "crud/0-5-5", "tdekit") >= 1);
    assert!(bench.fails(["--control", "stop"]).contains("no bench is running"));
}

/// The clock moves in steps of 4 ms, as on a kernel whose best source is its tick.
#[test]
#[ignore = "full: a bench of half a minute"]
fn a_coarse_clock_is_told() {
    let bench = Bench::new();
    let words = ["--quick", "--rows", "200", "--restarts", "2", "--processes", "2"];
    let mut command = bench.command(words);
    let run = Run::of(&command.env("TDEKIT_BENCH_CLOCK_STEP_NS", "4000000").output().unwrap());
    assert_eq!(run.code, 0, "{run:?}");
    let results = bench.results();
    // The smallest step seen; on a busy machine that may be several of them.
    let step = results["environment"]["clock_step_ns"].as_u64().unwrap();
    assert!(step >= 4_000_000 && step.is_multiple_of(4_000_000), "{step}");
    let warnings = results["warnings"].to_string();
    assert!(warnings.contains("moves in steps of"), "{warnings}");
    // If the clock did not tick there is no ratio; if there is one it is a number.
    let comparisons = results["embedded"]["summary"]["comparisons"].as_array().unwrap();
    assert!(!comparisons.is_empty());
    assert!(comparisons.iter().all(|found| found["ratio"].as_f64().is_some_and(|it| it > 0.0)));
}

#[test]
#[ignore = "full: a bench"]
fn every_mix_at_a_rate_with_tables() {
    let bench = Bench::new();
    let words = ["--experiment", "crud", "--mix", "all", "--rows", "60", "--processes", "2"];
    let length = ["--loops", "10", "--restarts", "2", "--pairs", "1", "--rate", "4000"];
    let tables = ["--csv", "ratios.csv", "--csv-blocks", "blocks.csv"];
    bench.ok(words.iter().chain(&length).chain(&tables));
    let results = bench.results();
    assert_eq!(results["embedded"]["cells"].as_array().unwrap().len(), 17);
    assert_eq!(results["settings"]["rate_per_s"], 4000);
    let blocks: Vec<&Value> = whole_blocks(&results).collect();
    assert_eq!(blocks.len(), 17 * 2 * 2);
    // 10 loops of two processes at 4,000 per second: the last is due after 4.5 ms.
    assert!(blocks.iter().all(|block| block["values"]["elapsed"].as_f64().unwrap() >= 4_500_000.0));
    let lines = |name: &str| fs::read_to_string(bench.path(name)).unwrap().lines().count();
    assert_eq!(lines("blocks.csv"), 1 + blocks.len());
    assert!(lines("ratios.csv") > 17 * 2);
    assert_eq!(results["embedded"]["driver"].as_array().unwrap().len(), 17);
    let page = fs::read_to_string(bench.path("report.html")).unwrap();
    assert!(page.contains("What the driver itself costs"));
}

/// 1 s before each 1,000 loops, so each short block of the warm-up has one too.
#[test]
#[ignore = "full: a bench of half a minute"]
fn thinking_takes_its_time() {
    let bench = Bench::new();
    let words = ["--experiment", "crud", "--mix", "10/0/0", "--rows", "60", "--processes", "1"];
    let length = ["--loops", "4", "--restarts", "1", "--pairs", "1", "--think-time", "1000/1s"];
    bench.ok(words.iter().chain(&length));
    let results = bench.results();
    let thinking = &results["settings"]["think_time"];
    assert_eq!((&thinking["every_loops"], &thinking["pause_ms"]), (&1000.into(), &1000.into()));
    for block in whole_blocks(&results) {
        assert!(block["values"]["elapsed"].as_f64().unwrap() >= 1e9, "{block}");
        assert!(block["values"]["cpu"].as_f64().unwrap() < 5e8, "{block}");
    }
    // Think time is not part of an operation's latency.
    for latency in results["embedded"]["latencies"].as_array().unwrap() {
        assert!(latency["max_ns"].as_u64().unwrap() < 1_000_000_000, "{latency}");
    }
}

#[test]
#[ignore = "full: a bench"]
fn a_script_runs_until_it_is_known_or_time_is_up() {
    let bench = Bench::new();
    let before = bench.app();
    fs::write(
        bench.path("my.sql"),
        "SELECT count(*) FROM t; UPDATE t SET v = 'x' WHERE id < 50; DELETE FROM t WHERE id > 900;",
    )
    .unwrap();
    let words = ["app.db", "--script", "my.sql", "--restarts", "2", "--pairs", "1"];
    let run = bench.ok(words.iter().chain(&["--precision", "1%", "--max-time", "4"]));
    assert_eq!(fs::read(bench.path("app.db")).unwrap(), before);
    let results = bench.results();
    assert_eq!(results["embedded"]["statements"].as_array().unwrap().len(), 3);
    let stopping = &results["settings"]["stopping"];
    assert_eq!((&stopping["headline_ppm"], &stopping["all_ppm"]), (&10_000.into(), &10_000.into()));
    // Two restarts practically never determine it to 1 %.
    let told = run.out.contains("The time limit ended the run");
    assert!(told != stopping["reached"].as_bool().unwrap(), "{}", run.out);
}

/// Only root may drop the system's cache; others get a message.
#[test]
#[ignore = "full: a bench of half a minute"]
fn the_whole_cache_is_dropped_by_those_who_may() {
    let bench = Bench::new();
    bench.app();
    let words = ["app.db", "--experiment", "operations", "--quick", "--restarts", "1"];
    let words = words.iter().chain(&["--drop-caches"]);
    let may = fs::OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches").is_ok();
    if !may {
        assert!(bench.fails(words).contains("--drop-caches"));
        return;
    }
    bench.ok(words);
    let results = bench.results();
    assert_eq!(results["settings"]["drop_caches"], true);
    assert!(bench.blocks(&results, "operations/select/cold", "tdekit") >= 1);
}

#[test]
fn two_runs_are_compared_and_a_page_is_left() {
    let bench = Bench::new();
    for name in ["old.json", "new.json"] {
        bench.ok(SMALL.iter().chain(&["--restarts", "2", "--pairs", "1", "--json", name]));
    }
    let table = bench.ok(["compare", "old.json", "new.json"]).out;
    assert!(table.contains("mix 4/3/3") && table.contains("comparison-"), "{table}");
    let page = fs::read_to_string(bench.path("comparison.html")).unwrap();
    let document = fs::read_to_string(bench.path("comparison.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(crate::bench::embedded(&page), document);
    assert_eq!(document["command"], "tdekit bench compare old.json new.json");
    let printed = bench.ok(["compare", "old.json", "new.json", "--json"]).out;
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["changes"], document["changes"]);
    let page = bench.path("not there/x.html").display().to_string();
    let told = bench.fails(["compare", "old.json", "new.json", "--html", &page]);
    assert!(told.contains(&page), "{told}");
}

/// A name that is not Unicode, quotes and spaces: it is a file like any other.
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_any_name_is_priced() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    bench.app();
    let odd = std::ffi::OsStr::from_bytes(b"it's \"odd\" \xff?#%.db");
    fs::rename(bench.path("app.db"), bench.path("").join(odd)).unwrap();
    let mut command = bench.command(["--experiment", "scans", "--quick", "--restarts", "1"]);
    let run = Run::of(&command.arg(odd).output().unwrap());
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(bench.results()["embedded"]["cells"].as_array().unwrap().len(), 3);
    let state: String = Connection::open(bench.path("").join(odd))
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(state, "ok");
}

/// SQLite's own program, on a side that encrypts and on one that does not.
#[test]
#[ignore = "full: compiles speedtest1"]
fn speedtest1_runs_on_both_sides() {
    let bench = Bench::with_system_library();
    let words = ["--experiment", "speedtest1", "--speedtest-size", "1", "--rows", "10"];
    bench.ok(words.iter().chain(&["--restarts", "2"]));
    let results = bench.results();
    let cells = results["embedded"]["cells"].as_array().unwrap();
    let ids: Vec<_> = cells.iter().map(|cell| cell["id"].as_str().unwrap()).collect();
    let rows = ["rollback", "rollback-200", "wal", "wal-200"];
    assert_eq!(ids, rows.map(|row| format!("speedtest1/{row}")));
    let runs = results["embedded"]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 4, "a run of each side in each restart");
    assert!(Bench::new().fails(words).contains("needs a shared library"));
}
