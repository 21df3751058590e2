//! The shipped programs and libraries used by a task.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{cargo, run, target_dir};

/// The shipped files: a package, and the file that it builds.
pub(crate) const SHIPPED: [(&str, &str); 7] = [
    ("tdekit", COMMAND),
    ("tdekit-bench-run", "tdekit-bench"),
    ("tdekit-serve", "tdekit-serve"),
    ("tdekit-sqlite-vfs", EXTENSION),
    ("tdekit-sqlite-preload", PRELOAD),
    ("tdekit-mariadb-plugin", "libtdekit_mariadb.so"),
    ("tdekit-mysql-component", "libcomponent_keyring_tdekit.so"),
];
const COMMAND: &str = "tdekit";
const EXTENSION: &str = "libtdekit_sqlite.so";
const PRELOAD: &str = "libtdekit_preload.so";

/// The directory of the shipped files; set once, before any use of them.
static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Makes this task use the programs in `built`, or else the release build, which is created.
///
/// # Errors
/// When the directory lacks a shipped file, or the release build fails.
pub(crate) fn use_built(built: Option<&Path>) -> Result<()> {
    let directory = match built {
        Some(directory) => directory.canonicalize().context("find the built programs")?,
        None => release()?,
    };
    for (_, file) in SHIPPED {
        ensure!(directory.join(file).is_file(), "{} has no {file}", directory.display());
    }
    let set = DIRECTORY.get_or_init(|| directory.clone());
    ensure!(*set == directory, "one run works with one build: {}", set.display());
    Ok(())
}

/// Returns the directory set by [`use_built`]; by default the release build's.
pub(crate) fn directory() -> PathBuf {
    DIRECTORY.get().cloned().unwrap_or_else(|| target_dir().join("release"))
}

/// Returns the command.
pub(crate) fn command_path() -> PathBuf {
    directory().join(COMMAND)
}

/// Returns the extension.
pub(crate) fn extension_path() -> PathBuf {
    directory().join(EXTENSION)
}

/// Returns the library for `LD_PRELOAD`.
pub(crate) fn preload_path() -> PathBuf {
    directory().join(PRELOAD)
}

/// Builds everything that is shipped in release, and returns its directory.
///
/// # Errors
/// When the build fails, or does not create one of the files.
pub(crate) fn release() -> Result<PathBuf> {
    let packages = SHIPPED.iter().flat_map(|(package, _)| ["-p", package]);
    run(cargo().args(["build", "--release"]).args(packages))?;
    let directory = target_dir().join("release");
    for (_, file) in SHIPPED {
        let path = directory.join(file);
        if !path.is_file() {
            bail!("the release build made no {}", path.display());
        }
        separate_symbols(&path)?;
    }
    Ok(directory)
}

/// Moves symbols and debug information into a separate file, `NAME.debug`, where debuggers find
/// them by a link in the program. The linker's own output keeps them: cargo restores it before each
/// build.
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
    // Under a new name: the existing file is a hard link to the linker's output.
    std::fs::rename(&stripped, path).with_context(|| format!("replace {}", path.display()))
}
