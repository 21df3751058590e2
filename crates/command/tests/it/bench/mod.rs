//! A bench of the command, in a separate directory.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

use crate::common::{Place, Run};

/// The mixes, at a small size.
pub const SMALL: [&str; 10] = [
    "--experiment",
    "crud",
    "--mix",
    "4/3/3",
    "--rows",
    "300",
    "--processes",
    "2",
    "--loops",
    "20",
];

/// Copies go to `copies`; reports and sockets are in the directory itself.
pub struct Bench {
    place: Place,
    library: &'static str,
}

impl Bench {
    pub fn new() -> Self {
        let mut place = Place::empty();
        fs::create_dir(place.path("copies")).unwrap();
        place.set("TDEKIT_EXTENSION", extension().to_str().unwrap());
        let sockets = place.path("").to_str().unwrap().to_owned();
        place.set("XDG_RUNTIME_DIR", &sockets);
        Self { place, library: "bundled" }
    }

    /// With the machine's own SQLite, and programs that are built once for all runs of the tests.
    pub fn with_system_library() -> Self {
        let mut bench = Self { library: "system", ..Self::new() };
        bench.place.set("TDEKIT_PEERS", env!("CARGO_TARGET_TMPDIR"));
        bench.place.set("PATH", &std::env::var("PATH").unwrap());
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    pub fn set(&mut self, name: &'static str, value: &str) {
        self.place.set(name, value);
    }

    /// Returns the place of the run, for other commands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Makes a small database of the user's; returns its bytes.
    pub fn app(&self) -> Vec<u8> {
        Connection::open(self.path("app.db"))
            .unwrap()
            .execute_batch(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, n INTEGER);
                 CREATE INDEX t_n ON t(n);
                 WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 1000)
                 INSERT INTO t SELECT i, hex(randomblob(20)), i % 100 FROM c;",
            )
            .unwrap();
        fs::read(self.path("app.db")).unwrap()
    }

    /// Runs a bench that measures. A comparison or an order does not.
    pub fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.place.command(["bench"]);
        let words: Vec<S> = words.into_iter().collect();
        let beside = ["compare", "--control"].map(OsStr::new);
        if !words.first().is_some_and(|word| beside.contains(&word.as_ref())) {
            command.args(["--sqlite-library", self.library, "--dir", "copies"]);
        }
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn ok<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Run {
        let run = Run::of(&self.command(words).output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        run
    }

    /// Returns the error of a bench that must fail, for a file's fault with a code of its own.
    pub fn fails<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> String {
        let run = Run::of(&self.command(words).output().unwrap());
        assert!([1, 7].contains(&run.code) && run.err.contains("error: "), "{run:?}");
        run.err
    }

    pub fn start<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Running {
        Running(self.command(words).spawn().unwrap())
    }

    pub fn results(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("results.json")).unwrap()).unwrap()
    }

    /// Returns the results of a run that ended early for `reason`: kept, marked, shown; and nothing
    /// else is left.
    pub fn partial(&self, reason: &str) -> Value {
        let results = self.results();
        let [found] = results["incomplete"].as_array().unwrap().as_slice() else {
            panic!("{}", results["incomplete"])
        };
        assert!(found.as_str().unwrap().contains(reason), "{found}");
        assert!(whole_blocks(&results).count() >= 2);
        let page = fs::read_to_string(self.path("report.html")).unwrap();
        assert!(page.contains("Incomplete: "));
        assert_eq!(fs::read_dir(self.path("copies")).unwrap().count(), 0, "copies are left");
        results
    }

    /// Returns the number of blocks of a class and side.
    pub fn blocks(&self, results: &Value, class: &str, side: &str) -> usize {
        whole_blocks(results)
            .filter(|found| found["cell"] == class && found["side"] == side)
            .count()
    }

    /// Waits until the first pair of blocks is whole.
    pub fn wait_for_blocks(&self) {
        wait_until("the run does not begin", || {
            let told = Run::of(&self.command(["--control", "status"]).output().unwrap()).out;
            let pair = told
                .split_once(", pair ")
                .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
            std::thread::sleep(Duration::from_millis(100));
            pair.and_then(|number| number.parse().ok()).is_some_and(|number: u32| number > 1)
        });
    }
}

/// Returns the blocks of the in-process databases, without the blocks of single statements.
pub fn whole_blocks(results: &Value) -> impl Iterator<Item = &Value> {
    let runs = results["embedded"]["runs"].as_array().unwrap();
    runs.iter().filter(|run| run["statement"].is_null())
}

/// A run that ends with the test.
pub struct Running(pub Child);

impl Running {
    /// Returns its workers.
    pub fn children(&self) -> Vec<u32> {
        let id = self.0.id();
        let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        threads
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
            .flat_map(|list| {
                list.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<u32>>()
            })
            .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, as it should.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits, for at most a minute and a half.
#[track_caller]
pub fn wait_until(reproach: &str, mut fits: impl FnMut() -> bool) {
    let start = Instant::now();
    while !fits() {
        assert!(start.elapsed() < Duration::from_secs(90), "{reproach}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the document that is embedded in a page.
pub fn embedded(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"results\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Returns the extension of this build: cargo puts it beside the tests of its dependents. One
/// beside the command may be of another build.
fn extension() -> PathBuf {
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = std::env::current_exe().unwrap().with_file_name(name);
    assert!(path.is_file(), "the extension was not built: {} is missing", path.display());
    path
}
