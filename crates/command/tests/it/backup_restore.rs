//! `backup` and `restore`: the restored database equals the original, in the requested form.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::Run;
use crate::databases::{
    Dir, create, dump, encrypt, fill, insert, is_encrypted, is_plain, one, open, place,
};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `backup DB --to MEDIA` with more arguments.
fn backup(database: &Path, media: &Path, more: &[&str]) -> Run {
    place().ok([&["backup", text(database), "--to", text(media)], more].concat())
}

fn restore(media: &Path, to: &Path, more: &[&str]) -> Run {
    place().ok([&["restore", text(media), "--to", text(to)], more].concat())
}

fn restore_fails(code: i32, media: &Path, to: &Path, more: &[&str]) -> String {
    place().fails(code, [&["restore", text(media), "--to", text(to)], more].concat())
}

fn dump_of(path: &Path) -> Vec<String> {
    dump(&open(path))
}

#[test]
fn every_algorithm_and_compression_of_a_plain_database() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, 3000);
    let before = dump_of(&path);
    let media = dir.path("app.bak");
    let algorithms =
        ["none", "AES_128", "AES_192", "aes_256", "AEGIS_128X2", "AEGIS_256X2", "TRIPLE_DES_3KEY"];
    let compressions = ["none", "lz4", "zstd", "zstd:6", "zstd:-3"];
    for (at, algorithm) in algorithms.into_iter().enumerate() {
        let compression = compressions[at % compressions.len()];
        let certificate = if at == 0 { vec![] } else { vec!["--certificate", "AppCert"] };
        let arguments = [
            &["--append", "--mixed", "--encryption", algorithm, "--compression", compression],
            certificate.as_slice(),
        ];
        let run = backup(&path, &media, &arguments.concat());
        assert_eq!(run.err.contains("TRIPLE_DES_3KEY is legacy"), algorithm == "TRIPLE_DES_3KEY");
        assert!(run.out.contains(&format!("at position {}", at + 1)), "{run:?}");
    }
    for position in 1..=algorithms.len() {
        let restored = dir.path(&format!("r{position}.db"));
        restore(&media, &restored, &["--position", &position.to_string(), "--check"]);
        assert!(is_plain(&restored));
        assert_eq!(dump_of(&restored), before, "{position}");
    }
    let stock = rusqlite::Connection::open(dir.path("r3.db")).unwrap();
    assert_eq!(one::<i64>(&stock, "SELECT count(*) FROM t"), 3000);
}

#[test]
fn an_encrypted_database_is_backed_up_encrypted_and_restored_encrypted() {
    for mode in ["DELETE", "WAL"] {
        let dir = Dir::new();
        let path = dir.path("app.db");
        insert(&create(&path, &format!("PRAGMA journal_mode = {mode}")), 3000);
        encrypt(&path, &[]);
        let before = dump_of(&path);
        let media = dir.path("app.bak");
        let run = backup(&path, &media, &["--compression", "zstd"]);
        assert!(run.out.contains("AES_256, certificate AppCert"), "{run:?}");
        assert!(dir.files_with_marker().is_empty());
        // The plaintext was compressed.
        let (plain, stored) =
            (fs::metadata(&path).unwrap().len(), fs::metadata(&media).unwrap().len());
        assert!(stored < plain * 3 / 4, "{plain} {stored}");
        let restored = dir.path("restored.db");
        let run = restore(&media, &restored, &["--check"]);
        assert!(run.out.contains("encrypted with AES_256, certificate AppCert"), "{run:?}");
        assert!(is_encrypted(&restored) && dir.files_with_marker().is_empty());
        assert_eq!(dump_of(&restored), before, "{mode}");
        assert_eq!(one::<String>(&open(&restored), "PRAGMA integrity_check"), "ok");
        let other = dir.path("other.db");
        restore(&media, &other, &["--certificate", "Second", "--algorithm", "AEGIS_256X2"]);
        assert!(is_encrypted(&other) && dir.files_with_marker().is_empty());
        assert_eq!(dump_of(&other), before);
        let status = place().json(["status", text(&other), "--json"]);
        assert_eq!(status[0]["encryption"]["algorithm"], "AEGIS_256X2");
        assert_eq!(status[0]["encryption"]["certificates"][0]["name"], "Second");
        let plain = dir.path("plain.db");
        restore(&media, &plain, &["--plain", "--check"]);
        assert!(is_plain(&plain));
        let stock = rusqlite::Connection::open(&plain).unwrap();
        assert_eq!(one::<i64>(&stock, "SELECT count(*) FROM t"), 3000);
        assert_eq!(dump_of(&plain), before);
    }
}

