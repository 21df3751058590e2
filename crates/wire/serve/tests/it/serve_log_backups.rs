//! `BACKUP LOG`, `RESTORE LOG` and databases that are RESTORING, from outside.

use std::fs;

use crate::served::{Client, Served, int, messages, ok, one, text};
use tdekit_wire_tds::Value;

const ENCRYPT: &str = "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
    ENCRYPTION BY SERVER CERTIFICATE TestCert;
    USE master";

/// A database with a row for each state that is backed up: sets 1 full, 2 log, 3 differential,
/// 4 and 5 log. Returns the times behind sets 2, 4 and 5, as text.
fn backed_up(client: &mut Client, name: &str) -> Vec<String> {
    ok(client, &format!("USE master; ALTER DATABASE {name} SET RECOVERY FULL; USE {name}"));
    ok(client, "CREATE TABLE t (id int PRIMARY KEY)");
    let mut times = Vec::new();
    let statements = ["DATABASE", "LOG", "DATABASE", "LOG", "LOG"];
    for (at, statement) in statements.into_iter().enumerate() {
        ok(client, &format!("INSERT t VALUES ({at})"));
        let with = if at == 2 { " WITH DIFFERENTIAL" } else { "" };
        ok(client, &format!("BACKUP {statement} {name} TO DISK = '{name}.bak'{with}"));
        if statement == "LOG" {
            ok(client, "WAITFOR DELAY '00:00:00.050'");
            let now = "SELECT CONVERT(varchar(30), SYSUTCDATETIME(), 126)";
            times.push(text(&one(client, now)));
            ok(client, "WAITFOR DELAY '00:00:00.050'");
        }
    }
    ok(client, "USE master");
    times
}

fn restore(client: &mut Client, what: &str) -> Vec<i32> {
    client.batch(&format!("RESTORE {what}")).errors()
}

fn rows(client: &mut Client, name: &str) -> i64 {
    int(client, &format!("SELECT COUNT(*) FROM {name}.dbo.t"))
}

fn state(client: &mut Client, name: &str) -> String {
    let named = format!("FROM sys.databases WHERE name = '{name}'");
    text(&one(client, &format!("SELECT state_desc {named}")))
}

/// Returns a client in the new database `d`, which may be encrypted.
fn database_d(served: &Served, encrypted: bool) -> Client {
    let mut client = served.client_in("d");
    if encrypted {
        ok(&mut client, ENCRYPT);
        ok(&mut client, "ALTER DATABASE d SET ENCRYPTION ON; USE d");
    }
    client
}

