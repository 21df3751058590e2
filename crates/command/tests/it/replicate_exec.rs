//! `replicate --exec`: the command that is run when a failure begins and when it ends.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::Place;
use crate::databases::create;

/// Longer than the test waits for anything.
const EXEC: &str = "echo \"$TDEKIT_EVENT|$TDEKIT_DATABASE|$TDEKIT_ARCHIVE|$TDEKIT_ERROR|\
                    $TDEKIT_PASSWORD|\" >> told; sleep 60";
const WAL: &str = "PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)";

/// Waits until the command has written so many lines, and returns them.
fn told(place: &Place, lines: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(place.path("told")).unwrap_or_default();
        let found: Vec<_> = text.lines().map(str::to_owned).collect();
        if found.len() >= lines {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(45), "{found:?}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_failure_and_its_end_are_told_once_each() {
    let place = Place::with_store();
    // Whatever the name has, the shell does not read it.
    let name = "a $(touch read) `touch read`; touch read.db";
    let config = format!(
        "to = 'archive'\nexec = '''{EXEC}'''\nevery = '1s'\n[[database]]\npath = '{name}'\n"
    );
    fs::write(place.path("r.toml"), config).unwrap();
    let mut follower = place
        .command(["replicate", "--config", "r.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begins = told(&place, 1);
    let parts: Vec<&str> = begins[0].split('|').collect();
    assert_eq!(parts[0], "failure");
    assert!(parts[1].ends_with(name) && parts[2].ends_with("archive"), "{parts:?}");
    assert!(!parts[3].is_empty() && parts[4].is_empty(), "{parts:?}");
    // Some tries fail; the failure is the same.
    sleep(Duration::from_secs(4));
    assert_eq!(told(&place, 1).len(), 1);
    drop(create(&place.path(name), WAL));
    let both = told(&place, 2);
    assert!(both[1].starts_with("recovery|") && both[1].ends_with("archive|||"), "{both:?}");
    // The commands still sleep.
    let ended = Instant::now();
    let id = follower.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    assert!(follower.wait().unwrap().success());
    assert!(ended.elapsed() < Duration::from_secs(20), "{:?}", ended.elapsed());
    assert_eq!(told(&place, 2).len(), 2);
    assert!(!place.path("read").exists());
    place.ok(["restore", "archive", "--at", "latest", "--to", "r.db"]);
}

#[test]
fn one_database_tells_what_ends_its_follower() {
    let place = Place::with_store();
    let exec = "echo \"$TDEKIT_EVENT $TDEKIT_ERROR\" >> told; exit 3";
    let args = ["replicate", "none.db", "--to", "archive", "--once", "--exec", exec];
    assert_ne!(place.run(args).code, 0);
    let lines = told(&place, 1);
    assert!(lines[0].starts_with("failure ") && lines[0].contains("none.db"), "{lines:?}");
    drop(create(&place.path("app.db"), WAL));
    place.ok(["replicate", "app.db", "--to", "archive", "--once", "--exec", exec]);
    assert_eq!(told(&place, 1).len(), 1);
}
