//! `cargo xtask mtr`: the servers' own suites of encryption, with our library in place of theirs.
//!
//! Tests that are known to differ are in a list, each with its reason; anything else that fails,
//! and a listed test that passes, is an error.

mod mariadb;
mod mysql;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process::{output, root, shown, target_dir};
use crate::shipped;

pub(crate) use mariadb::RUNNER;

const PASSWORD: &str = "only for the suite";

/// A server's suite, ready to run.
struct Suite {
    /// The copy of `mysql-test`.
    directory: PathBuf,
    /// The program in it that runs tests.
    runner: &'static str,
    name: &'static str,
    options: &'static [&'static str],
    /// The list of tests whose outcome differs, each with the reason.
    differs: &'static str,
}

/// Arguments of `mtr`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these tests, such as `encryption.tempfiles`; without any the whole suite
    tests: Vec<String>,
    /// MySQL's suite `component_keyring_file`, of Debian's unstable suite, with the component
    #[arg(long)]
    mysql: bool,
    /// With the server's own plugin or component: checks the suite itself
    #[arg(long)]
    stock: bool,
}

/// Runs a suite, or the named tests of it.
///
/// # Errors
/// When it cannot be run, or a test fails that is not known to differ, or passes although it is.
pub(crate) fn mtr(arguments: &Arguments) -> Result<()> {
    let base = target_dir().join(if arguments.mysql { "mtr-mysql" } else { "mtr" });
    if base.exists() {
        fs::remove_dir_all(&base).context("remove the last run's tree")?;
    }
    let prepare = if arguments.mysql { mysql::prepare } else { mariadb::prepare };
    let suite = prepare(&base, arguments.stock)?;
    let outcomes = run_suite(&base, &suite, &arguments.tests)?;
    let known = if arguments.stock { Vec::new() } else { known_differences(suite.differs)? };
    judge(&outcomes, &known, arguments.tests.is_empty())
}

/// Links to every entry of `from` except those in `without`.
fn link_all(from: &Path, to: &Path, without: &[&str]) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let name = entry?.file_name();
        if !without.iter().any(|left_out| name == *left_out) {
            symlink(from.join(&name), to.join(&name))?;
        }
    }
    Ok(())
}

/// Returns the command: that in `TDEKIT_COMMAND`, else the release build, which is created.
fn command() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("TDEKIT_COMMAND") {
        return Ok(named.into());
    }
    Ok(shipped::release()?.join("tdekit"))
}

fn tdekit(command: &Path, home: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(command);
    command.env("TDEKIT_HOME", home).env("TDEKIT_PASSWORD", PASSWORD).args(words);
    output(&mut command)
}

/// Outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// Runs the suite and reads its output.
fn run_suite(base: &Path, suite: &Suite, tests: &[String]) -> Result<Vec<(String, Outcome)>> {
    let mut command = Command::new("perl");
    command
        .current_dir(&suite.directory)
        .arg(suite.runner)
        .arg(format!("--vardir={}", base.join("var").display()))
        .args(["--force", "--max-test-fail=0", "--retry=0", "--nocheck-testcases"])
        .args(suite.options);
    if tests.is_empty() {
        command.arg(format!("--suite={}", suite.name));
    }
    command.args(tests).stdin(Stdio::null());
    eprintln!("$ {}", shown(&command));
    let output = command.output().context("start perl")?;
    let text = String::from_utf8_lossy(&output.stdout);
    fs::write(base.join("output.txt"), &*output.stdout)?;
    let outcomes: Vec<(String, Outcome)> = text.lines().filter_map(read_line).collect();
    if outcomes.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("the suite ran no test: {}\n{}", text.trim(), errors.trim());
    }
    Ok(outcomes)
}

