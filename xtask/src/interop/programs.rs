//! The programs in `tests/interop/`: building and starting them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::store::forget_tdekit;
use crate::drivers::{copy_sources, prepare_java, prepare_node, source};
use crate::process::run;
use crate::shipped::preload_path;

/// One program that uses a database through a stock driver.
pub(super) struct Program {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// Its folder in `tests/interop/`, and in the build directory.
    pub(super) source: &'static str,
    /// Builds it in the given directory, outside of the source tree.
    pub(super) prepare: fn(&Path) -> Result<()>,
    /// Its command line, up to the database; takes the directory of its build.
    start: fn(&Path) -> Command,
}

impl Program {
    /// Returns the command line for `database`.
    pub(super) fn command(&self, build: &Path, database: &Path) -> Command {
        let mut command = (self.start)(build);
        forget_tdekit(&mut command);
        command.arg(database);
        command
    }

    /// Returns the command line that opens `database`, and prints the driver's messages.
    pub(super) fn afresh(&self, build: &Path, database: &Path) -> Command {
        let mut command = (self.start)(build);
        forget_tdekit(&mut command);
        command.arg("--afresh").arg(database);
        command
    }
}

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "sqlite-shell",
        source: "sqlite-shell",
        prepare: |_| Ok(()),
        start: |_| {
            let mut command = Command::new("bash");
            command.arg(source("sqlite-shell").join("roundtrip.bash"));
            command
        },
    },
    Program {
        name: "python",
        source: "python",
        prepare: |_| Ok(()),
        // The distribution's own has `load_extension`; another one may lack it.
        start: |_| {
            let own = "/usr/bin/python3";
            python(if Path::new(own).is_file() { own } else { "python3" })
        },
    },
    Program {
        name: "python-ctypes",
        source: "python",
        prepare: |_| Ok(()),
        start: |_| {
            let mut command = python("python3");
            command.env("INTEROP_PYTHON_CTYPES", "1");
            command
        },
    },
    Program {
        name: "preload-shell",
        source: "sqlite-shell",
        prepare: |_| Ok(()),
        start: |_| {
            let mut command = Command::new("bash");
            command.env("INTEROP_PRELOAD", preload_path());
            command.arg(source("sqlite-shell").join("roundtrip.bash"));
            command
        },
    },
    Program {
        name: "preload-python",
        source: "python",
        prepare: |_| Ok(()),
        // A version from elsewhere, which may lack `load_extension`.
        start: |_| {
            let mut command = python("python3");
            command.env("LD_PRELOAD", preload_path());
            command
        },
    },
    Program {
        name: "preload-c",
        source: "preload-c",
        prepare: prepare_c,
        start: |build| {
            let mut command = Command::new(binary(build));
            command.env("LD_PRELOAD", preload_path());
            command
        },
    },
    Program { name: "node", source: "node", prepare: prepare_node, start: node },
    Program {
        name: "go",
        source: "go",
        prepare: prepare_go,
        start: |build| Command::new(binary(build)),
    },
    Program { name: "java", source: "java", prepare: prepare_java, start: java },
];

fn python(interpreter: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(source("python").join("roundtrip.py"));
    command
}

fn node(build: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(build.join("roundtrip.js"));
    command
}

/// Returns the program that a compiler builds.
pub(super) fn binary(build: &Path) -> PathBuf {
    build.join("roundtrip")
}

/// Links with the system's SQLite by the library's own name: the one for builds is in another
/// package.
fn prepare_c(build: &Path) -> Result<()> {
    copy_sources("preload-c", build)?;
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(binary(build));
    run(compile.args(["client.c", "-pthread", "-l:libsqlite3.so.0"]).current_dir(build))
}

fn prepare_go(build: &Path) -> Result<()> {
    build_go("go", build)
}

/// Compiles the program in the folder `name` to `roundtrip` in `build`.
pub(super) fn build_go(name: &str, build: &Path) -> Result<()> {
    std::fs::create_dir_all(build).with_context(|| format!("make {}", build.display()))?;
    let mut command = Command::new("go");
    command.args(["build", "-buildvcs=false", "-o"]).arg(binary(build)).arg(".");
    // A cgo compiler's warnings on SQLite's own source are not ours to fix.
    run(command.env("CGO_ENABLED", "1").env("CGO_CFLAGS", "-O2 -w").current_dir(source(name)))
}

fn java(build: &Path) -> Command {
    java_class(build, "Roundtrip")
}

/// Starts a class that [`crate::drivers::build_java`] compiled.
pub(super) fn java_class(build: &Path, class: &str) -> Command {
    let mut command = Command::new("java");
    let classes = [build.join("classes"), build.join("lib/*")].map(|path| path.into_os_string());
    command.arg("-classpath").arg(classes.join(":".as_ref())).arg(class);
    command
}
