//! An archive of binary logs without a server: verified as a whole, and written out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::Place;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Ships bytes as `mariadb archive` ships a log.
fn ship(place: &Place, logs: &Path, number: u32, log: &[u8], first_event: Option<&str>) {
    let input = place.secret_file("log", log);
    let (name, to) = (format!("binlog.{number:06}"), object(logs, number));
    let begins = first_event.map(|header| format!(", first event: {header}"));
    let begins = begins.unwrap_or_default();
    let description = format!("MariaDB binary log of bytes: {}{begins}", log.len());
    let words = ["backup", "--stdin", "--name", &name, "--description", &description];
    let mut command = place.command(words);
    command.args(["--certificate", "Logs", "--to", text(&to)]);
    let input = Stdio::from(fs::File::open(input).unwrap());
    assert!(command.stdin(input).output().unwrap().status.success());
}

/// A store, and an archive with the logs of these numbers, as `mariadb archive` makes them.
fn archive(numbers: &[u32]) -> (Place, PathBuf) {
    let place = Place::with_store();
    place.ok(["cert", "create", "Logs"]);
    let logs = place.path("logs");
    fs::create_dir(&logs).unwrap();
    for number in numbers {
        ship(&place, &logs, *number, format!("log {number}").repeat(5000).as_bytes(), None);
    }
    (place, logs)
}

fn object(logs: &Path, number: u32) -> PathBuf {
    logs.join(format!("binlog.{number:06}.binlog"))
}

/// Expects the exit code and the verdict of `verify`, and returns its report.
fn verdict(place: &Place, logs: &Path, code: i32, verdict: &str) -> serde_json::Value {
    let run = place.run(["verify", text(logs), "--json"]);
    assert_eq!(run.code, code, "{run:?}");
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["verdict"], verdict, "{run:?}");
    let shown = place.run(["verify", text(logs)]);
    assert_eq!(shown.code, code, "{shown:?}");
    let word = if verdict == "not_verified" { "not verified" } else { verdict };
    assert!(shown.out.to_lowercase().contains(word), "{shown:?}");
    report
}

/// Objects of an archive that are named one by one are judged together.
#[test]
fn a_log_that_is_missing_between_several_is_named() {
    let (place, logs) = archive(&[7, 8, 9]);
    let objects = [7, 8, 9].map(|number| object(&logs, number));
    let [first, middle, last] = objects.each_ref().map(|object| text(object));
    place.ok(["verify", first, last, middle]);
    place.ok(["restore", first, middle, last, "--to", text(&place.path("all"))]);
    assert_eq!(fs::read_dir(place.path("all")).unwrap().count(), 3);
    let gap = "logs 8 to 8 are not in it: nothing is replayed across that";
    let run = place.run(["verify", first, last]);
    assert!(run.code == 4 && run.err.contains(gap), "{run:?}");
    assert!(run.err.contains("`tdekit mariadb archive`") && !run.err.contains("--position"));
    let run = place.run(["verify", "--restore-test", last, first]);
    assert!(run.code == 4 && run.err.contains(gap), "{run:?}");
    let out = place.path("out");
    let run = place.run(["restore", last, first, "--to", text(&out)]);
    assert!(run.code == 4 && run.err.contains(gap), "{run:?}");
    assert!(!run.err.contains("mirror"), "{run:?}");
    // What is there was written out, in two lines.
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
    assert_eq!(run.out.matches("mariadb-binlog").count(), 2, "{run:?}");
    fs::write(middle, "nothing").unwrap();
    let run = place.run(["restore", first, middle, last, "--to", text(&place.path("none"))]);
    assert!(run.code == 4 && run.err.contains("binlog.000008"), "{run:?}");
    assert!(!place.path("none").exists());
    fs::remove_file(middle).unwrap();
    assert_eq!(place.run(["verify", first, middle, last]).code, 7);
}

/// An object of an archive holds one log, and `prune` keeps it.
#[test]
fn no_backup_goes_to_the_place_of_a_binary_log() {
    let (place, logs) = archive(&[7]);
    crate::databases::fill(&place.path("app.db"), 10);
    let object = object(&logs, 7);
    let whole = fs::read(&object).unwrap();
    for how in [&["--append"][..], &["--init"], &["--differential"]] {
        let words = ["backup", "app.db", "--to", text(&object), "--certificate", "Logs"];
        let told = place.fails(1, [&words[..], how].concat());
        assert!(told.contains("the binary log binlog.000007 of an archive"), "{how:?} {told}");
    }
    assert_eq!(fs::read(&object).unwrap(), whole);
    verdict(&place, &logs, 0, "whole");
}

