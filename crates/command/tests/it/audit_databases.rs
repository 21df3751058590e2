//! The audit log of databases' keys: entries of the command and the extension, and refusals if it
//! cannot be written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{CHEAP, Place, Run};
use crate::databases::{Dir, SmallDisk, fill};
use serde_json::Value;

const OPENINGS: &[u8] = b"[audit]\nopenings = true\n";

/// Makes a separate store with two certificates.
fn with_keys() -> Place {
    let mut here = Place::empty();
    here.set("TDEKIT_PASSWORD", "secret-words");
    here.ok(["key", "init", CHEAP[0], CHEAP[1]]);
    for name in ["First", "Second"] {
        here.ok(["cert", "create", name]);
    }
    here
}

fn encrypted(here: &Place, dir: &Dir, name: &str) -> PathBuf {
    let path = dir.path(name);
    fill(&path, 50);
    here.ok(["encrypt", path.to_str().unwrap(), "--certificate", "First"]);
    path
}

/// Returns the verified log's entries of a database.
fn entries(here: &Place, database: &Path) -> Vec<Value> {
    let path = database.to_str().unwrap();
    let told = here.json(["audit", "log", "--verify", "--json", "--database", path]);
    assert_eq!((&told["verified"], &told["faults"]), (&true.into(), &serde_json::json!([])));
    told["entries"].as_array().unwrap().clone()
}

fn actions(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect()
}

