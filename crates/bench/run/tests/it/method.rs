//! The method end to end, through its program: runs that end by their intervals, calibration,
//! orders to a running test, scripts, comparison of two runs, tables.

use crate::common::{ENDLESS, Place, Running, done, refused, signal, text, wait_until};
use rusqlite::Connection;
use tdekit_bench_report::{Calibration, Experiment, Metric, Results, Truth};

/// Options that make any run of the mixes short.
const SMALL: &str = "--experiment crud --rows 200 --processes 2 --loops 100";

fn app(place: &Place) -> Vec<u8> {
    let path = place.path("app.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
             WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2000)
             INSERT INTO t SELECT i, 'row ' || i FROM c;",
        )
        .unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn restarts_go_on_until_the_intervals_are_narrow() {
    let place = Place::new();
    let line = format!(
        "{SMALL} --mix 4/3/3 --restarts 3 --pairs 1 --precision 100% --max-time 60 --csv r.csv \
         --csv-blocks b.csv"
    );
    let table = done(&mut place.command(&line));
    let results = place.results();
    let stopping = results.settings.stopping.unwrap();
    assert_eq!((stopping.first_restarts, stopping.all_ppm), (3, Some(1_000_000)));
    let report = results.embedded.as_ref().unwrap();
    let head = report.summary.headline(Metric::Cpu, "control", "base").unwrap();
    let width = head.high.unwrap() / head.low.unwrap();
    if stopping.reached {
        assert!(head.restarts >= 3 && width <= 4.000_001, "{head:?}");
        assert!(table.contains("+-100 % on all: reached"), "{table}");
    } else {
        // On an extremely busy machine.
        assert!(table.contains("The time limit ended the run"), "{table}");
    }
    // Every loop of every block was timed, and the driver's share was determined.
    let [base, control] = report.latencies.as_slice() else { panic!("{:?}", report.latencies) };
    assert_eq!(base.operations, 200 * report.summary.totals("crud/4-3-3", "base").unwrap().blocks);
    assert_eq!(base.operations, control.operations);
    let [driver] = report.driver.as_slice() else { panic!("{:?}", report.driver) };
    assert!(driver.share > 0.0 && driver.share < 1.0, "{driver:?}");
    assert!(results.noise.is_some() && results.environment.clock_step_ns > 0);
    let blocks = std::fs::read_to_string(place.path("b.csv")).unwrap();
    assert_eq!(blocks.lines().count(), 1 + report.runs.len());
    let ratios = std::fs::read_to_string(place.path("r.csv")).unwrap();
    assert!(ratios.contains("headline,CRUD mix 4/3/3,,CPU,control,base,"), "{ratios}");
}

#[test]
fn a_rate_is_kept_and_thinking_takes_its_time() {
    let place = Place::new();
    let run = |line: &str| {
        let line = format!("{SMALL} --mix 10/0/0 --restarts 1 --pairs 1 {line}");
        done(&mut place.command(&line));
        place.results()
    };
    let all_last = |results: &Results, least_ns: f64| {
        let runs = &results.embedded.as_ref().unwrap().runs;
        runs.iter().all(|run| run.value(Metric::Elapsed).unwrap() >= least_ns)
    };
    let results = run("--rate 1000");
    // 100 loops of two processes at 1,000 a second: the last is due after 198 ms.
    assert!(all_last(&results, 198e6));
    assert!(results.warnings.iter().any(|warning| warning.contains("fixed rate")));
    let results = run("--think-time 10/5ms");
    assert!(all_last(&results, 50e6));
    let latencies = results.embedded.unwrap().latencies;
    assert!(latencies.iter().all(|latency| latency.p50_ns < 5_000_000));
}

#[test]
#[ignore = "full: a bench"]
fn a_running_test_is_changed_and_stopped() {
    let place = Place::new();
    let ask = |words: &str| text(&place.bare(&format!("--control {words}")).output().unwrap());
    assert!(ask("status").1.contains("no bench is running"));
    let mut child = Running(place.command(ENDLESS).args(["--restarts", "1"]).spawn().unwrap());
    place.wait_for_blocks();
    assert!(ask("status").0.starts_with("restart 1"));
    let (_, refused) = ask("set mix=9/9/9");
    assert!(refused.contains("add up to 10"), "{refused}");
    let (answer, errors) = ask("set mix=2/4/4 delay=5/1ms");
    assert!(answer.contains("goes on with the mix 2/4/4"), "{answer}{errors}");
    // A whole pair after the change.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (answer, errors) = ask(&format!("stop --run {}", child.0.id()));
    assert!(answer.contains("stopping"), "{answer}{errors}");
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let results = place.results();
    assert_eq!(results.incomplete, ["stopped by `--control stop`"]);
    let report = results.embedded.as_ref().unwrap();
    let ids: Vec<&str> = report.cells.iter().map(|class| class.id.as_str()).collect();
    assert_eq!(ids, ["crud/4-3-3", "crud/2-4-4"]);
    for id in ids {
        for side in ["base", "control"] {
            let blocks = report.summary.totals(id, side).map(|totals| totals.blocks);
            assert!(blocks >= Some(1), "{id} {side}");
        }
    }
    assert!(results.warnings.iter().any(|note| note.contains("`--control` set the mix 2/4/4")));
    // 20 loops with a millisecond of thinking every 5, on both sides.
    let mut slow = report.runs.iter().filter(|run| run.cell == "crud/2-4-4");
    assert!(slow.all(|run| run.value(Metric::Elapsed).unwrap() >= 4e6));
    assert_eq!(place.names("copies"), Vec::<String>::new());
    assert!(ask("stop").1.contains("no bench is running"));
}

