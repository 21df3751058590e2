//! A server that is already there: tables of the run's own in the database that was named,
//! `ENCRYPTED=NO` against `ENCRYPTED=YES` where the server can, plain load figures where not. They
//! are dropped in the end; tables that were there are never touched.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fastrand::Rng;
use tdekit_cost_report::{OltpSetting, OltpSide, Role};
use tdekit_private_mariadb::Programs;

use super::options::{OltpPlan, Workload};
use super::schedule::{Bed, Block, Ground, Measured};
use super::swap::{ASIDE, TableSet};
use super::sysbench::Sysbench;
use super::url::ServerUrl;
use crate::error::BenchError;
use crate::progress::Progress;

const SHOWN: [&str; 5] = [
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_encrypt_log",
    "innodb_encrypt_tables",
    "log_bin",
];

/// The server and what it can do.
pub(super) struct Remote<'a> {
    plan: &'a OltpPlan,
    client: Client,
    sysbench: Sysbench,
    sets: Vec<TableSet>,
    pub(super) engine: String,
    pub(super) driver: String,
    pub(super) settings: Vec<OltpSetting>,
    pub(super) limits: Vec<String>,
    /// Holds the files with the password.
    _directory: tempfile::TempDir,
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        // The run has ended, well or not; a server that is gone keeps the tables.
        let _ = self.client.sql(&TableSet::drop_all(self.plan.tables));
    }
}

impl<'a> Remote<'a> {
    /// Connects, and finds out what the server can do.
    pub(super) fn prepare(
        plan: &'a OltpPlan,
        url: &ServerUrl,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        if plan.workloads.contains(&Workload::FullScan) {
            return Err(BenchError::Option {
                option: "--workload",
                reason: "full_scan counts pages of a private server: --target mariadb".to_owned(),
            });
        }
        progress.say("asking the server");
        let directory = tempfile::tempdir()
            .map_err(BenchError::file("cannot make a directory in", std::env::temp_dir()))?;
        let client = Client::new(url, directory.path())?;
        let config = directory.path().join("sysbench.cfg");
        private_file(&config, &sysbench_options(url))?;
        let sysbench = Sysbench::find(plan, vec![format!("--config-file={}", config.display())])?;
        let taken = client.sql(&format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
             AND (table_name LIKE 'sbtest%' OR table_name LIKE '{ASIDE}%')"
        ))?;
        if taken.trim() != "0" {
            return Err(BenchError::Option {
                option: "--target",
                reason: format!("{} holds tables named sbtest* or {ASIDE}*", url.database),
            });
        }
        let engine = client.sql("SELECT VERSION()")?.trim().to_owned();
        let mut limits = vec![
            "The server's CPU and I/O cannot be told from here: throughput and latency only."
                .to_owned(),
        ];
        let sets = if client.can_encrypt() {
            limits.push(
                "Both sets of tables share one server: logs and temporary files are as its own \
                 settings have them on both sides."
                    .to_owned(),
            );
            vec![TableSet::Plain, TableSet::Encrypted]
        } else {
            limits.push(
                "The server does not make ENCRYPTED=YES beside ENCRYPTED=NO tables: load figures, \
                 no overhead."
                    .to_owned(),
            );
            vec![TableSet::Plain]
        };
        let driver = sysbench.version();
        let settings = client.settings();
        Ok(Self {
            plan,
            client,
            sysbench,
            sets,
            engine,
            driver,
            settings,
            limits,
            _directory: directory,
        })
    }

    /// The sides, base first.
    pub(super) fn sides(&self) -> Vec<OltpSide> {
        let side = |set: &TableSet| match set {
            TableSet::Plain if self.sets.len() == 1 => ("server", "as it is", Role::Base, None),
            TableSet::Plain => ("base", "ENCRYPTED=NO", Role::Base, None),
            TableSet::Encrypted => {
                ("encrypted", "ENCRYPTED=YES", Role::Encrypted, Some("the server's own".to_owned()))
            }
        };
        self.sets
            .iter()
            .map(side)
            .map(|(id, label, role, cipher)| OltpSide {
                id: id.to_owned(),
                label: label.to_owned(),
                role,
                cipher,
                options: Vec::new(),
            })
            .collect()
    }
}

