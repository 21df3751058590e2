//! More sessions than worker threads: a waiting session blocks no other, is visible, and can be
//! ended from outside.

use std::time::{Duration, Instant};

use crate::served::{ATTENTION, Client, Served, eventually, int, messages, ok};
use tdekit_wire_tds::Value;
use tdekit_wire_tds::packet::PacketKind;
use tdekit_wire_tds::request::encode_batch;

/// More than the 256 requests that can run at a time.
const CROWD: usize = 300;

const WAITING: &str = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE status = 'suspended'";

fn crowd(served: &Served, batch: &str) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..CROWD).map(|_| served.client_in("app")).collect();
    for client in &mut clients {
        client.send(PacketKind::Batch, &encode_batch(batch));
    }
    clients
}

#[test]
fn a_commit_runs_although_more_writers_wait_for_it_than_there_are_workers() {
    let served = Served::bare(&[]);
    let mut holder = served.client_in("app");
    ok(&mut holder, "CREATE TABLE t (a int, s int); INSERT t VALUES (0, 0)");
    ok(&mut holder, "BEGIN TRAN; UPDATE t SET a = a + 1");
    let spid = int(&mut holder, "SELECT @@SPID");
    let mut clients = crowd(&served, "UPDATE t SET a = a + 1");
    let mut other = served.client_in("app");
    eventually("the crowd", || int(&mut other, WAITING) == i64::try_from(CROWD).unwrap());
    for view in ["dm_exec_requests", "dm_os_waiting_tasks"] {
        let blocked = format!(
            "SELECT COUNT(*) FROM sys.{view}
             WHERE wait_type = 'LCK_M_X' AND blocking_session_id = {spid}"
        );
        assert_eq!(int(&mut other, &blocked), i64::try_from(CROWD).unwrap());
    }
    // In the meantime, readers and new sessions are served.
    assert_eq!(int(&mut served.client_in("app"), "SELECT a FROM t"), 0);
    ok(&mut holder, "COMMIT");
    for client in &mut clients {
        assert_eq!(client.answer().errors(), [0; 0]);
    }
    assert_eq!(int(&mut other, "SELECT a FROM t"), i64::try_from(CROWD).unwrap() + 1);
    assert_eq!(int(&mut other, WAITING), 0);
}

#[test]
fn writers_get_the_lock_in_the_order_in_which_they_asked() {
    let served = Served::bare(&[]);
    let mut holder = served.client_in("app");
    ok(&mut holder, "CREATE TABLE t (n int IDENTITY PRIMARY KEY, a int)");
    ok(&mut holder, "BEGIN TRAN; INSERT t (a) VALUES (0)");
    let mut clients: Vec<Client> = Vec::new();
    for at in 1..=20 {
        let mut client = served.client_in("app");
        client.send(PacketKind::Batch, &encode_batch(&format!("INSERT t (a) VALUES ({at})")));
        eventually("its wait", || int(&mut holder, WAITING) == at);
        clients.push(client);
    }
    ok(&mut holder, "COMMIT");
    for client in &mut clients {
        assert_eq!(client.answer().errors(), [0; 0]);
    }
    assert_eq!(int(&mut holder, "SELECT COUNT(*) FROM t WHERE n <> a + 1"), 0);
}

#[test]
fn waits_of_all_kinds_are_ended_by_attention_and_by_kill() {
    let served = Served::bare(&[]);
    let mut holder = served.client_in("app");
    ok(&mut holder, "CREATE TABLE t (a int); INSERT t VALUES (1)");
    ok(&mut holder, "EXEC sp_getapplock 'a', 'Exclusive', 'Session'");
    ok(&mut holder, "BEGIN TRAN; UPDATE t SET a = 2");
    let waits = [
        ("WAITFOR DELAY '10:00:00'", "WAITFOR"),
        ("UPDATE t SET a = 3", "LCK_M_X"),
        ("EXEC sp_getapplock 'a', 'Shared', 'Session'", "LCK_M_S"),
    ];
    for (batch, kind) in waits {
        let mut client = served.client_in("app");
        let spid = int(&mut client, "SELECT @@SPID");
        let seen = format!(
            "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {spid}
             AND wait_type = '{kind}' AND status = 'suspended'"
        );
        client.send(PacketKind::Batch, &encode_batch(batch));
        eventually(kind, || int(&mut holder, &seen) == 1);
        let start = Instant::now();
        client.attention();
        client.answer();
        assert_eq!(client.answer().status() & ATTENTION, ATTENTION, "{batch}");
        assert!(start.elapsed() < Duration::from_millis(500), "woken, not asked: {batch}");
        // The session continues until somebody ends it.
        client.send(PacketKind::Batch, &encode_batch(batch));
        eventually(kind, || int(&mut holder, &seen) == 1);
        ok(&mut holder, &format!("KILL {spid}"));
        assert_eq!(client.message(), None, "{batch}");
        let gone = format!("SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE session_id = {spid}");
        eventually("its end", || int(&mut holder, &gone) == 0);
    }
}

#[test]
fn clients_that_do_not_read_keep_nobody_from_anything() {
    let served = Served::bare(&[]);
    let mut other = served.client_in("app");
    let fill = "CREATE TABLE t (a varchar(8000)); DECLARE @i int = 0; BEGIN TRAN;
        WHILE @i < 600 BEGIN INSERT t VALUES (REPLICATE('x', 8000)); SET @i += 1 END; COMMIT";
    ok(&mut other, fill);
    let mut clients = crowd(&served, "SELECT a.a FROM t AS a CROSS JOIN t AS b");
    let stalled = "SELECT COUNT(*) FROM sys.dm_os_waiting_tasks
        WHERE wait_type = 'ASYNC_NETWORK_IO'";
    eventually("the crowd", || int(&mut other, stalled) == i64::try_from(CROWD).unwrap());
    assert_eq!(int(&mut served.client_in("app"), "SELECT COUNT(*) FROM t"), 600);
    // One of them is ended from outside, another ends by itself.
    let first = "SELECT MIN(session_id) FROM sys.dm_os_waiting_tasks";
    let spid = int(&mut other, first);
    ok(&mut other, &format!("KILL {spid}"));
    drop(clients.pop());
    eventually("their ends", || int(&mut other, stalled) == i64::try_from(CROWD).unwrap() - 2);
}

#[test]
fn kill_undoes_what_a_session_has_open() {
    let served = Served::bare(&[]);
    let mut operator = served.client_in("app");
    ok(&mut operator, "CREATE TABLE t (a int); INSERT t VALUES (1)");
    let mut idle = served.client_in("app");
    let spid = int(&mut idle, "SELECT @@SPID");
    ok(&mut idle, "BEGIN TRAN; UPDATE t SET a = 2");
    ok(&mut operator, &format!("KILL {spid}"));
    ok(&mut operator, "SET LOCK_TIMEOUT 20000; UPDATE t SET a = a + 10");
    assert_eq!(int(&mut operator, "SELECT a FROM t"), 11);
    let own = int(&mut operator, "SELECT @@SPID");
    for (number, error) in [(own, 6104), (spid, 6106), (0, 6101), (-1, 6101), (70_000, 6101)] {
        let answer = operator.batch(&format!("KILL {number}"));
        assert_eq!(answer.errors(), [error], "{number}: {:?}", messages(&answer));
    }
    assert_eq!(ok(&mut operator, "SELECT 1").values(), [[Value::Int(1)]]);
}
