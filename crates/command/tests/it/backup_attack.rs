//! Attacks on the verdict: whatever is done to a media set, `verify` exits with a nonzero code, and
//! `restore` returns the newest set's exact bytes or nothing.
//!
//! `TDEKIT_ATTACK_STEP=1` tries every byte; a sample is tried otherwise.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Place, Run, tdekit};
use crate::databases::{Dir, create, fill};
use crate::media::{records, scan};
use rusqlite::functions::FunctionFlags;
use serde_json::Value;
use tdekit_backup_media::{Record, TRAILER_LEN};
use tdekit_key_crypto::sha256;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A key store with certificates and a history, and an equal one without a history.
struct Stores {
    known: Place,
    unknown: Place,
}

impl Stores {
    fn new() -> Self {
        let (known, mut unknown) = (Place::with_store(), Place::empty());
        unknown.set("TDEKIT_PASSWORD", "secret");
        for name in ["AppCert", "Signer"] {
            known.ok(["cert", "create", name]);
            known.ok(["cert", "backup", name, "--pkcs12", &format!("{name}.p12")]);
        }
        fs::create_dir(unknown.home()).unwrap();
        fs::copy(known.store_file(), unknown.store_file()).unwrap();
        Self { known, unknown }
    }

    /// Without a signature: the attacks count records.
    fn backup(&self, database: &Path, more: &[&str]) {
        self.known.ok([&["backup", text(database), "--no-sign"], more].concat());
    }
}

/// Media of three sets of a small database that changes between them.
struct Media {
    dir: Dir,
    stores: Stores,
    bytes: Vec<u8>,
    records: Vec<Record>,
    newest: Vec<u8>,
}

impl Media {
    fn new(key: &[&str]) -> Self {
        let (dir, stores) = (Dir::new(), Stores::new());
        let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
        drop(create(&database, "PRAGMA page_size=512; CREATE TABLE t(a)"));
        for day in 1..=3 {
            let db = rusqlite::Connection::open(&database).unwrap();
            db.execute("INSERT INTO t VALUES(?1)", [format!("day {day}")]).unwrap();
            drop(db);
            let more = [&["--to", text(&media), "--append"], key].concat();
            stores.backup(&database, &more);
        }
        let bytes = fs::read(&media).unwrap();
        let records = scan(&bytes).records;
        assert_eq!(records.len(), 3);
        let newest = fs::read(&database).unwrap();
        let media = Self { dir, stores, bytes, records, newest };
        media.put(&media.bytes);
        media.stores.known.ok(["verify", text(&media.path())]);
        media.restored(&media.stores.known, &[]).unwrap();
        media
    }

    fn path(&self) -> PathBuf {
        self.dir.path("app.bak")
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.path(), bytes).unwrap();
    }

    fn end(&self, record: usize) -> usize {
        usize::try_from(self.records[record].end()).unwrap()
    }

    fn start(&self, record: usize) -> usize {
        usize::try_from(self.records[record].start).unwrap()
    }

    /// Restores; `Ok` has the warnings and JSON of a restore that returned the newest set's bytes.
    fn restored(&self, place: &Place, more: &[&str]) -> Result<(Run, Value), Run> {
        let (media, to) = (self.path(), self.dir.path("restored.db"));
        let args = ["restore", text(&media), "--to", text(&to), "--json"];
        let run = place.run([&args[..], more].concat());
        if run.code != 0 {
            assert!(!to.exists() && run.out.is_empty(), "{run:?}");
            assert_eq!(self.dir.names(), ["app.bak", "app.db"], "{run:?}");
            return Err(run);
        }
        assert!(fs::read(&to).unwrap() == self.newest, "an older set was restored: {run:?}");
        fs::remove_file(&to).unwrap();
        let told = serde_json::from_str(&run.out).unwrap();
        Ok((run, told))
    }

    /// Returns the exit code of `verify`, and the kinds of its findings.
    fn verified(&self, place: &Place) -> (i32, Vec<String>) {
        let run = place.run(["verify", text(&self.path()), "--json"]);
        if run.out.is_empty() {
            return (run.code, Vec::new());
        }
        let told: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(told["verdict"] == "whole", run.code == 0, "{told}");
        let findings = told["findings"].as_array().unwrap();
        let kinds = findings.iter().map(|it| it["kind"].as_str().unwrap().to_owned());
        (run.code, kinds.collect())
    }

    /// Neither store accepts the damaged media set as whole, nor an older set as the newest.
    fn refused(&self, what: &str) {
        for place in [&self.stores.known, &self.stores.unknown] {
            let (code, kinds) = self.verified(place);
            assert_eq!(code, 4, "{what}: verify, {kinds:?}");
            if let Err(run) = self.restored(place, &[]) {
                assert_eq!(run.code, 4, "{what}: {run:?}");
            }
        }
    }
}

