//! `tdekit serve` from outside: who may log in, the contents of the disk, and what sessions see of
//! each other.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use crate::served::{
    ATTENTION, Client, MARKER, PASSWORD, Served, eventually, int, login_of, messages, ok, one, text,
};
use tdekit_wire_tds::Value;
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::prelogin::Encryption;
use tdekit_wire_tds::request::encode_batch;

fn came_in(served: &Served, user: &str, password: &str) -> Vec<i32> {
    let mut client = Client::connect_to(served.address());
    client.enter(&login_of(user, password, ""), Encryption::On).errors()
}

#[test]
fn logins_are_checked_and_locked() {
    let served = Served::bare(&[]);
    let mut inside = served.client();
    assert_eq!(came_in(&served, "SA", PASSWORD), [0; 0]);
    assert_eq!(came_in(&served, "nobody", PASSWORD), [18456]);
    for _ in 0..5 {
        assert_eq!(came_in(&served, "sa", "wrong horse"), [18456]);
    }
    assert_eq!(came_in(&served, "sa", PASSWORD), [0; 0], "it was right before, from here");
    assert_eq!(text(&one(&mut inside, "SELECT SUSER_SNAME()")), "sa", "those inside stay");
    let mut lost = Client::connect_to(served.address());
    let answer = lost.enter(&login_of("nobody", "x", "missing"), Encryption::On);
    assert_eq!(answer.errors(), [18456]);
}

const ENCRYPT: &str = "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
    ENCRYPTION BY SERVER CERTIFICATE TestCert;
    USE master";

/// Fills a table of the session's database with the marker.
fn plant(client: &mut Client) {
    ok(client, "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a varchar(60), n nvarchar(60))");
    let row = format!("('{MARKER}', N'{MARKER}')");
    ok(client, &format!("INSERT t (a, n) VALUES {row}, {row}, {row}"));
}

#[test]
fn databases_are_neither_made_nor_removed_in_a_transaction() {
    let served = Served::bare(&[]);
    let mut client = served.client();
    let made = client.batch("BEGIN TRAN; CREATE DATABASE x");
    assert_eq!(made.errors(), [226]);
    ok(&mut client, "IF @@TRANCOUNT > 0 ROLLBACK");
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM sys.databases WHERE name = 'x'"), 0);
    ok(&mut client, "CREATE DATABASE x");
    assert_eq!(client.batch("BEGIN TRAN; DROP DATABASE x").errors(), [226]);
    ok(&mut client, "IF @@TRANCOUNT > 0 ROLLBACK");
    assert_eq!(client.batch("BEGIN TRAN; ALTER DATABASE x SET RECOVERY FULL").errors(), [226]);
    for option in ["READ_COMMITTED_SNAPSHOT", "ALLOW_SNAPSHOT_ISOLATION"] {
        ok(&mut client, &format!("IF @@TRANCOUNT > 0 ROLLBACK; ALTER DATABASE x SET {option} ON"));
        assert!(!client.batch(&format!("ALTER DATABASE x SET {option} OFF")).errors().is_empty());
    }
    ok(&mut client, "IF @@TRANCOUNT > 0 ROLLBACK");
    for statement in ["BACKUP DATABASE x TO DISK = 'x.bak'", "RESTORE DATABASE x FROM DISK = 'x'"] {
        let errors = client.batch(&format!("BEGIN TRAN; {statement}")).errors();
        assert_eq!(errors, [3021, 3013], "{statement}");
        ok(&mut client, "IF @@TRANCOUNT > 0 ROLLBACK");
    }
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM sys.databases WHERE name = 'x'"), 1);
}

