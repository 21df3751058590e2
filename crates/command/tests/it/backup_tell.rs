//! Reports on backups: `inspect`, `verify` and `history`, as lines and as JSON.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Place, Run};
use crate::databases::{Dir, MARKER, encrypt, fill, place};
use rusqlite::Connection;
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn backup(database: &Path, media: &Path, more: &[&str]) {
    place().ok([&["backup", text(database), "--to", text(media)], more].concat());
}

fn sets_of(report: &Value) -> &Vec<Value> {
    report["sets"].as_array().unwrap()
}

#[test]
fn inspect_tells_all_that_a_header_says_without_any_key() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 1000);
    let described =
        ["--name", "nightly", "--description", "before the move", "--expire", "30", "--copy-only"];
    backup(&path, &media, &[&["--certificate", "AppCert"], &described[..]].concat());
    encrypt(&path, &[]);
    let more = ["--append", "--encryption", "AEGIS_256X2", "--certificate", "Second"];
    backup(&path, &media, &[&more[..], &["--certificate", "AppCert"]].concat());
    let nobody = Place::empty();
    let report = nobody.json(["inspect", text(&media), "--json"]);
    assert_eq!(report["verified"], false);
    assert_eq!(report["findings"].as_array().unwrap().len(), 0);
    let [first, second] = &sets_of(&report)[..] else { panic!("{report}") };
    let facts = [
        ("position", 1.into()),
        ("type", "D".into()),
        ("name", "nightly".into()),
        ("description", "before the move".into()),
        ("database_name", "app.db".into()),
        ("database_path", text(&path).into()),
        ("key_algorithm", "AES_256".into()),
        ("encryptor_type", "CERTIFICATE".into()),
        ("compression_algorithm", "ZSTD".into()),
        ("compression_level", 1.into()),
        ("is_copy_only", true.into()),
        ("is_source_encrypted", false.into()),
        ("has_backup_checksums", true.into()),
        ("page_size", 4096.into()),
        ("damage", Value::Null),
    ];
    for (name, value) in facts {
        assert_eq!(first[name], value, "{name}");
    }
    assert!(first["expiration_date"].is_string() && first["backup_start_date"].is_string());
    let certificates = place().json(["cert", "list", "--json"]);
    assert_eq!(first["encryptor_thumbprint"], certificates[0]["thumbprint"]);
    assert_eq!(first["encryptors"][0]["certificate_name"], "AppCert");
    assert_eq!(second["encryptors"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&second["is_source_encrypted"], &second["is_copy_only"]),
        (&true.into(), &false.into())
    );
    assert!(second["database_guid"].is_string());
    let run = nobody.ok(["inspect", text(&media)]);
    for told in [
        "unverified",
        "nightly",
        "AES_256 by CERTIFICATE",
        "AEGIS_256X2",
        "copy only",
        "from an encrypted database",
        "opened by certificate Second, 0x",
        "before the move",
        "never",
    ] {
        assert!(run.out.contains(told), "{told}: {run:?}");
    }
    let told = nobody.run(["verify", text(&media), "--json"]);
    let report: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.code, &report["sets"][0]["opened"]), (6, &false.into()), "{told:?}");
    assert!(told.err.contains("2 of 2 set(s) are not verified"), "{told:?}");
    nobody.ok(["verify", text(&media), "--checksums-only"]);
    nobody.fails(4, ["inspect", text(&path)]);
    nobody.fails(7, ["inspect", text(&dir.path("none"))]);
}