fn names(entry: &Value) -> Vec<&str> {
    let certificates = entry["key"]["certificates"].as_array().unwrap();
    certificates.iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// Runs the stock shell with the extension of this build: cargo puts it beside the tests.
fn shell(here: &Place, database: &Path, sql: &str) -> Command {
    let name =
        format!("{}tdekit_sqlite{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let extension = std::env::current_exe().unwrap().with_file_name(name);
    let mut shell = Command::new("sqlite3");
    shell
        .args([":memory:", "-bail", "-cmd", &format!(".load {}", extension.display())])
        .args(["-cmd", &format!(".open {}", database.display()), sql])
        .env("TDEKIT_HOME", here.home())
        .env("TDEKIT_PASSWORD", "secret-words")
        .stdin(Stdio::null());
    shell
}

fn opens(here: &Place, database: &Path) -> Run {
    Run::of(&shell(here, database, "SELECT count(*) FROM t").output().unwrap())
}

#[test]
fn every_change_of_a_databases_key_has_its_entry() {
    let (here, dir) = (with_keys(), Dir::new());
    let path = encrypted(&here, &dir, "app.db");
    let (text, bak, again) = (path.to_str().unwrap(), dir.path("app.bak"), dir.path("again.db"));
    let header = fs::read(&path).unwrap();
    here.ok(["rotate", text, "--algorithm", "AEGIS_256X2"]);
    here.ok(["rewrap", text, "--certificate", "Second"]);
    here.ok(["rewrap", text, "--certificate", "Second"]);
    let (bak_text, again_text) = (bak.to_str().unwrap(), again.to_str().unwrap());
    here.ok(["backup", text, "--to", bak_text]);
    here.ok(["restore", bak_text, "--to", again_text]);
    here.ok(["decrypt", text]);
    let told = entries(&here, &path);
    let wanted = ["encrypted", "rotation-begun", "rotated", "rewrapped", "backed-up", "decrypted"];
    assert_eq!(actions(&told), wanted, "{told:#?}");
    for entry in &told {
        assert_eq!((&entry["v"], &entry["subject"]), (&2.into(), &"database-key".into()));
        assert_eq!(entry["id"], told[0]["id"]);
        assert_eq!(entry["name"], text);
        assert!(entry["program"].as_str().unwrap().ends_with("tdekit"));
        assert!(entry["uid"].is_number() && entry["at"].is_string());
    }
    assert_eq!(told[0]["id"].as_str().unwrap().len(), 32);
    let key = |at: usize| {
        let key = &told[at]["key"];
        (key["version"].as_u64().unwrap(), key["algorithm"].as_str().unwrap(), names(&told[at]))
    };
    assert_eq!(key(0), (1, "AES_256", vec!["First"]));
    assert_eq!(key(1), (2, "AEGIS_256X2", vec!["First"]));
    assert_eq!(key(2), (2, "AEGIS_256X2", vec!["First"]));
    assert_eq!(key(3), (2, "AEGIS_256X2", vec!["Second"]));
    assert_eq!(key(4), (2, "AES_256", vec!["Second"]));
    assert_eq!(told[4]["key"]["media"], bak_text);
    let restored = entries(&here, &again);
    assert_eq!(actions(&restored), ["restored"]);
    assert_eq!(
        (names(&restored[0]), &restored[0]["key"]["media"]),
        (vec!["Second"], &bak_text.into())
    );
    assert_ne!(restored[0]["id"], told[0]["id"]);
    // By the identifier, wherever the file is now.
    let moved = dir.path("moved.db");
    fs::write(&moved, header).unwrap();
    assert_eq!(actions(&entries(&here, &moved)), wanted);
    let shown = here.ok(["audit", "log", "--database", text]).out;
    assert!(shown.contains("key version 2; AEGIS_256X2; certificate First"), "{shown}");
    assert!(!fs::read_to_string(here.home().join("audit.log")).unwrap().contains("secret-words"));
}

#[test]
fn a_stream_that_is_restored_is_told_and_not_given_out_untold() {
    let (here, dir) = (with_keys(), Dir::new());
    let (bak, out) = (dir.path("app.bak"), dir.path("out"));
    let (bak_text, out_text) = (bak.to_str().unwrap(), out.to_str().unwrap());
    let input = here.secret_file("input", b"bytes of a stream");
    let args = ["backup", "--stdin", "--name", "s", "--certificate", "First", "--to", bak_text];
    let made = here.command(args).stdin(fs::File::open(input).unwrap()).output().unwrap();
    assert_eq!(Run::of(&made).code, 0, "{made:?}");
    here.ok(["restore", bak_text, "--to", out_text]);
    assert_eq!(here.ok(["restore", bak_text, "--to", "-"]).out, "bytes of a stream");
    let told = here.json(["audit", "log", "--verify", "--json"]);
    let told = told["entries"].as_array().unwrap();
    let last = &told[told.len() - 2..];
    assert_eq!(actions(last), ["restored", "restored"], "{told:#?}");
    for (entry, name) in last.iter().zip([out_text, "standard output"]) {
        assert_eq!((&entry["name"], &entry["subject"]), (&name.into(), &"database-key".into()));
        assert_eq!((names(entry), &entry["key"]["media"]), (vec!["First"], &bak_text.into()));
    }

    fs::remove_file(here.home().join("audit.log")).unwrap();
    fs::create_dir(here.home().join("audit.log")).unwrap();
    fs::remove_file(&out).unwrap();
    for place in [out_text, "-"] {
        here.fails(7, ["restore", bak_text, "--to", place]);
    }
    assert_eq!(dir.names(), ["app.bak"]);
}

#[test]
fn online_imports_of_certificates_and_plain_restores_are_told_too() {
    let (here, dir) = (with_keys(), Dir::new());
    let path = dir.path("app.db");
    fill(&path, 50);
    let (text, bak) = (path.to_str().unwrap(), dir.path("app.bak"));
    here.ok(["encrypt", "--online", text, "--certificate", "First"]);
    here.ok(["cert", "rotate", "First"]);
    here.ok(["rewrap", text]);
    here.ok(["backup", text, "--to", bak.to_str().unwrap(), "--encryption", "AES_128"]);
    let plain = dir.path("plain.db");
    let to = plain.to_str().unwrap();
    here.ok(["restore", bak.to_str().unwrap(), "--to", to, "--plain"]);
    let told = entries(&here, &path);
    assert_eq!(actions(&told), ["encrypted", "rewrapped", "backed-up"], "{told:#?}");
    assert_ne!(told[0]["key"]["certificates"], told[1]["key"]["certificates"]);
    let told = entries(&here, &plain);
    assert_eq!((actions(&told), &told[0]["id"]), (vec!["restored"], &"".into()));
    assert_eq!(told[0]["key"]["algorithm"], "AES_128");
}

#[test]
fn a_log_that_lost_the_entry_of_a_database_is_told() {
    let (here, dir) = (with_keys(), Dir::new());
    encrypted(&here, &dir, "app.db");
    let log = here.home().join("audit.log");
    let text = fs::read_to_string(&log).unwrap();
    let (rest, last) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(last.contains("encrypted"));
    fs::write(&log, format!("{rest}\n")).unwrap();
    let told = || {
        let run = here.run(["audit", "log", "--verify"]);
        assert_eq!(run.code, 4, "{run:?}");
        run.err
    };
    assert!(told().contains("the log ends at entry"));
    fs::write(&log, text.replace("app.db", "bpp.db")).unwrap();
    assert!(told().contains("changed or forged"));
}

#[test]
fn what_cannot_be_logged_is_not_done() {
    let (here, dir) = (with_keys(), Dir::new());
    let (plain, sealed) = (dir.path("plain.db"), encrypted(&here, &dir, "app.db"));
    fill(&plain, 50);
    let log = here.home().join("audit.log");
    fs::rename(&log, here.path("kept")).unwrap();
    symlink(here.path("elsewhere"), &log).unwrap();
    let before = [fs::read(&plain).unwrap(), fs::read(&sealed).unwrap()];
    let (plain_text, text) = (plain.to_str().unwrap(), sealed.to_str().unwrap());
    let bak = dir.path("app.bak");
    for words in [
        &["encrypt", plain_text, "--certificate", "First"][..],
        &["encrypt", "--online", plain_text, "--certificate", "First"],
        &["decrypt", text],
        &["rotate", text],
        &["rewrap", text, "--certificate", "Second"],
        &["backup", text, "--to", bak.to_str().unwrap()],
    ] {
        let run = here.run(words);
        assert!(
            run.code != 0 && run.err.contains("audit log cannot record it"),
            "{words:?} {run:?}"
        );
    }
    assert!([fs::read(&plain).unwrap(), fs::read(&sealed).unwrap()] == before);
    assert_eq!(dir.names(), ["app.db", "plain.db"]);
    let new = format!("file:{}?tdekit_certificate=First", dir.path("new.db").display());
    let made = shell(&here, Path::new(&new), "CREATE TABLE t(a)").output().unwrap();
    assert!(!made.status.success() && fs::read(dir.path("new.db")).unwrap().is_empty(), "{made:?}");
    assert_eq!(opens(&here, &sealed).out, "50\n", "openings are not logged, so they go on");
    drop(made);
    fs::remove_file(&log).unwrap();
    fs::rename(here.path("kept"), &log).unwrap();
    assert_eq!(actions(&entries(&here, &sealed)), ["encrypted"]);
}

#[test]
fn the_stock_shell_logs_an_opening_once_where_that_is_asked_for_and_else_nothing() {
    let (here, dir) = (with_keys(), Dir::new());
    let path = encrypted(&here, &dir, "app.db");
    let log = || fs::read(here.home().join("audit.log")).unwrap();
    let before = log();
    assert_eq!(opens(&here, &path).out, "50\n");
    assert!(log() == before);
    here.secret_file("home/config.toml", OPENINGS);
    let twice = format!("SELECT count(*) FROM t; ATTACH '{}' AS b", path.display());
    let run = Run::of(&shell(&here, &path, &twice).output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (0, "50\n"), "{run:?}");
    let told = entries(&here, &path);
    assert_eq!(actions(&told), ["encrypted", "opened"]);
    assert!(told[1]["program"].as_str().unwrap().ends_with("sqlite3"));
    assert_eq!((&told[1]["id"], names(&told[1])), (&told[0]["id"], vec!["First"]));
    assert_eq!(told[1]["name"], path.to_str().unwrap());
    let new = dir.path("new.db");
    let uri = format!("file:{}?tdekit_certificate=First", new.display());
    let made = Run::of(&shell(&here, Path::new(&uri), "CREATE TABLE t(a)").output().unwrap());
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(actions(&entries(&here, &new)), ["created", "opened"]);
    here.ok(["decrypt", path.to_str().unwrap()]);
    let told = entries(&here, &path);
    assert_eq!(actions(&told), ["encrypted", "opened", "opened", "decrypted"]);
}

#[test]
#[ignore = "full: several shells"]
fn a_certificate_is_not_dropped_that_the_stock_shell_made_a_database_for() {
    let (here, dir) = (with_keys(), Dir::new());
    here.ok(["cert", "create", "Own"]);
    let password = here.secret_file("backup-password", b"secret");
    let password = password.to_str().unwrap();
    let file = ["--pkcs12", "own.p12", "--backup-password-file", password];
    here.ok([&["cert", "backup", "Own"][..], &file].concat());
    let new = dir.path("new.db");
    let uri = format!("file:{}?tdekit_certificate=Own", new.display());
    let made = Run::of(&shell(&here, Path::new(&uri), "CREATE TABLE t(a)").output().unwrap());
    assert_eq!(made.code, 0, "{made:?}");
    let refused = here.fails(3, ["cert", "drop", "Own"]);
    assert!(refused.contains(new.to_str().unwrap()), "{refused}");
    assert_eq!(opens(&here, &new).code, 0);
}

#[test]
fn an_opening_that_must_be_logged_and_cannot_be_is_refused() {
    let (here, dir) = (with_keys(), Dir::new());
    let path = encrypted(&here, &dir, "app.db");
    here.secret_file("home/config.toml", OPENINGS);
    let log = here.home().join("audit.log");
    fs::rename(&log, here.path("kept")).unwrap();
    symlink(here.path("elsewhere"), &log).unwrap();
    let run = opens(&here, &path);
    assert!(run.code != 0 && run.out.is_empty(), "{run:?}");
    fs::remove_file(&log).unwrap();
    fs::rename(here.path("kept"), &log).unwrap();
    assert_eq!(opens(&here, &path).out, "50\n");
    for wrong in ["[audit]\nopening = true\n", "[audit]\nopenings = \"yes\"\n"] {
        here.secret_file("home/config.toml", wrong.as_bytes());
        assert_ne!(opens(&here, &path).code, 0, "{wrong}");
    }
}

#[test]
fn a_store_that_nobody_can_write_is_used_unless_openings_must_be_logged() {
    let (here, dir) = (with_keys(), Dir::new());
    let Some(disk) = SmallDisk::mount(&dir, "4m") else { return };
    let sealed = encrypted(&here, &dir, "app.db");
    let plain = dir.path("plain.db");
    fill(&plain, 50);
    let home = disk.0.join("home");
    let copied = Command::new("cp").arg("-a").arg(here.home()).arg(&home).status().unwrap();
    assert!(copied.success());
    let remount = |how: &str| {
        let done = Command::new("mount").args(["-o", how]).arg(&disk.0).status().unwrap();
        assert!(done.success());
    };
    let on_disk = |args: &[&str]| {
        let mut command = here.command(args);
        Run::of(&command.env("TDEKIT_HOME", &home).output().unwrap())
    };
    remount("remount,ro");
    let run = on_disk(&["rotate", sealed.to_str().unwrap()]);
    assert!(run.code == 0 && run.err.contains("audit log lacks it"), "{run:?}");
    let run = on_disk(&["encrypt", plain.to_str().unwrap(), "--certificate", "First"]);
    assert!(run.code == 0 && run.err.contains("warning"), "{run:?}");
    let bak = dir.path("app.bak");
    let run = on_disk(&["backup", sealed.to_str().unwrap(), "--to", bak.to_str().unwrap()]);
    assert!(run.code == 0 && run.err.contains("audit log lacks it"), "{run:?}");
    remount("remount,rw");
    here.secret_file("config.toml", OPENINGS);
    fs::copy(here.path("config.toml"), home.join("config.toml")).unwrap();
    remount("remount,ro");
    for words in [["rotate", sealed.to_str().unwrap()], ["decrypt", plain.to_str().unwrap()]] {
        let run = on_disk(&words);
        assert!(run.code != 0 && run.err.contains("audit log cannot record it"), "{run:?}");
    }
}

#[test]
fn processes_log_their_openings_at_once_and_may_be_killed() {
    let (here, dir) = (with_keys(), Dir::new());
    let path = encrypted(&here, &dir, "app.db");
    here.secret_file("home/config.toml", OPENINGS);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..3).for_each(|_| assert_eq!(opens(&here, &path).out, "50\n")));
        }
    });
    assert_eq!(actions(&entries(&here, &path)).len(), 13);
    for round in 0..24_u64 {
        let mut victim = shell(&here, &path, "SELECT count(*) FROM t");
        let mut victim = victim.stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(2 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let run = here.run(["audit", "log", "--verify"]);
        assert_eq!(run.code, 0, "{round}: {run:?}");
    }
    assert_eq!(opens(&here, &path).out, "50\n");
    let told = entries(&here, &path);
    assert_eq!(actions(&told)[1..], vec!["opened"; told.len() - 1]);
}
