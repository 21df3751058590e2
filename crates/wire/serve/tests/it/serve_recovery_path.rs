//! Paths of recovery: sets of other databases of the same name, of other servers, behind another
//! full set, and those that a restore left out.

use std::fs;

use tdekit_wire_tds::Value;

use crate::common::Place;
use crate::served::{CERTIFICATE, Client, Served, int, messages, ok, text};

const ENCRYPT: &str = "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
    ENCRYPTION BY SERVER CERTIFICATE TestCert;
    USE master";

/// Two servers with the same key store, each with a history of its own.
fn two_servers() -> (Served, Served) {
    let (one, other) = (Place::with_store(), Place::with_store());
    one.ok(["cert", "create", CERTIFICATE]);
    fs::remove_dir_all(other.home()).unwrap();
    fs::create_dir_all(other.home()).unwrap();
    for entry in fs::read_dir(one.home()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), other.home().join(entry.file_name())).unwrap();
        }
    }
    (Served::of(one), Served::of(other))
}

/// Returns a client in the new database `d` with a table, under the full model.
fn database_d(served: &Served, encrypted: bool) -> Client {
    let mut client = served.client_in("d");
    if encrypted {
        ok(&mut client, ENCRYPT);
        ok(&mut client, "ALTER DATABASE d SET ENCRYPTION ON; USE d");
    }
    ok(&mut client, "CREATE TABLE t (id int); USE master; ALTER DATABASE d SET RECOVERY FULL");
    client
}

/// Adds a row, then makes a set.
fn backup(client: &mut Client, id: i32, what: &str) {
    ok(client, &format!("INSERT d.dbo.t VALUES ({id})"));
    assert_eq!(client.batch(&format!("BACKUP {what}")).errors(), [0; 0], "{what}");
}

fn restore(client: &mut Client, what: &str) -> Vec<i32> {
    client.batch(&format!("RESTORE {what}")).errors()
}

/// Restores sets one behind the other, and returns the rows of the last one's state.
fn rows_of(client: &mut Client, file: &str, sets: &[u32]) -> Vec<Value<'static>> {
    for (at, set) in sets.iter().enumerate() {
        let (what, with) = if at == 0 { ("DATABASE", "REPLACE, ") } else { ("LOG", "") };
        let what = format!("{what} d FROM DISK = '{file}' WITH FILE = {set}, {with}NORECOVERY");
        assert_eq!(restore(client, &what), [0; 0], "{what}, of {sets:?}");
    }
    recovered(client)
}

fn recovered(client: &mut Client) -> Vec<Value<'static>> {
    assert_eq!(restore(client, "DATABASE d WITH RECOVERY"), [0; 0]);
    rows(client)
}

fn rows(client: &mut Client) -> Vec<Value<'static>> {
    ok(client, "SELECT id FROM d.dbo.t ORDER BY id").values().into_iter().flatten().collect()
}

fn ids<const N: usize>(ids: [i64; N]) -> Vec<Value<'static>> {
    ids.map(Value::Int).to_vec()
}

#[test]
fn no_set_of_another_server_is_a_base() {
    let (old, new) = (Served::bare(&[]), Served::bare(&[]));
    // Both are there before the backups, under one name.
    let mut client = database_d(&new, false);
    let mut other = database_d(&old, false);
    backup(&mut other, 1, "DATABASE d TO DISK = 'd.bak'");
    backup(&mut other, 2, "LOG d TO DISK = 'd.bak'");
    fs::copy(old.data("d.bak"), new.data("d.bak")).unwrap();
    let c = &mut client;
    let differential = "BACKUP DATABASE d TO DISK = 'd.bak' WITH DIFFERENTIAL";
    let refused = c.batch(differential);
    assert_eq!(refused.errors(), [3035, 3013]);
    let texts: Vec<_> = messages(&refused).into_iter().map(|message| message.text).collect();
    assert!(texts.iter().any(|text| text.contains("of another database")), "{texts:?}");
    assert_eq!(c.batch("BACKUP LOG d TO DISK = 'd.bak'").errors(), [4214, 3013]);
    assert_eq!(fs::read(old.data("d.bak")).unwrap(), fs::read(new.data("d.bak")).unwrap());
    // Behind a full set of its own, also in the other one's file.
    backup(c, 10, "DATABASE d TO DISK = 'own.bak'");
    backup(c, 11, "DATABASE d TO DISK = 'd.bak' WITH DIFFERENTIAL");
    backup(c, 12, "LOG d TO DISK = 'd.bak'");
    let header = ok(c, "RESTORE HEADERONLY FROM DISK = 'own.bak'").values();
    let sets = ok(c, "RESTORE HEADERONLY FROM DISK = 'd.bak'").values();
    let (base, set) = (48, 50);
    assert_eq!((&sets[2][base], &sets[3][base]), (&header[0][set], &header[0][set]));
    assert_eq!(restore(c, "DATABASE d FROM DISK = 'd.bak' WITH FILE = 3, REPLACE"), [0; 0]);
    assert_eq!(rows(c), ids([10, 11]));
}