impl Ground for Remote<'_> {
    /// Makes the tables of every set anew, sets in random order.
    fn restart(&self, _number: u32, rng: &mut Rng) -> Result<Box<dyn Bed + '_>, BenchError> {
        self.client.sql(&TableSet::drop_all(self.plan.tables))?;
        let seed = rng.u64(1..1 << 31);
        let mut order = self.sets.clone();
        rng.shuffle(&mut order);
        for set in order {
            self.sysbench.prepare(seed)?;
            if self.sets.len() > 1 {
                self.client.sql(&set.alter(self.plan.tables))?;
            }
            self.client.sql(&set.put_aside(self.plan.tables))?;
        }
        Ok(Box::new(Tables { remote: self }))
    }
}

/// The tables of one restart.
struct Tables<'a> {
    remote: &'a Remote<'a>,
}

impl Bed for Tables<'_> {
    fn block(&mut self, side: usize, block: Block) -> Result<Measured, BenchError> {
        let remote = self.remote;
        let set = remote.sets.get(side).ok_or_else(|| BenchError::Mismatch {
            what: "schedule".to_owned(),
            detail: format!("there is no side {side}"),
        })?;
        remote.client.sql(&set.bring_back(remote.plan.tables))?;
        let measured = remote.sysbench.run(block, None)?;
        remote.client.sql(&set.put_aside(remote.plan.tables))?;
        Ok(measured)
    }

    fn finish(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

/// The command-line client, which finds address and password in a file.
struct Client {
    program: PathBuf,
    options: PathBuf,
    database: String,
}

impl Client {
    fn new(url: &ServerUrl, directory: &Path) -> Result<Self, BenchError> {
        let options = directory.join("client.cnf");
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = format!(
            "[client]\nhost={}\nport={}\nuser=\"{}\"\nprotocol=tcp\n",
            url.host,
            url.port,
            quoted(&url.user)
        );
        if let Some(password) = &url.password {
            text.push_str(&format!("password=\"{}\"\n", quoted(password)));
        }
        private_file(&options, &text)?;
        let database = url.database.clone();
        Ok(Self { program: Programs::find_client()?, options, database })
    }

    fn sql(&self, sql: &str) -> Result<String, BenchError> {
        crate::command::run(
            Command::new(&self.program)
                .arg(format!("--defaults-file={}", self.options.display()))
                .args(["--batch", "--skip-column-names", "--execute", sql])
                .arg(&self.database)
                .stdin(Stdio::null()),
        )
        .map(|output| String::from_utf8_lossy(&output).into_owned())
    }

    /// Whether tables can be made with and without encryption.
    fn can_encrypt(&self) -> bool {
        let probe = |value: &str| {
            let made = self.sql(&format!(
                "CREATE TABLE {ASIDE}probe(a INT) ENGINE=InnoDB ENCRYPTED={value}; \
                 DROP TABLE {ASIDE}probe"
            ));
            made.is_ok()
        };
        probe("YES") && probe("NO")
    }

    /// Settings that the server tells; those that it does not have are left out.
    fn settings(&self) -> Vec<OltpSetting> {
        let ask = |name: &&str| {
            let value = self.sql(&format!("SELECT @@{name}")).ok()?.trim().to_owned();
            Some(OltpSetting { name: (*name).to_owned(), value })
        };
        SHOWN.iter().filter_map(ask).collect()
    }
}

/// Sysbench's options that lead to the server, in a file: a command line is seen by all users.
fn sysbench_options(url: &ServerUrl) -> String {
    let mut text = format!(
        "mysql-host={}\nmysql-port={}\nmysql-user={}\nmysql-db={}\n",
        url.host, url.port, url.user, url.database
    );
    if let Some(password) = &url.password {
        text.push_str(&format!("mysql-password={password}\n"));
    }
    text
}

fn private_file(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(BenchError::file("cannot write", path))
}
