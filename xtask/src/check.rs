//! `cargo xtask check`, and the crates' own tests.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::plane::Plane;
use crate::process::{cargo, kill_tree, output, run, shown};
use crate::s3_server::S3Server;
use crate::tally::Tally;
use crate::tidy::tidy;

/// A test that prints nothing for so long hangs: it is killed, and is a failure.
const SILENCE_LIMIT: Duration = Duration::from_mins(10);

/// Format, rules, lints and documents with every warning denied, and the tests if asked. Each step
/// runs, whatever became of those before it: one run shows all there is to mend.
///
/// # Errors
/// When a step fails; the error names each that did.
pub(crate) fn check(tests: bool) -> Result<()> {
    for component in ["fmt", "clippy"] {
        output(cargo().args([component, "--version"]))
            .with_context(|| format!("cargo {component} is missing: `rustup component add`"))?;
    }
    let mut doc = cargo();
    doc.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    let clippy = ["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"];
    let mut steps = vec![
        ("fmt", run(cargo().args(["fmt", "--all", "--check"]))),
        ("tidy", tidy()),
        ("clippy", run(cargo().args(clippy))),
        ("doc", run(&mut doc)),
    ];
    if tests {
        let server = S3Server::start()
            .inspect_err(|error| eprintln!("check: without an S3 server: {error:#}"))
            .ok();
        let tests = cargo_test(server.as_ref()).and_then(|tally| tally.all_passed());
        steps.push(("test", tests));
    }
    let failed: Vec<_> =
        steps.iter().filter_map(|(name, result)| result.is_err().then_some(*name)).collect();
    for (name, result) in &steps {
        if let Err(error) = result {
            eprintln!("check {name}: {error:#}");
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("check: {} failed", failed.join(", ")) }
}

/// Runs the tests of every package, shows their output, and counts them. Tests that need a server
/// are skipped without one, but fail in CI.
///
/// # Errors
/// When a test cannot be compiled, cargo cannot be started or its output cannot be read. Failing
/// tests are no error here.
pub(crate) fn cargo_test(server: Option<&S3Server>) -> Result<Tally> {
    // First, so that the compiler's silence is not taken for a test's.
    run(cargo().args(["test", "--workspace", "--no-run", "--quiet"]))?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]);
    if let Some(server) = server {
        command.envs(server.environment());
    }
    eprintln!("$ {}", shown(&command));
    run_counted(&mut command, SILENCE_LIMIT, &mut std::io::stdout())
}

/// Runs the tests of one plane's packages. Those that need a server pass over it.
///
/// # Errors
/// As [`cargo_test`].
pub(crate) fn cargo_test_of(plane: Plane) -> Result<Tally> {
    let mut command = cargo();
    command.args(["test", "--no-fail-fast"]);
    command.args(plane.packages().iter().flat_map(|package| ["-p", package]));
    run(cargo().args(command.get_args()).args(["--no-run", "--quiet"]))?;
    eprintln!("$ {}", shown(&command));
    run_counted(&mut command, SILENCE_LIMIT, &mut std::io::stdout())
}

fn run_counted(
    command: &mut Command,
    silence_limit: Duration,
    shown_on: &mut impl Write,
) -> Result<Tally> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    let stdout = child.stdout.take().context("a piped child has no standard output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut tally = Tally::default();
    let mut last = String::new();
    loop {
        match lines.recv_timeout(silence_limit) {
            Ok(line) => {
                last = String::from_utf8_lossy(&line?).into_owned();
                writeln!(shown_on, "{last}")?;
                tally.add_line(&last);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill_tree(child.id());
                let minutes = silence_limit.as_secs() / 60;
                tally.failures.push(format!("silent for {minutes} minutes after: {last}"));
                break;
            }
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failures.is_empty() {
        // A test that does not compile, or a test program that died, prints no line of its own.
        tally.failures.push(format!("`{}`: {status}", shown(command)));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(script: &str) -> Tally {
        let limit = Duration::from_secs(2);
        run_counted(Command::new("sh").args(["-c", script]), limit, &mut std::io::sink()).unwrap()
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let tally = counted("echo 'test a ... ok'; exit 101");
        assert_eq!((tally.passed, tally.failures.len()), (1, 1));
    }

    #[test]
    fn a_failed_test_counts_once() {
        let tally = counted("echo 'test a ... FAILED'; echo 'test b ... ok'; exit 101");
        assert_eq!((tally.passed, tally.failures.as_slice()), (1, &["a".to_owned()][..]));
    }

    #[test]
    fn what_hangs_is_killed_with_its_children() {
        let begun = std::time::Instant::now();
        let tally = counted("echo 'test a ... ok'; sh -c 'sleep 600; true'; true");
        assert_eq!(tally.passed, 1);
        assert!(tally.failures[0].contains("test a ... ok"), "{:?}", tally.failures);
        assert!(begun.elapsed() < Duration::from_mins(1));
    }
}
