//! Changes of databases' keys by statements to `tdekit serve`, in the background.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use crate::served::{Client, Served, eventually, int, messages, ok, text};
use tdekit_wire_tds::Value;

const REGENERATE: &str = "USE app; ALTER DATABASE ENCRYPTION KEY REGENERATE";
const SUSPEND: &str = "ALTER DATABASE app SET ENCRYPTION SUSPEND";
const RESUME: &str = "ALTER DATABASE app SET ENCRYPTION RESUME";

/// Begins a transaction that pins the log: no scan ends before it.
const PIN: &str = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT COUNT(*) FROM t";

/// An encrypted database `app` with a table, in WAL mode.
fn served() -> Served {
    let served = Served::new();
    let mut client = served.client_in("app");
    ok(&mut client, "CREATE TABLE t (a int, b varchar(4000)); INSERT t VALUES (1, 'one')");
    let more = "INSERT t SELECT a, REPLICATE('x', 3000) FROM t";
    (0..7).for_each(|_| drop(ok(&mut client, more)));
    ok(
        &mut client,
        "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
         ENCRYPTION BY SERVER CERTIFICATE TestCert; USE master;
         ALTER DATABASE app SET ENCRYPTION ON; USE app; INSERT t VALUES (1000, 'log')",
    );
    served
}

/// State of the key and of the scan, algorithm, and progress.
fn state(client: &mut Client) -> (String, String, f64) {
    let answer = ok(
        client,
        "SELECT encryption_state_desc, encryption_scan_state_desc, percent_complete,
         encryption_scan_modify_date FROM sys.dm_database_encryption_keys",
    );
    let rows = answer.values();
    let Value::Float(percent) = rows[0][2] else { panic!("{rows:?}") };
    assert!(matches!(rows[0][3], Value::DateTime { .. }), "{rows:?}");
    (text(&rows[0][0]), text(&rows[0][1]), percent)
}

fn scan(client: &mut Client) -> String {
    state(client).1
}

fn wait_for_the_end(client: &mut Client) {
    eventually("the end of the scan", || scan(client) == "COMPLETE");
    let (encrypted, _, percent) = state(client);
    assert_eq!((encrypted.as_str(), percent), ("ENCRYPTED", 0.0));
}

/// Returns the error of a batch that must fail.
fn fails(client: &mut Client, batch: &str) -> i32 {
    let answer = client.batch(batch);
    *answer.errors().first().unwrap_or_else(|| panic!("{batch}: {:?}", messages(&answer)))
}

/// Returns the versions of the key in the file, and its algorithms.
fn versions(served: &Served) -> (String, String) {
    let told = served.place.json(["status", served.data("app.db").to_str().unwrap(), "--json"]);
    let encryption = &told[0]["encryption"];
    (encryption["key_versions"].to_string(), encryption["algorithms"].to_string())
}

/// Number of POSIX locks that the server has on the database's file.
fn locks(served: &Served) -> usize {
    let inode = format!(":{}", fs::metadata(served.data("app.db")).unwrap().ino());
    let held = fs::read_to_string("/proc/locks").unwrap();
    let own = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[1] == "POSIX" && fields[4] == served.pid().to_string() && fields[5].ends_with(&inode)
    };
    held.lines().filter(own).count()
}

