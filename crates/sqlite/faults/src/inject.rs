//! Failing calls: a full disk, a failed write, sync, open, truncation or deletion.

use std::path::Path;

use crate::error::{Error, Result};
use crate::ffi::db::Db;
use crate::ledger::{self, Config, Journal};
use crate::record::{FaultKind, FaultPlan, Recorder, Role};
use crate::rng::Rng;

/// `SQLITE_FULL`.
pub const FULL: i32 = 13;
/// `SQLITE_IOERR_WRITE`.
pub const IOERR_WRITE: i32 = 778;
/// `SQLITE_IOERR_FSYNC`.
pub const IOERR_FSYNC: i32 = 1034;
/// `SQLITE_IOERR_TRUNCATE`.
pub const IOERR_TRUNCATE: i32 = 1546;
/// `SQLITE_IOERR_DELETE`.
pub const IOERR_DELETE: i32 = 2570;
/// `SQLITE_IOERR_READ`.
pub const IOERR_READ: i32 = 266;
/// `SQLITE_CANTOPEN`.
pub const CANTOPEN: i32 = 14;

/// Statistics of a run.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// Transactions run with a fault armed.
    pub trials: u64,
    /// Trials in which a call failed.
    pub fired: u64,
    /// Transactions that were refused; all others committed despite the fault.
    pub refused: u64,
    /// Broken promises.
    pub failures: Vec<String>,
}

/// Returns every kind of fault that a run tries.
#[must_use]
pub fn plans() -> Vec<FaultPlan> {
    let plan = |kind, code, sticky, written_percent| FaultPlan {
        kind,
        role: None,
        growing: false,
        nth: 0,
        code,
        sticky,
        written_percent,
    };
    vec![
        plan(FaultKind::Write, FULL, true, 0),
        plan(FaultKind::Write, FULL, true, 60),
        plan(FaultKind::Write, IOERR_WRITE, false, 30),
        plan(FaultKind::Sync, IOERR_FSYNC, false, 0),
        plan(FaultKind::Sync, IOERR_FSYNC, true, 0),
        plan(FaultKind::Open, CANTOPEN, false, 0),
        plan(FaultKind::Truncate, IOERR_TRUNCATE, false, 0),
        plan(FaultKind::Delete, IOERR_DELETE, false, 0),
        plan(FaultKind::Read, IOERR_READ, false, 0),
    ]
}

/// Returns the forms of a full disk, for each kind of file: from a write on or for a single write,
/// at once or after part of it, and one that still accepts writes to allocated space.
#[must_use]
pub fn full_disk_plans(journal: Journal) -> Vec<FaultPlan> {
    let log = match journal {
        Journal::Wal => Some(Role::Wal),
        Journal::Memory | Journal::Off => None,
        Journal::Delete | Journal::Truncate | Journal::Persist => Some(Role::Journal),
    };
    let roles = [None, Some(Role::Main)].into_iter().chain(log.map(Some));
    let forms = [(true, false, 0), (true, false, 60), (true, true, 0), (false, false, 0)];
    roles
        .flat_map(|role| {
            forms.map(|(sticky, growing, written_percent)| FaultPlan {
                kind: FaultKind::Write,
                role,
                growing,
                nth: 0,
                code: FULL,
                sticky,
                written_percent,
            })
        })
        .collect()
}

/// Time at which the disk has space again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// While the connection is open.
    Before,
    /// After it was closed.
    AfterClosing,
}

/// For each call of the plan's kind in a transaction: makes it fail, and checks that the
/// transaction is complete or absent, that the connection (another one, if it is closed under the
/// fault) continues once the fault is gone, and that a reopened database agrees.
///
/// # Errors
/// Those of the harness; broken promises are in the report.
pub fn run(
    config: &Config,
    plan: &FaultPlan,
    room: Room,
    directory: &Path,
    report: &mut Report,
) -> Result<()> {
    let recorder = Recorder::attach(directory);
    let mut db = config.open_for_work(directory)?;
    ledger::create(&db, config, || db.run("COMMIT"))?;
    let mut rng = Rng::new(5);
    for n in 2..5 {
        ledger::change(&db, config, n, &mut rng)?;
        db.run("COMMIT")?;
    }
    let mut last_digest = ledger::digests(&db, config)?;
    let mut n = 5;
    for nth in 0.. {
        let mut next = rng.clone();
        recorder.arm(FaultPlan { nth, ..plan.clone() });
        let outcome = transaction(&db, config, n, &mut next);
        let fired = match room {
            Room::Before => recorder.disarm(),
            Room::AfterClosing => {
                drop(db);
                let fired = recorder.disarm();
                db = match config.open_for_work(directory) {
                    Ok(db) => db,
                    Err(error) => {
                        let reason = format!("[{config}] {plan:?} at call {nth}: {error}");
                        report.failures.push(reason);
                        break;
                    }
                };
                fired
            }
        };
        report.trials += 1;
        report.fired += u64::from(fired > 0);
        let describe = |reason: &str| {
            format!("[{config}] {plan:?} at call {nth}, transaction {n} ({outcome:?}): {reason}")
        };
        // After an error from the sync or the deletion that ends a commit, the outcome is open; the
        // same holds for a torn write of the zeros that end a persistent journal.
        let torn_end = config.journal == Journal::Persist && plan.written_percent > 0;
        let ending = torn_end || !matches!(plan.kind, FaultKind::Write | FaultKind::Read);
        let either = outcome.is_err() && ending;
        report.refused += u64::from(outcome.is_err());
        match check(&db, config, directory, n, &last_digest) {
            Ok(Found { committed, digests }) if committed == outcome.is_ok() || either => {
                last_digest = digests;
                if committed {
                    rng = next;
                    n += 1;
                }
            }
            Ok(found) => {
                report.failures.push(describe(&format!("found committed: {}", found.committed)));
                break;
            }
            // Later steps would only repeat it.
            Err(error) => {
                report.failures.push(describe(&error.to_string()));
                break;
            }
        }
        if fired == 0 {
            break;
        }
    }
    Ok(())
}

fn transaction(db: &Db, config: &Config, n: u32, rng: &mut Rng) -> Result<()> {
    let outcome = ledger::change(db, config, n, rng).and_then(|()| db.run("COMMIT"));
    if outcome.is_err() && !db.autocommit() {
        // While the fault persists, the rollback may fail too; the next use must still recover.
        let _ = db.run("ROLLBACK");
    }
    outcome
}

struct Found {
    committed: bool,
    digests: Vec<u64>,
}

/// Checks the database after transaction `n`: intact, completely before or after it, and the same
/// for a new connection.
fn check(db: &Db, config: &Config, directory: &Path, n: u32, before: &[u64]) -> Result<Found> {
    ledger::check_integrity(db, config)?;
    let digests = ledger::digests(db, config)?;
    let there = db.int(&format!("SELECT count(*) FROM main.ledger WHERE n = {n}"))? == 1;
    if !there && digests != before {
        return Err(Error::Broken("a refused transaction left something".into()));
    }
    let other = config.open(directory)?;
    ledger::check_integrity(&other, config)?;
    if ledger::digests(&other, config)? != digests {
        return Err(Error::Broken("another connection sees another state".into()));
    }
    Ok(Found { committed: there, digests })
}
