//! Archives whose last object is damaged, or whose owner is not known.

use std::fs;

use crate::archive_damage::json;
use crate::databases::{Dir, open, place};
use crate::replicate::{Pair, text};

fn shipped(encrypted: bool) -> Pair {
    let pair = Pair::new(encrypted);
    for n in 1..=3 {
        pair.add(n);
        assert_eq!(pair.once(&["--no-sign"]).code, 0);
    }
    pair
}

/// Three chains: programs start the log anew while nobody follows it.
fn chains() -> Pair {
    let pair = Pair::new(false);
    for n in 1..=3 {
        open(&pair.db).execute("INSERT INTO t VALUES (?1, '')", [n]).unwrap();
        assert_eq!(pair.once(&["--no-sign"]).code, 0);
    }
    pair
}

/// As after a power cut: the process that begins then has a record, or none.
#[test]
fn a_chain_begins_behind_a_last_object_that_is_damaged() {
    for (encrypted, is_recorded, left) in
        [(false, true, 0), (false, true, 900), (true, false, 900), (true, true, usize::MAX)]
    {
        let pair = shipped(encrypted);
        let last = pair.archive.join(format!("{:016}.tdekit", pair.objects()));
        let mut bytes = fs::read(&last).unwrap();
        let at = bytes.len() - 20;
        bytes[at] ^= u8::from(left > bytes.len());
        bytes.truncate(left);
        fs::write(&last, bytes).unwrap();
        if !is_recorded {
            fs::remove_file(format!("{}-replica", text(&pair.db))).unwrap();
        }
        pair.add(4);
        let run = pair.once(&["--no-sign"]);
        assert_eq!(run.code, 0, "{encrypted} {is_recorded} {left}: {run:?}");
        assert_eq!(pair.restored("latest"), [1, 2, 3, 4]);
        assert_eq!(place().run(["verify", text(&pair.archive)]).code, 4);
    }
}

/// Of another database's archive, with the first object of this one: which it is, only a record
/// that names this place would show.
#[test]
fn a_record_of_another_place_hides_no_doubt() {
    let (pair, other) = (chains(), chains());
    let first = |of: &Pair| of.archive.join(format!("{:016}.tdekit", 1));
    for object in fs::read_dir(&other.archive).unwrap() {
        let object = object.unwrap();
        if object.path() != first(&other) {
            fs::copy(object.path(), pair.archive.join(object.file_name())).unwrap();
        }
    }
    fs::remove_file(format!("{}-replica", text(&pair.db))).unwrap();
    let to = pair.dir.path("doubtful.db");
    let words = ["restore", text(&pair.archive), "--at", "latest", "--to", text(&to)];
    let run = place().run(words);
    assert!(run.code == 0 && run.err.contains("warning: "), "{run:?}");
    assert!(run.err.contains("names another archive"), "{run:?}");
}

/// Without its key, the header of an encrypted object shows that it is not of a plain chain.
#[test]
fn an_encrypted_object_inside_a_plain_chain_is_not_in_its_place() {
    let (pair, other) = (shipped(false), shipped(true));
    pair.add(4);
    assert_eq!(pair.once(&["--no-sign"]).code, 0);
    fs::copy(other.object(3), pair.object(3)).unwrap();
    for words in [&["verify"][..], &["restore", "--at", "latest"], &["restore", "--at", "3"]] {
        let to = pair.dir.path("none.db");
        let to = ["--to", text(&to)];
        let to = if words.len() > 1 { &to[..] } else { &[] };
        let words = [&words[..1], &[text(&pair.archive)], &words[1..], to].concat();
        let run = place().run(words);
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.err.contains("0000000000000003.tdekit"), "{run:?}");
    }
    let (_, report, _) = json(&["verify", text(&pair.archive)]);
    assert_eq!(report["latest_good"], 2, "{report}");
    assert_eq!(pair.restored("latest-good"), [1, 2]);
    assert_eq!(pair.restored("2"), [1, 2]);
}

/// The record beside the database has the place where it was.
#[test]
fn an_archive_that_was_moved_and_lost_its_end_is_restored_with_a_warning() {
    let pair = shipped(false);
    let moved = pair.dir.path("moved");
    fs::rename(&pair.archive, &moved).unwrap();
    let restore = |at: &str| {
        let to = pair.dir.path(&format!("to-{at}.db"));
        let run = place().run(["restore", text(&moved), "--at", at, "--to", text(&to)]);
        assert_eq!(run.code, 0, "{run:?}");
        run.err.contains("names another archive")
    };
    assert!(!restore("latest"));
    fs::remove_file(moved.join(format!("{:016}.tdekit", 3))).unwrap();
    assert!(restore("latest-good") && restore("2") && !restore("1"));
}

/// A path is bytes, and need not be text.
#[test]
fn an_archive_below_a_directory_that_is_not_text_is_restored() {
    use std::os::unix::ffi::OsStrExt;
    let dir = Dir::new();
    let below = dir.path("").join(std::ffi::OsStr::from_bytes(b"\xe9t\xe9"));
    fs::create_dir(&below).unwrap();
    for name in ["app.db", "other.db"] {
        open(&below.join(name))
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(n)")
            .unwrap();
    }
    let run = |words: &[&str], file: &str| {
        let mut command = place().command(words);
        let ended = command.arg(below.join(file)).output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let mut command = place().command(["replicate", "--once", "--to"]);
    let shipped = command.arg(below.join("archive")).arg(below.join("app.db")).output().unwrap();
    assert!(shipped.status.success(), "{shipped:?}");
    let to = dir.path("restored.db");
    for words in [
        &["restore", "--at", "latest", "--to", text(&to)][..],
        &["verify"],
        &["verify", "--restore-test"],
        &["prune", "--keep-last", "1"],
    ] {
        let (code, said) = run(words, "archive");
        assert_eq!(code, Some(0), "{words:?}: {said}");
    }
    assert!(to.exists());
}
