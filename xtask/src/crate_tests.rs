//! The crates' own tests. Test programs run two at a time: each has stretches in which it waits for
//! a disk, a clock or its last test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;

use crate::plane::Plane;
use crate::process::{cargo, kill_tree, root, shown};
use crate::s3_server::S3Server;
use crate::tally::Tally;

/// A test that prints nothing for so long hangs: it is killed, and is a failure.
const SILENCE_LIMIT: Duration = Duration::from_mins(10);
/// Test programs that run side by side; each runs as many tests as there are processors.
const LANES: usize = 2;

/// Runs the tests of every package, shows their output, and counts them. Tests that need a server
/// are skipped without one, but fail in CI.
///
/// # Errors
/// When a test cannot be compiled, a program cannot be started or its output cannot be read.
/// Failing tests are no error here.
pub(crate) fn cargo_test(server: Option<&S3Server>) -> Result<Tally> {
    test_of(&["--workspace"], server)
}

/// Runs the tests of one plane's packages. Those that need a server pass over it.
///
/// # Errors
/// As [`cargo_test`].
pub(crate) fn cargo_test_of(plane: Plane) -> Result<Tally> {
    let packages: Vec<_> = plane.packages().iter().flat_map(|package| ["-p", package]).collect();
    test_of(&packages, None)
}

fn test_of(packages: &[&str], server: Option<&S3Server>) -> Result<Tally> {
    let with_server = |command: &mut Command| {
        if let Some(server) = server {
            command.envs(server.environment());
        }
    };
    let built = Built::of(packages)?;
    let queue = Mutex::new(built.programs.iter());
    let total = Mutex::new(Tally::default());
    let lane = || -> Result<()> {
        loop {
            let next = queue.lock().ok().and_then(|mut queue| queue.next());
            let Some(program) = next else { return Ok(()) };
            let mut command = program.command();
            with_server(&mut command);
            // Kept, so that one program's lines stay together.
            let mut said = format!("$ {}\n", shown(&command)).into_bytes();
            let tally = run_counted(&mut command, SILENCE_LIMIT, &mut said)?;
            if let Ok(mut total) = total.lock() {
                std::io::stdout().write_all(&said)?;
                total.add(tally);
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
    let mut tally = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if built.documented {
        let mut command = cargo();
        command.args(["test", "--no-fail-fast", "--doc"]).args(packages);
        with_server(&mut command);
        eprintln!("$ {}", shown(&command));
        tally.add(run_counted(&mut command, SILENCE_LIMIT, &mut std::io::stdout())?);
    }
    Ok(tally)
}

/// What `cargo test --no-run` built.
struct Built {
    programs: Vec<Program>,
    /// Whether a library's documentation may hold tests.
    documented: bool,
}

/// A test program, and its package's directory.
struct Program {
    file: PathBuf,
    package: PathBuf,
}

impl Built {
    fn of(packages: &[&str]) -> Result<Self> {
        let mut build = cargo();
        build.args(["test", "--no-run", "--quiet"]).args(packages);
        eprintln!("$ {}", shown(&build));
        build.arg("--message-format=json-render-diagnostics");
        let mut child = build.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("a piped child has no standard output")?;
        let mut built = Self { programs: Vec::new(), documented: false };
        for message in Message::parse_stream(BufReader::new(stdout)) {
            let Message::CompilerArtifact(artifact) = message? else { continue };
            built.documented |= artifact.target.doctest && is_ours(artifact.manifest_path.as_ref());
            let package = artifact.manifest_path.parent().map(|dir| dir.as_std_path().to_owned());
            if let (Some(file), Some(package), true) =
                (artifact.executable, package, artifact.profile.test)
            {
                built.programs.push(Program { file: file.into(), package });
            }
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("`{}` failed: {status}", shown(&build));
        }
        if built.programs.is_empty() {
            bail!("`{}` built no test program", shown(&build));
        }
        // The order in which they are built changes from run to run.
        built.programs.sort_by(|a, b| (&a.package, &a.file).cmp(&(&b.package, &b.file)));
        Ok(built)
    }
}

fn is_ours(manifest: &Path) -> bool {
    manifest.starts_with(root())
}

impl Program {
    /// Runs it as `cargo test` would.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
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
        // A test that does not compile, or a test program that died, prints no line of its own.
        tally.failures.push(format!("`{}`: {status}", shown(command)));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_of_the_packages_asked_for() {
        let built = Built::of(&["-p", "tdekit-system-use"]).unwrap();
        assert!(!built.programs.is_empty());
        let package = root().join("crates/bench/use");
        assert!(built.programs.iter().all(|program| program.package == package));
        assert!(built.documented);
        let listed = built.programs[0].command().arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains(": test"));
        assert!(Built::of(&["-p", "no-such-package"]).is_err());
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
