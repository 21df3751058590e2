//! The driver's own share: its loop on a library whose calls are no-ops, beside the base.

use tdekit_bench_report::stats::median;
use tdekit_bench_report::{DriverShare, Metric, Run};
use tdekit_sqlite_client::control_code;

use super::block::crud_loops;
use super::prepare::Prepared;
use crate::error::Result;
use crate::numbers::float;
use crate::plan::Config;
use crate::sides::{idle_time, idle_worker};
use crate::tools::Tools;
use tdekit_bench_work::CrudRequest;

/// Number of loops of a try.
const LOOPS: u64 = 20_000;

/// Returns the CPU of a loop of each mix in the driver alone, by class.
pub(super) fn idle_loops(config: &Config, tools: &Tools) -> Result<Vec<(String, f64)>> {
    let mut workers = [idle_worker(tools)?];
    let mut found = Vec::new();
    for mix in &config.mixes {
        let control = control_code(mix.reads, mix.updates, mix.inserts, mix.load);
        let time = idle_time(|seed| {
            let request = CrudRequest { interval_ns: None, ..config.loops(control, LOOPS, seed) };
            let cost = crud_loops(&mut workers, request, &mut || Ok(()))?;
            Ok((cost.used.cpu_ns, cost.operations))
        })?;
        found.push((super::classes::crud_id(mix), time));
    }
    Ok(found)
}

/// Returns the share in the cost of a loop on the base.
pub(super) fn shares(prepared: &Prepared, runs: &[Run]) -> Vec<DriverShare> {
    prepared
        .idle_loops
        .iter()
        .filter_map(|(class, driver_ns)| {
            let task = prepared.tasks.iter().find(|task| task.class.id == *class)?;
            let base = prepared.sides.first()?;
            let operations = float(task.class.operations.max(1));
            let costs: Vec<f64> = runs
                .iter()
                .filter(|run| run.cell == *class && run.side == base.side.id)
                .filter_map(|run| Some(run.value(Metric::Cpu)? / operations))
                .collect();
            let base_ns = median(&costs).filter(|cost| *cost > 0.0)?;
            let share = driver_ns / base_ns;
            Some(DriverShare { class: class.clone(), driver_ns: *driver_ns, base_ns, share })
        })
        .collect()
}
