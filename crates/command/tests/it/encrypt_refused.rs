//! `encrypt` and `decrypt` where they must refuse, and the properties of a file that they keep.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Run, install, tdekit};
use crate::databases::{
    Dir, SmallDisk, create, dump, encrypt, encrypt_args, encrypt_fails, fails, fill, insert,
    is_encrypted, is_plain, ok, open, place,
};

#[test]
fn what_is_no_plain_database() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    assert!(fails(1, "decrypt", &path).contains("is not encrypted"));
    encrypt(&path, &[]);
    let before = fs::read(&path).unwrap();
    let told = encrypt_fails(1, &path, &[]);
    assert!(told.contains("is encrypted already") && told.contains("tdekit status"), "{told}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let text = dir.path("notes.txt");
    fs::write(&text, "these are notes, and they are long enough for a header\n".repeat(9)).unwrap();
    for command in ["encrypt", "decrypt"] {
        let run = |path: &Path| match command {
            "encrypt" => place().run(encrypt_args(path, &[])),
            _ => place().run([command.as_ref(), path.as_os_str()]),
        };
        let told = |path: &Path, code, what: &str| {
            let run = run(path);
            assert_eq!(run.code, code, "{run:?}");
            assert!(run.err.contains(what), "{run:?}");
        };
        told(&text, 4, "is not a database");
        told(&dir.path(""), 2, "is a directory");
        told(Path::new("/dev/null"), 2, "is not an ordinary file");
        told(Path::new(":memory:"), 2, "is not the path of a database file");
        told(Path::new("file::memory:?cache=shared"), 2, "is not the path of a database file");
        told(&dir.path("none.db"), 7, "cannot open");
    }
    assert_eq!(dir.names(), ["app.db", "notes.txt"]);
}

#[test]
fn a_damaged_database_stays_as_it_is() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 3000);
    let mut bytes = fs::read(&path).unwrap();
    bytes[5 * 4096..6 * 4096].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let told = encrypt_fails(4, &path, &[]);
    assert!(told.contains("malformed"), "{told}");
    assert_eq!((fs::read(&path).unwrap(), dir.names()), (bytes, vec!["app.db".to_owned()]));
}

#[test]
fn a_tampered_page_stops_decrypt() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 3000);
    encrypt(&path, &[]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[16384 + 5 * 4096 + 77] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let told = fails(4, "decrypt", &path);
    assert!(told.contains("page 6 does not authenticate"), "{told}");
    assert_eq!((fs::read(&path).unwrap(), dir.names()), (bytes, vec!["app.db".to_owned()]));
}

#[test]
fn a_file_that_was_cut_stays_as_it_is() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 3000);
    encrypt(&path, &[]);
    let whole = fs::read(&path).unwrap();
    for (length, says) in [
        (15_000, "ends inside the header"),
        (20_000, "ends inside page 1"),
        (16_384 + 5 * 4096, "malformed"),
    ] {
        fs::write(&path, &whole[..length]).unwrap();
        let told = fails(4, "decrypt", &path);
        assert!(told.contains(says), "{told}");
        assert_eq!(fs::read(&path).unwrap(), whole[..length]);
        assert_eq!(dir.names(), ["app.db"]);
    }
    // A header alone is a database that was being created.
    fs::write(&path, &whole[..16_384]).unwrap();
    ok("decrypt", &path);
    assert!(is_plain(&path));
}

