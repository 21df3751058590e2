//! Statements that wait for another session, which changes what they were bound to.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{Server, rows};

/// Session A runs `first` in a transaction; B sends `second`, which waits for the lock; A commits.
/// Returns what B gets, and then the answer to `asked`.
fn behind(setup: &str, first: &str, second: &str, asked: &str) -> (String, String) {
    let server = Server::new();
    let (mut a, mut b, mut c) = (server.session(), server.session(), server.session());
    assert_eq!(rows(&mut *a, setup), "");
    // B knows the tables as they are before
    rows(&mut *b, "SELECT * FROM dr");
    assert_eq!(rows(&mut *a, &format!("BEGIN TRANSACTION; {first}")), "~ begin");
    let (begun, sent) = mpsc::channel();
    let second = second.to_owned();
    let waiting = thread::spawn(move || {
        begun.send(()).unwrap();
        rows(&mut *b, &second)
    });
    sent.recv().unwrap();
    let asking = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type = 'LCK_M_X'";
    let mut seen = false;
    for _ in 0..400 {
        seen = rows(&mut *c, asking) != "0";
        if seen {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(seen, "it waits");
    assert_eq!(rows(&mut *a, "COMMIT"), "~ commit");
    (waiting.join().unwrap(), rows(&mut *c, asked))
}

const SETUP: &str = "CREATE TABLE dr (id int IDENTITY PRIMARY KEY, j decimal(10,2), k int); \
    INSERT dr (j, k) VALUES (5, 5)";
const WIDER: &str = "ALTER TABLE dr ALTER COLUMN j decimal(10,4)";

#[test]
fn a_definition_that_waited_uses_what_is_there_then() {
    let value = "SELECT j FROM dr";
    for (first, second, found) in [
        (WIDER, WIDER, "5.0000"),
        (WIDER, "ALTER TABLE dr ALTER COLUMN j decimal(10,2) NOT NULL", "5.00"),
        (WIDER, "ALTER TABLE dr ALTER COLUMN j int", "5"),
        (WIDER, "ALTER TABLE dr ALTER COLUMN j varchar(20)", "'5.0000'"),
        (WIDER, "ALTER TABLE dr ADD CONSTRAINT kc CHECK (j < 100)", "5.0000"),
        ("ALTER TABLE dr ALTER COLUMN j varchar(20)", "ALTER TABLE dr ALTER COLUMN j int", "!"),
    ] {
        let (told, after) = behind(SETUP, first, second, value);
        if found == "!" {
            assert!(told.contains("245/"), "{second}: {told}");
            assert_eq!(after, "'5.00'");
        } else {
            assert_eq!((told.as_str(), after.as_str()), ("", found), "{second}");
        }
    }
    let again = "DROP TABLE dr; CREATE TABLE dr (id int, j decimal(10,4), k int); INSERT dr \
        VALUES (1, 5, 5)";
    let (told, after) = behind(SETUP, again, "ALTER TABLE dr ALTER COLUMN j decimal(10,3)", value);
    assert_eq!((told.as_str(), after.as_str()), ("", "5.000"));
}

#[test]
fn select_into_that_waited_copies_values_as_they_are() {
    let copy = "SELECT j FROM drl";
    let into = "SELECT j INTO drl FROM dr";
    assert_eq!(behind(SETUP, WIDER, into, copy), (String::new(), "5.0000".to_owned()));
    let text = "ALTER TABLE dr ALTER COLUMN j varchar(20)";
    assert_eq!(behind(SETUP, text, into, copy), (String::new(), "'5.00'".to_owned()));
    let (_, found) = behind(SETUP, WIDER, "SELECT j INTO drl FROM dr WHERE j = 5", copy);
    assert_eq!(found, "5.0000");
}

#[test]
fn changes_that_waited_store_values_of_the_new_type() {
    for (second, found) in [
        ("INSERT dr (j) VALUES (6)", "5.0000 | 6.0000"),
        ("UPDATE dr SET j = 6", "6.0000 | 6.0000"),
        ("INSERT dr (j) EXEC('SELECT 6')", "5.0000 | 6.0000"),
    ] {
        let (told, after) = behind(SETUP, WIDER, second, "SELECT MIN(j), MAX(j) FROM dr");
        assert_eq!((told.as_str(), after.as_str()), ("", found), "{second}");
    }
}

#[test]
fn errors_are_those_of_what_is_there() {
    let one = "SELECT COUNT(*) FROM dr";
    for (first, second, number) in [
        ("ALTER TABLE dr ADD z int", "ALTER TABLE dr ADD z int", "2705/"),
        ("ALTER TABLE dr DROP COLUMN k", "ALTER TABLE dr DROP COLUMN k", "4924/"),
        ("INSERT dr (j, k) VALUES (5, 5)", "CREATE UNIQUE INDEX ui ON dr (k)", "1505/"),
        ("DROP TABLE dr; CREATE TABLE dr (x int)", "CREATE INDEX ui ON dr (k)", "1911/"),
    ] {
        let (told, _) = behind(SETUP, first, second, one);
        assert!(told.contains(number), "{second}: {told}");
    }
}

/// Four sessions insert while a fifth changes the column's type: no value is converted for a type
/// that the column does not have.
#[test]
fn rows_that_are_inserted_under_changes_of_a_type_keep_their_value() {
    let server = Server::new();
    let mut first = server.session();
    assert_eq!(rows(&mut *first, "CREATE TABLE rr (j decimal(10,2))"), "");
    let changes = thread::spawn(move || {
        for _ in 0..15 {
            for ty in ["decimal(10,4)", "varchar(20)", "decimal(10,2)"] {
                rows(&mut *first, &format!("ALTER TABLE rr ALTER COLUMN j {ty}"));
            }
        }
    });
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let mut session = server.session();
            thread::spawn(move || {
                for _ in 0..60 {
                    rows(&mut *session, "INSERT rr (j) VALUES (5)");
                }
            })
        })
        .collect();
    changes.join().unwrap();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let mut last = server.session();
    assert_eq!(rows(&mut *last, "ALTER TABLE rr ALTER COLUMN j decimal(10,2)"), "");
    assert_eq!(rows(&mut *last, "SELECT COUNT(*) FROM rr WHERE j <> 5"), "0");
    assert_ne!(rows(&mut *last, "SELECT COUNT(*) FROM rr"), "0");
}

