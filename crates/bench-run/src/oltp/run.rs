//! The OLTP workloads from beginning to end.

use tdekit_bench_report::{
    OltpReport, OltpSetting, OltpSide, OltpSummary, Settings, Stage, summarize_oltp,
};

use super::ground::{OltpGround, Target};
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
    pub(crate) report: OltpReport,
    pub(crate) ended: Ended,
}

/// Runs the workloads that `config` describes.
///
/// # Errors
/// Fails when nothing could be measured.
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    reported: &Settings,
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
    settings: Vec<OltpSetting>,
    sides: Vec<OltpSide>,
    limits: Vec<String>,
}

struct Measuring<'a> {
    config: &'a Config,
    plan: &'a OltpPlan,
    /// What the report says of intervals.
    reported: &'a Settings,
    around: Surroundings<'a>,
}

impl Measuring<'_> {
    fn run(self, target: &dyn Target, facts: Facts) -> Result<Outcome, BenchError> {
        let wanted = (self.config.stopping_beside(), self.reported.confidence());
        let mut ground = OltpGround::new(self.plan, target, &facts.sides, wanted);
        let length = ground.length();
        let ended = schedule::run(&mut ground, &length, self.config.seed, self.around);
        let block_s = ground.block_s;
        let (cells, runs) = ground.finish();
        let ended = ended.unless_empty(runs.is_empty())?;
        let mut report = OltpReport {
            target: facts.target.to_owned(),
            engine: facts.engine,
            driver: facts.driver,
            tables: self.plan.tables,
            rows: self.plan.rows,
            data_bytes: facts.data_bytes,
            block_s,
            restarts: self.plan.restarts,
            settings: facts.settings,
            sides: facts.sides,
            cells,
            runs,
            limits: facts.limits,
            summary: OltpSummary::default(),
        };
        report.summary = summarize_oltp(&report, Stage::beside(self.reported));
        Ok(Outcome { report, ended })
    }
}
