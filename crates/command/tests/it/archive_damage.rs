//! Archives with damage: every reader names the same objects, and a verdict is never that of what
//! could be read.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tdekit_backup_run::Run as Steered;
use tdekit_backup_run::archive::{Archive, ArchivePlace, KnownRemovals};

use crate::bench::signal;
use crate::common::{Place, Run};
use crate::databases::{Dir, one, open, place};
use crate::replicate::{Pair, WaitBy, five, text, wait_for};

pub(crate) fn name(number: u32) -> String {
    format!("{number:016}.tdekit")
}

/// Runs a command with `--json`, and returns its exit code and what it printed.
pub(crate) fn json(words: &[&str]) -> (i32, Value, Run) {
    let run = place().run([words, &["--json"]].concat());
    let printed = serde_json::from_str(&run.out);
    (run.code, printed.unwrap_or_else(|_| panic!("{words:?}: {run:?}")), run)
}

/// Restores on trial, and returns what was printed.
pub(crate) fn tried(pair: &Pair, code: i32) -> Value {
    let (found, report, run) = json(&["verify", text(&pair.archive), "--restore-test"]);
    assert_eq!(found, code, "{run:?}");
    report
}

/// Two chains, of a full set and two log sets each, with rows of noise.
pub(crate) fn two_chains() -> Pair {
    let pair = Pair::new(false);
    for chain in 0..2 {
        let keep = pair.db();
        for n in 0..3 {
            let sql = format!("INSERT INTO t VALUES ({chain}{n}, hex(randomblob(200000)))");
            keep.execute_batch(&sql).unwrap();
            pair.ship();
        }
        drop(keep);
        fs::remove_file(record(&pair)).unwrap();
    }
    assert_eq!(pair.objects(), 6);
    pair
}

pub(crate) fn record(pair: &Pair) -> PathBuf {
    format!("{}-replica", text(&pair.db)).into()
}

/// Returns the time of a transaction, as `--at` takes it.
pub(crate) fn time_of(pair: &Pair, at: &str) -> String {
    let to = pair.dir.path("time.db");
    let _ = fs::remove_file(&to);
    let words = ["restore", text(&pair.archive), "--at", at, "--to", text(&to), "--json"];
    let restored = place().json(words);
    restored["transaction_time"].as_str().unwrap().to_owned()
}

/// What can happen to an object.
const KINDS: [&str; 9] =
    ["flip", "header", "cut", "missing", "twice", "foreign", "dangling", "empty", "directory"];

pub(crate) fn harm(pair: &Pair, kind: &str, number: u32) {
    match kind {
        "twice" => drop(fs::copy(pair.object(number - 1), pair.object(number)).unwrap()),
        kind => harm_file(&pair.object(number), kind),
    }
}

pub(crate) fn harm_file(object: &Path, kind: &str) {
    let mut bytes = fs::read(object).unwrap();
    let middle = bytes.len() / 2;
    fs::remove_file(object).unwrap();
    match kind {
        "flip" => bytes[middle] ^= 1,
        "header" => bytes[20] ^= 1,
        "cut" => bytes.truncate(bytes.len() - 40),
        "foreign" => bytes = vec![7; 3000],
        "empty" => bytes.clear(),
        "missing" => return,
        "dangling" => return symlink("nowhere", object).unwrap(),
        _ => return fs::create_dir(object).unwrap(),
    }
    fs::write(object, bytes).unwrap();
}

pub(crate) fn mend(pair: &Pair, number: u32, whole: &[u8]) {
    let object = pair.object(number);
    if object.is_dir() {
        fs::remove_dir(&object).unwrap();
    }
    let _ = fs::remove_file(&object);
    fs::write(&object, whole).unwrap();
}

