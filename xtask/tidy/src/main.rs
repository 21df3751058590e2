//! `cargo xtask tidy`: the rules of ARCHITECTURE.md that the compiler cannot check.

mod circles;
mod graph;
mod markdown;
mod text;

use std::process::ExitCode;

use anyhow::{Context, Result};
use cargo_metadata::{MetadataCommand, Target};

/// A finding of a rule.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// Violates a rule: `tidy` fails.
    Broken(String),
    /// Close to a limit: shown, but not a failure.
    Near(String),
}

fn main() -> ExitCode {
    match tidy() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(broken) => {
            eprintln!("error: {broken} rules are broken");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks every rule on the workspace of the current directory, shows all findings, and returns the
/// number of violated rules.
fn tidy() -> Result<usize> {
    let metadata = MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    let mut findings = graph::check(&metadata.packages);
    findings.extend(text::check(metadata.workspace_root.as_std_path())?);
    for package in &metadata.packages {
        let is_crate = |target: &&Target| target.is_lib() || target.is_cdylib() || target.is_bin();
        let roots = package.targets.iter().filter(is_crate);
        let roots: Vec<_> = roots.map(|target| target.src_path.clone().into()).collect();
        let order = circles::order(&package.metadata);
        findings.extend(circles::check(&package.name, &roots, &order)?);
    }
    let mut broken = 0_usize;
    for finding in &findings {
        match finding {
            Finding::Broken(what) => {
                broken += 1;
                eprintln!("tidy: {what}");
            }
            Finding::Near(what) => eprintln!("tidy (near a limit): {what}"),
        }
    }
    if broken == 0 {
        eprintln!("tidy: ok ({} packages)", metadata.packages.len());
    }
    Ok(broken)
}
