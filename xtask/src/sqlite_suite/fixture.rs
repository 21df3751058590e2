//! `testfixture`, SQLite's own test program, and the `sqlite3` shell that its tests start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{output, run_quietly};

const SHIM: &str = include_str!("shim.c");
const LIST: &str = include_str!("list.tcl");
const CONFIGURE: &[&str] = &["--enable-all", "--disable-shared", "CFLAGS=-O2 -g"];
const INIT: &str = "-DSQLITE_EXTRA_INIT=tdekit_suite_init";
/// The features of the shell in SQLite's own build.
const SHELL_FEATURES: &[&str] = &[
    "-DSQLITE_THREADSAFE=1",
    "-DSQLITE_ENABLE_MATH_FUNCTIONS",
    "-DSQLITE_ENABLE_FTS4",
    "-DSQLITE_ENABLE_FTS5",
    "-DSQLITE_ENABLE_GEOPOLY",
    "-DSQLITE_ENABLE_RTREE",
    "-DSQLITE_ENABLE_SESSION",
    "-DSQLITE_ENABLE_PREUPDATE_HOOK",
    "-DSQLITE_ENABLE_EXPLAIN_COMMENTS",
    "-DSQLITE_ENABLE_UNKNOWN_SQL_FUNCTION",
    "-DSQLITE_ENABLE_STMTVTAB",
    "-DSQLITE_ENABLE_DBPAGE_VTAB",
    "-DSQLITE_ENABLE_DBSTAT_VTAB",
    "-DSQLITE_ENABLE_BYTECODE_VTAB",
    "-DSQLITE_ENABLE_OFFSET_SQL_FUNC",
    "-DSQLITE_HAVE_ZLIB=1",
];
const LIBRARIES: &[&str] = &["-lm", "-lz", "-ldl"];

/// The built programs, and the directory of the tests.
pub(super) struct Fixture {
    /// The test program.
    pub(super) program: PathBuf,
    /// The directory of `permutations.test`.
    pub(super) tests: PathBuf,
}

/// Builds both programs from `source` in `directory`; existing files of the same build are kept.
///
/// # Errors
/// When the source does not build.
pub(super) fn build(source: &Path, directory: &Path) -> Result<Fixture> {
    let source = source.canonicalize().context("find the source")?;
    let fixture = Fixture { program: directory.join("testfixture"), tests: source.join("test") };
    let stamp = directory.join("made-of");
    let made_of = format!("{}\n{CONFIGURE:?}\n{SHELL_FEATURES:?}\n{SHIM}", source.display());
    if fs::read_to_string(&stamp).is_ok_and(|text| text == made_of) {
        return Ok(fixture);
    }
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory)?;
    let here = |program: &Path| {
        let mut command = Command::new(program);
        command.current_dir(directory);
        command
    };
    run_quietly(here(&source.join("configure")).args(CONFIGURE))?;
    fs::write(directory.join("shim.c"), SHIM)?;
    run_quietly(here(Path::new("make")).args(["sqlite3.c", "sqlite3.h", "shell.c"]))?;
    let cc = Path::new("cc");
    run_quietly(here(cc).args(["-O2", "-g", "-I.", "-Wall", "-Werror", "-c", "shim.c"]))?;
    let shim = directory.join("shim.o");
    let libraries = format!("TLIBS={} {}", shim.display(), LIBRARIES.join(" "));
    let mut make = here(Path::new("make"));
    run_quietly(make.arg("testfixture").arg(format!("OPTS={INIT}")).arg(libraries))?;
    let mut shell = here(cc);
    shell.args(["-O2", "-g", "-I.", INIT]).args(SHELL_FEATURES);
    shell.args(["shell.c", "sqlite3.c", "shim.o", "-o", "sqlite3"]).args(LIBRARIES);
    run_quietly(&mut shell)?;
    fs::write(stamp, made_of)?;
    Ok(fixture)
}

impl Fixture {
    /// Returns the files of one of SQLite's own sets of tests, without their directories.
    ///
    /// # Errors
    /// When the test program does not run, or knows no such set.
    pub(super) fn files_of(&self, set: &str, scratch: &Path) -> Result<Vec<String>> {
        let script = scratch.join("list.tcl");
        fs::write(&script, LIST)?;
        let mut list = Command::new(&self.program);
        list.current_dir(scratch).arg(&script).arg(&self.tests).arg(set);
        let text = output(&mut list)?;
        let mark = format!("in\t{set}\t");
        let files: Vec<String> =
            text.lines().filter_map(|line| line.strip_prefix(&mark)).map(str::to_owned).collect();
        if files.is_empty() {
            bail!("SQLite's set of tests {set} is empty");
        }
        Ok(files)
    }
}
