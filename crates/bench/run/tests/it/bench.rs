//! The bench end to end, through its program: reports, cleanup, and the data kept if a run does not
//! complete. Base against base, so that only SQLite is needed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{ENDLESS, PROGRAM, Place, done, embedded, refused, signal, text, wait_until};
use rusqlite::Connection;
use tdekit_bench_report::{Metric, from_json};

fn workers(parent: &Child) -> Vec<i32> {
    let id = parent.id();
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<i32>>()
        })
        .collect()
}

#[test]
fn a_quick_run_reports_and_cleans_up() {
    let place = Place::new();
    let table = done(&mut place.command("--quick --rows 2000 --restarts 2 --seed 3"));
    assert!(table.contains("the true overhead is 0 %"), "{table}");
    assert_eq!(place.names("copies"), Vec::<String>::new());
    let names = [
        "copies",
        "report-TIME.html",
        "report.html",
        "results-TIME.json",
        "results.json",
        "tdekit-bench",
    ];
    assert_eq!(place.names("."), names);

    let results = place.results();
    assert_eq!(results.incomplete, Vec::<String>::new());
    assert!(results.control && results.subject.generated);
    let report = results.embedded.as_ref().unwrap();
    assert_eq!(report.cells.len(), 4 + 2 * 6 + 3);
    for class in &report.cells {
        let found = report.summary.comparison(&class.id, Metric::Elapsed, "control", "base");
        let found = found.unwrap_or_else(|| panic!("{} was not compared", class.id));
        assert_eq!(found.restarts, 2, "{}", class.id);
        assert!(found.low.unwrap() <= found.ratio && found.ratio <= found.high.unwrap());
    }
    // Base and control do the same work, page by page.
    for operation in ["select", "insert", "update", "delete"] {
        let pages = |side| {
            let totals =
                report.summary.totals(&format!("operations/{operation}/warm"), side).unwrap();
            (totals.values[&Metric::PagesRead].median, totals.values[&Metric::PagesWritten].median)
        };
        assert_eq!(pages("base"), pages("control"), "{operation}");
    }
    assert_eq!(embedded(&place.path("report.html")), results);
}

#[test]
#[ignore = "full: a bench"]
fn the_users_database_is_only_read() {
    let place = Place::new();
    let database = place.path("app.db");
    Connection::open(&database)
        .unwrap()
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, n INTEGER);
             CREATE INDEX t_v ON t(v);
             WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
             INSERT INTO t SELECT i, hex(randomblob(20)), i FROM c;",
        )
        .unwrap();
    let before = std::fs::read(&database).unwrap();
    let table = done(&mut place.command("--quick app.db --restarts 2"));
    assert!(table.contains("app.db"), "{table}");
    assert_eq!(std::fs::read(&database).unwrap(), before);
    let results: Vec<_> =
        place.names(".").into_iter().filter(|name| name.starts_with("re")).collect();
    assert_eq!(results, ["report-TIME.html", "report.html", "results-TIME.json", "results.json"]);
    let report = place.results().embedded.unwrap();
    assert_eq!(report.statements.len(), 10 + 5 + 8 + 5 + 1);
    assert!(report.cells.iter().all(|class| !class.id.starts_with("crud/")));
}

#[test]
fn json_to_standard_output_replaces_the_table() {
    let place = Place::new();
    let document = done(&mut place.command("--quick --experiment scans --rows 100 --json -"));
    assert_eq!(from_json(&document).unwrap().embedded.unwrap().cells.len(), 3);
    assert!(!place.path("results.json").exists());
}

#[test]
fn a_killed_worker_leaves_partial_results() {
    let place = Place::new();
    let mut child = place.command(ENDLESS).spawn().unwrap();
    place.wait_for_blocks();
    let workers = workers(&child);
    assert!(workers.len() >= 4, "{workers:?}");
    signal(workers[0], "KILL");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    partial(&place, "signal: 9");
    for worker in workers {
        assert!(!Path::new(&format!("/proc/{worker}")).exists(), "worker {worker} is left");
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let place = Place::new();
    let mut child = place.command(ENDLESS).spawn().unwrap();
    place.wait_for_blocks();
    signal(child.id().cast_signed(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    partial(&place, "interrupted");
}

#[test]
fn an_early_interrupt_cleans_up_too() {
    let place = Place::new();
    let mut child = place.command("--rows 1000000").spawn().unwrap();
    wait_until("no copy is made", || !place.names("copies").is_empty());
    signal(child.id().cast_signed(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.names("copies"), Vec::<String>::new());
    assert!(!place.path("results.json").exists());
}

/// Files may grow to 1.5 MB only; the load mix eventually makes the database larger than that.
#[test]
#[ignore = "full: a bench"]
fn a_full_disk_leaves_partial_results() {
    let place = Place::new();
    let mut words = vec!["trap '' XFSZ; ulimit -f 3000; exec \"$0\" \"$@\"".to_owned()];
    words.push(PROGRAM.to_owned());
    let bench = place.command(
        "--experiment crud --mix load --rows 10 --processes 2 --loops 6 --pairs 1000 --synchronous \
         off",
    );
    words.extend(bench.get_args().map(|word| word.to_str().unwrap().to_owned()));
    let output = Command::new("dash")
        .arg("-c")
        .args(&words)
        .current_dir(place.directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (table, errors) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(table.contains("incomplete: side"), "{table}");
    partial(&place, "disk");
}

fn partial(place: &Place, reason: &str) {
    let runs = place.partial(reason).embedded.unwrap().runs.len();
    assert!(runs >= 2, "{runs}");
}

#[test]
fn what_cannot_be_benched_is_named() {
    let place = Place::new();
    std::fs::write(place.path("x.db"), [7_u8; 8192]).unwrap();
    let errors = refused(&mut place.command("x.db"));
    assert!(errors.contains("error: x.db is not a plain SQLite database"), "{errors}");
    assert!(errors.contains("hint: "), "{errors}");
    assert!(!place.path("results.json").exists());

    let missing = place.path("not there");
    let errors = refused(place.command("--peer sqlcipher").env("TDEKIT_PEERS", missing));
    assert!(errors.contains("hint: tdekit bench peers install sqlcipher"), "{errors}");

    Connection::open(place.path("bare.db")).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    let errors = refused(&mut place.command("bare.db"));
    assert!(errors.contains("no table that statements could be derived from"), "{errors}");
    assert_eq!(place.names("copies"), Vec::<String>::new());
}
