//! Another connection changes a schema while a session keeps its statements compiled.

use crate::common::{Server, rows};
use rusqlite::Connection;

fn other(server: &Server) -> Connection {
    let other = Connection::open(server.directory.path().join("app.db")).unwrap();
    other.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    other
}

fn each_mode(check: impl Fn(&Server, &Connection)) {
    for mode in ["wal", "delete"] {
        let server = Server::new();
        let other = other(&server);
        other.pragma_update(None, "journal_mode", mode).unwrap();
        check(&server, &other);
    }
}

#[test]
fn a_column_more_is_shown_by_statements_that_ran_before() {
    each_mode(|server, other| {
        let mut session = server.session();
        let made = rows(&mut *session, "CREATE TABLE t (a int); INSERT t VALUES (1)");
        assert_eq!(made, "");
        let all = "SELECT * FROM t";
        let before = rows(&mut *session, all);
        assert_eq!(rows(&mut *session, all), before);
        other.execute_batch("ALTER TABLE t ADD COLUMN b INT DEFAULT 7").unwrap();
        let after = rows(&mut *session, all);
        assert_ne!(after, before);
        assert_eq!(after, rows(&mut *server.session(), all));
        // other texts, and sessions that only read the catalog
        let mut fresh = server.session();
        for text in ["SELECT t.* FROM t AS t", "SELECT COUNT(*) FROM sys.columns"] {
            assert_eq!(rows(&mut *session, text), rows(&mut *fresh, text), "{text}");
        }
    });
}

#[test]
fn a_column_less_is_the_error_that_it_is_everywhere() {
    each_mode(|server, other| {
        let mut session = server.session();
        let made = "CREATE TABLE t (a int, b int); INSERT t VALUES (1, 2)";
        assert_eq!(rows(&mut *session, made), "");
        let texts = ["SELECT b FROM t", "UPDATE t SET b = 3", "DELETE t WHERE b = 9"];
        for text in texts {
            rows(&mut *session, text);
        }
        other.execute_batch("ALTER TABLE t DROP COLUMN b").unwrap();
        for text in texts {
            let told = rows(&mut *session, text);
            assert!(told.contains("Invalid column name 'b'"), "{text}: {told}");
        }
    });
}

#[test]
fn a_change_is_made_by_the_new_schema_alone() {
    each_mode(|server, other| {
        let mut session = server.session();
        let add = "INSERT t VALUES (1)";
        assert_eq!(rows(&mut *session, "CREATE TABLE t (a int)"), "");
        assert_eq!(rows(&mut *session, add), "");
        other.execute_batch("ALTER TABLE t ADD COLUMN b INT").unwrap();
        let told = rows(&mut *session, add);
        assert!(told.contains("does not match table definition"), "{told}");
        let count = "SELECT COUNT(*) FROM t";
        let rows_now: i64 =
            other.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows_now, 1);
        // within a transaction, too
        let mut second = server.session();
        rows(&mut *second, count);
        rows(&mut *second, "BEGIN TRANSACTION");
        other.execute_batch("ALTER TABLE t ADD COLUMN c INT").unwrap();
        let told = rows(&mut *second, "INSERT t VALUES (1, 2)");
        assert!(told.contains("does not match table definition"), "{told}");
        rows(&mut *second, "ROLLBACK");
    });
}

#[test]
fn another_type_is_the_type_that_is_sent() {
    each_mode(|server, other| {
        let mut session = server.session();
        assert_eq!(rows(&mut *session, "CREATE TABLE t (a int); INSERT t VALUES (1)"), "");
        let text = "SELECT a FROM t; DECLARE @a nvarchar(9) = (SELECT MAX(a) FROM t); SELECT @a";
        rows(&mut *session, text);
        let other_table = "DROP TABLE t; CREATE TABLE t (a NVARCHAR(9)); \
            INSERT INTO t VALUES ('xyz')";
        other.execute_batch(other_table).unwrap();
        let told = rows(&mut *session, text);
        assert_eq!(told, rows(&mut *server.session(), text));
        assert!(told.contains("xyz"), "{told}");
    });
}
