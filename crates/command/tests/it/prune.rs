//! `prune`: what it removes, what it keeps, and what a crash at any step leaves.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tdekit_faults_sqlite::trace::{is_possible, record};

use crate::common::Place;
use crate::databases::create;
use crate::powercut::{Choice, each_image};

/// A store, a database `app.db`, and a directory `media`.
fn with_database() -> Place {
    let place = Place::with_store();
    place.ok(["cert", "create", "C"]);
    place.ok(["cert", "backup", "C", "--pkcs12", "C.p12"]);
    drop(create(
        &place.path("app.db"),
        "CREATE TABLE t(a); INSERT INTO t VALUES(randomblob(9000))",
    ));
    fs::create_dir(place.path("media")).unwrap();
    place
}

fn backup(place: &Place, name: &str, more: &[&str]) -> PathBuf {
    let to = format!("media/{name}");
    place.ok([&["backup", "app.db", "--to", &to, "--certificate", "C"], more].concat());
    place.path(&to)
}

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path("media")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the names of the media sets with this fate.
fn with_fate(report: &Value, fate: &str) -> Vec<String> {
    let media = report["media"].as_array().unwrap().iter();
    let with = media.filter(|media| media["fate"] == fate);
    let places = with.flat_map(|media| media["places"].as_array().unwrap());
    let name = |place: &Value| place.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let mut names: Vec<_> = places.map(name).collect();
    names.sort();
    names
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_dry_run_shows_what_the_run_then_does() {
    let place = with_database();
    for name in ["w1.bak", "w2.bak", "w3.bak"] {
        backup(&place, name, &[]);
        backup(&place, name, &["--differential"]);
    }
    let first = ["--to", "media/m1.bak", "--to", "media/m2.bak", "--certificate", "C"];
    place.ok([&["backup", "--stdin", "--name", "log"][..], &first].concat());
    fs::write(place.path("media/notes.txt"), "mine").unwrap();
    let before = names(&place);
    let prune = ["prune", "media", "--keep-last", "1", "--json"];
    let dry = place.json([&prune[..], &["--dry-run"]].concat());
    assert_eq!(names(&place), before);
    assert_eq!(with_fate(&dry, "remove"), ["w1.bak", "w2.bak"]);
    // The full set in front of the newest differential one, and the only stream, on two mirrors.
    assert_eq!(with_fate(&dry, "keep"), ["m1.bak", "m2.bak", "w3.bak"]);
    let w3 = dry["media"].as_array().unwrap();
    let w3 = w3.iter().find(|media| media["places"][0].as_str().unwrap().ends_with("w3.bak"));
    let why = &w3.unwrap()["sets"];
    assert!(why[0]["keep"][0].as_str().unwrap().starts_with("needed by "), "{why}");
    assert_eq!(why[1]["keep"], serde_json::json!(["the newest", "last"]));
    let run = place.json(prune);
    for fate in ["remove", "keep"] {
        assert_eq!(with_fate(&run, fate), with_fate(&dry, fate));
    }
    assert_eq!(run["removed_bytes"], dry["removed_bytes"]);
    assert_eq!(names(&place), ["m1.bak", "m2.bak", "notes.txt", "w3.bak"]);
    let again = place.json(prune);
    assert_eq!(again["removed_bytes"], 0);
    assert_eq!(again["missing"], serde_json::json!([]));

    // The history, the key store and the estate follow.
    let history = place.json(["history", "--json"]);
    let removed = history.as_array().unwrap().iter().filter(|set| !set["prune_date"].is_null());
    assert_eq!(removed.count(), 4);
    let told = place.fails(7, ["verify", "media/w1.bak"]);
    assert!(told.contains("`prune` removed it at"), "{told}");
    let told = place.fails(7, ["restore", "media/w1.bak", "--to", "x.db"]);
    assert!(told.contains("`prune` removed it at"), "{told}");
    place.ok(["verify", "media/w3.bak"]);
    let estate: Value = serde_json::from_str(&place.run(["overview", ".", "--json"]).out).unwrap();
    let row = &estate["databases"][0];
    assert_eq!(row["verify_ok"], true, "{row}");
    assert_eq!(row["last_backup"]["full"], false, "{row}");
    let uses = place.json(["cert", "list", "--json"])[0]["used_by"].clone();
    let paths: Vec<_> = uses.as_array().unwrap().iter().map(|it| &it["path"]).collect();
    assert!(paths.iter().all(|path| !path.as_str().unwrap().contains("w1.bak")), "{uses}");

    // What is put back is there again.
    let media = fs::read(place.path("media/w3.bak")).unwrap();
    backup(&place, "w4.bak", &[]);
    place.ok(["verify", "media/w4.bak"]);
    place.ok(prune);
    assert!(!place.path("media/w3.bak").exists());
    fs::write(place.path("media/w3.bak"), media).unwrap();
    place.ok(["history", "--scan", "media"]);
    let history = place.json(["history", "--json"]);
    let removed = history.as_array().unwrap().iter().filter(|set| !set["prune_date"].is_null());
    assert_eq!(removed.count(), 4);
    place.ok(["verify", "media/w3.bak"]);
}

#[test]
fn without_a_rule_and_where_it_is_unclear_nothing_goes() {
    let mut place = with_database();
    backup(&place, "a.bak", &[]);
    backup(&place, "b.bak", &["--expire", "2037-01-01"]);
    backup(&place, "c.bak", &[]);
    backup(&place, "d.bak", &[]);
    let all = names(&place);
    assert!(place.fails(2, ["prune", "media"]).contains("no rule"));
    place.fails(2, ["prune", "media", "--keep-last", "0"]);
    let told = place.fails(1, ["prune", "media", "--keep-last", "1", "--database", "other.db"]);
    assert!(told.contains("other.db"), "{told}");
    place.fails(7, ["prune", "nowhere", "--keep-last", "1"]);
    assert_eq!(names(&place), all);
    // One media set: its older sets cannot be taken out of it.
    backup(&place, "d.bak", &["--append"]);
    let told = place.run(["prune", "media/d.bak", "--keep-last", "1"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.contains("cannot be taken out of a media set"), "{told:?}");
    place.ok(["prune", "media/d.bak", "--keep-last", "2"]);
    // The history knows the only verified one; another has not expired.
    place.ok(["verify", "media/a.bak"]);
    place.ok(["prune", "media", "--keep-last", "1"]);
    assert_eq!(names(&place), ["a.bak", "b.bak", "d.bak"]);
    // Rules of the configuration.
    fs::write(place.home().join("config.toml"), "[retention]\nkeep_daily = 3\n").unwrap();
    place.ok(["prune", "media"]);
    place.set("TDEKIT_PASSWORD", "");
    fs::write(place.home().join("config.toml"), "[retention]\nkeep = \"soon\"\n").unwrap();
    place.fails(2, ["prune", "media"]);
}

#[test]
fn damaged_media_are_kept_named_and_count_for_nothing() {
    for (what, code) in [("block", 4), ("header", 4), ("magic", 4), ("cut", 4), ("tail", 4)] {
        let place = with_database();
        let old = backup(&place, "a.bak", &[]);
        let whole = backup(&place, "b.bak", &[]);
        let newest = backup(&place, "c.bak", &[]);
        let bytes = fs::read(&newest).unwrap();
        match what {
            // A block's damage shows when it is read: the history has it.
            "block" => {
                let middle = bytes.len() / 2;
                flip(&newest, middle);
                assert_eq!(place.run(["verify", "media/c.bak"]).code, 4);
            }
            "header" => flip(&newest, 40),
            "magic" => flip(&newest, 3),
            "cut" => fs::write(&newest, &bytes[..bytes.len() - 700]).unwrap(),
            _ => fs::write(&newest, [&bytes[..], &[7; 300]].concat()).unwrap(),
        }
        let dry = place.run(["prune", "media", "--keep-last", "1", "--dry-run"]);
        let run = place.run(["prune", "media", "--keep-last", "1"]);
        if what != "block" {
            assert_eq!((dry.code, run.code), (code, code), "{what}: {run:?}");
            assert!(run.err.contains("c.bak"), "{what}: {run:?}");
        }
        // The damaged one is not the newest that counts.
        assert!(newest.exists() && whole.exists() && !old.exists(), "{what}: {run:?}");
    }
}

#[test]
fn who_writes_there_keeps_it() {
    let place = with_database();
    let old = backup(&place, "a.bak", &[]);
    backup(&place, "b.bak", &[]);
    let writer = File::open(&old).unwrap();
    writer.lock().unwrap();
    let run = place.run(["prune", "media", "--keep-last", "1"]);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.out.contains("NOT REMOVED") && run.err.contains("a.bak"), "{run:?}");
    assert!(old.exists());
    drop(writer);
    let dir = File::open(place.path("media")).unwrap();
    dir.lock().unwrap();
    place.fails(5, ["prune", "media", "--keep-last", "1"]);
    drop(dir);
    place.ok(["prune", "media", "--keep-last", "1"]);
    assert!(!old.exists());
}

/// After a kill or a power cut at any step, what was kept is there, and the next run ends with what
/// the first one would have left: on disk, in the history and in the key store.
#[test]
fn the_next_run_finishes_what_a_killed_one_began() {
    if !is_possible() {
        return;
    }
    let place = with_database();
    let striped = ["--to", "media/s2.bak", "--stripe"];
    backup(&place, "a.bak", &[]);
    backup(&place, "s1.bak", &striped);
    let mirrored = ["--to", "media/m2.bak"];
    backup(&place, "m1.bak", &mirrored);
    let kept = backup(&place, "z.bak", &[]);
    let kept_bytes = fs::read(&kept).unwrap();
    let roots = [place.path("media"), place.home()].map(|root| fs::canonicalize(root).unwrap());
    let prune = ["prune", "media", "--keep-last", "1"];
    let traced = record(&place.command(prune), &roots, None).unwrap();
    assert!(traced.output.status.success(), "{:?}", traced.output);
    assert_eq!(names(&place), ["z.bak"]);
    let (mut finished, mut untouched) = (0, 0);
    let images = each_image(&traced.log, &roots, Choice::of(60), |image| {
        assert!(fs::read(&kept).unwrap() == kept_bytes, "{}", image.what);
        let dry = place.run([&prune[..], &["--dry-run", "--json"]].concat());
        assert_eq!(dry.code, 0, "{}: {dry:?}", image.what);
        let dry: Value = serde_json::from_str(&dry.out).unwrap();
        finished += usize::from(!with_fate(&dry, "finish").is_empty());
        untouched += usize::from(with_fate(&dry, "remove").len() == 5);
        let run = place.run(prune);
        assert_eq!(run.code, 0, "{}: {run:?}", image.what);
        assert_eq!(names(&place), ["z.bak"], "{}", image.what);
        let history = place.json(["history", "--json"]);
        let history = history.as_array().unwrap();
        let removed = history.iter().filter(|set| !set["prune_date"].is_null()).count();
        assert_eq!((history.len(), removed), (4, 3), "{}", image.what);
        let uses = place.json(["cert", "list", "--json"])[0]["used_by"].clone();
        assert_eq!(uses.as_array().unwrap().len(), 1, "{}: {uses}", image.what);
        assert_eq!(place.json([&prune[..], &["--json"]].concat())["missing"], Value::Array(vec![]));
    });
    eprintln!("{images} images; {untouched} before the first removal, {finished} within one");
    assert!(images > 20 && finished > 0 && untouched > 0);
    place.ok(["restore", "media/z.bak", "--to", "r.db", "--check"]);
}

/// Each directory is pruned by itself, and the other one's sets count.
#[test]
fn a_base_in_one_directory_is_kept_for_a_differential_set_in_another() {
    let place = Place::with_store();
    for directory in ["g", "h"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    crate::databases::fill(&place.path("a.db"), 5);
    place.ok(["backup", "a.db", "--to", "g/f1.bak"]);
    place.ok(["backup", "a.db", "--differential", "--to", "h/d1.bak"]);
    place.ok(["backup", "a.db", "--to", "g/f2.bak"]);
    let prune = |directory: &str| {
        place.json(["prune", directory, "--keep-last", "1", "--json"])["media"].clone()
    };
    let kept = prune("g").to_string();
    assert!(kept.contains("needed by a set in another place"), "{kept}");
    prune("h");
    place.ok(["restore", "h/d1.bak", "--to", "r.db"]);
    // Removed by hand, beside a newer set: nothing stands on it any more.
    place.ok(["backup", "a.db", "--differential", "--to", "h/d2.bak"]);
    fs::remove_file(place.path("h/d1.bak")).unwrap();
    prune("g");
    assert!(!place.path("g/f1.bak").exists() && place.path("g/f2.bak").exists());
    place.ok(["restore", "h/d2.bak", "--to", "s.db"]);
}

/// A disk that is not mounted does not make the sets on it forgotten.
#[test]
fn a_base_of_log_sets_that_are_out_of_reach_is_kept() {
    let place = Place::with_store();
    for directory in ["g", "h"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    crate::databases::fill(&place.path("a.db"), 5);
    let change = || {
        let db = rusqlite::Connection::open(place.path("a.db")).unwrap();
        db.execute_batch("CREATE TABLE IF NOT EXISTS more(n); INSERT INTO more VALUES (1)")
            .unwrap();
    };
    place.ok(["backup", "a.db", "--to", "g/f1.bak"]);
    change();
    place.ok(["backup", "a.db", "--log", "--to", "h/l1.bak"]);
    change();
    place.ok(["backup", "a.db", "--to", "g/f2.bak"]);
    let prune = || place.ok(["prune", "g", "--keep-last", "1"]);
    fs::rename(place.path("h"), place.path("away")).unwrap();
    prune();
    fs::create_dir(place.path("h")).unwrap();
    prune();
    fs::remove_dir(place.path("h")).unwrap();
    fs::rename(place.path("away"), place.path("h")).unwrap();
    place.ok(["restore", "h/l1.bak", "--to", "r.db"]);
    // It was removed, and its directory is there.
    fs::write(place.path("h/other"), "").unwrap();
    fs::remove_file(place.path("h/l1.bak")).unwrap();
    prune();
    assert!(!place.path("g/f1.bak").exists() && place.path("g/f2.bak").exists());
}

/// A differential set counts by its age, wherever its base is; without a base it counts for no
/// rule.
#[test]
fn differential_sets_go_when_their_base_is_elsewhere() {
    let place = with_database();
    place.ok(["backup", "app.db", "--to", "full.bak", "--certificate", "C"]);
    for name in ["d1.bak", "d2.bak", "d3.bak"] {
        backup(&place, name, &["--differential"]);
    }
    let full = place.path("full.bak");
    let whole = fs::read(&full).unwrap();
    let keep_last = ["prune", "media", "--keep-last", "2"];
    let faults = |bytes: Option<Vec<u8>>| {
        match bytes {
            Some(bytes) => fs::write(&full, bytes).unwrap(),
            None => fs::remove_file(&full).unwrap(),
        }
        place.run(keep_last);
        assert_eq!(names(&place), ["d1.bak", "d2.bak", "d3.bak"]);
    };
    faults(None);
    faults(Some(b"other".to_vec()));
    for at in [40, 200] {
        fs::write(&full, &whole).unwrap();
        flip(&full, at);
        faults(Some(fs::read(&full).unwrap()));
    }
    fs::write(&full, &whole).unwrap();
    flip(&full, whole.len() / 2);
    assert_eq!(place.run(["verify", "media/d3.bak"]).code, 4);
    faults(Some(fs::read(&full).unwrap()));
    fs::write(&full, &whole).unwrap();
    for name in ["d1.bak", "d2.bak", "d3.bak"] {
        place.ok(["verify", &format!("media/{name}")]);
    }
    place.ok(keep_last);
    assert_eq!(names(&place), ["d2.bak", "d3.bak"]);
    place.ok(["verify", "media/d2.bak"]);
    // The base is kept for them.
    place.ok(["backup", "app.db", "--to", "newer.bak", "--certificate", "C"]);
    place.ok(["prune", ".", "--keep-last", "2"]);
    assert!(full.exists());
}

/// A media set goes as a whole: what no rule keeps of it stays, and stays restorable.
#[test]
fn a_base_is_kept_for_a_set_that_only_stays() {
    let place = with_database();
    let full = backup(&place, "full.bak", &[]);
    backup(&place, "own.bak", &["--differential"]);
    backup(&place, "own.bak", &["--append"]);
    let report = place.json(["prune", "media", "--keep-last", "1", "--json"]);
    assert!(report.to_string().contains("needed by a set that stays"), "{report}");
    assert!(full.exists());
    place.ok(["verify", "media/own.bak"]);
}