/// Only a sample, unless everything is requested.
fn step(sample: usize) -> usize {
    std::env::var("TDEKIT_ATTACK_STEP").map_or(sample, |step| step.parse().unwrap())
}

#[test]
fn a_flipped_bit_is_never_whole_and_never_another_day() {
    for key in [&["--certificate", "AppCert"][..], &[]] {
        let media = Media::new(key);
        let mut at = 0;
        while at < media.bytes.len() {
            let mut bytes = media.bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            media.put(&bytes);
            media.refused(&format!("byte {at} of {} {key:?}", bytes.len()));
            // Denser around the last set, whose loss must not make the one before it the newest.
            let near = media.start(2)..media.start(2) + 300;
            let close = near.contains(&at) || at + 2 * TRAILER_LEN > media.bytes.len();
            at += if close { step(89) } else { step(1301) };
        }
    }
}

#[test]
fn a_truncated_media_set_is_refused() {
    let media = Media::new(&["--certificate", "AppCert"]);
    let mut len = media.bytes.len() - 1;
    while len > 0 {
        media.put(&media.bytes[..len]);
        media.refused(&format!("cut to {len}"));
        len = len.saturating_sub(step(1613));
    }
    // At the end of a set, only the history knows that there was another.
    for ends in [0, 1] {
        media.put(&media.bytes[..media.end(ends)]);
        let (code, kinds) = media.verified(&media.stores.known);
        assert_eq!((code, kinds.iter().any(|kind| kind == "newer_in_history")), (4, true));
        let run = media.restored(&media.stores.known, &[]).unwrap_err();
        assert!(run.code == 4 && run.err.contains("lacks its newest set"), "{run:?}");
    }
    media.put(&media.bytes[..96]);
    assert_eq!(media.verified(&media.stores.unknown), (4, vec!["no_sets".to_owned()]));
    assert_eq!(media.restored(&media.stores.unknown, &[]).unwrap_err().code, 4);
}

#[test]
fn a_set_that_is_cut_out_put_in_or_moved_is_told() {
    let media = Media::new(&["--certificate", "AppCert"]);
    let set = |n: usize| &media.bytes[media.start(n)..media.end(n)];
    let head = &media.bytes[..media.start(0)];
    let cut = [head, set(0), set(2)].concat();
    media.put(&cut);
    for place in [&media.stores.known, &media.stores.unknown] {
        let (code, kinds) = media.verified(place);
        assert_eq!(code, 4);
        assert!(kinds.contains(&"missing_sets".to_owned()), "{kinds:?}");
        assert!(kinds.contains(&"broken_chain".to_owned()), "{kinds:?}");
        let (run, told) = media.restored(place, &[]).unwrap();
        assert!(run.err.contains("set 2 is missing"), "{run:?}");
        assert!(!told["findings"].as_array().unwrap().is_empty(), "{told}");
        assert_eq!(media.restored(place, &["--position", "2"]).unwrap_err().code, 4);
    }
    for order in [&[1, 2][..], &[0, 1, 2, 0], &[2, 0, 1], &[0, 2, 1], &[0, 0, 1, 2], &[0, 1, 1, 2]]
    {
        let sets: Vec<_> = order.iter().map(|n| set(*n)).collect();
        media.put(&[head, &sets.concat()].concat());
        media.refused(&format!("{order:?}"));
    }
}

