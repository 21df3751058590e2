//! The jar: the class `tdekit.Tdekit`, with the libraries of all platforms inside.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Built;
use super::cross::Emulated;
use crate::directory::empty;
use crate::drivers::jdbc_driver;
use crate::process::{root, run, target_dir};

const LIBRARY: &str = "libtdekit_sqlite.so";
/// The earliest time that `jar` accepts: the bytes do not depend on the build's time.
const EPOCH: &str = "--date=1980-01-01T00:00:02+00:00";

/// Writes the jar of the libraries in `built` into `to`.
///
/// # Errors
/// When a library is missing, or javac or jar fails.
pub(super) fn make(built: &[Built], to: &Path) -> Result<()> {
    let stage = target_dir().join("package-stage/java");
    empty(&stage)?;
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-encoding", "UTF-8", "-d"]).arg(&stage);
    run(javac.arg(root().join("packages/java/Tdekit.java")))?;
    // In a fixed order: a directory's own order is the file system's.
    let mut files = vec!["META-INF/LICENSE-APACHE".to_owned(), "META-INF/LICENSE-MIT".to_owned()];
    files.push("tdekit/Tdekit.class".to_owned());
    for built in built {
        // The Java machine's name of Rust's `x86_64`.
        let cpu = if built.arch == "x86_64" { "amd64" } else { built.arch };
        let platform = format!("tdekit/Linux-{cpu}");
        fs::create_dir_all(stage.join(&platform))?;
        let inside = format!("{platform}/{LIBRARY}");
        let library = built.dir.join(LIBRARY);
        fs::copy(&library, stage.join(&inside))
            .with_context(|| format!("copy {}", library.display()))?;
        files.push(inside);
    }
    fs::create_dir_all(stage.join("META-INF"))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(name), stage.join("META-INF").join(name))?;
    }
    fs::create_dir_all(to)?;
    let mut jar = Command::new("jar");
    jar.args([EPOCH, "--create", "--file"]);
    jar.arg(to.join(concat!("tdekit-", env!("CARGO_PKG_VERSION"), ".jar")));
    run(jar.args(files).current_dir(&stage))
}

/// Runs a program with only the jar and sqlite-jdbc, which encrypts, reopens and refuses.
///
/// # Errors
/// When it does not work as it should.
pub(crate) fn prove(packages: &Path) -> Result<()> {
    prove_by(Command::new("java"), &super::command(packages)?, packages)
}

/// As [`prove`] with the library for another processor, in its own Java machine.
///
/// # Errors
/// As [`prove`].
pub(super) fn prove_emulated(packages: &Path, emulated: &Emulated) -> Result<()> {
    let machine = emulated.file("usr/lib/jvm/java-17-openjdk-arm64/bin/java");
    let command = super::command_for(packages, emulated.arch())?;
    let mut java = emulated.command(&machine);
    // Otherwise it starts programs through a helper, which this machine cannot run.
    java.arg("-Djdk.lang.Process.launchMechanism=FORK");
    prove_by(java, &command, packages)
}

fn prove_by(mut java: Command, tdekit: &Path, packages: &Path) -> Result<()> {
    let home = target_dir().join("proofs/java");
    empty(&home)?;
    let jar = packages.join(concat!("tdekit-", env!("CARGO_PKG_VERSION"), ".jar"));
    let classes = target_dir().join("proofs/java-classes");
    let path = [classes.clone(), jar, jdbc_driver()?.join("*")].map(|path| path.into_os_string());
    let path = path.join(":".as_ref());
    let mut javac = Command::new("javac");
    javac.arg("-classpath").arg(&path).args(["-encoding", "UTF-8", "-d"]).arg(&classes);
    run(javac.arg(root().join("packages/java/Prove.java")))?;
    super::at_home(&mut java, &home);
    java.arg("-classpath").arg(path).arg("Prove");
    run(java.arg(tdekit))
}