#[test]
fn keys_that_are_wrong_or_missing() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    let before = fs::read(&path).unwrap();
    let with = |variable: &str, value: &str, args: &[&OsStr]| {
        let mut command = place().command(args);
        Run::of(&command.env(variable, value).output().unwrap())
    };
    let owned = encrypt_args(&path, &[]);
    let args: Vec<&OsStr> = owned.iter().map(AsRef::as_ref).collect();
    let run = with("TDEKIT_PASSWORD", "guess", &args);
    assert!(run.code == 3 && run.err.contains("wrong password"), "{run:?}");
    let run = with("TDEKIT_HOME", dir.path("nowhere").to_str().unwrap(), &args);
    assert!(run.code == 3 && run.err.contains("no key store"), "{run:?}");
    let unknown = ["encrypt".as_ref(), path.as_os_str(), "--certificate".as_ref(), "X".as_ref()];
    assert!(place().fails(3, unknown).contains("no certificate X"));
    assert_eq!(fs::read(&path).unwrap(), before);
    // The usage is checked before the store is opened.
    for wrong in
        [["--algorithm", "TRIPLE_DES_3KEY"], ["--algorithm", "ROT13"], ["--page-size", "512"]]
    {
        assert_eq!(place().run(encrypt_args(&path, &wrong)).code, 2, "{wrong:?}");
    }
    assert_eq!(place().run(["encrypt".as_ref(), path.as_os_str()]).code, 2);
    encrypt(&path, &[]);
    let sealed = fs::read(&path).unwrap();
    let args = ["decrypt".as_ref(), path.as_os_str()];
    assert_eq!(with("TDEKIT_PASSWORD", "guess", &args).code, 3);
    let other = crate::common::Place::with_store();
    let told = other.fails(3, args);
    assert!(told.contains("has no certificate 0x"), "{told}");
    assert_eq!((fs::read(&path).unwrap(), dir.names()), (sealed, vec!["app.db".to_owned()]));
}

#[test]
fn a_certificate_without_its_private_key_is_not_enough() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 10);
    let other = crate::common::Place::with_store();
    other.ok(["cert", "create", "Theirs"]);
    let (pem, key) = (dir.path("theirs.pem"), dir.path("theirs.key"));
    let paths = [pem.to_str().unwrap(), key.to_str().unwrap()];
    other.ok(["cert", "backup", "Theirs", "--out", paths[0], "--key-out", paths[1]]);
    let place = crate::common::Place::with_store();
    place.ok(["cert", "create", "Ours"]);
    place.ok(["cert", "restore", "Theirs", "--in", paths[0]]);
    let database = path.to_str().unwrap();
    let told = place.fails(3, ["encrypt", database, "--certificate", "Theirs"]);
    assert!(told.contains("without its private key") && is_plain(&path), "{told}");
    place.ok(["encrypt", database, "--certificate", "Theirs", "--certificate", "Ours"]);
    other.ok(["decrypt", database]);
}

#[test]
fn the_original_is_kept_on_request() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 500);
    let before = fs::read(&path).unwrap();
    let run = encrypt(&path, &["--keep-plain"]);
    assert!(run.out.contains("app.db.plain"), "{run:?}");
    assert_eq!(fs::read(dir.path("app.db.plain")).unwrap(), before);
    assert!(is_encrypted(&path));
    ok("decrypt", &path);
    let told = encrypt_fails(1, &path, &["--keep-plain"]);
    assert!(told.contains("app.db.plain exists") && is_plain(&path), "{told}");
    let before = fs::read(&path).unwrap();
    let kept = dir.path("kept");
    encrypt(&path, &[&format!("--keep-plain={}", kept.display())]);
    assert_eq!(fs::read(&kept).unwrap(), before);
    assert_eq!(dir.names(), ["app.db", "app.db.plain", "kept"]);
    let told = place().run(encrypt_args(&path, &["--keep-plain", "else"]));
    assert_eq!(told.code, 7, "a path without = is another database");
    assert!(!is_plain(&path) && dir.names().len() == 3);
}

#[test]
fn the_original_is_kept_on_another_file_system() {
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        return eprintln!("skipped: no /dev/shm");
    };
    let dir = Dir::new();
    let path = dir.path("app.db");
    insert(&create(&path, "PRAGMA journal_mode = WAL"), 500);
    let before = fs::read(&path).unwrap();
    let kept = other.path().join("kept.db");
    encrypt(&path, &[&format!("--keep-plain={}", kept.display())]);
    assert_eq!(fs::read(&kept).unwrap(), before);
    assert!(is_encrypted(&path));
}

