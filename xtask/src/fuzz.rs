//! `cargo xtask fuzz`: libFuzzer on the parsers, through cargo-fuzz.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output, root, run};

/// Fuzzes `target`, or every target in turn, `seconds` each.
///
/// # Errors
/// When nightly or cargo-fuzz is missing, there is no such target, or the fuzzer found a crash.
pub(crate) fn fuzz(target: Option<&str>, seconds: u32) -> Result<()> {
    let targets = targets(&root().join("tests/fuzz/fuzz_targets"))?;
    let chosen: Vec<_> = match target {
        Some(name) if targets.iter().any(|each| each == name) => vec![name.to_owned()],
        Some(name) => bail!("no fuzz target {name}; there are: {}", targets.join(", ")),
        None => targets,
    };
    output(nightly().args(["fuzz", "--version"])).context(
        "needs nightly Rust and cargo-fuzz: `rustup toolchain install nightly`, \
         `cargo install cargo-fuzz`",
    )?;
    run(cargo().args(["run", "--quiet", "-p", "tdekit-fuzz", "--bin", "seeds"]))?;
    for target in chosen {
        let mut command = nightly();
        command.args([
            "fuzz",
            "run",
            "--fuzz-dir",
            "tests/fuzz",
            "--features",
            "libfuzzer",
            &target,
            "--",
        ]);
        run(command.arg(format!("-max_total_time={seconds}")))?;
    }
    Ok(())
}

/// Cargo through rustup: cargo itself, which runs this program, does not accept `+nightly`.
fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").current_dir(root());
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

fn targets(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).context("list the fuzz targets")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
