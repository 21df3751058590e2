//! `replicate status` of a database that is gone, of records that cannot be read, and its exit
//! codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::bench::signal;
use crate::common::Run;
use crate::databases::{Dir, create, open, place};
use crate::replicate::{WaitBy, text, wait_for};

/// A plain database that is shipped to a directory beside it, and the configuration of that.
struct Shipped {
    dir: Dir,
    db: PathBuf,
    config: PathBuf,
}

impl Shipped {
    fn new(more: &str) -> Self {
        let dir = Dir::new();
        let (db, config) = (dir.path("a.db"), dir.path("r.toml"));
        drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
        let list = "[[database]]\npath = 'a.db'\nto = 'archive'\n";
        fs::write(&config, format!("{more}\n{list}")).unwrap();
        place().ok(["replicate", "--config", text(&config), "--once"]);
        Self { dir, db, config }
    }

    fn of_file(&self, more: &[&str]) -> Run {
        place().run([&["replicate", "status", text(&self.db)][..], more].concat())
    }

    fn of_config(&self, more: &[&str]) -> Run {
        let words = ["replicate", "status", "--config", text(&self.config)];
        place().run([&words[..], more].concat())
    }

    /// Both end with this code.
    fn ends(&self, code: i32, told: &str) {
        for run in [self.of_file(&[]), self.of_config(&[])] {
            assert!(run.code == code && run.err.contains(told), "{run:?}");
        }
    }

    /// The metrics, asked for by this name from this directory.
    fn metrics(&self, name: &str, from: &Path, code: i32) -> String {
        let mut command = place().command(["replicate", "status", name, "--prometheus"]);
        let run = Run::of(&command.current_dir(from).output().unwrap());
        assert_eq!(run.code, code, "{run:?}");
        let changes = ["tdekit_replicate_failed", "tdekit_replicate_status_timestamp", "#"];
        let lines = run.out.lines().filter(|line| !changes.iter().any(|it| line.starts_with(it)));
        lines.map(|line| format!("{line}\n")).collect()
    }
}

#[test]
fn of_a_database_that_is_gone_the_record_is_shown() {
    let it = Shipped::new("");
    let before = it.metrics("a.db", &it.dir.path("."), 0);
    let path = fs::canonicalize(&it.db).unwrap();
    let current = format!("current_timestamp_seconds{{path=\"{}\"}}", text(&path));
    assert!(before.contains(&current), "{current}: {before}");
    let whole: Value = serde_json::from_str(&it.of_file(&["--json"]).out).unwrap();
    assert_eq!((&whole["gone"], &whole["error"]), (&false.into(), &Value::Null));
    let other = it.dir.path("gone.db");
    fs::rename(&it.db, &other).unwrap();
    it.ends(7, "a.db");
    for (run, at) in [(it.of_file(&["--json"]), ""), (it.of_config(&["--json"]), "/0")] {
        let all: Value = serde_json::from_str(&run.out).unwrap();
        let one = all.pointer(at).unwrap();
        assert_eq!(one["gone"], true);
        assert_eq!(one["error"], "the database is not there");
        for same in ["database", "shipped", "current", "last_shipped", "archive", "running"] {
            assert_eq!(one[same], whole[same], "{same}");
        }
    }
    let shown = it.of_file(&[]).out;
    assert!(shown.contains("object 1 shipped at ") && shown.contains("all that was committed by"));
    assert!(shown.contains("\n  the database is not there\n"), "{shown}");
    // The same series, by whatever name and from wherever it is asked for.
    let sub = it.dir.path("sub");
    fs::create_dir(&sub).unwrap();
    std::os::unix::fs::symlink(&it.db, sub.join("link.db")).unwrap();
    for (name, from) in [("a.db", "."), ("../a.db", "sub"), ("./link.db", "sub"), ("a.db", ".")] {
        assert_eq!(it.metrics(name, &it.dir.path(from), 7), before, "{name} from {from}");
    }
    assert!(it.of_file(&["--prometheus"]).out.contains("tdekit_replicate_failed{"));
    // Without a record nothing is known.
    fs::remove_file(it.dir.path("a.db-replica")).unwrap();
    it.ends(7, "a.db");
    assert_eq!(it.of_file(&[]).out, "");
    fs::rename(&other, &it.db).unwrap();
    it.ends(2, "nothing was shipped from");
}