#[test]
fn damage_and_unfinished_tails_are_told_and_earlier_sets_stay() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 3000);
    backup(&path, &media, &["--certificate", "AppCert"]);
    let one = fs::read(&media).unwrap();
    backup(&path, &media, &["--certificate", "AppCert", "--append"]);
    let two = fs::read(&media).unwrap();
    // As a power cut leaves an append: part of the second set, without its trailer.
    fs::write(&media, &two[..one.len() + (two.len() - one.len()) / 2]).unwrap();
    let report = place().json(["inspect", text(&media), "--json"]);
    assert_eq!(sets_of(&report).len(), 1);
    assert_eq!(report["findings"][0]["kind"], "unfinished_tail");
    assert!(place().ok(["inspect", text(&media)]).err.contains("never finished"));
    // It cannot be distinguished from a set that was finished and then truncated.
    let to = dir.path("r.db");
    let restore = ["restore", text(&media), "--to", text(&to)];
    assert!(place().fails(4, restore).contains("never finished, or was cut short"));
    let run = place().ok([&restore[..], &["--latest-readable"]].concat());
    assert!(run.err.contains("never finished"), "{run:?}");
    assert_eq!(place().run(["verify", text(&media)]).code, 4);
    // The history knows that it was finished: no append cuts it off.
    let append =
        ["backup", text(&path), "--to", text(&media), "--certificate", "AppCert", "--append"];
    assert!(place().fails(4, append).contains("the backup history knows set 2"));
    // If nothing knows it, the next append cuts it off and reports that.
    let home = dir.path("home");
    fs::create_dir(&home).unwrap();
    fs::copy(place().store_file(), home.join("keystore.tdk")).unwrap();
    let elsewhere = |words: &[&str]| {
        let run = Run::of(&place().command(words).env("TDEKIT_HOME", &home).output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        run
    };
    let run = elsewhere(&append);
    assert!(run.err.contains("never finished"), "{run:?}");
    let verified = elsewhere(&["verify", text(&media), "--json"]).out;
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert_eq!(sets_of(&verified).len(), 2);
    assert!(sets_of(&verified).iter().all(|set| set["ok"] == true && set["opened"] == true));
    // A flipped bit in the middle of the second set.
    let mut bytes = fs::read(&media).unwrap();
    let at = one.len() + (bytes.len() - one.len()) / 2;
    bytes[at] ^= 0x10;
    fs::write(&media, &bytes).unwrap();
    for key in [&[][..], &["--checksums-only"]] {
        let run = place().run([&["verify", text(&media), "--json"], key].concat());
        assert_eq!(run.code, 4, "{run:?}");
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(
            (&report["sets"][0]["ok"], &report["sets"][1]["ok"]),
            (&true.into(), &false.into())
        );
    }
    let to = dir.path("no.db");
    place().fails(4, ["restore", text(&media), "--to", text(&to)]);
    assert!(!to.exists());
    place().ok(["restore", text(&media), "--position", "1", "--to", text(&to)]);
    place().fails(1, ["restore", text(&media), "--position", "7", "--to", text(&dir.path("x"))]);
    // Of a newer version.
    let mut newer = one.clone();
    newer[16] = 9;
    fs::write(&media, newer).unwrap();
    let told = place().fails(4, ["inspect", text(&media)]);
    assert!(told.contains("newer tdekit"), "{told}");
}

#[test]
fn the_history_has_the_columns_of_backupset_and_is_made_anew_from_media() {
    let mut place = Place::with_store();
    place.set("TDEKIT_BACKUP_PASSWORD", "backup");
    place.ok(["cert", "create", "AppCert"]);
    let dir = Dir::new();
    let (path, other) = (dir.path("app.db"), dir.path("other.db"));
    fill(&path, 1000);
    fill(&other, 100);
    assert_eq!(place.json(["history", "--json"]), Value::Array(Vec::new()));
    fs::create_dir(dir.path("deep")).unwrap();
    let (a, b) = (dir.path("a.bak"), dir.path("deep/b.bak"));
    let run = |arguments: &[&str]| -> Run { place.ok([&["backup"], arguments].concat()) };
    let both = ["--to", text(&a), "--to", text(&b)];
    run(&[&[text(&path), "--certificate", "AppCert"], &both[..]].concat());
    run(&[&[text(&path), "--certificate", "AppCert", "--differential"], &both[..]].concat());
    run(&[text(&other), "--to", text(&dir.path("o.bak")), "--compression", "lz4"]);
    let all = place.json(["history", "--json"]);
    assert_eq!(all.as_array().unwrap().len(), 3);
    let of = place.json(["history", "--database", text(&path), "--json"]);
    let [full, differential] = &of.as_array().unwrap()[..] else { panic!("{of}") };
    assert_eq!((&full["type"], &full["key_algorithm"]), (&"D".into(), &"AES_256".into()));
    assert_eq!(differential["type"], "I");
    assert_eq!(differential["differential_base_guid"], full["backup_set_uuid"]);
    let devices: Vec<_> = full["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["physical_device_name"].clone())
        .collect();
    assert_eq!(devices, [text(&a), text(&b)]);
    assert_eq!(place.json(["history", "--database", "other.db", "--json"])[0]["type"], "D");
    let table = place.ok(["history"]).out;
    assert!(table.contains("differential") && table.contains("o.bak"), "{table}");
    let db = Connection::open(place.home().join("history.db")).unwrap();
    let columns = "SELECT backup_set_id, backup_set_uuid, media_uuid, name, description, position,
        type, database_name, backup_start_date, backup_finish_date, expiration_date, backup_size,
        compressed_backup_size, key_algorithm, encryptor_thumbprint, encryptor_type, is_copy_only,
        has_backup_checksums, server_name, user_name, differential_base_guid FROM backupset";
    assert_eq!(db.prepare(columns).unwrap().column_count(), 21);
    drop(db);
    // Lost, and found again from the media.
    fs::remove_file(place.home().join("history.db")).unwrap();
    fs::write(dir.path("deep/not.bak"), b"nothing of a backup").unwrap();
    let scanned = place.json(["history", "--scan", text(&dir.path("")), "--json"]);
    assert_eq!(scanned["sets"], 3);
    assert_eq!((&scanned["new"], &scanned["media_sets"]), (&3.into(), &2.into()));
    let again = place.json(["history", "--json"]);
    let key = |set: &Value| set["backup_set_uuid"].as_str().unwrap().to_owned();
    let without_id = |all: &Value| {
        let mut all = all.as_array().unwrap().clone();
        all.sort_by_key(key);
        all
    };
    assert_eq!(without_id(&again), without_id(&all));
    assert_eq!(place.json(["history", "--scan", text(&dir.path("")), "--json"])["new"], 0);
}

#[test]
fn a_scan_of_damaged_media_is_not_an_end_in_order() {
    let place = Place::with_store();
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 100);
    place.ok(["backup", text(&path), "--to", text(&media)]);
    place.ok(["backup", text(&path), "--to", text(&media), "--append"]);
    place.ok(["history", "--scan", text(&dir.path(""))]);
    let whole = fs::read(&media).unwrap();
    // Its end is missing; then the record at its start is changed.
    fs::write(&media, &whole[..whole.len() - 10]).unwrap();
    let run = place.run(["history", "--scan", text(&dir.path("")), "--json"]);
    assert_eq!(run.code, 4, "{run:?}");
    for at in [40, 3] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&media, changed).unwrap();
        let run = place.run(["history", "--scan", text(&dir.path(""))]);
        assert_eq!(run.code, 4, "byte {at}: {run:?}");
        assert!(run.err.contains("app.bak: "), "byte {at}: {run:?}");
    }
    fs::write(&media, whole).unwrap();
    place.ok(["history", "--scan", text(&dir.path(""))]);
}