#[test]
fn what_is_encrypted_stands_nowhere_in_the_clear() {
    let mut served = Served::new();
    let mut client = served.client_in("sealed");
    ok(&mut client, ENCRYPT);
    ok(&mut client, "ALTER DATABASE sealed SET ENCRYPTION ON; USE sealed");
    plant(&mut client);
    ok(&mut client, "UPDATE t SET a = a + a; INSERT t (a) SELECT a FROM t");
    ok(&mut client, "BEGIN TRAN; INSERT t (a) SELECT TOP 2 a FROM t");
    assert_eq!(served.files_with_marker(), [""; 0], "also not in its log");
    ok(&mut client, "COMMIT");
    ok(&mut client, "BACKUP DATABASE sealed TO DISK = 'sealed.bak' WITH INIT");
    assert_eq!(served.files_with_marker(), [""; 0]);
    // Checks that the search works: it finds the marker in a database that is not encrypted.
    let mut other = served.client_in("clear");
    plant(&mut other);
    assert!(served.files_with_marker().iter().any(|name| name.starts_with("clear.db")));
    drop((client, other));
    assert!(served.terminate().success());
    assert_eq!(served.files_with_marker(), ["clear.db"]);
    let status = served.place.json(["status", "--json", "data/sealed.db"]);
    assert!(status.to_string().contains("AES_256"), "{status}");
    served.start();
    let mut client = served.client_in("sealed");
    assert_eq!(int(&mut client, &format!("SELECT COUNT(*) FROM t WHERE n = N'{MARKER}'")), 3);
}

#[test]
fn what_the_server_makes_is_its_users_alone() {
    let served = Served::new();
    let mut client = served.client_in("made");
    plant(&mut client);
    ok(&mut client, "USE master");
    plant(&mut client);
    ok(&mut client, "BACKUP DATABASE made TO DISK = 'made.bak' WITH INIT");
    for name in ["made.db", "made.bak", "master.db"] {
        let mode = fs::metadata(served.data(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o77, 0, "{name}: {mode:o}");
    }
}

#[test]
fn the_end_is_in_order() {
    let mut served = Served::bare(&[]);
    let mut idle = served.client();
    let mut running = served.client();
    running.send(PacketKind::Batch, &encode_batch("WAITFOR DELAY '00:00:00.5'; SELECT 7"));
    ok(&mut idle, "SELECT 1");
    // Not before the request has reached the server.
    let count = "SELECT COUNT(*) FROM sys.dm_exec_connections WHERE num_reads > 4";
    eventually("the request", || int(&mut idle, count) == 2);
    served.signal();
    assert_eq!(running.answer().values(), [[Value::Int(7)]], "it has its time");
    assert!(served.wait().success());
    assert_eq!(idle.message(), None);
}

#[test]
fn sessions_see_each_other() {
    let served = Served::bare(&[]);
    let mut first = served.client();
    let mut clear = served.client_with(Encryption::NotSupported);
    let mut strict = Client::connect_to(served.address());
    let tls = crate::served::tls_client(crate::served::BOTH, &[b"tds/8.0"]);
    assert_eq!(strict.enter_strictly(login_of("sa", PASSWORD, ""), tls).errors(), [0; 0]);
    let (one_spid, other) =
        (int(&mut first, "SELECT @@SPID"), int(&mut clear, "SELECT CAST(@@SPID AS int)"));
    let rows = ok(
        &mut first,
        "SELECT session_id, encrypt_option, tls_protocol, net_packet_size, client_net_address
         FROM sys.dm_exec_connections ORDER BY session_id",
    )
    .values();
    assert_eq!(rows.len(), 3, "{rows:?}");
    let expected = [(one_spid, "TRUE"), (other, "FALSE")];
    for ((spid, option), row) in expected.into_iter().zip(&rows) {
        assert_eq!((&row[0], text(&row[1]).as_str()), (&Value::Int(spid), option));
        assert_eq!((&row[3], text(&row[4]).as_str()), (&Value::Int(4096), "127.0.0.1"));
    }
    let protocols: Vec<_> = rows.iter().map(|row| row[2].clone()).collect();
    assert_eq!(text(&protocols[0]), "TLS 1.2");
    assert_eq!((&protocols[1], text(&protocols[2]).as_str()), (&Value::Null, "TLS 1.3"));
    let suite = one(&mut strict, "SELECT CONNECTIONPROPERTY('tls_cipher_suite')");
    assert!(text(&suite).starts_with("TLS_AES_"), "{suite:?}");
    assert_eq!(one(&mut clear, "SELECT CONNECTIONPROPERTY('tls_cipher_suite')"), Value::Null);
    let ports = "SELECT COUNT(DISTINCT client_tcp_port) FROM sys.dm_exec_connections
        WHERE connect_time <= GETUTCDATE() AND local_tcp_port <> client_tcp_port";
    assert_eq!(int(&mut first, ports), 3);
    assert_eq!(int(&mut first, "SELECT COUNT(*) FROM sys.dm_exec_sessions"), 3);
}

#[test]
fn attention_ends_whatever_runs() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("app");
    let mut other = served.client();
    ok(
        &mut client,
        "CREATE TABLE t (a int); INSERT t VALUES (1), (2), (3), (4), (5), (6), (7), (8)",
    );
    let product = ["t AS a", "t AS b", "t AS c", "t AS d", "t AS e", "t AS f", "t AS g", "t AS h"];
    let product = product.join(" CROSS JOIN ");
    let endless = [
        "WHILE 1 = 1 PRINT 'x'".to_owned(),
        "DECLARE @i int = 0; SET NOCOUNT ON; WHILE 1 = 1 SET @i = 1 - @i".to_owned(),
        "WAITFOR DELAY '10:00:00'".to_owned(),
        format!("SELECT COUNT(*) FROM {product} CROSS JOIN t AS i CROSS JOIN t AS j"),
        format!("SELECT a.a FROM {product} CROSS JOIN t AS i CROSS JOIN t AS j"),
    ];
    for batch in endless {
        client.send(PacketKind::Batch, &encode_batch(&batch));
        thread::sleep(std::time::Duration::from_millis(30));
        client.attention();
        client.answer();
        assert_eq!(client.answer().status() & ATTENTION, ATTENTION, "{batch}");
        assert_eq!(int(&mut client, "SELECT COUNT(*) FROM t"), 8, "{batch}");
        assert_eq!(int(&mut other, "SELECT COUNT(*) FROM app.dbo.t"), 8, "{batch}");
    }
}

