//! The crates' own tests: built once, run by package. Test programs run two at a time: each has
//! phases in which it waits for a disk, a clock or its last test.
//!
//! `cargo-nextest` would run one process for each test. Suites whose tests share a server or a
//! recording would recreate it for each, and compiling nextest takes longer than the tests of a
//! plane.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

use crate::plane::{directory_of, workspace};
use crate::process::{cargo, kill_tree, root, shown, target_dir};
use crate::s3_server::S3Server;
use crate::tally::Tally;
use crate::times::Times;

/// Test programs that run side by side; each runs as many tests as there are processors, the
/// longest one more.
const LANES: usize = 2;
/// Packages with the longest tests: they begin first, so that no lane waits for one at the end.
const LONGEST: [&str; 4] =
    ["tdekit", "tdekit-faults-mariadb", "tdekit-faults-sqlite", "tdekit-bench-run"];

/// The package whose tests run a second time with the system's SQLite: commits were lost there that
/// the bundled one, which is newer, kept.
const ON_BOTH_LIBRARIES: &str = "tdekit-faults-sqlite";
/// The variable for its library, and the system's library.
const SYSTEM_LIBRARY: (&str, &str) = ("TDEKIT_FAULTS_SQLITE", "libsqlite3.so.0");
/// Tests that the short form runs with the system's; savepoints and statements do so by themselves.
const SHORT_ON_SYSTEM: [&str; 2] = ["crash::tdekit_", "kill::"];

/// Extent of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A few minutes for everything: sampled crashes, kills, flips.
    Short,
    /// With the tests that the short form ignores, and `TDEKIT_FULL` for those with more cases.
    Full,
}

impl Form {
    /// Time without output after which a test counts as hanging: it is killed, and is a failure.
    /// The longest tests of the full form write for ten minutes before they check what they wrote.
    fn silence_limit(self) -> Duration {
        match self {
            Self::Short => Duration::from_mins(10),
            Self::Full => Duration::from_mins(25),
        }
    }
}

/// The workspace's programs and test programs, compiled for tests.
pub(crate) struct TestBuild {
    programs: Vec<Program>,
}

/// A test program, and its package.
struct Program {
    file: PathBuf,
    package: String,
    /// The package's directory.
    directory: PathBuf,
    /// True with the system's SQLite.
    on_system: bool,
}

impl TestBuild {
    /// Compiles everything: libraries, programs, test programs, and the examples that some of them
    /// use.
    ///
    /// # Errors
    /// When something does not compile.
    pub(crate) fn whole() -> Result<Self> {
        let mut build = cargo();
        build.args(["build", "--workspace", "--lib", "--bins", "--tests", "--examples"]);
        eprintln!("$ {}", shown(&build));
        build.arg("--message-format=json-render-diagnostics");
        let mut child = build.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("a piped child has no standard output")?;
        let names = workspace()?;
        let mut programs = Vec::new();
        for message in Message::parse_stream(BufReader::new(stdout)) {
            let Message::CompilerArtifact(artifact) = message? else { continue };
            let package = names.iter().find(|each| each.id == artifact.package_id);
            if let (Some(file), Some(package), true) =
                (artifact.executable, package, artifact.profile.test)
            {
                let program = |on_system| Program {
                    file: file.clone().into(),
                    package: package.name.to_string(),
                    directory: root().join(directory_of(package)),
                    on_system,
                };
                programs.push(program(false));
                if package.name == ON_BOTH_LIBRARIES && artifact.target.is_test() {
                    programs.push(program(true));
                }
            }
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("`{}` failed: {status}", shown(&build));
        }
        if programs.is_empty() {
            bail!("`{}` built no test program", shown(&build));
        }
        programs.sort_by_key(Program::turn);
        Ok(Self { programs })
    }

    /// Returns the directory of the programs and libraries.
    pub(crate) fn directory(&self) -> PathBuf {
        target_dir().join("debug")
    }

