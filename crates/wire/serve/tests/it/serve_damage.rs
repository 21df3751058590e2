//! Damaged and exchanged media through T-SQL: errors have SQL Server's numbers, and existing data
//! stays.

use std::fs;

use crate::media::records;
use crate::served::{CERTIFICATE, Client, Served, int, ok};

#[test]
fn damaged_media_are_refused_by_number() {
    let served = Served::new();
    let mut client = served.client_in("app");
    ok(&mut client, "CREATE TABLE t(n int)");
    let disk = served.place.path("app.bak");
    let device = format!("DISK = '{}'", disk.display());
    let sealed = format!("ENCRYPTION (ALGORITHM = AES_256, SERVER CERTIFICATE = {CERTIFICATE})");
    for day in 1..=3 {
        ok(&mut client, &format!("INSERT t VALUES ({day})"));
        ok(&mut client, &format!("BACKUP DATABASE app TO {device} WITH {sealed}"));
    }
    // The cause; the final 3013 of the statement is checked elsewhere.
    let mut error = |batch: &str| client.batch(batch).errors().first().copied();
    let verify = |file: u32| format!("RESTORE VERIFYONLY FROM {device} WITH FILE = {file}");
    assert_eq!(error(&verify(3)), None);
    let whole = fs::read(&disk).unwrap();
    // A signature follows each.
    let sets: Vec<_> = records(&whole).into_iter().step_by(2).collect();
    assert_eq!(records(&whole).len(), 6);
    // Cut out of the middle: the other sets reveal it.
    fs::write(&disk, [&whole[..sets[1].start], &whole[sets[2].start..]].concat()).unwrap();
    assert_eq!(error(&verify(1)), Some(3241));
    assert_eq!(error(&verify(2)), Some(3203));
    assert_eq!(error(&verify(3)), Some(3241));
    assert_eq!(error(&verify(4)), Some(4038));
    // The last header.
    let mut bytes = whole.clone();
    bytes[sets[2].start + 100] ^= 1;
    fs::write(&disk, &bytes).unwrap();
    assert_eq!(error(&verify(1)), Some(3241));
    assert_eq!(error(&format!("RESTORE DATABASE again FROM {device} WITH FILE = 3")), Some(3203));
    assert!(!served.data("again.db").exists());
    // The set that the history knows was removed.
    fs::write(&disk, &whole[..sets[1].end]).unwrap();
    assert_eq!(error(&verify(2)), Some(3241));
}

/// As `tdekit restore` does: `overview` and `prune` judge by it.
#[test]
fn damage_that_a_statement_meets_is_in_the_history() {
    let served = Served::new();
    let mut client = served.client_in("app");
    ok(&mut client, "CREATE TABLE t(n int); INSERT t VALUES (1)");
    let disk = served.place.path("app.bak");
    let device = format!("DISK = '{}'", disk.display());
    ok(&mut client, &format!("BACKUP DATABASE app TO {device}"));
    let whole = fs::read(&disk).unwrap();
    let base = served.data("app.db");
    let marks = || -> Option<bool> {
        let found = served.place.run(["overview", base.to_str().unwrap(), "--json"]);
        let found: serde_json::Value = serde_json::from_str(&found.out).unwrap();
        found["databases"][0]["verify_ok"].as_bool()
    };
    let restore = format!("RESTORE DATABASE again FROM {device} WITH REPLACE");
    let verify = format!("RESTORE VERIFYONLY FROM {device}");
    assert_eq!(marks(), None);
    for (statement, at) in [(&restore, whole.len() / 2), (&verify, whole.len() / 2), (&restore, 40)]
    {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&disk, bytes).unwrap();
        assert!(!client.batch(statement).errors().is_empty(), "{statement}");
        assert_eq!(marks(), Some(false), "{statement} {at}");
        fs::write(&disk, &whole).unwrap();
        ok(&mut client, statement);
        assert_eq!(marks(), Some(true), "{statement} {at}");
    }
}

/// Encrypts the database `app`, which the client uses.
fn encrypt_app(client: &mut Client) {
    let key = format!(
        "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER CERTIFICATE \
         {CERTIFICATE}; ALTER DATABASE app SET ENCRYPTION ON"
    );
    ok(client, &key);
    crate::served::eventually("the database is encrypted", || {
        int(client, "SELECT max(encryption_state) FROM sys.dm_database_encryption_keys") == 3
    });
}

#[test]
fn what_is_left_of_an_encrypted_database_is_not_backed_up() {
    let served = Served::new();
    let mut client = served.client_in("app");
    ok(&mut client, "CREATE TABLE t(n int); INSERT t VALUES (7)");
    encrypt_app(&mut client);
    ok(&mut client, "USE master");
    let whole = fs::read(served.data("app.db")).unwrap();
    let media = served.place.path("left.bak");
    let backup = format!("BACKUP DATABASE app TO DISK = '{}'", media.display());
    fs::write(served.data("app.db"), "").unwrap();
    let answer = client.batch(&backup);
    assert!(format!("{answer:?}").contains("the key store knows"), "{answer:?}");
    assert!(!answer.errors().is_empty() && !media.exists(), "{answer:?}");
    fs::write(served.data("app.db"), whole).unwrap();
    ok(&mut client, &backup);
}

