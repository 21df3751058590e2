//! `tdekit serve` and its clients when they are killed, and when the disk is full.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use crate::served::{Client, Served, eventually, int, messages, ok, text};
use rusqlite::Connection;
use rustix::net::sockopt::set_socket_linger;
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::request::encode_batch;

const SEAL: &str = "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
    ENCRYPTION BY SERVER CERTIFICATE TestCert;
    USE master";
const FILL: &str = "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a varchar(200));
    DECLARE @i int = 0;
    WHILE @i < 200 BEGIN INSERT t (a) VALUES (REPLICATE('x', 200)); SET @i += 1 END";

#[test]
fn a_killed_servers_transactions_are_rolled_back() {
    let mut served = Served::new();
    let mut client = served.client_in("sealed");
    ok(&mut client, SEAL);
    ok(&mut client, "ALTER DATABASE sealed SET ENCRYPTION ON; USE sealed");
    ok(&mut client, FILL);
    for round in 1..=3 {
        let mut client = served.client_in("sealed");
        ok(&mut client, "INSERT t (a) VALUES ('committed')");
        ok(&mut client, "BEGIN TRAN; UPDATE t SET a = 'y'; DELETE t WHERE id % 3 = 0");
        // More than the connection's cache: the log has pages that are never committed.
        ok(&mut client, "INSERT t (a) SELECT a.a FROM t AS a CROSS JOIN t AS b");
        assert!(int(&mut client, "SELECT COUNT(*) FROM t") > 10_000);
        served.kill();
        assert_eq!(client.message(), None);
        served.start();
        let mut client = served.client_in("sealed");
        assert_eq!(int(&mut client, "SELECT COUNT(*) FROM t"), 200 + round);
        let committed = "SELECT COUNT(*) FROM t WHERE a = 'committed'";
        assert_eq!(int(&mut client, committed), round);
        assert_eq!(int(&mut client, "SELECT COUNT(*) FROM t WHERE a = 'y'"), 0);
    }
    assert!(served.terminate().success());
    let plain = served.place.path("plain.db");
    fs::copy(served.data("sealed.db"), &plain).unwrap();
    served.place.ok([OsStr::new("decrypt"), plain.as_os_str()]);
    let db = Connection::open(plain).unwrap();
    let found: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}

#[test]
fn a_killed_clients_transaction_is_rolled_back_and_its_locks_are_free() {
    let served = Served::bare(&[]);
    let mut other = served.client_in("app");
    ok(&mut other, FILL);
    let kill = |client: Client| {
        // As the system does for a process that was killed with unread data: RST.
        set_socket_linger(&client.stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
    };
    let mut client = served.client_in("app");
    ok(&mut client, "BEGIN TRAN; DELETE t");
    ok(&mut other, "SET LOCK_TIMEOUT 0");
    assert_eq!(other.batch("DELETE t WHERE id = 1").errors(), [1222], "it is locked");
    kill(client);
    eventually("the lock", || other.batch("DELETE t WHERE id = 1").errors().is_empty());
    assert_eq!(int(&mut other, "SELECT COUNT(*) FROM t"), 199);
    // During a statement.
    let mut client = served.client_in("app");
    let endless = "BEGIN TRAN; WHILE 1 = 1 UPDATE t SET a = a";
    client.send(PacketKind::Batch, &encode_batch(endless));
    eventually("the lock", || other.batch("DELETE t WHERE id = 0").errors() == [1222]);
    kill(client);
    eventually("the lock", || other.batch("DELETE t WHERE id = 2").errors().is_empty());
    assert_eq!(int(&mut other, "SELECT COUNT(*) FROM t"), 198);
    let sessions = "SELECT COUNT(*) FROM sys.dm_exec_connections";
    eventually("their ends", || int(&mut other, sessions) == 1);
}

/// Returns the command on a file system of `size` in place of the served directory; none if the
/// system does not permit mounting one.
fn on_small_disk(served: &Served, size: &str) -> Option<Command> {
    let mount = format!("mount -t tmpfs -o size={size} none data");
    for unshare in ["-m", "-rm"] {
        let tried = Command::new("unshare")
            .current_dir(served.place.path(""))
            .args([unshare, "sh", "-c", &mount])
            .status();
        if tried.is_ok_and(|status| status.success()) {
            let serve = served.place.command(["serve", "data", "--listen", "127.0.0.1:0"]);
            let mut command = Command::new("unshare");
            command
                .args([unshare, "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")])
                .arg(serve.get_program())
                .args(serve.get_args())
                .current_dir(serve.get_current_dir().unwrap())
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap_or_default());
            for (name, value) in serve.get_envs() {
                command.env(name, value.unwrap_or_default());
            }
            return Some(command);
        }
    }
    assert!(std::env::var_os("CI").is_none(), "a tmpfs cannot be mounted");
    eprintln!("skipped: a tmpfs cannot be mounted");
    None
}

#[test]
fn a_full_disk_is_told_and_sessions_go_on() {
    let mut served = Served::bare(&[]);
    served.kill();
    let Some(command) = on_small_disk(&served, "3m") else { return };
    served.run(command);
    let mut client = served.client_in("app");
    let mut other = served.client();
    ok(&mut client, FILL);
    let more = "INSERT t (a) SELECT a.a FROM t AS a CROSS JOIN t AS b";
    let full = client.batch(more);
    assert_eq!(full.errors(), [1105], "{:?}", messages(&full));
    let told = messages(&full);
    let told = told.iter().find(|message| message.number == 1105).unwrap();
    assert!(told.text.contains("'app'"), "{}", told.text);
    // Also within a transaction: it ends, the session does not.
    let answer = client.batch(&format!("BEGIN TRAN; INSERT t (a) VALUES ('in'); {more}"));
    assert!(answer.errors().contains(&1105), "{:?}", messages(&answer));
    ok(&mut client, "IF @@TRANCOUNT > 0 ROLLBACK");
    for session in [&mut client, &mut other] {
        assert_eq!(int(session, "SELECT COUNT(*) FROM app.dbo.t"), 200);
        ok(session, "UPDATE app.dbo.t SET a = 'short' WHERE id = 1");
    }
    let backup = client.batch("BACKUP DATABASE app TO DISK = 'app.bak'");
    assert!(backup.errors().iter().all(|error| [3201, 3202, 3013].contains(error)));
    assert_eq!(
        text(&crate::served::one(&mut other, "SELECT a FROM app.dbo.t WHERE id = 1")),
        "short"
    );
}