#[test]
fn calibration_counts_intervals_and_keeps_what_it_has() {
    let place = Place::new();
    let line = "--calibrate --seconds 1 --restarts 2 --rows 200 --runs";
    let table = done(place.library(line).arg("2"));
    assert!(table.contains("2 of 2 runs") && table.contains("+3.00 %"), "{table}");
    let read = || -> Calibration {
        let document = std::fs::read_to_string(place.path("calibration.json")).unwrap();
        serde_json::from_str(&document).unwrap()
    };
    let found = read();
    assert_eq!((found.runs_wanted, found.incomplete.len()), (2, 0));
    assert!(found.noise.is_some());
    // The slowed base really paid. Its CPU is its own; its time includes that of others on a busy
    // machine.
    assert!((0.025..0.04).contains(&found.added_cpu), "{}", found.added_cpu);
    assert!(found.added_elapsed > 0.02, "{}", found.added_elapsed);
    let page = std::fs::read_to_string(place.path("calibration.html")).unwrap();
    assert!(page.contains("promise") && page.contains("class=\"bands\""), "{page}");
    // Headline and two mixes, elapsed time and CPU, both truths.
    assert_eq!((found.intervals.len(), found.rows.len()), (2 * 12, 12));
    for truth in [Truth::Nothing, Truth::Injected] {
        assert!(found.rows.iter().any(|row| row.truth == truth && row.runs == 2));
    }
    let mut command = place.library(line);
    let mut child = Running(command.args(["1000", "--json", "long.json"]).spawn().unwrap());
    wait_until("the first run does not end", || place.path("long.json").exists());
    signal(child.0.id().cast_signed(), "INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let document = std::fs::read_to_string(place.path("long.json")).unwrap();
    let found: Calibration = serde_json::from_str(&document).unwrap();
    assert_eq!(found.incomplete, ["interrupted"]);
    assert!(!found.intervals.is_empty());
    assert_eq!(place.names("copies"), Vec::<String>::new());
}

#[test]
fn a_script_is_priced_on_copies() {
    for journal_mode in ["wal", "delete"] {
        let place = Place::new();
        let before = app(&place);
        let script = "SELECT count(*) FROM t; -- a comment; with a semicolon\n\
            BEGIN; INSERT INTO t(v) VALUES ('a;b'); COMMIT;\n\
            CREATE TABLE u AS SELECT * FROM t; DELETE FROM t WHERE id % 2";
        std::fs::write(place.path("my.sql"), script).unwrap();
        let line = "app.db --script my.sql --restarts 2 --pairs 1 --journal-mode";
        let table = done(place.command(line).arg(journal_mode));
        assert!(table.contains("over your statements"), "{table}");
        assert_eq!(std::fs::read(place.path("app.db")).unwrap(), before);
        let results = place.results();
        let report = results.embedded.as_ref().unwrap();
        assert_eq!(report.statements.len(), 6);
        assert_eq!(report.cells.len(), 7);
        assert!(report.cells.iter().all(|class| class.experiment == Experiment::Script));
        for id in ["script/all", "script/1", "script/6"] {
            let found = report.summary.comparison(id, Metric::Elapsed, "control", "base");
            assert_eq!(found.unwrap().restarts, 2, "{id}");
        }
        // If the rows were not restored, later repetitions would delete none.
        let writes =
            report.summary.totals("script/6", "base").unwrap().median(Metric::PagesWritten);
        assert!(writes >= 1.0, "{writes}");
        assert_eq!(place.names("copies"), Vec::<String>::new());
    }
    let place = Place::new();
    app(&place);
    for (script, reason) in [
        ("SELECT 1; SELECT * FROM missing;", "statement 2 of the script: no such table: missing"),
        ("SELECT * FROM t WHERE id = ?1", "statement 1 of the script has parameters"),
        ("ATTACH 'app.db' AS real", "another file"),
    ] {
        std::fs::write(place.path("my.sql"), script).unwrap();
        let errors = refused(&mut place.command("app.db --script my.sql"));
        assert!(errors.contains(reason), "{errors}");
    }
}

#[test]
fn two_runs_are_compared() {
    let place = Place::new();
    for name in ["old.json", "new.json"] {
        let line = format!("{SMALL} --mix 10/0/0 --restarts 2 --pairs 1 --json {name}");
        done(&mut place.command(&line));
    }
    let table = done(&mut place.bare("compare old.json new.json"));
    assert!(table.contains("read 10/0/0") && table.contains("base against base"), "{table}");
    let page = std::fs::read_to_string(place.path("comparison.html")).unwrap();
    assert!(page.contains("Did the cost of encryption change?"), "{page}");
    let output = place.bare("compare old.json new.json --json").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["changes"].as_array().unwrap().len(), 4);
    let errors = refused(&mut place.bare("compare"));
    assert!(errors.contains("no two documents"), "{errors}");
    assert_eq!(place.bare("compare old.json").output().unwrap().status.code(), Some(2));
    for (name, day) in [("old.json", 1), ("new.json", 2)] {
        let named = place.path(&format!("results-2026-01-0{day}-000000.json"));
        std::fs::rename(place.path(name), named).unwrap();
    }
    // Each comparison has files of its own, and the short name leads to the last one.
    let costs = |printed: &str| printed.split("\nReport: ").next().unwrap().to_owned();
    let again = done(&mut place.bare("compare"));
    assert!(costs(&again) == costs(&table) && again != table, "{again}");
    assert!(place.path("comparison.html").is_symlink());
    std::fs::write(place.path("bad.json"), "{}").unwrap();
    let old = "results-2026-01-01-000000.json";
    let errors = refused(&mut place.bare(&format!("compare {old} bad.json")));
    assert!(errors.contains("bad.json: not a results document"), "{errors}");
}
