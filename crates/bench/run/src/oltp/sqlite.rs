//! The workloads on SQLite: our own worker processes, one for each of sysbench's threads.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use rusqlite::{Connection, params};
use tdekit_bench_report::{Report, Side};

use super::ground::{Load, Measured, Target, no_side, report};
use crate::environment::check_space;
use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::job::Request;
use crate::numbers::{float, whole};
use crate::plan::Config;
use crate::plan::OltpPlan;
use crate::private;
use crate::process::WorkerProcess;
use crate::progress::Progress;
use crate::sides::{self, SideChoice, SideSpec, copy_file, idle_time, idle_worker};
use crate::subject::file_bytes;
use crate::tools::Tools;
use tdekit_bench_work::Latencies;
use tdekit_bench_work::{OltpDone, OltpShare, Workload, create, create_index, text};

/// Size of a row with its index in bytes.
const ROW_BYTES: u64 = 260;
const NAME: &str = "sbtest.db";
/// Duration of a try on the idle library.
const IDLE_NS: u64 = 10_000_000;

/// Sides with their databases. Dropping it ends their processes and removes everything.
pub(super) struct Sqlite<'a> {
    config: &'a Config,
    seats: Vec<Seat>,
    /// CPU of a transaction in the driver alone, ns, by workload.
    idle: Vec<(Workload, f64)>,
    data_bytes: u64,
    /// The directories of the restart's copies.
    copies: Vec<private::Directory>,
    directory: private::Directory,
}

struct Seat {
    spec: SideSpec,
    pristine: PathBuf,
    /// The restart's copy.
    path: PathBuf,
    /// Those of the restart; more are started when a cell needs them.
    workers: Vec<WorkerProcess>,
}

impl<'a> Sqlite<'a> {
    /// Creates a database with sysbench's tables, and every side's copy of it.
    pub(super) fn prepare(config: &'a Config, tools: &Tools, progress: &Progress) -> Result<Self> {
        let (plan, place) = (&config.oltp, &config.directory);
        let bytes = u64::from(plan.tables) * plan.rows * ROW_BYTES;
        let more = config.peers.len() + config.further.algorithms.len();
        check_space(place, bytes.saturating_mul(6 + 4 * more as u64))?;
        let directory = private::run_directory(place)?;
        progress.say("filling the tables");
        let plain = directory.path().join(NAME);
        let page_size_bytes = config.page_size_bytes();
        fill(&plain, plan, page_size_bytes, config.given.basics.seed)?;
        interrupt::check()?;
        progress.say("setting up the sides");
        let choice = SideChoice { config, tools, page_size_bytes };
        let sides = sides::set_up(&choice, &choice.keys(directory.path())?)?;
        let data_bytes = file_bytes(&plain)?;
        let idle = idle_transactions(plan, config, tools)?;
        let mut seats = Vec::new();
        for spec in sides {
            progress.say(format!("copying: {}", spec.side.label));
            let root = spec.root(directory.path());
            check_space(root, bytes.saturating_mul(3))?;
            let pristine = place_for(&root.join("pristine"), &spec)?;
            spec.make_copy(&plain, &pristine, page_size_bytes)?;
            seats.push(Seat { spec, pristine, path: PathBuf::new(), workers: Vec::new() });
        }
        Ok(Self { config, seats, idle, data_bytes, copies: Vec::new(), directory })
    }

    /// The settings of every connection.
    fn pragmas(&self) -> Vec<(&'static str, String)> {
        vec![
            ("journal_mode", self.config.given.journal_mode.clone()),
            ("synchronous", self.config.given.synchronous.clone()),
            ("cache_size", self.config.given.cache_size.to_string()),
            ("wal_autocheckpoint", "1000".to_owned()),
            ("temp_store", "FILE".to_owned()),
        ]
    }
}

/// Returns a side's database below `directory`, in a separate directory that is created here.
fn place_for(directory: &Path, spec: &SideSpec) -> Result<PathBuf> {
    let own = directory.join(&spec.side.id);
    private::make(&own)?;
    Ok(own.join(NAME))
}

/// Returns the CPU of a transaction of each workload in the driver alone: the same loop on a
/// library whose calls are no-ops.
fn idle_transactions(
    plan: &OltpPlan,
    config: &Config,
    tools: &Tools,
) -> Result<Vec<(Workload, f64)>> {
    let mut worker = idle_worker(tools)?;
    let mut found = Vec::new();
    for workload in plan.workloads.iter().copied().filter(|each| *each != Workload::FullScan) {
        let time = idle_time(|number| {
            let seed = config.given.basics.seed.wrapping_add(number);
            let share = share_of(plan, workload, IDLE_NS, seed);
            let done: OltpDone = worker.ask(&Request::Oltp(share))?;
            Ok((done.cost.used.cpu_ns, done.transactions))
        })?;
        found.push((workload, time));
    }
    Ok(found)
}