/// Gives a record another position, and corrects all checksums that need no key.
fn with_position(media: &Media, record: usize, position: u32) -> Vec<u8> {
    let mut bytes = media.bytes.clone();
    let (start, end) = (media.start(record), media.end(record));
    let header_end = start + media.records[record].trailer.header_len as usize;
    bytes[start + 80..start + 84].copy_from_slice(&position.to_le_bytes());
    let checksum = sha256(&[&bytes[start..header_end - 64]]);
    bytes[header_end - 64..header_end - 32].copy_from_slice(&checksum);
    let digest = sha256(&[&bytes[start..header_end]]);
    let trailer = end - TRAILER_LEN;
    bytes[trailer + 96..trailer + 128].copy_from_slice(&digest);
    let checksum = sha256(&[&bytes[trailer..trailer + 184]]);
    bytes[trailer + 184..trailer + 216].copy_from_slice(&checksum);
    bytes
}

#[test]
fn a_header_edited_without_a_key_does_not_choose_the_set() {
    for key in [&["--certificate", "AppCert"][..], &[]] {
        let media = Media::new(key);
        for (record, position) in [(2, 1), (2, 2), (0, 3), (0, 2), (1, 1), (1, 3)] {
            media.put(&with_position(&media, record, position));
            let what = format!("set {} says {position}, {key:?}", record + 1);
            media.refused(&what);
            if record == 2 {
                let run = media.restored(&media.stores.known, &[]).unwrap_err();
                assert!(run.err.contains("its header says"), "{what}: {run:?}");
                let named = ["--position", "3"];
                assert_eq!(media.restored(&media.stores.known, &named).unwrap_err().code, 4);
            }
        }
    }
}

#[test]
fn what_is_left_is_taken_only_when_it_is_asked_for() {
    let mut media = Media::new(&["--certificate", "AppCert"]);
    let mut bytes = media.bytes.clone();
    let header = media.start(2) + 100;
    bytes[header] ^= 1;
    let block = media.start(1) + media.records[1].trailer.header_len as usize + 80;
    bytes[block] ^= 1;
    media.put(&bytes);
    let run = media.restored(&media.stores.known, &[]).unwrap_err();
    assert!(run.code == 4 && run.err.contains("--latest-readable"), "{run:?}");
    // Only the first day remains.
    let first = media.dir.path("first.db");
    media.put(&media.bytes);
    let (from, position) = (media.path(), ["--position", "1"]);
    media
        .stores
        .known
        .ok([&["restore", text(&from), "--to", text(&first)], &position[..]].concat());
    media.newest = fs::read(&first).unwrap();
    fs::remove_file(&first).unwrap();
    media.put(&bytes);
    let (run, told) = media.restored(&media.stores.known, &["--latest-readable"]).unwrap();
    assert_eq!(told["positions"], serde_json::json!([1]));
    assert_eq!(told["passed_over"][0]["position"], 2);
    assert!(told["findings"].as_array().unwrap().len() > 1, "{told}");
    assert!(run.err.contains("set 2 is passed over"), "{run:?}");
}

#[test]
fn a_differential_set_is_not_restored_without_its_base() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&database, 3000);
    stores.backup(&database, &["--to", text(&media), "--certificate", "AppCert"]);
    let db = crate::databases::open_plain(&database);
    db.execute_batch("UPDATE t SET a = 'changed' WHERE id < 9").unwrap();
    drop(db);
    let more = ["--to", text(&media), "--certificate", "AppCert", "--differential"];
    stores.backup(&database, &more);
    let whole = fs::read(&media).unwrap();
    let record = |n: usize| records(&whole)[n].clone();
    let to = dir.path("r.db");
    let header = record(0).start + 100;
    for damaged in [header, record(0).end - 100, record(0).start + 3000] {
        let mut bytes = whole.clone();
        bytes[damaged] ^= 1;
        fs::write(&media, &bytes).unwrap();
        let run = stores.known.run(["verify", text(&media), "--json"]);
        assert_eq!(run.code, 4, "{damaged}: {run:?}");
        stores.known.fails(4, ["restore", text(&media), "--to", text(&to)]);
    }
    fs::write(&media, [&whole[..96], &whole[record(1)]].concat()).unwrap();
    stores.known.fails(4, ["restore", text(&media), "--to", text(&to)]);
    assert_eq!(stores.known.run(["verify", text(&media)]).code, 4);
    assert!(!to.exists());
}

