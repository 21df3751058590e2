//! `replicate --config`: many databases in one process, their status and their metrics.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::bench::signal;
use crate::common::Run;
use crate::databases::{Dir, create, encrypt, one, open, place};
use crate::replicate::{WaitBy, text, wait_for};

struct Many {
    dir: Dir,
    config: PathBuf,
}

impl Many {
    /// With databases of these names, and a configuration that follows them.
    fn new(names: &[&str], more: &str) -> Self {
        let dir = Dir::new();
        for name in names {
            make(&dir.path(&format!("{name}.db")));
        }
        let config = dir.path("replicate.toml");
        let entry = |name: &&str| format!("[[database]]\npath = '{name}.db'\n");
        let list: String = names.iter().map(entry).collect();
        let head = "to = 'archives/{name}'\ncertificates = ['AppCert']\nno_sign = true\n";
        fs::write(&config, format!("{head}{more}\n{list}")).unwrap();
        fs::create_dir(dir.path("archives")).unwrap();
        Self { dir, config }
    }

    fn db(&self, name: &str) -> PathBuf {
        self.dir.path(&format!("{name}.db"))
    }

    fn add(&self, name: &str, n: u32) {
        open(&self.db(name)).execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
    }

    fn append(&self, more: &str) {
        let text = fs::read_to_string(&self.config).unwrap();
        fs::write(&self.config, format!("{text}{more}")).unwrap();
    }

    fn once(&self) -> Run {
        place().run(["replicate", "--config", text(&self.config), "--once"])
    }

