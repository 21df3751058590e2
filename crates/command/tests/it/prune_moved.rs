//! `prune` after media sets were moved: a scan takes their old places off the history, no others.

use std::fs;

use crate::common::Place;
use crate::databases::fill;

/// A full set in `g`, a differential set on it in `h`, and a newer full set in `g`.
fn with_media() -> Place {
    let place = Place::with_store();
    for directory in ["g", "h"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    fill(&place.path("a.db"), 5);
    place.ok(["backup", "a.db", "--to", "g/f1.bak"]);
    place.ok(["backup", "a.db", "--differential", "--to", "h/d1.bak"]);
    place.ok(["backup", "a.db", "--to", "g/f2.bak"]);
    place
}

fn rename(place: &Place, from: &str, to: &str) {
    fs::rename(place.path(from), place.path(to)).unwrap();
}

/// Returns the old places, each behind the test's directory.
fn scan(place: &Place, directory: &str) -> Vec<String> {
    let found = place.json(["history", "--scan", directory, "--json"]);
    let left = found["left"].as_array().unwrap().iter();
    let root = fs::canonicalize(place.path("")).unwrap();
    left.map(|path| {
        let path = std::path::Path::new(path.as_str().unwrap());
        path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()
    })
    .collect()
}

/// Prunes a directory with a newer set in it; returns whether the base is there afterwards.
fn base_stays(place: &Place, directory: &str) -> bool {
    place.ok(["backup", "a.db", "--to", &format!("{directory}/new.bak")]);
    place.ok(["prune", directory, "--keep-last", "1"]);
    place.ok(["prune", "g", "--keep-last", "1"]);
    place.path("g/f1.bak").exists()
}

#[test]
fn what_was_moved_needs_its_base_where_it_is() {
    let place = with_media();
    rename(&place, "h", "away");
    assert_eq!(scan(&place, "away"), ["h/d1.bak"]);
    let history = place.json(["history", "--json"]).to_string();
    assert!(history.contains("away/d1.bak") && !history.contains("h/d1.bak"), "{history}");
    // It is there, and stands on the base.
    let run = place.ok(["prune", "g", "--keep-last", "1"]);
    assert!(run.out.contains("needed by a set in another place"), "{run:?}");
    assert!(place.path("g/f1.bak").exists());
    assert!(!base_stays(&place, "away"));
}

/// The name that it had is another media set's now.
#[test]
fn another_media_set_in_its_place_is_not_it() {
    let place = with_media();
    rename(&place, "h/d1.bak", "h/d0.bak");
    place.ok(["backup", "a.db", "--to", "h/d1.bak"]);
    assert_eq!(scan(&place, "h"), ["h/d1.bak"]);
    assert!(!base_stays(&place, "h"));
}

/// A place that is out of reach may have another copy, which still needs the base.
#[test]
fn a_copy_is_not_a_move() {
    // The history knows both.
    let place = with_media();
    fs::create_dir(place.path("b")).unwrap();
    place.ok(["copy", "h/d1.bak", "b/d1.bak"]);
    rename(&place, "h", "unmounted");
    assert_eq!(scan(&place, "b"), [""; 0]);
    assert!(base_stays(&place, "b"));
    // Nobody recorded the copy, and an empty directory is left of the disk.
    let place = with_media();
    rename(&place, "h", "unmounted");
    fs::create_dir_all(place.path("h")).unwrap();
    fs::create_dir(place.path("b")).unwrap();
    fs::copy(place.path("unmounted/d1.bak"), place.path("b/d1.bak")).unwrap();
    assert_eq!(scan(&place, "b"), [""; 0]);
    assert!(base_stays(&place, "b"));
    // One of two places was moved: which one is not clear.
    let place = with_media();
    fs::create_dir(place.path("b")).unwrap();
    place.ok(["copy", "h/d1.bak", "b/d1.bak"]);
    rename(&place, "h", "unmounted");
    rename(&place, "b", "c");
    assert_eq!(scan(&place, "c"), [""; 0]);
    assert!(base_stays(&place, "c"));
}
