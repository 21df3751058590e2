//! Builds of the shipped programs that run on systems older than the one that builds, and on
//! another processor: zig links against the C library that is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::deb::debian_arch;
use super::debian_root::as_root;
use super::{Built, glibc};
use crate::process::{find_program, output, root, run, run_quietly, target_dir};
use crate::release::SHIPPED;

/// The least glibc that the programs run with.
const GLIBC: (u32, u32) = (2, 28);
/// The processors that packages are made for, by Rust's names.
const ARCHES: [&str; 2] = ["x86_64", "aarch64"];
/// The processor whose programs run under an emulator here.
const EMULATED: &str = "aarch64";
/// Packages of Debian whose files stand in for a machine of another processor.
const BESIDE: [&str; 3] = ["libsqlite3-0", "python3", "sqlite3"];

/// Builds all that is shipped for every processor, without symbols.
///
/// # Errors
/// When zig or Rust's library for a target cannot be had, a build fails, or a program needs a
/// newer glibc.
pub(super) fn build_all() -> Result<Vec<Built>> {
    let tools = tools()?;
    ARCHES.into_iter().map(|arch| Ok(Built { dir: build(arch, &tools)?, arch })).collect()
}

fn build(arch: &str, tools: &Path) -> Result<PathBuf> {
    let target = format!("{arch}-unknown-linux-gnu");
    run(Command::new("rustup").args(["target", "add", &target]).current_dir(root()))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    let mut build = Command::new(tools.join("bin/cargo-zigbuild"));
    build.current_dir(root()).env("PATH", std::env::join_paths(path)?);
    build.env("CARGO_ZIGBUILD_CACHE_DIR", target_dir().join("zig"));
    // Packages carry no symbols. Paths of the machine that builds are in no program.
    build.env("CARGO_PROFILE_RELEASE_DEBUG", "false").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    let (major, minor) = GLIBC;
    build.args(["zigbuild", "--release", "--target", &format!("{target}.{major}.{minor}")]);
    run(build.args(SHIPPED.iter().flat_map(|(package, _)| ["-p", package])))?;
    let built = target_dir().join(&target).join("release");
    let programs = SHIPPED.map(|(_, file)| built.join(file));
    let needed = glibc::needed(&programs.each_ref().map(PathBuf::as_path))?;
    ensure!(needed <= GLIBC, "the programs of {target} need glibc {needed:?}");
    Ok(built)
}

/// An environment of Python with zig and cargo-zigbuild, of the versions and bytes that
/// `packages/cross/requirements.txt` names.
fn tools() -> Result<PathBuf> {
    let (tools, wanted) =
        (target_dir().join("cross-tools"), root().join("packages/cross/requirements.txt"));
    let had = tools.join("requirements.txt");
    let list = fs::read(&wanted).with_context(|| format!("read {}", wanted.display()))?;
    if fs::read(&had).ok().as_ref() != Some(&list) {
        run(Command::new("python3").args(["-m", "venv", "--clear", "--without-pip"]).arg(&tools))?;
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "--python"]).arg(tools.join("bin/python"));
        install.args(["install", "--quiet", "--disable-pip-version-check"]);
        run(install.args(["--require-hashes", "--requirement"]).arg(&wanted))?;
        fs::write(&had, list).with_context(|| format!("write {}", had.display()))?;
    }
    Ok(tools)
}

/// Runs the Debian package for aarch64 under an emulator, with libraries, Python and the `sqlite3`
/// shell of that processor in a directory: nothing of it is installed into the system.
///
/// # Errors
/// When the files cannot be had, or the programs do not do what they should.
pub(super) fn prove(packages: &Path) -> Result<()> {
    let emulator = format!("qemu-{EMULATED}-static");
    let Some(emulator) = find_program(&emulator) else {
        bail!("install qemu-user-static, which has {emulator}");
    };
    let place = target_dir().join("proofs").join(EMULATED);
    run(as_root("rm")?.args(["--recursive", "--force"]).arg(&place))?;
    let debian = debian_arch(EMULATED)?;
    let mut extract = as_root("mmdebstrap")?;
    extract.args(["--quiet", "--variant=extract", &format!("--architectures={debian}")]);
    run(extract.arg(format!("--include={}", BESIDE.join(","))).arg("bookworm").arg(&place))?;
    for name in
        super::names(packages)?.iter().filter(|name| name.ends_with(&format!("_{debian}.deb")))
    {
        run_quietly(as_root("dpkg-deb")?.arg("--extract").arg(packages.join(name)).arg(&place))?;
    }
    let mut proof = Command::new("sh");
    proof.arg(root().join("packages/cross/prove.sh")).arg(&emulator).arg(&place);
    proof.env("NATIVE_TDEKIT", super::command(packages)?);
    println!("{}", output(&mut proof)?);
    prove_wheels(packages, &emulator, &place)
}

/// Installs the wheels for aarch64 with pip, as Python of that processor runs it, and proves them.
fn prove_wheels(packages: &Path, emulator: &Path, place: &Path) -> Result<()> {
    let environment = target_dir().join("proofs").join(format!("python-{EMULATED}"));
    super::fresh(&environment)?;
    let run_python = |python: &Path| {
        let mut command = Command::new(emulator);
        command.arg("-L").arg(place).arg(python);
        command
    };
    let mut make = run_python(&place.join("usr/bin/python3"));
    run(make.args(["-m", "venv", "--without-pip"]).arg(&environment))?;
    let inside = environment.join("bin/python");
    // pip is Python alone, and knows by which Python it runs.
    let find = "import os, pip; print(os.path.dirname(pip.__path__[0]))";
    let pip = output(Command::new("python3").args(["-c", find]))?;
    let mut install = run_python(&inside);
    install.env("PYTHONPATH", pip).args(["-m", "pip", "install", "--quiet"]);
    install.args(["--disable-pip-version-check", "--no-index", "--find-links"]).arg(packages);
    run(install.args(["tdekit-autoload", "tdekit-bench"]))?;
    let mut proof = run_python(&inside);
    let through = format!("{} -L {}", emulator.display(), place.display());
    proof.env("PROVE_THROUGH", through).arg(root().join("packages/python/prove.py"));
    println!("{EMULATED}: {}", output(&mut proof)?);
    Ok(())
}