#[test]
fn a_key_is_changed_suspended_and_resumed_under_sessions() {
    let served = served();
    let mut client = served.client();
    assert_eq!(fails(&mut client, SUSPEND), 50000, "nothing to halt");
    assert_eq!(fails(&mut client, RESUME), 50000, "nothing to go on with");
    ok(&mut client, REGENERATE);
    wait_for_the_end(&mut client);
    assert_eq!(versions(&served), ("[2]".to_owned(), "[\"AES_256\"]".to_owned()));

    // A reader of the log keeps the older key in the header.
    let mut reader = served.client_in("app");
    ok(&mut client, "USE app; INSERT t VALUES (1, 'log'); USE master");
    ok(&mut reader, PIN);
    let before = locks(&served);
    assert!(before > 0, "sessions have the file open");
    ok(&mut client, &format!("{REGENERATE} WITH ALGORITHM = AEGIS_256X2; USE master"));
    let (encrypted, running, percent) = state(&mut client);
    assert_eq!((&*encrypted, &*running), ("KEY_CHANGE_IN_PROGRESS", "RUNNING"));
    assert!(percent < 100.0, "{percent}");
    let both = "[\"AEGIS_256X2\",\"AES_256\"]".to_owned();
    assert_eq!(versions(&served), ("[2,3]".to_owned(), both.clone()));
    assert_eq!(fails(&mut client, REGENERATE), 33110, "one at a time");
    assert_eq!(fails(&mut client, "USE master; ALTER DATABASE app SET ENCRYPTION OFF"), 33109);
    ok(&mut client, SUSPEND);
    assert_eq!(scan(&mut client), "SUSPENDED");
    ok(&mut reader, "COMMIT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(versions(&served), ("[2,3]".to_owned(), both), "it is halted");
    assert!(locks(&served) >= before, "no session has lost its locks");
    assert_eq!(fails(&mut client, REGENERATE), 33110, "one at a time");
    ok(&mut client, RESUME);
    wait_for_the_end(&mut client);
    assert_eq!(versions(&served), ("[3]".to_owned(), "[\"AEGIS_256X2\"]".to_owned()));
    assert!(locks(&served) >= before, "no session has lost its locks");
    assert_eq!(int(&mut reader, "SELECT COUNT(*) FROM app.dbo.t"), 130);
    drop(reader);
    ok(&mut client, "USE master; ALTER DATABASE app SET ENCRYPTION OFF");
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM app.dbo.t"), 130);
}

#[test]
fn a_change_survives_the_server() {
    let mut served = served();
    // Notes are kept beside the file, not beside a link to it.
    let real = served.place.path("real.db");
    served.terminate();
    fs::rename(served.data("app.db"), &real).unwrap();
    symlink(&real, served.data("app.db")).unwrap();
    served.start();
    let begin = |served: &Served| {
        let mut reader = served.client_in("app");
        ok(&mut reader, &format!("INSERT t VALUES (1, 'log'); {PIN}"));
        ok(&mut served.client(), REGENERATE);
        reader
    };
    // Suspended: it stays so.
    let reader = begin(&served);
    ok(&mut served.client(), SUSPEND);
    drop(reader);
    assert!(served.terminate().success());
    served.start();
    assert_eq!(scan(&mut served.client()), "SUSPENDED");
    ok(&mut served.client(), RESUME);
    wait_for_the_end(&mut served.client());
    // Stopped in order, or killed: the next server continues.
    for kill in [false, true] {
        let reader = begin(&served);
        assert_eq!(scan(&mut served.client()), "RUNNING");
        if kill {
            served.kill();
        } else {
            assert!(served.terminate().success());
        }
        drop(reader);
        // A server that ends in order ends its sessions first, and the scan may end with them.
        assert!(!kill || versions(&served).0.contains(','));
        served.start();
        wait_for_the_end(&mut served.client());
    }
    assert_eq!(versions(&served).0, "[4]");
    // Of another process: visible as long as that process is running.
    let mut reader = served.client_in("app");
    ok(&mut reader, &format!("INSERT t VALUES (1, 'log'); {PIN}"));
    let mut other = served.place.command(["rotate", real.to_str().unwrap()]).spawn().unwrap();
    let mut client = served.client();
    eventually("the other's scan", || scan(&mut client) == "RUNNING");
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(scan(&mut client), "ABORTED");
    ok(&mut reader, "COMMIT");
    ok(&mut client, RESUME);
    wait_for_the_end(&mut client);
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM app.dbo.t"), 133);
}
