//! Archives whose last object is damaged, or whose owner is not known.

use std::fs;

use crate::databases::{open, place};
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
