//! The report page in a browser: `tests/interop/report-page`, on runs of the past and a current
//! one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::store::forget_tdekit;
use crate::drivers::{copy_sources, source};
use crate::process::{cargo, find_program, run, run_quietly};
use crate::shipped::{self, command_path, extension_path};

/// The name on the command line, and the folder in `tests/interop/`.
pub(super) const NAME: &str = "report-page";

/// Renders a page of every document in `tests/interop/report-page/runs` and, if there is a release
/// build (`shipped`), of a short run, a comparison and a calibration by the shipped command; reads
/// all.
///
/// # Errors
/// When there is no browser, a page cannot be made, or one is wrong.
pub(super) fn check(top: &Path, shipped: bool) -> Result<()> {
    let browser =
        find_program("chromium").context("no Chromium: `cargo xtask setup` installs it")?;
    let build = top.join("build");
    prepare(&build).context("prepare the reader of pages")?;
    let pages = top.join("pages");
    super::empty(&pages)?;
    let mut command = Command::new("node");
    command.arg(build.join("check.js")).arg(browser).arg(top.join("screenshots"));
    for results in runs()? {
        let (page, document) = render(&results, &pages)?;
        command.arg(page).arg(document);
    }
    if shipped {
        for (page, document) in bench(&pages)? {
            command.arg(page).arg(document);
        }
    }
    run(&mut command)
}

/// Installs the reader's packages, once for each lock file.
fn prepare(build: &Path) -> Result<()> {
    copy_sources(NAME, build)?;
    let wanted = std::fs::read_to_string(build.join("package-lock.json"))?;
    let stamp = build.join("node_modules/.installed");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(build);
    run_quietly(&mut install)?;
    std::fs::write(&stamp, wanted).context("write the stamp of the installation")
}

/// Result documents of past runs.
fn runs() -> Result<Vec<PathBuf>> {
    let directory = source(NAME).join("runs");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&directory)
        .with_context(|| format!("read {}", directory.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    found.sort();
    if found.is_empty() {
        bail!("no runs in {}", directory.display());
    }
    Ok(found)
}

/// Returns the page of a past run, and its document.
fn render(results: &Path, pages: &Path) -> Result<(PathBuf, PathBuf)> {
    let name = results.file_stem().context("a run without a name")?;
    let page = pages.join(name).with_extension("html");
    let document = page.with_extension("json");
    // The tests' build includes it; with release programs it is built now.
    let built = shipped::directory().join("examples/render");
    let mut command = match built.is_file() {
        true => Command::new(built),
        false => {
            let mut command = cargo();
            let example = ["--package", "tdekit-bench-report", "--example", "render", "--"];
            command.args(["run", "--quiet"]).args(example);
            command
        }
    };
    run_quietly(command.arg(results).arg(&page).arg(&document))?;
    Ok((page, document))
}

/// Returns pages and documents as written by the shipped command: of a run, of its comparison with
/// a past one, and of a calibration.
fn bench(pages: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let copies = pages.join("copies");
    super::empty(&copies)?;
    let past = source(NAME).join("runs/sides.json");
    let made = |name: &str| {
        (pages.join(name).with_extension("html"), pages.join(name).with_extension("json"))
    };
    let (run, compared, calibrated) = (made("now"), made("compared"), made("calibrated"));
    let small = ["--rows", "2000", "--restarts", "2"];
    leave(
        &run,
        Command::new(command_path())
            .args(["bench", "--quick", "--max-time", "15"])
            .args(small)
            .arg("--dir")
            .arg(&copies),
    )?;
    leave(
        &compared,
        Command::new(command_path()).args(["bench", "compare"]).arg(past).arg(&run.1),
    )?;
    let short = ["bench", "--calibrate", "--runs", "3", "--seconds", "2"];
    leave(
        &calibrated,
        Command::new(command_path()).args(short).args(small).arg("--dir").arg(&copies),
    )?;
    Ok(vec![run, compared, calibrated])
}

/// Runs the shipped command so that it writes a page and a document to these paths.
fn leave((page, document): &(PathBuf, PathBuf), command: &mut Command) -> Result<()> {
    forget_tdekit(command);
    command.env("TDEKIT_EXTENSION", extension_path());
    run_quietly(command.arg("--html").arg(page).arg("--json").arg(document))
}
