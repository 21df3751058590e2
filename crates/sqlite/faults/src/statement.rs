//! One failing call within a transaction that continues.
//!
//! SQLite undoes the statement that met a full disk, and leaves the transaction to the application,
//! which may commit it. So whatever file the failed call concerned, rows and indexes must be those
//! from before the statement, and after COMMIT or ROLLBACK those of the transaction.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::ffi::db::Db;
use crate::ledger::{self, Config};
use crate::record::{FaultKind, FaultPlan, Recorder, Role};

/// The application's action after the statement that met the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It commits the completed part.
    Commit,
    /// It rolls the transaction back.
    Rollback,
}

/// Statistics of a run.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// Statements in which a call failed.
    pub met: u64,
    /// Number of these that were refused.
    pub refused: u64,
    /// Number of these that only read.
    pub refused_reads: u64,
    /// The kinds of file on which a call failed.
    pub roles: BTreeSet<&'static str>,
    /// Broken promises.
    pub failures: Vec<String>,
}

/// A database, and the statements of a transaction on it.
pub struct Scene {
    config: Config,
    directory: PathBuf,
    recorder: Arc<Recorder>,
    /// Digests of the database without a fault: at the start, and after each statement.
    states: Vec<Vec<u64>>,
    /// The calls of each statement without a fault.
    calls: Vec<HashMap<(FaultKind, Role), u64>>,
}

/// Returns the transaction: each statement, and whether it only reads. They make SQLite use every
/// kind of file that it has with a cache of a few pages: statement journals for constraints,
/// savepoints, temporary tables, sorters.
fn statements(page_size: u32) -> Vec<(String, bool)> {
    let len = page_size / 5;
    [
        (format!("UPDATE t SET s = s + 100000, d = printf('%0*d', {len} + 1, id)"), false),
        ("SELECT sum(id), sum(length(d)), max(w) FROM temp.u".into(), true),
        (format!("UPDATE temp.u SET w = w + 1000, d = printf('%0*d', {len} + 2, id)"), false),
        (
            "SELECT a.id FROM t AS a, (SELECT id FROM t LIMIT 9) ORDER BY a.d DESC, a.id".into(),
            true,
        ),
        (
            format!(
                "SAVEPOINT part; UPDATE t SET d = printf('%0*d', {len} + 3, id) WHERE id % 2; \
                 ROLLBACK TO part; RELEASE part"
            ),
            false,
        ),
        (
            format!(
                "INSERT INTO t SELECT id + 1000, s + 1000, printf('%0*d', {len}, id) FROM t"
            ),
            false,
        ),
        ("DELETE FROM t WHERE id % 3 = 0".into(), false),
        // More distinct values than the cache of a transient table holds.
        (
            "SELECT count(DISTINCT a.d || b.id), sum(a.s) FROM t AS a, (SELECT id FROM t LIMIT 40) \
             AS b"
            .into(),
            true,
        ),
    ]
    .into()
}

impl Scene {
    /// Makes the database under `directory`, and records its legal states.
    ///
    /// # Errors
    /// Those of the harness.
    pub fn make(config: Config, directory: &Path) -> Result<Self> {
        let recorder = Recorder::attach(directory);
        let (states, calls) = (Vec::new(), Vec::new());
        let mut scene = Self { config, directory: directory.to_owned(), recorder, states, calls };
        let db = config.open_for_work(directory)?;
        let rows = if config.page_size < 4096 { 400 } else { 60 };
        let len = config.page_size / 5;
        db.run(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, s UNIQUE, d);
             CREATE INDEX by_d ON t(d);
             INSERT INTO t WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n
               WHERE v < {rows}) SELECT v, v, printf('%0*d', {len}, v) FROM n;"
        ))?;
        db.close()?;
        scene.keep()?;
        let db = scene.begin()?;
        scene.states.push(scene.digests(&db)?);
        for (sql, _) in statements(config.page_size) {
            scene.recorder.count_calls();
            db.rows(&sql)?;
            scene.calls.push(scene.recorder.count_calls());
            scene.states.push(scene.digests(&db)?);
        }
        db.run("ROLLBACK")?;
        db.close()?;
        Ok(scene)
    }

    /// Runs each statement with failing calls of one kind and role, one call at a time, at most
    /// `each` of them per statement. A sticky plan lasts until the connection is closed, others for
    /// the length of the statement.
    pub fn run(&self, plan: &FaultPlan, each: u64, end: End, report: &mut Report) {
        let Some(role) = plan.role else { return };
        for (index, (sql, reads)) in statements(self.config.page_size).iter().enumerate() {
            let calls = self.calls[index].get(&(plan.kind, role)).copied().unwrap_or(0);
            for nth in samples(calls, each) {
                let plan = FaultPlan { nth, ..plan.clone() };
                let mut case = Case { scene: self, index, reads: *reads, end, met: 0 };
                let outcome = case.run(sql, &plan, report);
                if case.met > 0 {
                    report.met += 1;
                    report.roles.insert(name(role));
                }
                if let Err(error) = outcome {
                    let config = &self.config;
                    report
                        .failures
                        .push(format!("[{config}] {plan:?} {end:?}, statement {index}: {error}"));
                }
            }
        }
    }

    /// Keeps a copy of the files, from which each case starts.
    fn keep(&self) -> Result<()> {
        let kept = self.directory.join("kept");
        fs::create_dir_all(&kept).map_err(Error::io(&kept))?;
        copy_files(&self.directory, &kept)
    }

    fn begin(&self) -> Result<Db> {
        for entry in fs::read_dir(&self.directory).map_err(Error::io(&self.directory))? {
            let path = entry.map_err(Error::io(&self.directory))?.path();
            if path.is_file() {
                fs::remove_file(&path).map_err(Error::io(&path))?;
            }
        }
        copy_files(&self.directory.join("kept"), &self.directory)?;
        self.recorder.activate();
        self.recorder.forget_names();
        let db = self.config.open_for_work(&self.directory)?;
        let len = self.config.page_size / 5;
        db.run(&format!(
            "PRAGMA temp_store=FILE;
             CREATE TEMP TABLE u(id INTEGER PRIMARY KEY, w UNIQUE, d);
             PRAGMA main.cache_size=12; PRAGMA temp.cache_size=12;
             INSERT INTO u SELECT id, s, printf('%0*d', {len}, id) FROM t;
             BEGIN;"
        ))?;
        Ok(db)
    }

    fn digests(&self, db: &Db) -> Result<Vec<u64>> {
        ["main", "temp"].iter().map(|schema| ledger::digest(db, schema)).collect()
    }

    fn check(&self, db: &Db, when: &str, legal: &[&Vec<u64>]) -> Result<()> {
        let said = db.text("PRAGMA main.integrity_check")?;
        if said != "ok" {
            return Err(Error::Broken(format!("{when}: integrity_check: {said}")));
        }
        let said = db.text("PRAGMA temp.integrity_check")?;
        if said != "ok" {
            return Err(Error::Broken(format!("{when}: integrity_check of temp: {said}")));
        }
        match legal.contains(&&self.digests(db)?) {
            true => Ok(()),
            false => Err(Error::Broken(format!("{when}: the rows are others"))),
        }
    }
}

