//! The user's own statements, tried on the base before anything is measured.

use tdekit_bench_report::StatementInfo;

use super::classes;
use super::prepare::{Prepared, scratch};
use super::restart::{operation_settings, plan_script};
use crate::error::Result;
use crate::job::Request;
use crate::plan::Config;
use crate::script::brief;
use crate::subject::remove_database;
use tdekit_bench_work::Cost;

/// Maximum number of times that a block runs the script: each needs a fresh connection.
const MOST_TIMES: u64 = 50;

/// Adds the script's classes, with as many repetitions in each block as fill the block time.
pub(super) fn add(config: &Config, prepared: &mut Prepared, name: &'static str) -> Result<()> {
    let settings = operation_settings(config, prepared.foreign_keys);
    let (path, mut workers) = scratch(config, prepared, name, &settings, 1)?;
    let Some(worker) = workers.first_mut() else { return Ok(()) };
    let pristine = prepared.sides.first().map(|side| prepared.pristine(side, name));
    let writes = plan_script(worker, config, &pristine.unwrap_or_default())?;
    let costs: Vec<Cost> = worker.ask(&Request::Script { times: 1 })?;
    let elapsed_ns = costs.iter().map(|cost| cost.elapsed_ns).sum::<u64>();
    drop(workers);
    remove_database(&path)?;
    let wanted = u64::try_from(config.block_time.as_nanos()).unwrap_or(u64::MAX);
    let times = (wanted / elapsed_ns.max(1)).clamp(1, MOST_TIMES);
    let (task, each) = classes::script(&config.script, &writes, times);
    prepared.tasks.push(task);
    prepared.script_classes = each;
    prepared.statements.extend((0..).zip(&config.script).map(|(index, sql)| StatementInfo {
        index,
        operation: "all".to_owned(),
        what: format!("{}: {}", index + 1, brief(sql)),
        sql: sql.clone(),
        variants: 1,
    }));
    Ok(())
}