#[test]
fn an_encrypted_database_does_not_become_plain_without_a_word() {
    let (dir, mut place) = (Dir::new(), Place::with_store());
    for name in ["AppCert", "Signer"] {
        place.ok(["cert", "create", name]);
        place.ok(["cert", "backup", name, "--pkcs12", &format!("{name}.p12")]);
    }
    let (database, plain, sealed) = (dir.path("app.db"), dir.path("p.bak"), dir.path("s.bak"));
    fill(&database, 50);
    place.ok(["backup", text(&database), "--to", text(&plain), "--sign", "Signer"]);
    let unsigned = dir.path("u.bak");
    place.ok(["backup", text(&database), "--to", text(&unsigned)]);
    place.ok(["encrypt", text(&database), "--certificate", "AppCert"]);
    place.ok(["backup", text(&database), "--to", text(&sealed)]);
    let before = fs::read(&database).unwrap();
    let onto = ["restore", text(&plain), "--to", text(&database), "--replace"];
    let with = |more: &[&'static str]| [&onto[..], more].concat();
    let anybodys = ["restore", text(&unsigned), "--to", text(&database), "--replace"];
    let encrypting = [&anybodys[..], &["--certificate", "AppCert"]].concat();
    assert!(place.fails(1, onto).contains("--plain restores it in the clear"));
    assert!(place.fails(1, &encrypting).contains("anybody can have made"));
    assert!(place.fails(1, with(&["--allow-unauthenticated"])).contains("--certificate NAME"));
    assert!(fs::read(&database).unwrap() == before);
    // At its former path, as far as the key store knows, it is reported.
    fs::remove_file(&database).unwrap();
    assert!(place.ok(onto).err.contains("where an encrypted database stood"));
    assert!(crate::databases::is_plain(&database));
    fs::write(&database, before).unwrap();
    let encrypted = || crate::databases::is_encrypted(&database);
    place.ok([&encrypting[..], &["--allow-unauthenticated"]].concat());
    assert!(encrypted());
    // It is signed by a certificate whose private key is available.
    place.ok(with(&["--certificate", "AppCert"]));
    assert!(encrypted());
    place.ok(with(&["--certificate", "AppCert", "--signed-by", "Signer"]));
    assert!(encrypted());
    place.ok(["restore", text(&sealed), "--to", text(&database), "--replace"]);
    assert!(encrypted());
    // Files that open nothing: it is not the intended set.
    place.set("TDEKIT_BACKUP_PASSWORD", "backup");
    for command in [&["verify", text(&plain)][..], &["restore", text(&plain), "--to", "x.db"]] {
        let key = [command, &["--pkcs12", "AppCert.p12"]].concat();
        assert!(place.fails(2, key).contains("--pkcs12 opens nothing"));
    }
    // The requirements of the configuration.
    let require = |what: &str| {
        place.secret_file("home/config.toml", format!("[backup]\nrequire = [{what}]\n").as_bytes())
    };
    require("\"encrypted\"");
    assert!(place.fails(1, with(&["--plain"])).contains("is not encrypted"));
    assert_eq!(place.run(["verify", text(&plain)]).code, 1);
    place.ok(["verify", text(&sealed)]);
    let other = dir.path("other.db");
    fill(&other, 5);
    let told = place.fails(1, ["backup", text(&other), "--to", text(&dir.path("o.bak"))]);
    assert!(told.contains("asks for encrypted sets"), "{told}");
    require("\"encrypted\", \"signed-by Signer\"");
    place.fails(3, ["restore", text(&sealed), "--to", text(&database), "--replace"]);
    assert_eq!(place.run(["verify", text(&sealed)]).code, 3);
    assert!(encrypted());
    require("\"signed-by Signer\"");
    place.ok(["verify", text(&plain)]);
    place.ok(with(&["--plain"]));
    assert!(crate::databases::is_plain(&database));
}

#[test]
fn mirrors_of_other_states_are_told() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let database = dir.path("app.db");
    let (a, b, old) = (dir.path("a.bak"), dir.path("b.bak"), dir.path("old"));
    let to = dir.path("r.db");
    let both = ["--to", text(&a), "--to", text(&b), "--append", "--certificate", "AppCert"];
    fill(&database, 300);
    stores.backup(&database, &both);
    fs::copy(&a, &old).unwrap();
    crate::databases::open_plain(&database).execute_batch("DELETE FROM t WHERE id > 9").unwrap();
    stores.backup(&database, &both);
    let newest = fs::read(&database).unwrap();
    // An older copy: the other one has the newest set.
    fs::copy(&old, &a).unwrap();
    for files in [[&a, &b], [&b, &a]] {
        let [first, second] = files.map(|path| text(path));
        let run = stores.known.run(["verify", first, second, "--json"]);
        let told: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.code, &told["findings"][0]["kind"]), (4, &"mirrors_differ".into()));
        let run = stores.known.ok(["restore", first, second, "--to", text(&to)]);
        assert!(run.err.contains("its mirror"), "{run:?}");
        assert!(fs::read(&to).unwrap() == newest);
        fs::remove_file(&to).unwrap();
    }
    // It was continued separately: the newest cannot be determined.
    let history = stores.known.home().join("history.db");
    fs::remove_file(history).unwrap();
    stores.backup(&database, &["--to", text(&a), "--append", "--certificate", "AppCert"]);
    for files in [[&a, &b], [&b, &a]] {
        let [first, second] = files.map(|path| text(path));
        assert_eq!(stores.known.run(["verify", first, second]).code, 4);
        let told = stores.known.fails(4, ["restore", first, second, "--to", text(&to)]);
        assert!(told.contains("different records"), "{told}");
    }
    // Of another media set.
    let other = dir.path("c.bak");
    stores.backup(&database, &["--to", text(&other)]);
    let foreign = ["restore", text(&a), text(&other), "--to", text(&to)];
    stores.known.fails(2, foreign);
    assert!(!to.exists());
}

