//! The sides of a bench: several algorithms of ours in one run, and the plain twin of a database
//! that is encrypted already.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bench::{Bench, SMALL, signal, wait_until};
use crate::common::{CHEAP, Run};

const SHORT: [&str; 4] = ["--restarts", "2", "--pairs", "2"];

fn ids<'a>(results: &'a Value, list: &str) -> Vec<&'a str> {
    let list = results["embedded"][list].as_array().unwrap();
    list.iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn two_algorithms_are_two_sides_of_one_run() {
    let bench = Bench::new();
    let both = ["--algorithm", "AES_128", "--algorithm", "AEGIS_256X2"];
    let run = bench.ok(SMALL.iter().chain(&SHORT).chain(&both));
    let results = bench.results();
    assert_eq!(ids(&results, "sides"), ["base", "tdekit", "tdekit-AEGIS_256X2"]);
    let sides = &results["embedded"]["sides"];
    assert_eq!(
        (&sides[1]["cipher"], &sides[2]["cipher"]),
        (&"AES_128".into(), &"AEGIS_256X2".into())
    );
    assert_eq!(results["settings"]["algorithm"], "AES_128");
    for side in ids(&results, "sides") {
        assert_eq!(bench.blocks(&results, "crud/4-3-3", side), 4, "{side}");
    }
    assert!(run.out.contains("tdekit AEGIS_256X2 against plain"), "{run:?}");
    let [first, second] = [0, 1].map(|at| results["verdict"][at].as_str().unwrap());
    assert!(first.contains("AES_128"), "{first}");
    assert!(second.starts_with("tdekit AES_128 "), "{second}");
    let pooled = results["embedded"]["summary"]["pooled"].as_array().unwrap();
    let over = |side: &str, against: &str| {
        pooled.iter().any(|one| one["side"] == side && one["against"] == against)
    };
    assert!(over("tdekit-AEGIS_256X2", "base") && over("tdekit-AEGIS_256X2", "tdekit"));
    let page = fs::read_to_string(bench.path("report.html")).unwrap();
    assert!(page.contains("href=\"#peers\""));
}

/// The further side of a run that names nothing takes part in the headline, once a restart.
#[test]
fn a_run_that_names_nothing_has_a_second_algorithm_for_its_headline() {
    let bench = Bench::new();
    bench.app();
    fs::write(bench.path("my.sql"), "SELECT count(*) FROM t;").unwrap();
    bench.ok(["app.db", "--script", "my.sql"].iter().chain(&SHORT));
    let results = bench.results();
    assert_eq!(ids(&results, "sides"), ["base", "tdekit", "tdekit-AEGIS_256X2"]);
    assert_eq!(bench.blocks(&results, "script/all", "tdekit"), 4);
    assert_eq!(bench.blocks(&results, "script/all", "tdekit-AEGIS_256X2"), 2);
    bench.ok(["app.db"].iter().chain(&["--quick", "--restarts", "1"]));
    let results = bench.results();
    assert_eq!(bench.blocks(&results, "operations/select/warm", "tdekit-AEGIS_256X2"), 1);
    for class in ["operations/select/cold", "operations/reindex/warm", "scans/sum"] {
        assert_eq!(bench.blocks(&results, class, "tdekit-AEGIS_256X2"), 0, "{class}");
    }
}

/// Makes a store and encrypts the user's database in it; returns the database's bytes.
fn encrypted(bench: &Bench) -> Vec<u8> {
    bench.app();
    let place = bench.place();
    place.ok(["key", "init", CHEAP[0], CHEAP[1]]);
    place.ok(["cert", "create", "AppCert"]);
    place.ok(["encrypt", "app.db", "--certificate", "AppCert", "--algorithm", "AES_192"]);
    fs::read(bench.path("app.db")).unwrap()
}

fn with_password() -> Bench {
    let mut bench = Bench::new();
    bench.set("TDEKIT_PASSWORD", "secret");
    bench
}

