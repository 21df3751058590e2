//! INSERT .. EXEC is one statement: its procedure's changes are kept or undone with the rows.

use crate::common::{Server, rows, run};
use tdekit_wire_tds::Session;

fn made(server: &Server) -> Box<dyn Session> {
    let mut session = server.session();
    for batch in [
        "CREATE TABLE t (a int NOT NULL PRIMARY KEY); CREATE TABLE log (n int)",
        "CREATE PROCEDURE good AS INSERT log VALUES (@@TRANCOUNT); SELECT 1; SELECT 2",
        "CREATE PROCEDURE twice AS INSERT log VALUES (1); SELECT 1; SELECT 1",
        "CREATE PROCEDURE bad AS INSERT log VALUES (1); SELECT 1; SELECT CAST('x' AS int); \
         INSERT log VALUES (2)",
        "CREATE PROCEDURE thrown AS INSERT log VALUES (1); THROW 50001, 'no', 1",
        "CREATE PROCEDURE missing AS INSERT log VALUES (1); SELECT * FROM nix",
        "CREATE PROCEDURE goes_on AS INSERT log VALUES (1); INSERT t VALUES (NULL); SELECT 7",
        "CREATE PROCEDURE raised AS INSERT log VALUES (1); RAISERROR('r', 16, 1); SELECT 8",
        "CREATE PROCEDURE back AS INSERT log VALUES (1); ROLLBACK; INSERT log VALUES (2)",
        "CREATE PROCEDURE ends AS INSERT log VALUES (1); COMMIT; INSERT log VALUES (2)",
        "CREATE PROCEDURE inner_tran AS BEGIN TRAN; INSERT log VALUES (@@TRANCOUNT); COMMIT; \
         SELECT 9",
        "CREATE PROCEDURE caught AS BEGIN TRY INSERT log VALUES (1); SELECT CAST('x' AS int) \
         END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH",
    ] {
        assert_eq!(rows(&mut *session, batch), "", "{batch}");
    }
    session
}

fn kept(session: &mut dyn Session) -> String {
    let sql = "SELECT (SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM log), @@TRANCOUNT";
    rows(session, sql)
}

#[test]
fn what_fails_keeps_nothing() {
    for (procedure, error) in [
        ("twice", "! 2627/14/1"),
        ("bad", "! 245/16/1"),
        ("thrown", "! 50001/16/1"),
        ("missing", "! 208/16/1"),
        ("back", "! 3915/16/0"),
        ("ends", "! 3916/16/0"),
    ] {
        let server = Server::new();
        let mut session = made(&server);
        let found = run(&mut *session, &format!("INSERT t EXEC {procedure}"));
        assert!(found.iter().any(|line| line.starts_with(error)), "{procedure}: {found:?}");
        // no transaction was begun
        assert!(!found.iter().any(|line| line.starts_with('~')), "{procedure}: {found:?}");
        assert_eq!(kept(&mut *session), "0 | 0 | 0", "{procedure}");
        // and the session continues
        rows(&mut *session, "INSERT t EXEC good");
        assert_eq!(kept(&mut *session), "2 | 1 | 0", "{procedure}");
        assert_eq!(rows(&mut *session, "SELECT n FROM log"), "1");
    }
}

#[test]
fn an_error_that_ends_its_statement_only_undoes_no_more() {
    let server = Server::new();
    let mut session = made(&server);
    let found = rows(&mut *session, "INSERT t EXEC goes_on");
    assert!(found.starts_with("! 515/16/2") && found.lines().count() == 1, "{found}");
    assert_eq!(kept(&mut *session), "1 | 1 | 0");
    assert!(rows(&mut *session, "INSERT t EXEC raised").starts_with("! 50000/16/1"));
    assert_eq!(kept(&mut *session), "2 | 2 | 0");
    assert_eq!(rows(&mut *session, "INSERT t EXEC inner_tran"), "");
    assert_eq!(kept(&mut *session), "3 | 3 | 0");
    assert_eq!(rows(&mut *session, "SELECT MAX(n) FROM log"), "2");
}

#[test]
fn a_try_around_it_catches_and_nothing_is_kept() {
    let server = Server::new();
    let mut session = made(&server);
    for procedure in ["twice", "bad", "thrown", "missing", "goes_on"] {
        let batch = format!(
            "BEGIN TRY INSERT t EXEC {procedure} END TRY BEGIN CATCH SELECT XACT_STATE(), \
             @@TRANCOUNT END CATCH"
        );
        assert_eq!(rows(&mut *session, &batch), "0 | 0", "{procedure}");
        assert_eq!(kept(&mut *session), "0 | 0 | 0", "{procedure}");
    }
    // an inner CATCH cannot save what cannot be committed
    assert!(rows(&mut *session, "INSERT t EXEC caught").starts_with("! 3930/16/1"));
    assert_eq!(kept(&mut *session), "0 | 0 | 0");
}

#[test]
fn a_transaction_around_it_keeps_what_was_before() {
    for (before, kept_before) in [("", 0), ("INSERT log VALUES (0);", 1)] {
        for procedure in ["twice", "goes_on"] {
            let server = Server::new();
            let mut session = made(&server);
            let batch = format!("BEGIN TRAN; {before} INSERT t EXEC {procedure}");
            assert!(rows(&mut *session, &batch).contains("! "), "{procedure}");
            let (t, log) = if procedure == "twice" { (0, 0) } else { (1, 1) };
            let expected = format!("{t} | {} | 1", log + kept_before);
            assert_eq!(kept(&mut *session), expected, "{procedure}");
            assert_eq!(rows(&mut *session, "COMMIT"), "~ commit", "{procedure}");
            let expected = format!("{t} | {} | 0", log + kept_before);
            assert_eq!(kept(&mut *session), expected, "{procedure}");
        }
        let server = Server::new();
        let mut session = made(&server);
        let found = rows(&mut *session, &format!("BEGIN TRAN; {before} INSERT t EXEC bad"));
        assert!(found.contains("! 245/16/1") && found.ends_with("~ rollback"), "{found}");
        assert_eq!(kept(&mut *session), "0 | 0 | 0");
    }
}

#[test]
fn a_transaction_that_the_procedure_leaves_open_stays() {
    let server = Server::new();
    let mut session = made(&server);
    rows(&mut *session, "CREATE PROCEDURE opens AS BEGIN TRAN; INSERT log VALUES (1); SELECT 1");
    assert_eq!(rows(&mut *session, "INSERT t EXEC opens"), "~ begin");
    assert_eq!(kept(&mut *session), "1 | 1 | 1");
    assert_eq!(rows(&mut *session, "ROLLBACK"), "~ rollback");
    assert_eq!(kept(&mut *session), "0 | 0 | 0");
}

#[test]
fn headers_of_a_backup_go_into_a_table() {
    let server = Server::new();
    let mut session = made(&server);
    let batch = "CREATE TABLE #h (p smallint); \
        INSERT #h EXEC ('RESTORE HEADERONLY FROM DISK = ''x'''); SELECT p FROM #h";
    assert_eq!(rows(&mut *session, batch), "1");
}
