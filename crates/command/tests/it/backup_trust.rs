//! Properties that nobody must be able to remove from a backup silently: its encryption, its end,
//! its warnings.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{CHEAP, Place, Run};
use crate::databases::{Dir, dump, encrypt, fill, open_plain, place};
use rustix::process::{Pid, Signal, kill_process};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn backup<'a>(database: &'a Path, media: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["backup", text(database), "--to", text(media)], more].concat()
}

fn add_row(path: &Path) {
    let sql = "INSERT INTO t SELECT max(id) + 1, 'another', randomblob(100) FROM t";
    open_plain(path).execute_batch(sql).unwrap();
}

/// Returns algorithm and names of the certificates of each set.
fn encryption_of(media: &Path) -> Vec<(Option<String>, Vec<String>)> {
    let report = place().json(["inspect", text(media), "--json"]);
    let names = |set: &serde_json::Value| {
        let encryptors = set["encryptors"].as_array().unwrap().iter();
        encryptors.map(|each| each["certificate_name"].as_str().unwrap().to_owned()).collect()
    };
    let sets = report["sets"].as_array().unwrap().iter();
    sets.map(|set| (set["key_algorithm"].as_str().map(str::to_owned), names(set))).collect()
}

fn some(algorithm: &str, names: &[&str]) -> (Option<String>, Vec<String>) {
    (Some(algorithm.to_owned()), names.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn a_set_behind_encrypted_ones_is_encrypted_as_they_are() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 200);
    let both = ["--certificate", "AppCert", "--certificate", "Second"];
    let first = [&both[..], &["--encryption", "AES_128"]].concat();
    place().ok(backup(&path, &media, &first));
    // The lines of README, in order.
    add_row(&path);
    place().ok(backup(&path, &media, &["--differential"]));
    add_row(&path);
    place().ok(backup(&path, &media, &["--append"]));
    place().ok(backup(&path, &media, &["--append", "--certificate", "Second"]));
    place().ok(backup(&path, &media, &["--append"]));
    let aes_128 = some("AES_128", &["AppCert", "Second"]);
    let second = some("AES_256", &["Second"]);
    assert_eq!(
        encryption_of(&media),
        [aes_128.clone(), aes_128.clone(), aes_128, second.clone(), second.clone()]
    );
    encrypt(&path, &[]);
    place().ok(backup(&path, &media, &["--append"]));
    assert_eq!(encryption_of(&media)[5], second);
    assert_eq!(dir.files_with_marker(), Vec::<String>::new());
}

#[test]
fn plain_among_encrypted_is_never_hinted_at_and_says_what_it_lays_open() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 200);
    place().ok(backup(&path, &media, &["--certificate", "AppCert"]));
    add_row(&path);
    for more in ["--append", "--differential"] {
        let told = place().fails(1, backup(&path, &media, &[more, "--encryption", "none"]));
        assert!(!told.contains("mixed") && told.contains("hint: "), "{told}");
    }
    let plain = ["--differential", "--encryption", "none", "--compression", "none", "--mixed"];
    let before = fs::read(&media).unwrap().len();
    let run = place().ok(backup(&path, &media, &plain));
    assert!(run.err.contains("whoever has the file reads each page that changed"), "{run:?}");
    // Neither the key of the base's fingerprints nor fingerprints are in the plain part.
    let report = place().json(["inspect", text(&media), "--json"]);
    assert_eq!(report["sets"][0]["has_page_map"], true);
    assert_eq!(report["sets"][1]["has_page_map"], false);
    let bytes = fs::read(&media).unwrap();
    let has = |text: &[u8]| bytes[before..].windows(text.len()).any(|window| window == text);
    assert!(has(b"sqlite_version") && !has(b"map_key"));
    let restored = dir.path("r.db");
    place().ok(["restore", text(&media), "--position", "2", "--to", text(&restored)]);
    assert_eq!(dump(&open_plain(&restored)), dump(&open_plain(&path)));
    // An encrypted one after plain ones is refused without that hint as well.
    let other = dir.path("other.bak");
    place().ok(backup(&path, &other, &[]));
    let told = place().fails(1, backup(&path, &other, &["--append", "--certificate", "AppCert"]));
    assert!(!told.contains("mixed"), "{told}");
}