/// Two places of a plain block where 64 bits can be exchanged without changing the XXH3-64: after
/// the block's 48 hashed header bytes, lanes whose low half is the hash's own secret.
const LANES: [(usize, [u8; 4]); 2] =
    [(16, [0x7c, 0x01, 0x81, 0x2c]), (80, [0xde, 0xd4, 0x6d, 0xe9])];

#[test]
fn a_signature_holds_for_what_is_restored_and_not_for_its_mirror() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let mut content: Vec<u8> = (0..9000_u32).map(|n| n.to_le_bytes()[0] ^ 0x55).collect();
    for (at, secret) in LANES {
        content[at..at + 4].copy_from_slice(&secret);
        content[at + 4..at + 8].copy_from_slice(&1000_u32.to_le_bytes());
    }
    let (a, b, to) = (dir.path("a.bak"), dir.path("b.bak"), dir.path("out"));
    let args = [
        "backup",
        "--stdin",
        "--name",
        "x",
        "--to",
        text(&a),
        "--to",
        text(&b),
        "--compression",
        "none",
        "--sign",
        "Signer",
    ];
    let mut child = stores.known.command(args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    assert!(child.wait().unwrap().success());
    let signed = ["--signed-by", "Signer"];
    let both = [text(&a), text(&b)];
    let restore = [&["restore", "--to", text(&to), "--replace"], &both[..], &signed].concat();
    stores.known.ok(&restore);
    assert!(fs::read(&to).unwrap() == content);
    fs::remove_file(&to).unwrap();
    // Other content with the same checksum in one of the mirrors.
    let whole = fs::read(&a).unwrap();
    let place = whole.windows(content.len()).position(|w| w == content).unwrap();
    let mut forged = whole.clone();
    for ((at, _), amount) in LANES.iter().zip([1017_u32, 983]) {
        forged[place + at + 4..place + at + 8].copy_from_slice(&amount.to_le_bytes());
    }
    for mirror in [&a, &b] {
        fs::write(mirror, &forged).unwrap();
        // Alone, the checksums match, so the forgery is a good one, but the signature is invalid.
        let run = stores.known.run(["verify", text(mirror)]);
        assert!(run.code == 4 && run.err.contains("does not hold"), "{run:?}");
        let run = stores.known.run([&["verify"], &both[..]].concat());
        assert!(run.code == 4 && run.out.contains("mirrors hold different blocks"), "{run:?}");
        let told = stores.known.fails(4, &restore);
        assert!(told.contains("mirrors hold different blocks"), "{told}");
        assert!(!to.exists());
        // No signature was requested; an existing one is checked anyway.
        let unasked = ["restore", text(mirror), "--to", text(&to)];
        let told = stores.known.fails(4, unasked);
        assert!(told.contains("does not hold"), "{told}");
        assert!(!to.exists());
        let newest = [&unasked[..], &["--latest-readable"]].concat();
        assert!(stores.known.run(newest).code != 0 && !to.exists());
        fs::write(mirror, &whole).unwrap();
    }
    stores.known.ok(&restore);
    assert!(fs::read(&to).unwrap() == content);
}