    /// Runs the tests of `packages`, shows their output, and counts them; the duration of each
    /// program goes to `times`. Tests that need a server are skipped without one, but fail in CI.
    ///
    /// # Errors
    /// When a program cannot be started or its output cannot be read. Failing tests are not an
    /// error here.
    pub(crate) fn run(
        &self,
        packages: &[String],
        form: Form,
        server: Option<&S3Server>,
        times: &mut Times,
    ) -> Result<Tally> {
        let chosen = self.programs.iter().filter(|each| packages.contains(&each.package));
        let queue = Mutex::new(chosen);
        let total = Mutex::new((Tally::default(), times));
        let lane = || -> Result<()> {
            loop {
                let next = queue.lock().ok().and_then(|mut queue| queue.next());
                let Some(program) = next else { return Ok(()) };
                let mut command = program.command(form, server);
                // Buffered, so that one program's lines stay together.
                let mut said = format!("$ {}\n", shown(&command)).into_bytes();
                let begun = Instant::now();
                let tally = run_counted(&mut command, form.silence_limit(), &mut said)?;
                if let Ok(mut total) = total.lock() {
                    std::io::stdout().write_all(&said)?;
                    total.0.add(tally);
                    total.1.add(program.name(), begun.elapsed());
                }
            }
        };
        std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
            lanes.into_iter().try_for_each(|lane| match lane.join() {
                Ok(result) => result,
                Err(_) => bail!("a lane of tests panicked"),
            })
        })?;
        let (tally, _) = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(tally)
    }
}

impl Program {
    /// The order in which they run; the order in which they are built varies.
    fn turn(&self) -> (usize, bool, String, PathBuf) {
        let rank = LONGEST.iter().position(|name| *name == self.package);
        let rank = rank.unwrap_or(LONGEST.len());
        (rank, self.on_system, self.package.clone(), self.file.clone())
    }

    /// Returns its package, and its name without cargo's hash.
    fn name(&self) -> String {
        let file = self.file.file_name().unwrap_or_default().to_string_lossy();
        let name = file.rsplit_once('-').map_or(file.as_ref(), |(name, _)| name);
        let with = if self.on_system { " with the system's SQLite" } else { "" };
        format!("{} {name}{with}", self.package)
    }

    /// Runs it as `cargo test` would.
    fn command(&self, form: Form, server: Option<&S3Server>) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        if let Some(server) = server {
            command.envs(server.environment());
        }
        // Its tests wait for processes that they start.
        if self.package == LONGEST[0] {
            let threads = std::thread::available_parallelism().map_or(2, usize::from) + 1;
            command.arg(format!("--test-threads={threads}"));
        }
        if form == Form::Full {
            command.arg("--include-ignored").env("TDEKIT_FULL", "1");
        }
        if self.on_system {
            let (variable, library) = SYSTEM_LIBRARY;
            command.env(variable, library);
            if form == Form::Short {
                command.args(SHORT_ON_SYSTEM);
            }
        }
        command
    }
}

fn run_counted(
    command: &mut Command,
    silence_limit: Duration,
    shown_on: &mut impl Write,
) -> Result<Tally> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    let stdout = child.stdout.take().context("a piped child has no standard output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n') {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut tally = Tally::default();
    let mut last = String::new();
    loop {
        match lines.recv_timeout(silence_limit) {
            Ok(line) => {
                last = String::from_utf8_lossy(&line?).into_owned();
                writeln!(shown_on, "{last}")?;
                tally.add_line(&last);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill_tree(child.id());
                let minutes = silence_limit.as_secs() / 60;
                tally.failures.push(format!("silent for {minutes} minutes after: {last}"));
                break;
            }
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failures.is_empty() {
        // A test that does not compile, or a crashed test program, prints no line itself.
        tally.failures.push(format!("`{}`: {status}", shown(command)));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_form_runs_what_the_short_one_ignores() {
        let program = |form| {
            let [file, directory] = ["a-0", "."].map(PathBuf::from);
            let package = "a".to_owned();
            Program { file, package, directory, on_system: false }.command(form, None)
        };
        assert_eq!(program(Form::Full).get_args().count(), 1);
        assert_eq!(program(Form::Short).get_args().count(), 0);
    }

    fn counted(script: &str) -> Tally {
        let limit = Duration::from_secs(2);
        run_counted(Command::new("sh").args(["-c", script]), limit, &mut std::io::sink()).unwrap()
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let tally = counted("echo 'test a ... ok'; exit 101");
        assert_eq!((tally.passed, tally.failures.len()), (1, 1));
    }

    #[test]
    fn a_failed_test_counts_once() {
        let tally = counted("echo 'test a ... FAILED'; echo 'test b ... ok'; exit 101");
        assert_eq!((tally.passed, tally.failures.as_slice()), (1, &["a".to_owned()][..]));
    }

    #[test]
    fn what_hangs_is_killed_with_its_children() {
        let begun = std::time::Instant::now();
        let tally = counted("echo 'test a ... ok'; sh -c 'sleep 600; true'; true");
        assert_eq!(tally.passed, 1);
        assert!(tally.failures[0].contains("test a ... ok"), "{:?}", tally.failures);
        assert!(begun.elapsed() < Duration::from_mins(1));
    }
}
