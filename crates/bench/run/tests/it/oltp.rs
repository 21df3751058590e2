//! The OLTP workloads on SQLite, with our own driver. Base against base, so that only SQLite is
//! needed.

use crate::common::{Place, done, embedded};
use tdekit_bench_report::{Metric, Report};

fn run(place: &Place, line: &str) -> Report {
    let line = format!("--experiment oltp --tables 2 --rows 400 --block-time 1 {line}");
    let table = done(&mut place.command(&line));
    assert!(table.contains("own driver") && table.contains("The bench's own share"), "{table}");
    let results = place.results();
    assert_eq!(results.incomplete, Vec::<String>::new());
    assert_eq!(place.names("copies"), Vec::<String>::new());
    assert_eq!(embedded(&place.path("report.html")), results);
    results.oltp.unwrap()
}

#[test]
fn all_eight_workloads_and_the_scan_run_on_sqlite() {
    let place = Place::new();
    let oltp = run(&place, "--workload all --threads 1 --restarts 1");
    assert_eq!((oltp.text("target"), oltp.cells.len()), ("sqlite", 9));
    assert_eq!(oltp.runs.len(), 2 * 9);
    for run in &oltp.runs {
        let cell = oltp.cells.iter().find(|cell| cell.id == run.cell).unwrap();
        let of = |metric| run.value(metric).unwrap_or_else(|| panic!("{metric:?} of {run:?}"));
        assert!(of(Metric::Transactions) > 0.0 && of(Metric::Cpu) > 0.0, "{run:?}");
        let each = match cell.axis("workload") {
            "oltp_read_only" => 16.0,
            "oltp_read_write" => 20.0,
            "oltp_write_only" => 6.0,
            _ => 1.0,
        };
        if cell.unit == "page" {
            continue;
        }
        let statements = of(Metric::Transactions) * each;
        assert!((of(Metric::Queries) - statements).abs() < 0.5, "{}", run.cell);
        let (median, tail) = (of(Metric::MedianLatency), of(Metric::TailLatency));
        assert!(median > 0.0 && median <= tail, "{run:?}");
        // The driver's own loop is a part of the process's CPU.
        assert!(of(Metric::OwnCpu) > 0.0 && of(Metric::OwnCpu) < of(Metric::Cpu), "{run:?}");
    }
    let all = oltp.summary.pooled("all", Metric::Throughput, "control", "base").unwrap();
    assert_eq!(all.cells.len(), 8, "the scan is a question of its own");
}

/// Several processes write to one database: they wait for each other, and nothing is lost.
#[test]
#[ignore = "full: a bench"]
fn processes_share_a_database() {
    let place = Place::new();
    let oltp = run(&place, "--workload oltp_read_write --threads 1,3 --restarts 2");
    assert_eq!(oltp.runs.len(), 2 * 2 * 2);
    for threads in [1, 3] {
        let cell = format!("oltp_read_write/{threads}");
        let ratio = oltp.summary.comparison(&cell, Metric::CpuEach, "control", "base").unwrap();
        assert_eq!(ratio.restarts, 2, "{cell}");
        assert!(ratio.low.unwrap() <= ratio.ratio && ratio.ratio <= ratio.high.unwrap());
    }
}
