//! A workload crashed at every operation, by a kill and by a power cut, in every journal mode.

use tdekit_faults_sqlite::crash::{Effort, Model, Recording, Report};
use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::ledger::{Config, Journal, Synchronous};
use tdekit_faults_sqlite::matrix;
use tdekit_faults_sqlite::top::Top;

fn check(top: Top, journal: Journal) {
    let mut configs = matrix::configs(top, journal);
    if let Ok(only) = std::env::var("TDEKIT_FAULTS_ONLY") {
        configs.retain(|config| config.to_string().contains(&only));
    }
    let report = matrix::run(&configs, Effort::from_environment()).unwrap();
    println!(
        "{top} {journal:?}: {} configurations, {} operations, {} crashes, {} states opened, {} \
         of them recovered, {} crashes in recovery, {} failures",
        configs.len(),
        report.operations,
        report.crashes,
        report.opened,
        report.recovered,
        report.second_crashes,
        report.failures.len()
    );
    if let Some(log) = std::env::var_os("TDEKIT_FAULTS_LOG") {
        let name = format!("{top}-{journal:?}.log");
        std::fs::write(std::path::Path::new(&log).join(name), report.failures.join("\n")).unwrap();
    }
    // Without this, a suite that crashed nothing would pass too.
    let (recovered, second) = by_form((100, 5), (500, 50), (500, 50));
    assert!(report.recovered > recovered && report.second_crashes > second, "{report:?}");
    let shown: Vec<_> = report.failures.iter().take(20).collect();
    assert!(shown.is_empty(), "{} failures: {shown:#?}", report.failures.len());
}

#[test]
fn plain_delete() {
    check(Top::Plain, Journal::Delete);
}

#[test]
#[ignore = "full: the harness is checked with three modes"]
fn plain_truncate() {
    check(Top::Plain, Journal::Truncate);
}

#[test]
#[ignore = "full: the harness is checked with three modes"]
fn plain_persist() {
    check(Top::Plain, Journal::Persist);
}

#[test]
fn plain_wal() {
    check(Top::Plain, Journal::Wal);
}

#[test]
fn tdekit_delete() {
    check(Top::Tdekit, Journal::Delete);
}

#[test]
fn tdekit_truncate() {
    check(Top::Tdekit, Journal::Truncate);
}

#[test]
fn tdekit_persist() {
    check(Top::Tdekit, Journal::Persist);
}

#[test]
fn tdekit_wal() {
    check(Top::Tdekit, Journal::Wal);
}

#[test]
fn fresh_delete() {
    check(Top::Fresh, Journal::Delete);
}

#[test]
#[ignore = "full: the journal that is deleted stands for it"]
fn fresh_truncate() {
    check(Top::Fresh, Journal::Truncate);
}

#[test]
fn fresh_persist() {
    check(Top::Fresh, Journal::Persist);
}

#[test]
fn fresh_wal() {
    check(Top::Fresh, Journal::Wal);
}

/// A database that never syncs but claims that it did must be caught, with both kinds of journal.
#[test]
fn a_missing_sync_is_found() {
    for journal in [Journal::Delete, Journal::Wal] {
        let config = Config {
            top: Top::Plain,
            journal,
            synchronous: Synchronous::Off,
            page_size: 4096,
            spill: false,
            databases: 1,
            transactions: 6,
        };
        let directory = matrix::scratch().unwrap();
        let mut recording = Recording::make(config, 3, directory.path()).unwrap();
        recording.config.synchronous = Synchronous::Full;
        let mut report = Report::default();
        recording.crash_everywhere(Model::Power, Effort::FULL, &mut report).unwrap();
        assert!(report.failures.len() > 10, "{journal:?}: {} failures", report.failures.len());
    }
}
