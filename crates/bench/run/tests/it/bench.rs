//! The bench end to end, through its program: reports, cleanup, and the data kept if a run does not
//! complete. Base against base, so that only SQLite is needed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{ENDLESS, PROGRAM, Place, done, embedded, refused, signal, text, wait_until};
use rusqlite::Connection;
use tdekit_bench_report::{Metric, from_json};

fn workers(parent: &Child) -> Vec<i32> {
    let id = parent.id();
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<i32>>()
        })
        .collect()
}

/// Rows that take longer to generate and to copy than a test waits before it interrupts. They need
/// 1.4 GB of disk.
const COPIED: &str = "--rows 200000";

/// Returns a run that generates or copies its databases.
fn copying(place: &Place) -> Child {
    let mut child = place.command(COPIED).spawn().unwrap();
    wait_until("no copy is made", || {
        let ended = child.try_wait().unwrap();
        assert_eq!(ended, None, "it ended: {:?}", child.stderr.take().map(std::io::read_to_string));
        !place.names("copies").is_empty()
    });
    child
}

#[test]
fn a_quick_run_reports_and_cleans_up() {
    let place = Place::new();
    let table = done(&mut place.command("--quick --rows 2000 --restarts 2 --seed 3"));
    assert!(table.contains("the true overhead is 0 %"), "{table}");
    assert_eq!(place.names("copies"), Vec::<String>::new());
    let names = [
        "copies",
        "report-TIME.html",
        "report.html",
        "results-TIME.json",
        "results.json",
        "tdekit-bench",
    ];
    assert_eq!(place.names("."), names);

    let results = place.results();
    assert_eq!(results.incomplete, Vec::<String>::new());
    assert!(results.control && results.subject.generated);
    let report = results.embedded.as_ref().unwrap();
    assert_eq!(report.cells.len(), 4 + 2 * 6 + 3);
    for class in &report.cells {
        let found = report.summary.comparison(&class.id, Metric::Elapsed, "control", "base");
        let found = found.unwrap_or_else(|| panic!("{} was not compared", class.id));
        assert_eq!(found.restarts, 2, "{}", class.id);
        assert!(found.low.unwrap() <= found.ratio && found.ratio <= found.high.unwrap());
    }
    // Base and control do the same work, page by page.
    for operation in ["select", "insert", "update", "delete"] {
        let pages = |side| {
            let totals =
                report.summary.totals(&format!("operations/{operation}/warm"), side).unwrap();
            (totals.values[&Metric::PagesRead].median, totals.values[&Metric::PagesWritten].median)
        };
        assert_eq!(pages("base"), pages("control"), "{operation}");
    }
    assert_eq!(embedded(&place.path("report.html")), results);
}

#[test]
#[ignore = "full: a bench"]
fn the_users_database_is_only_read() {
    let place = Place::new();
    let database = place.path("app.db");
    Connection::open(&database)
        .unwrap()
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, n INTEGER);
             CREATE INDEX t_v ON t(v);
             WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
             INSERT INTO t SELECT i, hex(randomblob(20)), i FROM c;",
        )
        .unwrap();
    let before = std::fs::read(&database).unwrap();
    let table = done(&mut place.command("--quick app.db --restarts 2"));
    assert!(table.contains("app.db"), "{table}");
    assert_eq!(std::fs::read(&database).unwrap(), before);
    let results: Vec<_> =
        place.names(".").into_iter().filter(|name| name.starts_with("re")).collect();
    assert_eq!(results, ["report-TIME.html", "report.html", "results-TIME.json", "results.json"]);
    let report = place.results().embedded.unwrap();
    assert_eq!(report.statements.len(), 10 + 5 + 8 + 5 + 1);
    assert!(report.cells.iter().all(|class| !class.id.starts_with("crud/")));
}

#[test]
fn json_to_standard_output_replaces_the_table() {
    let place = Place::new();
    let document = done(&mut place.command("--quick --experiment scans --rows 100 --json -"));
    assert_eq!(from_json(&document).unwrap().embedded.unwrap().cells.len(), 3);
    assert!(!place.path("results.json").exists());
}