#[test]
fn a_differential_set_is_verified_with_its_base() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&database, 2000);
    let to = ["--append", "--to", text(&media), "--certificate", "AppCert"];
    stores.backup(&database, &to);
    stores.backup(&database, &[&to[..], &["--differential"]].concat());
    let verify = ["verify", text(&media), "--position", "2"];
    let run = stores.known.ok(verify);
    assert!(run.out.contains("Set 1 (full") && run.out.contains("Set 2 (differential"), "{run:?}");
    let whole = fs::read(&media).unwrap();
    let base = records(&whole)[0].clone();
    let mut damaged = whole.clone();
    damaged[base.start + base.len() / 2] ^= 1;
    fs::write(&media, &damaged).unwrap();
    let run = stores.known.run([&verify[..], &["--json"]].concat());
    assert_eq!(run.code, 4, "{run:?}");
    let told: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&told["verdict"], &told["sets"][1]["ok"]), (&"damaged".into(), &true.into()));
    let to = dir.path("new.db");
    stores.known.fails(4, ["restore", text(&media), "--position", "2", "--to", text(&to)]);
}

#[test]
fn a_history_that_cannot_be_read_is_not_taken_for_none() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&database, 20);
    stores.backup(&database, &["--append", "--to", text(&media)]);
    let one = fs::read(&media).unwrap();
    stores.backup(&database, &["--append", "--to", text(&media)]);
    fs::write(&media, &one).unwrap();
    assert_eq!(stores.known.run(["verify", text(&media)]).code, 4);
    let history = stores.known.home().join("history.db");
    for content in [&b"not a database, but long enough to be read"[..], &one] {
        fs::write(&history, content).unwrap();
        let run = stores.known.run(["verify", text(&media), "--json"]);
        assert_eq!(run.code, 6, "{run:?}");
        let told: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(told["verdict"], "not_verified");
        assert_eq!(told["findings"][0]["kind"], "history_not_read");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_of_ours_is_waited_for_by_nobody() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&database, 20);
    stores.backup(&database, &["--to", text(&media)]);
    for (name, words) in [
        ("history.db", &["verify", text(&media)][..]),
        ("history.db", &["history"]),
        ("history.db", &["restore", text(&media), "--to", text(&dir.path("new.db"))]),
        ("keystore.tdk", &["key", "status"]),
        ("keystore.tdk", &["cert", "list"]),
        ("config.toml", &["cert", "create", "New"]),
        ("uses.json", &["cert", "list"]),
    ] {
        let path = stores.known.home().join(name);
        let before = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let ended = Command::new("timeout")
            .arg("20")
            .arg(tdekit())
            .args(words)
            .env("TDEKIT_HOME", stores.known.home())
            .env("TDEKIT_PASSWORD", "secret")
            .output();
        let run = Run::of(&ended.unwrap());
        assert_ne!(run.code, 124, "{name} {words:?} hangs");
        let told = format!("{}{}", run.out, run.err);
        let restored = words[0] == "restore" && run.err.contains("warning");
        assert!((run.code != 0 || restored) && told.contains("not an ordinary file"), "{run:?}");
        fs::remove_file(&path).unwrap();
        if let Some(before) = before {
            fs::write(&path, before).unwrap();
        }
    }
}

