//! Media sets: appended sets, mirrors, stripes, differential sets, streams, overwriting.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::common::Run;
use crate::databases::{Dir, dump, encrypt, fill, open, place};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn backup(database: &Path, media: &[&Path], more: &[&str]) -> Run {
    place().ok(backup_args(database, media, more))
}

fn backup_args<'a>(database: &'a Path, media: &[&'a Path], more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["backup", text(database)];
    arguments.extend(media.iter().flat_map(|media| ["--to", text(media)]));
    arguments.extend(more);
    arguments
}

fn restore(media: &[&Path], to: &Path, more: &[&str]) -> Run {
    let mut arguments = vec!["restore"];
    arguments.extend(media.iter().map(|media| text(media)));
    arguments.extend(["--to", text(to)]);
    place().ok([&arguments, more].concat())
}

fn dump_of(path: &Path) -> Vec<String> {
    dump(&open(path))
}

#[test]
fn mirrors_are_equal_and_one_heals_the_other() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 4000);
    let before = dump_of(&path);
    let (a, b) = (dir.path("a.bak"), dir.path("b.bak"));
    for more in [&[][..], &["--append"]] {
        backup(&path, &[&a, &b], &[&["--certificate", "AppCert"], more].concat());
        assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    }
    let mut bytes = fs::read(&a).unwrap();
    let middle = bytes.len() / 4;
    bytes[middle] ^= 1;
    fs::write(&a, bytes).unwrap();
    let told = place().run(["verify", text(&a)]);
    assert_eq!(told.code, 4, "{told:?}");
    assert!(told.out.contains("DAMAGED") && told.err.contains("1 of 2 set(s)"), "{told:?}");
    place().ok(["verify", text(&a), "--position", "2"]);
    place().fails(4, ["restore", text(&a), "--position", "1", "--to", text(&dir.path("no.db"))]);
    assert!(!dir.path("no.db").exists());
    let run = restore(&[&a, &b], &dir.path("r.db"), &["--position", "1"]);
    assert!(run.err.contains("read from another"), "{run:?}");
    assert_eq!(dump_of(&dir.path("r.db")), before);
}

#[test]
fn stripes_need_all_their_files() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 20_000);
    let before = dump_of(&path);
    let (a, b, c) = (dir.path("a.bak"), dir.path("b.bak"), dir.path("c.bak"));
    let media: [&Path; 3] = [&a, &b, &c];
    for more in [&[][..], &["--append"]] {
        let all = [&["--stripe", "--certificate", "AppCert"], more].concat();
        backup(&path, &media, &all);
    }
    let report = place().json(["inspect", text(&c), text(&a), text(&b), "--json"]);
    assert_eq!(report["sets"].as_array().unwrap().len(), 2);
    assert_eq!(report["sets"][0]["families"], 3);
    restore(&[&c, &a, &b], &dir.path("r.db"), &["--check"]);
    assert_eq!(dump_of(&dir.path("r.db")), before);
    let to = dir.path("no.db");
    let some = ["restore", text(&a), text(&c), "--to", text(&to)];
    assert!(place().fails(1, some).contains("missing"));
    let one = dir.path("x.bak");
    place().fails(2, backup_args(&path, &[&one], &["--stripe"]));
}

