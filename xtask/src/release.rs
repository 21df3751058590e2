//! What is shipped: the release build, and the bench that drives it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

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

/// The plugin for MariaDB, as built by [`build`].
pub(crate) fn plugin_path() -> PathBuf {
    target_dir().join("release/libtdekit_mariadb.so")
}

/// The packages that are shipped.
const SHIPPED: [&str; 3] = ["tdekit", "tdekit-rest-sqlite", "tdekit-rest-mariadb"];

/// Builds the command, the extension and the plugin in release.
///
/// # Errors
/// When the build fails, or leaves one of them out.
pub(crate) fn build() -> Result<()> {
    let packages = SHIPPED.iter().flat_map(|package| ["-p", package]);
    run(cargo().args(["build", "--release"]).args(packages))?;
    for path in [command_path(), extension_path(), plugin_path()] {
        if !path.is_file() {
            bail!("the release build made no {}", path.display());
        }
    }
    Ok(())
}

/// Runs `tdekit bench` on the release build.
///
/// # Errors
/// When the machine cannot be set up, or the build or the bench fails.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    setup(Purpose::Bench)?;
    build()?;
    run(Command::new(command_path()).arg("bench").args(arguments))
}