#[test]
fn a_corrupt_database_is_not_backed_up_unless_asked_for() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&database, 900);
    let mut bytes = fs::read(&database).unwrap();
    let at = bytes.len() - 4096;
    bytes[at..at + 8].fill(0xff);
    fs::write(&database, &bytes).unwrap();
    let words = ["backup", text(&database), "--to", text(&media), "--no-sign"];
    let told = stores.known.fails(4, words);
    assert!(told.contains("is corrupt"), "{told}");
    assert!(!media.exists());
    let run = stores.known.ok([&words[..], &["--no-check"]].concat());
    assert!(!run.out.contains("quick_check"), "{run:?}");
    let (sound, other) = (dir.path("sound.db"), dir.path("sound.bak"));
    fill(&sound, 900);
    let run = stores.known.ok(["backup", text(&sound), "--to", text(&other), "--no-sign"]);
    assert!(run.out.contains("quick_check ok"), "{run:?}");
    // A function of the application prevents the check, and is not a fault.
    let db = rusqlite::Connection::open(dir.path("own.db")).unwrap();
    db.create_scalar_function("own", 1, FunctionFlags::SQLITE_DETERMINISTIC, |_| Ok(true)).unwrap();
    db.execute_batch("CREATE TABLE t(a, b NOT NULL AS (own(a))); INSERT INTO t VALUES(1)").unwrap();
    let (own, last) = (dir.path("own.db"), dir.path("own.bak"));
    let run = stores.known.ok(["backup", text(&own), "--to", text(&last), "--no-sign"]);
    assert!(run.err.contains("could not be run") && !run.out.contains("quick_check"), "{run:?}");
}

#[test]
fn only_databases_are_replaced_and_no_side_file_is_a_target() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let (database, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&database, 20);
    stores.backup(&database, &["--to", text(&media)]);
    let (notes, other) = (dir.path("notes.txt"), dir.path("other.bak"));
    fs::write(&notes, "mine").unwrap();
    fs::copy(&media, &other).unwrap();
    let home = stores.known.home();
    stores.known.ok(["history"]);
    for path in [notes.clone(), other, home.join("keystore.tdk"), home.join("history.db")] {
        let before = fs::read(&path).unwrap();
        let restore = ["restore", text(&media), "--replace", "--to", text(&path)];
        let told = stores.known.fails(1, restore);
        assert!(told.contains("nothing was replaced"), "{told}");
        assert!(fs::read(&path).unwrap() == before, "{}", path.display());
    }
    fs::create_dir(home.join("serve")).unwrap();
    for own in ["keystore.tdk", "keystore.lock", "serve/logins.json", "serve/tls-key.pem"] {
        let own = home.join(own);
        let over = ["restore", text(&media), "--replace", "--force", "--to", text(&own)];
        assert!(stores.known.fails(1, over).contains("a file of a key store"), "{own:?}");
    }
    let suffixes = "-journal -wal -shm -seals -seals2 -tdekit-paused -replica -mj0AF912345";
    for suffix in suffixes.split(' ') {
        let side = format!("{}{suffix}", text(&database));
        stores.known.fails(1, ["backup", text(&database), "--to", &side]);
        stores.known.fails(1, ["restore", text(&media), "--to", &side]);
        assert!(!Path::new(&side).exists());
    }
    stores.known.ok(["restore", text(&media), "--replace", "--force", "--to", text(&notes)]);
}

