//! The file of `replicate --config`: who may change it, and what it must not say.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::databases::{Dir, create, place};
use crate::replicate::{text, wait_for};

/// A configuration in a directory of its own, whose command leaves a file.
struct Configured {
    dir: Dir,
    file: PathBuf,
    ran: PathBuf,
}

impl Configured {
    fn new() -> Self {
        let dir = Dir::new();
        let (file, ran) = (dir.path("etc/r.toml"), dir.path("ran"));
        fs::create_dir(dir.path("etc")).unwrap();
        let config = format!(
            "exec = 'touch {}'\n[[database]]\npath = 'none.db'\nto = 'archive'\n",
            ran.display()
        );
        fs::write(&file, config).unwrap();
        Self { dir, file, ran }
    }

    /// Refused, and its command was not run.
    fn refused(&self, file: &Path, told: &str) {
        let said = place().fails(2, ["replicate", "--config", text(file), "--once"]);
        assert!(said.contains(told), "{said}");
        assert!(!self.ran.exists());
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_configuration_that_others_can_change_runs_nothing() {
    let it = Configured::new();
    let etc = it.dir.path("etc");
    mode(&it.file, 0o664);
    it.refused(&it.file, "others can change it");
    mode(&it.file, 0o644);
    mode(&etc, 0o777);
    it.refused(&it.file, "etc has mode 0777: others could change it");
    // In a sticky directory nobody else replaces it.
    mode(&etc, 0o1777);
    place().fails(7, ["replicate", "--config", text(&it.file), "--once"]);
    wait_for(|| it.ran.exists());
    fs::remove_file(&it.ran).unwrap();
    mode(&etc, 0o755);
    // A link in a directory that others can change, and one that leads to it.
    let open = it.dir.path("open");
    fs::create_dir(&open).unwrap();
    symlink(&it.file, open.join("second")).unwrap();
    let first = it.dir.path("first");
    symlink(open.join("second"), &first).unwrap();
    mode(&open, 0o777);
    it.refused(&open.join("second"), "open has mode 0777");
    it.refused(&first, "open has mode 0777");
    mode(&open, 0o755);
    place().fails(7, ["replicate", "--config", text(&first), "--once"]);
    wait_for(|| it.ran.exists());
}

/// Only root can give files away.
#[test]
fn root_runs_nothing_of_a_file_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let it = Configured::new();
    let etc = it.dir.path("etc");
    for place in [&it.file, &etc] {
        chown(place, Some(65534), None).unwrap();
        it.refused(&it.file, "belongs to user 65534");
        chown(place, Some(0), None).unwrap();
    }
    // Who only looks runs nothing.
    chown(&it.file, Some(65534), None).unwrap();
    drop(create(&it.dir.path("etc/none.db"), "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
    let shown = place().run(["replicate", "status", "--config", text(&it.file)]);
    assert!(shown.out.contains("none.db"), "{shown:?}");
}

/// Places that are not there yet are compared by what they lead to.
#[test]
fn two_databases_never_share_an_archive_however_it_is_written() {
    let dir = Dir::new();
    let file = dir.path("r.toml");
    fs::create_dir(dir.path("real")).unwrap();
    symlink("real", dir.path("link")).unwrap();
    symlink("real/arc", dir.path("later")).unwrap();
    for name in ["a.db", "b.db"] {
        drop(create(&dir.path(name), "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
    }
    let of = |a: &str, b: &str| {
        let list = format!(
            "[[database]]\npath = 'a.db'\nto = '{a}'\n[[database]]\npath = 'b.db'\nto = '{b}'\n"
        );
        fs::write(&file, list).unwrap();
        ["replicate", "--config", text(&file), "--once"].map(str::to_owned)
    };
    for (a, b) in [
        ("arc", "./arc/"),
        ("arc", "real/../arc"),
        ("real/arc", "link/arc"),
        ("real/arc", "later"),
        ("s3://bucket/a", "s3://bucket/a/"),
    ] {
        let said = place().fails(2, of(a, b));
        assert!(said.contains("have one archive"), "{a} {b}: {said}");
    }
    assert!(!dir.path("arc").exists() && !dir.path("real/arc").exists());
    // Of a database too, which may come later.
    let twice = "[[database]]\npath = 'c.db'\nto = 'x'\n[[database]]\npath = './real/../c.db'\n\
                 to = 'y'\n";
    fs::write(&file, twice).unwrap();
    let said = place().fails(2, ["replicate", "--config", text(&file), "--once"]);
    assert!(said.contains("are one database"), "{said}");
    place().ok(of("real/arc", "real/other"));
}

#[test]
fn a_legacy_algorithm_is_listed_and_warned_of() {
    assert!(place().ok(["replicate", "--help"]).out.contains("TRIPLE_DES_3KEY (legacy)"));
    let dir = Dir::new();
    let (db, file) = (dir.path("a.db"), dir.path("r.toml"));
    drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
    let ship = ["replicate", text(&db), "--to", text(&dir.path("one")), "--once"].map(String::from);
    let sealed = |algorithm: &str| {
        let words = ["--certificate", "AppCert", "--encryption", algorithm].map(String::from);
        let run = place().ok([&ship[..], &words].concat());
        run.err.matches("TRIPLE_DES_3KEY is legacy").count()
    };
    assert_eq!(sealed("AES_256"), 0);
    assert_eq!(sealed("triple_des_3key"), 1);
    let of = "certificates = ['AppCert']\nencryption = 'TRIPLE_DES_3KEY'\n";
    fs::write(&file, format!("{of}[[database]]\npath = 'a.db'\nto = 'two'\n")).unwrap();
    let run = place().ok(["replicate", "--config", text(&file), "--once"]);
    assert_eq!(run.err.matches("TRIPLE_DES_3KEY is legacy").count(), 1, "{run:?}");
}

#[test]
fn a_directory_or_a_link_with_the_name_of_the_record_is_refused_as_another_file_is() {
    let dir = Dir::new();
    let (db, record) = (dir.path("a.db"), dir.path("a.db-replica"));
    drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
    let ship = ["replicate", text(&db), "--to", text(&dir.path("ar")), "--once"].map(String::from);
    fs::create_dir(&record).unwrap();
    let said = place().fails(1, ship.clone());
    assert!(said.contains("has the name of a record of replication, and is not one"), "{said}");
    fs::remove_dir(&record).unwrap();
    symlink("elsewhere", &record).unwrap();
    let said = place().fails(1, ship.clone());
    assert!(said.contains("has the name of a record of replication, and is not one"), "{said}");
    fs::remove_file(&record).unwrap();
    assert!(!dir.path("elsewhere").exists());
    place().ok(ship);
}

#[test]
fn a_name_in_braces_stands_for_the_database_on_the_command_line_too() {
    let dir = Dir::new();
    let db = dir.path("a.db");
    drop(create(&db, "PRAGMA journal_mode = WAL; CREATE TABLE t(n)"));
    let ship = |to: &str| {
        ["replicate", text(&db), "--to", text(&dir.path(to)), "--once"].map(String::from)
    };
    place().ok(ship("x{name}y"));
    assert!(dir.path("xay").is_dir() && !dir.path("x{name}y").exists());
    for unknown in ["x{date}", "{name}{host}"] {
        let said = place().fails(2, ship(unknown));
        assert!(said.contains("only {name} stands for something"), "{said}");
        assert!(!dir.path(unknown).exists());
    }
}