#[test]
fn an_archive_of_binary_logs_is_verified() {
    let (mut place, logs) = archive(&[7, 8, 9]);
    let report = verdict(&place, &logs, 0, "whole");
    let names: Vec<_> = report["logs"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["binlog.000007", "binlog.000008", "binlog.000009"]);
    assert_eq!((&report["logs"][1]["ok"], &report["logs"][1]["number"]), (&true.into(), &8.into()));
    place.fails(2, ["verify", text(&logs), "--position", "1"]);
    assert_eq!(place.run(["verify", text(&logs), "--signed-by", "Other"]).code, 3);
    place.ok(["verify", text(&logs), "--signed-by", "Logs"]);
    // Flipped bits anywhere in an object, in turn.
    let middle = object(&logs, 8);
    let whole = fs::read(&middle).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 23) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&middle, bytes).unwrap();
        let report = verdict(&place, &logs, 4, "damaged");
        let told = report.to_string();
        assert!(told.contains("binlog.000008") || told.contains("logs 8 to 8"), "{at}: {told}");
    }
    // Cut inside the signature, which is the last record: nothing is written out either.
    fs::write(&middle, &whole[..whole.len() - 100]).unwrap();
    verdict(&place, &logs, 4, "damaged");
    let to = place.path("none");
    let told = place.fails(4, ["restore", text(&logs), "--to", text(&to)]);
    assert!(told.contains("binlog.000008") && !to.exists(), "{told}");
    // Another log in its place, something else, and nothing.
    fs::copy(object(&logs, 7), &middle).unwrap();
    verdict(&place, &logs, 4, "damaged");
    fs::write(&middle, "nothing").unwrap();
    verdict(&place, &logs, 4, "damaged");
    fs::remove_file(&middle).unwrap();
    let report = verdict(&place, &logs, 4, "damaged");
    assert_eq!(report["missing"], serde_json::json!([[8, 8]]));
    let run = place.run(["verify", text(&logs), "--restore-test"]);
    assert!(run.code == 4 && run.err.contains("logs 8 to 8 are not in it"), "{run:?}");
    // Those at the beginning may be gone.
    fs::remove_file(object(&logs, 7)).unwrap();
    verdict(&place, &logs, 0, "whole");
    place.ok(["restore", text(&logs), "--to", text(&place.path("out"))]);
    // Without a key only structure and checksums are checked.
    place.set("TDEKIT_PASSWORD", "");
    verdict(&place, &logs, 6, "not_verified");
    place.ok(["verify", text(&logs), "--checksums-only"]);
}

/// Which log an object holds shows without a key, also of a set that an older version made.
#[test]
fn inspect_names_the_binary_log() {
    let (place, logs) = archive(&[7]);
    let keyless = Place::empty();
    let old = keyless.run(["inspect", text(&object(&logs, 7))]);
    assert!(
        old.out.contains("binary log binlog.000007 of a MariaDB server, 25000 bytes"),
        "{old:?}"
    );
    let begins = "4033a96a0f01000000fc00000000010000";
    let description = format!("MariaDB binary log of bytes: 358, first event: {begins}");
    let (input, to) = (place.secret_file("log", b"log"), object(&logs, 8));
    let words = ["backup", "--stdin", "--name", "binlog.000008", "--description", &description];
    let mut command = place.command(words);
    command.args(["--certificate", "Logs", "--to", text(&to)]);
    let input = Stdio::from(fs::File::open(input).unwrap());
    assert!(command.stdin(input).output().unwrap().status.success());
    let report = keyless.json(["inspect", text(&to), "--json"]);
    let expected = serde_json::json!({
        "name": "binlog.000008", "bytes": 358, "begun": "2026-09-15T12:00:00.000Z"
    });
    assert_eq!(report["sets"][0]["binary_log"], expected, "{report}");
    assert_eq!(report["verified"], false);
    let shown = keyless.run(["inspect", text(&to)]);
    assert!(shown.out.contains("358 bytes, begun 2026-09-15T12:00:00.000Z"), "{shown:?}");
}

/// An event of a log: a header, and a body of zeros.
fn event(time: u32, kind: u8) -> Vec<u8> {
    let mut event = [&time.to_le_bytes()[..], &[kind, 0, 0, 0, 0, 60, 0, 0, 0]].concat();
    event.resize(60, 0);
    event
}

/// A time behind the end of the last log: what was committed by then is in none, or may be.
#[test]
fn a_time_behind_the_last_log_is_warned_of() {
    let (place, logs) = archive(&[]);
    let (begun, ended) = (event(1_700_000_000, 15), event(1_700_000_600, 4));
    let magic = b"\xfebin";
    let log = [&magic[..], &begun, &ended].concat();
    let header = hex::encode(&begun[..19]);
    let restored = |at: &str| {
        let to = place.path("out");
        let _ = fs::remove_dir_all(&to);
        place.ok(["restore", text(&logs), "--to", text(&to), "--at", at]).err
    };
    ship(&place, &logs, 7, &log, Some(&header));
    let warning = "the last log, binlog.000007, was ended at 2023-11-14T22:23:20.000Z: whatever \
                   was committed after that, and before 2023-11-14T22:23:21.000Z, is in none";
    assert!(restored("2023-11-14 22:23:21").contains(warning));
    for at in ["2023-11-14 22:23:20", "2023-11-14 22:00:00", "latest"] {
        assert_eq!(restored(at), "", "{at}");
    }
    // The last one was not ended by the server; of one before that does not matter.
    ship(&place, &logs, 8, &log[..64], Some(&header));
    let said = restored("2023-11-14 22:13:21");
    assert!(said.contains("binlog.000008, was begun at 2023-11-14T22:13:20.000Z"), "{said}");
    assert!(said.contains("and nothing shows when it was ended"), "{said}");
    assert_eq!(restored("2023-11-14 22:13:20"), "");
    // Nothing shows when it was begun either.
    ship(&place, &logs, 9, b"some content", None);
    let said = restored("2023-11-14 22:00:00");
    assert!(said.contains("nothing shows when the last log, binlog.000009, was ended"), "{said}");
    assert_eq!(restored("latest"), "");
}
