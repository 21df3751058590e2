//! `cargo xtask package`: the shipped programs as packages, and their proof. A package is built
//! twice from the same programs, and both must have the same bytes.

pub(crate) mod container;
mod cross;
pub(crate) mod deb;
mod debian_root;
mod glibc;
pub(crate) mod go;
pub(crate) mod java;
pub(crate) mod node;
pub(crate) mod python;
mod rust;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::directory::empty;
use crate::process::{output, run, target_dir};

/// Arguments of `package`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[arg(value_enum)]
    action: Action,
    /// Package the programs in this directory, and build none; may be given again, for another
    /// processor
    #[arg(long, value_name = "DIRECTORY")]
    built: Vec<PathBuf>,
}

/// The programs of one build.
pub(crate) struct Built {
    /// Their directory.
    dir: PathBuf,
    /// Their processor, by Rust's name.
    arch: &'static str,
}

impl Built {
    /// Returns programs of this machine's processor.
    pub(crate) fn here(dir: PathBuf) -> Self {
        Self { dir, arch: std::env::consts::ARCH }
    }

    /// Returns programs in a directory, with the processor of the command.
    fn at(dir: &Path) -> Result<Self> {
        let dir = std::path::absolute(dir)?;
        let arch = cross::arch_of(&dir.join("tdekit"))?;
        Ok(Self { dir, arch })
    }

    fn is_ours(&self) -> bool {
        self.arch == std::env::consts::ARCH
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Makes every package in `target/packages`, with checksums
    All,
    /// Makes them and proves each as a user meets it: installed from its file into an empty
    /// environment
    Prove,
}

/// Builds packages, and proves them if requested.
///
/// # Errors
/// When the build fails, two builds differ, or a proof fails.
pub(crate) fn package(arguments: &Arguments) -> Result<()> {
    let built = match arguments.built.as_slice() {
        [] => cross::build_all()?,
        named => named.iter().map(|built| Built::at(built)).collect::<Result<_>>()?,
    };
    let packages = make(&built)?;
    if arguments.action == Action::Prove {
        python::prove(&packages)?;
        node::prove(&packages)?;
        node::prove_others(&packages)?;
        go::prove(&packages)?;
        java::prove(&packages)?;
        deb::prove(&packages)?;
        container::prove(&packages)?;
        rust::prove(&packages)?;
        if built.iter().any(|built| !built.is_ours()) {
            cross::prove(&packages)?;
        }
    }
    Ok(())
}

/// Builds every package of the programs in `built`, one for each processor; returns the directory.
///
/// # Errors
/// When a package cannot be built, or two builds of it differ.
pub(crate) fn make(built: &[Built]) -> Result<PathBuf> {
    let ours = built.iter().find(|built| built.is_ours());
    // It prints the manuals.
    let speaker = ours.context("no programs of this machine's processor")?.dir.join("tdekit");
    let packages = target_dir().join("packages");
    let again = target_dir().join("packages-again");
    for to in [&packages, &again] {
        if to.exists() {
            fs::remove_dir_all(to).with_context(|| format!("remove {}", to.display()))?;
        }
        for built in built {
            python::make(built, to)?;
            deb::make(built, &speaker, to)?;
        }
        node::make(built, to)?;
        java::make(built, to)?;
        sbom::make(to)?;
    }
    let mut sums = String::new();
    for name in names(&packages)? {
        let of = |dir: &Path| fs::read(dir.join(&name)).with_context(|| name.clone());
        ensure!(of(&packages)? == of(&again)?, "{name} is not reproducible: two builds differ");
        let sum = output(Command::new("sha256sum").arg(&name).current_dir(&packages))?;
        sums.push_str(&sum);
        if !sum.ends_with('\n') {
            sums.push('\n');
        }
    }
    fs::remove_dir_all(&again)?;
    fs::write(packages.join("SHA256SUMS"), sums)?;
    Ok(packages)
}

/// Returns the command that the packages install, extracted from one of them, with the library
/// beside it.
fn command(packages: &Path) -> Result<PathBuf> {
    command_for(packages, std::env::consts::ARCH)
}

/// Returns the same for a processor by Rust's name.
fn command_for(packages: &Path, arch: &str) -> Result<PathBuf> {
    let to = target_dir().join("proofs/programs").join(arch);
    let tarballs = names(packages)?.into_iter();
    let ours = format!("tdekit-linux-{}-", node::cpu(arch));
    let mut tarballs = tarballs.filter(|name| name.starts_with(&ours));
    let tarball = tarballs.next().context("no npm package has the programs")?;
    empty(&to)?;
    run(Command::new("tar").arg("-xzf").arg(packages.join(tarball)).arg("-C").arg(&to))?;
    Ok(to.join("package/bin/tdekit"))
}

/// Makes a program start in an empty home without tdekit, with a password.
fn at_home(program: &mut Command, home: &Path) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("TDEKIT_")) {
            program.env_remove(name);
        }
    }
    program.env_remove("XDG_DATA_HOME").env("HOME", home).current_dir(home);
    program.env("TDEKIT_PASSWORD", "only for this proof");
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