#[test]
fn log_backups_are_restored_one_behind_the_other() {
    for encrypted in [false, true] {
        let served = Served::new();
        let mut client = database_d(&served, encrypted);
        backed_up(&mut client, "d");
        let c = &mut client;
        let from = |at: u32| format!("FROM DISK = 'd.bak' WITH FILE = {at}");
        // A database that is online takes no log backup.
        assert_eq!(restore(c, &format!("LOG d {}", from(2))), [3117, 3013]);
        assert_eq!(restore(c, &format!("DATABASE d {}, NORECOVERY", from(1))), [3159, 3013]);
        let both = format!("DATABASE d {}, REPLACE, NORECOVERY, RECOVERY", from(1));
        assert_eq!(restore(c, &both), [3031, 3013]);
        assert_eq!(restore(c, "DATABASE d WITH RECOVERY, NORECOVERY"), [3031, 3013]);
        assert_eq!(rows(c, "d"), 5);
        let full = format!("DATABASE d {}, REPLACE, NORECOVERY", from(1));
        assert_eq!(restore(c, &full), [0; 0]);
        assert_eq!(state(c, "d"), "RESTORING");
        assert_eq!(text(&one(c, "SELECT DATABASEPROPERTYEX('d', 'Status')")), "RESTORING");
        for refused in [
            "USE d",
            "SELECT * FROM d.dbo.t",
            "ALTER DATABASE d SET RECOVERY SIMPLE",
            "BACKUP DATABASE d TO DISK = 'x.bak'",
        ] {
            assert_eq!(client_error(c, refused), 927, "{refused}");
        }
        // Gaps and repetitions; nothing of the state changes by them.
        assert_eq!(restore(c, &format!("LOG d {}", from(4))), [4305, 3013]);
        assert_eq!(restore(c, &format!("LOG d {}", from(1))), [3135, 3013]);
        assert_eq!(restore(c, &format!("LOG d {}", from(3))), [3135, 3013]);
        assert_eq!(restore(c, &format!("DATABASE d {}", from(2))), [3135, 3013]);
        assert_eq!(restore(c, &format!("LOG d {}, NORECOVERY", from(2))), [0; 0]);
        assert_eq!(restore(c, &format!("LOG d {}, NORECOVERY", from(2))), [4326, 3013]);
        assert_eq!(restore(c, &format!("LOG d {}, NORECOVERY", from(4))), [0; 0]);
        assert_eq!(state(c, "d"), "RESTORING");
        assert_eq!(restore(c, &format!("LOG d {}, RECOVERY", from(5))), [0; 0]);
        assert_eq!((state(c, "d").as_str(), rows(c, "d")), ("ONLINE", 5));
        assert_eq!(restore(c, "DATABASE d WITH RECOVERY"), [3153, 3013]);
        // By the differential set, which the next log backup reaches behind.
        assert_eq!(restore(c, &full), [0; 0]);
        assert_eq!(restore(c, &format!("DATABASE d {}, NORECOVERY", from(3))), [0; 0]);
        assert_eq!(restore(c, &format!("LOG d {}, NORECOVERY", from(2))), [4326, 3013]);
        assert_eq!(restore(c, &format!("LOG d {}, NORECOVERY", from(4))), [0; 0]);
        assert_eq!(restore(c, "DATABASE d WITH RECOVERY"), [0; 0]);
        assert_eq!((state(c, "d").as_str(), rows(c, "d")), ("ONLINE", 4));
        let recovery = "SELECT recovery_model_desc FROM sys.databases WHERE name = 'd'";
        assert_eq!(text(&one(c, recovery)), "FULL");
        let head = fs::read(served.data("d.db")).unwrap();
        assert_eq!(head.starts_with(b"SQLite format 3"), !encrypted);
        // The chain goes on behind a restored database, without another full backup.
        ok(c, "INSERT d.dbo.t VALUES (9); BACKUP LOG d TO DISK = 'd.bak'");
        assert_eq!(restore(c, &full), [0; 0]);
        assert_eq!(restore(c, &format!("LOG d {}", from(6))), [4305, 3013]);
        // Set 5 was left out by the restore.
        for (at, with) in [(2, "NORECOVERY"), (4, "NORECOVERY"), (6, "RECOVERY")] {
            assert_eq!(restore(c, &format!("LOG d {}, {with}", from(at))), [0; 0]);
        }
        assert_eq!(rows(c, "d"), 5);
        ok(c, "BACKUP DATABASE d TO DISK = 'd.bak' WITH DIFFERENTIAL");
        assert_eq!(restore(c, &format!("DATABASE d {}, REPLACE", from(7))), [0; 0]);
        assert_eq!(rows(c, "d"), 5);
    }
}

fn client_error(client: &mut Client, batch: &str) -> i32 {
    let errors = client.batch(batch).errors();
    errors.first().copied().unwrap_or_else(|| panic!("{batch} did not fail"))
}

#[test]
fn a_point_in_time_is_reached_or_refused() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let times = backed_up(&mut client, "d");
    let c = &mut client;
    let log = |at: u32, time: &str| {
        format!("LOG n FROM DISK = 'd.bak' WITH FILE = {at}, STOPAT = '{time}', RECOVERY")
    };
    let full = "DATABASE n FROM DISK = 'd.bak' WITH FILE = 1, NORECOVERY";
    assert_eq!(restore(c, &format!("{full}, STOPAT = '2001-01-01'")), [4338, 3013]);
    assert_eq!(int(c, "SELECT COUNT(*) FROM sys.databases WHERE name = 'n'"), 0);
    assert_eq!(restore(c, &format!("{full}, STOPAT = '{}'", times[1])), [0; 0]);
    // Behind set 2: it is applied, and the next one may be due.
    let told = c.batch(&format!("RESTORE {}", log(2, &times[1])));
    assert_eq!(told.errors(), [0; 0]);
    assert!(messages(&told).iter().any(|message| message.number == 4322));
    assert_eq!(state(c, "n"), "RESTORING");
    // Between sets 2 and 4.
    let refused = c.batch(&format!("RESTORE {}", log(4, &times[0])));
    assert_eq!(refused.errors(), [4341, 3013]);
    let reason = &messages(&refused)[0].text;
    assert!(reason.contains("no point between"), "{reason}");
    assert_eq!(restore(c, &log(4, "2001-01-01T00:00:00")), [4335, 3013]);
    assert_eq!(restore(c, &log(4, "tomorrow")), [50000, 3013]);
    assert_eq!(restore(c, &log(4, &times[1])), [0; 0]);
    assert_eq!(restore(c, &log(5, &times[1])), [4341, 3013]);
    assert_eq!(restore(c, "DATABASE n WITH RECOVERY"), [0; 0]);
    assert_eq!(rows(c, "n"), 4);
}