#[test]
fn nothing_becomes_plaintext_that_was_not_asked_for() {
    let dir = Dir::new();
    let (plain, sealed) = (dir.path("plain.db"), dir.path("sealed.db"));
    fill(&plain, 100);
    fill(&sealed, 100);
    encrypt(&sealed, &[]);
    let refused = |code: i32, database: &Path, more: &[&str]| {
        let media = dir.path("refused.bak");
        let told =
            place().fails(code, [&["backup", text(database), "--to", text(&media)], more].concat());
        assert!(!media.exists());
        told
    };
    refused(2, &plain, &["--encryption", "AES_256"]);
    refused(2, &plain, &["--encryption", "none", "--certificate", "AppCert"]);
    refused(3, &plain, &["--certificate", "Nobody"]);
    // A certificate alone means encryption.
    let media = dir.path("a.bak");
    let run = backup(&plain, &media, &["--certificate", "AppCert", "--compression", "none"]);
    assert!(run.out.contains("AES_256"), "{run:?}");
    assert_eq!(dir.files_with_marker(), ["plain.db"]);
    // A plain set in an encrypted media set, and the reverse, are distinguished.
    let append = ["backup", text(&plain), "--to", text(&media), "--append"];
    let told = place().fails(1, [&append[..], &["--encryption", "none"]].concat());
    assert!(told.contains("has encrypted sets, and this one would be plain"), "{told}");
    backup(&plain, &media, &["--append"]);
    assert_eq!(dir.files_with_marker(), ["plain.db"]);
    backup(&plain, &media, &["--append", "--encryption", "none", "--mixed"]);
    let open = dir.path("b.bak");
    backup(&sealed, &open, &["--encryption", "none", "--compression", "none"]);
    assert!(dir.files_with_marker().contains(&"b.bak".to_owned()));
    let sealing = ["backup", text(&sealed), "--to", text(&open), "--append"];
    assert!(place().fails(1, sealing).contains("has plain sets"));
    // The plain set of an encrypted database is encrypted again, with the certificate it had.
    let restored = dir.path("r.db");
    restore(&open, &restored, &[]);
    assert!(is_encrypted(&restored));
    assert_eq!(one::<i64>(&crate::databases::open(&restored), "SELECT count(*) FROM t"), 100);
}