#[test]
fn an_encrypted_database_is_priced_on_a_plain_twin() {
    let bench = with_password();
    let before = encrypted(&bench);
    let words = ["app.db", "--experiment", "scans", "--quick", "--restarts", "1"];
    let run = bench.ok(words);
    assert!(run.err.contains("/copies/.tdekit-bench-"), "{run:?}");
    let results = bench.results();
    assert_eq!(results["settings"]["algorithm"], "AES_192");
    assert_eq!(results["embedded"]["cells"].as_array().unwrap().len(), 3);
    assert_eq!(fs::read(bench.path("app.db")).unwrap(), before);
    assert_eq!(fs::read_dir(bench.path("copies")).unwrap().count(), 0);
    let listed = bench.place().ok(["cert", "list", "--json"]).out;
    assert!(!listed.contains("tdekit-bench-"), "{listed}");
    assert!(bench.fails(["app.db", "--experiment", "backup"]).contains("plaintext"));
    let mut bare = bench.command(words);
    let run = Run::of(&bare.env("TDEKIT_PASSWORD", "guess").output().unwrap());
    assert!(run.code == 3 && run.err.contains("is encrypted, and does not open"), "{run:?}");
    assert!(run.err.contains("hint: ") && run.err.contains("wrong password"), "{run:?}");
    assert_eq!(fs::read_dir(bench.path("copies")).unwrap().count(), 0);
}

/// Rows that are in the log of somebody who has the database open are priced too, and stay there.
#[test]
fn an_encrypted_database_in_use_is_only_read() {
    let bench = with_password();
    encrypted(&bench);
    let log = bench.path("app.db-wal");
    let sql = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; \
               INSERT INTO t SELECT NULL, 'x', 1 FROM t; SELECT 1;";
    let mut shell = bench.place().command(["sqlite", "path"]);
    let extension = Run::of(&shell.output().unwrap()).out;
    let mut writer = Command::new("sqlite3");
    writer
        .env_clear()
        .envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .args(["-cmd", &format!(".load {}", extension.trim())])
        .current_dir(bench.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let input = format!(".open app.db\n{sql}\n");
    writer.stdin.as_mut().unwrap().write_all(input.as_bytes()).unwrap();
    wait_until("nothing is written", || log.metadata().is_ok_and(|log| log.len() > 8192));
    let before = (fs::read(bench.path("app.db")).unwrap(), fs::read(&log).unwrap());
    bench.ok(["app.db", "--experiment", "scans", "--quick", "--restarts", "1"]);
    let after = (fs::read(bench.path("app.db")).unwrap(), fs::read(&log).unwrap());
    assert!(before == after, "the database or its log changed");
    drop(writer.stdin.take());
    writer.wait().unwrap();
}

/// Returns the run's directory below `place`.
fn run_directory(place: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(place).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| path.join("plain/subject.db").is_file())
}

#[test]
fn the_plain_twin_is_the_owners_and_ends_with_the_run() {
    let bench = with_password();
    encrypted(&bench);
    for name in ["INT", "TERM"] {
        let words = ["app.db", "--experiment", "scans", "--pairs", "1000", "--restarts", "1000"];
        let mut running = bench.start(words);
        let copies = bench.path("copies");
        wait_until("no plain twin", || run_directory(&copies).is_some());
        let directory = run_directory(&copies).unwrap();
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        // Only read: the command that decrypts it does so while nobody has it open.
        wait_until("it is not plain", || {
            let twin = fs::read(directory.join("plain/subject.db"));
            twin.is_ok_and(|twin| twin.starts_with(b"SQLite format 3\0"))
        });
        signal(running.0.id(), name);
        assert_eq!(running.0.wait().unwrap().code(), Some(130), "{name}");
        assert_eq!(fs::read_dir(&copies).unwrap().count(), 0, "{name}");
    }
}
