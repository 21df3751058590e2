//! `cargo xtask check`.

use anyhow::{Context, Result, bail};

use crate::crate_tests::{Form, TestBuild};
use crate::plane::workspace;
use crate::process::{cargo, output, run};
use crate::s3_server::S3Server;
use crate::times::Times;

/// Format, rules, lints and documents with every warning denied, and the tests if requested. Each
/// step runs even if an earlier one failed: one run shows everything that needs a fix.
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
    // The build of `make bench`, which nothing else compiles.
    let bench = ["clippy", "--no-default-features", "-p", "tdekit", "-p", "tdekit-bench-run"];
    let denied = ["--", "-D", "warnings"];
    let mut steps = vec![
        ("fmt", run(cargo().args(["fmt", "--all", "--check"]))),
        ("tidy", tidy()),
        ("clippy", run(cargo().args(clippy))),
        ("clippy of the bench", run(cargo().args(bench).args(denied))),
        ("doc", run(&mut doc)),
    ];
    if tests {
        steps.push(("test", tests_of_all()));
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

/// Checks the rules of ARCHITECTURE.md that the compiler cannot check.
///
/// # Errors
/// When one is violated.
pub(crate) fn tidy() -> Result<()> {
    run(cargo().args(["run", "--quiet", "--package", "xtask-tidy"]))
}

fn tests_of_all() -> Result<()> {
    let server = S3Server::start()
        .inspect_err(|error| eprintln!("check: without an S3 server: {error:#}"))
        .ok();
    let packages: Vec<_> = workspace()?.iter().map(|each| each.name.to_string()).collect();
    let mut times = Times::default();
    let tally = TestBuild::whole()?.run(&packages, Form::Short, server.as_ref(), &mut times)?;
    print!("{}", times.table("test programs"));
    tally.all_passed()
}
