//! What `tdekit bench` does beside a run: orders to one, comparison of two, calibration of many.

use std::path::{Path, PathBuf};

use tdekit_cost_report::{Calibration, calibration_text, changes_text, compare, from_json};

use super::write::{check_writable, is_stdout, print, replace};
use super::{BenchArgs, Outcome, outcome};
use crate::config::Config;
use crate::control::{self, Order};
use crate::driver::{self, CalibrationPlan};
use crate::error::BenchError;
use crate::tools::Tools;

/// Asks a running bench.
pub(super) fn order(args: &BenchArgs) -> Result<Outcome, BenchError> {
    let order = Order::parse(&args.control)
        .map_err(|reason| BenchError::Option { option: "--control", reason })?;
    let answer = control::send(&order, args.run)?;
    print(&format!("{answer}\n"))?;
    Ok(Outcome::Complete)
}

/// Compares two results documents.
pub(super) fn compare_files(old: &Path, new: &Path, json: bool) -> Result<Outcome, BenchError> {
    let read = |path: &Path| -> Result<_, BenchError> {
        let text = std::fs::read_to_string(path).map_err(BenchError::file("cannot read", path))?;
        from_json(&text).map_err(|source| BenchError::Document { path: path.to_owned(), source })
    };
    let changes = compare(&read(old)?, &read(new)?);
    if json {
        let text =
            serde_json::to_string_pretty(&changes).map_err(tdekit_cost_report::JsonError::from)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&changes_text(&changes))?;
    }
    Ok(Outcome::Complete)
}

/// Calibrates; the document is written anew after each run, so that nothing is lost.
pub(super) fn calibrate(
    args: &BenchArgs,
    config: &Config,
    tools: &Tools,
) -> Result<Outcome, BenchError> {
    let path = args.json.clone().unwrap_or_else(|| PathBuf::from("calibration.json"));
    check_writable(&path)?;
    let usual = if args.default_length { 10 } else { 100 };
    let plan = CalibrationPlan {
        runs: args.runs.unwrap_or(usual),
        seconds: (!args.default_length).then_some(args.seconds),
    };
    let write = |calibration: &Calibration| -> Result<(), BenchError> {
        let text = serde_json::to_string_pretty(calibration)
            .map_err(tdekit_cost_report::JsonError::from)?;
        if is_stdout(&path) { Ok(()) } else { replace(&path, &format!("{text}\n")) }
    };
    let calibration = match driver::calibrate(config, plan, tools, &mut |found| write(found)) {
        Err(BenchError::Interrupted) => return Ok(Outcome::Interrupted),
        calibration => calibration?,
    };
    write(&calibration)?;
    if is_stdout(&path) {
        let text = serde_json::to_string_pretty(&calibration)
            .map_err(tdekit_cost_report::JsonError::from)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&calibration_text(&calibration))?;
        print(&format!("\nFigures: {}\n", path.display()))?;
    }
    Ok(outcome(&calibration.incomplete, false))
}
