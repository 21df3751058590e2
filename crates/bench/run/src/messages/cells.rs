//! The cells of the experiment, their texts and their sizes.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use tdekit_bench_report::Experiment;

use super::drivers::Freetds;
use super::points;
use super::tds::Connection;
use super::work::{Proof, Task, Work};
use crate::error::{BenchError, Result};
use crate::experiment::class;
use crate::interrupt;
use crate::plan::messages::{DriverName, MessagesPlan, Part};

/// Number of steps from which the size of a block is calculated.
const PROBE_STEPS: u64 = 20_000;
/// Number of a block's steps, if it follows from its duration.
const STEPS: RangeInclusive<f64> = 1000.0..=100_000_000.0;
const BLOCK_S: RangeInclusive<f64> = 0.1..=2.0;
/// Bytes of text in a row of the large result.
const FILLER_BYTES: usize = 96;
/// Selects in a message, unless they are sent one by one.
const TOGETHER: u32 = 100;
/// Fewer than usual, because a driver spends much time on a step and a row.
const DRIVER_STEPS: u64 = 20_000;
/// Four digits of sixteen values.
const DRIVER_ROWS: u64 = 65_536;

/// Noveljic's loop, with a check that all its steps were executed.
pub(super) fn loop_batch(steps: u64) -> String {
    format!(
        "DECLARE @cnt int = 0;\nBEGIN\n  WHILE @cnt < {steps}\n  BEGIN\n    \
         SET @cnt = @cnt + 1;\n  END;\nEND\nSELECT @cnt AS steps;"
    )
}

const STREAM_BATCH: &str = "SELECT n, filler FROM #tdekit_rows";

fn filler() -> String {
    ('a'..='z').cycle().take(FILLER_BYTES).collect()
}

/// Rows without a table: a driver's process has a separate connection.
fn driver_stream_batch() -> String {
    let digits: Vec<String> = (0..16).map(|digit| format!("({digit})")).collect();
    format!(
        "WITH d (n) AS (SELECT n FROM (VALUES {}) AS v (n)) SELECT a.n * 4096 + b.n * 256 + c.n * \
         16 + d.n AS n, '{}' AS filler FROM d AS a CROSS JOIN d AS b CROSS JOIN d AS c CROSS JOIN \
         d",
        digits.join(", "),
        filler()
    )
}

/// Creates a temporary table of `rows` rows, a power of two.
pub(super) fn fill(connection: &mut Connection, rows: u32) -> Result<()> {
    connection.ask("CREATE TABLE #tdekit_rows (n int NOT NULL, filler varchar(200) NOT NULL)")?;
    let filler = filler();
    connection.ask(&format!("INSERT INTO #tdekit_rows (n, filler) VALUES (1, '{filler}')"))?;
    double(connection, rows, |there| {
        format!("INSERT INTO #tdekit_rows (n, filler) SELECT n + {there}, filler FROM #tdekit_rows")
    })
}

/// Doubles a table of one row until it has `rows`, a power of two. `statement` adds to this many
/// rows as many again.
pub(super) fn double(
    connection: &mut Connection,
    rows: u32,
    statement: impl Fn(u32) -> String,
) -> Result<()> {
    for there in std::iter::successors(Some(1), |there| Some(there * 2)) {
        if there >= rows {
            break;
        }
        interrupt::check()?;
        connection.ask(&statement(there))?;
    }
    Ok(())
}

fn task(
    (id, label): (&str, String),
    (units, unit): (u64, &str),
    statement: String,
    work: Work,
) -> Task {
    let cell = class(Experiment::Messages, (id, label), statement, (units, unit));
    Task { cell, work }
}

