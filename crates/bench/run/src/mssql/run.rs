//! A run on a SQL Server from beginning to end.

use tdekit_bench_report::{Experiment, Report, Results, Role, Side, StatementInfo};

use super::backup::{self, AGAIN, BackupGround, Restoring};
use super::home::{Home, TEMPDB, announcement};
use super::names::{self, BACKUP, COLD, Database};
use super::operations;
use super::server::{Server, refusal};
use super::sides::{SidesGround, tasks};
use super::tds::{Connection, Login, Mode, Trust};
use crate::error::{BenchError, Result};
use crate::experiment::Figures;
use crate::numbers::whole;
use crate::plan::Config;
use crate::schedule::{self, Ended, Surroundings};
use crate::tools::Tools;

/// Runs the requested parts on the server: a [`crate::experiment::RunExperiment`].
pub(crate) fn run(
    config: &Config,
    _: &Tools,
    mut around: Surroundings<'_>,
    results: &mut Results,
) -> Result<Ended> {
    let Some(login) = &config.mssql.login else {
        return Err(BenchError::option("--target", "there is no server"));
    };
    let progress = around.progress;
    progress.say("asking the server");
    let mut connection = Connection::open(login, Mode::On)?;
    let server = Server::ask(&mut connection)?;
    let target = format!("mssql://{}@{}:{}", login.user, login.host, login.port);
    let mut home = Home::new(config, login, &mut connection, progress)?;
    progress.tell(&announcement(config, &target, config.mssql.at_a_time()));
    let mut running = Running { config, login, target, server, connection };
    let outcome = running.all(&mut home, &mut around, results);
    let left = home.finish();
    match outcome {
        Ok(_) => around.warnings.extend(left),
        // Without results there is no other place for it.
        Err(_) => left.iter().for_each(|line| progress.tell(&format!("warning: {line}"))),
    }
    outcome
}

struct Running<'a> {
    config: &'a Config,
    login: &'a Login,
    target: String,
    server: Server,
    connection: Connection,
}