#[test]
fn a_stripe_of_an_older_state_is_refused_and_nothing_is_cut() {
    let (dir, stores) = (Dir::new(), Stores::new());
    let database = dir.path("app.db");
    fill(&database, 9000);
    let files = [dir.path("a.bak"), dir.path("b.bak")];
    let to: Vec<_> = files.iter().flat_map(|file| ["--to", text(file)]).collect();
    let args = [&to[..], &["--stripe", "--append", "--certificate", "AppCert"]].concat();
    stores.backup(&database, &args);
    let old: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    stores.backup(&database, &args);
    let new: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for stale in [0, 1] {
        fs::write(&files[stale], &old[stale]).unwrap();
        let told = stores.known.fails(1, [&["backup", text(&database)], &args[..]].concat());
        let older = format!("{} is older than", files[stale].display());
        assert!(told.contains(&older), "{told}");
        assert!(fs::read(&files[stale]).unwrap() == old[stale]);
        assert!(fs::read(&files[1 - stale]).unwrap() == new[1 - stale]);
        let both = [text(&files[0]), text(&files[1])];
        let run = stores.known.run([&["verify", "--json"], &both[..]].concat());
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.code, &report["findings"][0]["kind"]), (4, &"stripes_differ".into()));
        let to = dir.path("r.db");
        let restore = [&["restore", "--to", text(&to)], &both[..]].concat();
        stores.known.fails(4, &restore);
        assert!(!to.exists());
        stores.known.ok([&restore[..], &["--position", "1"]].concat());
        fs::remove_file(&to).unwrap();
        fs::write(&files[stale], &new[stale]).unwrap();
    }
    stores.backup(&database, &args);
}

#[test]
fn a_set_whose_header_cannot_be_read_is_told_by_its_position_in_json_too() {
    let media = Media::new(&[]);
    let mut bytes = media.bytes.clone();
    bytes[media.start(1) + 40] ^= 1;
    media.put(&bytes);
    let path = media.path();
    let verify = ["verify", text(&path), "--position", "2"];
    let run = media.stores.known.run([&verify[..], &["--json"]].concat());
    assert_eq!(run.code, 4, "{run:?}");
    let told: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&told["verdict"], &told["findings"][0]["kind"]),
        (&"damaged".into(), &"damaged_record".into())
    );
    let set = &told["sets"][0];
    assert_eq!((&set["position"], &set["ok"]), (&2.into(), &false.into()), "{told}");
    assert!(set["damages"][0].as_str().unwrap().contains("cannot be read"), "{told}");
    let run = media.stores.known.run(verify);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.out.contains("Set 2: DAMAGED"), "{run:?}");
    media.stores.known.fails(1, ["verify", text(&path), "--position", "4"]);
}

#[test]
fn an_append_cuts_off_nothing_that_the_history_knows_as_finished() {
    let media = Media::new(&["--certificate", "AppCert"]);
    let (path, database) = (media.path(), media.dir.path("app.db"));
    // The file system lost the end of the last set: the rest looks like an unfinished append.
    let cut = &media.bytes[..media.bytes.len() - TRAILER_LEN - 9];
    media.put(cut);
    let append = ["backup", text(&database), "--to", text(&path), "--append"];
    let add = ["backup-key", "add", text(&path), "--certificate", "Signer"];
    for words in [&append[..], &add] {
        let told = media.stores.known.fails(4, words);
        assert!(
            told.contains("the backup history knows set 3") && told.contains("hint: "),
            "{told}"
        );
        assert!(fs::read(&path).unwrap() == cut, "it was cut");
    }
    // Without better knowledge, it is what an interrupted append leaves.
    let run = media.stores.unknown.ok(append);
    assert!(run.err.contains("was never finished, or was cut short"), "{run:?}");
    media.stores.unknown.ok(["verify", text(&path)]);
}