/// Whatever is wrong with two objects: `verify`, `restore` and the restore test name the first one,
/// and the first two list the same.
#[test]
fn all_readers_name_the_same_objects() {
    let pair = two_chains();
    let to = pair.dir.path("good.db");
    let whole: Vec<_> = (1..=6).map(|number| fs::read(pair.object(number)).unwrap()).collect();
    for (kind, later) in KINDS.iter().flat_map(|kind| [(*kind, "flip"), (*kind, "nothing")]) {
        harm(&pair, kind, 5);
        if later == "flip" {
            harm(&pair, later, 6);
        }
        let (code, found, run) = json(&["verify", text(&pair.archive)]);
        assert!(code == 4 && found["verdict"] == "damaged", "{kind}: {run:?}");
        let first = &found["passed_over"][0];
        assert_eq!((&found["latest_good"], &first["number"]), (&4.into(), &5.into()), "{kind}");
        let _ = fs::remove_file(&to);
        let words = ["restore", text(&pair.archive), "--at", "latest-good", "--to", text(&to)];
        let (code, restored, run) = json(&words);
        assert_eq!((code, &restored["transaction"]), (0, &"4".into()), "{kind}: {run:?}");
        assert_eq!(restored["passed_over"], found["passed_over"], "{kind}");
        assert_eq!(run.err.matches("passed over: ").count(), 2, "{kind}: {run:?}");
        for at in ["latest", "6"] {
            let (run, to) = pair.try_restore(at);
            assert!(run.code == 4 && run.err.contains(&name(5)), "{kind} {at}: {run:?}");
            assert!(!to.exists(), "{kind} {at}");
        }
        let report = tried(&pair, 4);
        assert_eq!(report["verdict"], "damaged", "{kind}");
        assert!(report["findings"].to_string().contains(&name(5)), "{kind}: {report}");
        let sets = report["sets"].as_array().unwrap();
        let of = |object: u32| {
            let is_it = |set: &&Value| set["places"][0].as_str().unwrap().ends_with(&name(object));
            sets.iter().find(is_it).map(|set| set["ok"] == true)
        };
        // The other chain, and the full set of this one, are tried all the same.
        assert_eq!([1, 3, 4].map(of), [Some(true); 3], "{kind}: {report}");
        let pruned = place().run(["prune", text(&pair.archive), "--keep", "1h", "--json"]);
        assert!(serde_json::from_str::<Value>(&pruned.out).is_ok(), "{kind}: {pruned:?}");
        // `prune` looks at headers, and does not miss log sets.
        let expected = if ["flip", "twice", "missing"].contains(&kind) { 0 } else { 4 };
        assert_eq!(pruned.code, expected, "{kind}: {pruned:?}");
        for number in [5, 6] {
            mend(&pair, number, &whole[number as usize - 1]);
        }
    }
    assert_eq!(tried(&pair, 0)["verdict"], "whole");
}

/// Two objects in each other's place, whichever they are, also where the last one is the only one
/// of its chain.
#[test]
fn exchanged_objects_have_one_name() {
    let pair = two_chains();
    let swap = |a: u32, b: u32| {
        let away = pair.dir.path("away");
        for (from, to) in [
            (pair.object(a), &away),
            (pair.object(b), &pair.object(a)),
            (away.clone(), &pair.object(b)),
        ] {
            fs::rename(from, to).unwrap();
        }
    };
    for last in [6, 5, 4] {
        for (a, b) in (1..=last).flat_map(|a| (a + 1..=last).map(move |b| (a, b))) {
            swap(a, b);
            let (code, found, run) = json(&["verify", text(&pair.archive)]);
            assert!(code == 4 && run.err.contains(&name(a)), "{a} {b}: {run:?}");
            let (run, to) = pair.try_restore("latest");
            let mut passed = found["passed_over"].as_array().unwrap().iter();
            // Which chain is needed is said by the last object, unless that is another one.
            let needed = if b == last { 1 } else { 4 };
            match passed.find(|it| it["number"].as_u64() >= Some(needed)) {
                None => assert_eq!(run.code, 0, "{a} {b} of {last}: {run:?}"),
                Some(first) => {
                    let reason = first["reason"].as_str().unwrap();
                    assert!(!to.exists() && run.code == 4, "{a} {b} of {last}: {run:?}");
                    assert!(run.err.contains(reason), "{a} {b} of {last}: {reason} {run:?}");
                }
            }
            swap(a, b);
        }
        fs::remove_file(pair.object(last)).unwrap();
    }
}

/// Numbers show without a key what is missing, and what goes on behind it.
#[test]
fn a_missing_object_is_named_without_a_key() {
    let pair = two_chains();
    let keyless = Place::empty();
    let verify = |code: i32| -> Value {
        let run = keyless.run(["verify", text(&pair.archive), "--json"]);
        assert_eq!(run.code, code, "{run:?}");
        serde_json::from_str(&run.out).unwrap()
    };
    assert_eq!(verify(6)["latest_good"], 6);
    fs::remove_file(pair.object(5)).unwrap();
    let found = verify(4);
    assert_eq!(
        (&found["latest_good"], found["findings"].as_array().unwrap().len()),
        (&4.into(), 2)
    );
    fs::remove_file(pair.object(2)).unwrap();
    let found = verify(4);
    assert_eq!(
        (&found["latest_good"], found["findings"].as_array().unwrap().len()),
        (&4.into(), 4)
    );
}