#[test]
fn a_differential_set_holds_what_changed() {
    for sealed in [false, true] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        fill(&path, 30_000);
        if sealed {
            encrypt(&path, &[]);
        }
        let media = dir.path("app.bak");
        let key: &[&str] = if sealed { &[] } else { &["--certificate", "AppCert"] };
        place().fails(1, backup_args(&path, &[&media], &[&["--differential"], key].concat()));
        backup(&path, &[&media], key);
        let first = dump_of(&path);
        let full = fs::metadata(&media).unwrap().len();
        open(&path).execute_batch("UPDATE t SET a = a || '!' WHERE id < 50").unwrap();
        let second = dump_of(&path);
        let made = backup(&path, &[&media], &[&["--differential", "--json"], key].concat());
        let made: serde_json::Value = serde_json::from_str(&made.out).unwrap();
        assert_eq!((&made["type"], &made["differential_base_position"]), (&"I".into(), &1.into()));
        assert!(made["pages_stored"].as_u64().unwrap() * 5 < made["pages"].as_u64().unwrap());
        assert!((fs::metadata(&media).unwrap().len() - full) * 4 < full);
        // The second one is based on the full set as well, not on the first.
        open(&path).execute_batch("DELETE FROM t WHERE id > 20000; VACUUM").unwrap();
        let third = dump_of(&path);
        backup(&path, &[&media], &[&["--differential"], key].concat());
        for (position, expected) in [("1", &first), ("2", &second), ("3", &third)] {
            let restored = dir.path(&format!("r{position}.db"));
            let run = restore(&[&media], &restored, &["--position", position, "--check"]);
            let chain = if position == "1" { "from set 1" } else { "from set 1 and" };
            assert!(run.out.contains(chain), "{run:?}");
            assert_eq!(&dump_of(&restored), expected, "{position}");
        }
        // Encrypted from plain pages, both a chain and a full set.
        let restored = dir.path("again.db");
        restore(&[&media], &restored, &["--certificate", "Second"]);
        assert_eq!(dump_of(&restored), third);
    }
}

#[test]
fn log_backups_follow_each_other() {
    for sealed in [false, true] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        fill(&path, 30_000);
        if sealed {
            encrypt(&path, &[]);
        }
        let media = dir.path("app.bak");
        let key: &[&str] = if sealed { &[] } else { &["--certificate", "AppCert"] };
        let log = [&["--log"], key].concat();
        place().fails(1, backup_args(&path, &[&media], &log));
        place().fails(2, backup_args(&path, &[&media], &[&log[..], &["--init"]].concat()));
        backup(&path, &[&media], key);
        let full = fs::metadata(&media).unwrap().len();
        let mut states = vec![dump_of(&path)];
        for n in 1..4 {
            let change = format!("UPDATE t SET a = a || '{n}' WHERE id = {n}");
            open(&path).execute_batch(&change).unwrap();
            let made = backup(&path, &[&media], &[&log[..], &["--json"]].concat());
            let made: serde_json::Value = serde_json::from_str(&made.out).unwrap();
            assert_eq!(
                (&made["type"], &made["differential_base_position"]),
                (&"L".into(), &n.into())
            );
            assert!(made["pages_stored"].as_u64().unwrap() < 20, "{made}");
            states.push(dump_of(&path));
        }
        assert!((fs::metadata(&media).unwrap().len() - full) * 4 < full);
        let report = place().json(["verify", text(&media), "--json"]);
        assert_eq!(report["verdict"], "whole");
        let tried = ["verify", text(&media), "--restore-test", "--json"];
        let tried = place().json(tried);
        assert_eq!(
            (tried["sets"].as_array().unwrap().len(), &tried["verdict"]),
            (4, &"whole".into())
        );
        for (position, expected) in (1..).zip(&states) {
            let restored = dir.path(&format!("r{position}.db"));
            let position = position.to_string();
            restore(&[&media], &restored, &["--position", &position, "--check"]);
            assert_eq!(&dump_of(&restored), expected, "{position}");
        }
        let restored = dir.path("newest.db");
        restore(&[&media], &restored, &[]);
        assert_eq!(dump_of(&restored), states[3]);
        assert!(place().ok(["history"]).out.contains(" log "), "the table has their type");
        // Without the log backup in the middle there is no newest state.
        let mut bytes = fs::read(&media).unwrap();
        let marks: Vec<usize> =
            bytes.windows(8).enumerate().filter(|it| it.1 == b"tdekset\n").map(|it| it.0).collect();
        let block = bytes[marks[1]..].windows(4).position(|it| it == b"tblk").unwrap();
        bytes[marks[1] + block + 90] ^= 1;
        fs::write(&media, bytes).unwrap();
        let to = dir.path("never.db");
        place().fails(4, ["restore", text(&media), "--to", text(&to)]);
        assert!(!to.exists());
        assert_eq!(place().run(["verify", text(&media)]).code, 4);
        restore(&[&media], &to, &["--position", "1"]);
    }
}