#[test]
fn plain_media_in_the_place_of_encrypted_ones_get_no_plain_set() {
    let dir = Dir::new();
    let (path, media, plain) = (dir.path("app.db"), dir.path("app.bak"), dir.path("plain.bak"));
    fill(&path, 200);
    place().ok(backup(&path, &media, &["--certificate", "AppCert"]));
    place().ok(backup(&path, &plain, &[]));
    fs::rename(&plain, &media).unwrap();
    let before = fs::read(&media).unwrap();
    for more in ["--append", "--differential"] {
        let told = place().fails(1, backup(&path, &media, &[more]));
        assert!(told.contains("was encrypted when it was last written"), "{told}");
        assert_eq!(fs::read(&media).unwrap(), before);
    }
    // Nor where they were removed.
    fs::remove_file(&media).unwrap();
    place().fails(1, backup(&path, &media, &["--append"]));
    assert_eq!(dir.names(), ["app.db"]);
    place().ok(backup(&path, &media, &["--append", "--encryption", "none"]));
}

fn pid(child: &std::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

fn end_of(mut child: std::process::Child) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it goes on waiting: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_signal_ends_a_backup_whose_input_is_silent() {
    let dir = Dir::new();
    for (signal, written) in [(Signal::INT, 0), (Signal::TERM, 100), (Signal::TERM, 3 << 20)] {
        let media = dir.path("s.bak");
        let args = ["backup", "--stdin", "--name", "s", "--to", text(&media)];
        let mut child = place()
            .command(args)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&vec![7; written]).unwrap();
        while dir.work().is_none() {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        kill_process(pid(&child), signal).unwrap();
        let run = Run::of(&end_of(child));
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("error: cancelled"), "{run:?}");
        assert_eq!(dir.names(), Vec::<String>::new());
        drop(input);
    }
}

#[test]
fn a_pipe_is_no_media_and_is_not_waited_for() {
    let dir = Dir::new();
    let pipe = dir.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for command in ["inspect", "verify"] {
        let child = place().command([command, text(&pipe)]).stderr(Stdio::piped()).spawn().unwrap();
        let run = Run::of(&end_of(child));
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.err.contains("is no media set"), "{run:?}");
    }
    let all = dir.path("");
    let scan = ["history", "--scan", text(&all)];
    let child = place().command(scan).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    assert_eq!(Run::of(&end_of(child.unwrap())).code, 0);
}

#[test]
fn names_of_files_do_not_speak_to_the_terminal() {
    let dir = Dir::new();
    let path = dir.path("a\u{1b}]0;owned\u{7}\u{9b}2J.db");
    fill(&path, 10);
    let media = dir.path("b\u{1b}[31m.bak");
    let mut runs = vec![
        place().ok(["status", text(&path)]),
        place().ok(backup(&path, &media, &[])),
        place().ok(["inspect", text(&media)]),
        place().ok(["verify", text(&media)]),
        place().ok(["history"]),
        place().run(["inspect", text(&dir.path("none\u{1b}c"))]),
        place().run(backup(&path, &media, &[])),
    ];
    for json in [["status", text(&path), "--json"], ["inspect", text(&media), "--json"]] {
        let run = place().ok(json);
        let told: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert!(told.to_string().contains("owned"));
        runs.push(run);
    }
    for run in runs {
        let bad = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!run.out.contains(bad) && !run.err.contains(bad), "{run:?}");
    }
}

#[test]
fn a_store_that_others_can_write_to_and_a_short_password_are_warned_of() {
    let mut own = Place::empty();
    own.set("TDEKIT_PASSWORD", "a");
    let run = own.ok(["key", "init", CHEAP[0], CHEAP[1]]);
    assert!(run.err.contains("the password has 1 character(s)"), "{run:?}");
    let run = own.ok(["cert", "create", "C"]);
    assert!(!run.err.contains("mode"), "{run:?}");
    own.set("TDEKIT_BACKUP_PASSWORD", "b");
    let run = own.ok(["cert", "backup", "C", "--pkcs12", "c.p12"]);
    assert!(run.err.contains("the password has 1 character(s)"), "{run:?}");
    let mode = |mode| fs::set_permissions(own.home(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    let run = own.ok(["cert", "list"]);
    assert!(run.err.contains("has mode 0777") && run.err.contains("chmod go-w"), "{run:?}");
    mode(0o700);
    assert_eq!(own.ok(["cert", "list"]).err, "");
}

#[test]
fn a_certificate_that_does_not_fit_is_named() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 10);
    place().ok(backup(&path, &media, &["--certificate", "AppCert"]));
    let wrong = place().path("Second.p12");
    for command in ["verify", "restore"] {
        let mut args = vec![command, text(&media), "--pkcs12", text(&wrong)];
        let to = dir.path("r.db");
        if command == "restore" {
            args.extend(["--to", text(&to)]);
        }
        let run = place().run(args);
        assert_eq!(run.code, 3, "{run:?}");
        assert!(run.err.contains("not for the certificate that was given"), "{run:?}");
        assert!(!run.err.contains("key store"), "{run:?}");
    }
}

