//! A full disk at every write of a transaction, compared with stock SQLite.

use tdekit_faults_sqlite::form::by_form;
use tdekit_faults_sqlite::inject::{self, Report, Room};
use tdekit_faults_sqlite::ledger::{Config, Journal, Synchronous};
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::record::FaultPlan;
use tdekit_faults_sqlite::top::Top;

fn levels() -> Vec<Synchronous> {
    let all = [Synchronous::Full, Synchronous::Off, Synchronous::Normal, Synchronous::Extra];
    all[..by_form(1, 3, 4)].to_vec()
}

/// Number of combinations for a journal mode with a log on disk: the levels, 2 caches, 12 plans, 2
/// ends.
fn all() -> u32 {
    48 * by_form(1, 3, 3)
}

fn run(config: Config, plan: &FaultPlan, room: Room) -> Report {
    let directory = scratch().unwrap();
    let mut report = Report::default();
    inject::run(&config, plan, room, directory.path(), &mut report).unwrap();
    report
}

/// In each combination we keep everything that stock SQLite keeps: all committed data and no other,
/// in a whole database. Returns the number of combinations in which stock SQLite did.
fn beside_stock(journal: Journal) -> u32 {
    let (kept, failures) = compare(journal);
    assert!(failures.is_empty(), "{} failures: {:#?}", failures.len(), failures);
    kept
}

/// Returns the number of combinations in which stock SQLite passed, and those among them in which
/// we did not.
fn compare(journal: Journal) -> (u32, Vec<String>) {
    let (mut kept, mut fired, mut failures) = (0, 0, Vec::new());
    for synchronous in levels() {
        for spill in [false, true] {
            for plan in inject::full_disk_plans(journal) {
                for room in [Room::Before, Room::AfterClosing] {
                    let config = |top| Config {
                        top,
                        journal,
                        synchronous,
                        page_size: 4096,
                        spill,
                        databases: 1,
                        transactions: 0,
                    };
                    let stock = run(config(Top::Plain), &plan, room);
                    let ours = run(config(Top::Tdekit), &plan, room);
                    fired += ours.fired;
                    if stock.failures.is_empty() {
                        kept += 1;
                        failures.extend(ours.failures);
                    }
                }
            }
        }
    }
    println!("{journal:?}: stock stood {kept} combinations, {fired} writes failed");
    assert!(fired > by_form(30, 100, 100), "{fired}");
    (kept, failures)
}

#[test]
fn delete() {
    assert!(beside_stock(Journal::Delete) >= all());
}

#[test]
#[ignore = "full: the journal that is deleted stands for it"]
fn truncate() {
    assert!(beside_stock(Journal::Truncate) >= all());
}

#[test]
fn persist() {
    assert!(beside_stock(Journal::Persist) > 0);
}

#[test]
fn wal() {
    assert!(beside_stock(Journal::Wal) >= all());
}

/// Stock SQLite undoes a transaction from memory as long as it can overwrite existing data.
#[test]
fn memory() {
    assert!(beside_stock(Journal::Memory) > 0);
}

/// Without a journal a failed transaction is not undone, and the result depends on which of its
/// pages were written: SQLite promises nothing here, and we promise only that the calls return.
#[test]
fn off() {
    let (kept, failures) = compare(Journal::Off);
    println!("{} of the {kept} that stock stood were not whole", failures.len());
}