/// The end of a chain may be a link, and is tried.
#[test]
fn an_object_that_is_a_link_is_tried() {
    let pair = two_chains();
    let away = pair.dir.path("away");
    fs::rename(pair.object(6), &away).unwrap();
    symlink(&away, pair.object(6)).unwrap();
    assert_eq!(tried(&pair, 0)["sets"].as_array().unwrap().len(), 4);
    let mut bytes = fs::read(&away).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&away, bytes).unwrap();
    tried(&pair, 4);
    // A link that goes round, which cannot be opened.
    fs::remove_file(pair.object(5)).unwrap();
    symlink(pair.object(5), pair.object(5)).unwrap();
    let report = tried(&pair, 4);
    assert!(report["findings"].to_string().contains(&name(5)), "{report}");
    assert_eq!(place().run(["verify", text(&pair.archive)]).code, 4);
    for at in ["latest", "5", "6"] {
        let (run, _) = pair.try_restore(at);
        assert!(run.code == 4 && run.err.contains(&name(5)), "{at}: {run:?}");
        assert!(run.err.contains("is a link that leads to itself"), "{at}: {run:?}");
    }
    assert_eq!(pair.try_restore("latest-good").0.code, 0);
}

/// An empty place is not a damaged one.
#[test]
fn an_archive_without_objects_has_one_exit_code() {
    let dir = Dir::new();
    let (archive, to) = (dir.path("archive"), dir.path("r.db"));
    fs::create_dir(&archive).unwrap();
    for words in [
        &["verify", text(&archive)][..],
        &["verify", text(&archive), "--restore-test"],
        &["restore", text(&archive), "--at", "latest", "--to", text(&to)],
        &["replicate", "status", text(&archive)],
    ] {
        let run = place().run(words);
        assert!(run.code == 7 && run.err.contains(text(&archive)), "{words:?}: {run:?}");
    }
}

/// A search of a directory follows no links: what is in an object's place is named all the same.
#[test]
fn prune_names_a_link_and_a_directory_in_an_objects_place() {
    for kind in ["dangling", "directory"] {
        let pair = two_chains();
        harm(&pair, kind, 5);
        let words = ["prune", text(&pair.archive), "--keep", "1h", "--json"];
        let run = place().run(words);
        let found: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(run.code, 4, "{kind}: {run:?}");
        let unreadable = found["unreadable"].as_array().unwrap();
        let path = unreadable[0]["path"].as_str().unwrap();
        assert!(unreadable.len() == 1 && path.ends_with(&name(5)), "{kind}: {found}");
    }
}

/// What `prune` removes is no fault, if it removed a whole chain.
#[test]
fn a_chain_that_goes_while_the_archive_is_verified_is_no_fault() {
    let pair = two_chains();
    let opened = || Archive::open(&ArchivePlace::of(pair.archive.as_os_str())).unwrap();
    let mut listed = opened();
    for number in [3, 2, 1] {
        fs::remove_file(pair.object(number)).unwrap();
    }
    let none = KnownRemovals { is_pruning: &|_| false, begun: &|_| BTreeSet::new() };
    let report = listed.verify((None, &Steered::default()), &none).unwrap();
    assert_eq!((report.findings.len(), report.objects, report.good), (0, 3, Some(6)));
    // One object of a chain is one.
    let mut listed = opened();
    fs::remove_file(pair.object(5)).unwrap();
    let report = listed.verify((None, &Steered::default()), &none).unwrap();
    assert!(report.findings[0].message.contains(&name(5)), "{report:?}");
    // So is everything.
    let mut listed = opened();
    for number in [4, 6] {
        fs::remove_file(pair.object(number)).unwrap();
    }
    assert!(listed.verify((None, &Steered::default()), &none).is_err());
}

#[test]
fn a_chain_that_goes_during_a_restore_test_is_no_fault() {
    for is_whole_chain in [true, false] {
        let pair = two_chains();
        let scratch = pair.dir.path("scratch");
        fs::create_dir(&scratch).unwrap();
        let words =
            ["verify", text(&pair.archive), "--restore-test", "--json", "--throttle", "1MB"];
        let words = [&words[..], &["--scratch", text(&scratch)]].concat();
        let mut test = place().command(words);
        let test = test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The first set is being restored.
        wait_for(|| fs::read_dir(&scratch).unwrap().next().is_some());
        for number in if is_whole_chain { &[3, 2, 1][..] } else { &[3, 2] } {
            fs::remove_file(pair.object(*number)).unwrap();
        }
        let run = Run::of(&test.wait_with_output().unwrap());
        let report: Value = serde_json::from_str(&run.out).unwrap();
        let sets = report["sets"].as_array().unwrap();
        let of = |object: u32| {
            let is_it = |set: &&Value| set["places"][0].as_str().unwrap().ends_with(&name(object));
            sets.iter().find(is_it).map(|set| set["ok"] == true)
        };
        assert_eq!([4, 6].map(of), [Some(true); 2], "{report}");
        // Both may have been read before.
        let is_read = of(3) == Some(true) && report["unreadable"] == serde_json::json!([]);
        let expected = if is_whole_chain || is_read { 0 } else { 4 };
        assert_eq!(run.code, expected, "{is_whole_chain}: {run:?}");
    }
}