#[test]
fn a_certificate_that_expires_soon_is_warned_of_at_each_use_and_in_status() {
    let own = Place::with_store();
    own.ok(["cert", "create", "Soon", "--expires", "20d"]);
    own.ok(["cert", "create", "Later", "--expires", "40d"]);
    for name in ["Soon", "Later"] {
        own.ok(["cert", "backup", name, "--pkcs12", &format!("{name}.p12")]);
    }
    let dir = Dir::new();
    // Full days are reported: 20 only within the second in which the certificate was made.
    let warned = |run: &Run| run.err.contains("certificate Soon expires in ");
    for (name, soon) in [("Soon", true), ("Later", false)] {
        let (path, media) = (dir.path(&format!("{name}.db")), dir.path(&format!("{name}.bak")));
        fill(&path, 10);
        let run = own.ok(backup(&path, &media, &["--certificate", name]));
        // Once, although it seals the set and signs it.
        assert_eq!(run.err.matches("Soon expires in ").count(), usize::from(soon), "{run:?}");
        let run = own.ok(["verify", text(&media)]);
        assert_eq!(warned(&run), soon, "{run:?}");
        let restored = dir.path(&format!("{name}-r.db"));
        let run = own.ok(["restore", text(&media), "--to", text(&restored)]);
        assert_eq!(warned(&run), soon, "{run:?}");
        let run = own.ok(["encrypt", text(&path), "--certificate", name]);
        assert_eq!(warned(&run), soon, "{run:?}");
        let run = own.ok(["status", text(&path)]);
        assert_eq!(run.out.contains("EXPIRES in "), soon, "{run:?}");
        let told = own.json(["status", text(&path), "--json"]);
        let certificate = &told[0]["encryption"]["certificates"][0];
        let days = certificate["expires_in_days"].as_i64();
        assert!(if soon { matches!(days, Some(19 | 20)) } else { days.is_none() }, "{told}");
        assert!(certificate["expires_at"].is_string(), "{told}");
    }
    let run = own.ok(["key", "status"]);
    assert!(warned(&run) && !run.err.contains("Later expires"), "{run:?}");
}

/// Runs the command under a limit on the size of files, in kilobytes, with the system's default for
/// the signal of that limit.
fn limited(kilobytes: u64, args: &[&str]) -> Run {
    let inner = place().command(args);
    let mut command = Command::new("bash");
    let script = format!("ulimit -f {kilobytes}; exec \"$@\"");
    command.args(["-c", &script, "bash"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    Run::of(&command.output().unwrap())
}

#[test]
fn what_does_not_fit_leaves_no_tail_and_no_work_files() {
    let dir = Dir::new();
    let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
    fill(&path, 30_000);
    place().ok(backup(&path, &media, &["--compression", "none"]));
    let before = fs::read(&media).unwrap();
    let kilobytes = before.len() as u64 / 1024;
    for more in [1, 100, 1500] {
        let args = backup(&path, &media, &["--append", "--compression", "none"]);
        let run = limited(kilobytes + more, &args);
        assert_eq!(run.code, 7, "{run:?}");
        assert_eq!(fs::read(&media).unwrap().len(), before.len(), "{more}");
        let other = dir.path("other.bak");
        let run = limited(more, &backup(&path, &other, &["--compression", "none"]));
        assert_eq!(run.code, 7, "{run:?}");
        let restored = dir.path("r.db");
        let run = limited(more, &["restore", text(&media), "--to", text(&restored)]);
        assert_eq!(run.code, 7, "{run:?}");
        assert_eq!(dir.names(), ["app.bak", "app.db"]);
    }
    assert_eq!(fs::read(&media).unwrap(), before);
}

#[test]
fn status_does_not_say_that_an_encrypted_database_is_not_complete() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 10);
    encrypt(&path, &[]);
    let run = place().ok(["status", text(&path)]);
    assert!(run.out.contains("3 ENCRYPTED") && !run.out.contains("0 %"), "{run:?}");
}

