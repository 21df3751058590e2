//! A full disk and failing calls at every call of a transaction.

use tdekit_faults_sqlite::inject::{self, FULL, IOERR_FSYNC, Report, Room};
use tdekit_faults_sqlite::ledger::{self, Config, Journal, Synchronous};
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::record::{FaultKind, FaultPlan, Recorder, Role};
use tdekit_faults_sqlite::top::Top;

fn run(top: Top, journal: Journal) {
    let mut total = Report::default();
    for spill in [false, true] {
        for plan in inject::plans() {
            let config = Config {
                top,
                journal,
                synchronous: Synchronous::Full,
                page_size: 4096,
                spill,
                databases: 1,
                transactions: 0,
            };
            let directory = scratch().unwrap();
            let mut report = Report::default();
            inject::run(&config, &plan, Room::Before, directory.path(), &mut report).unwrap();
            println!(
                "{config} {:?} code {} sticky {} written {} %: {} trials, {} fired, \
                 {} refused, {} failures",
                plan.kind,
                plan.code,
                plan.sticky,
                plan.written_percent,
                report.trials,
                report.fired,
                report.refused,
                report.failures.len()
            );
            total.trials += report.trials;
            total.fired += report.fired;
            total.refused += report.refused;
            total.failures.extend(report.failures);
        }
    }
    assert!(total.fired > 15 && total.refused > 10, "{total:?}");
    assert!(total.failures.is_empty(), "{:#?}", total.failures);
}

#[test]
fn plain_delete() {
    run(Top::Plain, Journal::Delete);
}

#[test]
fn plain_truncate() {
    run(Top::Plain, Journal::Truncate);
}

#[test]
fn plain_persist() {
    run(Top::Plain, Journal::Persist);
}

#[test]
fn plain_wal() {
    run(Top::Plain, Journal::Wal);
}

#[test]
fn beside_delete() {
    run(Top::Beside, Journal::Delete);
}

#[test]
fn beside_wal() {
    run(Top::Beside, Journal::Wal);
}

#[test]
fn tdekit_delete() {
    run(Top::Tdekit, Journal::Delete);
}

#[test]
fn tdekit_truncate() {
    run(Top::Tdekit, Journal::Truncate);
}

#[test]
fn tdekit_persist() {
    run(Top::Tdekit, Journal::Persist);
}

#[test]
fn tdekit_wal() {
    run(Top::Tdekit, Journal::Wal);
}

#[test]
fn fresh_delete() {
    run(Top::Fresh, Journal::Delete);
}

#[test]
fn fresh_wal() {
    run(Top::Fresh, Journal::Wal);
}

/// With the journal in memory only the rollback itself moves the anchor: a failure there occurs
/// again when SQLite retries, and does not leave a database that refuses itself.
#[test]
fn fresh_memory_rolls_back() {
    for (kind, code) in [(FaultKind::Write, FULL), (FaultKind::Sync, IOERR_FSYNC)] {
        let config = Config {
            top: Top::Fresh,
            journal: Journal::Memory,
            synchronous: Synchronous::Full,
            page_size: 4096,
            spill: true,
            databases: 1,
            transactions: 0,
        };
        let directory = scratch().unwrap();
        let recorder = Recorder::attach(directory.path());
        let db = config.open_for_work(directory.path()).unwrap();
        ledger::create(&db, &config, || db.run("COMMIT")).unwrap();
        db.run(
            "INSERT INTO items(n, body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 \
             FROM n WHERE i < 200) SELECT i, zeroblob(500) FROM n",
        )
        .unwrap();
        let before = ledger::digests(&db, &config).unwrap();
        db.run("BEGIN; UPDATE items SET body = randomblob(500)").unwrap();
        recorder.arm(FaultPlan {
            kind,
            role: Some(Role::Seals),
            growing: false,
            nth: 0,
            code,
            sticky: false,
            written_percent: 0,
        });
        let rolled_back = db.run("ROLLBACK");
        assert_eq!(recorder.disarm(), 1, "{kind:?}: {rolled_back:?}");
        drop(db);
        let other = config.open(directory.path()).unwrap();
        ledger::check_integrity(&other, &config).unwrap();
        assert_eq!(ledger::digests(&other, &config).unwrap(), before, "{kind:?}");
    }
}
