//! Faults of archives: each is answered with what archives have, and what `prune` removed is none.

use std::fs::{self, File};

use crate::archive_damage::{harm, record, two_chains};
use crate::common::{Place, Run};
use crate::databases::place;
use crate::prune_chain;
use crate::replicate::{five, text};

/// Of a record that cannot be read, nothing is wrong with the history.
#[test]
fn a_record_that_cannot_be_read_is_no_fault_of_the_history() {
    let pair = five();
    fs::write(record(&pair), "a file of the user").unwrap();
    for more in [&[][..], &["--restore-test"], &["--checksums-only"]] {
        let run = place().run([&["verify", text(&pair.archive)][..], more].concat());
        let named = run.err.contains(text(&record(&pair)));
        assert!(run.code == 6 && named && !run.err.contains("history"), "{more:?}: {run:?}");
        assert!(run.err.contains("hint: `tdekit replicate status DATABASE`"), "{run:?}");
    }
}

/// No object has a mirror, and nothing is appended to one.
#[test]
fn a_damaged_object_is_answered_with_what_archives_have() {
    for kind in ["append", "flip", "cut", "header"] {
        let pair = two_chains();
        match kind {
            "append" => {
                let mut bytes = fs::read(pair.object(6)).unwrap();
                bytes.push(7);
                fs::write(pair.object(6), bytes).unwrap();
            }
            kind => harm(&pair, kind, 6),
        }
        let archive = text(&pair.archive);
        let (restored, _) = pair.try_restore("latest");
        let all = [&["verify", archive][..], &["verify", archive, "--restore-test"]];
        let all = all.map(|words| place().run(words));
        for run in all.iter().chain([&restored]) {
            assert_eq!(run.code, 4, "{kind}: {run:?}");
            assert!(run.err.contains("--at latest-good restores"), "{kind}: {run:?}");
            for word in ["mirror", "append", "--position", "earlier set"] {
                assert!(!run.err.contains(word) && !run.out.contains(word), "{kind}: {run:?}");
            }
        }
        assert_eq!(pair.try_restore("latest-good").0.code, 0, "{kind}");
    }
}

/// Chains of four, five and three objects, of which the second one was removed down to an object.
fn half_removed(left: u64) -> (Place, Vec<String>) {
    let place = Place::with_store();
    let keep = prune_chain::ship(&place, "archive");
    let time = |number: u64| {
        let _ = fs::remove_file(place.path("time.db"));
        let at = number.to_string();
        let words = ["restore", "archive", "--at", &at, "--to", "time.db", "--json"];
        place.json(words)["transaction_time"].as_str().unwrap().to_owned()
    };
    let times = (1..=12).map(time).collect();
    let held = File::open(place.path(&format!("archive/{left:016}.tdekit"))).unwrap();
    held.lock().unwrap();
    let run = place.run(["prune", "archive", "--keep-last", "1"]);
    assert_eq!(run.code, 5, "{run:?}");
    drop((held, keep));
    (place, times)
}

fn restore(place: &Place, at: &str) -> Run {
    let _ = fs::remove_file(place.path("to.db"));
    place.run(["restore", "archive", "--at", at, "--to", "to.db"])
}

#[test]
fn a_point_in_a_chain_that_prune_removes_is_not_lost() {
    // The full set alone, and with log sets.
    for left in [5, 6, 7] {
        let (place, times) = half_removed(left);
        let first = left + 1;
        let said = format!("objects {first} to 9 of archive are not there: `prune` has begun");
        let before = format!("--at {left} restores");
        for number in first..=9 {
            let time = &times[usize::try_from(number).unwrap() - 1];
            for at in [time.clone(), number.to_string(), format!("{number}.1")] {
                let run = restore(&place, &at);
                assert!(run.code == 1 && run.err.contains(&said), "{left} {at}: {run:?}");
                assert!(run.err.contains(&before) && !run.err.contains("lost"), "{at}: {run:?}");
            }
        }
        assert_eq!(restore(&place, &left.to_string()).code, 0);
        let overview = place.run(["overview", "app.db"]);
        assert!(!overview.out.contains("DAMAGED"), "{overview:?}");
        // An object that `prune` did not remove is missing all the same.
        fs::remove_file(place.path("archive/0000000000000011.tdekit")).unwrap();
        let run = restore(&place, "11");
        assert!(run.code == 4 && run.err.contains("11.tdekit is missing"), "{run:?}");
    }
}