#[test]
fn mode_owner_and_attributes_stay_and_links_lead_on() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if root {
        std::os::unix::fs::chown(&path, Some(12_345), Some(23_456)).unwrap();
    }
    let attribute =
        rustix::fs::setxattr(&path, "user.tdekit-test", b"kept", rustix::fs::XattrFlags::empty());
    let link = dir.path("link.db");
    symlink("app.db", &link).unwrap();
    let old = fs::metadata(&path).unwrap();
    for command in ["encrypt", "decrypt"] {
        if command == "encrypt" {
            encrypt(&link, &[]);
            assert!(is_encrypted(&path));
        } else {
            ok("decrypt", &link);
            assert!(is_plain(&path));
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let new = fs::metadata(&path).unwrap();
        assert_eq!((new.mode(), new.uid(), new.gid()), (old.mode(), old.uid(), old.gid()));
        if attribute.is_ok() {
            let mut value = [0; 4];
            rustix::fs::getxattr(&path, "user.tdekit-test", &mut value).unwrap();
            assert_eq!(&value, b"kept");
        }
    }
    assert_eq!(dir.names(), ["app.db", "link.db"]);
}

#[test]
fn other_names_of_the_file_are_told() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 100);
    fs::hard_link(&path, dir.path("other.db")).unwrap();
    let told = encrypt_fails(1, &path, &[]);
    assert!(told.contains("1 more hard link") && is_plain(&path), "{told}");
    assert_eq!(dir.names(), ["app.db", "other.db"]);
}

/// Everything that another user could have put there first, under any name that was ever used.
#[test]
fn what_others_put_beside_the_database_is_not_touched_and_nothing_goes_there() {
    const FORMER: [&str; 3] = [".tdekit-new", ".tdekit-new-journal", ".tdekit-stage"];
    let (dir, away) = (Dir::new(), Dir::new());
    let path = dir.path("app.db");
    fill(&path, 100);
    let victim = away.path("victim");
    fs::write(&victim, "somebody's words").unwrap();
    let facts = |path: &Path| {
        let facts = fs::symlink_metadata(path).unwrap();
        (facts.ino(), facts.mode(), facts.len(), facts.mtime_nsec())
    };
    type Put = fn(&Path, &Path);
    let ways: [Put; 4] = [
        |other, _| {
            fs::write(other, "").unwrap();
            fs::set_permissions(other, fs::Permissions::from_mode(0o666)).unwrap();
        },
        |other, victim| std::os::unix::fs::symlink(victim, other).unwrap(),
        |other, victim| fs::hard_link(victim, other).unwrap(),
        |other, _| {
            let made = Command::new("mkfifo").arg(other).status().unwrap();
            assert!(made.success());
        },
    ];
    for put in ways {
        let others = FORMER.map(|suffix| dir.path(&format!("app.db{suffix}")));
        others.iter().for_each(|other| put(other, &victim));
        let before = others.clone().map(|other| facts(&other));
        encrypt(&path, &[]);
        assert!(is_encrypted(&path));
        ok("decrypt", &path);
        assert!(is_plain(&path));
        assert_eq!(others.clone().map(|other| facts(&other)), before);
        assert_eq!(fs::read(&victim).unwrap(), b"somebody's words");
        others.iter().for_each(|other| fs::remove_file(other).unwrap());
        assert_eq!(dir.names(), ["app.db"]);
    }
}

#[test]
fn a_directory_that_cannot_be_written() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return eprintln!("skipped: needs root to run the command as somebody else");
    }
    let dir = Dir::new();
    let closed = dir.path("closed");
    fs::create_dir(&closed).unwrap();
    let path = closed.join("app.db");
    fill(&path, 100);
    // The command and its store where the user nobody can reach them.
    let (command, home) = (dir.path("tdekit"), dir.path("home"));
    install(&tdekit(), &command);
    fs::create_dir(&home).unwrap();
    fs::copy(place().store_file(), home.join("keystore.tdk")).unwrap();
    let nobody = Some(65_534);
    for owned in [home.clone(), home.join("keystore.tdk"), path.clone()] {
        std::os::unix::fs::chown(owned, nobody, nobody).unwrap();
    }
    for open in [dir.path(""), closed.clone()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = |path: &Path| {
        let mut run = Command::new(&command);
        run.args(encrypt_args(path, &[])).env_clear().uid(65_534).gid(65_534);
        Run::of(&run.env("TDEKIT_HOME", &home).env("TDEKIT_PASSWORD", "secret").output().unwrap())
    };
    let refused = run(&path);
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(
        refused.err.contains("closed/tdekit-new.") && refused.err.contains("Permission denied"),
        "{refused:?}"
    );
    // A directory of its own, and a file that it may only read.
    std::os::unix::fs::chown(&closed, nobody, nobody).unwrap();
    std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
    let refused = run(&path);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("can only be read") && is_plain(&path), "{refused:?}");
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 1);
}

