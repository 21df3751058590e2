//! An existing server: tables of the run, in a separate database if the user may create one and
//! else in the named database; `ENCRYPTED=NO` against `ENCRYPTED=YES`, on MySQL `ENCRYPTION='N'`
//! against `'Y'`, if the server supports it, plain load figures if not. They are dropped in the
//! end; existing tables are never modified.

use fastrand::Rng;
use tdekit_bench_report::{Report, Role, Side};

use super::client::{Client, MYSQL_LOGS};
use super::ground::{Load, Measured, Target, no_side, report};
use super::home::Home;
use super::swap::{Clause, TableSet};
use super::sysbench::Sysbench;
use super::tls::Channel;
use crate::address::ServerUrl;
use crate::error::{BenchError, Result};
use crate::plan::OltpPlan;
use crate::private;
use crate::progress::Progress;
use tdekit_bench_work::Workload;

const SHOWN: [&str; 8] = [
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_encrypt_log",
    "innodb_encrypt_tables",
    "log_bin",
    MYSQL_LOGS[0].0,
    MYSQL_LOGS[1].0,
    MYSQL_LOGS[2].0,
];
/// The server and its capabilities.
pub(super) struct Remote<'a> {
    plan: &'a OltpPlan,
    home: Home<'a>,
    sysbench: Sysbench,
    /// True if the user may see which tables are encrypted.
    may_look: bool,
    /// How tables are encrypted; `None` if that is impossible.
    clause: Option<Clause>,
    sets: Vec<TableSet>,
    engine: String,
    /// The protocol and suite of the control connection, if it has TLS.
    tls: Option<String>,
    limits: Vec<String>,
    /// Working directory of the clients, with sysbench's options and the certificate authorities.
    _directory: private::Directory,
}

impl<'a> Remote<'a> {
    /// Connects, and determines the capabilities of the server.
    pub(super) fn prepare(
        plan: &'a OltpPlan,
        url: &ServerUrl,
        progress: &'a Progress,
    ) -> Result<Self> {
        if plan.workloads.contains(&Workload::FullScan) {
            let reason = "full_scan counts pages of a private server: --target mariadb";
            return Err(BenchError::option("--workload", reason));
        }
        progress.say("asking the server");
        let directory = private::directory(&std::env::temp_dir(), "tdekit-bench-")?;
        let config = directory.path().join("sysbench.cfg");
        let sysbench = Sysbench::find(plan, vec![format!("--config-file={}", config.display())])?;
        let sysbench = sysbench.on_server(directory.path(), url.password.clone());
        let channel = Channel::prepare(plan.trust.as_ref(), directory.path())?;
        let client = Client::new(url, &channel, directory.path())?;
        let version = client.sql(VERSION)?;
        let tls = channel.negotiated(&client)?;
        check_connections(plan, &client)?;
        progress.tell(&announcement(plan, url));
        let home = Home::make(client, plan.tables, progress)?;
        let options = sysbench_options(url, &channel, &home.client.database);
        private::write(&config, options.as_bytes())?;
        let engine = match version.trim() {
            // MariaDB's version contains its name.
            named if named.contains("MariaDB") => named.to_owned(),
            other => format!("MySQL {other}"),
        };
        let mut limits = vec![
            "The server's CPU and I/O cannot be measured from here: throughput and latency only."
                .to_owned(),
        ];
        limits.extend(channel.limit(url));
        if !home.own {
            limits.push(format!(
                "The user may not make a database: the run's tables are in {}.",
                home.client.database
            ));
        }
        let clause = home.client.clause()?;
        let may_look =
            clause.is_some_and(|clause| home.client.sql(&clause.look(&[], &url.database)).is_ok());
        if clause.is_some() && !may_look {
            limits.push(
                "The user may not see which tables are encrypted (the privilege PROCESS): this \
                 was not checked."
                    .to_owned(),
            );
        }
        let shared = "Both sets of tables share one server: logs and temporary files are as its \
                      own settings have them on both sides.";
        limits.push(match clause {
            _ if plan.control => "Both sets of tables are plain.".to_owned(),
            Some(_) => shared.to_owned(),
            None => {
                "The server does not make encrypted tables beside plain ones: load figures, no \
                 overhead."
                    .to_owned()
            }
        });
        limits.extend(home.client.logs().filter(|_| clause == Some(Clause::MySql)));
        limits.extend(home.client.provider());
        let sets = match clause {
            _ if plan.control => vec![TableSet::Plain, TableSet::Control],
            Some(_) => vec![TableSet::Plain, TableSet::Encrypted],
            None => vec![TableSet::Plain],
        };
        let _directory = directory;
        Ok(Self { plan, home, sysbench, may_look, clause, sets, engine, tls, limits, _directory })
    }
}

/// The statement that returns the server's version.
pub(super) const VERSION: &str = "SELECT VERSION()";

/// Fails if the server accepts fewer connections than there are threads.
fn check_connections(plan: &OltpPlan, client: &Client) -> Result<()> {
    let told = client.sql("SELECT @@max_connections")?;
    // A server that does not report it refuses the threads itself.
    let all: u32 = told.trim().parse().unwrap_or(u32::MAX);
    let most = plan.most_threads();
    if most < all {
        return Ok(());
    }
    let reason = format!("{most} threads are as many connections, and the server takes {all}");
    Err(BenchError::option("--threads", reason))
}

