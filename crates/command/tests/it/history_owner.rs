//! Whose file the history is.

use std::os::unix::fs::{MetadataExt, chown};

use crate::common::Place;
use crate::databases::fill;

#[test]
fn root_reads_a_history_of_the_user_of_its_directory_and_no_other_users() {
    let place = Place::with_store();
    fill(&place.path("app.db"), 10);
    place.ok(["backup", "app.db", "--to", "a.bak"]);
    let history = place.home().join("history.db");
    if history.metadata().unwrap().uid() != 0 {
        // Nobody else can give a file away.
        return;
    }
    chown(&history, Some(4711), None).unwrap();
    let said = place.fails(6, ["history"]);
    assert!(said.contains("not an ordinary file of yours"), "{said}");
    let warned = place.ok(["backup", "app.db", "--to", "b.bak"]).err;
    assert!(warned.contains("not an ordinary file of yours"), "{warned}");
    // The key store of another user, which root uses for them.
    chown(place.home(), Some(4711), None).unwrap();
    assert!(place.ok(["history"]).out.contains("a.bak"));
    chown(&history, Some(0), None).unwrap();
    assert!(place.ok(["history"]).out.contains("a.bak"));
    chown(&history, Some(4712), None).unwrap();
    place.fails(6, ["history"]);
}
