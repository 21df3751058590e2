//! Rows that a statement requests to lock are locked against concurrent sessions.

use std::sync::mpsc;
use std::time::Duration;

use crate::common::{Server, rows};
use tdekit_wire_tds::Session;

/// How long to watch for something that must not happen.
const QUIET: Duration = Duration::from_millis(250);
/// How long to wait for something that must happen.
const SOON: Duration = Duration::from_secs(20);

fn server() -> Server {
    let server = Server::new();
    for name in ["app", "other"] {
        // as created by CREATE DATABASE
        let path = server.directory.path().join(format!("{name}.db"));
        let database = rusqlite::Connection::open(path).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
    }
    let mut session = server.session();
    let made = rows(
        &mut *session,
        "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL); \
        INSERT account VALUES (1, 100), (2, 100)",
    );
    assert_eq!(made, "");
    server
}

/// Runs a batch on a separate thread; its result comes over the channel.
fn beside<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    mut session: Box<dyn Session>,
    batch: &'static str,
) -> mpsc::Receiver<(Box<dyn Session>, String)> {
    let (send, receive) = mpsc::channel();
    scope.spawn(move || {
        let found = rows(&mut *session, batch);
        let _ = send.send((session, found));
    });
    receive
}

/// The hints with which Hibernate and others lock the row that they read.
const LOCKING: &[&str] = &[
    "WITH (UPDLOCK)",
    "WITH (UPDLOCK, ROWLOCK)",
    "WITH (updlock, holdlock, rowlock)",
    "WITH (XLOCK)",
    "WITH (TABLOCKX)",
    "WITH (HOLDLOCK)",
    "WITH (SERIALIZABLE)",
    "WITH (REPEATABLEREAD)",
    "WITH (UPDLOCK, READPAST)",
    "(UPDLOCK)",
];

fn take_ten(form: usize, hint: &str) -> String {
    let from = format!("FROM account AS a {hint} WHERE a.id = 1");
    let read = match form {
        0 => format!("DECLARE @b int; SELECT @b = a.balance {from}; "),
        1 => format!("DECLARE @b int = (SELECT a.balance {from}); "),
        2 => format!(
            "DECLARE @b int; IF EXISTS (SELECT * {from}) SELECT @b = balance FROM account \
            WHERE id = 1; "
        ),
        3 => format!(
            "DECLARE @b int; WITH x AS (SELECT a.balance {from}) SELECT @b = balance FROM x; "
        ),
        4 => {
            format!("DECLARE @b int; SELECT balance INTO #b {from}; SELECT @b = balance FROM #b; ")
        }
        _ => format!(
            "DECLARE @b int; DECLARE @t TABLE (v int); INSERT @t SELECT a.balance {from}; \
            SELECT @b = v FROM @t; "
        ),
    };
    format!("BEGIN TRANSACTION; {read}")
}

#[test]
fn ten_is_taken_twice_and_eighty_is_left() {
    for (at, hint) in LOCKING.iter().enumerate() {
        for form in 0..6 {
            // each form with one hint, and each hint in one form
            if form != at % 6 && at != 1 {
                continue;
            }
            let server = server();
            let take = format!(
                "{}UPDATE account SET balance = @b - 10 WHERE id = 1; COMMIT",
                take_ten(form, hint)
            );
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let (mut session, take) = (server.session(), &take);
                    scope.spawn(move || {
                        for _ in 0..5 {
                            let took = rows(&mut *session, take);
                            assert!(!took.contains('!'), "{take}: {took}");
                            rows(&mut *session, "DROP TABLE IF EXISTS #b");
                        }
                    });
                }
            });
            let left = rows(&mut *server.session(), "SELECT balance FROM account WHERE id = 1");
            assert_eq!(left, "0", "{take}");
        }
    }
}