    fn start(&self) -> Child {
        let words = ["replicate", "--config", text(&self.config)];
        place().command(words).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn status(&self) -> Vec<serde_json::Value> {
        let words = ["replicate", "status", "--config", text(&self.config), "--json"];
        serde_json::from_str(&place().run(words).out).unwrap()
    }

    fn object(&self, name: &str, number: u32) -> PathBuf {
        self.dir.path("archives").join(name).join(format!("{number:016}.tdekit"))
    }

    /// Restores the newest state, and returns the numbers there.
    fn restored(&self, name: &str) -> String {
        let (archive, to) = (self.dir.path("archives").join(name), self.dir.path("restored.db"));
        let _ = fs::remove_file(&to);
        place().ok(["restore", text(&archive), "--at", "latest", "--to", text(&to)]);
        one(&open(&to), "SELECT coalesce(group_concat(n), '') FROM t")
    }
}

fn make(path: &Path) {
    drop(create(path, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
}

fn end(mut process: Child) -> Run {
    signal(process.id(), "TERM");
    Run::of(&process.wait_with_output_by(Duration::from_secs(30)))
}

#[test]
fn one_that_fails_does_not_stop_the_others() {
    let many = Many::new(&["a", "b"], "");
    encrypt(&many.db("b"), &[]);
    many.add("a", 1);
    many.add("b", 2);
    many.append("[[database]]\npath = 'none.db'\n");
    let run = many.once();
    assert_eq!(run.code, 7, "{run:?}");
    assert!(run.err.contains("none.db: ") && run.err.contains("1 of 3 database(s)"), "{run:?}");
    assert_eq!((many.restored("a"), many.restored("b")), ("1".to_owned(), "2".to_owned()));
    let status = many.status();
    assert_eq!(status.len(), 3);
    assert!(status[0]["running"] == false && status[0]["shipped"]["number"] == 1);
    assert!(status[0]["current"].is_string() && status[0]["error"].is_null());
    assert_eq!(status[2]["error"], "the database is not there");
    let run = place().run(["replicate", "status", "--config", text(&many.config)]);
    assert!(run.code == 7 && run.err.contains("cannot open"), "{run:?}");
    let shown = run.out;
    assert!(shown.contains("the database is not there"), "{shown}");
    assert_eq!(shown.matches("NO PROCESS FOLLOWS IT").count(), 3, "{shown}");
    // In the clear where certificates are asked for of none.
    let plain = fs::read(many.object("a", 1)).unwrap();
    assert!(!plain.windows(12).any(|part| part == b"CREATE TABLE"));
    // An empty file is worse than none, and has a hint.
    fs::write(many.db("none"), "").unwrap();
    let run = many.once();
    assert!(run.code == 1 && run.err.contains("hint: restore it, or make"), "{run:?}");
}

#[test]
fn a_process_follows_all_and_begins_again_with_those_that_failed() {
    let many = Many::new(&["a", "b", "c"], "every = '1s'");
    encrypt(&many.db("b"), &[]);
    fs::rename(many.db("c"), many.dir.path("away.db")).unwrap();
    let process = many.start();
    wait_for(|| many.object("a", 1).exists() && many.object("b", 1).exists());
    assert!(!many.object("c", 1).exists());
    fs::rename(many.dir.path("away.db"), many.db("c")).unwrap();
    wait_for(|| many.object("c", 1).exists());
    let all = || many.status().iter().filter(|one| one["running"] == true).count();
    wait_for(|| all() == 3);
    // A second process.
    let second = many.once();
    assert!(second.code == 5 && second.err.contains("3 of 3"), "{second:?}");
    let (db, to) = (many.db("a"), many.dir.path("x"));
    assert_eq!(place().run(["replicate", text(&db), "--to", text(&to), "--once"]).code, 5);
    // Of those, one archive is not there for a while.
    let (archive, away) = (many.dir.path("archives/a"), many.dir.path("archives/away"));
    fs::rename(&archive, &away).unwrap();
    for (n, name) in [(1, "a"), (2, "b"), (3, "c")] {
        many.add(name, n);
    }
    wait_for(|| many.object("b", 2).exists() && many.object("c", 2).exists());
    wait_for(|| many.status()[0]["error"].is_string());
    fs::rename(&away, &archive).unwrap();
    wait_for(|| many.object("a", 2).exists());
    for (n, name) in [(4, "a"), (5, "b"), (6, "c")] {
        many.add(name, n);
    }
    let ended = end(process);
    assert_eq!(ended.code, 0, "{ended:?}");
    for (name, rows) in [("a", "1,4"), ("b", "2,5"), ("c", "3,6")] {
        assert_eq!(many.restored(name), rows, "{name}");
    }
    assert_eq!(all(), 0);
}

/// What another process took over ends here, and the others go on.
#[test]
fn what_was_taken_over_ends_and_the_others_go_on() {
    let many = Many::new(&["a", "b"], "every = '1s'");
    let process = many.start();
    wait_for(|| many.object("a", 1).exists() && many.object("b", 1).exists());
    let other = many.dir.path("other.db");
    make(&other);
    let archive = many.dir.path("archives/a");
    let words = ["replicate", text(&other), "--to", text(&archive), "--once", "--take-over"];
    place().ok([&words[..], &["--certificate", "AppCert"]].concat());
    many.add("a", 1);
    many.add("b", 2);
    wait_for(|| many.object("b", 2).exists());
    wait_for(|| many.status()[0]["running"] == false);
    assert_eq!(many.status()[1]["running"], true);
    let ended = end(process);
    assert!(ended.code == 5 && ended.err.contains("1 of 2 database(s)"), "{ended:?}");
    assert_eq!((many.restored("a"), many.restored("b")), (String::new(), "2".to_owned()));
}

/// A failure before anything is shipped is in the state too.
#[test]
fn a_first_failure_is_in_the_state() {
    let many = Many::new(&["a"], "");
    let config = fs::read_to_string(&many.config).unwrap();
    fs::write(&many.config, config.replace("AppCert", "Nope")).unwrap();
    place().fails(3, ["replicate", "--config", text(&many.config), "--once"]);
    let state = many.status();
    assert!(state[0]["error"].as_str().unwrap().contains("Nope"), "{state:?}");
    fs::write(&many.config, config).unwrap();
    assert_eq!(many.once().code, 0);
    assert_eq!(many.status()[0]["error"], serde_json::Value::Null);
}

#[test]
fn wrong_configurations_are_refused() {
    let many = Many::new(&["a"], "");
    let whole = fs::read_to_string(&many.config).unwrap();
    let refused = |more: &str, told: &str| {
        fs::write(&many.config, format!("{whole}{more}")).unwrap();
        // Where only the files' state is wrong, `status` shows what is there.
        let both = [&["replicate", "--config"][..], &["replicate", "status", "--config"]];
        for words in both.into_iter().take(if told.contains(" one ") { 1 } else { 2 }) {
            let said = place().fails(2, [words, &[text(&many.config)]].concat());
            assert!(said.contains(told), "{more}: {said}");
        }
    };
    refused("evry = '1s'\n", "every is the nearest");
    refused("every = 'often'\n", "every of database 1 (a.db)");
    refused("[[database]]\npath = './a.db'\n", "are one database");
    let link = many.dir.path("link.db");
    std::os::unix::fs::symlink(many.db("a"), &link).unwrap();
    refused("[[database]]\npath = 'link.db'\n", "are one database");
    refused("[[database]]\npath = 'b.db'\nto = 'archives/a'\n", "have one archive");
    fs::set_permissions(&many.config, fs::Permissions::from_mode(0o666)).unwrap();
    refused("", "others can change it");
    assert!(!many.object("a", 1).exists());
    let said = place().fails(2, ["replicate", "--config", text(&many.config), "--every", "2s"]);
    assert!(said.contains("cannot be used with"), "{said}");
    place().fails(7, ["replicate", "--config", text(&many.dir.path("none.toml"))]);
}

#[test]
fn metrics_are_prometheus_text() {
    let many = Many::new(&["a", "b"], "");
    let run = many.once();
    assert_eq!(run.code, 0, "{run:?}");
    let file = many.dir.path("tdekit.prom");
    let words = ["replicate", "status", "--config", text(&many.config), "--prometheus"];
    place().ok([&words[..], &["--output", text(&file)]].concat());
    place().ok([&words[..], &["--output", text(&file)]].concat());
    let written = fs::read_to_string(&file).unwrap();
    let lines = written.lines().map(|line| Ok(line.to_owned()));
    let scrape = prometheus_parse::Scrape::parse(lines).unwrap();
    let value = |metric: &str, path: &Path| {
        let mut all = scrape.samples.iter().filter(|sample| sample.metric == metric);
        let sample = all.find(|sample| sample.labels.get("path") == Some(text(path)))?;
        match &sample.value {
            prometheus_parse::Value::Gauge(value) => Some(*value),
            other => panic!("{metric}: {other:?}"),
        }
    };
    for name in ["a", "b"] {
        let path = fs::canonicalize(many.db(name)).unwrap();
        assert_eq!(value("tdekit_replicate_running", &path), Some(0.0));
        assert_eq!(value("tdekit_replicate_failed", &path), Some(0.0));
        assert_eq!(value("tdekit_replicate_last_object", &path), Some(1.0));
        let current = value("tdekit_replicate_current_timestamp_seconds", &path).unwrap();
        assert!(current > 1e9, "{current}");
    }
    // No other file is replaced, and an archive has no such metrics.
    let other = many.dir.path("other.prom");
    fs::write(&other, "mine").unwrap();
    place().fails(2, [&words[..], &["--output", text(&other)]].concat());
    assert_eq!(fs::read(&other).unwrap(), b"mine");
    let archive = many.dir.path("archives/a");
    place().fails(2, ["replicate", "status", text(&archive), "--prometheus"]);
}
