//! Statements that need a database exclusively, and the other sessions of `tdekit serve`.

use std::thread;

use crate::served::{ATTENTION, Client, Served, int, messages, ok, one, script, text};
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::request::encode_batch;

const STATES: &str = "SELECT COUNT(*) FROM sys.databases WHERE is_encrypted = 1";

fn database(served: &Served, name: &str) -> Client {
    let mut client = served.client_in(name);
    ok(&mut client, "CREATE TABLE t (a int); INSERT t VALUES (1), (2), (40)");
    ok(
        &mut client,
        "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_128
         ENCRYPTION BY SERVER CERTIFICATE TestCert",
    );
    client
}

fn sum(client: &mut Client, database: &str) -> i32 {
    let sum = int(client, &format!("SELECT SUM(a) FROM {database}.dbo.t"));
    i32::try_from(sum).unwrap()
}

#[test]
fn sessions_at_rest_let_go_of_a_database() {
    let served = Served::new();
    let mut idle = database(&served, "app");
    ok(&mut idle, "CREATE TABLE #kept (b int); INSERT #kept VALUES (5)");
    let mut wants = served.client();
    let alter = [
        "ALTER DATABASE app SET ENCRYPTION ON",
        "USE app; ALTER DATABASE ENCRYPTION KEY ENCRYPTION BY SERVER CERTIFICATE Next; USE master",
        "ALTER DATABASE app SET ENCRYPTION OFF",
        "RESTORE DATABASE app FROM DISK = 'app.bak' WITH REPLACE",
    ];
    ok(&mut wants, "CREATE CERTIFICATE Next WITH SUBJECT = 'next'");
    ok(&mut wants, "BACKUP DATABASE app TO DISK = 'app.bak' WITH INIT");
    for statement in alter {
        assert_eq!(sum(&mut idle, "app"), 43, "before {statement}");
        ok(&mut wants, statement);
        // It opens the current file, also where the text was run before, and keeps its own state.
        assert_eq!(sum(&mut idle, "app"), 43, "after {statement}");
        assert_eq!(int(&mut idle, "SELECT b FROM #kept"), 5);
        ok(&mut idle, "INSERT app.dbo.t VALUES (0)");
        assert_eq!(sum(&mut wants, "app"), 43);
    }
    ok(&mut wants, "DROP DATABASE app");
    assert_eq!(idle.batch("SELECT SUM(a) FROM app.dbo.t").errors(), [208]);
    assert!(!served.data("app.db").exists(), "and nobody makes it again");
}

#[test]
fn sessions_in_a_transaction_keep_a_database() {
    let served = Served::new();
    let mut user = database(&served, "app");
    let mut wants = served.client();
    ok(&mut wants, "BACKUP DATABASE app TO DISK = 'app.bak'");
    let refused = [
        ("ALTER DATABASE app SET ENCRYPTION ON", 5061),
        ("RESTORE DATABASE app FROM DISK = 'app.bak' WITH REPLACE", 3101),
        ("DROP DATABASE app", 3702),
    ];
    ok(&mut user, "BEGIN TRAN; INSERT t VALUES (1000)");
    for (statement, number) in refused {
        let answer = wants.batch(statement);
        assert_eq!(answer.errors().first(), Some(&number), "{:?}", messages(&answer));
    }
    ok(&mut user, "COMMIT");
    assert_eq!(sum(&mut wants, "app"), 1043, "what was committed is there");
    // A running statement keeps it too.
    user.send(PacketKind::Batch, &encode_batch("SELECT a FROM t; WAITFOR DELAY '10:00:00'"));
    let running = "SELECT COUNT(*) FROM sys.dm_exec_connections WHERE num_reads >= 0";
    assert_eq!(int(&mut wants, running), 2);
    crate::served::eventually("the statement", || {
        let answer = wants.batch("ALTER DATABASE app SET ENCRYPTION ON");
        if answer.errors().is_empty() {
            // It had not begun and was reverted.
            ok(&mut wants, "ALTER DATABASE app SET ENCRYPTION OFF");
        }
        answer.errors() == [5061]
    });
    user.attention();
    user.answer();
    assert_eq!(user.answer().status() & ATTENTION, ATTENTION);
    ok(&mut wants, "ALTER DATABASE app SET ENCRYPTION ON");
    assert_eq!(sum(&mut user, "app"), 1043);
}

