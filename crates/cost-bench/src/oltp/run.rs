//! Experiment C from beginning to end.

use tdekit_cost_report::{OltpReport, OltpRun, OltpSetting, OltpSide, OltpSummary, summarize_oltp};

use super::mariadb::MariaDb;
use super::options::{OltpPlan, OltpTarget};
use super::remote::Remote;
use super::schedule::{Ground, Schedule, cells};
use super::sqlite::Sqlite;
use crate::config::Config;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::tools::Tools;

/// What came of it. With `failure` the report holds what was measured until then.
pub(crate) struct Outcome {
    pub(crate) report: OltpReport,
    pub(crate) warnings: Vec<String>,
    pub(crate) failure: Option<BenchError>,
}

/// Runs the workloads that `config` describes.
///
/// # Errors
/// Fails when nothing could be measured.
pub(crate) fn run(
    config: &Config,
    tools: &Tools,
    confidence: f64,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    let plan = &config.oltp;
    let measuring = Measuring { config, plan, confidence, progress };
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
    confidence: f64,
    progress: &'a Progress,
}

impl Measuring<'_> {
    fn run(&self, ground: &dyn Ground, facts: Facts) -> Result<Outcome, BenchError> {
        let cells = cells(self.plan);
        let names: Vec<String> = facts.sides.iter().map(|side| side.id.clone()).collect();
        let schedule = Schedule {
            plan: self.plan,
            sides: &names,
            seed: self.config.seed,
            block_s: self.plan.block_s(cells.len(), names.len()),
        };
        let (mut runs, mut warnings): (Vec<OltpRun>, Vec<String>) = (Vec::new(), Vec::new());
        let failure = schedule.run(ground, self.progress, &mut runs, &mut warnings).err();
        let failure = match failure {
            Some(error) if runs.is_empty() => return Err(error),
            failure => failure,
        };
        let mut report = OltpReport {
            target: facts.target.to_owned(),
            engine: facts.engine,
            driver: facts.driver,
            tables: self.plan.tables,
            rows: self.plan.rows,
            data_bytes: facts.data_bytes,
            block_s: schedule.block_s,
            restarts: self.plan.restarts,
            settings: facts.settings,
            sides: facts.sides,
            cells: cells.into_iter().map(|(cell, _)| cell).collect(),
            runs,
            limits: facts.limits,
            summary: OltpSummary::default(),
        };
        report.summary = summarize_oltp(&report, self.confidence);
        Ok(Outcome { report, warnings, failure })
    }
}