/// Returns the experiment's cells. `streams` is true if the large result's rows could be created,
/// `sides` is the number of sides. Drivers that are not installed are left out; `left_out` receives
/// the reasons.
pub(super) fn choose(
    plan: &MessagesPlan,
    (streams, sides): (bool, usize),
    directory: &Path,
    connection: &mut Connection,
    left_out: &mut Vec<String>,
) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    if plan.parts.contains(&Part::Loop) {
        let steps = match plan.loops {
            Some(given) => given,
            None => {
                let began = Instant::now();
                connection.drain(&loop_batch(PROBE_STEPS))?;
                let cells = plan.parts.len().max(1) as u64;
                let rounds = u64::from(plan.restarts) * u64::from(plan.pairs) * cells;
                block_steps(began.elapsed(), plan.max_time, rounds * sides.max(1) as u64)
            }
        };
        let name = ("loop", "message loop".to_owned());
        tasks.push(task(name, (steps, "step"), loop_batch(steps), Work::Batch(Proof::LastValue)));
    }
    if streams {
        let name = ("stream", "large result".to_owned());
        let rows = u64::from(plan.stream_rows);
        tasks.push(task(name, (rows, "row"), STREAM_BATCH.to_owned(), Work::Batch(Proof::Rows)));
    }
    if plan.parts.contains(&Part::Connects) {
        let threads = plan.connect_threads;
        let name = ("connects", format!("connecting and logging in, {threads} at a time"));
        let text = "connect, log in, close".to_owned();
        let size = (u64::from(plan.connects), "connection");
        tasks.push(task(name, size, text, Work::Connects { threads }));
    }
    if plan.parts.contains(&Part::Points) {
        tasks.extend(point_tasks(plan));
    }
    for driver in &plan.drivers {
        match driver {
            DriverName::Freetds => match Freetds::find(directory) {
                Ok(freetds) => tasks.extend(driver_tasks(plan, freetds, directory)?),
                Err(error @ BenchError::ToolMissing { .. }) => {
                    let hint = error.hint().unwrap_or_default();
                    left_out.push(format!("{error}, so it has no figures: {hint}."));
                }
                Err(error) => return Err(error),
            },
        }
    }
    Ok(tasks)
}

fn point_tasks(plan: &MessagesPlan) -> [Task; 2] {
    let text = points::statement(plan.target.is_none());
    let rows = plan.point_rows;
    let together = plan.selects / TOGETHER * TOGETHER;
    [
        task(
            ("points", "point selects".to_owned()),
            (u64::from(plan.selects), "select"),
            text.clone(),
            Work::Points { each: 1, rows },
        ),
        task(
            ("points-100", format!("point selects, {TOGETHER} in a message")),
            (u64::from(together), "select"),
            text,
            Work::Points { each: TOGETHER, rows },
        ),
    ]
}

fn driver_tasks(plan: &MessagesPlan, freetds: Freetds, directory: &Path) -> Result<Vec<Task>> {
    let steps = plan.loops.unwrap_or(DRIVER_STEPS).min(DRIVER_STEPS);
    Ok(vec![
        task(
            ("freetds-loop", "message loop by FreeTDS".to_owned()),
            (steps, "step"),
            loop_batch(steps),
            Work::Driver(freetds, Proof::LastValue),
        ),
        task(
            ("freetds-stream", "large result by FreeTDS".to_owned()),
            (DRIVER_ROWS, "row"),
            driver_stream_batch(),
            Work::Driver(Freetds::find(directory)?, Proof::Rows),
        ),
    ])
}

/// Steps that fill a block, of which there are `blocks`, in two digits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "within the bounds of STEPS"
)]
fn block_steps(probe: Duration, max_time: Duration, blocks: u64) -> u64 {
    let fair = max_time.as_secs_f64() * 0.6 / blocks.max(1) as f64;
    let block_s = fair.clamp(*BLOCK_S.start(), *BLOCK_S.end());
    let steps = PROBE_STEPS as f64 * block_s / probe.as_secs_f64().max(1e-6);
    let steps = steps.clamp(*STEPS.start(), *STEPS.end());
    let digit = 10_f64.powf(steps.log10().floor() - 1.0);
    ((steps / digit).round() * digit).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_fill_a_block() {
        let seconds = Duration::from_secs;
        // 20,000 steps in 10 ms are 2,000,000 a second; 48 blocks of 90 s are 1.875 s each.
        let steps = block_steps(Duration::from_millis(10), seconds(150), 48);
        assert_eq!(steps, 3_800_000);
        assert_eq!(block_steps(Duration::from_secs(60), seconds(1), 1000), 1000);
        assert_eq!(block_steps(Duration::from_nanos(1), seconds(150), 1), 100_000_000);
    }

    #[test]
    fn a_drivers_rows_are_counted_right() {
        let text = driver_stream_batch();
        assert_eq!(16_u64.pow(4), DRIVER_ROWS);
        assert_eq!(text.matches("CROSS JOIN").count(), 3);
        assert!(text.contains("(15)") && !text.contains("(16)"));
    }
}