/// The machine that ships knows what it shipped.
#[test]
fn the_newest_object_that_is_gone_is_noticed_where_it_was_shipped() {
    let pair = five();
    let to = pair.dir.path("to.db");
    fs::remove_file(pair.object(6)).unwrap();
    let (code, found, _) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["latest_good"]), (4, &5.into()));
    for at in ["latest", "6", "6.1"] {
        let (run, to) = pair.try_restore(at);
        assert!(run.code == 4 && run.err.contains(&name(6)), "{at}: {run:?}");
        assert!(run.err.contains("-replica says that it was shipped") && !to.exists(), "{run:?}");
    }
    let words = ["restore", text(&pair.archive), "--to", text(&to)];
    let (code, restored, run) = json(&[&words[..], &["--at", "latest-good"]].concat());
    assert_eq!((code, &restored["transaction"]), (0, &"5.1".into()), "{run:?}");
    assert_eq!(restored["passed_over"], found["passed_over"]);
    assert!(run.err.contains("passed over: ") && run.err.contains(&name(6)), "{run:?}");
    fs::remove_file(&to).unwrap();
    // What was committed by then is not known.
    let run = place().run([&words[..], &["--at", "2199-01-01 00:00:00"]].concat());
    assert!(run.code == 1 && run.err.contains("objects 6 to 6"), "{run:?}");
    assert!(run.err.contains("--at 5") && !to.exists(), "{run:?}");
    let run = place().run([&words[..], &["--follow"]].concat());
    assert!(run.code == 4 && run.err.contains(&name(6)) && !to.exists(), "{run:?}");
    // Another object in its place.
    let other = five();
    fs::copy(other.object(6), pair.object(6)).unwrap();
    let (run, _) = pair.try_restore("latest");
    assert!(run.code == 4 && run.err.contains(&name(6)), "{run:?}");
    // Elsewhere, nobody knows of it.
    fs::remove_file(pair.object(6)).unwrap();
    fs::remove_file(record(&pair)).unwrap();
    assert_eq!(pair.restored("latest"), [1, 2, 3, 4]);
    assert_eq!(pair.try_restore("6").0.code, 1);
}

#[test]
fn a_full_set_that_is_gone_is_named_as_other_objects_are() {
    let pair = five();
    fs::remove_file(pair.object(1)).unwrap();
    for at in ["1", "2", "latest"] {
        let (run, _) = pair.try_restore(at);
        assert!(run.code == 4 && run.err.contains(&name(1)), "{at}: {run:?}");
    }
    let (code, found, _) = json(&["verify", text(&pair.archive)]);
    assert_eq!((code, &found["passed_over"][0]["number"]), (4, &1.into()), "{found}");
    let (run, _) = pair.try_restore("latest-good");
    assert!(run.code == 4 && run.err.contains(&name(1)), "{run:?}");
    assert!(run.err.contains("and 5 more finding(s)"), "{run:?}");
    // A chain that was removed as a whole was not lost.
    let pair = two_chains();
    for number in 1..=3 {
        fs::remove_file(pair.object(number)).unwrap();
    }
    let (run, _) = pair.try_restore("2");
    assert!(run.code == 1 && run.err.contains("no transaction 2"), "{run:?}");
    place().ok(["verify", text(&pair.archive)]);
}

