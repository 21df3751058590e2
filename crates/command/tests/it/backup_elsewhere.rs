//! Sets that stand on sets of other media, which the history finds.

use std::fs;

use crate::common::Place;
use crate::databases::fill;

/// A store with a database `app.db`.
fn with_database() -> Place {
    let place = Place::with_store();
    fill(&place.path("app.db"), 50);
    place
}

fn change(place: &Place) {
    let db = rusqlite::Connection::open(place.path("app.db")).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS more(n); INSERT INTO more VALUES (1)").unwrap();
}

/// It is not the same as a history without a base.
#[test]
fn a_history_that_cannot_be_read_is_the_error_of_what_needs_it() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak"]);
    change(&place);
    place.ok(["backup", "app.db", "--log", "--to", "log.bak"]);
    let history = place.home().join("history.db");
    fs::rename(&history, place.path("kept")).unwrap();
    fs::write(&history, "no history").unwrap();
    for kind in ["--differential", "--log"] {
        let told = place.fails(4, ["backup", "app.db", kind, "--to", "new.bak"]);
        assert!(told.contains("history.db") && !told.contains("no base"), "{kind} {told}");
        assert!(told.contains("history --scan"), "{told}");
    }
    // Its base is not on the same media.
    let told = place.fails(4, ["backup", "app.db", "--log", "--to", "log.bak"]);
    assert!(told.contains("history.db") && !told.contains("no base"), "{told}");
    let told = place.fails(4, ["restore", "log.bak", "--position", "1", "--to", "r.db"]);
    assert!(told.contains("history.db"), "{told}");
    let told = place.run(["verify", "log.bak"]);
    assert!(told.code == 4 && told.out.contains("history.db"), "{told:?}");
    assert!(!place.path("new.bak").exists() && !place.path("r.db").exists());
    // What needs no other media needs no history.
    for kind in ["--differential", "--log"] {
        place.ok(["backup", "app.db", kind, "--to", "full.bak"]);
    }
    place.ok(["restore", "full.bak", "log.bak", "--position", "1", "--to", "r.db"]);
    fs::rename(place.path("kept"), history).unwrap();
    place.ok(["verify", "log.bak"]);
    place.ok(["backup", "app.db", "--differential", "--to", "new.bak"]);
}
