//! Runs test files, each in a separate process and directory, and reads their results.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use super::fixture::Fixture;
use crate::process::kill_tree;

const POLL: Duration = Duration::from_millis(20);
const PLAIN_MAGIC: &[u8] = b"SQLite format 3\0";
/// Represents a script that ended before its last test, among the names of tests.
pub(super) const SCRIPT: &str = "(script)";
/// Represents files or memory that were left open or unfreed, among the names of tests.
pub(super) const LEFT: &str = "(left)";

/// The environment of a process of the suite.
pub(super) struct Surroundings {
    /// Variables; no others except the search path are set.
    pub(super) variables: Vec<(String, String)>,
    /// The user of the processes, if we are root: SQLite's tests do not run as root.
    pub(super) user: Option<(u32, u32)>,
    /// Parent of the files' directories.
    pub(super) work: PathBuf,
    /// The directory of their logs.
    pub(super) logs: PathBuf,
}

/// A file, and the set to which it belongs.
pub(super) struct TestFile {
    pub(super) name: String,
    pub(super) set: &'static str,
    pub(super) limit: Duration,
}

/// How a process ended abnormally.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) enum Broken {
    /// By this signal.
    Signal(i32),
    /// Killed after the time limit.
    TimedOut,
}

/// The outcome of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Outcome {
    pub(super) file: String,
    pub(super) tests: u64,
    /// Names of tests, and [`SCRIPT`] and [`LEFT`].
    pub(super) failed: BTreeSet<String>,
    pub(super) broken: Option<Broken>,
    /// Files left by the run that begin like plain databases.
    pub(super) plain: BTreeSet<String>,
    pub(super) seconds: f64,
}

impl Outcome {
    pub(super) fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.broken.is_none()
    }
}

/// Runs `files`, `jobs` at a time; `tell` is called at the end of each.
///
/// # Errors
/// When a process cannot be started, or its files cannot be read.
pub(super) fn run_files(
    fixture: &Fixture,
    surroundings: &Surroundings,
    files: &[TestFile],
    jobs: usize,
    tell: impl Fn(&Outcome) + Sync,
) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let worker = || -> Result<()> {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run_file(fixture, surroundings, file)?;
            tell(&outcome);
            outcomes.lock().map_err(|_| anyhow!("a worker panicked"))?.push(outcome);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| anyhow!("a worker panicked")).and_then(|ended| ended)
        })
    })?;
    let mut outcomes = outcomes.into_inner().map_err(|_| anyhow!("a worker panicked"))?;
    outcomes.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(outcomes)
}

fn run_file(fixture: &Fixture, surroundings: &Surroundings, file: &TestFile) -> Result<Outcome> {
    let directory = surroundings.work.join(&file.name);
    let log = surroundings.logs.join(format!("{}.log", file.name));
    let begun = Instant::now();
    let mut command = Command::new(&fixture.program);
    command.arg(fixture.tests.join("permutations.test")).args([file.set, &file.name]);
    let ended = surroundings.run(&mut command, &directory, &log, file.limit)?;
    let mut said = Vec::new();
    File::open(&log)?.read_to_end(&mut said)?;
    let plain = plain_databases(&directory)?;
    fs::remove_dir_all(&directory).with_context(|| format!("remove {}", directory.display()))?;
    let mut outcome = read_outcome(&file.name, &String::from_utf8_lossy(&said), ended);
    outcome.plain = plain;
    outcome.seconds = begun.elapsed().as_secs_f64();
    if outcome.is_clean() {
        fs::remove_file(&log)?;
    }
    Ok(outcome)
}