#[test]
fn a_history_that_cannot_be_written_is_a_warning() {
    let place = Place::with_store();
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 100);
    fs::write(place.home().join("history.db"), vec![7; 4096]).unwrap();
    let run = place.ok(["backup", text(&path), "--to", text(&media)]);
    assert!(run.err.contains("warning: the backup history was not written"), "{run:?}");
    place.fails(6, ["history"]);
    let run = place.run(["verify", text(&media)]);
    assert_eq!(run.err.matches("the backup history was not written").count(), 1, "{run:?}");
    let run = place.ok(["restore", text(&media), "--to", text(&dir.path("r.db"))]);
    assert!(run.err.contains("warning: the backup history was not written"), "{run:?}");
}

#[test]
fn wrong_use_is_told_before_anything_is_written() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 10);
    let (path, media) = (text(&path), text(&media));
    for arguments in [
        vec!["backup", path],
        vec!["backup", "--to", media],
        vec!["backup", path, "--stdin", "--name", "x", "--to", media],
        vec!["backup", path, "--to", media, "--append", "--init"],
        vec!["backup", path, "--to", media, "--replace"],
        vec!["backup", path, "--to", media, "--compression", "gzip"],
        vec!["backup", path, "--to", media, "--encryption", "ROT13"],
        vec!["backup", path, "--to", media, "--throttle", "fast"],
        vec!["backup", path, "--to", media, "--expire", "soon"],
        vec!["backup", path, "--to", media, "--differential", "--copy-only"],
        vec!["backup", path, "--to", "-", "--json"],
        vec!["backup", path, "--to", "-", "--append"],
        vec!["restore", media],
        vec!["verify"],
        vec!["backup-key", "add", media],
    ] {
        let run = place().run(&arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {run:?}");
    }
    assert_eq!(dir.names(), ["app.db"]);
    place().fails(7, ["backup", text(&dir.path("none.db")), "--to", media]);
    fs::write(dir.path("text"), MARKER).unwrap();
    place().fails(4, ["backup", text(&dir.path("text")), "--to", media]);
    let stdout = Command::new(env!("CARGO_BIN_EXE_tdekit")).args(["backup", "--help"]).output();
    let help = String::from_utf8(stdout.unwrap().stdout).unwrap();
    for option in ["--differential", "--throttle", "--mixed", "--sign", "TRIPLE_DES_3KEY"] {
        assert!(help.contains(option), "{option}");
    }
}

/// A store that refuses every request; its address, and the number of requests.
fn refusing_store() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut lines = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap_or(0) > 2 {
                line.clear();
            }
            count.fetch_add(1, Ordering::SeqCst);
            let refused =
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _gone = lines.into_inner().write_all(refused);
        }
    });
    (format!("http://{address}"), asked)
}