impl Running<'_> {
    fn all(
        &mut self,
        home: &mut Home<'_>,
        around: &mut Surroundings<'_>,
        results: &mut Results,
    ) -> Result<Ended> {
        let experiments = self.config.experiments;
        let mut ended = Ended { failure: None, reached: true };
        if experiments.operations || experiments.crud {
            ended = self.sides(home, around.inner(), results)?;
        }
        if experiments.backup && ended.failure.is_none() {
            ended = match self.backups(home, around.inner(), results) {
                // Earlier figures are kept.
                Err(error) if results.server.is_some() => {
                    Ended { failure: Some(error), reached: false }
                }
                found => found?,
            };
        }
        if results.subject.label.is_empty() {
            results.subject.label.clone_from(&self.server.version);
        }
        Ok(ended)
    }

    /// Returns the databases of a run, base first; the base alone if the server encrypts none.
    fn databases(&mut self, home: &mut Home<'_>) -> Result<Vec<Database>> {
        if self.config.given.basics.aa {
            return Ok(vec![Database::Base, Database::Control]);
        }
        match home.try_encryption()? {
            Ok(()) => {
                self.server.limits.push(TEMPDB.to_owned());
                Ok(vec![Database::Base, Database::Encrypted])
            }
            Err(words) => {
                self.server.limits.push(format!(
                    "The server encrypts no database here ({words}): load figures, no overhead."
                ));
                Ok(vec![Database::Base])
            }
        }
    }

    /// Checks if the server's buffers may be cleared, by trying it if required.
    fn may_empty(&mut self) -> Result<bool> {
        if !self.config.experiments.operations || self.config.mssql.bounds.warm_only {
            return Ok(false);
        }
        for sql in COLD {
            if let Err(error) = self.connection.query(sql) {
                let words = refusal(error)?;
                self.server.limits.push(format!("No cold classes: {sql} is refused ({words})."));
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn report(&self, experiment: Experiment, sides: Vec<Side>) -> Report {
        let mut report = self.server.report(self.config, &self.target, sides);
        report.experiment = experiment;
        if let Some(tls) = self.connection.negotiated() {
            report.set("tls", format!("{} {}", tls.protocol, tls.suite));
        }
        if self.login.trust == Trust::Anyone {
            report.limits.push(
                "--trust: the server's certificate was not checked, so anybody may have answered."
                    .to_owned(),
            );
        }
        report
    }

    fn sides(
        &mut self,
        home: &mut Home<'_>,
        around: Surroundings<'_>,
        results: &mut Results,
    ) -> Result<Ended> {
        let config = self.config;
        let databases = self.databases(home)?;
        let cold = self.may_empty()?;
        let tasks = tasks(config, cold);
        let sides = databases
            .iter()
            .map(|database| side(*database, config.given.basics.algorithm(), self.server.ours));
        let mut report = self.report(Experiment::Server, sides.collect());
        report.cells = tasks.iter().map(|task| task.class.clone()).collect();
        if config.experiments.crud {
            report.set("connections", config.mssql.connections);
        }
        if config.experiments.operations {
            report.statements = statements();
        }
        report.limits.append(&mut home.limits);
        let figures = Figures::new(report, config, &results.settings);
        let pace = (config.restarts, config.pairs);
        let length = figures.length("the run on the server", pace, config.max_time);
        let counters = (self.server.counters, databases);
        let mut ground = SidesGround::new(config, home, counters, tasks, figures);
        let ended = schedule::run(&mut ground, &length, config.given.basics.seed, around);
        let SidesGround { mut figures, latencies, .. } = ground;
        for ((class, side), found) in &latencies {
            figures.report.latencies.extend(found.report(class, side));
        }
        figures.report.limits.append(&mut home.limits);
        let ended = figures.finish(ended, &mut results.server)?;
        describe(results, config);
        Ok(ended)
    }

    fn backups(
        &mut self,
        home: &mut Home<'_>,
        around: Surroundings<'_>,
        results: &mut Results,
    ) -> Result<Ended> {
        let config = self.config;
        let groups = backup::groups(config);
        let mut limits = Vec::new();
        let mut ciphers: Vec<Option<String>> = vec![None];
        home.make(Database::Base, config.given.basics.seed)?;
        for path in config.mssql.bounds.backup_files(BACKUP) {
            let tried = self.connection.query(&names::backup(Database::Base, &path, false, None));
            home.backed_up(&path, tried.map_err(BenchError::from))?;
        }
        if config.given.basics.aa {
            ciphers.push(None);
        } else {
            match home.make_certificate()? {
                Err(words) => limits.push(format!("No encrypted backups: {words}.")),
                Ok(()) => {
                    let files = config.mssql.bounds.backup_files(BACKUP);
                    let path = files.first().map_or("", String::as_str);
                    let wanted = (path, backup::ciphers(config));
                    let found = backup::usable(&mut self.connection, wanted, &mut limits)?;
                    ciphers.extend(found.into_iter().map(Some));
                }
            }
        }
        let files = config.mssql.bounds.backup_files(BACKUP);
        let path = files.first().map_or("", String::as_str);
        let restoring = Restoring::tried(home, &mut self.connection, path, self.server.ours)?;
        let restoring = match restoring {
            Ok(restoring) => Some(restoring),
            Err(words) => {
                limits.push(format!("Backups are not restored: {words}."));
                None
            }
        };
        let name = |cipher: &Option<String>| cipher.clone().unwrap_or_else(|| AGAIN.to_owned());
        let names: Vec<String> = ciphers.iter().skip(1).map(name).collect();
        let mut report = self.report(Experiment::Backup, backup::sides(&names));
        let restored = restoring.is_some();
        let classes = groups.iter().flat_map(|group| backup::measured_classes(group, restored));
        report.cells = classes.cloned().collect();
        report.set("restored", restored);
        let also = if restored { ", restored, and its rows held against the source's" } else { "" };
        report.limits.push(format!(
            "Each backup was checked by RESTORE VERIFYONLY{also}. Elapsed time is the client's: \
             the history counts whole seconds."
        ));
        report.limits.append(&mut limits);
        report.limits.append(&mut home.limits);
        let figures = Figures::new(report, config, &results.settings);
        let pace = (config.restarts, config.pairs);
        let length = figures.length("the backup matrix", pace, config.max_time);
        let counters = self.server.counters;
        let mut ground =
            BackupGround { home, groups, ciphers, restoring, counters, figures, connection: None };
        let ended = schedule::run(&mut ground, &length, config.given.basics.seed, around);
        ground.figures.finish(ended, &mut results.backup)
    }
}

/// Adds the description of the databases to the results, following the server's report.
pub(super) fn describe(results: &mut Results, config: &Config) {
    results.settings.rows = Some(config.rows);
    results.settings.processes = config.mssql.connections;
    results.subject.tables = 3;
    let bytes = results.server.as_ref().map_or(0.0, |report| report.number("data_bytes"));
    results.subject.bytes = whole(bytes);
}

pub(super) fn side(database: Database, algorithm: &str, ours: bool) -> Side {
    let (label, role) = match database {
        Database::Base => ("plain", Role::Base),
        Database::Encrypted if ours => ("encrypted by tdekit serve", Role::Encrypted),
        Database::Encrypted => ("TDE", Role::Encrypted),
        Database::Control => ("plain again", Role::Encrypted),
        Database::Restored => ("restored", Role::Encrypted),
    };
    let cipher = (database == Database::Encrypted).then_some(algorithm);
    let mut side = Side::new(database.id(), label, role).with_cipher(cipher);
    side.facts.insert("label".to_owned(), database.name().into());
    side
}

/// Returns the statements as listed in the report.
pub(super) fn statements() -> Vec<StatementInfo> {
    operations::all()
        .into_iter()
        .map(|planned| StatementInfo {
            index: planned.index,
            operation: planned.operation.name().to_owned(),
            what: planned.what,
            sql: planned.sql,
            variants: 1,
        })
        .collect()
}