struct Case<'a> {
    scene: &'a Scene,
    index: usize,
    reads: bool,
    end: End,
    /// Number of calls that failed.
    met: u64,
}

impl Case<'_> {
    fn run(&mut self, sql: &str, plan: &FaultPlan, report: &mut Report) -> Result<()> {
        let scene = self.scene;
        let db = scene.begin()?;
        for (sql, _) in &statements(scene.config.page_size)[..self.index] {
            db.rows(sql)?;
        }
        let (before, after) = (&scene.states[self.index], &scene.states[self.index + 1]);
        scene.recorder.arm(plan.clone());
        let refused = db.rows(sql).is_err();
        if !plan.sticky {
            self.met = scene.recorder.disarm();
        }
        if refused {
            report.refused += 1;
            report.refused_reads += u64::from(self.reads);
        }
        let undone = db.autocommit();
        let now = match (undone, refused) {
            (true, _) => &scene.states[0],
            (false, true) => before,
            (false, false) => after,
        };
        if !plan.sticky {
            scene.check(&db, "within the transaction", &[now])?;
        }
        let ended = if undone {
            Ok(())
        } else {
            db.run(if self.end == End::Commit { "COMMIT" } else { "ROLLBACK" })
        };
        if plan.sticky {
            self.met = scene.recorder.fired();
        }
        let start = &scene.states[0];
        let legal: &[&Vec<u64>] = match (self.end, ended.is_ok(), undone) {
            (_, _, true) | (End::Rollback, _, _) => &[start],
            (End::Commit, true, _) => &[now],
            // If the call that ends a commit fails, the outcome is open.
            (End::Commit, false, _) => &[start, now],
        };
        if !plan.sticky {
            scene.check(&db, "after the transaction", legal)?;
        }
        drop(db);
        scene.recorder.disarm();
        let other = scene.config.open(&scene.directory)?;
        let said = other.text("PRAGMA integrity_check")?;
        let rows = ledger::digest(&other, "main")?;
        if said != "ok" || !legal.iter().any(|state| state[0] == rows) {
            let reason = format!("another connection: {said}, rows as they should be: {}", {
                legal.iter().any(|state| state[0] == rows)
            });
            return Err(Error::Broken(reason));
        }
        Ok(())
    }
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Main => "main",
        Role::Journal => "journal",
        Role::Wal => "log",
        Role::Statement => "statement journal",
        Role::Temporary => "temporary database",
        Role::TemporaryJournal => "temporary database's journal",
        Role::Transient => "transient file",
        Role::Seals => "seals",
        Role::Super => "super-journal",
    }
}

/// Returns at most `most` numbers below `calls`: the first ones, and some up to the last.
fn samples(calls: u64, most: u64) -> BTreeSet<u64> {
    let first = most / 2;
    let later = most.saturating_sub(first).max(1);
    let spread = (1..=later).map(|n| (calls.saturating_sub(1)) * n / later);
    (0..first).chain(spread).filter(|&nth| nth < calls).collect()
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(Error::io(from))? {
        let path = entry.map_err(Error::io(from))?.path();
        if path.is_file() {
            let copy = to.join(path.file_name().unwrap_or_default());
            fs::copy(&path, &copy).map_err(Error::io(&copy))?;
        }
    }
    Ok(())
}