#[test]
fn a_database_restored_on_another_server_goes_on_with_its_chain() {
    for encrypted in [false, true] {
        let (old, new) = two_servers();
        let mut client = database_d(&old, encrypted);
        backup(&mut client, 1, "DATABASE d TO DISK = 'd.bak'");
        backup(&mut client, 2, "LOG d TO DISK = 'd.bak'");
        backup(&mut client, 3, "LOG d TO DISK = 'd.bak'");
        fs::copy(old.data("d.bak"), new.data("d.bak")).unwrap();
        let mut client = new.client();
        let c = &mut client;
        assert_eq!(rows_of(c, "d.bak", &[1, 2]), ids([1, 2]), "{encrypted}");
        let model = "SELECT recovery_model_desc FROM sys.databases WHERE name = 'd'";
        assert_eq!(text(&ok(c, model).values()[0][0]), "FULL", "as that of a log backup");
        backup(c, 10, "LOG d TO DISK = 'd.bak'");
        backup(c, 11, "DATABASE d TO DISK = 'd.bak' WITH DIFFERENTIAL");
        backup(c, 12, "LOG d TO DISK = 'log.bak'");
        assert_eq!(rows_of(c, "d.bak", &[1, 2, 3]), ids([1, 2, 3]), "{encrypted}");
        ok(c, "RESTORE DATABASE d FROM DISK = 'd.bak' WITH FILE = 1, REPLACE, NORECOVERY");
        ok(c, "RESTORE LOG d FROM DISK = 'd.bak' WITH FILE = 2, NORECOVERY");
        let log = |at: u32| format!("LOG d FROM DISK = 'd.bak' WITH FILE = {at}, NORECOVERY");
        assert_eq!(restore(c, &log(4)), [0; 0]);
        assert_eq!(restore(c, &log(3)), [4326, 3013], "it is of the time before");
        assert_eq!(restore(c, "LOG d FROM DISK = 'log.bak' WITH NORECOVERY"), [0; 0]);
        assert_eq!(recovered(c), ids([1, 2, 10, 11, 12]), "{encrypted}");
        assert_eq!(rows_of(c, "d.bak", &[5]), ids([1, 2, 10, 11]), "{encrypted}");
        // Nor does the chain go on from a set that was left out.
        assert_eq!(rows_of(c, "d.bak", &[1, 2]), ids([1, 2]));
        ok(c, "RESTORE DATABASE d FROM DISK = 'd.bak' WITH FILE = 1, REPLACE, NORECOVERY");
        assert_eq!(restore(c, &log(2)), [0; 0]);
        assert_eq!(restore(c, &log(3)), [0; 0]);
        assert_eq!(restore(c, &log(4)), [4330, 3013], "{encrypted}");
        assert_eq!(recovered(c), ids([1, 2, 3]));
    }
}

#[test]
fn the_log_backup_after_a_restore_begins_at_the_restored_point() {
    for encrypted in [false, true] {
        let served = Served::new();
        let mut client = database_d(&served, encrypted);
        let c = &mut client;
        backup(c, 1, "DATABASE d TO DISK = 'd.bak'");
        (2..5).for_each(|id| backup(c, id, "LOG d TO DISK = 'd.bak'"));
        assert_eq!(rows_of(c, "d.bak", &[1, 2]), ids([1, 2]));
        backup(c, 10, "LOG d TO DISK = 'd.bak'");
        backup(c, 11, "LOG d TO DISK = 'new.bak'");
        // In each order of what is there.
        assert_eq!(rows_of(c, "d.bak", &[1, 2, 5]), ids([1, 2, 10]));
        assert_eq!(rows_of(c, "d.bak", &[1, 2, 3, 4]), ids([1, 2, 3, 4]));
        for last in [3, 4] {
            let with = "REPLACE, NORECOVERY";
            ok(c, &format!("RESTORE DATABASE d FROM DISK = 'd.bak' WITH FILE = 1, {with}"));
            for at in 2..=last {
                let log = format!("LOG d FROM DISK = 'd.bak' WITH FILE = {at}, NORECOVERY");
                assert_eq!(restore(c, &log), [0; 0]);
            }
            let log = "LOG d FROM DISK = 'd.bak' WITH FILE = 5, NORECOVERY";
            assert_eq!(restore(c, log), [4330, 3013], "over {last}");
            let log = "LOG d FROM DISK = 'new.bak' WITH NORECOVERY";
            assert_eq!(restore(c, log), [4305, 3013], "over {last}");
        }
        assert_eq!(recovered(c), ids([1, 2, 3, 4]));
        // The other branch goes on where it ended.
        backup(c, 20, "LOG d TO DISK = 'd.bak'");
        assert_eq!(rows_of(c, "d.bak", &[1, 2, 3, 4, 6]), ids([1, 2, 3, 4, 20]));
        assert_eq!(rows_of(c, "d.bak", &[1, 2, 5]), ids([1, 2, 10]));
        assert_eq!(int(c, "SELECT COUNT(*) FROM d.dbo.t"), 3);
    }
}

