//! `cargo xtask sqlite-suite`: SQLite's own tests with every database encrypted.
//!
//! The test program is built from the source of the distribution's package, with a shim that makes
//! the VFS the default each time SQLite starts; a key store of the run and `TDEKIT_ENCRYPT_NEW` do
//! the rest. docs/sqlite-suite.md explains the failures; `xtask/sqlite-suite-exceptions.txt` has
//! the same list for this program.

mod exceptions;
mod fixture;
mod run;
mod verdict;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::exceptions::{Exceptions, matches};
use self::fixture::Fixture;
use self::run::{Outcome, Surroundings, TestFile, is_plain, run_files};
use self::verdict::{Verdict, judge};
use crate::process::{output, root, target_dir};
use crate::shipped;

/// A file needed to build the tests; it represents the other files of their packages.
pub(crate) const TCL_HEADER: &str = "/usr/include/tcl/tcl.h";
pub(crate) const ZLIB_HEADER: &str = "/usr/include/zlib.h";
const EXCEPTIONS: &str = "xtask/sqlite-suite-exceptions.txt";
const PROBE: &str = include_str!("probe.tcl");
const CERTIFICATE: &str = "SuiteCert";
/// SQLite's own names of its sets: the one that runs before a check-in, and all tests.
const QUICK_SET: &str = "veryquick";
const FULL_SET: &str = "full";
const QUICK_LIMIT: Duration = Duration::from_mins(15);
const FULL_LIMIT: Duration = Duration::from_mins(90);
/// The part of the quick set about files, journals and locks.
const SHORT: &str = "attach* autovac* avtrans* backup* cache* chunksize* cksumvfs* corrupt* crash* \
    dbpage* exclusive* filectrl* incrblob* incrvac* interrupt* io.test journal* jrnlmode* lock* \
    memdb* memjournal* mmap* multiplex* nolock* pager* pagesize* reservebytes* rollback* \
    savepoint* shared* snapshot* superlock* sync* temp* trans* unixexcl* uri* vacuum* wal* \
    zerodamage*";

/// The files to run, and how.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Also what SQLite's own set "full" has and "veryquick" leaves out: hours.
    #[arg(long)]
    full: bool,
    /// Only what is about files, journals and locks.
    #[arg(long, conflicts_with = "full")]
    short: bool,
    /// Only files with such a name, such as 'wal*'; of all sets.
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["full", "short"])]
    only: Vec<String>,
    /// Without encryption: checks the suite itself.
    #[arg(long)]
    plain: bool,
    /// Print one JSON object, and a line for each file on the standard error.
    #[arg(long)]
    json: bool,
    /// Minutes after which a file that is listed as slow is stopped.
    #[arg(long, value_name = "MINUTES", default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(1..))]
    slow_minutes: u16,
    /// How many files run at the same time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
}

/// Runs the suite.
///
/// # Errors
/// When it cannot be built or run, or something fails that is not listed, or is listed and passes,
/// or crashes, or takes too long.
pub(crate) fn sqlite_suite(arguments: &Arguments) -> Result<()> {
    let list = fs::read_to_string(root().join(EXCEPTIONS)).context("read the exceptions")?;
    let list = Exceptions::read(&list).with_context(|| EXCEPTIONS.to_owned())?;
    let list = if arguments.plain { list.of_stock() } else { list };
    for header in [TCL_HEADER, ZLIB_HEADER] {
        if !Path::new(header).is_file() {
            bail!("{header} is missing: `cargo xtask setup` installs what the suite needs");
        }
    }
    let base = target_dir().join("sqlite-suite");
    fs::create_dir_all(&base)?;
    let fixture = fixture::build(&tdekit_sqlite_source::fetch(&base)?, &base.join("build"))?;
    let surroundings = surroundings(&base.join("run"), arguments.plain)?;
    probe(&fixture, &surroundings, arguments.plain)?;
    let (files, not_run) = choose(&fixture, &surroundings, arguments, &list)?;
    let outcomes = run_files(&fixture, &surroundings, &files, usize::from(arguments.jobs), tell)?;
    let verdict = judge(&outcomes, not_run, &list);
    if arguments.json {
        let of_files: Vec<_> = outcomes.iter().filter(|o| !o.is_clean()).collect();
        println!("{}", serde_json::json!({ "verdict": verdict, "not_clean": of_files }));
    } else {
        print(&verdict);
    }
    let logs = surroundings.logs.display();
    match verdict.unexpected.len() {
        0 => Ok(()),
        count => bail!("{count} not as expected; what the tests printed is in {logs}"),
    }
}

/// Returns the files to run, in the order of SQLite's own sets, and those that are not run, each
/// with its reason.
fn choose(
    fixture: &Fixture,
    surroundings: &Surroundings,
    arguments: &Arguments,
    list: &Exceptions,
) -> Result<(Vec<TestFile>, BTreeMap<String, String>)> {
    let quick = fixture.files_of(QUICK_SET, &surroundings.work)?;
    let mut rest = fixture.files_of(FULL_SET, &surroundings.work)?;
    rest.retain(|name| !quick.contains(name));
    let all: Vec<String> = quick.iter().chain(&rest).cloned().collect();
    if let [name, ..] = list.unknown(&all).as_slice() {
        bail!("{EXCEPTIONS}: SQLite has no test file {name}");
    }
    let slow_limit = Duration::from_mins(u64::from(arguments.slow_minutes));
    let file = |set, limit| {
        move |name: String| {
            let limit = if list.is_slow(&name) { slow_limit } else { limit };
            TestFile { name, set, limit }
        }
    };
    let mut files: Vec<_> = quick.into_iter().map(file(QUICK_SET, QUICK_LIMIT)).collect();
    if arguments.full || !arguments.only.is_empty() {
        files.extend(rest.into_iter().map(file(FULL_SET, FULL_LIMIT)));
    }
    let patterns: Vec<&str> = match arguments.short {
        true => SHORT.split_whitespace().collect(),
        false => arguments.only.iter().map(String::as_str).collect(),
    };
    if !patterns.is_empty() {
        files.retain(|file| patterns.iter().any(|pattern| matches(pattern, &file.name)));
    }
    if files.is_empty() {
        bail!("no test file has such a name");
    }
    let not_run: BTreeMap<_, _> = files
        .iter()
        .filter_map(|file| Some((file.name.clone(), list.not_run(&file.name)?.to_owned())))
        .collect();
    files.retain(|file| !not_run.contains_key(&file.name));
    if files.is_empty() {
        bail!("no test file with such a name is run: {EXCEPTIONS} has the reason");
    }
    Ok((files, not_run))
}

