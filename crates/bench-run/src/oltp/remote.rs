//! A server that is already there: tables of the run's own, in a database of its own where the user
//! may make one and else in the database that was named; `ENCRYPTED=NO` against `ENCRYPTED=YES`, on
//! MySQL `ENCRYPTION='N'` against `'Y'`, where the server can, plain load figures where not. They
//! are dropped in the end; tables that were there are never touched.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fastrand::Rng;
use tdekit_bench_report::{Report, Role, Side};
use tdekit_private_mariadb::Programs;

use super::ground::{Load, Measured, Target, no_side, report};
use super::options::{OltpPlan, Workload};
use super::swap::{ASIDE, Clause, TableSet};
use super::sysbench::Sysbench;
use crate::address::ServerUrl;
use crate::error::{BenchError, Result};
use crate::private;
use crate::progress::Progress;

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
/// What MySQL encrypts beside tables, and by which settings.
const MYSQL_LOGS: [(&str, &str); 3] = [
    ("innodb_redo_log_encrypt", "the redo log"),
    ("innodb_undo_log_encrypt", "undo logs"),
    ("binlog_encryption", "binary logs"),
];
/// MySQL's error where no keyring has a master key.
const NO_KEYRING: &str = "ERROR 3185";

/// The server's error for a user who may not make a database.
const ACCESS_DENIED: &str = "ERROR 1044";
/// For `localhost`, which sysbench takes for a socket.
const LOOPBACK: &str = "127.0.0.1";

/// The server and what it can do.
pub(super) struct Remote<'a> {
    plan: &'a OltpPlan,
    home: Home,
    sysbench: Sysbench,
    /// Whether the user may see which tables are encrypted.
    may_look: bool,
    /// How tables are encrypted; `None` where they cannot be.
    clause: Option<Clause>,
    sets: Vec<TableSet>,
    engine: String,
    limits: Vec<String>,
    /// Holds the files with the password.
    _directory: tempfile::TempDir,
}

impl<'a> Remote<'a> {
    /// Connects, and finds out what the server can do.
    pub(super) fn prepare(
        plan: &'a OltpPlan,
        url: &ServerUrl,
        progress: &Progress,
    ) -> Result<Self> {
        if plan.workloads.contains(&Workload::FullScan) {
            let reason = "full_scan counts pages of a private server: --target mariadb";
            return Err(BenchError::option("--workload", reason));
        }
        progress.say("asking the server");
        let directory = private::directory(&std::env::temp_dir(), "tdekit-bench-")?;
        let home = Home::make(Client::new(url, directory.path())?, plan.tables)?;
        let config = directory.path().join("sysbench.cfg");
        let options = sysbench_options(url, &home.client.database);
        private::write(&config, options.as_bytes())?;
        let sysbench = Sysbench::find(plan, vec![format!("--config-file={}", config.display())])?;
        let version = home.client.sql("SELECT VERSION()")?;
        let engine = match version.trim() {
            // MariaDB's version names it.
            named if named.contains("MariaDB") => named.to_owned(),
            other => format!("MySQL {other}"),
        };
        let mut limits = vec![
            "The server's CPU and I/O cannot be told from here: throughput and latency only."
                .to_owned(),
        ];
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
            Some(_) => shared.to_owned(),
            None => {
                "The server does not make encrypted tables beside plain ones: load figures, no \
                 overhead."
                    .to_owned()
            }
        });
        limits.extend(home.client.logs().filter(|_| clause == Some(Clause::Mysql)));
        limits.extend(home.client.provider());
        let sets = match clause {
            Some(_) => vec![TableSet::Plain, TableSet::Encrypted],
            None => vec![TableSet::Plain],
        };
        let _directory = directory;
        Ok(Self { plan, home, sysbench, may_look, clause, sets, engine, limits, _directory })
    }
}

impl Remote<'_> {
    /// Fails unless the tables of a set are encrypted, or are not, as the set says.
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
                TableSet::Encrypted => {
                    ("encrypted", option(true), Role::Encrypted, Some("the server's own"))
                }
            };
            Side::new(id, label, role).with_cipher(cipher)
        };
        let sides = self.sets.iter().map(side).collect();
        let mut report = report(sides, "mysql", &self.engine, &self.sysbench.version());
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

    /// Makes the tables of every set anew, sets in random order.
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

    fn block(&mut self, side: usize, load: Load) -> Result<Measured> {
        let set = self.sets.get(side).ok_or_else(|| no_side(side))?;
        self.home.client.sql(&set.bring_back(self.plan.tables))?;
        let measured = self.sysbench.run(load, None)?;
        self.home.client.sql(&set.put_aside(self.plan.tables))?;
        Ok(measured)
    }
}

/// The place of the run's tables. Dropping it drops them; a server that is gone keeps them.
struct Home {
    client: Client,
    /// Whether the database is the run's own.
    own: bool,
    tables: u32,
}