#[test]
fn a_limit_on_the_size_of_files_leaves_all_as_it_was() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 5000);
    let before = fs::read(&path).unwrap();
    // Blocks of 1024 bytes in bash. A write beyond the limit fails, whether or not SIGXFSZ is
    // ignored.
    for (blocks, trap) in
        [(0, ""), (1, "trap '' XFSZ;"), (17, ""), (100, "trap '' XFSZ;"), (100, ""), (400, "")]
    {
        let script = format!("{trap} ulimit -f {blocks}; exec \"$@\"");
        let inner = place().command(encrypt_args(&path, &[]));
        let mut command = Command::new("bash");
        command.args(["-c", &script, "bash"]).arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap());
        }
        let run = Run::of(&command.output().unwrap());
        assert_eq!(run.code, 7, "{blocks}: {run:?}");
        assert!(run.err.starts_with("error: "), "{run:?}");
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(dir.names(), ["app.db"], "{blocks}");
    }
    encrypt(&path, &[]);
}

#[test]
fn a_full_disk_leaves_all_as_it_was() {
    let dir = Dir::new();
    let Some(mounted) = SmallDisk::mount(&dir, "6m") else { return };
    let disk = &mounted.0;
    let path = disk.join("app.db");
    // Each table takes a page; pages of 64 KiB take more space than estimated.
    let tables: String = (0..150).map(|n| format!("CREATE TABLE t{n}(a);")).collect();
    drop(create(&path, &tables));
    let before = fs::read(&path).unwrap();
    let told = encrypt_fails(7, &path, &["--page-size", "65536"]);
    assert!(told.contains("the disk is full") && told.contains("is as it was"), "{told}");
    let names = || fs::read_dir(disk).unwrap().count();
    assert_eq!((fs::read(&path).unwrap(), names()), (before.clone(), 1));
    // A conversion that cannot fit is not started.
    fs::write(disk.join("ballast"), vec![1; 4 << 20]).unwrap();
    let told = encrypt_fails(7, &path, &[]);
    assert!(told.contains("the copy needs about"), "{told}");
    assert_eq!((fs::read(&path).unwrap(), names()), (before, 2));
    fs::remove_file(disk.join("ballast")).unwrap();
    let content = dump(&open(&path));
    encrypt(&path, &[]);
    assert_eq!(dump(&open(&path)), content);
}

#[test]
fn the_store_notes_the_file_and_the_missing_backup_is_told() {
    let place = crate::common::Place::with_store();
    place.ok(["cert", "create", "Own"]);
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 10);
    let database = path.to_str().unwrap();
    let run = place.ok(["encrypt", database, "--certificate", "Own"]);
    assert!(run.err.contains("warning: The certificate Own used for encrypting"), "{run:?}");
    let uses = || place.json(["cert", "list", "--json"])[0]["used_by"].clone();
    assert_eq!(uses()[0]["path"], database);
    assert!(place.fails(3, ["cert", "drop", "Own"]).contains(database));
    let backup = dir.path("own.p12");
    place.ok(["cert", "backup", "Own", "--pkcs12", backup.to_str().unwrap()]);
    place.ok(["decrypt", database]);
    assert_eq!(uses().as_array().unwrap().len(), 0);
    let run = place.ok(["encrypt", database, "--certificate", "Own"]);
    assert!(run.err.is_empty(), "no bar where there is no terminal, no warning: {run:?}");
}
