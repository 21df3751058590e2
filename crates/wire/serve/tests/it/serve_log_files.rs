//! Backup sets of one chain in files of their own, restored where nobody knows them, and after the
//! files before them are gone.

use std::fs;
use std::path::Path;

use tdekit_wire_tds::Value;

use crate::served::{Client, Served, int, messages, ok, text};

const LOGS: [&str; 3] = ["log1", "log2", "log3"];

/// Makes a chain of the database `d`, each set in a file of its own: a full set, three log backups,
/// and behind the second of them a differential set. Each has one more row than the one before.
fn backed_up(served: &Served, encrypted: bool) -> Client {
    let mut client = served.client_in("d");
    let c = &mut client;
    if encrypted {
        ok(
            c,
            "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
                ENCRYPTION BY SERVER CERTIFICATE TestCert;
            USE master",
        );
        ok(c, "ALTER DATABASE d SET ENCRYPTION ON; USE d");
    }
    ok(c, "CREATE TABLE t (id int, pad varchar(200))");
    ok(c, "CREATE TABLE u (id int)");
    ok(c, "CREATE TABLE v (id int); USE master; ALTER DATABASE d SET RECOVERY FULL");
    for (at, file) in ["full", "log1", "log2", "diff", "log3"].into_iter().enumerate() {
        // Tables of their own: pages that one set changes, and the next one does not.
        let table = ["t", "t", "u", "v", "t"][at];
        ok(c, &format!("INSERT d.dbo.{table} (id) VALUES ({at})"));
        let (what, with) = match file {
            "full" => ("DATABASE", ""),
            "diff" => ("DATABASE", " WITH DIFFERENTIAL"),
            _ => ("LOG", ""),
        };
        ok(c, &format!("BACKUP {what} d TO DISK = '{file}.bak'{with}"));
    }
    client
}

/// Copies files of backups into the directory of another server.
fn bring(from: &Served, to: &Served, files: &[&str]) {
    for file in files {
        let file = format!("{file}.bak");
        fs::copy(from.data(&file), to.data(&file)).unwrap();
    }
}

fn restore(client: &mut Client, what: &str, file: &str) -> Vec<i32> {
    let with = "WITH REPLACE, NORECOVERY";
    client.batch(&format!("RESTORE {what} d FROM DISK = '{file}.bak' {with}")).errors()
}

fn rows(client: &mut Client) -> i64 {
    assert_eq!(client.batch("RESTORE DATABASE d WITH RECOVERY").errors(), [0; 0]);
    let count = |table: &str| format!("(SELECT COUNT(*) FROM d.dbo.{table})");
    int(client, &format!("SELECT {} + {} + {}", count("t"), count("u"), count("v")))
}

