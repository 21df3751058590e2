//! SQLite's own `speedtest1`, an independent workload, on every side.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::error::{BenchError, Result};
use crate::job::RunSpec;
use crate::key_store::KeyEnvironment;
use crate::peers::cache_directory;
use crate::private;

/// The program: loads a library, then the object.
const LOADER: &str = include_str!("load.c");
/// Our part of the object.
const RUNNER: &str = include_str!("runner.c");
/// Name of the program, and of the object beside it.
const PROGRAM: &str = "run";
const OBJECT: &str = "speedtest1.so";
/// Start of a plain SQLite database.
const PLAIN_MAGIC: &[u8] = b"SQLite format 3\0";

/// A setting of `speedtest1`: name, its arguments, its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) label: &'static str,
    arguments: &'static [&'static str],
}

/// A transaction fits into SQLite's cache in the first and the third, and does not in the others.
pub(crate) const ROWS: [Row; 4] = [
    Row { id: "rollback", label: "rollback journal", arguments: &[] },
    Row {
        id: "rollback-200",
        label: "rollback journal, 200 pages of cache",
        arguments: &["--cachesize", "200"],
    },
    Row { id: "wal", label: "WAL", arguments: &["--journal", "wal"] },
    Row {
        id: "wal-200",
        label: "WAL, 200 pages of cache",
        arguments: &["--journal", "wal", "--cachesize", "200"],
    },
];

/// How a side runs it: library, extension, statements for each connection, and its keys.
pub(crate) struct Stack<'a> {
    pub(crate) library: &'a Path,
    pub(crate) extension: Option<&'a Path>,
    pub(crate) on_open: String,
    pub(crate) environment: KeyEnvironment,
}

/// Returns the program, which is built from the source of the distribution's package if necessary.
///
/// # Errors
/// If the source is unavailable, or does not compile.
pub(crate) fn program() -> Result<PathBuf> {
    let base = cache_directory()?.join("speedtest1");
    private::make(&base)?;
    let source = tdekit_sqlite_source::fetch(&base).map_err(|error| BenchError::Option {
        option: "--experiment speedtest1",
        reason: error.to_string(),
    })?;
    let mut named = source.file_name().map(ToOwned::to_owned).unwrap_or_default();
    named.push("-built");
    let directory = base.join(named);
    if directory.is_dir() {
        return Ok(directory.join(PROGRAM));
    }
    let work = tempfile::tempdir_in(&base)
        .map_err(BenchError::file("cannot create a directory in", &base))?;
    let write = |name: &str, text: &str| {
        let path = work.path().join(name);
        std::fs::write(&path, text).map_err(BenchError::file("cannot write", &path))?;
        Ok::<_, BenchError>(path)
    };
    write("sqlite3.h", &header(&read(&source.join("src/sqlite.h.in"))?))?;
    let (runner, loader) = (write("runner.c", RUNNER)?, write("load.c", LOADER)?);
    let built = work.path().join("built");
    private::make(&built)?;
    run(compiler(work.path())
        .args(["-fPIC", "-shared", "-Dmain=speedtest1_main"])
        .args([&source.join("test/speedtest1.c"), &runner])
        .arg("-o")
        .arg(built.join(OBJECT)))?;
    run(compiler(work.path()).arg(&loader).arg("-o").arg(built.join(PROGRAM)).arg("-ldl"))?;
    std::fs::rename(&built, &directory).map_err(BenchError::file("cannot move to", &directory))?;
    Ok(directory.join(PROGRAM))
}

fn compiler(include: &Path) -> Command {
    let mut command = Command::new("cc");
    command.args(["-O2", "-w", "-I"]).arg(include);
    command
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(BenchError::file("cannot read", path))
}

/// Returns SQLite's interface from its source, before its version is filled in; the version does
/// not matter to a program that takes any library.
fn header(template: &str) -> String {
    template
        .replace("--VERS--", "3")
        .replace("--VERSION-NUMBER--", "3040000")
        .replace("--SOURCE-ID--", "source")
}

/// One run of a row on a new database at `database`. `quiet` is an empty directory: within the
/// measured time, only the syncs of `speedtest1` itself write to the device.
pub(crate) fn spec(
    program: &Path,
    stack: &Stack<'_>,
    row: Row,
    (size, page_size_bytes): (u32, u32),
    (database, quiet): (&Path, &Path),
) -> RunSpec {
    let mut arguments: Vec<OsString> = vec![
        program.with_file_name(OBJECT).into(),
        stack.library.into(),
        stack.extension.map_or_else(OsString::new, Into::into),
        stack.on_open.clone().into(),
    ];
    let sizes = [("--size", size), ("--pagesize", page_size_bytes)];
    arguments.extend(sizes.iter().flat_map(|(name, n)| [(*name).into(), n.to_string().into()]));
    arguments.extend(row.arguments.iter().map(Into::into));
    arguments.push(database.into());
    RunSpec {
        program: program.to_owned(),
        arguments,
        environment: stack.environment.clone(),
        drop_cached: Vec::new(),
        output: quiet.to_owned(),
    }
}

/// Fails if a side that encrypts left a plain database, or one that does not left none.
pub(crate) fn check(database: &Path, encrypts: bool) -> Result<()> {
    let mut start = Vec::new();
    std::fs::File::open(database)
        .and_then(|file| file.take(PLAIN_MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(BenchError::file("speedtest1 left no database at", database))?;
    if (start == PLAIN_MAGIC) == encrypts {
        let detail = if encrypts { "is plain" } else { "is not plain" };
        let what = "the database that speedtest1 made".to_owned();
        return Err(BenchError::Mismatch { what, detail: detail.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_told_by_its_arguments() {
        let stack = Stack {
            library: Path::new("libsqlite3.so.0"),
            extension: None,
            on_open: "PRAGMA key = 'k'".to_owned(),
            environment: Vec::new(),
        };
        let paths = (Path::new("/d/x.db"), Path::new("/d/quiet"));
        let spec = spec(Path::new("/built/run"), &stack, ROWS[3], (60, 4096), paths);
        let words: Vec<_> = spec.arguments.iter().map(|word| word.to_string_lossy()).collect();
        let wanted = "/built/speedtest1.so|libsqlite3.so.0||PRAGMA key = 'k'|--size|60|\
                      --pagesize|4096|--journal|wal|--cachesize|200|/d/x.db";
        assert_eq!(words.join("|"), wanted);
    }

    #[test]
    fn a_plain_database_of_a_side_that_encrypts_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        assert!(check(&path, false).is_err());
        std::fs::write(&path, PLAIN_MAGIC).unwrap();
        assert!(check(&path, false).is_ok() && check(&path, true).is_err());
        std::fs::write(&path, "sealed").unwrap();
        assert!(check(&path, true).is_ok() && check(&path, false).is_err());
    }

    #[test]
    fn the_header_has_no_placeholder() {
        let template = "#define SQLITE_VERSION \"--VERS--\"\n#define N --VERSION-NUMBER--\n";
        assert_eq!(header(template), "#define SQLITE_VERSION \"3\"\n#define N 3040000\n");
    }
}
