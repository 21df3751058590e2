//! `tdekit sqlite`: the path of the SQLite extension.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::Subcommand;

use crate::error::CommandError;
use tdekit_console::output;

const LIBRARY: &str = "tdekit_sqlite";
const VARIABLE: &str = "TDEKIT_EXTENSION";

/// The verbs of `tdekit sqlite`.
#[derive(Debug, Subcommand)]
pub(crate) enum SqliteCommand {
    /// Print the path of the extension to load
    Path,
}

/// Runs a verb.
pub(crate) fn run(command: &SqliteCommand) -> Result<(), CommandError> {
    match command {
        SqliteCommand::Path => Ok(output::line(extension()?.display())?),
    }
}

/// Returns the path of the extension: `TDEKIT_EXTENSION`, or beside the command, or at the path of
/// an installation or a build.
///
/// # Errors
/// `NoExtension`.
pub(crate) fn extension() -> Result<PathBuf, CommandError> {
    if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(named);
        return match path.is_file() {
            true => Ok(std::path::absolute(&path).unwrap_or(path)),
            false => Err(CommandError::NoExtension { path }),
        };
    }
    let command = env::current_exe().and_then(fs::canonicalize).unwrap_or_default();
    find_beside(&command, &format!("{DLL_PREFIX}{LIBRARY}{DLL_SUFFIX}"))
        .map_err(|path| CommandError::NoExtension { path })
}

/// Finds a library that belongs to the command: beside it, or at the path of an installation or a
/// build.
///
/// # Errors
/// The expected path.
pub(crate) fn find_beside(command: &Path, name: &str) -> Result<PathBuf, PathBuf> {
    let dir = command.parent().unwrap_or(Path::new("/"));
    let up = dir.parent().unwrap_or(dir);
    let installed = [dir.join(name), up.join("lib/tdekit").join(name), up.join("lib").join(name)];
    let places = if up.ends_with("target") {
        // In a build directory, the library that was built with the command comes first.
        vec![dir.join("deps").join(name), dir.join(name), up.join("release").join(name)]
    } else {
        installed.to_vec()
    };
    let found = places.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| dir.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_beside_the_command_then_in_the_library_directory() {
        let root = tempfile::tempdir().unwrap();
        let command = root.path().join("bin/tdekit");
        fs::create_dir_all(root.path().join("bin")).unwrap();
        fs::create_dir_all(root.path().join("lib/tdekit")).unwrap();
        assert!(find_beside(&command, "l.so").is_err());
        let installed = root.path().join("lib/tdekit/l.so");
        fs::write(&installed, "").unwrap();
        assert_eq!(find_beside(&command, "l.so").unwrap(), installed);
        let beside = root.path().join("bin/l.so");
        fs::write(&beside, "").unwrap();
        assert_eq!(find_beside(&command, "l.so").unwrap(), beside);
    }

    #[test]
    fn finds_what_a_build_made() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        let command = target.join("debug/tdekit");
        fs::create_dir_all(target.join("debug/deps")).unwrap();
        fs::create_dir_all(target.join("release")).unwrap();
        for place in ["release/l.so", "debug/l.so", "debug/deps/l.so"] {
            let built = target.join(place);
            fs::write(&built, "").unwrap();
            assert_eq!(find_beside(&command, "l.so").unwrap(), built);
        }
    }
}