#[test]
fn records_that_cannot_be_read_have_one_exit_code() {
    let it = Shipped::new("");
    it.ends(0, "");
    let record = it.dir.path("a.db-replica");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    it.ends(4, "is damaged");
    let metrics = it.of_config(&["--prometheus"]);
    assert!(metrics.code == 4 && metrics.out.contains("a.db\"} 1\n"), "{metrics:?}");
    fs::write(&record, "a backup of something else").unwrap();
    it.ends(4, "is not a record of replication");
    // What can be shown is shown, whatever stands before it.
    let run = it.of_file(&[text(&it.dir.path("archive"))]);
    assert!(run.code == 4 && run.out.contains("1 objects"), "{run:?}");
    assert_eq!(it.of_file(&[text(&it.dir.path("none"))]).code, 4);
}

/// The process tries again, and counts as the one that follows.
#[test]
fn a_process_that_waits_follows_the_database() {
    let dir = Dir::new();
    let failed = dir.path("failed");
    let it = Shipped::new(&format!("exec = 'touch {}'", failed.display()));
    let other = it.dir.path("gone.db");
    fs::rename(&it.db, &other).unwrap();
    let words = ["replicate", "--config", text(&it.config)];
    let mut process = place().command(words).stderr(Stdio::piped()).spawn().unwrap();
    let state = || serde_json::from_str::<Value>(&it.of_file(&["--json"]).out).unwrap();
    wait_for(|| failed.exists());
    sleep(Duration::from_millis(500));
    // It does not hold the lock in the moment in which it tries.
    let runs = (0..6).filter(|_| {
        sleep(Duration::from_millis(100));
        state()["running"] == true
    });
    assert!(runs.count() >= 4);
    assert_eq!(place().run(["replicate", "--config", text(&it.config), "--once"]).code, 7);
    fs::rename(&other, &it.db).unwrap();
    open(&it.db).execute("INSERT INTO t VALUES (1)", []).unwrap();
    wait_for(|| state()["shipped"]["number"] == 2);
    assert!(state()["gone"] == false && state()["running"] == true);
    signal(process.id(), "TERM");
    let ended = Run::of(&process.wait_with_output_by(Duration::from_secs(30)));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(state()["running"], false);
}

/// A name with a line end does not look like another line of the log or of `status`.
#[test]
fn a_line_end_in_a_name_is_escaped() {
    let dir = Dir::new();
    fs::create_dir(dir.path("x\nerror: y")).unwrap();
    let (db, config) = (dir.path("x\nerror: y/a.db"), dir.path("r.toml"));
    drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
    let list = "[[database]]\npath = \"x\\nerror: y/a.db\"\nto = \"x\\nerror: y/archive\"\n\
                [[database]]\npath = \"x\\nerror: y/none.db\"\nto = 'other'\n";
    fs::write(&config, list).unwrap();
    let run = place().run(["replicate", "--config", text(&config), "--once"]);
    assert!(run.code == 7 && run.err.contains("x\\u{a}error: y/archive: object 1"), "{run:?}");
    let status = place().run(["replicate", "status", text(&db)]);
    assert!(status.code == 0 && status.out.contains("x\\u{a}error: y/a.db to "), "{status:?}");
    let archive = place().ok(["replicate", "status", text(&dir.path("x\nerror: y/archive"))]);
    for lines in [run.err, status.out, archive.out] {
        assert!(!lines.lines().any(|line| line.starts_with("error: y")), "{lines}");
    }
}