impl Surroundings {
    /// Runs `command` in a new directory; `None` if it was killed after the time limit.
    pub(super) fn run(
        &self,
        command: &mut Command,
        directory: &Path,
        log: &Path,
        limit: Duration,
    ) -> Result<Option<ExitStatus>> {
        fs::create_dir(directory).with_context(|| format!("make {}", directory.display()))?;
        let output = File::create(log)?;
        command
            .current_dir(directory)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", directory)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(directory, Some(user), Some(group))?;
            command.uid(user).gid(group);
        }
        let mut child = command.spawn().context("start the test program")?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if begun.elapsed() > limit {
                kill_tree(child.id());
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}

/// Reads the test program's output and exit status.
fn read_outcome(name: &str, said: &str, ended: Option<ExitStatus>) -> Outcome {
    let Some(status) = ended else { return read_stopped(name, said) };
    let counts = said.lines().rev().find_map(read_counts);
    let mut failed: BTreeSet<String> = said
        .lines()
        .filter_map(|line| line.strip_prefix("!Failures on these tests:"))
        .flat_map(|names| names.split_whitespace().map(str::to_owned))
        .collect();
    match counts {
        None => {
            failed.insert(SCRIPT.to_owned());
        }
        // The names are those of failed tests; an exit code without any indicates other failures.
        Some((0, _)) if !status.success() => {
            failed.insert(LEFT.to_owned());
        }
        Some(_) => {}
    }
    Outcome {
        file: name.to_owned(),
        tests: counts.map_or(0, |(_, tests)| tests),
        failed,
        broken: status.signal().map(Broken::Signal),
        plain: BTreeSet::new(),
        seconds: 0.0,
    }
}

/// Reads the test program's output before it was stopped: a line `NAME... Ok` for each test that
/// passed, a line `! NAME expected: ...` for each that failed.
fn read_stopped(name: &str, said: &str) -> Outcome {
    let passed = said.lines().filter(|line| line.ends_with("... Ok")).count();
    let failed: BTreeSet<String> = said
        .lines()
        .filter_map(|line| line.strip_prefix("! ")?.split_once(" expected:"))
        .map(|(test, _)| test.to_owned())
        .collect();
    Outcome {
        file: name.to_owned(),
        tests: (passed + failed.len()) as u64,
        failed,
        broken: Some(Broken::TimedOut),
        plain: BTreeSet::new(),
        seconds: 0.0,
    }
}

/// A line such as `2 errors out of 31 tests on host Linux 64-bit little-endian`.
fn read_counts(line: &str) -> Option<(u64, u64)> {
    let (errors, rest) = line.split_once(" errors out of ")?;
    let (tests, _) = rest.split_once(" tests")?;
    Some((errors.parse().ok()?, tests.parse().ok()?))
}

/// Returns the names of the files below `directory` that begin like plain databases.
fn plain_databases(directory: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() && is_plain(&entry.path()) {
                found.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

/// Returns true if a file begins like a plain database.
pub(super) fn is_plain(path: &Path) -> bool {
    let mut begin = [0; PLAIN_MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == *PLAIN_MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn counts_and_failures_are_read() {
        let said = "a-1... Ok\n! a-2 expected: [1]\n2 errors out of 31 tests on vm Linux\n\
                    !Failures on these tests: a-2 a-4.1\nAll memory allocations freed\n";
        let outcome = read_outcome("a.test", said, exit(1));
        assert_eq!(outcome.tests, 31);
        assert_eq!(outcome.failed, ["a-2", "a-4.1"].map(str::to_owned).into());
        assert_eq!(outcome.broken, None);
        let clean = read_outcome("a.test", "0 errors out of 7 tests on vm Linux\n", exit(0));
        assert!(clean.is_clean() && clean.tests == 7);
    }

    #[test]
    fn nothing_that_ended_badly_is_clean() {
        let whole = "0 errors out of 7 tests on vm Linux\n";
        assert!(read_outcome("a.test", "a-1... Ok\n", exit(0)).failed.contains(SCRIPT));
        assert!(read_outcome("a.test", whole, exit(1)).failed.contains(LEFT));
        let aborted = read_outcome("a.test", whole, Some(ExitStatus::from_raw(6)));
        assert_eq!(aborted.broken, Some(Broken::Signal(6)));
        assert_eq!(read_outcome("a.test", whole, None).broken, Some(Broken::TimedOut));
    }

    #[test]
    fn what_was_stopped_tells_what_it_came_to() {
        let said = "a-1... Ok\na-2...\n! a-2 expected: [1]\n! a-2 got:      [2]\na-3... Ok\na-4";
        let outcome = read_outcome("a.test", said, None);
        assert_eq!((outcome.tests, outcome.broken), (3, Some(Broken::TimedOut)));
        assert_eq!(outcome.failed, ["a-2".to_owned()].into());
    }
}