#[test]
fn databases_are_encrypted_at_the_same_time() {
    let served = Served::new();
    let names = ["one", "two", "three", "four"];
    for name in names {
        drop(database(&served, name));
    }
    for (state, count) in [("ON", 4), ("OFF", 0), ("ON", 4)] {
        thread::scope(|scope| {
            for name in names {
                let served = &served;
                scope.spawn(move || {
                    let mut client = served.client();
                    ok(&mut client, &format!("ALTER DATABASE {name} SET ENCRYPTION {state}"));
                    assert_eq!(sum(&mut client, name), 43, "{name}");
                });
            }
        });
        let mut client = served.client();
        assert_eq!(int(&mut client, STATES), count);
    }
}

#[test]
fn whoever_writes_meanwhile_loses_nothing() {
    const WRITERS: i32 = 3;
    let served = Served::new();
    drop(database(&served, "app"));
    let written = thread::scope(|scope| {
        let writer = |_| {
            let served = &served;
            scope.spawn(move || {
                let mut client = served.client();
                let insert = "INSERT app.dbo.t VALUES (1)";
                let done = (0..300).filter(|_| client.batch(insert).errors().is_empty());
                i32::try_from(done.count()).unwrap()
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let mut client = served.client();
        for state in ["ON", "OFF", "ON", "OFF", "ON"] {
            // 5061 while a writer is active; in the end it may not have happened at all.
            let _answer = client.batch(&format!("ALTER DATABASE app SET ENCRYPTION {state}"));
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<i32>()
    });
    let mut client = served.client();
    assert_eq!(sum(&mut client, "app"), 43 + written, "every insert that was answered is there");
    assert!(written > 0);
}

#[test]
fn long_work_on_files_is_cancelled() {
    let served = Served::new();
    let mut client = database(&served, "app");
    ok(
        &mut client,
        "CREATE TABLE big (a varchar(2000)); INSERT big VALUES (REPLICATE('x', 2000));
         DECLARE @i int = 0;
         WHILE @i < 14 BEGIN INSERT big SELECT a FROM big; SET @i += 1 END",
    );
    ok(&mut client, "BACKUP DATABASE app TO DISK = 'whole.bak'; USE master");
    let statements = [
        "BACKUP DATABASE app TO DISK = 'part.bak' WITH INIT, COMPRESSION, ENCRYPTION
         (ALGORITHM = TRIPLE_DES_3KEY, SERVER CERTIFICATE = TestCert)",
        "RESTORE DATABASE copy FROM DISK = 'whole.bak'",
        "ALTER DATABASE app SET ENCRYPTION ON",
    ];
    for statement in statements {
        client.send(PacketKind::Batch, &encode_batch(statement));
        client.attention();
        client.answer();
        assert_eq!(client.answer().status() & ATTENTION, ATTENTION, "{statement}");
        assert_eq!(sum(&mut client, "app"), 43, "{statement}");
    }
    ok(&mut client, "SELECT 1");
}

#[test]
fn a_session_that_is_reset_runs_the_same_text_again() {
    let served = Served::new();
    let mut client = served.client();
    drop(database(&served, "app"));
    for _ in 0..3 {
        let batch = encode_batch("SELECT SUM(a) FROM app.dbo.t");
        let reset = tdekit_wire_tds::packet::PacketStatus::RESET;
        client.send_with(PacketKind::Batch, &batch, reset);
        let answer = client.answer();
        assert_eq!(answer.errors(), [0; 0], "{:?}", messages(&answer));
        assert_eq!(answer.rows(), 1);
    }
}

#[test]
fn a_master_key_is_made_anew_while_databases_are_open() {
    let mut served = Served::new();
    let mut client = database(&served, "app");
    ok(&mut client, "USE master; ALTER DATABASE app SET ENCRYPTION ON");
    script(
        &mut client,
        "ALTER MASTER KEY REGENERATE WITH ENCRYPTION BY PASSWORD = 'another one';
GO
CREATE CERTIFICATE Later WITH SUBJECT = 'later';
GO",
    );
    assert_eq!(sum(&mut client, "app"), 43);
    let certificates = "SELECT COUNT(*) FROM sys.certificates";
    assert_eq!(int(&mut client, certificates), 2);
    served.kill();
    served.place.set("TDEKIT_PASSWORD", "another one");
    served.start();
    let mut client = served.client();
    assert_eq!(sum(&mut client, "app"), 43);
    let name = one(&mut client, "SELECT name FROM sys.symmetric_keys");
    assert_eq!(text(&name), "##MS_DatabaseMasterKey##");
}
