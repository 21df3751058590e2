//! `cargo xtask tidy`: the rules of ARCHITECTURE.md that a compiler does not know.

mod circles;
mod graph;
mod markdown;
mod text;

use anyhow::{Context, Result, bail};
use cargo_metadata::{MetadataCommand, Target};

use crate::process::root;

/// A finding of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Breaks a rule: `tidy` fails.
    Broken(String),
    /// Comes near to a limit: shown, and no failure.
    Near(String),
}

/// Checks every rule, and shows all that is found.
///
/// # Errors
/// When a rule is broken, or the workspace cannot be read.
pub(crate) fn tidy() -> Result<()> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    let mut findings = graph::check(&metadata.packages);
    findings.extend(text::check(&root())?);
    for package in &metadata.packages {
        let is_crate = |target: &&Target| target.is_lib() || target.is_cdylib() || target.is_bin();
        let roots = package.targets.iter().filter(is_crate);
        let roots: Vec<_> = roots.map(|target| target.src_path.clone().into()).collect();
        findings.extend(circles::check(&package.name, &roots)?);
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
    if broken > 0 {
        bail!("tidy: {broken} rules broken");
    }
    eprintln!("tidy: ok ({} packages)", metadata.packages.len());
    Ok(())
}