#[test]
fn a_log_backup_needs_the_full_model_and_a_full_backup() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    ok(c, "CREATE TABLE t (id int); USE master");
    let log = "BACKUP LOG d TO DISK = 'd.bak'";
    assert_eq!(c.batch(log).errors(), [4208, 3013]);
    assert_eq!(c.batch("BACKUP LOG master TO DISK = 'd.bak'").errors(), [4212, 3013]);
    ok(c, "ALTER DATABASE d SET RECOVERY BULK_LOGGED");
    let model = "SELECT recovery_model FROM sys.databases WHERE name = 'd'";
    assert_eq!(int(c, model), 2);
    assert_eq!(text(&one(c, "SELECT DATABASEPROPERTYEX('d', 'Recovery')")), "BULK_LOGGED");
    assert_eq!(c.batch(log).errors(), [4214, 3013]);
    ok(c, "BACKUP DATABASE d TO DISK = 'd.bak' WITH COPY_ONLY");
    assert_eq!(c.batch(log).errors(), [4214, 3013]);
    ok(c, "BACKUP DATABASE d TO DISK = 'other.bak'");
    ok(c, "BACKUP DATABASE d TO DISK = 'd.bak'");
    ok(c, log);
    // Of another chain, or another database.
    ok(c, "RESTORE DATABASE n FROM DISK = 'other.bak' WITH NORECOVERY");
    assert_eq!(restore(c, "LOG n FROM DISK = 'd.bak' WITH FILE = 3"), [4330, 3013]);
    assert_eq!(restore(c, "LOG none FROM DISK = 'd.bak' WITH FILE = 3"), [3118, 3013]);
    assert_eq!(restore(c, "LOG none FROM DISK = 'd.bak' WITH FILE = 2"), [3135, 3013]);
    ok(c, "DROP DATABASE n");
    assert!(!served.data("n.db").exists() && !served.data("n.db-tsql").exists());
    ok(c, "ALTER DATABASE d SET RECOVERY SIMPLE");
    assert_eq!(c.batch(log).errors(), [4208, 3013]);
    let note = fs::read_to_string(served.data("d.db-tsql")).unwrap();
    assert!(note.starts_with("tdekit tsql 6\nmade ") && note.lines().count() == 4, "{note}");
}

#[test]
fn log_backups_lie_on_other_media_than_their_full_backup() {
    for encrypted in [false, true] {
        let served = Served::new();
        let mut client = database_d(&served, encrypted);
        let c = &mut client;
        ok(c, "CREATE TABLE t (id int); USE master; ALTER DATABASE d SET RECOVERY FULL");
        ok(c, "BACKUP DATABASE d TO DISK = 'full.bak'");
        for (at, file) in ["one", "two", "one"].into_iter().enumerate() {
            ok(c, &format!("INSERT d.dbo.t VALUES ({at}); BACKUP LOG d TO DISK = '{file}.bak'"));
        }
        ok(c, "RESTORE DATABASE d FROM DISK = 'full.bak' WITH REPLACE, NORECOVERY");
        let log = |file: &str, at: u32| format!("LOG d FROM DISK = '{file}.bak' WITH FILE = {at}");
        assert_eq!(restore(c, &log("two", 1)), [4305, 3013]);
        assert_eq!(restore(c, &format!("{}, NORECOVERY", log("one", 1))), [0; 0]);
        assert_eq!(restore(c, &format!("{}, NORECOVERY", log("one", 1))), [4326, 3013]);
        assert_eq!(restore(c, &format!("{}, NORECOVERY", log("two", 1))), [0; 0]);
        assert_eq!(restore(c, &log("one", 2)), [0; 0]);
        assert_eq!(rows(c, "d"), 3);
        let head = ok(c, "RESTORE HEADERONLY FROM DISK = 'two.bak'").values();
        let one = ok(c, "RESTORE HEADERONLY FROM DISK = 'one.bak' WITH FILE = 1").values();
        assert_eq!(head[0][13], one[0][14], "it begins where the one before ended");
        ok(c, "RESTORE VERIFYONLY FROM DISK = 'two.bak'");
        fs::remove_file(served.data("full.bak")).unwrap();
        ok(c, "RESTORE VERIFYONLY FROM DISK = 'two.bak'");
        assert_eq!(restore(c, "DATABASE d FROM DISK = 'full.bak'"), [3201, 3013]);
    }
}

