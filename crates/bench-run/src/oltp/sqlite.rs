//! The workloads on SQLite: worker processes of our own, a process for each of sysbench's threads.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use rusqlite::{Connection, params};
use tdekit_bench_report::Side;
use tdekit_bench_report::stats::median;
use tdekit_private_mariadb::ProcessUse;

use super::ground::{Bed, Load, Measured, Settings, Target};
use super::options::{OltpPlan, Workload};
use super::worker::{OltpDone, OltpShare, create, create_index, text};
use crate::config::Config;
use crate::driver::idle_worker;
use crate::driver::sides::{self, SideChoice, SideSpec, copy_file};
use crate::environment::check_space;
use crate::error::BenchError;
use crate::interrupt;
use crate::job::Request;
use crate::latency::Latencies;
use crate::numbers::{float, whole};
use crate::private;
use crate::process::WorkerProcess;
use crate::progress::Progress;
use crate::tools::Tools;

/// Bytes of a row with its index.
const ROW_BYTES: u64 = 260;
const PAGE_BYTES: u32 = 4096;
const NAME: &str = "sbtest.db";
/// Length of a try on the idle library, and tries; their median counts.
const IDLE_NS: u64 = 10_000_000;
const IDLE_TRIES: u64 = 5;

/// Sides with their untouched databases. Dropping it removes everything.
pub(super) struct Sqlite<'a> {
    plan: &'a OltpPlan,
    config: &'a Config,
    directory: tempfile::TempDir,
    sides: Vec<SideSpec>,
    /// CPU of a transaction in the driver alone, ns, by workload.
    idle: Vec<(Workload, f64)>,
    pub(super) data_bytes: u64,
}

impl<'a> Sqlite<'a> {
    /// Makes a database with sysbench's tables, and every side's copy of it.
    pub(super) fn prepare(
        plan: &'a OltpPlan,
        config: &'a Config,
        tools: &Tools,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        let place = &config.directory;
        let bytes = u64::from(plan.tables) * plan.rows * ROW_BYTES;
        check_space(place, bytes.saturating_mul(6 + 4 * config.peers.len() as u64))?;
        let directory = private::directory(place, ".tdekit-bench-")?;
        progress.say("filling the tables");
        let plain = directory.path().join(NAME);
        let page_size_bytes = config.page_size_bytes.unwrap_or(PAGE_BYTES);
        fill(&plain, plan, page_size_bytes, config.seed)?;
        interrupt::check()?;
        progress.say("setting up the sides");
        let choice = SideChoice { config, tools, page_size_bytes };
        let sides = sides::set_up(&choice, &choice.keys(directory.path())?)?;
        let data_bytes =
            std::fs::metadata(&plain).map_err(BenchError::file("cannot read", &plain))?.len();
        let idle = idle_transactions(plan, config, tools)?;
        let made = Self { plan, config, directory, sides, idle, data_bytes };
        for side in &made.sides {
            progress.say(format!("copying: {}", side.side.label));
            let target = made.pristine(side);
            if let Some(parent) = target.parent() {
                std::fs::create_dir_all(parent).map_err(BenchError::file("cannot make", parent))?;
            }
            side.make_copy(&plain, &target, page_size_bytes)?;
        }
        Ok(made)
    }

    /// The sides, base first.
    pub(super) fn sides(&self) -> Vec<Side> {
        let side = |side: &Side| {
            Side::new(&side.id, &side.label, side.role).with_cipher(side.cipher.as_deref())
        };
        self.sides.iter().map(|spec| side(&spec.side)).collect()
    }

    /// The library of the base.
    pub(super) fn engine(&self) -> String {
        self.sides.first().map_or_else(String::new, |side| {
            format!("SQLite {} ({})", side.side.library.version, side.side.library.origin)
        })
    }