/// Returns a description of the run's effects on the server, shown before it begins.
pub(super) fn announcement(plan: &OltpPlan, url: &ServerUrl) -> String {
    let load = match plan.rate {
        Some(rate) => format!("gives the server {rate} transactions a second"),
        None => "loads the server as far as it can".to_owned(),
    };
    let connections = match plan.most_threads() {
        1 => "one connection".to_owned(),
        most => format!("{most} connections"),
    };
    format!(
        "On {url} the run makes a database of its own, or where {} may not, tables in {}; fills \
         two sets of {} tables with {} rows each, {} set encrypted, in each of {} restarts; and \
         drops all of it in the end. It needs some {} MB there and up to {connections}, and \
         {load}, for some {} s.",
        url.user,
        url.database,
        plan.tables,
        plan.rows,
        if plan.control { "no" } else { "one" },
        plan.restarts,
        plan.needed_bytes() / 1_000_000,
        plan.max_time.as_secs(),
    )
}

impl Remote<'_> {
    /// Fails unless the encryption of the tables of a set is that of the set.
    fn check(&self, set: TableSet) -> Result<()> {
        let Some(clause) = self.clause.filter(|_| self.may_look) else { return Ok(()) };
        let client = &self.home.client;
        let row = client.sql(&clause.look(&set.names(self.plan.tables), &client.database))?;
        let found = row.trim().parse().unwrap_or(u32::MAX);
        let wanted = if set == TableSet::Encrypted { self.plan.tables } else { 0 };
        if found == wanted {
            return Ok(());
        }
        let all = self.plan.tables;
        Err(BenchError::mismatch(
            format!("{set:?} tables").to_lowercase(),
            format!("{found} of {all} are encrypted, and {wanted} should be"),
        ))
    }
}

impl Target for Remote<'_> {
    fn report(&self) -> Report {
        let option = |encrypted| self.clause.map_or("as it is", |clause| clause.option(encrypted));
        let side = |set: &TableSet| {
            let (id, label, role, cipher) = match set {
                TableSet::Plain if self.sets.len() == 1 => ("server", "as it is", Role::Base, None),
                TableSet::Plain => ("base", option(false), Role::Base, None),
                TableSet::Control => ("control", "plain again", Role::Encrypted, None),
                TableSet::Encrypted => {
                    ("encrypted", option(true), Role::Encrypted, Some("the server's own"))
                }
            };
            Side::new(id, label, role).with_cipher(cipher)
        };
        let sides = self.sets.iter().map(side).collect();
        let mut report = report(sides, "mysql", &self.engine, &self.sysbench.version());
        if let Some(tls) = &self.tls {
            report.set("tls", tls.as_str());
        }
        let ask = |name: &&str| {
            // A setting that the server does not have is left out.
            let value = self.home.client.sql(&format!("SELECT @@{name}")).ok()?;
            Some(((*name).to_owned(), value.trim().to_owned()))
        };
        report.settings = SHOWN.iter().filter_map(ask).collect();
        report.settings.extend(self.home.client.keyring().map(|state| ("keyring".into(), state)));
        report.limits.clone_from(&self.limits);
        report
    }

    /// Recreates the tables of every set, sets in random order.
    fn restart(&mut self, _number: u32, rng: &mut Rng, _report: &mut Report) -> Result<()> {
        let client = &self.home.client;
        client.sql(&TableSet::drop_all(self.plan.tables))?;
        let seed = rng.u64(1..1 << 31);
        let mut order = self.sets.clone();
        rng.shuffle(&mut order);
        for set in order {
            self.sysbench.prepare(seed)?;
            if let Some(clause) = self.clause {
                client.sql(&set.alter(self.plan.tables, clause))?;
            }
            client.sql(&set.put_aside(self.plan.tables))?;
            self.check(set)?;
        }
        Ok(())
    }

    fn leave(&mut self) -> Option<String> {
        self.home.leave()
    }

    fn block(&mut self, side: usize, load: Load) -> Result<Measured> {
        let set = self.sets.get(side).ok_or_else(|| no_side(side))?;
        self.home.client.sql(&set.bring_back(self.plan.tables))?;
        let measured = self.sysbench.run(load, None)?;
        self.home.client.sql(&set.put_aside(self.plan.tables))?;
        Ok(measured)
    }
}

/// Returns sysbench's options for the connection, which go into a file: a command line is visible
/// to all users.
fn sysbench_options(url: &ServerUrl, channel: &Channel, database: &str) -> String {
    let (host, user) = (quoted(&channel.sysbench_host(url)), quoted(&url.user));
    let port = url.port;
    format!("mysql-host={host}\nmysql-port={port}\nmysql-user={user}\nmysql-db={database}\n")
}

/// A value of sysbench's option file. It has no escapes; quotes do not occur in hosts, and hardly
/// in user names.
fn quoted(text: &str) -> String {
    let quote = if text.contains('"') { '\'' } else { '"' };
    format!("{quote}{text}{quote}")
}