/// Creates a directory with a key store, and the variables with which all new databases are
/// encrypted.
fn surroundings(base: &Path, plain: bool) -> Result<Surroundings> {
    if base.exists() {
        fs::remove_dir_all(base).context("remove the last run's files")?;
    }
    let (work, logs) = (base.join("work"), base.join("logs"));
    fs::create_dir_all(&work)?;
    fs::create_dir_all(&logs)?;
    let user = other_user()?;
    let mut variables = Vec::new();
    if !plain {
        let (extension, command) = programs()?;
        let (home, key_file) = (base.join("home"), base.join("key"));
        let tdekit = |words: &[&str]| {
            let mut command = Command::new(&command);
            command.env("TDEKIT_HOME", &home).arg("--key-file").arg(&key_file).args(words);
            output(&mut command)
        };
        tdekit(&["key", "init", "--generate-key-file"])?;
        tdekit(&["cert", "create", CERTIFICATE])?;
        if let Some((user, group)) = user {
            let mut chown = Command::new("chown");
            output(chown.args(["-R", &format!("{user}:{group}")]).args([&home, &key_file]))?;
        }
        let variable = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
        variables.extend([
            variable("TDEKIT_SUITE_EXTENSION", &extension),
            variable("TDEKIT_HOME", &home),
            variable("TDEKIT_KEY_FILE", &key_file),
            ("TDEKIT_ENCRYPT_NEW".to_owned(), CERTIFICATE.to_owned()),
        ]);
    }
    Ok(Surroundings { variables, user, work, logs })
}

/// Returns the extension and the command: those in `TDEKIT_EXTENSION` and `TDEKIT_COMMAND`, else
/// the release build, which is created.
fn programs() -> Result<(PathBuf, PathBuf)> {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    match (named("TDEKIT_EXTENSION"), named("TDEKIT_COMMAND")) {
        (Some(extension), Some(command)) => Ok((extension, command)),
        (extension, command) => {
            shipped::use_built(None)?;
            let extension = extension.unwrap_or_else(shipped::extension_path);
            Ok((extension, command.unwrap_or_else(shipped::command_path)))
        }
    }
}

/// Returns the user for the tests if we are root: they refuse root, to which no permissions apply.
fn other_user() -> Result<Option<(u32, u32)>> {
    let id =
        |words: &[&str]| -> Result<u32> { Ok(output(Command::new("id").args(words))?.parse()?) };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    Ok(Some((id(&["-u", "nobody"])?, id(&["-g", "nobody"])?)))
}

/// Checks that databases are created as requested: a suite that runs plain would pass.
fn probe(fixture: &Fixture, surroundings: &Surroundings, plain: bool) -> Result<()> {
    let directory = surroundings.work.join("probe");
    let log = surroundings.logs.join("probe.log");
    let script = surroundings.work.join("probe.tcl");
    fs::write(&script, PROBE)?;
    let mut command = Command::new(&fixture.program);
    let ended = surroundings.run(command.arg(&script), &directory, &log, QUICK_LIMIT)?;
    if !ended.is_some_and(|status| status.success()) {
        bail!("the test program does not run: {}", fs::read_to_string(&log)?.trim());
    }
    for name in ["first.db", "second.db"] {
        if is_plain(&directory.join(name)) != plain {
            bail!("the test program makes {name} {}", if plain { "encrypted" } else { "plain" });
        }
    }
    Ok(fs::remove_dir_all(directory)?)
}

fn tell(outcome: &Outcome) {
    if let Some(broken) = &outcome.broken {
        eprintln!("{}: {broken:?}", outcome.file);
    } else if !outcome.is_clean() {
        let names: Vec<_> = outcome.failed.iter().take(8).map(String::as_str).collect();
        let count = outcome.failed.len();
        eprintln!("{}: {count} of {}: {}", outcome.file, outcome.tests, names.join(" "));
    }
}

fn print(verdict: &Verdict) {
    for line in &verdict.unexpected {
        println!("{line}");
    }
    for (reason, files) in &verdict.files_by_reason {
        println!("{files} files fail as listed: {reason}");
    }
    for (file, reason) in &verdict.not_run {
        println!("{file} is not run: {reason}");
    }
    for (file, tests) in &verdict.stopped {
        println!("{file} was stopped before its end, after {tests} tests");
    }
    println!(
        "{} files, {} clean as they are; {} tests, {} failed; {} not as expected; {} files left \
         a plain database",
        verdict.files,
        verdict.clean,
        verdict.tests,
        verdict.failures,
        verdict.unexpected.len(),
        verdict.plain
    );
}
