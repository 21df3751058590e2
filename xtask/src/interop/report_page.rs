//! The report page in a browser: `interop/report-page`, on runs of the past and one of now.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::programs::{copy_sources, source};
use super::store::forget_tdekit;
use crate::process::{cargo, find_program, run, run_quietly};
use crate::release::{command_path, extension_path};

/// What the user calls it, and its folder in `interop/`.
pub(super) const NAME: &str = "report-page";

/// Makes a page of every run in `interop/report-page/runs` and, where there is a release build
/// (`shipped`), of a short one by the shipped command; reads them all.
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
        let (page, document) = bench(&pages)?;
        command.arg(page).arg(document);
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

/// The page of a past run, and the document that it was made of.
fn render(results: &Path, pages: &Path) -> Result<(PathBuf, PathBuf)> {
    let name = results.file_stem().context("a run without a name")?;
    let page = pages.join(name).with_extension("html");
    let document = page.with_extension("json");
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "tdekit-cost-report", "--example", "render"]);
    run_quietly(command.arg("--").arg(results).arg(&page).arg(&document))?;
    Ok((page, document))
}

/// Page and document as the shipped command leaves them.
fn bench(pages: &Path) -> Result<(PathBuf, PathBuf)> {
    let copies = pages.join("copies");
    super::empty(&copies)?;
    let (page, document) = (pages.join("now.html"), pages.join("now.json"));
    let mut command = Command::new(command_path());
    forget_tdekit(&mut command);
    command.env("TDEKIT_EXTENSION", extension_path());
    command.args(["bench", "--quick", "--rows", "2000", "--restarts", "2", "--max-time", "15"]);
    command.arg("--dir").arg(copies).arg("--html").arg(&page).arg("--json").arg(&document);
    run_quietly(&mut command)?;
    Ok((page, document))
}
