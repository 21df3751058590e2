//! Labels and GOTO.

use std::sync::atomic::Ordering;

use crate::common::{Log, Server, check, rows};
use crate::permissions::heard;

#[test]
fn goto_leads_forwards_backwards_and_out_of_blocks_and_loops() {
    check(&[
        ("GOTO x; PRINT 'a'; x: PRINT 'b'", "! 0/0/1 line 1: b"),
        ("GOTO [x y]; SELECT 1; [X Y]: SELECT 2", "2"),
        ("x: SELECT 1", "1"),
        ("GOTO x; SELECT 1; x:", ""),
        ("DECLARE @i int = 0; again: SET @i += 1; IF @i < 5 GOTO again; SELECT @i", "5"),
        (
            "DECLARE @i int = 0; WHILE 1 = 1 BEGIN SET @i += 1; BEGIN IF @i = 7 GOTO done END END \
             SELECT 'no'; done: SELECT @i",
            "7",
        ),
        // of the outer of two loops
        (
            "DECLARE @i int = 0, @n int = 0; WHILE @i < 3 BEGIN SET @i += 1; WHILE 1 = 1 BEGIN SET \
             @n += 1; IF @n % 2 = 0 GOTO next END; next: END SELECT @i, @n",
            "3 | 6",
        ),
        ("IF 1 = 1 GOTO a ELSE GOTO b; a: SELECT 'a'; b: SELECT 'b'", "'a'\n'b'"),
        // into a branch and into a loop, whose condition is not tested first
        ("GOTO x; IF 1 = 2 BEGIN SELECT 1; x: SELECT 2 END ELSE SELECT 3; SELECT 4", "2\n4"),
        ("GOTO x; IF 1 = 1 SELECT 1 ELSE BEGIN SELECT 2; x: SELECT 3 END", "3"),
        (
            "DECLARE @i int = 9; GOTO x; WHILE @i < 9 BEGIN SELECT 'w'; x: SET @i -= 1; IF @i < 5 \
             BREAK END SELECT @i",
            "'w'\n'w'\n'w'\n'w'\n4",
        ),
        // an error at the statement behind a label does not end the batch
        (
            "GOTO x; x: SELECT 1 / 0; SELECT 2",
            "! 8134/16/1 line 1: Divide by zero error encountered.\n2",
        ),
    ]);
}

#[test]
fn goto_leaves_try_and_catch_and_leads_into_neither() {
    check(&[
        (
            "BEGIN TRY GOTO x; SELECT 1 END TRY BEGIN CATCH SELECT 2 END CATCH x: SELECT 3; \
             SELECT 1 / 0",
            "3\n! 8134/16/1 line 1: Divide by zero error encountered.",
        ),
        (
            "again: BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH GOTO x END CATCH SELECT 'no'; x: \
             SELECT ISNULL(ERROR_NUMBER(), 0)",
            "0",
        ),
        (
            "DECLARE @i int = 0; BEGIN TRY a: SET @i += 1; IF @i < 3 GOTO a; SELECT @i; THROW \
             50001, 'x', 1 END TRY BEGIN CATCH b: SET @i += 10; IF @i < 30 GOTO b; SELECT @i END \
             CATCH",
            "3\n33",
        ),
        ("GOTO x; BEGIN TRY x: SELECT 1 END TRY BEGIN CATCH END CATCH", "! 1026/15/1"),
        ("GOTO x; BEGIN TRY SELECT 1 END TRY BEGIN CATCH x: SELECT 1 END CATCH", "! 1026/15/1"),
        ("BEGIN TRY GOTO x END TRY BEGIN CATCH x: SELECT 1 END CATCH", "! 1026/15/1"),
        (
            "BEGIN TRY GOTO x END TRY BEGIN CATCH END CATCH BEGIN TRY x: END TRY BEGIN CATCH END \
             CATCH",
            "! 1026/15/1",
        ),
    ]);
}

#[test]
fn labels_are_unique_and_known_in_their_text() {
    check(&[
        (
            "SELECT 1; GOTO nowhere",
            "! 133/15/1 line 1: A GOTO statement references the label \
          'nowhere' but the label has not been declared.",
        ),
        ("x: SELECT 1; BEGIN X: SELECT 2 END", "! 132/15/1 line 1: The label 'X' has already been"),
        ("x: EXEC ('GOTO x')", "! 133/15/1"),
        ("x: EXEC ('GOTO x; x: SELECT 1')", "1"),
        ("CREATE FUNCTION f () RETURNS int AS BEGIN GOTO x; x: RETURN 1 END", ""),
    ]);
    let server = Server::new();
    let mut session = server.session();
    rows(
        &mut *session,
        "CREATE PROCEDURE p @n int AS IF @n = 1 GOTO one; RETURN 0; one: RETURN 11",
    );
    let text = "x: DECLARE @r int; EXEC @r = p 1; SELECT @r; EXEC @r = p 2; SELECT @r";
    assert_eq!(heard(&mut *session, text), "11\n0");
}

#[test]
fn a_loop_of_goto_alone_ends_when_the_client_cancels() {
    let server = Server::new();
    let mut session = server.session();
    let mut log = Log::default();
    let cancel = log.cancel.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        cancel.store(true, Ordering::Release);
    });
    session.batch("x: GOTO x", &mut log);
    stopper.join().unwrap();
    assert_eq!(log.lines, [] as [String; 0]);
}

/// The name of a label does not belong to the statement before it.
#[test]
fn a_label_follows_statements_that_may_end_in_a_name() {
    let server = Server::new();
    let mut s = server.session();
    let made = "CREATE TABLE t (i int); INSERT t VALUES (1)";
    assert_eq!(rows(&mut *s, made), "");
    assert_eq!(rows(&mut *s, "CREATE PROCEDURE p @a int = 7 AS RETURN 0"), "");
    for before in [
        "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION",
        "IF @@TRANCOUNT > 0 COMMIT TRAN",
        "BEGIN TRANSACTION",
        "COMMIT TRANSACTION",
        "EXEC p",
        "DECLARE @x int = 1; EXEC p @x",
        "IF 1 = 0 SELECT 1",
        "IF 1 = 0 SELECT GETDATE()",
        "IF 1 = 0 SELECT TOP 1 i FROM t",
        "IF 1 = 0 SELECT i FROM t WHERE i = 1 ORDER BY i",
        "IF 1 = 0 SELECT * INTO #x FROM t",
        "INSERT t SELECT 1",
        "UPDATE t SET i = 2 FROM t",
        "DELETE t",
        "DECLARE c CURSOR FOR SELECT i FROM t",
        "SET NOCOUNT ON",
    ] {
        for label in ["EndSave", "[end save]"] {
            let text = format!("{before}\n{label}:\nPRINT 'x'");
            let found = rows(&mut *s, &text);
            assert!(!found.contains("102/"), "{text}: {found}");
        }
        rows(&mut *s, "DEALLOCATE c");
    }
    let script = "BEGIN TRANSACTION
        IF (@@ERROR <> 0) GOTO QuitWithRollback
        COMMIT TRANSACTION
        GOTO EndSave
        QuitWithRollback:
            IF (@@TRANCOUNT > 0) ROLLBACK TRANSACTION
        EndSave:
        SELECT @@TRANCOUNT";
    assert_eq!(rows(&mut *s, "IF @@TRANCOUNT > 0 ROLLBACK"), "");
    assert!(rows(&mut *s, script).ends_with("\n0"));
}