#[test]
fn no_log_backup_goes_behind_a_set_that_cannot_be_read() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 1000);
    backup(&path, &[&media], &[]);
    let one = fs::read(&media).unwrap();
    backup(&path, &[&media], &["--log"]);
    let two = fs::read(&media).unwrap();
    backup(&path, &[&media], &["--log"]);
    let whole = fs::read(&media).unwrap();
    let refused = |bytes: &[u8], reason: &str| {
        fs::write(&media, bytes).unwrap();
        let told = place().fails(1, backup_args(&path, &[&media], &["--log"]));
        assert!(told.contains(reason), "{reason}: {told}");
        assert_eq!(fs::read(&media).unwrap(), bytes);
    };
    // The header of the last set; of the one before it; a set that was cut out.
    for (at, reason) in [(two.len(), "set 3 is missing"), (one.len(), "set 3 stands on")] {
        let mut bytes = whole.clone();
        bytes[at + 40] ^= 1;
        refused(&bytes, reason);
    }
    refused(&[&one[..], &whole[two.len()..]].concat(), "set 3 stands on");
    // What was never finished is cut off, as everywhere.
    fs::write(&media, [&whole[..], &whole[two.len()..whole.len() - 300]].concat()).unwrap();
    backup(&path, &[&media], &["--log"]);
    restore(&[&media], &dir.path("r.db"), &[]);
    // A full set begins anew.
    let mut bytes = fs::read(&media).unwrap();
    bytes[two.len() + 40] ^= 1;
    refused(&bytes, "set 4 stands on");
    backup(&path, &[&media], &["--append"]);
    backup(&path, &[&media], &["--log"]);
}

#[test]
fn a_chain_lies_on_several_media() {
    for sealed in [false, true] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        fill(&path, 1000);
        if sealed {
            encrypt(&path, &[]);
        }
        let [full, one, two] = ["full.bak", "one.bak", "two.bak"].map(|name| dir.path(name));
        let key: &[&str] = if sealed { &[] } else { &["--certificate", "AppCert"] };
        backup(&path, &[&full], key);
        let mut states = Vec::new();
        for (n, to) in (1..).zip([&one, &two, &one, &two]) {
            let change = format!("UPDATE t SET a = a || '{n}' WHERE id = {n}");
            open(&path).execute_batch(&change).unwrap();
            // Without options, encrypted as what it stands on.
            let kind = if n == 4 { "--differential" } else { "--log" };
            let made = backup(&path, &[to], &[kind]);
            if n == 1 {
                assert!(made.out.contains(&format!("since set 1 of {}", text(&full))), "{made:?}");
            }
            states.push(dump_of(&path));
        }
        // The history knows the other media; without it they are named, the one meant at the end.
        for (media, position, state) in [
            (&[&one][..], "1", 0),
            (&[&two], "2", 3),
            (&[&full, &one], "2", 2),
            (&[&full, &one, &two], "1", 1),
            (&[&one, &full, &two], "2", 3),
        ] {
            let media: Vec<&Path> = media.iter().map(|it| it.as_path()).collect();
            let restored = dir.path(&format!("r{}-{position}.db", media.len()));
            restore(&media, &restored, &["--position", position, "--check"]);
            assert_eq!(dump_of(&restored), states[state]);
        }
        let json = place().json(["verify", text(&two), "--json"]);
        assert_eq!(
            (&json["verdict"], json["sets"].as_array().unwrap().len()),
            (&"whole".into(), 4)
        );
        let tried =
            place().json(["verify", text(dir.path("").as_path()), "--restore-test", "--json"]);
        assert_eq!(
            (&tried["verdict"], tried["sets"].as_array().unwrap().len()),
            (&"whole".into(), 5)
        );
        let copy = dir.path("copy.bak");
        place().ok(["copy", text(&two), text(&copy)]);
        // Media that have nothing to do with each other, and the wrong order.
        let to = dir.path("never.db");
        place().fails(2, ["restore", text(&one), text(&full), "--to", text(&to)]);
        // Gone: the error says so, and nothing is made.
        let away = dir.path("away");
        fs::rename(&full, &away).unwrap();
        let told = place().fails(4, ["restore", text(&two), "--to", text(&to)]);
        assert!(told.contains("on other media"), "{told}");
        assert!(!to.exists());
        assert_eq!(place().run(["verify", text(&two)]).code, 4);
        fs::rename(&away, &full).unwrap();
        // A newer full set alone is kept for its own sake; the first one for media elsewhere.
        let old = dir.path("old");
        fs::create_dir(&old).unwrap();
        let (moved, newer) = (old.join("full.bak"), old.join("newer.bak"));
        fs::rename(&full, &moved).unwrap();
        place().ok(["history", "--scan", text(&old)]);
        backup(&path, &[&newer], key);
        place().ok(["verify", text(&newer)]);
        let prune = ["prune", text(&old), "--keep-last", "1"];
        place().ok(prune);
        assert!(moved.exists() && newer.exists());
        for media in [&one, &two, &copy] {
            fs::remove_file(media).unwrap();
        }
        place().ok(prune);
        assert!(!moved.exists() && newer.exists());
    }
}

