//! The OLTP workloads from beginning to end.

use tdekit_bench_report::{Experiment, Report, Settings as Reported, Side};

use super::ground::{OltpGround, Settings, Target};
use super::mariadb::MariaDb;
use super::options::{OltpPlan, OltpTarget};
use super::remote::Remote;
use super::sqlite::Sqlite;
use crate::config::Config;
use crate::error::BenchError;
use crate::schedule::{self, Ended, Surroundings};
use crate::tools::Tools;

/// What came of it. After a failure the report holds what was measured until then.
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) ended: Ended,
}

/// Runs the workloads that `config` describes.
///
/// # Errors
/// Fails when nothing could be measured.
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    reported: &Reported,
    around: Surroundings<'_>,
) -> Result<Outcome, BenchError> {
    let plan = &config.oltp;
    let progress = around.progress;
    let measuring = Measuring { config, plan, reported, around };
    match &plan.target {
        OltpTarget::MariaDb => {
            let mut ground = MariaDb::prepare(
                plan,
                tools,
                config.control,
                &config.directory,
                config.seed,
                progress,
            )?;
            ground.read_settings()?;
            let facts = Facts {
                target: "mariadb",
                engine: ground.engine.clone(),
                driver: ground.driver.clone(),
                data_bytes: ground.data_bytes,
                settings: ground.settings.clone(),
                sides: ground.sides(),
                limits: Vec::new(),
            };
            measuring.run(&ground, facts)
        }
        OltpTarget::Server(url) => {
            let ground = Remote::prepare(plan, url, progress)?;
            let facts = Facts {
                target: "mysql",
                engine: ground.engine.clone(),
                driver: ground.driver.clone(),
                data_bytes: 0,
                settings: ground.settings.clone(),
                sides: ground.sides(),
                limits: ground.limits.clone(),
            };
            measuring.run(&ground, facts)
        }
        OltpTarget::SqlServer(_) => Err(BenchError::Option {
            option: "--target",
            reason: "on a server of SQL Server's protocol only --experiment messages runs"
                .to_owned(),
        }),
        OltpTarget::Sqlite => {
            let ground = Sqlite::prepare(plan, config, tools, progress)?;
            let facts = Facts {
                target: "sqlite",
                engine: ground.engine(),
                driver: "own driver, a process a thread".to_owned(),
                data_bytes: ground.data_bytes,
                settings: ground.settings(),
                sides: ground.sides(),
                limits: vec![
                    "CPU is that of the processes that drive SQLite, their own work included."
                        .to_owned(),
                ],
            };
            measuring.run(&ground, facts)
        }
    }
}

/// What a target tells of itself.
struct Facts {
    target: &'static str,
    engine: String,
    driver: String,
    data_bytes: u64,
    settings: Settings,
    sides: Vec<Side>,
    limits: Vec<String>,
}

struct Measuring<'a> {
    config: &'a Config,
    plan: &'a OltpPlan,
    /// What the report says of intervals.
    reported: &'a Reported,
    around: Surroundings<'a>,
}

impl Measuring<'_> {
    fn run(self, target: &dyn Target, facts: Facts) -> Result<Outcome, BenchError> {
        let wanted = (self.config.stopping_beside(), self.reported.confidence());
        let mut report = Report::new(Experiment::Oltp, facts.sides);
        report.settings = facts.settings;
        report.limits = facts.limits;
        report.set("target", facts.target);
        report.set("engine", facts.engine);
        report.set("driver", facts.driver);
        report.set("tables", self.plan.tables);
        report.set("rows", self.plan.rows);
        report.set("restarts", self.plan.restarts);
        if facts.data_bytes > 0 {
            report.set("data_bytes", facts.data_bytes);
        }
        let mut ground = OltpGround::new(self.plan, target, report, wanted);
        let length = ground.length();
        let ended = schedule::run(&mut ground, &length, self.config.seed, self.around);
        let report = ground.finish();
        let ended = ended.unless_empty(report.runs.is_empty())?;
        Ok(Outcome { report, ended })
    }
}