#[test]
fn a_plain_database_is_restored_encrypted_without_a_byte_in_the_clear() {
    for (page_size, mode) in [(512, "DELETE"), (4096, "WAL"), (65536, "DELETE")] {
        let dir = Dir::new();
        let source = Dir::new();
        let path = source.path("app.db");
        let sql = format!("PRAGMA page_size = {page_size}; PRAGMA journal_mode = {mode}");
        insert(&create(&path, &sql), 3000);
        let before = dump_of(&path);
        let media = dir.path("app.bak");
        backup(&path, &media, &["--certificate", "AppCert"]);
        let restored = dir.path("sealed.db");
        fs::create_dir(dir.path("tmp")).unwrap();
        let mut command = place().command(["restore", text(&media), "--to", text(&restored)]);
        command.args(["--certificate", "Second", "--check"]).env("SQLITE_TMPDIR", dir.path("tmp"));
        let run = Run::of(&command.output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(fs::read_dir(dir.path("tmp")).unwrap().count(), 0);
        fs::remove_dir(dir.path("tmp")).unwrap();
        assert_eq!(dir.names(), ["app.bak", "sealed.db"]);
        assert!(is_encrypted(&restored) && dir.files_with_marker().is_empty());
        assert_eq!(dump_of(&restored), before, "{page_size} {mode}");
    }
}

#[test]
fn a_killed_restore_leaves_nothing_under_the_name_and_nothing_in_the_clear() {
    let (dir, source) = (Dir::new(), Dir::new());
    let path = source.path("app.db");
    fill(&path, 40_000);
    let before = dump_of(&path);
    let media = dir.path("app.bak");
    backup(&path, &media, &["--certificate", "AppCert"]);
    for form in [&["--certificate", "AppCert"][..], &[]] {
        let restored = dir.path("r.db");
        let mut command = place().command(["restore", text(&media), "--to", text(&restored)]);
        command.args(form).args(["--throttle", "2MB"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = |name: &str| {
            let part = dir.work().map(|work| work.join(name));
            part.is_some_and(|part| fs::metadata(part).is_ok_and(|file| file.len() > 100_000))
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !begun("r.db") && !begun("tdekit-stage") {
            assert!(Instant::now() < end && child.try_wait().unwrap().is_none());
            sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!restored.exists());
        assert!(form.is_empty() || dir.files_with_marker().is_empty());
        // The next plain restore also removes what a restore to an encrypted database left.
        restore(&media, &restored, &[]);
        assert_eq!(dir.names(), ["app.bak", "r.db"]);
        assert_eq!(dump_of(&restored), before);
        fs::remove_file(restored).unwrap();
    }
}

#[test]
fn nothing_is_overwritten_unless_asked_for_and_never_while_it_is_in_use() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    insert(&create(&path, "PRAGMA journal_mode = WAL"), 500);
    let before = dump_of(&path);
    let media = dir.path("app.bak");
    backup(&path, &media, &[]);
    let db = open(&path);
    db.execute_batch("DELETE FROM t").unwrap();
    let told = restore_fails(1, &media, &path, &[]);
    assert!(told.contains("exists") && told.contains("--replace"), "{told}");
    let told = restore_fails(5, &media, &path, &["--replace"]);
    assert!(told.contains("in use by process"), "{told}");
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM t"), 0);
    drop(db);
    restore_fails(1, &media, &media, &["--replace"]);
    // Remains of a crash beside it are removed with it.
    fs::write(dir.path("app.db-journal"), "left over").unwrap();
    restore(&media, &path, &["--replace"]);
    assert_eq!(dir.names(), ["app.bak", "app.db"]);
    assert_eq!(dump_of(&path), before);
    fs::write(dir.path("new.db-wal"), "of another database").unwrap();
    let told = restore_fails(1, &media, &dir.path("new.db"), &[]);
    assert!(told.contains("new.db-wal"), "{told}");
    restore(&media, &dir.path("new.db"), &["--replace"]);
    assert_eq!(dump_of(&dir.path("new.db")), before);
    fs::write(&path, "no database at all").unwrap();
    let told = restore_fails(1, &media, &path, &["--replace"]);
    assert!(told.contains("is not a database") && told.contains("--force"), "{told}");
    restore(&media, &path, &["--replace", "--force"]);
    assert_eq!(dump_of(&path), before);
}

#[test]
#[ignore = "full: a load of half a minute"]
fn what_writes_on_is_backed_up_as_it_was_at_one_moment() {
    let dir = Dir::new();
    let path = dir.path("app.db");
    let db = create(
        &path,
        "PRAGMA journal_mode = WAL; CREATE TABLE pair(a INTEGER, b BLOB);
         CREATE TABLE other(a INTEGER, b BLOB);",
    );
    let media = dir.path("app.bak");
    let arguments = ["backup", text(&path), "--to", text(&media), "--throttle", "20MB"];
    db.execute_batch(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < 4000)
         INSERT INTO pair SELECT x, randomblob(1000) FROM n;
         INSERT INTO other SELECT a, b FROM pair",
    )
    .unwrap();
    let mut child =
        place().command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut next = 10_000;
    while child.try_wait().unwrap().is_none() {
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE; INSERT INTO pair VALUES({next}, randomblob(900));
             INSERT INTO other SELECT * FROM pair WHERE a = {next}; COMMIT"
        ))
        .unwrap();
        next += 1;
    }
    assert!(child.wait().unwrap().success());
    let restored = dir.path("r.db");
    restore(&media, &restored, &["--check"]);
    let of = "SELECT count(*) FROM pair p FULL JOIN other o ON p.a = o.a AND p.b = o.b
              WHERE p.a IS NULL OR o.a IS NULL";
    assert_eq!(one::<i64>(&open(&restored), of), 0);
    assert!(one::<i64>(&open(&restored), "SELECT count(*) FROM pair") >= 4000);
}

