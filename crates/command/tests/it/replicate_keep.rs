//! `replicate --keep...`: the follower prunes its own archive, and nothing else.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;

use crate::common::{Place, Run};
use crate::databases::create;
use crate::prune_objects::server;
use crate::replicate::{WaitBy, wait_for};

const WAL: &str = "PRAGMA journal_mode = WAL; CREATE TABLE t(n)";

fn object(place: &Place, archive: &str, number: u32) -> PathBuf {
    place.path(&format!("{archive}/{number:016}.tdekit"))
}

fn there(place: &Place, archive: &str) -> Vec<u32> {
    (1..=20).filter(|number| object(place, archive, *number).exists()).collect()
}

/// Ships a chain of its own, of a full set and a log set.
fn chain(place: &Place, db: &Connection, archive: &str, more: &[&str]) -> Run {
    let _ = fs::remove_file(place.path("app.db-replica"));
    let words = ["replicate", "app.db", "--to", archive, "--once"];
    place.ok(words);
    db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    place.ok([&words[..], more].concat())
}

fn end(mut follower: Child) -> Run {
    let id = follower.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    Run::of(&follower.wait_with_output_by(Duration::from_secs(30)))
}

/// Rules count that are given to `replicate`, and no others.
#[test]
fn once_prunes_at_the_end_by_the_rules_that_are_given() {
    let place = Place::with_store();
    let db = create(&place.path("app.db"), WAL);
    fs::write(place.home().join("config.toml"), "[retention]\nkeep_last = 1\n").unwrap();
    chain(&place, &db, "archive", &[]);
    chain(&place, &db, "archive", &[]);
    // An archive below it is another one.
    chain(&place, &db, "archive/other", &[]);
    chain(&place, &db, "archive/other", &[]);
    assert_eq!(there(&place, "archive"), [1, 2, 3, 4]);
    chain(&place, &db, "archive", &["--keep", "1d"]);
    assert_eq!(there(&place, "archive"), [1, 2, 3, 4, 5, 6]);
    let run = chain(&place, &db, "archive", &["--keep-last", "1"]);
    assert!(run.err.contains("6 objects that no rule keeps were removed"), "{run:?}");
    assert_eq!(there(&place, "archive"), [7, 8]);
    assert_eq!(there(&place, "archive/other"), [1, 2, 3, 4]);
    place.ok(["verify", "archive"]);
    place.fails(2, ["replicate", "app.db", "--to", "archive", "--once", "--keep", "soon"]);
    place.fails(2, ["replicate", "--config", "r.toml", "--once", "--keep-last", "1"]);
    // What is damaged is named, and shipped is what there is.
    chain(&place, &db, "archive", &[]);
    fs::write(object(&place, "archive", 7), "no object").unwrap();
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    let words = ["replicate", "app.db", "--to", "archive", "--once", "--keep-last", "1"];
    let told = place.fails(4, words);
    assert!(told.contains("error: "), "{told}");
    assert!(object(&place, "archive", 11).exists() && object(&place, "archive", 7).exists());
    let status = place.json(["replicate", "status", "app.db", "--json"]);
    assert!(status["error"].is_null(), "{status}");
    drop(db);
}

/// Behind each new chain; a failure stops no shipping, and is reported once to `exec`.
#[test]
fn a_follower_prunes_behind_new_chains_and_ships_while_that_fails() {
    let place = Place::with_store();
    for name in ["app.db", "all.db"] {
        drop(create(&place.path(name), WAL));
    }
    let exec = "echo \"$TDEKIT_EVENT $TDEKIT_ARCHIVE $TDEKIT_ERROR\" >> told";
    let config = format!(
        "to = '{{name}}'\nsnapshot_every = '1s'\n[[database]]\npath = 'app.db'\nkeep_last = 1\n\
         exec = '{exec}'\n[[database]]\npath = 'all.db'\n"
    );
    fs::write(place.path("r.toml"), config).unwrap();
    fs::create_dir(place.path("app")).unwrap();
    let held = File::open(place.path("app")).unwrap();
    held.lock().unwrap();
    let follower = place
        .command(["replicate", "--config", "r.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let dbs = ["app.db", "all.db"].map(|name| Connection::open(place.path(name)).unwrap());
    let add = || dbs.each_ref().map(|db| db.execute_batch("INSERT INTO t VALUES (1)").unwrap());
    for number in 1..=3 {
        wait_for(|| {
            add();
            ["app", "all"].iter().all(|archive| object(&place, archive, number).exists())
        });
    }
    let told = || fs::read_to_string(place.path("told")).unwrap_or_default();
    wait_for(|| told().contains("prune-failure "));
    assert!(object(&place, "app", 1).exists());
    drop(held);
    wait_for(|| {
        add();
        !object(&place, "app", 1).exists() && told().contains("prune-recovery ")
    });
    assert!(object(&place, "all", 1).exists(), "it has no rules");
    let run = end(follower);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("app is not pruned: "), "{run:?}");
    assert_eq!(told().matches("failure").count(), 1, "{}", told());
    for archive in ["app", "all"] {
        place.ok(["verify", archive]);
        place.ok(["restore", archive, "--at", "latest", "--to", &format!("{archive}-r.db")]);
    }
    drop(dbs);
}

#[test]
fn an_archive_in_a_store_is_pruned_and_another_below_it_is_not() {
    let Some((server, place)) = server("replicate-keep") else { return };
    // It makes one of its own.
    fs::remove_file(place.path("app.db")).unwrap();
    let db = create(&place.path("app.db"), WAL);
    let archive = format!("{}archive", server.prefix);
    let other = format!("{archive}/other");
    for to in [&archive, &archive, &other, &other] {
        chain(&place, &db, to, &[]);
    }
    let run = chain(&place, &db, &archive, &["--keep-last", "1"]);
    assert!(run.err.contains("4 objects that no rule keeps were removed"), "{run:?}");
    for (to, objects) in [(&archive, 2), (&other, 4)] {
        let verified = place.json(["verify", to, "--json"]);
        assert_eq!(
            (&verified["verdict"], &verified["objects"]),
            (&"whole".into(), &objects.into())
        );
    }
    drop(db);
}