/// An object that is there and leads nowhere is not one that is still to come.
#[test]
fn a_standby_names_the_next_object_that_leads_nowhere() {
    let pair = five();
    let to = pair.dir.path("standby.db");
    let (sixth, away) = (pair.object(6), pair.dir.path("away"));
    fs::rename(&sixth, &away).unwrap();
    symlink(&away, &sixth).unwrap();
    fs::rename(pair.object(5), pair.dir.path("fifth")).unwrap();
    fs::rename(&sixth, pair.dir.path("link")).unwrap();
    fs::remove_file(record(&pair)).unwrap();
    let words = ["restore", text(&pair.archive), "--follow", "--to", text(&to)];
    let standby = place().command(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut standby = standby.unwrap();
    wait_for(|| to.exists());
    symlink("nowhere", pair.object(5)).unwrap();
    let status = || place().run(["replicate", "status", text(&to)]);
    wait_for(|| status().out.contains(&name(5)));
    fs::remove_file(pair.object(5)).unwrap();
    fs::rename(pair.dir.path("fifth"), pair.object(5)).unwrap();
    fs::rename(pair.dir.path("link"), &sixth).unwrap();
    let count = "SELECT count(*) FROM t";
    wait_for(|| one::<u32>(&open(&to), count) == 5);
    sleep(Duration::from_millis(100));
    signal(standby.id(), "TERM");
    let ended = Run::of(&standby.wait_with_output_by(Duration::from_secs(20)));
    assert!(ended.code == 0 && ended.err.contains("is missing"), "{ended:?}");
}

/// A log set that was restored on trial is in the history, and is not a differential one.
#[test]
fn overview_knows_log_sets() {
    let pair = five();
    tried(&pair, 0);
    fs::remove_file(record(&pair)).unwrap();
    let db = text(&pair.db);
    let run = place().run(["overview", db, "--json"]);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    let last = &found["databases"][0]["last_backup"];
    assert!(last["log"] == true && last["full"] == false && last["shipped"] == false, "{last}");
    let shown = place().run(["overview", db]).out;
    assert!(shown.contains("(log)") && !shown.contains("(differential)"), "{shown}");
}

/// Damage of a log set that `verify` finds is shown until it was read whole.
#[test]
fn overview_knows_log_sets_that_are_damaged() {
    let pair = five();
    let archive = text(&pair.archive);
    let whole = fs::read(pair.object(3)).unwrap();
    harm(&pair, "flip", 3);
    assert_eq!(place().run(["verify", archive]).code, 4);
    let shown = place().run(["overview", text(&pair.db)]);
    assert!(shown.code == 1 && shown.out.contains("DAMAGED"), "{shown:?}");
    mend(&pair, 3, &whole);
    place().ok(["verify", archive]);
    let shown = place().run(["overview", text(&pair.db)]);
    assert!(!shown.out.contains("DAMAGED"), "{shown:?}");
}

#[test]
fn a_pipe_in_place_of_the_record_is_not_waited_for() {
    let pair = two_chains();
    assert!(!record(&pair).exists());
    assert!(Command::new("mkfifo").arg(record(&pair)).status().unwrap().success());
    let mut verify = place().command(["verify", text(&pair.archive)]);
    let mut verify = verify.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ended = Run::of(&verify.wait_with_output_by(Duration::from_secs(20)));
    assert!(ended.code == 6 && ended.err.contains("is not a record"), "{ended:?}");
}

/// Runs a command that may read no more than the permissions of files allow, also as root.
pub(crate) fn as_user(words: &[&str]) -> Run {
    let program = place().command(words);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = Command::new(if is_root { "setpriv" } else { "env" });
    if is_root {
        command.arg("--bounding-set=-dac_override,-dac_read_search");
    }
    command.arg(program.get_program()).args(program.get_args()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Run::of(&command.output().unwrap())
}

/// An object that the system refuses is not damaged: `verify` and `restore` end with 7 and name it,
/// and what is before it is restored.
#[test]
fn an_object_that_the_system_refuses_is_not_damaged() {
    let pair = five();
    let archive = text(&pair.archive);
    place().ok(["verify", archive]);
    for number in [6, 4] {
        fs::set_permissions(pair.object(number), fs::Permissions::from_mode(0o000)).unwrap();
        let run = as_user(&["verify", archive]);
        assert!(run.code == 7 && run.err.contains(&name(number)), "{number}: {run:?}");
        assert!(!run.out.contains("DAMAGED"), "{number}: {run:?}");
        let to = pair.dir.path("to.db");
        let run = as_user(&["restore", archive, "--at", "latest", "--to", text(&to)]);
        assert!(run.code == 7 && run.err.contains(&name(number)), "{number}: {run:?}");
        assert!(!to.exists(), "{number}");
        let run = as_user(&["restore", archive, "--at", "latest-good", "--to", text(&to)]);
        assert!(run.code == 0 && run.err.contains(&name(number)), "{number}: {run:?}");
        fs::remove_file(&to).unwrap();
        fs::set_permissions(pair.object(number), fs::Permissions::from_mode(0o600)).unwrap();
        place().ok(["verify", archive]);
    }
}
