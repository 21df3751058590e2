//! `backup` of an encrypted database that others write to: each set is the state of one commit.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::databases::{Dir, SmallDisk, create, dump, encrypt, fill, is_plain, one, open, place};
use rusqlite::Connection;

const ROWS: u32 = 4000;
/// Number of commits after which the log's index has a second region: it begins with frame 4063,
/// and a commit writes some eight.
const MANY_COMMITS: u32 = 900;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn database(path: &Path) {
    let db = create(path, "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL");
    for table in ["a", "b"] {
        db.execute_batch(&format!(
            "CREATE TABLE {table}(id INTEGER PRIMARY KEY, n INTEGER, pad BLOB);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {ROWS})
             INSERT INTO {table} SELECT x, x, randomblob(700) FROM n"
        ))
        .unwrap();
    }
    // It is on one page, so it shows changes on others.
    db.execute_batch("CREATE TABLE total(n); INSERT INTO total SELECT sum(n) FROM a").unwrap();
    drop(db);
    encrypt(path, &[]);
}

/// Changes both tables in the same way, in single transactions.
fn write_on(db: &Connection, stop: &AtomicBool, commits: &AtomicU32) {
    let mut n = commits.load(Ordering::Relaxed);
    while !stop.load(Ordering::Relaxed) {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (first, pad) = (n % ROWS, n % 700);
        let change = |table: &str| {
            format!(
                "UPDATE {table} SET n = n + {first}, pad = randomblob({pad})
                 WHERE id IN ({first}, {first} / 2, {first} / 3, {first} / 5);
                 INSERT INTO {table}(n, pad) VALUES ({pad}, randomblob({pad}));"
            )
        };
        let sql = format!(
            "BEGIN IMMEDIATE; {}
             UPDATE total SET n = (SELECT sum(n) FROM a); {} COMMIT",
            change("a"),
            change("b")
        );
        db.execute_batch(&sql).unwrap();
        commits.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_set_of_an_encrypted_database_in_use_is_one_commit() {
    for checkpoint in [20, 0] {
        let dir = Dir::new();
        let (path, media) = (dir.path("app.db"), dir.path("app.bak"));
        database(&path);
        let (stop, commits) = (AtomicBool::new(false), AtomicU32::new(0));
        let mut begun = [0; 4];
        thread::scope(|scope| {
            let db = open(&path);
            db.busy_timeout(Duration::from_secs(60)).unwrap();
            db.pragma_update(None, "synchronous", "OFF").unwrap();
            db.pragma_update(None, "wal_autocheckpoint", checkpoint).unwrap();
            let (stop, commits) = (&stop, &commits);
            scope.spawn(move || write_on(&db, stop, commits));
            while checkpoint == 0 && commits.load(Ordering::Relaxed) < MANY_COMMITS {
                thread::sleep(Duration::from_millis(10));
            }
            for commits_at_least in &mut begun {
                let before = commits.load(Ordering::Relaxed);
                *commits_at_least = before;
                let more = ["--append", "--compression", "none", "--no-sign"];
                place().ok([&["backup", text(&path), "--to", text(&media)], &more[..]].concat());
                assert!(commits.load(Ordering::Relaxed) > before);
            }
            stop.store(true, Ordering::Relaxed);
        });
        for (position, commits_at_least) in ["1", "2", "3", "4"].into_iter().zip(begun) {
            let to = dir.path(&format!("to{position}.db"));
            let more = ["--position", position, "--plain", "--allow-unauthenticated", "--check"];
            place().ok([&["restore", text(&media), "--to", text(&to)], &more[..]].concat());
            assert!(is_plain(&to));
            let db = Connection::open(&to).unwrap();
            let state = |table: &str| {
                let sums = "count(*) || ' ' || sum(n) || ' ' || sum(length(pad))";
                one::<String>(&db, &format!("SELECT {sums} FROM {table}"))
            };
            assert_eq!(state("a"), state("b"), "{checkpoint} {position}");
            assert_eq!(
                one::<i64>(&db, "SELECT sum(n) FROM a"),
                one::<i64>(&db, "SELECT n FROM total"),
                "{checkpoint} {position}"
            );
            // Each commit adds a row.
            let rows = one::<u32>(&db, "SELECT count(*) FROM a");
            assert!(rows >= ROWS + commits_at_least, "{checkpoint} {position}: {rows}");
        }
    }
}

/// Page sizes, journal modes, freshness, and a key that was changed with frames in the log: a set
/// contains what a connection sees. A truncated file is refused.
#[test]
fn a_set_holds_what_a_connection_sees() {
    for (page_size, mode, fresh) in
        [(65_536_u32, "WAL", false), (1024, "WAL", true), (65_536, "DELETE", true)]
    {
        let what = format!("{page_size} {mode} {fresh}");
        let dir = Dir::new();
        let (path, media, to) = (dir.path("app.db"), dir.path("app.bak"), dir.path("to.db"));
        drop(create(&path, &format!("PRAGMA page_size = {page_size}; PRAGMA journal_mode={mode}")));
        fill(&path, 4000);
        encrypt(&path, if fresh { &["--freshness"] } else { &[] });
        let db = open(&path);
        db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        db.execute_batch(
            "UPDATE t SET b = randomblob(99) WHERE id % 40 = 0; DELETE FROM t WHERE id > 3900",
        )
        .unwrap();
        place().ok(["rotate", text(&path)]);
        db.execute_batch("UPDATE t SET b = randomblob(98) WHERE id % 50 = 0").unwrap();
        place().ok(["backup", text(&path), "--to", text(&media)]);
        place().ok(["verify", text(&media), "--signed-by", "AppCert"]);
        place().ok(["restore", text(&media), "--to", text(&to), "--plain", "--check"]);
        assert!(dump(&Connection::open(&to).unwrap()) == dump(&db), "{what}");
        drop(db);
        // By less than the header area before page 1, which no page count reveals.
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - u64::from(page_size)).unwrap();
        let media = dir.path("cut.bak");
        let said = place().run(["backup", text(&path), "--to", text(&media)]);
        assert!(said.code != 0 && !media.exists(), "{what}: {said:?}");
    }
}

/// Header slots are written beside readers, so outside WAL mode the file's time changes during a
/// backup although its pages do not.
#[test]
fn a_key_that_changes_meanwhile_does_not_fail_a_backup() {
    for mode in ["delete", "truncate", "persist"] {
        let dir = Dir::new();
        let (path, media, back) = (dir.path("app.db"), dir.path("app.bak"), dir.path("back.db"));
        database(&path);
        one::<String>(&open(&path), &format!("PRAGMA journal_mode = {mode}"));
        let content = dump(&open(&path));
        let arguments = ["backup", text(&path), "--to", text(&media), "--throttle", "4MB"];
        let mut backup = place().command(arguments).spawn().unwrap();
        thread::sleep(Duration::from_millis(700));
        let run = place().run(["rotate", text(&path), "--stop-after=second-slot"]);
        assert_eq!(run.code, -1, "{mode}: {run:?}");
        assert!(backup.try_wait().unwrap().is_none(), "{mode}: the backup was done before");
        assert!(backup.wait().unwrap().success(), "{mode}");
        place().ok(["restore", text(&media), "--to", text(&back)]);
        assert_eq!(dump(&open(&back))[5..], content[5..], "{mode}");
        place().ok(["rotate", text(&path)]);
    }
}

#[test]
fn an_idle_wal_database_that_nobody_can_write_beside_is_explained() {
    let dir = Dir::new();
    let Some(disk) = SmallDisk::mount(&dir, "4m") else { return };
    let database = disk.0.join("app.db");
    let db = Connection::open(&database).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x)").unwrap();
    drop(db);
    let read_only = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.0).status();
    assert!(read_only.unwrap().success());
    let media = dir.path("app.bak");
    let told = place().fails(1, ["backup", text(&database), "--to", text(&media)]);
    assert!(told.contains("-shm") && told.contains("hint: "), "{told}");
    assert!(!media.exists());
    let run = place().run(["doctor", text(&database)]);
    assert!(run.code != 0 && run.out.contains("-shm"), "{run:?}");
}