#[test]
fn a_new_server_restores_a_chain_of_files_and_knows_its_sets() {
    let old = Served::bare(&[]);
    backed_up(&old, false);
    let new = Served::bare(&[]);
    bring(&old, &new, &["full", "log1", "log2", "log3"]);
    let mut client = new.client();
    let c = &mut client;
    assert_eq!(restore(c, "DATABASE", "full"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log2"), [4305, 3013], "log1 is missing");
    for file in LOGS {
        assert_eq!(restore(c, "LOG", file), [0; 0], "{file}");
    }
    assert_eq!(rows(c), 5);
    let sets = "SELECT type FROM msdb.dbo.backupset ORDER BY backup_set_id";
    let sets: Vec<_> = ok(c, sets).values().iter().map(|row| text(&row[0])).collect();
    assert_eq!(sets, ["D", "L", "L", "L"]);
    let restored = "SELECT backup_set_id FROM msdb.dbo.restorehistory ORDER BY restore_history_id";
    let restored: Vec<_> = ok(c, restored).values().into_iter().flatten().collect();
    assert_eq!(restored, [1, 2, 3, 4].map(Value::Int));
}

#[test]
fn a_log_backup_needs_no_file_before_it() {
    for encrypted in [false, true] {
        let served = Served::new();
        let mut client = backed_up(&served, encrypted);
        let c = &mut client;
        let gone = |file: &str| {
            fs::rename(served.data(&format!("{file}.bak")), served.data(&format!("{file}.away")))
                .unwrap();
        };
        assert_eq!(restore(c, "DATABASE", "full"), [0; 0]);
        gone("full");
        for (at, file) in LOGS.into_iter().enumerate() {
            assert_eq!(restore(c, "LOG", file), [0; 0], "{file}");
            if at == 0 {
                assert_eq!(restore(c, "LOG", "log3"), [4305, 3013]);
                assert_eq!(restore(c, "LOG", "log1"), [4326, 3013]);
            }
            if at < 2 {
                gone(file);
            }
            assert!(!served.data("d.db-wal").exists());
        }
        assert_eq!(rows(c), 5);
        // A backup checks the pages that it reads.
        ok(c, "BACKUP DATABASE d TO DISK = 'again.bak'");
        let head = fs::read(served.data("d.db")).unwrap();
        assert_eq!(head.starts_with(b"SQLite format 3"), !encrypted);
    }
}

#[test]
fn log_backups_follow_a_differential_set_that_goes_beyond_others() {
    let old = Served::bare(&[]);
    backed_up(&old, false);
    let new = Served::bare(&[]);
    bring(&old, &new, &["full", "diff", "log3"]);
    let mut client = new.client();
    let c = &mut client;
    // The full set that a differential one needs is known by nobody here.
    let alone = c.batch("RESTORE DATABASE d FROM DISK = 'diff.bak' WITH NORECOVERY").errors();
    assert_eq!(alone, [3136, 3013]);
    assert_eq!(restore(c, "DATABASE", "full"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log3"), [4305, 3013]);
    assert_eq!(restore(c, "DATABASE", "diff"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log3"), [0; 0]);
    assert_eq!(rows(c), 5);
}

#[test]
fn a_database_that_somebody_changed_takes_no_log_backup() {
    let old = Served::bare(&[]);
    backed_up(&old, false);
    let new = Served::bare(&[]);
    bring(&old, &new, &["full", "log1"]);
    let mut client = new.client();
    let c = &mut client;
    assert_eq!(restore(c, "DATABASE", "full"), [0; 0]);
    fs::remove_file(new.data("full.bak")).unwrap();
    let path = new.data("d.db");
    let whole = fs::read(&path).unwrap();
    let mut changed = whole.clone();
    // A byte that is in no cell, on the page of a table that log1 does not change.
    let page_len = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    let at = last_page_of_zeros(&whole, page_len);
    changed[at] = 1;
    fs::write(&path, &changed).unwrap();
    let refused = c.batch("RESTORE LOG d FROM DISK = 'log1.bak' WITH NORECOVERY");
    assert_eq!(refused.errors(), [50000, 3013]);
    let reason = &messages(&refused)[0].text;
    assert!(reason.contains("was changed since"), "{reason}");
    assert_eq!(fs::read(&path).unwrap(), changed, "it is as it was");
    fs::write(&path, &whole).unwrap();
    assert_eq!(restore(c, "LOG", "log1"), [0; 0]);
    assert_eq!(rows(c), 2);
}

/// Returns the place of a zero in the middle of the last page, where an empty table has no cells.
fn last_page_of_zeros(whole: &[u8], page_len: usize) -> usize {
    let at = whole.len() - page_len / 2;
    assert!(whole[at..at + 64].iter().all(|byte| *byte == 0));
    at
}

#[test]
fn a_log_backup_behind_a_restored_point_stands_on_that_one() {
    let served = Served::bare(&[]);
    let mut client = backed_up(&served, false);
    let c = &mut client;
    assert_eq!(restore(c, "DATABASE", "full"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log1"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log2"), [0; 0]);
    assert_eq!(rows(c), 3);
    ok(c, "INSERT d.dbo.v VALUES (10); BACKUP LOG d TO DISK = 'log4.bak'");
    ok(c, "INSERT d.dbo.v VALUES (11); BACKUP DATABASE d TO DISK = 'diff2.bak' WITH DIFFERENTIAL");
    ok(c, "INSERT d.dbo.v VALUES (12); BACKUP LOG d TO DISK = 'log5.bak'");
    assert_eq!(restore(c, "DATABASE", "full"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log1"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log4"), [4305, 3013]);
    assert_eq!(restore(c, "LOG", "log2"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log4"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log3"), [4326, 3013], "it was left out");
    assert_eq!(rows(c), 4);
    // With the differential set, none of them is needed.
    for file in ["log1", "log2", "log3", "log4"] {
        fs::remove_file(served.data(&format!("{file}.bak"))).unwrap();
    }
    assert_eq!(restore(c, "DATABASE", "full"), [0; 0]);
    assert_eq!(restore(c, "DATABASE", "diff2"), [0; 0]);
    assert_eq!(restore(c, "LOG", "log5"), [0; 0]);
    assert_eq!(rows(c), 6);
}

#[test]
fn a_log_backup_alone_is_verified() {
    let old = Served::bare(&[]);
    backed_up(&old, false);
    let new = Served::bare(&[]);
    bring(&old, &new, &["log1"]);
    let mut client = new.client();
    let c = &mut client;
    let verify = "RESTORE VERIFYONLY FROM DISK = 'log1.bak'";
    let told = ok(c, verify);
    let is_said = |it: &tdekit_wire_tds::Message| it.text.contains("stands on a set that is not");
    assert!(messages(&told).iter().any(is_said));
    flip(&new.data("log1.bak"));
    assert_eq!(c.batch(verify).errors(), [3189, 3013]);
}

/// Changes a bit of a block.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let block = bytes.windows(4).position(|it| it == b"tblk").unwrap();
    bytes[block + 100] ^= 4;
    fs::write(path, &bytes).unwrap();
}