/// On a file system in memory where there is one: any other directory would do.
#[test]
fn a_directory_of_the_users_is_a_side() {
    let place = Place::new();
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { place.path("") };
    let vault = tempfile::tempdir_in(parent).unwrap();
    let peer = format!("directory:{}=vault", vault.path().display());
    let line = "--experiment crud --mix 4/3/3 --rows 200 --processes 2 --loops 10 --restarts 2";
    let table = done(place.command(line).args(["--pairs", "1", "--peer", &peer]));
    assert!(table.contains("plain on vault against plain"), "{table}");
    assert!(table.contains("CPU on vault is that of the bench's processes"), "{table}");
    let report = place.results().embedded.unwrap();
    let side = report.sides.iter().find(|side| side.id == "directory-vault").unwrap();
    assert!(side.facts.contains_key("file_system") && side.cipher.is_none());
    let found = report.summary.comparison("crud/4-3-3", Metric::Elapsed, &side.id, "base");
    assert_eq!(found.unwrap().restarts, 2);
    let same = report.summary.comparison("crud/4-3-3", Metric::PagesRead, &side.id, "base");
    assert!(same.is_none(), "counts have no ratio");
    assert_eq!(std::fs::read_dir(vault.path()).unwrap().count(), 0);
    assert_eq!(place.names("copies"), Vec::<String>::new());
}

/// A directory of gocryptfs, where the machine has it and lets it mount.
#[test]
fn a_directory_of_gocryptfs_is_a_side() {
    let place = Place::new();
    let Some(vault) = Vault::mount(&place) else { return };
    let peer = format!("directory:{}", vault.0.display());
    let line = "--experiment crud --mix 4/3/3 --rows 200 --processes 2 --loops 10 --restarts 2";
    done(place.command(line).args(["--pairs", "1", "--peer", &peer]));
    let report = place.results().embedded.unwrap();
    let side = report.sides.iter().find(|side| side.id == "directory-vault").unwrap();
    let fact = |name: &str| side.facts.get(name).cloned();
    assert_eq!(fact("file_system"), Some("fuse.gocryptfs".into()));
    assert_eq!(fact("encrypted_by"), Some("gocryptfs, a process of its own".into()));
    assert_eq!(fact("kernel_cipher"), None);
    assert!(report.summary.comparison("crud/4-3-3", Metric::Elapsed, &side.id, "base").is_some());
    assert_eq!(std::fs::read_dir(&vault.0).unwrap().count(), 0);
}

/// A mounted directory of gocryptfs.
struct Vault(std::path::PathBuf);

impl Vault {
    /// Mounts one; none, with the reason printed, where the machine does not let it.
    fn mount(place: &Place) -> Option<Self> {
        let (sealed, vault) = (place.path("sealed"), place.path("vault"));
        for directory in [&sealed, &vault] {
            std::fs::create_dir(directory).unwrap();
        }
        let password = place.path("password");
        std::fs::write(&password, "only for this test").unwrap();
        let run = |words: &[&str]| {
            let mut command = Command::new("gocryptfs");
            command.args(["-q", "-passfile"]).arg(&password).args(words);
            match command.output() {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) => Err(text(&output).1),
                Err(error) => Err(error.to_string()),
            }
        };
        let [from, to] = [&sealed, &vault].map(|path| path.to_str().unwrap());
        match run(&["-init", "-scryptn", "10", from]).and_then(|()| run(&[from, to])) {
            Ok(()) => Some(Self(vault)),
            Err(reason) => {
                println!("skipped: gocryptfs does not mount here: {reason}");
                None
            }
        }
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        let _unmounted = Command::new("fusermount").arg("-u").arg(&self.0).status();
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    for (peer, wanted) in [
        ("directory:missing", "No such file"),
        ("directory:file", "not a directory"),
        ("directory:/proc", "/proc"),
    ] {
        let errors = refused(place.command("--quick").args(["--peer", peer]));
        assert!(errors.contains(wanted) && errors.contains(&peer[10..]), "{errors}");
    }
    let twice = ["--peer", "directory:copies=a", "--peer", "directory:/tmp=a"];
    let errors = refused(place.command("--quick").args(twice));
    assert!(errors.contains("directory:PATH=LABEL"), "{errors}");
    let output = place.command("--peer directry:/tmp").output().unwrap();
    let errors = text(&output).1;
    assert!(errors.contains("sqlcipher") && errors.contains("directory:PATH"), "{errors}");
}

