//! A failing call on each kind of file within a transaction that continues: plain SQLite, plain
//! with the extension loaded, encrypted, and encrypted with freshness, each compared with the
//! others.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tdekit_faults_sqlite::differential::survive;
use tdekit_faults_sqlite::ffi::api::LIBRARY_VARIABLE;
use tdekit_faults_sqlite::form::{Form, by_form, exhaustive};
use tdekit_faults_sqlite::inject::{FULL, IOERR_FSYNC, IOERR_READ, IOERR_TRUNCATE};
use tdekit_faults_sqlite::ledger::{Config, Journal, Synchronous};
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::record::{FaultKind, FaultPlan, Role};
use tdekit_faults_sqlite::statement::{End, Report, Scene};
use tdekit_faults_sqlite::top::Top;

/// Returns each kind of call on each kind of file, failing once and permanently.
fn plans() -> impl Iterator<Item = FaultPlan> {
    let kinds = [
        (FaultKind::Write, FULL),
        (FaultKind::Read, IOERR_READ),
        (FaultKind::Truncate, IOERR_TRUNCATE),
        (FaultKind::Sync, IOERR_FSYNC),
    ];
    let plan = |(kind, code), role, sticky| FaultPlan {
        kind,
        role: Some(role),
        growing: false,
        nth: 0,
        code,
        sticky,
        written_percent: 0,
    };
    kinds.into_iter().flat_map(move |kind| {
        Role::ALL
            .into_iter()
            .flat_map(move |role| [false, true].map(|sticky| plan(kind, role, sticky)))
    })
}

/// The actions of an application after a fault. In the short form it commits after a single fault,
/// and rolls back after a lasting one.
fn ends(plan: &FaultPlan) -> &'static [End] {
    match (exhaustive(), plan.sticky) {
        (true, _) => &[End::Commit, End::Rollback],
        (false, false) => &[End::Commit],
        (false, true) => &[End::Rollback],
    }
}

fn scene(top: Top, journal: Journal, page_size: u32, directory: &Path) -> Scene {
    let config = Config {
        top,
        journal,
        synchronous: Synchronous::Full,
        page_size,
        spill: true,
        databases: 1,
        transactions: 0,
    };
    Scene::make(config, directory).unwrap()
}

/// Runs each plan with each of the application's actions, and returns the reports.
fn run(scene: &Scene) -> Vec<(FaultPlan, Report)> {
    let each = by_form(3, 6, 40);
    let mut reports = Vec::new();
    for plan in plans() {
        for &end in ends(&plan) {
            let mut report = Report::default();
            scene.run(&plan, each, end, &mut report);
            reports.push((plan.clone(), report));
        }
    }
    reports
}

/// Where stock SQLite keeps its promises, each of our layers does; and statements that only read
/// are not refused because of a write.
fn beside_stock(journal: Journal, page_size: u32) {
    let directory = scratch().unwrap();
    let stock = run(&scene(Top::Plain, journal, page_size, directory.path()));
    let tops = [Top::Beside, Top::Tdekit, Top::Fresh];
    for top in tops {
        let directory = scratch().unwrap();
        let ours = run(&scene(top, journal, page_size, directory.path()));
        let (mut met, mut roles, mut failures) = (0, BTreeSet::new(), Vec::new());
        for ((plan, ours), (_, theirs)) in ours.into_iter().zip(&stock) {
            met += ours.met;
            roles.extend(ours.roles);
            if theirs.failures.is_empty() {
                failures.extend(ours.failures);
            }
            let writes = plan.kind != FaultKind::Read;
            if writes && theirs.refused_reads == 0 && ours.refused_reads > 0 {
                failures.push(format!("{plan:?}: {} reads were refused", ours.refused_reads));
            }
        }
        let damaged = failures.len();
        println!("{journal:?} page {page_size} {top}: {met} met, {damaged} damaged; {roles:?}");
        assert!(failures.is_empty(), "{damaged}: {:#?}", &failures[..damaged.min(12)]);
        // Not every one of these calls must fail, but each kind of file must have had a failure.
        let log = match journal {
            Journal::Wal => Some("log"),
            Journal::Memory | Journal::Off => None,
            Journal::Delete | Journal::Truncate | Journal::Persist => Some("journal"),
        };
        let files = ["main", "temporary database", "transient file"].into_iter().chain(log);
        assert!(met > 30 && files.clone().all(|file| roles.contains(file)), "{met} of {roles:?}");
    }
}

fn all_sizes(journal: Journal) {
    // Whether a statement's journal is a file depends on the size, and on the library's version.
    let sampled: &[u32] = match journal {
        Journal::Delete | Journal::Wal => &[1024, 8192],
        _ => &[8192],
    };
    let one = match std::env::var_os(LIBRARY_VARIABLE) {
        Some(_) => &sampled[..1],
        None => &sampled[sampled.len() - 1..],
    };
    let sizes = by_form(one, sampled, &[1024, 4096, 8192, 65536]);
    sizes.iter().for_each(|&page_size| beside_stock(journal, page_size));
}

#[test]
fn delete() {
    all_sizes(Journal::Delete);
}

#[test]
#[ignore = "full: the journal that is deleted stands for it"]
fn truncate() {
    all_sizes(Journal::Truncate);
}

#[test]
#[ignore = "full: the journal that is deleted stands for it"]
fn persist() {
    all_sizes(Journal::Persist);
}

#[test]
#[ignore = "full: the journal that is deleted and the log stand for it"]
fn memory() {
    all_sizes(Journal::Memory);
}

#[test]
fn wal() {
    all_sizes(Journal::Wal);
}

/// Random scripts with failing calls. Stock SQLite survives them; otherwise the scripts would be
/// wrong.
#[test]
fn random() {
    for top in [Top::Plain, Top::Beside, Top::Tdekit, Top::Fresh] {
        let seeds = by_form(15, 150, 5000);
        let (mut faults, mut refused, mut failures) = (0, 0, Vec::new());
        for seed in 0..seeds {
            let directory = scratch().unwrap();
            match survive(top, seed, 150, directory.path()) {
                Ok(met) => (faults, refused) = (faults + met.faults, refused + met.refused),
                Err(error) => failures.push(error.to_string()),
            }
        }
        println!("{top}: {seeds} scripts, {faults} faults met, {refused} refused");
        let lost = failures.len();
        assert!(failures.is_empty(), "{lost}: {:#?}", &failures[..lost.min(5)]);
        assert!(refused > seeds, "{refused}");
    }
}

/// The same with the library that the system's programs use, in a separate process.
#[test]
fn with_the_systems_library() {
    if std::env::var_os(LIBRARY_VARIABLE).is_some() {
        return;
    }
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.env(LIBRARY_VARIABLE, "libsqlite3.so.0");
    let chosen: &[&str] = match Form::of_environment() {
        Form::Short => &["--exact", "statement::wal", "statement::random"],
        Form::Full => &["--exact", "statement::delete", "statement::wal", "statement::random"],
        Form::Exhaustive => &["statement::", "--include-ignored"],
    };
    tests.args(chosen);
    let done = tests.args(["--nocapture", "--test-threads=1"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("Wal page 1024 fresh"));
}
