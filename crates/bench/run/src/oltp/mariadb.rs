//! Private servers from the system's packages: a data directory for each side, created by the same
//! statements, copied again for every restart. While one side is measured, the processes of the
//! others are stopped by a signal, so that their background work does not affect it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tdekit_bench_report::{Report, Role};
use tdekit_private_mariadb::{Server, ServerConfig, copy_tree, initialise};

use super::ground::{Load, Measured, Target, no_side, report};
use super::own::{ServerSide, set_up};
use super::swap::Clause;
use super::sysbench::Sysbench;
use crate::environment::check_space;
use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::plan::Config;
use crate::plan::oltp::{OltpPlan, ROW_BYTES};
use crate::private;
use crate::progress::Progress;
use crate::schedule::in_random_order;
use crate::tools::Tools;
use tdekit_bench_work::Workload;

const DATABASE: &str = "sbtest";
/// Size of an empty server in bytes.
const SERVER_BYTES: u64 = 250 << 20;
/// The background threads encrypt the system tablespace before anything is measured.
const ENCRYPT_LIMIT: Duration = Duration::from_mins(5);
/// Settings of every server.
const OPTIONS: [&str; 6] = [
    "innodb-flush-method=O_DIRECT",
    "innodb-flush-log-at-trx-commit=1",
    "max-connections=1100",
    "max-prepared-stmt-count=1048576",
    "table-open-cache=4096",
    "back-log=1100",
];
/// Settings of MySQL's servers alone: none has a binary log unless all have.
const MYSQL_QUIET: &str = "disable-log-bin";
/// Settings shown in the report, as read back from the base.
const SHOWN: [&str; 8] = [
    "innodb_buffer_pool_size",
    "innodb_flush_method",
    "innodb_flush_log_at_trx_commit",
    "innodb_doublewrite",
    "innodb_log_file_size",
    "innodb_page_size",
    "log_bin",
    "sync_binlog",
];

/// Sides with their data. Dropping it ends their servers and removes everything.
pub(super) struct MariaDb<'a> {
    plan: &'a OltpPlan,
    sides: Vec<ServerSide>,
    engine: String,
    driver: String,
    data_bytes: u64,
    /// The servers of the restart, by side, all of them stopped by a signal except the one that is
    /// measured.
    running: Vec<(Server, Sysbench)>,
    /// Their data.
    copies: Option<private::Directory>,
    directory: private::Directory,
}

impl<'a> MariaDb<'a> {
    /// Creates every side's data.
    pub(super) fn prepare(config: &'a Config, tools: &Tools, progress: &Progress) -> Result<Self> {
        let (plan, place) = (&config.oltp, &config.directory);
        let driver = Sysbench::find(plan, Vec::new())?.version();
        let mysql = if plan.mysql.is_some() { 2 } else { 0 };
        let copies = 2 * (2 + plan.plugins.len() as u64 + mysql);
        let each = u64::from(plan.tables) * plan.rows * ROW_BYTES + SERVER_BYTES;
        check_space(place, each.saturating_mul(copies))?;
        let directory = private::run_directory(place)?;
        progress.say("setting up the sides");
        let sides = set_up(plan, tools, config.given.basics.aa, directory.path())?;
        let mut made = Self {
            plan,
            sides,
            engine: String::new(),
            driver,
            data_bytes: 0,
            running: Vec::new(),
            copies: None,
            directory,
        };
        progress.say("making the system tables");
        for side in &made.sides {
            let template = made.template(side);
            if !template.is_dir() {
                initialise(&side.programs, &template, &[])?;
            }
        }
        let pristine = made.directory.path().join("pristine");
        private::make(&pristine)?;
        let mut versions = Vec::new();
        for side in &made.sides {
            interrupt::check()?;
            progress.say(format!("filling the tables: {}", side.side.label));
            let (engine, bytes) = made.fill(side, config.given.basics.seed)?;
            if side.side.role == Role::Base {
                (made.engine, made.data_bytes) = (engine.clone(), bytes);
            }
            versions.push(engine);
        }
        for (side, version) in made.sides.iter_mut().zip(versions) {
            if version != made.engine {
                side.side.facts.insert("version".to_owned(), version.into());
            }
        }
        Ok(made)
    }