#[test]
fn the_chain_of_an_encrypted_database_goes_on_when_it_was_restored() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 1000);
    encrypt(&path, &[]);
    backup(&path, &[&media], &[]);
    backup(&path, &[&media], &["--log"]);
    restore(&[&media], &path, &["--position", "1", "--replace"]);
    open(&path).execute_batch("UPDATE t SET a = 'restored' WHERE id = 1").unwrap();
    let expected = dump_of(&path);
    backup(&path, &[&media], &["--log"]);
    backup(&path, &[&media], &["--differential"]);
    for position in ["3", "4"] {
        let restored = dir.path(&format!("r{position}.db"));
        restore(&[&media], &restored, &["--position", position, "--check"]);
        assert_eq!(dump_of(&restored), expected);
    }
    // At another path it is another database.
    let moved = dir.path("moved");
    fs::create_dir(&moved).unwrap();
    let other = moved.join("app.db");
    restore(&[&media], &other, &["--position", "1"]);
    place().fails(1, backup_args(&other, &[&media], &["--log"]));
}

#[test]
fn media_are_not_overwritten_before_their_sets_expire() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    let media = dir.path("app.bak");
    let sets = || {
        let report = place().json(["inspect", text(&media), "--json"]);
        (report["media_uuid"].clone(), report["sets"].as_array().unwrap().len())
    };
    backup(&path, &[&media], &["--expire", "30"]);
    let told = place().fails(1, backup_args(&path, &[&media], &[]));
    assert!(told.contains("--append") && told.contains("--init --replace"), "{told}");
    backup(&path, &[&media], &["--append", "--expire", "2020-01-01", "--description", "old"]);
    let told = place().fails(1, backup_args(&path, &[&media], &["--init"]));
    assert!(told.contains("1 set(s) that have not expired"), "{told}");
    let (id, count) = sets();
    assert_eq!(count, 2);
    backup(&path, &[&media], &["--init", "--replace", "--expire", "2020-01-01"]);
    let (replaced, count) = sets();
    assert!(count == 1 && id != replaced);
    backup(&path, &[&media], &["--init"]);
    assert_eq!(sets().1, 1);
    assert!(sets().0 != replaced);
    place().fails(2, backup_args(&path, &[&media, &media], &[]));
    fs::write(dir.path("notes"), "mine").unwrap();
    place().fails(4, backup_args(&path, &[&dir.path("notes")], &["--append"]));
    assert_eq!(fs::read(dir.path("notes")).unwrap(), b"mine");
}

