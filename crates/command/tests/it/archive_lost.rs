//! Archives from which objects go: removed by `prune`, lost before a new chain began, or lost where
//! the record that would show it cannot be read.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;

use crate::archive_damage::{json, name, record, time_of, tried, two_chains};
use crate::databases::place;
use crate::replicate::{Pair, five, text};

/// Removes objects, one after the other, after a pause each.
fn remove(pair: &Pair, numbers: &[u32], pause: Duration) -> std::thread::JoinHandle<()> {
    let objects: Vec<_> = numbers.iter().map(|number| pair.object(*number)).collect();
    spawn(move || {
        for object in objects {
            sleep(pause);
            fs::remove_file(object).unwrap();
        }
    })
}

/// A chain of which `prune` has removed a part when the archive is listed, and removes the rest.
/// The archive may be named through a link.
#[test]
fn a_chain_that_is_half_removed_is_no_fault() {
    for (gone, rest, link) in
        [(3, [2, 1], false), (1, [3, 2], false), (2, [1, 3], false), (1, [3, 2], true)]
    {
        for more in [&[][..], &["--restore-test"]] {
            let mut pair = two_chains();
            if link {
                let up = pair.dir.path("up");
                std::os::unix::fs::symlink(pair.archive.parent().unwrap(), &up).unwrap();
                pair.archive = up.join("archive");
            }
            fs::remove_file(pair.object(gone)).unwrap();
            let removal = remove(&pair, &rest, Duration::from_millis(300));
            let (code, found, run) = json(&[&["verify", text(&pair.archive)][..], more].concat());
            removal.join().unwrap();
            assert_eq!((code, &found["verdict"]), (0, &"whole".into()), "{gone} {more:?}: {run:?}");
        }
    }
}

/// One that takes long for each object is known by what `prune` records before it begins.
#[test]
fn a_slow_removal_is_waited_for() {
    for more in [&[][..], &["--restore-test"]] {
        let pair = two_chains();
        let history = Connection::open(place().home().join("history.db")).unwrap();
        history.busy_timeout(Duration::from_secs(20)).unwrap();
        let begun = "INSERT INTO prunedmedia VALUES(?1, ?2, 1, 1, '2026-01-01T00:00:00.000Z', NULL,
             'me')";
        for number in [2, 3] {
            let object = pair.object(number).canonicalize().unwrap();
            history.execute(begun, [text(&object), text(&object)]).unwrap();
        }
        fs::remove_file(pair.object(1)).unwrap();
        let removal = remove(&pair, &[3, 2], Duration::from_millis(3500));
        let (code, found, run) = json(&[&["verify", text(&pair.archive)][..], more].concat());
        removal.join().unwrap();
        assert_eq!((code, &found["verdict"]), (0, &"whole".into()), "{more:?}: {run:?}");
    }
}

/// What is behind a missing object goes with its full set, and stays with it.
#[test]
fn prune_leaves_no_part_of_a_chain_with_a_hole() {
    for is_damaged in [false, true] {
        let pair = two_chains();
        let archive = text(&pair.archive);
        fs::remove_file(pair.object(2)).unwrap();
        if is_damaged {
            let mut bytes = fs::read(pair.object(3)).unwrap();
            let end = bytes.len() - 40;
            bytes.truncate(end);
            fs::write(pair.object(3), bytes).unwrap();
        }
        let run = place().run(["prune", archive, "--keep-last", "1"]);
        let left: Vec<u32> = (1..=6).filter(|number| pair.object(*number).exists()).collect();
        let verified = place().run(["verify", archive]);
        match is_damaged {
            false => assert_eq!((run.code, left, verified.code), (0, vec![4, 5, 6], 0), "{run:?}"),
            true => {
                let found = (run.code, left, verified.code);
                assert_eq!(found, (4, vec![1, 3, 4, 5, 6], 4), "{run:?}");
            }
        }
    }
}

/// Faults of the record beside the database.
const FAULTS: [&str; 5] = ["flip", "cut", "empty", "other", "pipe"];

fn harm_record(pair: &Pair, fault: &str) {
    let mut bytes = fs::read(record(pair)).unwrap();
    let middle = bytes.len() / 2;
    match fault {
        "flip" => bytes[middle] ^= 1,
        "cut" => bytes.truncate(middle),
        "empty" => bytes.clear(),
        "other" => bytes = b"a file of the user".to_vec(),
        _ => {
            fs::remove_file(record(pair)).unwrap();
            assert!(Command::new("mkfifo").arg(record(pair)).status().unwrap().success());
            return;
        }
    }
    fs::write(record(pair), bytes).unwrap();
}

