//! The extension and the key store for stock programs.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::databases::place;

/// Returns the extension of this build: cargo puts it beside the tests of its dependents. One
/// beside the command may be of another build.
pub fn extension() -> PathBuf {
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = std::env::current_exe().unwrap().with_file_name(name);
    assert!(path.is_file(), "the extension was not built: {} is missing", path.display());
    path
}

/// Sets the command's environment: the built command in the path, the store of the tests, its
/// password.
pub fn with_store(command: &mut Command) -> &mut Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_tdekit")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let mut paths = vec![bin.to_owned()];
    paths.extend(std::env::split_paths(&path));
    command
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("TDEKIT_HOME", place().home())
        .env("TDEKIT_PASSWORD", "secret")
        .env("TDEKIT_EXTENSION", extension())
}