/// Sessions that define without a pause meet another schema each time that they get the lock.
#[test]
fn sessions_that_define_at_once_all_succeed() {
    let server = Server::new();
    let all: Vec<_> = (0..6).map(|_| server.session()).collect();
    let work = |(number, mut session): (usize, Box<dyn tdekit_wire_tds::Session>)| {
        for round in 0..15 {
            let own = format!("{number}_{round}");
            for text in [
                format!("CREATE TABLE t{own} (a int PRIMARY KEY, b varchar(10))"),
                format!("CREATE TYPE k{own} AS TABLE (a int)"),
                format!(
                    "CREATE PROCEDURE p{own} @of k{own} READONLY AS INSERT t{own} (a) \
                    SELECT a FROM @of"
                ),
                format!("DECLARE @of k{own}; INSERT @of VALUES (1), (2); EXEC p{own} @of"),
                format!("UPDATE t{own} SET b = 'x' WHERE a = 2"),
                format!("ALTER TABLE t{own} ADD c int"),
            ] {
                let told = rows(&mut *session, &text);
                assert_eq!(told, if text.contains("EXEC") { "status 0" } else { "" }, "{text}");
            }
        }
    };
    thread::scope(|scope| {
        all.into_iter().enumerate().for_each(|one| drop(scope.spawn(move || work(one))));
    });
    assert_eq!(rows(&mut *server.session(), "SELECT COUNT(*) FROM sys.tables"), "90");
}