#[test]
fn a_lock_is_kept_to_the_end_of_the_transaction() {
    for hint in LOCKING {
        let server = server();
        let (mut first, second) = (server.session(), server.session());
        let read = format!("BEGIN TRANSACTION; SELECT balance FROM account {hint} WHERE id = 1");
        assert_eq!(rows(&mut *first, &read), "~ begin\n100");
        std::thread::scope(|scope| {
            let take = "SELECT balance FROM account WITH (UPDLOCK) WHERE id = 1";
            let taken = beside(scope, second, take);
            assert!(taken.recv_timeout(QUIET).is_err(), "{hint} does not lock");
            let change = "UPDATE account SET balance = 90 WHERE id = 1; COMMIT";
            assert_eq!(rows(&mut *first, change), "~ commit");
            assert_eq!(taken.recv_timeout(SOON).unwrap().1, "90", "{hint}");
        });
    }
}

#[test]
fn hints_that_ask_for_no_lock_take_none() {
    for hint in ["", "WITH (NOLOCK)", "WITH (ROWLOCK)", "WITH (READCOMMITTED, PAGLOCK)"] {
        let server = server();
        let (mut first, mut second) = (server.session(), server.session());
        let read = format!("BEGIN TRANSACTION; SELECT balance FROM account {hint} WHERE id = 1");
        assert_eq!(rows(&mut *first, &read), "~ begin\n100");
        let change = "SET LOCK_TIMEOUT 0; UPDATE account SET balance = 90 WHERE id = 1";
        assert_eq!(rows(&mut *second, change), "", "{hint}");
        // and sessions that read without a lock do not wait for a writer
        assert_eq!(
            rows(&mut *second, "BEGIN TRANSACTION; UPDATE account SET balance = 1"),
            "~ begin"
        );
        let read = format!("SELECT balance FROM account {hint} WHERE id = 1; COMMIT");
        assert_eq!(rows(&mut *first, &read), "90\n~ commit");
    }
}

#[test]
fn a_lock_of_a_statement_ends_with_it() {
    for hint in ["READPAST", "TABLOCK", "READCOMMITTEDLOCK"] {
        let server = server();
        let (mut first, mut second) = (server.session(), server.session());
        let change = "SET LOCK_TIMEOUT 0; UPDATE account SET balance = 90 WHERE id = 1";
        let read = format!("BEGIN TRANSACTION; SELECT count(*) FROM account WITH ({hint})");
        assert_eq!(rows(&mut *first, &read), "~ begin\n2");
        assert_eq!(rows(&mut *second, change), "", "{hint}");
        assert_eq!(rows(&mut *first, "COMMIT"), "~ commit");
        assert_eq!(rows(&mut *first, "SELECT count(*) FROM account WITH (UPDLOCK)"), "2");
        assert_eq!(rows(&mut *second, change), "", "{hint}");
        // it waits for a session that changes the table
        rows(&mut *second, "BEGIN TRANSACTION; UPDATE account SET balance = 1");
        let read = format!("SET LOCK_TIMEOUT 0; SELECT balance FROM account WITH ({hint})");
        assert!(rows(&mut *first, &read).starts_with("! 1222/"), "{hint}");
        let read =
            format!("SET LOCK_TIMEOUT -1; SELECT balance FROM account WITH ({hint}, NOWAIT)");
        assert!(rows(&mut *first, &read).starts_with("! 1222/"), "{hint}");
        let update = "UPDATE account WITH (NOWAIT) SET balance = 2";
        assert!(rows(&mut *first, update).starts_with("! 1222/"));
    }
}