/// Creates the tables and fills them.
fn fill(path: &Path, plan: &OltpPlan, page_bytes: u32, seed: u64) -> Result<()> {
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

impl Seat {
    /// Starts workers until there are `count`.
    fn grow(&mut self, count: usize, settings: &[String]) -> Result<()> {
        while self.workers.len() < count {
            interrupt::check()?;
            let (mut worker, _) = self.spec.start()?;
            worker.open(&self.path, self.spec.on_open(settings))?;
            self.workers.push(worker);
        }
        Ok(())
    }
}

impl Target for Sqlite<'_> {
    fn report(&self) -> Report {
        let sides = self.seats.iter().map(|Seat { spec: SideSpec { side, .. }, .. }| {
            let found = Side::new(&side.id, &side.label, side.role);
            let found = found.with_cipher(side.cipher.as_deref());
            Side { facts: side.facts.clone(), ..found }
        });
        let engine = self.seats.first().map_or_else(String::new, |base| {
            let library = &base.spec.side.library;
            format!("SQLite {} ({})", library.version, library.origin)
        });
        let driver = "own driver, a process a thread";
        let mut report = report(sides.collect(), "sqlite", &engine, driver);
        report.set("data_bytes", self.data_bytes);
        let settings = self.pragmas().into_iter();
        report.settings = settings.map(|(name, value)| (name.to_owned(), value)).collect();
        report.limits.extend(self.config.doubts_of_directories());
        report.limits.push(
            "CPU is that of the processes that drive SQLite, their own work included.".to_owned(),
        );
        report
    }

    fn restart(&mut self, number: u32, rng: &mut Rng, _report: &mut Report) -> Result<()> {
        self.seats.iter_mut().for_each(|seat| seat.workers.clear());
        self.copies.clear();
        let mut order: Vec<&mut Seat> = self.seats.iter_mut().collect();
        rng.shuffle(&mut order);
        for seat in order {
            let copies = private::directory(seat.spec.root(self.directory.path()), "restart-")?;
            seat.path = place_for(copies.path(), &seat.spec)?;
            copy_file(&seat.pristine, &seat.path)?;
            self.copies.push(copies);
        }
        let (workload, seed) = (Workload::ReadOnly, u64::from(number) + 1);
        for side in 0..self.seats.len() {
            self.block(side, Load { workload, threads: 1, seconds: 0.3, seed, selects: None })?;
        }
        Ok(())
    }

    fn block(&mut self, side: usize, load: Load) -> Result<Measured> {
        let count = usize::try_from(load.threads).unwrap_or(1).max(1);
        let pragma = |(name, value): (&str, String)| format!("PRAGMA {name} = {value}");
        let settings: Vec<String> = self.pragmas().into_iter().map(pragma).collect();
        let seat = self.seats.get_mut(side).ok_or_else(|| no_side(side))?;
        seat.grow(count, &settings)?;
        let (plan, duration_ns) = (&self.config.oltp, whole(load.seconds * 1e9));
        for (number, worker) in (1_u64..).zip(seat.workers.iter_mut().take(count)) {
            let seed = load.seed.wrapping_mul(1_000_003).wrapping_add(number);
            let share = share_of(plan, load.workload, duration_ns, seed);
            worker.send(&Request::Oltp(share))?;
        }
        let (mut sum, mut times) = (OltpDone::default(), Latencies::new());
        let (mut start_ns, mut end_ns) = (u64::MAX, 0);
        for worker in seat.workers.iter_mut().take(count) {
            let done: OltpDone = worker.receive()?;
            start_ns = start_ns.min(done.cost.start_ns);
            end_ns = end_ns.max(done.cost.end_ns);
            sum.cost.add(&done.cost);
            sum.transactions += done.transactions;
            sum.queries += done.queries;
            times.add(&done.times);
        }
        let idle = self.idle.iter().find(|(workload, _)| *workload == load.workload);
        Ok(Measured {
            transactions: sum.transactions,
            queries: sum.queries,
            errors: sum.cost.retries,
            elapsed_ns: end_ns.saturating_sub(start_ns),
            engine: sum.cost.used,
            own_cpu_ns: idle.map_or(0, |(_, each)| whole(each * float(sum.transactions))),
            latency: times.percentiles().unwrap_or_default(),
            ..Measured::default()
        })
    }
}

/// Returns a process's share of a block.
fn share_of(plan: &OltpPlan, workload: Workload, duration_ns: u64, seed: u64) -> OltpShare {
    OltpShare { workload, tables: plan.tables, rows: plan.rows, duration_ns, seed }
}