/// A value that was read from a file often ends in a line feed, on which the client panics.
#[test]
fn a_variable_that_ends_in_a_line_feed_is_no_crash() {
    let dir = Dir::new();
    let token = dir.path("token");
    fs::write(&token, "secret\n").unwrap();
    let token = text(&token).to_owned();
    let (url, asked) = refusing_store();
    let (url_line, token_line) = (format!("{url}\n"), format!(" {token}\n"));
    for (name, value, said) in [
        ("AWS_SESSION_TOKEN", "token\n", None),
        ("AWS_SECRET_ACCESS_KEY", "secret\r\n", None),
        ("AWS_REGION", "eu-west-1\n", None),
        ("AWS_DEFAULT_REGION", "eu-west-1\n", None),
        ("AWS_ENDPOINT_URL", &*url_line, None),
        ("AWS_ENDPOINT_URL", "x", Some("is not like https://")),
        ("AWS_ENDPOINT_URL", "http://[", Some("is not like https://")),
        ("AWS_SESSION_TOKEN", "to\nken", Some("AWS_SESSION_TOKEN has a control character")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token, Some("ends in a line feed")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token_line, Some("ends in a line feed")),
    ] {
        let mut place = Place::empty();
        for (usual, value) in [
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_ENDPOINT_URL", &url),
            ("AWS_ALLOW_HTTP", "true"),
        ] {
            place.set(usual, value);
        }
        place.set(name, value);
        asked.store(0, Ordering::SeqCst);
        let run = place.run(["inspect", "s3://bucket/app.bak"]);
        assert!(run.code != 0 && run.code != 101, "{name}: {run:?}");
        assert!(run.err.contains("error: "), "{name}: {run:?}");
        assert!(said.is_none_or(|said| run.err.contains(said)), "{name}: {run:?}");
        // A trimmed value is sent to the store, a refused one is not.
        assert_eq!(asked.load(Ordering::SeqCst) > 0, said.is_none(), "{name}: {run:?}");
    }
}

/// A reader that has seen enough does not change the verdict, and nobody has to read errors.
#[test]
fn the_verdict_stays_when_nobody_reads_it() {
    let (dir, place) = (Dir::new(), place());
    let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&database, 200);
    place.ok(["backup", text(&database), "--to", text(&media)]);
    let mut bytes = fs::read(&media).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&media, bytes).unwrap();
    let verdict = place.run(["verify", text(&media)]).code;
    assert_eq!(verdict, 4);
    for closed in [[true, false], [false, true], [true, true]] {
        let pipe = |is_closed: bool| {
            let (reader, writer) = std::io::pipe().unwrap();
            (writer, (!is_closed).then_some(reader))
        };
        let ((out, _out_reader), (err, _err_reader)) = (pipe(closed[0]), pipe(closed[1]));
        let mut command = place.command(["verify", text(&media)]);
        let ended = command.stdout(out).stderr(err).status().unwrap();
        assert_eq!(ended.code(), Some(verdict), "{closed:?}");
    }
}

/// A command that waits for the writer of a pipe ends by a signal.
#[test]
fn a_pipe_without_a_writer_does_not_hold_a_command() {
    let (dir, place) = (Dir::new(), place());
    let (database, media, pipe) = (dir.path("app.db"), dir.path("app.bak"), dir.path("pipe"));
    fill(&database, 20);
    place.ok(["backup", text(&database), "--to", text(&media), "--certificate", "AppCert"]);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for option in ["--pkcs12", "--certificate-file", "--password-file"] {
        let words = ["verify", text(&media), option, text(&pipe)];
        let mut waiting = place.command(words).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(waiting.try_wait().unwrap().is_none(), "{option} is not read");
        let id = rustix::process::Pid::from_child(&waiting);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(!waiting.wait().unwrap().success(), "{option}");
    }
}

/// SQLite accepts such rows when it is told to, as T-SQL's constraints that are not trusted do.
#[test]
fn a_row_that_violates_a_check_is_not_damage() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let dir = Dir::new();
    let (path, media, restored) = (dir.path("app.db"), dir.path("app.bak"), dir.path("r.db"));
    let rows = "PRAGMA ignore_check_constraints = ON;
                CREATE TABLE t(a CHECK(a > 0)); INSERT INTO t VALUES(0)";
    rusqlite::Connection::open(&path).unwrap().execute_batch(rows).unwrap();
    let run = place.ok(["backup", text(&path), "--to", text(&media)]);
    assert!(run.out.contains("quick_check ok"), "{run:?}");
    place.ok(["restore", text(&media), "--to", text(&restored), "--check"]);
    place.ok(["doctor", text(&restored)]);
    place.ok(["encrypt", text(&restored), "--certificate", "AppCert", "--verify"]);
}