/// A link at each name that was ever used for a work file, before anything is made there.
#[test]
fn what_others_put_beside_backups_and_keys_is_not_written_through() {
    let (dir, away) = (Dir::new(), Dir::new());
    let victim = away.path("victim");
    fs::write(&victim, "mine").unwrap();
    let (path, media, restored) = (dir.path("app.db"), dir.path("app.bak"), dir.path("r.db"));
    fill(&path, 200);
    let former = [
        "app.bak.tdekit-new",
        "r.db.tdekit-new",
        "r.db.tdekit-stage",
        "r.db.tdekit-new-journal",
        "s.tdekit-new",
    ];
    for name in former {
        std::os::unix::fs::symlink(&victim, dir.path(name)).unwrap();
    }
    place().ok(backup(&path, &media, &[]));
    place().ok(backup(&path, &media, &["--append"]));
    for form in [&[][..], &["--certificate", "AppCert"], &["--replace", "--plain"]] {
        let args = ["restore", text(&media), "--database", "app.db", "--to", text(&restored)];
        if !form.contains(&"--replace") {
            let _ = fs::remove_file(&restored);
        }
        place().ok([&args[..], form].concat());
    }
    let stream = dir.path("s");
    let (bak, args) = (dir.path("s.bak"), ["backup", "--stdin", "--name", "s", "--to"]);
    place().ok([&args[..], &[text(&bak)]].concat());
    place().ok(["restore", text(&bak), "--to", text(&stream)]);
    for made in [&media, &restored, &bak, &stream] {
        let mode = fs::symlink_metadata(made).unwrap().permissions().mode();
        assert_eq!(mode, 0o100_600, "{made:?}");
    }
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    let mut names = dir.names();
    names.retain(|name| !former.contains(&name.as_str()));
    assert_eq!(names, ["app.bak", "app.db", "r.db", "s", "s.bak"]);
    let taken = away.path("c.pem");
    std::os::unix::fs::symlink(&victim, &taken).unwrap();
    let key = away.path("k.pem");
    let args = ["cert", "backup", "AppCert", "--out", text(&taken), "--key-out", text(&key)];
    place().fails(1, args);
    place().fails(1, ["key", "backup", "--out", text(&taken), CHEAP[0], CHEAP[1]]);
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert_eq!(away.names(), ["c.pem", "victim"]);
}

