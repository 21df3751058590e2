//! `cargo xtask check`, and the crates' own tests.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output, run, shown};
use crate::tally::Tally;
use crate::tidy::tidy;

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
        steps.push(("test", cargo_test().and_then(|tally| tally.all_passed())));
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

/// Runs the tests of every package, shows what they print, and counts.
///
/// # Errors
/// When cargo cannot be started or its output cannot be read. Failing tests are no error here.
pub(crate) fn cargo_test() -> Result<Tally> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]);
    eprintln!("$ {}", shown(&command));
    run_counted(&mut command, &mut std::io::stdout())
}

fn run_counted(command: &mut Command, shown_on: &mut impl Write) -> Result<Tally> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            writeln!(shown_on, "{line}")?;
            tally.add_line(&line);
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
        run_counted(Command::new("sh").args(["-c", script]), &mut std::io::sink()).unwrap()
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let tally = counted("echo 'test a ... ok'; exit 101");
        assert_eq!((tally.passed, tally.failures.len()), (1, 1));
    }

    #[test]
    fn a_failed_test_counts_once() {
        let tally = counted("echo 'test a ... FAILED'; echo 'test b ... ok'; exit 101");
        assert_eq!(tally, Tally { passed: 1, failures: vec!["a".into()] });
    }
}