#[test]
fn a_killed_worker_leaves_partial_results() {
    let place = Place::new();
    let mut child = place.command(ENDLESS).spawn().unwrap();
    place.wait_for_blocks();
    let workers = workers(&child);
    assert!(workers.len() >= 4, "{workers:?}");
    signal(workers[0], "KILL");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    partial(&place, "signal: 9");
    for worker in workers {
        assert!(!Path::new(&format!("/proc/{worker}")).exists(), "worker {worker} is left");
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let place = Place::new();
    let mut child = place.command(ENDLESS).spawn().unwrap();
    place.wait_for_blocks();
    signal(child.id().cast_signed(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    partial(&place, "interrupted");
}

#[test]
fn an_early_interrupt_cleans_up_too() {
    let place = Place::new();
    let mut child = copying(&place);
    signal(child.id().cast_signed(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.names("copies"), Vec::<String>::new());
    assert!(!place.path("results.json").exists());
}

/// The second signal arrives while the first one's removal runs, or before it.
#[test]
fn a_second_interrupt_cleans_up_too() {
    for (kind, pause_ms) in [("INT", 0), ("INT", 2), ("TERM", 20)] {
        let place = Place::new();
        let mut child = copying(&place);
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..3 {
            // It may have ended.
            let number = child.id().to_string();
            let _sent = Command::new("kill").args(["-s", kind, &number]).output().unwrap();
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(place.names("copies"), Vec::<String>::new(), "{kind} {pause_ms}");
    }
}

#[test]
fn the_next_run_removes_what_a_killed_one_left() {
    let place = Place::new();
    let mut child = copying(&place);
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    let [left] = place.names("copies").try_into().unwrap();
    let next = place.command(COPIED).spawn().unwrap();
    wait_until("it stays", || !place.names("copies").contains(&left));
    signal(next.id().cast_signed(), "INT");
    let output = next.wait_with_output().unwrap();
    assert!(text(&output).1.contains(&format!("{left}, which is removed now")), "{output:?}");
}

/// Files may grow to 1.5 MB only; the load mix eventually makes the database larger than that.
#[test]
#[ignore = "full: a bench"]
fn a_full_disk_leaves_partial_results() {
    let place = Place::new();
    let mut words = vec!["trap '' XFSZ; ulimit -f 3000; exec \"$0\" \"$@\"".to_owned()];
    words.push(PROGRAM.to_owned());
    let bench = place.command(
        "--experiment crud --mix load --rows 10 --processes 2 --loops 6 --pairs 1000 --synchronous \
         off",
    );
    words.extend(bench.get_args().map(|word| word.to_str().unwrap().to_owned()));
    let output = Command::new("dash")
        .arg("-c")
        .args(&words)
        .current_dir(place.directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (table, errors) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(table.contains("incomplete: side"), "{table}");
    partial(&place, "disk");
}

fn partial(place: &Place, reason: &str) {
    let runs = place.partial(reason).embedded.unwrap().runs.len();
    assert!(runs >= 2, "{runs}");
}

#[test]
fn what_cannot_be_benched_is_named() {
    let place = Place::new();
    std::fs::write(place.path("x.db"), [7_u8; 8192]).unwrap();
    let errors = refused(&mut place.command("x.db"));
    assert!(errors.contains("error: x.db is not a plain SQLite database"), "{errors}");
    assert!(errors.contains("hint: "), "{errors}");
    assert!(!place.path("results.json").exists());

    assert_eq!(place.command("none.db").output().unwrap().status.code(), Some(7));
    let unknown = place.command("--algorithm nosuch").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));

    let missing = place.path("not there");
    let errors = refused(place.command("--peer sqlcipher").env("TDEKIT_PEERS", missing));
    assert!(errors.contains("hint: tdekit bench peers install sqlcipher"), "{errors}");

    Connection::open(place.path("bare.db")).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    let errors = refused(&mut place.command("bare.db"));
    assert!(errors.contains("no table that statements could be derived from"), "{errors}");
    assert_eq!(place.names("copies"), Vec::<String>::new());
}
