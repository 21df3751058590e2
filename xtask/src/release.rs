//! The shipped files: the release build, and the bench that drives it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, run, target_dir};
use crate::setup::{Purpose, setup};

/// The command, as built by [`build`].
pub(crate) fn command_path() -> PathBuf {
    target_dir().join("release/tdekit")
}

/// The extension, as built by [`build`].
pub(crate) fn extension_path() -> PathBuf {
    target_dir().join("release/libtdekit_sqlite.so")
}

/// What `LD_PRELOAD` names, as built by [`build`].
pub(crate) fn preload_path() -> PathBuf {
    target_dir().join("release").join(PRELOAD)
}

/// The shipped files: a package, and the file that it builds.
pub(crate) const SHIPPED: [(&str, &str); 5] = [
    ("tdekit", "tdekit"),
    ("tdekit-bench-run", "tdekit-bench"),
    ("tdekit-sqlite-vfs", "libtdekit_sqlite.so"),
    ("tdekit-sqlite-preload", PRELOAD),
    ("tdekit-mariadb-plugin", PLUGIN),
];
const PRELOAD: &str = "libtdekit_preload.so";
const PLUGIN: &str = "libtdekit_mariadb.so";

/// Builds all that is shipped in release.
///
/// # Errors
/// When the build fails, or leaves one of the files out.
pub(crate) fn build() -> Result<()> {
    build_of(&SHIPPED)
}

/// Runs `tdekit bench` on the release build. The plugin is built where servers are priced.
///
/// # Errors
/// When the machine cannot be set up, or the build or the bench fails.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    setup(Purpose::Bench)?;
    let servers = arguments.iter().any(|word| word.contains("oltp") || word.contains("mysql:"));
    let needed = |(_, file): &(&str, &str)| *file != PRELOAD && (servers || *file != PLUGIN);
    let needed: Vec<_> = SHIPPED.into_iter().filter(needed).collect();
    build_of(&needed)?;
    run(Command::new(command_path()).arg("bench").args(arguments))
}

fn build_of(shipped: &[(&str, &str)]) -> Result<()> {
    let packages = shipped.iter().flat_map(|(package, _)| ["-p", package]);
    run(cargo().args(["build", "--release"]).args(packages))?;
    for (_, file) in shipped {
        let path = target_dir().join("release").join(file);
        if !path.is_file() {
            bail!("the release build made no {}", path.display());
        }
        separate_symbols(&path)?;
    }
    Ok(())
}

/// Moves symbols and debug information into a file beside, `NAME.debug`, where debuggers find them
/// by the link that stays. The linker's own output keeps them: cargo restores it before each build.
fn separate_symbols(path: &Path) -> Result<()> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let (symbols, stripped) = (beside(".debug"), beside(".stripped"));
    run(Command::new("objcopy").arg("--only-keep-debug").args([path, &symbols]))?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&symbols);
    run(Command::new("objcopy").arg("--strip-unneeded").arg(link).args([path, &stripped]))?;
    // By a new name: the existing file is a hard link to the linker's output.
    std::fs::rename(&stripped, path).with_context(|| format!("replace {}", path.display()))
}