#[test]
fn the_history_and_the_media_number_the_states() {
    let served = Served::new();
    let mut client = served.client_in("d");
    backed_up(&mut client, "d");
    let c = &mut client;
    let of = |column: &str| format!("SELECT {column} FROM msdb.dbo.backupset ORDER BY position");
    let kinds = ok(c, &of("type")).values();
    let kinds: Vec<String> = kinds.iter().map(|row| text(&row[0])).collect();
    assert_eq!(kinds, ["D", "L", "I", "L", "L"]);
    let lsns = ok(c, &of("first_lsn, last_lsn, checkpoint_lsn, database_backup_lsn")).values();
    // Each log backup begins where the full set or the log backup before it ended.
    for (before, at) in [(0, 1), (1, 3), (3, 4)] {
        assert_eq!(lsns[at][0], lsns[before][1]);
        assert_eq!(lsns[at][3], lsns[0][2]);
    }
    assert_eq!((&lsns[2][3], &lsns[0][3]), (&lsns[0][2], &Value::Null));
    let header = ok(c, "RESTORE HEADERONLY FROM DISK = 'd.bak'").values();
    let kinds: Vec<&Value<'_>> = header.iter().map(|row| &row[2]).collect();
    assert_eq!(kinds, [1, 2, 5, 2, 2].map(Value::Int).iter().collect::<Vec<_>>());
    for (row, lsn) in header.iter().zip(&lsns) {
        assert_eq!(row[13..17], lsn[..]);
    }
    let files = ok(c, "RESTORE FILELISTONLY FROM DISK = 'd.bak' WITH FILE = 4").values();
    assert_eq!(text(&files[0][0]), "d");
    let moved = |name: &str, file: &str| {
        format!(
            "DATABASE e FROM DISK = 'd.bak' WITH MOVE '{name}' TO '{file}', MOVE 'd_log' TO \
             'e.ldf', NORECOVERY"
        )
    };
    assert_eq!(restore(c, &moved("x", "e.db")), [3234, 3013]);
    assert_eq!(restore(c, &moved("d", "/elsewhere/e.db")), [5133, 3013]);
    let log_elsewhere = moved("d", "e.db").replace("'e.ldf'", "'/elsewhere/e.ldf'");
    assert_eq!(restore(c, &log_elsewhere), [5133, 3013]);
    assert_eq!(restore(c, &moved("d", "e.db")), [0; 0]);
    assert_eq!(restore(c, "LOG e FROM DISK = 'd.bak' WITH FILE = 2"), [0; 0]);
    let restored = "SELECT destination_database_name, restore_type FROM msdb.dbo.restorehistory
        ORDER BY restore_history_id";
    let restored = ok(c, restored).values();
    let restored: Vec<_> = restored.iter().map(|row| (text(&row[0]), text(&row[1]))).collect();
    let expected = [("e", "D"), ("e", "L")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(restored, expected);
}

#[test]
fn restoring_survives_the_server_and_a_damaged_log_backup() {
    let mut served = Served::bare(&[]);
    let mut client = served.client_in("d");
    backed_up(&mut client, "d");
    ok(&mut client, "RESTORE DATABASE e FROM DISK = 'd.bak' WITH NORECOVERY");
    served.kill();
    served.start();
    let mut client = served.client();
    let c = &mut client;
    assert_eq!(state(c, "e"), "RESTORING");
    assert_eq!(client_error(c, "USE e"), 927);
    // A flipped bit in the log backup: the state before stays.
    let whole = fs::read(served.data("d.bak")).unwrap();
    let lsn = ok(c, "RESTORE HEADERONLY FROM DISK = 'd.bak'").values();
    assert_eq!(lsn.len(), 5);
    let mut bytes = whole.clone();
    let marks: Vec<usize> =
        whole.windows(8).enumerate().filter(|it| it.1 == b"tdekset\n").map(|it| it.0).collect();
    let block = whole[marks[1]..].windows(4).position(|it| it == b"tblk").unwrap();
    bytes[marks[1] + block + 100] ^= 4;
    fs::write(served.data("d.bak"), &bytes).unwrap();
    let log = "LOG e FROM DISK = 'd.bak' WITH FILE = 2";
    assert_eq!(restore(c, log), [3203, 3013]);
    assert_eq!(state(c, "e"), "RESTORING");
    fs::write(served.data("d.bak"), &whole).unwrap();
    assert_eq!(restore(c, log), [0; 0]);
    assert_eq!(rows(c, "e"), 2);
    // A note that nobody wrote: the database is not used.
    fs::write(served.data("d.db-tsql"), "tdekit tsql 9").unwrap();
    assert_eq!(client_error(c, "SELECT * FROM d.dbo.t"), 945);
    // As a restore that was killed leaves it.
    fs::write(served.data("d.db-tsql"), "tdekit tsql 1\nrestoring\n").unwrap();
    assert_eq!(client_error(c, "USE d"), 927);
    assert_eq!(restore(c, "DATABASE d WITH RECOVERY"), [4319, 3013]);
    assert_eq!(restore(c, "LOG d FROM DISK = 'd.bak' WITH FILE = 2"), [4319, 3013]);
    assert_eq!(restore(c, "DATABASE d FROM DISK = 'd.bak' WITH FILE = 1"), [0; 0]);
    assert_eq!(rows(c, "d"), 1);
    let note = fs::read_to_string(served.data("d.db-tsql")).unwrap();
    assert!(note.starts_with("tdekit tsql 6\nfull ") && note.ends_with("\nchanges\n"), "{note}");
}