/// Without the record nobody knows of newer objects: that one is there and cannot be read is said,
/// and no verdict is that all is whole.
#[test]
fn a_record_that_cannot_be_read_is_named() {
    let pair = five();
    let (whole, newest) = (fs::read(record(&pair)).unwrap(), fs::read(pair.object(6)).unwrap());
    let record_name = record(&pair);
    let archive = text(&pair.archive);
    for fault in FAULTS {
        harm_record(&pair, fault);
        for is_lost in [false, true] {
            if is_lost {
                fs::remove_file(pair.object(6)).unwrap();
            }
            let (code, found, run) = json(&["verify", archive]);
            let verdict = &found["verdict"];
            assert_eq!((code, verdict), (6, &"not_verified".into()), "{fault}: {run:?}");
            let reason = found["not_compared"].as_str().unwrap();
            assert!(reason.contains(text(&record_name)), "{fault}: {reason}");
            assert!(run.err.contains(&format!("warning: {reason}")), "{fault}: {run:?}");
            let run = place().run(["verify", archive, "--checksums-only"]);
            assert_eq!(run.code, 6, "{fault}: {run:?}");
            let report = tried(&pair, 6);
            assert_eq!(report["verdict"], "not_verified", "{fault}: {report}");
            assert_eq!(report["findings"][0]["kind"], "record_not_read", "{fault}: {report}");
            for at in ["latest", "latest-good", "2199-01-01 00:00:00"] {
                let (run, _) = pair.try_restore(at);
                assert!(run.code == 0 && run.err.contains(reason), "{fault} {at}: {run:?}");
            }
            // An earlier point does not depend on it.
            let (run, _) = pair.try_restore("3");
            assert!(run.code == 0 && !run.err.contains(reason), "{fault}: {run:?}");
        }
        let status = place().run(["replicate", "status", text(&pair.db)]);
        assert!(status.code == 4 && status.err.contains(text(&record_name)), "{status:?}");
        let shown = place().run(["overview", text(&pair.db), "--json"]);
        assert!(shown.out.contains("replicate-failed"), "{fault}: {shown:?}");
        fs::write(pair.object(6), &newest).unwrap();
        fs::remove_file(record(&pair)).unwrap();
        fs::write(record(&pair), &whole).unwrap();
        place().ok(["verify", archive]);
    }
    // Damage comes first.
    harm_record(&pair, "flip");
    fs::remove_file(pair.object(3)).unwrap();
    let (code, found, run) = json(&["verify", archive]);
    assert_eq!((code, &found["verdict"]), (4, &"damaged".into()), "{run:?}");
}

/// Another database's record shows nothing of this one's newest objects.
#[test]
fn the_record_of_another_database_is_named() {
    let (pair, other) = (five(), five());
    let (own, archive) = (fs::read(record(&pair)).unwrap(), text(&pair.archive));
    fs::copy(record(&other), record(&pair)).unwrap();
    let newest = fs::read(pair.object(6)).unwrap();
    fs::remove_file(pair.object(6)).unwrap();
    let (code, found, run) = json(&["verify", archive]);
    assert_eq!((code, &found["verdict"]), (6, &"not_verified".into()), "{run:?}");
    let reason = found["not_compared"].as_str().unwrap();
    assert!(
        reason.contains(text(&record(&pair))) && reason.contains("another database"),
        "{found}"
    );
    assert!(run.err.contains(&format!("warning: {reason}")), "{run:?}");
    assert_eq!(tried(&pair, 6)["verdict"], "not_verified");
    let status = place().run(["replicate", "status", text(&pair.db)]);
    assert!(status.code == 4 && status.err.contains("another database"), "{status:?}");
    place().ok(["verify", text(&other.archive)]);
    place().ok(["replicate", "status", text(&other.db)]);
    // Its own record is still its own where the file was replaced.
    fs::write(record(&pair), own).unwrap();
    fs::write(pair.object(6), newest).unwrap();
    fs::copy(&pair.db, pair.dir.path("copy")).unwrap();
    fs::rename(pair.dir.path("copy"), &pair.db).unwrap();
    place().ok(["verify", archive]);
    place().ok(["replicate", "status", text(&pair.db)]);
}

/// Where nothing is left, nothing is whole.
#[test]
fn a_restore_test_of_an_archive_without_objects_is_not_whole() {
    let pair = five();
    for number in 1..=6 {
        fs::remove_file(pair.object(number)).unwrap();
    }
    let report = tried(&pair, 7);
    assert_eq!(report["verdict"], "not_verified", "{report}");
    assert_eq!(report["sets"], serde_json::json!([]), "{report}");
}

/// A record that a process writes just now is read once it is whole.
#[test]
fn a_record_that_is_being_written_is_read_again() {
    let pair = five();
    let (whole, path) = (fs::read(record(&pair)).unwrap(), record(&pair));
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let writer = spawn(move || {
        sleep(Duration::from_millis(100));
        fs::write(path, whole).unwrap();
    });
    place().ok(["verify", text(&pair.archive)]);
    writer.join().unwrap();
}