#[test]
fn names_are_names_and_never_statements() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("app");
    ok(&mut client, "CREATE TABLE victim (a int); INSERT victim VALUES (1)");
    let odd = [
        "x\"; DROP TABLE victim; --",
        "x'; DROP TABLE victim; --",
        "x]]; DROP TABLE victim; --",
        "x`; DROP TABLE victim; --",
        "名前 ?1 :a @b $c",
    ];
    for name in odd {
        ok(&mut client, &format!("CREATE TABLE [{name}] ([{name}] int, CHECK ([{name}] > 0))"));
        ok(&mut client, &format!("INSERT [{name}] ([{name}]) VALUES (7)"));
        let found = int(&mut client, &format!("SELECT t.[{name}] AS [{name}] FROM [{name}] AS t"));
        assert_eq!(found, 7, "{name}");
        ok(&mut client, &format!("BEGIN TRAN; SAVE TRAN [{name}]; ROLLBACK TRAN [{name}]; COMMIT"));
        ok(&mut client, &format!("DROP TABLE [{name}]"));
        // As a database, a certificate or a device: refused or created, with no other effect.
        let _answer = client.batch(&format!("CREATE DATABASE [{name}]"));
        let _answer = client.batch(&format!("USE [{name}]; USE app"));
        let _answer = client.batch(&format!("DROP CERTIFICATE [{name}]"));
        let _answer = client.batch(&format!("EXEC [{name}]"));
        let quoted = name.replace('\'', "''");
        let told = client.batch(&format!("EXEC('SELECT 1 AS [{quoted}]')"));
        assert!(told.errors().is_empty(), "{:?}", messages(&told));
        ok(&mut client, &format!("SELECT OBJECT_ID('{quoted}'), DB_ID('{quoted}')"));
        assert_eq!(int(&mut client, "SELECT COUNT(*) FROM app.dbo.victim"), 1, "{name}");
    }
    // A dot would separate schema and name where they are stored.
    for name in ["main.victim", "temp\".\"victim"] {
        assert_eq!(client.batch(&format!("CREATE TABLE [{name}] (a int)")).errors(), [40512]);
        assert_eq!(client.batch(&format!("DROP TABLE [{name}]")).errors().len(), 1, "{name}");
        assert_eq!(int(&mut client, "SELECT COUNT(*) FROM app.dbo.victim"), 1, "{name}");
    }
}