    /// What every connection runs first.
    fn pragmas(&self) -> Vec<(&'static str, String)> {
        vec![
            ("journal_mode", self.config.journal_mode.clone()),
            ("synchronous", self.config.synchronous.clone()),
            ("cache_size", self.config.cache_size.to_string()),
            ("wal_autocheckpoint", "1000".to_owned()),
            ("temp_store", "FILE".to_owned()),
        ]
    }

    /// The settings as the report shows them.
    pub(super) fn settings(&self) -> Settings {
        self.pragmas().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn pristine(&self, side: &SideSpec) -> PathBuf {
        self.directory.path().join("pristine").join(&side.side.id).join(NAME)
    }
}

/// CPU of a transaction of each workload in the driver alone: the same loop on a library whose
/// calls do nothing.
fn idle_transactions(
    plan: &OltpPlan,
    config: &Config,
    tools: &Tools,
) -> Result<Vec<(Workload, f64)>, BenchError> {
    let mut worker = idle_worker(tools)?;
    let mut found = Vec::new();
    for workload in plan.workloads.iter().filter(|each| **each != Workload::FullScan) {
        let mut times = Vec::new();
        for number in 0..IDLE_TRIES {
            let share = OltpShare {
                workload: *workload,
                tables: plan.tables,
                rows: plan.rows,
                duration_ns: IDLE_NS,
                seed: config.seed.wrapping_add(number),
            };
            let done: OltpDone = worker.ask(&Request::Oltp(share))?;
            times.push(float(done.cost.cpu_ns) / float(done.transactions.max(1)));
        }
        found.extend(median(&times).map(|time| (*workload, time)));
    }
    Ok(found)
}

/// Makes the tables and fills them.
fn fill(path: &Path, plan: &OltpPlan, page_bytes: u32, seed: u64) -> Result<(), BenchError> {
    let doing = || BenchError::sqlite("cannot fill sysbench's tables");
    let mut connection = Connection::open(path).map_err(doing())?;
    interrupt::watch(&mut connection).map_err(doing())?;
    let settings = format!("PRAGMA page_size = {page_bytes}; PRAGMA synchronous = OFF");
    connection.execute_batch(&settings).map_err(doing())?;
    let mut rng = Rng::with_seed(seed);
    for table in 1..=plan.tables {
        let transaction = connection.transaction().map_err(doing())?;
        transaction.execute_batch(&create(table)).map_err(doing())?;
        let sql = format!("INSERT INTO sbtest{table}(k, c, pad) VALUES (?1, ?2, ?3)");
        let mut insert = transaction.prepare(&sql).map_err(doing())?;
        for row in 0..plan.rows {
            if row % 10_000 == 0 {
                interrupt::check()?;
            }
            let k = rng.u64(1..=plan.rows.max(1)).cast_signed();
            insert.execute(params![k, text(&mut rng, 10), text(&mut rng, 5)]).map_err(doing())?;
        }
        drop(insert);
        transaction.execute_batch(&create_index(table)).map_err(doing())?;
        transaction.commit().map_err(doing())?;
    }
    Ok(())
}

impl Target for Sqlite<'_> {
    fn restart(&self, number: u32, rng: &mut Rng) -> Result<Box<dyn Bed + '_>, BenchError> {
        let directory = self.directory.path().join(format!("restart-{number}"));
        let mut order: Vec<usize> = (0..self.sides.len()).collect();
        rng.shuffle(&mut order);
        let mut paths = vec![PathBuf::new(); self.sides.len()];
        for index in order {
            let Some(side) = self.sides.get(index) else { continue };
            let place = directory.join(&side.side.id);
            std::fs::create_dir_all(&place).map_err(BenchError::file("cannot make", &place))?;
            paths[index] = place.join(NAME);
            copy_file(&self.pristine(side), &paths[index])?;
        }
        let workers = self.sides.iter().map(|_| Vec::new()).collect();
        let mut bed = Workers { ground: self, paths, workers, directory };
        for side in 0..self.sides.len() {
            let warm_up = Load {
                workload: Workload::ReadOnly,
                threads: 1,
                seconds: 0.3,
                seed: u64::from(number) + 1,
            };
            bed.block(side, warm_up)?;
        }
        Ok(Box::new(bed))
    }
}

