//! Shared by the tests of the program.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tdekit_bench_report::{Results, from_json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tdekit-bench");

/// A directory for copies and reports, base against base with the bundled library, so that only
/// SQLite is needed.
pub(crate) struct Place {
    pub(crate) directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("copies")).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the program with the words of a line, and no command to measure.
    pub(crate) fn bare(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(line.split_whitespace())
            .env("TDEKIT_COMMAND", "")
            .env("TDEKIT_EXTENSION", "")
            .current_dir(self.directory.path())
            // Sockets of running tests: those of this place alone.
            .env("XDG_RUNTIME_DIR", self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// With the bundled library, copies and reports in this place.
    pub(crate) fn library(&self, line: &str) -> Command {
        let mut command = self.bare("--sqlite-library bundled --dir");
        command.arg(self.path("copies")).args(line.split_whitespace());
        command
    }

    /// Base against base.
    pub(crate) fn command(&self, line: &str) -> Command {
        self.library(&format!("--aa {line}"))
    }

    pub(crate) fn results(&self) -> Results {
        from_json(&std::fs::read_to_string(self.path("results.json")).unwrap()).unwrap()
    }

    /// Returns the results of a run that did not complete, after checks that the page marks it, and
    /// that the copies are removed.
    pub(crate) fn partial(&self, reason: &str) -> Results {
        let results = self.results();
        let [found] = results.incomplete.as_slice() else { panic!("{:?}", results.incomplete) };
        assert!(found.contains(reason), "{found}");
        let page = std::fs::read_to_string(self.path("report.html")).unwrap();
        assert!(page.contains("Incomplete: "));
        assert_eq!(self.names("copies"), Vec::<String>::new());
        results
    }

    /// Returns the names in a directory, with `TIME` in place of a run's time.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let of_time = |name: String| match name.split_once("-20") {
            Some((begin, end)) => {
                let extension = end.rsplit('.').next().unwrap_or_default();
                format!("{begin}-TIME.{extension}")
            }
            None => name,
        };
        let mut names: Vec<String> = std::fs::read_dir(self.path(name))
            .unwrap()
            .map(|entry| of_time(entry.unwrap().file_name().into_string().unwrap()))
            .collect();
        names.sort();
        names
    }

    /// Waits until the first restart has begun and some blocks have run.
    pub(crate) fn wait_for_blocks(&self) {
        wait_until("the run does not begin", || self.find_restart());
        std::thread::sleep(Duration::from_secs(2));
    }

    fn find_restart(&self) -> bool {
        self.names("copies").iter().any(|run| {
            std::fs::read_dir(self.path("copies").join(run)).is_ok_and(|entries| {
                entries
                    .flatten()
                    .any(|entry| entry.file_name().to_string_lossy().starts_with("restart-"))
            })
        })
    }
}

/// Waits, for one minute at most.
#[track_caller]
pub(crate) fn wait_until(reproach: &str, mut fits: impl FnMut() -> bool) {
    let start = Instant::now();
    while !fits() {
        assert!(start.elapsed() < Duration::from_secs(60), "{reproach}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the output of a command that succeeds without a message. A loaded machine gets a line of
/// progress every 30 s, but no bar.
#[track_caller]
pub(crate) fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (printed, errors) = text(&output);
    assert!(output.status.success(), "{errors}");
    let is_message = |line: &str| {
        ["error:", "warning:", "note:", "hint:"].iter().any(|kind| line.starts_with(kind))
    };
    assert!(!errors.lines().any(is_message), "{errors}");
    assert!(!errors.contains(['\r', '\u{1b}']), "no bar when piped: {errors}");
    printed
}

/// Returns the errors of a command that fails.
pub(crate) fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = text(&output).1;
    assert!(matches!(output.status.code(), Some(1 | 7)), "{errors}");
    errors
}

pub(crate) fn text(output: &Output) -> (String, String) {
    (
        String::from_utf8(output.stdout.clone()).unwrap(),
        String::from_utf8(output.stderr.clone()).unwrap(),
    )
}

/// Returns the results document in a report page.
pub(crate) fn embedded(page: &Path) -> Results {
    let page = std::fs::read_to_string(page).unwrap();
    let mark = "id=\"results\">";
    let start = page.find(mark).unwrap() + mark.len();
    let end = start + page[start..].find("</script>").unwrap();
    from_json(&page[start..end]).unwrap()
}

/// Arguments of a run that continues until it is disturbed.
pub(crate) const ENDLESS: &str =
    "--experiment crud --mix 4/3/3 --rows 500 --processes 2 --loops 20 --pairs 1000";

pub(crate) fn signal(process: i32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Ends a process when a test is over, however it ends.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may already have ended, as expected.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}