    /// Returns an empty server's data, which the sides of an engine share.
    fn template(&self, side: &ServerSide) -> PathBuf {
        self.directory.path().join(format!("template-{:?}", side.clause))
    }

    fn pristine(&self, side: &ServerSide) -> PathBuf {
        self.directory.path().join("pristine").join(folder(side))
    }

    fn config(&self, side: &ServerSide, data: PathBuf) -> ServerConfig {
        let mut config = ServerConfig { data, ..side.config.clone() };
        config.options.extend(OPTIONS.map(str::to_owned));
        config.options.push(format!("innodb-buffer-pool-size={}M", self.plan.buffer_pool_mib));
        if self.plan.binlog {
            config.options.extend(["log-bin=binlog", "server-id=1"].map(str::to_owned));
        } else if side.clause == Clause::MySql {
            config.options.push(MYSQL_QUIET.to_owned());
        }
        config.options.extend(self.plan.server_options.iter().cloned());
        config
    }

    fn sysbench(&self, server: &Server) -> Result<Sysbench> {
        let socket = format!("--mysql-socket={}", server.socket().display());
        let connection =
            vec![socket, "--mysql-user=root".to_owned(), format!("--mysql-db={DATABASE}")];
        Sysbench::find(self.plan, connection)
    }

    /// Fills a side's tables with its own settings, waits until everything is encrypted or plain as
    /// required, and shuts down cleanly. Returns the engine, and the size of the tables in bytes.
    fn fill(&self, side: &ServerSide, seed: u64) -> Result<(String, u64)> {
        let data = self.pristine(side);
        copy_tree(&self.template(side), &data)?;
        let mut config = self.config(side, data.clone());
        // Only while filling; the same for every side.
        config.options.push("innodb-flush-log-at-trx-commit=0".to_owned());
        config.options.push("innodb-buffer-pool-size=256M".to_owned());
        let server = Server::start(&side.programs, &config)?;
        server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
        self.sysbench(&server)?.prepare(seed % (1 << 31))?;
        settle_encryption(&server, side, (DATABASE, self.plan.tables))?;
        let engine = format!("{} {}", side.clause.engine(), server.sql("SELECT VERSION()")?.trim());
        server.sql("SET GLOBAL innodb_fast_shutdown=0")?;
        server.stop()?;
        Ok((engine, directory_bytes(&data.join(DATABASE))))
    }
}

/// Returns a side's name as that of a directory.
fn folder(side: &ServerSide) -> String {
    side.side.id.replace(':', "-")
}

/// The statement that counts the tablespaces that MariaDB's threads have not encrypted yet.
const UNSETTLED: &str = "SELECT COUNT(*) FROM information_schema.innodb_tablespaces_encryption \
                         WHERE MIN_KEY_VERSION < CURRENT_KEY_VERSION OR ROTATING_OR_FLUSHING = 1";

/// Waits until the background threads have nothing left to encrypt, and checks that sysbench's
/// tables have the side's encryption.
fn settle_encryption(
    server: &Server,
    side: &ServerSide,
    (database, tables): (&str, u32),
) -> Result<()> {
    let count =
        |sql: &str| -> Result<u64> { Ok(server.sql(sql)?.trim().parse().unwrap_or(u64::MAX)) };
    let begun = Instant::now();
    // MySQL has no such threads.
    let waits = side.encrypts() && side.clause == Clause::MariaDb;
    while waits && count(UNSETTLED)? > 0 && begun.elapsed() < ENCRYPT_LIMIT {
        interrupt::check()?;
        std::thread::sleep(Duration::from_millis(200));
    }
    let names = (1..=tables).map(|table| format!("sbtest{table}"));
    let encrypted = count(&side.clause.look(&names.collect::<Vec<_>>(), database))?;
    let (tables, wanted) = (u64::from(tables), if side.encrypts() { tables } else { 0 });
    let wanted = u64::from(wanted);
    if encrypted == wanted {
        return Ok(());
    }
    Err(BenchError::mismatch(
        side.side.label.as_str(),
        format!("{encrypted} of {tables} tables are encrypted, and {wanted} should be"),
    ))
}