/// The worker processes of a restart, by side; more are started when a cell needs them.
struct Workers<'a> {
    ground: &'a Sqlite<'a>,
    paths: Vec<PathBuf>,
    workers: Vec<Vec<WorkerProcess>>,
    directory: PathBuf,
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        self.workers.clear();
        // The run's directory goes as a whole in the end; here only room is saved.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Workers<'_> {
    /// Starts workers of a side until there are `count`.
    fn grow(&mut self, side: usize, count: usize) -> Result<(), BenchError> {
        let missing = || BenchError::Mismatch {
            what: "schedule".to_owned(),
            detail: format!("there is no side {side}"),
        };
        let spec = self.ground.sides.get(side).ok_or_else(missing)?;
        let path = self.paths.get(side).ok_or_else(missing)?;
        let workers = self.workers.get_mut(side).ok_or_else(missing)?;
        let pragma = |(name, value): (&str, String)| format!("PRAGMA {name} = {value}");
        let settings: Vec<String> = self.ground.pragmas().into_iter().map(pragma).collect();
        while workers.len() < count {
            interrupt::check()?;
            let (mut worker, _) = spec.start()?;
            worker.open(path, spec.on_open(&settings))?;
            workers.push(worker);
        }
        Ok(())
    }
}

impl Bed for Workers<'_> {
    fn block(&mut self, side: usize, load: Load) -> Result<Measured, BenchError> {
        let count = usize::try_from(load.threads).unwrap_or(1).max(1);
        self.grow(side, count)?;
        let plan = self.ground.plan;
        let Some(workers) = self.workers.get_mut(side).and_then(|all| all.get_mut(..count)) else {
            return Ok(Measured::default());
        };
        let duration_ns = whole(load.seconds * 1e9);
        for (number, worker) in (1_u64..).zip(workers.iter_mut()) {
            worker.send(&Request::Oltp(OltpShare {
                workload: load.workload,
                tables: plan.tables,
                rows: plan.rows,
                duration_ns,
                seed: load.seed.wrapping_mul(1_000_003).wrapping_add(number),
            }))?;
        }
        let (mut sum, mut times) = (OltpDone::default(), Latencies::new());
        let (mut start_ns, mut end_ns) = (u64::MAX, 0);
        for worker in workers {
            let done: OltpDone = worker.receive()?;
            start_ns = start_ns.min(done.cost.start_ns);
            end_ns = end_ns.max(done.cost.end_ns);
            sum.cost.add(&done.cost);
            sum.transactions += done.transactions;
            sum.queries += done.queries;
            times.add(&done.times);
        }
        let idle = self.ground.idle.iter().find(|(workload, _)| *workload == load.workload);
        let mut measured = measured(&sum, &times, end_ns.saturating_sub(start_ns));
        measured.own_cpu_ns = idle.map_or(0, |(_, each)| whole(each * float(sum.transactions)));
        Ok(measured)
    }

    fn finish(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

fn measured(done: &OltpDone, times: &Latencies, elapsed_ns: u64) -> Measured {
    let cost = &done.cost;
    Measured {
        transactions: done.transactions,
        queries: done.queries,
        errors: cost.retries,
        elapsed_ns,
        engine: ProcessUse {
            cpu_ns: cost.cpu_ns,
            user_ns: cost.user_ns,
            system_ns: cost.system_ns,
            device_read_bytes: cost.device_read_bytes,
            device_write_bytes: cost.device_write_bytes,
            context_switches: cost.voluntary_switches + cost.involuntary_switches,
        },
        client_cpu_ns: 0,
        own_cpu_ns: 0,
        latency: times.transactions(),
    }
}
