//! `cargo xtask attack`: the attacks on the command's verdicts.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::process::{cargo, run, shown, target_dir};
use crate::s3_server::S3Server;
use crate::shipped;
use crate::tally::Tally;

/// Duration of the attacks in `make test`.
pub(crate) const SHORT: Duration = Duration::from_secs(20);
/// Duration of the attacks in the full form.
pub(crate) const FULL: Duration = Duration::from_secs(60);

/// Attacks for the given time and shows the table.
///
/// # Errors
/// When a build fails, or an attack had a wrong outcome.
pub(crate) fn attack(time: &str, only: Option<&str>) -> Result<()> {
    let seconds = seconds(time)?;
    let server = S3Server::start()?;
    run(cargo().args(["build", "-p", "tdekit-attacks"]))?;
    let mut command = program(seconds);
    if let Some(only) = only {
        command.args(["--only", only]);
    }
    run(command.envs(server.environment()))
}

/// Attacks for `time` with the program of the test build; each attack counts as a test.
///
/// # Errors
/// When the attacks cannot be made.
pub(crate) fn counted(time: Duration) -> Result<Tally> {
    let server = S3Server::start()?;
    let mut command = program(time.as_secs());
    command.arg("--json").envs(server.environment());
    eprintln!("$ {}", shown(&command));
    let ended = command.stdin(Stdio::null()).output().context("start the attacks")?;
    let rows: Vec<Row> = serde_json::from_slice(&ended.stdout).with_context(|| {
        format!("the attacks told nothing: {}", String::from_utf8_lossy(&ended.stderr))
    })?;
    ensure!(!rows.is_empty(), "no attack was made");
    let mut tally = Tally::default();
    for row in rows {
        let Row { attack, tried, refused, right, wrong, examples } = row;
        println!("attack {attack}: {tried} tried, {refused} refused, {right} right, {wrong} wrong");
        if wrong == 0 && tried > 0 {
            tally.passed += 1;
        } else {
            tally.fail(format!("attack {attack}"), &examples.join("\n"));
        }
    }
    Ok(tally)
}

/// The program's figures for an attack.
#[derive(Deserialize)]
struct Row {
    attack: String,
    tried: u64,
    refused: u64,
    right: u64,
    wrong: u64,
    examples: Vec<String>,
}

fn program(seconds: u64) -> Command {
    let mut command = Command::new(target_dir().join("debug/tdekit-attacks"));
    command.arg("--programs").arg(shipped::directory());
    command.args(["--seconds", &seconds.to_string()]);
    command
}

/// Parses a time such as `90s`, `10m` or `1h` into seconds.
fn seconds(time: &str) -> Result<u64> {
    let unit = time.trim_start_matches(|c: char| c.is_ascii_digit());
    let factor = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => bail!("`{time}` is no time such as 90s, 10m or 1h"),
    };
    let number: u64 = time[..time.len() - unit.len()].parse().context("a time such as 1h")?;
    number.checked_mul(factor).context("a time that is too long")
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read() {
        assert_eq!(seconds("90s").unwrap(), 90);
        assert_eq!(seconds("10m").unwrap(), 600);
        assert_eq!(seconds("1h").unwrap(), 3600);
        for time in ["h", "", "1d", "-1s", "99999999999999999999h"] {
            assert!(seconds(time).is_err(), "{time}");
        }
    }
}
