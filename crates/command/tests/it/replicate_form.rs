//! `replicate` of a database that is encrypted or decrypted while it is followed: it is followed
//! on, with its keys, and a new chain says why it begins.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::signal;
use crate::databases::{Dir, encrypt, is_encrypted, is_plain, open, place};
use crate::replicate::{Pair, WaitBy, text, wait_for};

const ENCRYPTED: &str = "the database was encrypted";
const DECRYPTED: &str = "the database was decrypted";

/// A database that a process follows.
struct Followed {
    pair: Pair,
    process: Child,
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Followed {
    /// With row 1 in the full set; `alone` without the password of the key store.
    fn new(encrypted: bool, more: &[&str], alone: bool) -> Self {
        let pair = Pair::new(encrypted);
        pair.add(1);
        let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--no-sign"];
        let mut command = place().command([&words[..], more].concat());
        if alone {
            command.env_remove("TDEKIT_PASSWORD");
        }
        let said = File::create(pair.dir.path("said")).unwrap();
        let process = command.stdin(std::process::Stdio::null()).stderr(said).spawn().unwrap();
        wait_for(|| pair.object(1).exists());
        Self { pair, process }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.pair.dir.path("said")).unwrap()
    }

    fn says(&self, told: &str, times: usize) {
        let begun = Instant::now();
        while self.said().matches(told).count() < times {
            assert!(begun.elapsed() < Duration::from_secs(40), "{told}: {}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(&mut self) {
        signal(self.process.id(), "TERM");
        let ended = self.process.wait_with_output_by(Duration::from_secs(20));
        assert!(ended.status.success(), "{}", self.said());
    }

    /// Makes a copy, changes it by a command, and moves it over the database. The copy has what is
    /// in the log.
    fn convert(&self, command: &str) {
        let copy = copy_of(&self.pair);
        match command {
            "encrypt" => drop(encrypt(&copy, &[])),
            command => drop(place().ok([command, text(&copy)])),
        }
        fs::rename(&copy, &self.pair.db).unwrap();
    }

    /// The reasons of the chains.
    fn reasons(&self) -> Vec<String> {
        let json = place().json(["verify", text(&self.pair.archive), "--json"]);
        assert_eq!(json["verdict"], "whole", "{json}");
        let why = |chain: &serde_json::Value| chain["why"].as_str().unwrap().to_owned();
        json["chains"].as_array().unwrap().iter().map(why).collect()
    }
}

fn copy_of(pair: &Pair) -> PathBuf {
    let copy = pair.dir.path("copy.db");
    let db = pair.db();
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    // Another process reads it: closing a file drops the locks that SQLite has on it in this one.
    let copied = std::process::Command::new("cp").arg(&pair.db).arg(&copy).status().unwrap();
    assert!(copied.success());
    copy
}

#[test]
fn a_database_is_followed_on_after_it_was_encrypted_or_decrypted() {
    let mut followed = Followed::new(false, &["--certificate", "AppCert"], false);
    followed.convert("encrypt");
    followed.says(ENCRYPTED, 1);
    wait_for(|| followed.pair.object(2).exists());
    assert_eq!(followed.said().matches("the database is encrypted now").count(), 1);
    assert!(is_encrypted(&followed.pair.db));
    followed.pair.add(2);
    wait_for(|| followed.pair.object(3).exists());
    assert_eq!(followed.pair.restored("latest"), [1, 2]);
    assert!(is_encrypted(&followed.pair.dir.path("restored.db")));
    followed.convert("decrypt");
    followed.says(DECRYPTED, 1);
    wait_for(|| followed.pair.object(4).exists());
    followed.pair.add(3);
    wait_for(|| followed.pair.object(5).exists());
    followed.end();
    assert_eq!(followed.pair.restored("latest"), [1, 2, 3]);
    assert!(is_plain(&followed.pair.dir.path("restored.db")));
    assert_eq!(followed.pair.restored("3"), [1, 2]);
    assert_eq!(followed.reasons(), ["the archive is empty", ENCRYPTED, DECRYPTED]);
    let said = followed.said();
    let is_log = |line: &str| line.contains("app.db-wal.");
    let warned = said.lines().any(|line| line.contains("warning") && !is_log(line));
    assert!(!warned && !said.contains("error"), "{said}");
}

/// The certificate is newer than the process.
#[test]
fn a_key_that_is_newer_than_the_process_opens_the_database() {
    let mut followed = Followed::new(false, &["--certificate", "AppCert"], false);
    place().ok(["cert", "create", "NewerThanIt"]);
    let copy = copy_of(&followed.pair);
    place().ok(["encrypt", text(&copy), "--certificate", "NewerThanIt"]);
    fs::rename(&copy, &followed.pair.db).unwrap();
    wait_for(|| followed.pair.object(2).exists());
    followed.end();
    assert!(!followed.said().contains("error"), "{}", followed.said());
}

/// As after `cert rotate`, and where a file of the same form takes the place of the database.
#[test]
fn a_key_that_is_wrapped_for_a_newer_certificate_is_opened() {
    let mut followed = Followed::new(true, &["--certificate", "AppCert"], false);
    let db = text(&followed.pair.db).to_owned();
    place().ok(["cert", "create", "WrapsItAnew"]);
    place().ok(["rewrap", &db, "--certificate", "WrapsItAnew"]);
    place().ok(["rotate", &db]);
    followed.pair.add(2);
    wait_for(|| followed.said().contains("the key store is opened anew"));
    // The new key may be met before the row was read from the log, or behind that.
    wait_for(|| followed.pair.restored("latest") == [1, 2]);
    followed.pair.add(3);
    wait_for(|| followed.pair.restored("latest") == [1, 2, 3]);
    let objects = u32::try_from(followed.pair.objects()).unwrap();
    place().ok(["cert", "create", "OfAnother"]);
    let other = followed.pair.dir.path("other.db");
    crate::databases::create(
        &other,
        "PRAGMA journal_mode = WAL; CREATE TABLE t(n INTEGER, text TEXT);
         INSERT INTO t VALUES (7, 'x')",
    );
    place().ok(["encrypt", text(&other), "--certificate", "OfAnother"]);
    fs::rename(&other, &followed.pair.db).unwrap();
    followed.says("another file took the place of the database", 1);
    wait_for(|| followed.pair.object(objects + 1).exists());
    thread::sleep(Duration::from_millis(500));
    followed.end();
    assert_eq!(followed.pair.restored("latest"), [7]);
    let said = followed.said();
    assert!(!said.contains("; again in "), "{said}");
    let last = "another file took the place of the database";
    assert_eq!(followed.reasons().last().unwrap(), last);
}

/// The failure is reported with its hint, recorded, and tried again; it passes with its cause.
#[test]
fn a_process_without_the_password_says_so_and_goes_on_when_it_can() {
    let mut followed = Followed::new(false, &["--certificate", "AppCert"], true);
    let plain = followed.pair.dir.path("plain.db");
    fs::copy(copy_of(&followed.pair), &plain).unwrap();
    followed.convert("encrypt");
    followed.says("; again in ", 2);
    let said = followed.said();
    assert_eq!(said.matches("the database is encrypted now").count(), 1, "{said}");
    assert!(said.contains("hint: ") && said.contains("the ways to give a password"), "{said}");
    assert_eq!(followed.pair.objects(), 1);
    let status = place().ok(["replicate", "status", text(&followed.pair.db)]).out;
    assert!(status.contains("password"), "{status}");
    fs::rename(&plain, &followed.pair.db).unwrap();
    followed.says("another file took the place of the database", 1);
    wait_for(|| followed.pair.object(2).exists());
    followed.end();
    assert_eq!(followed.pair.restored("latest"), [1]);
}

/// Its sets would be encrypted for its own certificates, and the archive is plain.
#[test]
fn nothing_of_an_encrypted_database_gets_into_a_plain_archive() {
    let followed = Followed::new(false, &[], false);
    followed.convert("encrypt");
    followed.says("archive has plain sets, and this one would be encrypted; again in ", 2);
    assert!(followed.said().contains("hint: name another archive"), "{}", followed.said());
    assert_eq!(followed.pair.objects(), 1);
    drop(followed);
    // In the other direction, of one whose sets are encrypted for its own certificates.
    let followed = Followed::new(true, &[], false);
    followed.convert("decrypt");
    followed.says("archive has encrypted sets, and this one would be plain; again in ", 2);
    assert!(followed.said().contains("hint: --certificate NAME"), "{}", followed.said());
    assert_eq!(followed.pair.objects(), 1);
}

#[test]
fn commands_for_which_it_has_to_be_closed_name_the_follower() {
    for encrypted in [false, true] {
        let mut followed = Followed::new(encrypted, &["--certificate", "AppCert"], false);
        let path = followed.pair.db.clone();
        let words = || match encrypted {
            true => vec!["decrypt", text(&path)],
            false => vec!["encrypt", text(&path), "--certificate", "AppCert"],
        };
        let said = place().fails(5, words());
        assert!(said.contains("app.db is in use by process"), "{said}");
        assert!(said.contains(": `tdekit replicate` follows it"), "{said}");
        assert!(said.contains("hint: end that process first"), "{said}");
        followed.end();
        place().ok(words());
        assert!(followed.pair.ship().contains("changed while nobody followed it"));
        assert_eq!(followed.pair.restored("latest"), [1]);
    }
}

/// A program copies the log into the file all the time, so that it never rests.
#[test]
fn a_file_that_is_always_written_to_is_followed_on() {
    let mut followed = Followed::new(false, &["--certificate", "AppCert"], false);
    let copy = copy_of(&followed.pair);
    encrypt(&copy, &[]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for side in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{side}", text(&followed.pair.db)));
        }
        fs::rename(&copy, &followed.pair.db).unwrap();
        let (stop, path): (_, &Path) = (&stop, &followed.pair.db);
        scope.spawn(move || {
            let db = open(path);
            db.busy_timeout(Duration::from_secs(30)).unwrap();
            while !stop.load(Ordering::Relaxed) {
                db.execute_batch("INSERT INTO t VALUES (7, 'x')").unwrap();
                db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
                thread::sleep(Duration::from_millis(50));
            }
        });
        let begun = Instant::now();
        while !followed.pair.object(3).exists() && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(followed.pair.object(3).exists(), "{}", followed.said());
    followed.end();
    assert_eq!(followed.reasons(), ["the archive is empty", ENCRYPTED]);
}

/// A process that keeps a standby up, and what it says.
struct Standby {
    path: PathBuf,
    said: PathBuf,
    process: Child,
}

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Standby {
    fn start(pair: &Pair, more: &[&str]) -> Self {
        let (path, said) = (pair.dir.path("standby.db"), pair.dir.path("said-standby"));
        let words = ["restore", text(&pair.archive), "--follow", "--to", text(&path)];
        let mut command = place().command([&words[..], more].concat());
        command.stdout(std::process::Stdio::null()).stderr(File::create(&said).unwrap());
        let process = command.spawn().unwrap();
        wait_for(|| path.exists());
        Self { path, said, process }
    }

    fn says(&self, told: &str) {
        wait_for(|| fs::read_to_string(&self.said).unwrap().contains(told));
    }

    fn rows(&self) -> Vec<u32> {
        let db = open(&self.path);
        let mut query = db.prepare("SELECT n FROM t ORDER BY n").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

/// Nothing of an encrypted database becomes plain that nobody asked for.
#[test]
fn a_standby_of_another_form_stays_as_it_is() {
    let followed = Followed::new(false, &["--certificate", "AppCert"], false);
    let pair = &followed.pair;
    let standby = Standby::start(pair, &[]);
    followed.convert("encrypt");
    standby.says("standby.db is plain, and the database of the archive's new chain is encrypted");
    pair.add(2);
    wait_for(|| pair.object(3).exists());
    thread::sleep(Duration::from_secs(2));
    assert_eq!(standby.rows(), [1]);
    drop(standby);
    let standby = Standby::start(pair, &["--plain"]);
    wait_for(|| standby.rows() == [1, 2]);
    assert!(is_plain(&standby.path));
    drop(standby);

    let followed = Followed::new(true, &["--certificate", "AppCert"], false);
    let standby = Standby::start(&followed.pair, &[]);
    followed.convert("decrypt");
    standby.says("standby.db is encrypted, and the database of the archive's new chain is plain");
    assert!(is_encrypted(&standby.path));
    assert_eq!(standby.rows(), [1]);
}

/// With many databases in a process, the others go on meanwhile.
#[test]
fn one_of_many_is_followed_on_after_it_was_encrypted() {
    let dir = Dir::new();
    for name in ["a.db", "b.db"] {
        crate::databases::create(&dir.path(name), "PRAGMA journal_mode = WAL; CREATE TABLE t(n)");
    }
    let config = dir.path("replicate.toml");
    let list = "[[database]]\npath = 'a.db'\n[[database]]\npath = 'b.db'\n";
    let head = "to = '{name}'\ncertificates = ['AppCert']\nno_sign = true\n";
    fs::write(&config, format!("{head}{list}")).unwrap();
    let object = |name: &str, number| dir.path(name).join(format!("{number:016}.tdekit"));
    let said = dir.path("said");
    let words = ["replicate", "--config", text(&config)];
    let mut process = place().command(words).stderr(File::create(&said).unwrap()).spawn().unwrap();
    wait_for(|| object("a", 1).exists() && object("b", 1).exists());
    let copy = dir.path("copy.db");
    fs::copy(dir.path("a.db"), &copy).unwrap();
    encrypt(&copy, &[]);
    fs::rename(&copy, dir.path("a.db")).unwrap();
    wait_for(|| object("a", 2).exists());
    for (name, number) in [("a", 3), ("b", 2)] {
        let db = open(&dir.path(&format!("{name}.db")));
        db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        wait_for(|| object(name, number).exists());
    }
    signal(process.id(), "TERM");
    let ended = process.wait_with_output_by(Duration::from_secs(20));
    let said = fs::read_to_string(&said).unwrap();
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("a.db: the database is encrypted now"), "{said}");
    assert!(!said.contains("error"), "{said}");
}
