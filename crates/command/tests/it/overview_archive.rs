//! Findings of `overview` about archives and their objects.

use std::fs;

use serde_json::Value;

use crate::archive_chains::{Form, ship};
use crate::archive_damage::name;
use crate::common::Place;
use crate::databases::{create, place};
use crate::replicate::{Pair, text};

fn overview(pair: &Pair) -> String {
    place().run(["overview", text(&pair.db), "--json"]).out
}

/// The database is a file that was copied, under its old name.
#[test]
fn a_missing_archive_is_found_where_the_database_is_another_file() {
    let pair = Pair::new(false);
    for row in 1..=3 {
        // Nobody follows the database then, so that the next object is a full set.
        create(&pair.db, &format!("INSERT INTO t VALUES ({row}, 'away')"));
        ship(&pair, Form::Plain, &[]);
    }
    let copied = pair.dir.path("copied");
    fs::copy(&pair.db, &copied).unwrap();
    fs::rename(&copied, &pair.db).unwrap();
    assert!(!overview(&pair).contains("archive-wrong"));
    let last = fs::read(pair.object(3)).unwrap();
    fs::remove_file(pair.object(3)).unwrap();
    assert!(overview(&pair).contains("archive-wrong"));
    fs::write(pair.object(3), last).unwrap();
    let away = pair.dir.path("away");
    fs::rename(&pair.archive, &away).unwrap();
    assert!(overview(&pair).contains("archive-wrong"));
    fs::rename(&away, &pair.archive).unwrap();
    assert!(!overview(&pair).contains("archive-wrong"));
}

/// The key store lists the objects of archives beside databases; their names show what they are.
#[test]
fn an_object_that_is_gone_is_no_database_without_a_history() {
    let place = Place::with_store();
    place.ok(["cert", "create", "C"]);
    let (db, archive) = (place.path("app.db"), place.path("archive"));
    drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(a)"));
    let words = ["replicate", text(&db), "--to", text(&archive), "--once", "--certificate", "C"];
    place.ok(words);
    let gone = place.path("gone.db");
    drop(create(&gone, "CREATE TABLE t(a)"));
    place.ok(["encrypt", text(&gone), "--certificate", "C"]);
    fs::remove_file(&gone).unwrap();
    fs::remove_file(archive.join(name(1))).unwrap();
    let directory = db.parent().unwrap();
    for has_history in [true, false] {
        if !has_history {
            fs::remove_file(place.home().join("history.db")).unwrap();
        }
        let found: Value =
            serde_json::from_str(&place.run(["overview", text(directory), "--json"]).out).unwrap();
        let rows = found["databases"].as_array().unwrap();
        let has = |end: &str| rows.iter().any(|row| row["path"].as_str().unwrap().ends_with(end));
        assert!(has("gone.db") && !has(".tdekit"), "{has_history}: {found}");
    }
}