/// A line such as `encryption.tempfiles 'cbc,innodb'  w1 [ pass ]  1234`: name with combinations.
/// MySQL's begin with a share of the whole, `[ 40%]`.
fn read_line(line: &str) -> Option<(String, Outcome)> {
    let line = line.split_once("%] ").map_or(line, |(_, line)| line);
    let (left, right) = line.split_once(" [ ")?;
    let outcome = match right.split_whitespace().next()? {
        "pass" => Outcome::Passed,
        "fail" => Outcome::Failed,
        "skipped" | "disabled" => Outcome::Skipped,
        _ => return None,
    };
    let mut words = left.split_whitespace();
    let name = words.next().filter(|name| name.contains('.'))?;
    let combination = words.find(|word| word.starts_with('\''));
    let name = combination.map_or(name.to_owned(), |found| format!("{name} {found}"));
    Some((name, outcome))
}

/// Lines `test<TAB>reason`; a test's name without its combinations.
fn known_differences(list: &str) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(root().join(list)).context("read the known differences")?;
    Ok(text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, reason)| (name.to_owned(), reason.to_owned()))
        .collect())
}

/// Prints every test that did not pass; fails on unknown differences.
fn judge(outcomes: &[(String, Outcome)], known: &[(String, String)], whole: bool) -> Result<()> {
    let count = |wanted| outcomes.iter().filter(|(_, outcome)| *outcome == wanted).count();
    let plain = |name: &str| name.split(' ').next().unwrap_or(name).to_owned();
    let reason = |name: &str| {
        known.iter().find(|(test, _)| *test == plain(name)).map(|(_, reason)| reason.as_str())
    };
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|(_, outcome)| *outcome == Outcome::Failed)
        .map(|(name, _)| name.as_str())
        .collect();
    for name in &failed {
        println!("{name}: {}", reason(name).unwrap_or("NOT KNOWN TO DIFFER"));
    }
    println!(
        "{} passed, {} failed, {} skipped by the suite itself",
        count(Outcome::Passed),
        failed.len(),
        count(Outcome::Skipped)
    );
    let mut unknown: Vec<String> =
        failed.iter().filter(|name| reason(name).is_none()).map(ToString::to_string).collect();
    let fails = |test: &str| failed.iter().any(|name| plain(name) == test);
    let ran = |test: &str| {
        outcomes.iter().any(|(name, outcome)| plain(name) == test && *outcome != Outcome::Skipped)
    };
    let mended = known.iter().filter(|(test, _)| whole && ran(test) && !fails(test));
    unknown.extend(mended.map(|(test, _)| format!("{test} (passes now: take it off the list)")));
    if unknown.is_empty() { Ok(()) } else { bail!("unexpected: {}", unknown.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_suite_are_read() {
        let read = |line| read_line(line);
        assert_eq!(
            read("encryption.tempfiles 'cbc,innodb'        w2 [ pass ]   1234"),
            Some(("encryption.tempfiles 'cbc,innodb'".to_owned(), Outcome::Passed))
        );
        assert_eq!(
            read("encryption.aria_tiny                     w1 [ skipped ]  Test requires"),
            Some(("encryption.aria_tiny".to_owned(), Outcome::Skipped))
        );
        assert_eq!(
            read("[ 72%] component_keyring_file.udf_test           [ pass ]   4318"),
            Some(("component_keyring_file.udf_test".to_owned(), Outcome::Passed))
        );
        assert_eq!(read("[100%] shutdown_report                 [ pass ]       "), None);
        assert_eq!(read("Completed: All 3 tests were successful."), None);
        assert_eq!(read("worker[1] mysql-test-run: WARNING: [ x ]"), None);
    }

    #[test]
    fn what_is_not_known_is_an_error_both_ways() {
        let outcome = |name: &str, outcome| (name.to_owned(), outcome);
        let known = vec![("encryption.a".to_owned(), "because".to_owned())];
        let failed = [outcome("encryption.a 'x'", Outcome::Failed)];
        assert!(judge(&failed, &known, true).is_ok());
        assert!(judge(&failed, &[], true).is_err());
        let passed = [outcome("encryption.a 'x'", Outcome::Passed)];
        assert!(judge(&passed, &known, true).is_err());
        assert!(judge(&passed, &known, false).is_ok());
        let skipped = [outcome("encryption.a", Outcome::Skipped)];
        assert!(judge(&skipped, &known, true).is_ok());
    }
}
