//! The Python packages: `tdekit`, `tdekit-bench`, `tdekit-serve`, `tdekit-autoload`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cross::Emulated;
use super::{Built, glibc, names};
use crate::process::{find_program, output, root, run, target_dir};

/// Maximum size of a wheel.
const MOST_BYTES: u64 = 12_000_000;

/// Builds the wheels of `built` into `to`.
///
/// # Errors
/// When a program is missing, or a wheel cannot be built or is too large.
pub(super) fn make(built: &Built, to: &Path) -> Result<()> {
    let programs = ["tdekit", "tdekit-bench", "tdekit-serve", "libtdekit_sqlite.so"];
    let programs = programs.map(|name| built.dir.join(name));
    let (major, minor) = glibc::needed(&programs.each_ref().map(PathBuf::as_path))?;
    let tag = format!("manylinux_{major}_{minor}_{}", built.arch);
    let mut wheel = Command::new("python3");
    wheel.arg(root().join("packages/python/wheel.py")).args([env!("CARGO_PKG_VERSION"), &tag]);
    wheel.arg(&built.dir).arg(root().join("tests/interop/python/tdekit.py")).arg(to);
    run(&mut wheel)?;
    for name in names(to)?.iter().filter(|name| name.ends_with(".whl")) {
        let bytes = fs::metadata(to.join(name))?.len();
        ensure!(bytes < MOST_BYTES, "{name} has {bytes} bytes, {MOST_BYTES} at most");
    }
    Ok(())
}

/// As [`prove`] with the wheels for another processor: its own Python runs pip and the proof.
///
/// # Errors
/// As [`prove`].
pub(super) fn prove_emulated(packages: &Path, emulated: &Emulated) -> Result<()> {
    let environment = target_dir().join(format!("proofs/python-{}", emulated.arch()));
    crate::directory::empty(&environment)?;
    let mut make = emulated.command(&emulated.file("usr/bin/python3"));
    run(make.args(["-m", "venv", "--without-pip"]).arg(&environment))?;
    let inside = environment.join("bin/python");
    // pip is pure Python, and detects the Python that runs it.
    let find = "import os, pip; print(os.path.dirname(pip.__path__[0]))";
    let pip = output(Command::new("python3").args(["-c", find]))?;
    let mut install = emulated.command(&inside);
    install.env("PYTHONPATH", pip).args(["-m", "pip", "install", "--quiet"]);
    install.args(["--disable-pip-version-check", "--no-index", "--find-links"]).arg(packages);
    run(install.args(["tdekit-autoload", "tdekit[bench,serve]"]))?;
    run(emulated.command(&inside).arg(root().join("packages/python/prove.py")))
}

/// Installs the wheels in `packages` into an empty environment of each installed Python, by pip and
/// without an index, and runs the proof: they encrypt, reopen and refuse.
///
/// # Errors
/// When they cannot be installed, or do not work as they should.
pub(crate) fn prove(packages: &Path) -> Result<()> {
    // The distribution's Python loads by its module; others may have to load by ctypes.
    let own = "/usr/bin/python3";
    let mut pythons = vec!["python3"];
    if find_program("python3").is_some_and(|first| first != Path::new(own)) {
        pythons.extend(Some(own).filter(|own| Path::new(own).is_file()));
    }
    for (number, python) in pythons.into_iter().enumerate() {
        let environment = target_dir().join(format!("proofs/python-{number}"));
        if environment.exists() {
            fs::remove_dir_all(&environment)
                .with_context(|| format!("remove {}", environment.display()))?;
        }
        run(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(&environment))?;
        let inside = environment.join("bin/python");
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "--python"]).arg(&inside).args(["install", "--quiet"]);
        install.args(["--disable-pip-version-check", "--no-index", "--find-links"]).arg(packages);
        run(install.args(["tdekit-autoload", "tdekit[bench,serve]"]))?;
        run(Command::new(&inside).arg(root().join("packages/python/prove.py")))?;
    }
    Ok(())
}