/// A default never chooses between databases, and a set replaces only its own database.
#[test]
fn a_set_of_another_database_is_taken_by_name_only() {
    let dir = Dir::new();
    let (shop, hr, media) = (dir.path("shop.db"), dir.path("hr.db"), dir.path("all.bak"));
    fill(&shop, 100);
    fill(&hr, 30);
    backup(&shop, &media, &[]);
    backup(&hr, &media, &["--append"]);
    let before = dump_of(&shop);
    for more in [&[][..], &["--latest-readable"], &["--replace"]] {
        let told = restore_fails(1, &media, &dir.path("x.db"), more);
        assert!(told.contains("several databases: shop.db, hr.db"), "{told}");
        assert!(told.contains("--database NAME"), "{told}");
    }
    // It can be chosen by position, but still does not replace another database.
    let told = restore_fails(1, &media, &shop, &["--position", "2", "--replace"]);
    assert!(told.contains("is not the database of set 2, which is of hr.db"), "{told}");
    let told = restore_fails(1, &media, &shop, &["--position", "2", "--replace", "--force"]);
    assert!(told.contains("is not the database of set 2"), "{told}");
    assert_eq!(dump_of(&shop), before);
    restore_fails(1, &media, &shop, &["--position", "2", "--database", "shop.db", "--replace"]);
    let told = restore_fails(1, &media, &dir.path("x.db"), &["--database", "sales.db"]);
    assert!(told.contains("no set of database sales.db"), "{told}");
    assert_eq!(dump_of(&shop), before);
    // The newest of one, although a set of another follows it.
    open(&shop).execute_batch("DELETE FROM t").unwrap();
    let run = restore(&media, &shop, &["--database", "shop.db", "--replace"]);
    assert!(run.out.contains("from set 1, full, of shop.db"), "{run:?}");
    assert_eq!(dump_of(&shop), before);
    let by_path = ["--database", text(&hr), "--latest-readable"];
    restore(&media, &dir.path("x.db"), &by_path);
    assert_eq!(dump_of(&dir.path("x.db")), dump_of(&hr));
    // A set that cannot be read may be a newer one of it.
    let mut bytes = fs::read(&media).unwrap();
    backup(&shop, &media, &["--append"]);
    backup(&hr, &media, &["--append"]);
    let whole = fs::read(&media).unwrap();
    assert!(whole.starts_with(&bytes));
    let at = bytes.len() + 40;
    bytes.clone_from(&whole);
    bytes[at] ^= 1;
    fs::write(&media, &bytes).unwrap();
    let y = dir.path("y.db");
    restore_fails(4, &media, &y, &["--database", "shop.db"]);
    assert!(!y.exists());
    restore(&media, &y, &["--database", "shop.db", "--latest-readable"]);
    assert_eq!(dump_of(&y), before);
}

/// Two directories may each have a database of the same name.
#[test]
fn databases_of_one_name_are_told_apart_by_path_and_file_id() {
    let dir = Dir::new();
    let media = dir.path("all.bak");
    let [a, b] = ["a", "b"].map(|tenant| {
        fs::create_dir(dir.path(tenant)).unwrap();
        dir.path(tenant).join("app.db")
    });
    for (at, path) in [&a, &b].into_iter().enumerate() {
        fill(path, 10 + u32::try_from(at).unwrap());
        encrypt(path, &[]);
        backup(path, &media, if at == 0 { &[] } else { &["--append"] });
    }
    let told = restore_fails(1, &media, &dir.path("x.db"), &["--database", "app.db"]);
    assert!(told.contains(text(&a)) && told.contains(text(&b)), "{told}");
    let told = restore_fails(1, &media, &a, &["--position", "2", "--replace"]);
    assert!(told.contains("is not the database of set 2"), "{told}");
    restore(&media, &dir.path("x.db"), &["--database", text(&b)]);
    // A moved database is still the same database.
    fs::create_dir(dir.path("c")).unwrap();
    let moved = dir.path("c").join("moved.db");
    fs::rename(&b, &moved).unwrap();
    restore(&media, &moved, &["--position", "2", "--replace"]);
}