/// Checks what is said of objects 5 and 6, which were lost before the chain of object 7 began.
fn expect_lost(pair: &Pair, lost_time: &str) {
    let archive = text(&pair.archive);
    let (code, found, run) = json(&["verify", archive]);
    assert_eq!((code, &found["verdict"]), (4, &"lost".into()), "{run:?}");
    let findings = found["findings"].as_array().unwrap();
    let finding = findings[0].as_str().unwrap();
    assert!(findings.len() == 1 && finding.contains(&name(5)), "{found}");
    assert!(finding.contains("objects 5 to 6 were lost"), "{found}");
    assert_eq!(found["passed_over"], serde_json::json!([]), "{found}");
    let shown = place().run(["verify", archive]);
    assert!(shown.out.contains("OBJECTS WERE LOST") && !shown.out.contains("DAMAGED"), "{shown:?}");
    let (run, to) = pair.try_restore(lost_time);
    assert!(run.code == 4 && !to.exists(), "{run:?}");
    assert!(run.err.contains("objects 5 to 6 were lost") && run.err.contains("--at 4"), "{run:?}");
    assert_eq!(pair.restored("4"), [1, 2, 3]);
    let rows = pair.restored("latest");
    assert_eq!(rows[..6], [1, 2, 3, 4, 5, 6]);
    let report = tried(pair, 4);
    assert_eq!(report["verdict"], "lost", "{report}");
    assert!(report["sets"].as_array().unwrap().iter().all(|set| set["ok"] == true), "{report}");
    let overview = place().run(["overview", text(&pair.db), "--json"]);
    let overview: Value = serde_json::from_str(&overview.out).unwrap();
    assert_eq!(overview["databases"][0]["verify_ok"], false, "{overview}");
}

/// A new chain behind objects that were lost says so, also if the first try to begin it failed.
#[test]
fn objects_that_were_lost_before_a_new_chain_are_named_as_such() {
    for first_fails in [false, true] {
        let pair = five();
        let lost_time = time_of(&pair, "6");
        for number in [5, 6] {
            fs::remove_file(pair.object(number)).unwrap();
        }
        pair.add(6);
        if first_fails {
            // It is killed when it writes more than the system lets it.
            let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--once"];
            let program = place().command([&words[..], &["--certificate", "AppCert"]].concat());
            let mut limited = Command::new("sh");
            limited.args(["-c", "ulimit -c 0; ulimit -f 8; exec \"$0\" \"$@\""]);
            limited.arg(program.get_program()).args(program.get_args()).env_clear();
            let set = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
            let ended = limited.envs(set).stdout(Stdio::null()).stderr(Stdio::null()).status();
            assert!(!ended.unwrap().success());
            assert!(!pair.object(7).exists() && !pair.object(5).exists());
        }
        let said = pair.ship();
        assert!(said.contains("the last object of the archive is not the one"), "{said}");
        assert!(pair.object(7).exists() && !pair.object(5).exists(), "{said}");
        expect_lost(&pair, &lost_time);
        // It stays known.
        pair.add(7);
        pair.ship();
        expect_lost(&pair, &lost_time);
    }
}

/// Of a chain that was lost as a whole, the next one says no more than why it began.
#[test]
fn a_restore_to_a_time_in_a_lost_chain_names_the_reason() {
    let pair = five();
    sleep(Duration::from_millis(1100));
    let run = pair.once(&["--snapshot-every", "1s"]);
    assert!(run.code == 0 && run.err.contains("the last full set is old"), "{run:?}");
    pair.add(6);
    pair.ship();
    let last = u32::try_from(pair.objects()).unwrap();
    let lost_time = time_of(&pair, "latest");
    for number in 7..=last {
        fs::remove_file(pair.object(number)).unwrap();
    }
    pair.ship();
    assert!(pair.object(last + 1).exists());
    let (run, to) = pair.try_restore(&lost_time);
    assert!(run.code == 1 && !to.exists(), "{run:?}");
    assert!(
        run.err.contains("begun with this reason: the last object of the archive is not"),
        "{run:?}"
    );
    // Not so of one that `prune` removed.
    pair.add(7);
    pair.ship();
    let pruned_time = time_of(&pair, "latest");
    sleep(Duration::from_millis(1100));
    assert_eq!(pair.once(&["--snapshot-every", "1s"]).code, 0);
    let objects = fs::read_dir(&pair.archive).unwrap().map(|entry| entry.unwrap().path());
    let mut newer: Vec<_> = objects.filter(|object| *object > pair.object(last)).collect();
    newer.sort();
    newer.pop();
    newer.iter().for_each(|object| fs::remove_file(object).unwrap());
    let (run, _) = pair.try_restore(&pruned_time);
    assert!(run.code == 1 && run.err.contains("is not known"), "{run:?}");
    assert!(run.err.contains("with this reason: the last full set is old"), "{run:?}");
}
