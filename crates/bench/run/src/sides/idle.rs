//! Workers whose library does nothing: only the driver remains.

use std::path::Path;

use tdekit_bench_report::stats::median;

use crate::error::Result;
use crate::job::{LibraryChoice, Ready, Request};
use crate::key_store::KeyEnvironment;
use crate::numbers::float;
use crate::process::WorkerProcess;
use crate::tools::Tools;

/// Number of tries.
const TRIES: u64 = 5;

/// Starts a worker whose library does nothing.
pub(crate) fn idle_worker(tools: &Tools) -> Result<WorkerProcess> {
    let mut worker = WorkerProcess::start(&tools.worker, "driver", &KeyEnvironment::new())?;
    let _: Ready = worker.ask(&Request::Setup { library: LibraryChoice::Idle, extension: None })?;
    worker.open(Path::new("nowhere"), Vec::new())?;
    Ok(worker)
}

/// Returns the median of several tries' CPU of an operation; `each` takes the number of a try, and
/// returns CPU and operations.
pub(crate) fn idle_time(mut each: impl FnMut(u64) -> Result<(u64, u64)>) -> Result<f64> {
    let time = |number| each(number).map(|(cpu, count)| float(cpu) / float(count.max(1)));
    let times = (0..TRIES).map(time).collect::<Result<Vec<f64>>>()?;
    Ok(median(&times).unwrap_or(0.0))
}