#[test]
fn a_differential_set_is_not_restored_over_another_full_set() {
    let (old, new) = (Served::bare(&[]), Served::bare(&[]));
    for (served, id) in [(&old, 1), (&new, 101)] {
        let c = &mut database_d(served, false);
        for (at, file) in (0..).zip(["one", "two"]) {
            backup(c, id + 10 * at, &format!("DATABASE d TO DISK = '{file}.bak'"));
            backup(
                c,
                id + 10 * at + 1,
                &format!("DATABASE d TO DISK = '{file}.bak' WITH DIFFERENTIAL"),
            );
        }
    }
    fs::copy(old.data("one.bak"), new.data("old.bak")).unwrap();
    let mut client = new.client();
    let c = &mut client;
    let from = |file: &str, at: u32| {
        format!("DATABASE d FROM DISK = '{file}.bak' WITH FILE = {at}, NORECOVERY")
    };
    for (full, others) in
        [("one", ["two", "old"]), ("two", ["one", "old"]), ("old", ["one", "two"])]
    {
        assert_eq!(restore(c, &format!("{}, REPLACE", from(full, 1))), [0; 0]);
        for other in others {
            assert_eq!(restore(c, &from(other, 2)), [3136, 3013], "{other} over {full}");
        }
        assert_eq!(restore(c, &from(full, 2)), [0; 0], "{full}");
        assert_eq!(restore(c, &from(full, 2)), [0; 0], "{full}");
    }
    assert_eq!(recovered(c), ids([1, 2]));
}

#[test]
fn a_log_backup_behind_another_full_set_is_of_another_path() {
    let (old, new) = (Served::bare(&[]), Served::bare(&[]));
    let mut client = database_d(&old, false);
    let c = &mut client;
    for (id, (what, file)) in (1..).zip([
        ("DATABASE", "full1"),
        ("LOG", "log1"),
        ("LOG", "log2"),
        ("DATABASE", "full2"),
        ("LOG", "log3"),
        ("LOG", "log4"),
    ]) {
        backup(c, id, &format!("{what} d TO DISK = '{file}.bak'"));
    }
    for file in ["full1", "log1", "log2", "log3", "log4"] {
        let file = format!("{file}.bak");
        fs::copy(old.data(&file), new.data(&file)).unwrap();
    }
    // One server has the sets between in its history only; the other never saw them.
    fs::remove_file(old.data("full2.bak")).unwrap();
    let log = |file: &str| format!("LOG d FROM DISK = '{file}.bak' WITH NORECOVERY");
    for (served, name) in [(&old, "old"), (&new, "new")] {
        let c = &mut served.client();
        ok(c, "RESTORE DATABASE d FROM DISK = 'full1.bak' WITH REPLACE, NORECOVERY");
        for file in ["log3", "log4"] {
            assert_eq!(restore(c, &log(file)), [4330, 3013], "{file}, {name}");
        }
        assert_eq!(restore(c, &log("log2")), [4305, 3013], "{name}");
        for file in ["log1", "log2"] {
            assert_eq!(restore(c, &log(file)), [0; 0], "{file}, {name}");
            assert_eq!(restore(c, &log("log3")), [4330, 3013], "over {file}, {name}");
        }
        assert_eq!(recovered(c), ids([1, 2, 3]), "{name}");
    }
}

/// A database that was restored under another name goes on with the chain: its sets are restored
/// behind those of the first name.
#[test]
fn a_differential_set_of_another_name_stands_on_the_same_full_set() {
    let served = Served::new();
    let mut client = database_d(&served, false);
    backup(&mut client, 1, "DATABASE d TO DISK = 'a.bak'");
    assert_eq!(restore(&mut client, "DATABASE r FROM DISK = 'a.bak'"), [0; 0]);
    ok(&mut client, "INSERT r.dbo.t VALUES (2)");
    let made = client.batch("BACKUP DATABASE r TO DISK = 'a.bak' WITH DIFFERENTIAL");
    assert_eq!(made.errors(), [0; 0]);
    let full = "DATABASE d FROM DISK = 'a.bak' WITH FILE = 1, REPLACE, NORECOVERY";
    assert_eq!(restore(&mut client, full), [0; 0]);
    let differential = "DATABASE d FROM DISK = 'a.bak' WITH FILE = 2, NORECOVERY";
    assert_eq!(restore(&mut client, differential), [0; 0]);
    assert_eq!(recovered(&mut client), ids([1, 2]));
}