#[test]
fn a_stream_goes_through_pipes_both_ways() {
    let dir = Dir::new();
    let bytes: Vec<u8> =
        (0..3_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let piped = |arguments: &[&str], input: &[u8]| {
        let mut child = place()
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feed = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        let _ = feed.join();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{told}");
        output.stdout
    };
    let media = dir.path("shop.bak");
    let arguments = ["backup", "--stdin", "--name", "shop", "--certificate", "AppCert", "--to"];
    piped(&[&arguments[..], &[text(&media)]].concat(), &bytes);
    let report = place().json(["inspect", text(&media), "--json"]);
    assert_eq!(report["sets"][0]["database_name"], "shop");
    assert_eq!(report["sets"][0]["is_stream"], true);
    assert_eq!(piped(&["restore", text(&media), "--to", "-"], b""), bytes);
    let out = dir.path("out");
    restore(&[&media], &out, &[]);
    assert_eq!(fs::read(&out).unwrap(), bytes);
    place().fails(1, ["restore", text(&media), "--to", text(&out)]);
    restore(&[&media], &out, &["--replace"]);
    assert_eq!(dir.names(), ["out", "shop.bak"]);
    place().fails(2, ["restore", text(&media), "--to", text(&out), "--replace", "--plain"]);
    // A media set to standard output equals the file's content.
    let made = piped(&[&arguments[..], &["-"]].concat(), b"few bytes");
    let copy = dir.path("copy.bak");
    fs::write(&copy, made).unwrap();
    assert_eq!(piped(&["restore", text(&copy), "--to", "-"], b""), b"few bytes");
    place().ok(["verify", text(&copy)]);
    place().fails(2, ["backup", "--stdin", "--to", text(&copy)]);
}

#[test]
fn progress_is_told_on_request_and_a_throttle_holds() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 20_000);
    let media = dir.path("app.bak");
    let quiet = backup(&path, &[&media], &["--threads", "1"]);
    assert!(quiet.err.is_empty(), "{quiet:?}");
    let told = backup(&path, &[&media], &["--append", "--stats=25"]);
    assert!(told.err.contains("percent processed"), "{told:?}");
    let told = restore(&[&media], &dir.path("r.db"), &["--stats", "--throttle", "100MB"]);
    assert!(told.err.contains("100 percent processed"), "{told:?}");
}

#[test]
fn a_killed_backup_or_append_leaves_the_earlier_sets_whole() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 20_000);
    let before = dump_of(&path);
    let (media, new) = (dir.path("app.bak"), dir.path("new.bak"));
    backup(&path, &[&media], &["--certificate", "AppCert"]);
    let mut killed = 0;
    for millis in (0..12).map(|step| step * 25) {
        let append = ["--append", "--certificate", "AppCert", "--throttle", "20MB"];
        for (media, more) in [(&media, &append[..]), (&new, &append[1..])] {
            let mut child = place()
                .command(backup_args(&path, &[media], more))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(millis));
            let _ = child.kill();
            killed += i32::from(child.wait().unwrap().code().is_none());
        }
        assert!(!new.exists() || place().run(["verify", text(&new)]).code == 0);
        let _ = fs::remove_file(&new);
        let run = place().run(["verify", text(&media), "--checksums-only", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let findings = report["findings"].as_array().unwrap();
        assert!(findings.iter().all(|it| it["kind"] == "unfinished_tail"), "{run:?}");
        assert_eq!(run.code == 0, findings.is_empty(), "{run:?}");
        assert!(report["sets"].as_array().unwrap().iter().all(|set| set["ok"] == true), "{run:?}");
    }
    assert!(killed > 5, "only {killed} were killed in time");
    backup(&path, &[&media], &["--append", "--certificate", "AppCert"]);
    place().ok(["verify", text(&media)]);
    restore(&[&media], &dir.path("first.db"), &["--position", "1"]);
    restore(&[&media], &dir.path("last.db"), &[]);
    assert_eq!(dump_of(&dir.path("first.db")), before);
    assert_eq!(dump_of(&dir.path("last.db")), before);
    backup(&path, &[&new], &[]);
    let left = ["app.bak", "app.db", "first.db", "last.db", "new.bak"];
    assert_eq!(dir.names(), left);
}