impl Home {
    fn make(mut client: Client, tables: u32) -> Result<Self> {
        let own = format!("{ASIDE}{:016x}", fastrand::u64(..));
        match client.sql(&format!("CREATE DATABASE `{own}`")) {
            Ok(_) => {
                client.database = own;
                return Ok(Self { client, own: true, tables });
            }
            Err(BenchError::Command { stderr, .. }) if stderr.contains(ACCESS_DENIED) => {}
            Err(error) => return Err(error),
        }
        let taken = client.sql(&format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
             AND (table_name LIKE 'sbtest%' OR table_name LIKE '{ASIDE}%')"
        ))?;
        if taken.trim() != "0" {
            let reason = format!(
                "the user may not make a database, and {} holds tables named sbtest* or {ASIDE}*",
                client.database
            );
            return Err(BenchError::option("--target", reason));
        }
        Ok(Self { client, own: false, tables })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let leave = match self.own {
            true => format!("DROP DATABASE `{}`", self.client.database),
            false => TableSet::drop_all(self.tables),
        };
        // The run has ended, well or not.
        let _ = self.client.sql(&leave);
    }
}

/// The command-line client, which finds address and password in a file.
struct Client {
    program: PathBuf,
    options: PathBuf,
    database: String,
}

impl Client {
    fn new(url: &ServerUrl, directory: &Path) -> Result<Self> {
        let options = directory.join("client.cnf");
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = format!(
            "[client]\nhost={}\nport={}\nuser=\"{}\"\nprotocol=tcp\n",
            url.host,
            url.port,
            quoted(&url.user)
        );
        if let Some(password) = &url.password {
            text.push_str(&format!("password=\"{}\"\n", quoted(password.as_str())));
        }
        private::write(&options, text.as_bytes())?;
        let database = url.database.clone();
        Ok(Self { program: Programs::find_client()?, options, database })
    }

    fn sql(&self, sql: &str) -> Result<String> {
        crate::command::run(
            Command::new(&self.program)
                .arg(format!("--defaults-file={}", self.options.display()))
                .args(["--batch", "--skip-column-names", "--execute", sql])
                .arg(&self.database)
                .stdin(Stdio::null()),
        )
        .map(|output| String::from_utf8_lossy(&output).into_owned())
    }

    /// How tables are made with and without encryption; `None` where they cannot be.
    ///
    /// # Errors
    /// Where the server could, and its keyring is missing.
    fn clause(&self) -> Result<Option<Clause>> {
        for clause in Clause::ALL {
            let probe = |encrypted| {
                self.sql(&format!(
                    "CREATE TABLE {ASIDE}probe(a INT) ENGINE=InnoDB {}; DROP TABLE {ASIDE}probe",
                    clause.option(encrypted)
                ))
            };
            match probe(true) {
                Ok(_) if probe(false).is_ok() => return Ok(Some(clause)),
                Err(BenchError::Command { stderr, .. }) if stderr.contains(NO_KEYRING) => {
                    let reason = "the server has no keyring, so it encrypts no table: load one, \
                                  such as component_keyring_file named in mysqld.my beside \
                                  mysqld, and start the server anew; docs/bench-servers.md has \
                                  the files";
                    return Err(BenchError::option("--target", reason));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The keyring that MySQL has loaded, and its state.
    fn keyring(&self) -> Option<String> {
        let component = "SELECT GROUP_CONCAT(STATUS_VALUE ORDER BY STATUS_KEY SEPARATOR ', ') \
                         FROM performance_schema.keyring_component_status \
                         WHERE STATUS_KEY IN ('Component_name', 'Component_status')";
        let plugin = "SELECT GROUP_CONCAT(PLUGIN_NAME) FROM information_schema.plugins \
                      WHERE PLUGIN_NAME LIKE 'keyring%' AND PLUGIN_STATUS = 'ACTIVE'";
        [component, plugin].into_iter().find_map(|sql| {
            let told = self.sql(sql).ok()?.trim().to_owned();
            (!told.is_empty() && told != "NULL").then_some(told)
        })
    }

    /// Which of MySQL's logs are encrypted, on both sides.
    fn logs(&self) -> impl Iterator<Item = String> {
        let said = |name: &str| self.sql(&format!("SELECT @@{name}")).ok();
        let state = |(name, what): (&str, &'static str)| {
            let state = if said(name)?.trim() == "1" { "encrypted" } else { "in the clear" };
            Some(format!("{what} {state}"))
        };
        let states: Vec<String> = MYSQL_LOGS.into_iter().filter_map(state).collect();
        let told = format!("By the server's settings, on both sides: {}.", states.join(", "));
        (!states.is_empty()).then_some(told).into_iter()
    }

    /// What cannot be compared at a provider that encrypts the storage below the server.
    fn provider(&self) -> Option<String> {
        let said = |sql: &str| self.sql(sql).unwrap_or_default().trim().to_lowercase();
        let name = if !said("SELECT @@aurora_version").is_empty() {
            "Amazon Aurora"
        } else if said("SELECT @@basedir").starts_with("/rdsdbbin") {
            "Amazon RDS"
        } else if said("SELECT VERSION()").contains("-google") {
            "Google Cloud SQL"
        } else {
            return None;
        };
        Some(format!(
            "{name}: the storage below the server is encrypted or not for the whole instance, and \
             no table can switch that. What it costs is told by two instances, one of each kind, \
             and `tdekit bench compare` over their results."
        ))
    }
}

/// Sysbench's options that lead to the server, in a file: a command line is seen by all users.
fn sysbench_options(url: &ServerUrl, database: &str) -> String {
    let host = if url.host == "localhost" { LOOPBACK } else { &url.host };
    let mut text = format!(
        "mysql-host={host}\nmysql-port={}\nmysql-user={}\nmysql-db={database}\n",
        url.port, url.user
    );
    if let Some(password) = &url.password {
        text.push_str(&format!("mysql-password={}\n", password.as_str()));
    }
    text
}
