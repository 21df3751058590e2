//! A random script with occasional failing calls, and a twin without faults.
//!
//! The twin runs the steps that succeeded. A call fails for the length of a step: SQLite undoes a
//! statement or the transaction, and the script continues, as applications do.

use std::path::Path;
use std::sync::Arc;

use super::script::{Step, script};
use crate::error::{Error, Result};
use crate::ffi::db::{Db, Row};
use crate::inject::{FULL, IOERR_READ, IOERR_TRUNCATE};
use crate::ledger::digest;
use crate::record::{FaultKind, FaultPlan, Recorder, Role};
use crate::rng::Rng;
use crate::top::Top;

/// Statistics of a script.
#[derive(Debug, Default, Clone, Copy)]
pub struct Met {
    /// Steps in which a call failed.
    pub faults: u64,
    /// Number of these that were refused.
    pub refused: u64,
}

/// Runs the script that `seed` generates under `directory`.
///
/// # Errors
/// [`Error::Broken`] if the database differs from its twin.
pub fn survive(top: Top, seed: u64, length: usize, directory: &Path) -> Result<Met> {
    let place = directory.join("tested");
    std::fs::create_dir(&place).map_err(Error::io(&place))?;
    // Files belong to the last attached recorder of their directory.
    let twin_recorder = Recorder::attach(directory);
    let (path, recorder) = (place.join("main.db"), Recorder::attach(&place));
    let twin = Db::open(":memory:", Some(Top::Plain.vfs()?), true)?;
    let db = top.open(&path)?;
    db.run("PRAGMA temp_store=FILE")?;
    let (rng, met) = (Rng::new(seed ^ 0x5eed), Met::default());
    let mut pair = Pair { top, db, twin, recorder, twin_recorder, rng, met };
    for (index, step) in script(seed, length).iter().enumerate() {
        let (Step::Sql(sql) | Step::Quiet(sql)) = step else { continue };
        if sql.contains("side.") {
            continue;
        }
        // A journal in memory cannot undo twice: not after a call that failed.
        let sql = sql.replace("journal_mode=MEMORY", "journal_mode=DELETE");
        pair.step(&sql, index > 1).map_err(|error| match error {
            Error::Broken(what) => Error::Broken(format!("{top} seed {seed} step {index}: {what}")),
            other => other,
        })?;
    }
    let Pair { db, twin, met, .. } = pair;
    let (open, last) = (!db.autocommit(), digest(&twin, "main")?);
    drop(db);
    let db = top.open(&path)?;
    let said = db.text("PRAGMA integrity_check")?;
    if said != "ok" || (!open && digest(&db, "main")? != last) {
        return Err(Error::Broken(format!("{top} seed {seed}, opened again: {said}")));
    }
    Ok(met)
}

struct Pair {
    top: Top,
    db: Db,
    twin: Db,
    recorder: Arc<Recorder>,
    twin_recorder: Arc<Recorder>,
    rng: Rng,
    met: Met,
}

type Outcome = std::result::Result<Vec<Row>, i32>;

impl Pair {
    fn step(&mut self, sql: &str, faulty: bool) -> Result<()> {
        // The check reports a failed call in its rows. After a RELEASE that did not commit, SQLite
        // says that the transaction, which it has undone, is still open.
        let checks = sql.contains("integrity_check");
        if faulty && !checks && !sql.starts_with("RELEASE") && self.rng.percent(80) {
            let plan = self.plan();
            self.recorder.arm(plan);
        }
        self.recorder.activate();
        let outcome = outcome(self.db.rows(sql))?;
        let fired = self.recorder.disarm();
        self.met.faults += u64::from(fired > 0);
        self.twin_recorder.activate();
        if fired > 0 && outcome.is_err() {
            self.met.refused += 1;
            return self.settle(sql);
        }
        // The twin is in memory, with settings of its own.
        if sql.starts_with("PRAGMA") && !checks {
            return Ok(());
        }
        let expected = self::outcome(self.twin.rows(sql))?;
        match outcome == expected {
            true => Ok(()),
            false => Err(Error::Broken(format!("{sql}: {outcome:.80?} and not {expected:.80?}"))),
        }
    }

    /// Plans a fault that leaves no doubt about whether a commit happened. A failing sync does
    /// leave doubt, as does any failure around moving the anchor of a database with freshness.
    fn plan(&mut self) -> FaultPlan {
        let fresh = self.top == Top::Fresh;
        let (kind, code) = match self.rng.below(10) {
            0..=7 => (FaultKind::Write, FULL),
            8 if !fresh => (FaultKind::Read, IOERR_READ),
            _ => (FaultKind::Truncate, IOERR_TRUNCATE),
        };
        let role = match self.rng.pick(&Role::ALL) {
            Some(role) if *role != Role::Seals && self.rng.percent(50) => Some(*role),
            _ if fresh => Some(Role::Main),
            _ => None,
        };
        let most = 1 << self.rng.below(6);
        let nth = self.rng.below(most) as u64;
        FaultPlan { kind, role, growing: false, nth, code, sticky: false, written_percent: 0 }
    }

    /// Brings the twin to the database's state after a step that was refused: the state before, the
    /// state that the step would have reached (the failed part is not known), or the start of the
    /// transaction.
    fn settle(&mut self, sql: &str) -> Result<()> {
        self.db.run("DROP TABLE IF EXISTS temp.w")?;
        self.twin.run("DROP TABLE IF EXISTS temp.w")?;
        let said = self.db.text("PRAGMA integrity_check")?;
        if said != "ok" {
            return Err(Error::Broken(format!("after {sql} was refused: {said}")));
        }
        let found = digest(&self.db, "main")?;
        let ended = self.db.autocommit() && !self.twin.autocommit();
        if ended {
            let committed = found == digest(&self.twin, "main")?;
            self.twin.run(if committed { "COMMIT" } else { "ROLLBACK" })?;
        }
        if found == digest(&self.twin, "main")? {
            return Ok(());
        }
        if !ended && self.twin.rows(sql).is_ok() && found == digest(&self.twin, "main")? {
            return Ok(());
        }
        Err(Error::Broken(format!("after {sql} was refused the rows are others")))
    }
}

fn outcome(result: Result<Vec<Row>>) -> Result<Outcome> {
    match result {
        Ok(rows) => Ok(Ok(rows)),
        Err(Error::Sql(error)) => Ok(Err(error.primary())),
        Err(other) => Err(other),
    }
}