#[test]
fn a_database_whose_certificate_is_missing_names_it() {
    let other = Served::new();
    let mut client = other.client_in("app");
    ok(&mut client, "CREATE TABLE t(n int); INSERT t VALUES (7)");
    encrypt_app(&mut client);
    ok(&mut client, "USE master");
    let served = Served::new();
    fs::copy(other.data("app.db"), served.data("moved.db")).unwrap();
    for batch in ["USE moved; SELECT * FROM t", "SELECT * FROM moved.dbo.t"] {
        let answer = served.client().batch(batch);
        assert_eq!(answer.errors().first(), Some(&33111), "{batch}: {answer:?}");
        assert!(format!("{answer:?}").contains("thumbprint"), "{answer:?}");
    }
}

#[test]
fn an_encrypted_database_does_not_become_plain() {
    let served = Served::new();
    let mut client = served.client_in("app");
    ok(&mut client, "CREATE TABLE t(n int); INSERT t VALUES (7)");
    let device = format!("DISK = '{}'", served.place.path("plain.bak").display());
    ok(&mut client, &format!("BACKUP DATABASE app TO {device}"));
    encrypt_app(&mut client);
    ok(&mut client, "USE master");
    let answer = client.batch(&format!("RESTORE DATABASE app FROM {device} WITH REPLACE"));
    assert_eq!(answer.errors().first(), Some(&50_000), "{answer:?}");
    ok(&mut client, "USE app");
    assert_eq!(int(&mut client, "SELECT n FROM t"), 7);
    assert_eq!(int(&mut client, "SELECT encryption_state FROM sys.dm_database_encryption_keys"), 3);
    // A sealed set without a signature: anyone with the certificate can make one.
    let (database, forged) = (served.place.path("forged.db"), served.place.path("forged.bak"));
    fs::copy(served.data("app.db"), &database).unwrap();
    let to = ["--to", forged.to_str().unwrap(), "--no-sign"];
    served.place.ok([&["backup", database.to_str().unwrap()], &to[..]].concat());
    ok(&mut client, "USE master");
    let device = format!("DISK = '{}'", forged.display());
    let answer = client.batch(&format!("RESTORE DATABASE app FROM {device} WITH REPLACE"));
    assert_eq!(answer.errors().first(), Some(&50_000), "{answer:?}");
    assert!(format!("{answer:?}").contains("anybody can have made"), "{answer:?}");
    // A backup that the server made itself needs no option.
    let own = format!("DISK = '{}'", served.place.path("own.bak").display());
    let sealed = format!("ENCRYPTION (ALGORITHM = AES_256, SERVER CERTIFICATE = {CERTIFICATE})");
    ok(&mut client, &format!("BACKUP DATABASE app TO {own} WITH {sealed}"));
    ok(&mut client, "USE app; DELETE t; USE master");
    ok(&mut client, &format!("RESTORE DATABASE app FROM {own} WITH REPLACE"));
    ok(&mut client, "USE app");
    assert_eq!(int(&mut client, "SELECT n FROM t"), 7);
}

#[test]
fn damage_of_a_sealed_set_has_the_number_of_damage() {
    let served = Served::new();
    let mut client = served.client_in("app");
    let c = &mut client;
    ok(c, "ALTER DATABASE app SET RECOVERY FULL; CREATE TABLE t (n int); INSERT t VALUES (1)");
    let sealed = format!("ENCRYPTION (ALGORITHM = AES_256, SERVER CERTIFICATE = {CERTIFICATE})");
    for kind in ["DATABASE", "LOG"] {
        ok(c, &format!("BACKUP {kind} app TO DISK = 'app.bak' WITH {sealed}"));
    }
    ok(c, "USE master");
    let disk = served.data("app.bak");
    let whole = fs::read(&disk).unwrap();
    // A signature follows each set.
    let sets: Vec<_> = records(&whole).into_iter().step_by(2).collect();
    assert_eq!(sets.len(), 2);
    let flip = |at: usize| {
        let set = sets[at].clone();
        let block = whole[set.clone()].windows(4).position(|it| it == b"tblk").unwrap();
        let mut bytes = whole.clone();
        bytes[set.start + block + 100] ^= 4;
        fs::write(&disk, bytes).unwrap();
    };
    let errors = |client: &mut Client, batch: &str| client.batch(batch).errors();
    flip(0);
    assert_eq!(errors(c, "RESTORE DATABASE again FROM DISK = 'app.bak'"), [3203, 3013]);
    assert_eq!(errors(c, "RESTORE VERIFYONLY FROM DISK = 'app.bak'"), [3189, 3013]);
    assert!(!served.data("again.db").exists());
    flip(1);
    ok(c, "RESTORE DATABASE again FROM DISK = 'app.bak' WITH NORECOVERY");
    let log = "RESTORE LOG again FROM DISK = 'app.bak' WITH FILE = 2";
    assert_eq!(errors(c, log), [3203, 3013]);
    assert_eq!(errors(c, "USE again"), [927]);
    fs::write(&disk, &whole).unwrap();
    assert_eq!(errors(c, log), [0; 0]);
    assert_eq!(int(c, "SELECT n FROM again.dbo.t"), 1);
}