#[test]
fn what_anybody_can_have_made_takes_no_encrypted_database_s_place() {
    let (dir, mut ours, mut theirs) = (Dir::new(), Place::with_store(), Place::with_store());
    theirs.set("TDEKIT_BACKUP_PASSWORD", "backup-password");
    ours.set("TDEKIT_BACKUP_PASSWORD", "backup-password");
    ours.ok(["cert", "create", "AppCert"]);
    let (c, k) = (dir.path("c.pem"), dir.path("k.pem"));
    ours.ok(["cert", "backup", "AppCert", "--out", text(&c), "--key-out", text(&k)]);
    let (database, own) = (dir.path("app.db"), dir.path("own.bak"));
    fill(&database, 40);
    ours.ok(["encrypt", text(&database), "--certificate", "AppCert"]);
    ours.ok(backup(&database, &own, &[]));
    ours.ok(backup(&database, &own, &["--differential"]));
    let whole = fs::read(&own).unwrap();
    // Sets that others make with our certificate: unsigned, and signed with their own.
    theirs.ok(["cert", "restore", "AppCert", "--in", text(&c)]);
    theirs.ok(["cert", "create", "Evil"]);
    fs::create_dir(dir.path("evil")).unwrap();
    let evil = dir.path("evil/app.db");
    fill(&evil, 3);
    let (unsigned, foreign) = (dir.path("unsigned.bak"), dir.path("foreign.bak"));
    let run = theirs.ok(backup(&evil, &unsigned, &["--certificate", "AppCert"]));
    assert!(run.err.contains("not signed") && !run.out.contains("Signed by"), "{run:?}");
    let signed = ["--certificate", "AppCert", "--sign", "Evil"];
    theirs.ok(backup(&evil, &foreign, &signed));
    let before = fs::read(&database).unwrap();
    let onto = |media: &Path, more: &[&str]| {
        let args = ["restore", text(media), "--to", text(&database), "--replace"];
        let mut args: Vec<String> = args.iter().map(|&each| each.to_owned()).collect();
        args.extend(more.iter().map(|&each| each.to_owned()));
        args
    };
    let encrypting = ["--certificate", "AppCert"];
    let refused = |media: &Path, code: i32, told: &str| {
        for json in [&encrypting[..], &["--certificate", "AppCert", "--json"]] {
            let run = ours.run(onto(media, json));
            assert!(run.code == code && run.err.contains(told) && run.out.is_empty(), "{run:?}");
            assert!(fs::read(&database).unwrap() == before, "{told}");
        }
    };
    refused(&unsigned, 1, "anybody can have made");
    refused(&foreign, 1, "anybody can have made");
    // A certificate in the key store without its private key authenticates nothing.
    let (e, f) = (dir.path("e.pem"), dir.path("f.pem"));
    theirs.ok(["cert", "backup", "Evil", "--out", text(&e), "--key-out", text(&f)]);
    ours.ok(["cert", "restore", "Partner", "--in", text(&e)]);
    refused(&foreign, 1, "anybody can have made");
    // Our own sets, the newer one without its signature, and the older one with a damaged one.
    let scanned = crate::media::scan(&whole);
    assert_eq!(scanned.records.len(), 4);
    let end = |record: usize| usize::try_from(scanned.records[record].end()).unwrap();
    let cut = dir.path("cut.bak");
    fs::write(&cut, &whole[..end(2)]).unwrap();
    refused(&cut, 1, "anybody can have made");
    let mut base = whole.clone();
    base[end(0) + 300] ^= 1;
    fs::write(&cut, &base).unwrap();
    refused(&cut, 1, "anybody can have made");
    // With the user's agreement, and our own without it, both sets of the chain signed.
    ours.ok(onto(&foreign, &["--certificate", "AppCert", "--signed-by", "Partner"]));
    fs::write(&database, &before).unwrap();
    ours.ok(onto(&unsigned, &["--certificate", "AppCert", "--allow-unauthenticated"]));
    fs::write(&database, &before).unwrap();
    ours.ok(onto(&own, &[]));
    assert!(crate::databases::is_encrypted(&database));
    // A new name replaces nothing.
    ours.ok(["restore", text(&unsigned), "--to", text(&dir.path("new.db"))]);
}

#[test]
fn who_signs_is_told_and_required() {
    let (dir, place) = (Dir::new(), Place::with_store());
    place.ok(["cert", "create", "AppCert"]);
    place.ok(["cert", "create", "Ann"]);
    let database = dir.path("app.db");
    fill(&database, 10);
    let signers = |media: &Path| {
        let report = place.json(["inspect", text(media), "--json"]);
        let signatures = report["sets"][0]["signatures"].as_array().unwrap().clone();
        let names = signatures.iter().map(|each| each["certificate_name"].clone());
        names.collect::<Vec<_>>()
    };
    let sealed = ["--certificate", "AppCert"];
    let made = |name: &str, more: &[&str]| {
        let media = dir.path(name);
        place.ok(backup(&database, &media, more));
        signers(&media)
    };
    assert_eq!(made("a.bak", &sealed), ["AppCert"]);
    assert!(made("b.bak", &["--certificate", "AppCert", "--no-sign"]).is_empty());
    assert!(made("c.bak", &[]).is_empty());
    // The one that the configuration names signs, and no other is accepted.
    place.secret_file("home/config.toml", b"[backup]\nrequire = [\"signed-by Ann\"]\n");
    assert_eq!(made("d.bak", &sealed), ["Ann"]);
    assert_eq!(made("e.bak", &[]), ["Ann"]);
    for more in [&["--no-sign"][..], &["--certificate", "AppCert", "--sign", "AppCert"]] {
        let media = dir.path("f.bak");
        let told = place.fails(1, backup(&database, &media, more));
        assert!(told.contains("signed by another certificate"), "{told}");
        assert!(!media.exists());
    }
}
