//! Other commands of `tdekit bench`: orders to a run, comparison of two, calibration of many.

use std::path::Path;

use tdekit_bench_report::{
    Calibration, calibration_html, calibration_text, changes_html, changes_text, compare, from_json,
};

use super::write::{Files, pretty, print};
use super::{BenchArgs, Outcome, outcome};
use crate::command::own_line;
use crate::control::{self, Order};
use crate::driver::{self, CalibrationPlan};
use crate::error::{BenchError, Result};
use crate::plan::Config;
use crate::tools::Tools;

/// Sends an order to a running bench.
pub(super) fn order(args: &BenchArgs) -> Result<Outcome> {
    let order = Order::parse(&args.control)
        .map_err(|reason| BenchError::Option { option: "--control", reason })?;
    let answer = control::send(&order, args.run)?;
    print(&format!("{answer}\n"))?;
    Ok(Outcome::Complete)
}

/// Compares two results documents.
pub(super) fn compare_files((old, new): (&Path, &Path), files: &Files) -> Result<Outcome> {
    files.check_reckoned()?;
    let read = |path: &Path| -> Result<_> {
        let text = std::fs::read_to_string(path).map_err(BenchError::file("cannot read", path))?;
        from_json(&text).map_err(|source| BenchError::Document { path: path.to_owned(), source })
    };
    let mut changes = compare(&read(old)?, &read(new)?);
    if changes.changes.is_empty() {
        let reason = format!(
            "{} and {} have no cost in common: name two runs of one kind",
            old.display(),
            new.display()
        );
        return Err(BenchError::option("compare", reason));
    }
    changes.command = own_line();
    files.leave(&pretty(&changes)?, &changes_html(&changes)?, &changes_text(&changes))?;
    Ok(Outcome::Complete)
}

/// Calibrates; document and page are rewritten after each run, so that nothing is lost.
pub(super) fn calibrate(args: &BenchArgs, config: &Config, tools: &Tools) -> Result<Outcome> {
    let files = Files::new(args.json.as_deref(), args.html.as_deref(), "calibration");
    files.check()?;
    let usual = if args.default_length { 10 } else { 100 };
    let plan = CalibrationPlan {
        runs: args.runs.unwrap_or(usual),
        seconds: (!args.default_length).then_some(args.seconds),
    };
    let keep = |found: &Calibration| files.keep(&pretty(found)?, &calibration_html(found)?);
    let calibration = match driver::calibrate(config, plan, tools, &mut |found| keep(found)) {
        Err(BenchError::Interrupted) => return Ok(Outcome::Interrupted),
        calibration => calibration?,
    };
    let page = calibration_html(&calibration)?;
    files.leave(&pretty(&calibration)?, &page, &calibration_text(&calibration))?;
    Ok(outcome(&calibration.incomplete, false))
}