#[test]
fn two_workers_never_get_the_same_job() {
    let server = server();
    let mut session = server.session();
    let fill = "CREATE TABLE job (id int PRIMARY KEY, done bit NOT NULL); DECLARE @i int = 1; \
        WHILE @i <= 40 BEGIN INSERT job VALUES (@i, 0); SET @i += 1 END";
    assert_eq!(rows(&mut *session, fill), "");
    let next = "DECLARE @id int; BEGIN TRANSACTION; SELECT TOP (1) @id = id FROM job WITH \
        (UPDLOCK, \
        READPAST, ROWLOCK) WHERE done = 0 ORDER BY id; UPDATE job SET done = 1 WHERE id = @id; \
        COMMIT; SELECT @id";
    let mut got: Vec<String> = std::thread::scope(|scope| {
        let work = |mut session: Box<dyn Session>| {
            scope.spawn(move || {
                let one = |_| rows(&mut *session, next);
                (0..20).map(one).collect::<Vec<String>>()
            })
        };
        let both = [work(server.session()), work(server.session())];
        both.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    got.sort();
    got.dedup();
    assert_eq!(got.len(), 40, "{got:?}");
}

#[test]
fn readpast_wants_a_level_that_reads_what_is_committed() {
    let server = server();
    let mut session = server.session();
    let read =
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT * FROM account WITH (READPAST)";
    assert!(rows(&mut *session, read).starts_with("! 650/16/1"));
}

#[test]
fn an_old_snapshot_cannot_be_locked() {
    let server = server();
    let (mut first, mut second) = (server.session(), server.session());
    let begin = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; \
        SELECT balance FROM account WHERE id = 1";
    for change in [
        "SELECT balance FROM account WITH (UPDLOCK) WHERE id = 1",
        "UPDATE account SET balance = 90 WHERE id = 1",
    ] {
        rows(&mut *second, "UPDATE account SET balance = 100");
        assert_eq!(rows(&mut *first, begin), "~ begin\n100");
        assert_eq!(rows(&mut *second, "UPDATE account SET balance = 80 WHERE id = 1"), "");
        let found = rows(&mut *first, change);
        assert!(found.starts_with("! 3960/16/2"), "{found}");
        assert!(found.ends_with("~ rollback"), "{found}");
        assert_eq!(rows(&mut *first, "SELECT @@TRANCOUNT"), "0");
    }
    assert_eq!(rows(&mut *second, "SELECT balance FROM account WHERE id = 1"), "80");
}

#[test]
fn who_closes_a_circle_of_waits_is_the_victim() {
    let server = server();
    let make = "CREATE TABLE t (a int); INSERT t VALUES (1)";
    assert_eq!(rows(&mut *server.session(), &format!("USE other; {make}")).matches('!').count(), 1);
    let (mut first, mut second) = (server.session(), server.session());
    // each takes one database's lock before it has opened the other database
    assert_eq!(rows(&mut *first, "BEGIN TRANSACTION; UPDATE account SET balance = 1"), "~ begin");
    let begin = "BEGIN TRANSACTION; UPDATE other..t SET a = 2";
    let mut apart = server.session();
    rows(&mut *apart, "USE other");
    assert_eq!(rows(&mut *apart, "BEGIN TRANSACTION; UPDATE t SET a = 2"), "~ begin");
    std::thread::scope(|scope| {
        let waits = beside(scope, first, "UPDATE other..t SET a = 3; COMMIT");
        assert!(waits.recv_timeout(QUIET).is_err());
        let victim = rows(&mut *apart, "UPDATE app..account SET balance = 2");
        assert!(victim.starts_with("! 1205/13/51"), "{victim}");
        assert!(victim.ends_with("~ rollback"), "{victim}");
        assert_eq!(waits.recv_timeout(SOON).unwrap().1, "~ commit");
    });
    // a session that opens the second database while it holds the first's lock waits for it, too
    let third = server.session();
    let limit = format!("SET LOCK_TIMEOUT 200; {begin}");
    assert_eq!(rows(&mut *second, begin), "~ begin");
    drop(third);
    let mut fourth = server.session();
    assert_eq!(rows(&mut *fourth, "BEGIN TRANSACTION; SELECT 1"), "~ begin\n1");
    assert!(rows(&mut *fourth, &limit).contains("! 1222/"));
}

#[test]
fn application_locks() {
    let server = server();
    let (mut first, mut second) = (server.session(), server.session());
    let mut say = |which: usize, batch: &str| {
        rows(if which == 1 { &mut *first } else { &mut *second }, batch)
    };
    let get = |rest: &str| format!("DECLARE @r int; EXEC @r = sp_getapplock {rest}; SELECT @r");
    let give =
        |rest: &str| format!("DECLARE @r int; EXEC @r = sp_releaseapplock {rest}; SELECT @r");
    let mine = "'job', 'Exclusive', 'Session', 0";
    assert_eq!(say(1, &get(mine)), "status 0\n0");
    assert_eq!(say(1, &get(mine)), "status 0\n0");
    assert_eq!(say(2, &get(mine)), "status -1\n-1");
    // another name, the same in another case, and another database: different locks
    assert_eq!(say(2, &get("'JOB', 'Exclusive', 'Session', 0")), "status 0\n0");
    assert!(say(2, &format!("USE other; {}", get(mine))).ends_with("status 0\n0"));
    say(2, "USE app");
    // released as often as taken
    assert_eq!(say(1, &give("'job', 'Session'")), "status 0\n0");
    assert_eq!(say(2, &get(mine)), "status -1\n-1");
    assert_eq!(say(1, &give("'job', 'Session'")), "status 0\n0");
    assert_eq!(say(2, &get(mine)), "status 0\n0");
    let lost = say(1, &give("'job', 'Session'"));
    assert!(lost.starts_with("! 1223/16/1") && lost.ends_with("\n-999"), "{lost}");
    // a transaction's lock requires a transaction, and ends with it
    let alone = say(1, &get("@Resource = 'x', @LockMode = 'Shared'"));
    assert!(alone.starts_with("! 3918/16/1") && alone.ends_with("\n-999"), "{alone}");
    for end in ["COMMIT", "ROLLBACK"] {
        say(1, "BEGIN TRANSACTION");
        let shared = "@LockMode = 'Shared', @Resource = 'x', @LockTimeout = 0";
        assert_eq!(say(1, &get(shared)), "status 0\n0");
        say(2, "BEGIN TRANSACTION");
        assert_eq!(say(2, &get(shared)), "status 0\n0");
        assert_eq!(say(2, &get("'x', 'IntentExclusive', 'Transaction', 0")), "status -1\n-1");
        say(1, end);
        assert_eq!(say(2, &get("'x', 'IntentExclusive', 'Transaction', 0")), "status 0\n0");
        say(2, end);
    }
    for bad in ["'x', 'Wrong', 'Session'", "'x', 'Shared', 'Nobody'", "NULL, 'Shared', 'Session'"] {
        let bad = say(1, &get(bad));
        assert!(bad.starts_with("! 15600/15/1") && bad.ends_with("\n-999"), "{bad}");
    }
}

#[test]
fn application_locks_are_waited_for() {
    let server = server();
    let (mut first, second) = (server.session(), server.session());
    let get = "DECLARE @r int; EXEC @r = sp_getapplock 'a', 'Exclusive', 'Session'; SELECT @r";
    assert_eq!(rows(&mut *first, get), "status 0\n0");
    std::thread::scope(|scope| {
        let waits = beside(scope, second, get);
        assert!(waits.recv_timeout(QUIET).is_err());
        // a session that logs out releases its locks
        drop(first);
        assert_eq!(waits.recv_timeout(SOON).unwrap().1, "status 1\n1");
    });
    let (mut first, mut second) = (server.session(), server.session());
    // a cycle of an application lock and a database's lock
    rows(&mut *first, get);
    assert_eq!(rows(&mut *second, "BEGIN TRANSACTION; UPDATE account SET balance = 5"), "~ begin");
    std::thread::scope(|scope| {
        let waits = beside(scope, first, "UPDATE account SET balance = balance + 1");
        assert!(waits.recv_timeout(QUIET).is_err());
        assert_eq!(rows(&mut *second, get), "status -3\n-3");
        assert_eq!(rows(&mut *second, "COMMIT"), "~ commit");
        assert_eq!(waits.recv_timeout(SOON).unwrap().1, "");
    });
    assert_eq!(rows(&mut *second, "SELECT balance FROM account WHERE id = 1"), "6");
}