fn directory_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|state| state.len()).sum()
}

impl Target for MariaDb<'_> {
    fn report(&self) -> Report {
        let sides = self.sides.iter().map(|side| side.side.clone()).collect();
        let mut report = report(sides, "mariadb", &self.engine, &self.driver);
        report.set("data_bytes", self.data_bytes);
        if self.plan.mysql.is_some() {
            report.limits.push(
                "MySQL with its keyring is held against MySQL without it, all others against the \
                 plain MariaDB: a cost is that of the encryption in its own engine. Which engine \
                 is the faster one is another question."
                    .to_owned(),
            );
        }
        report
    }

    fn restart(&mut self, number: u32, rng: &mut Rng, report: &mut Report) -> Result<()> {
        self.running.clear();
        self.copies = None;
        let copies = private::directory(self.directory.path(), "restart-")?;
        for side in &self.sides {
            interrupt::check()?;
            copy_tree(&self.pristine(side), &copies.path().join(folder(side)))?;
        }
        // Pages of the copies in the system's cache are written now, not during the measurement.
        rustix::fs::sync();
        self.running = in_random_order(&self.sides, rng, |side| {
            let config = self.config(side, copies.path().join(folder(side)));
            let server = Server::start(&side.programs, &config)?;
            if side.side.role == Role::Base && report.settings.is_empty() {
                for name in SHOWN {
                    let value = server.sql(&format!("SELECT @@{name}"))?.trim().to_owned();
                    report.settings.insert(name.to_owned(), value);
                }
            }
            let sysbench = self.sysbench(&server)?;
            let (workload, seed) = (Workload::ReadOnly, u64::from(number) + 1);
            sysbench.run(Load { workload, threads: 4, seconds: 2.0, seed, selects: None }, None)?;
            server.pause();
            Ok((server, sysbench))
        })?;
        self.copies = Some(copies);
        Ok(())
    }

    fn block(&mut self, side: usize, load: Load) -> Result<Measured> {
        let (server, sysbench) = self.running.get(side).ok_or_else(|| no_side(side))?;
        server.resume();
        let measured = match load.workload {
            Workload::FullScan => scan(server, self.plan.tables),
            _ => sysbench.run(load, Some(server.pid())),
        };
        server.pause();
        measured
    }

    fn clean_up(&mut self) -> Result<()> {
        for (server, _) in self.running.drain(..) {
            // A clean shutdown would write out a buffer pool that is never read again.
            server.kill()?;
        }
        self.copies = None;
        Ok(())
    }
}

/// Reads every row of every table, one table after the other; the part of the data that exceeds the
/// buffer pool comes from the device each time.
fn scan(server: &Server, tables: u32) -> Result<Measured> {
    let pages = || -> Result<u64> {
        let row = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'")?;
        Ok(row.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0))
    };
    let statements: String = (1..=tables)
        .map(|table| format!("SELECT SUM(LENGTH(pad)) FROM {DATABASE}.sbtest{table};\n"))
        .collect();
    let before = (pages()?, server.moment());
    let begun = Instant::now();
    server.sql(&statements)?;
    let elapsed = begun.elapsed();
    let after = (pages()?, server.moment());
    Ok(Measured {
        transactions: after.0.saturating_sub(before.0),
        queries: u64::from(tables),
        elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        engine: after.1.since(&before.1).unwrap_or_default(),
        ..Measured::default()
    })
}
