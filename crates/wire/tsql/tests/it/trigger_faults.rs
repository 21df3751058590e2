//! A statement and its triggers stand or fall together.

use std::sync::atomic::Ordering;

use tdekit_wire_tds::Session;

use crate::common::{Log, Server, rows, run};
use crate::constraints::{bad, good, healthy};
use crate::triggers::quiet;

/// A table whose trigger fails as the first letter of `how` says, after it has written into `log`.
const FAILS: &[&str] = &[
    "CREATE TABLE t (i int IDENTITY PRIMARY KEY, how varchar(20), n int NULL UNIQUE)",
    "CREATE TABLE log (i int IDENTITY, what varchar(90) NOT NULL)",
    "CREATE PROCEDURE deep AS INSERT log VALUES ('deep'); INSERT log VALUES (NULL)",
    "CREATE TRIGGER g ON t AFTER INSERT, UPDATE, DELETE AS SET NOCOUNT ON;
     DECLARE @how char(1) = (SELECT MIN(how) FROM (SELECT how FROM inserted UNION ALL SELECT how
       FROM deleted) AS x);
     INSERT log VALUES (CONCAT('fired ', @how, @@TRANCOUNT));
     IF @how = 'n' INSERT log VALUES (NULL)
     ELSE IF @how = 't' THROW 50001, 'thrown', 1
     ELSE IF @how = 'r' BEGIN RAISERROR('raised', 16, 1); INSERT log VALUES ('went on') END
     ELSE IF @how = 'b' BEGIN ROLLBACK; INSERT log SELECT CONCAT('after ', how, @@TRANCOUNT) FROM
       inserted END
     ELSE IF @how = 'c' COMMIT
     ELSE IF @how = 'k' BEGIN BEGIN TRY INSERT log VALUES (NULL) END TRY BEGIN CATCH
       IF XACT_STATE() = -1 PRINT 'doomed' END CATCH END
     ELSE IF @how = 'p' EXEC deep
     ELSE IF @how = 'd' EXEC ('SELECT CAST(''x'' AS int)')
     ELSE IF @how = 'o' BEGIN SET XACT_ABORT OFF; INSERT log VALUES (NULL); INSERT log VALUES ('on')
       END
     ELSE IF @how = 'm' SELECT * FROM missing
     ELSE IF @how = 's' BEGIN ROLLBACK TRAN s; INSERT log VALUES ('saved') END
     ELSE IF @how = 'l' BEGIN TRAN
     ELSE IF @how = 'a' BEGIN ROLLBACK; BEGIN TRAN; INSERT log VALUES ('anew') END
     ELSE IF @how = 'w' INSERT t VALUES ('x', 1)
     ELSE IF @how = 'h' BEGIN BEGIN TRY THROW 50002, 'own', 1 END TRY BEGIN CATCH PRINT 'mine' END
       CATCH END
     ELSE IF @how = 'q' BEGIN BEGIN TRY RAISERROR('own', 16, 1) END TRY BEGIN CATCH INSERT log \
     VALUES
       (CONCAT('mine ', XACT_STATE())) END CATCH END",
    "INSERT t VALUES ('x', 1)",
    "TRUNCATE TABLE log",
];

fn made(server: &Server) -> Box<dyn Session> {
    let mut session = server.session();
    quiet(&mut *session, FAILS);
    session
}

/// Numbers of errors, and all rows.
fn heard(session: &mut dyn Session, batch: &str) -> String {
    let found = rows(session, batch);
    let short = |line: &str| match line.strip_prefix("! ") {
        Some(error) => format!("!{}", error.split('/').next().unwrap_or_default()),
        None => line.to_owned(),
    };
    let kept = found.lines().filter(|line| !line.starts_with('~') && !line.starts_with("status"));
    kept.map(short).collect::<Vec<_>>().join(" ")
}

/// The rows of both tables, and the transactions.
fn left(session: &mut dyn Session) -> String {
    let found = rows(
        session,
        "SELECT CONCAT((SELECT STRING_AGG(how, ',') FROM t), ' | ', (SELECT STRING_AGG(what, ',') \
         FROM log), ' | ', @@TRANCOUNT, XACT_STATE())",
    );
    found.trim_matches('\'').to_owned()
}

#[test]
fn outside_of_a_transaction() {
    for (how, heard_is, left_is) in [
        ("n", "!515", "x |  | 00"),
        ("t", "!50001", "x |  | 00"),
        ("r", "!50000 'next'", "x,r,y | fired r1,went on | 00"),
        ("b", "!3609", "x | after b0,after y0 | 00"),
        ("c", "!3609", "x,c,y | fired c1 | 00"),
        ("k", "!0 !3616", "x |  | 00"),
        ("p", "!515", "x |  | 00"),
        ("d", "!245", "x |  | 00"),
        ("o", "!515 'next'", "x,o,y | fired o1,on | 00"),
        ("m", "!208", "x |  | 00"),
        ("s", "!6401", "x |  | 00"),
        ("l", "!40512", "x |  | 00"),
        ("a", "!3609", "x |  | 00"),
        ("w", "!2627", "x |  | 00"),
        ("h", "!0 !3616", "x |  | 00"),
        ("q", "!3930", "x |  | 00"),
    ] {
        let server = Server::new();
        let mut session = made(&server);
        let batch = format!("INSERT t VALUES ('{how}', 10), ('y', 11); SELECT 'next'");
        assert_eq!(heard(&mut *session, &batch), heard_is, "{how}");
        assert_eq!(left(&mut *session), left_is, "{how}");
        // the session goes on
        assert_eq!(heard(&mut *session, "INSERT t VALUES ('z', 20); SELECT 1"), "1", "{how}");
        healthy(&server);
    }
}

#[test]
fn within_a_transaction() {
    for (how, heard_is, left_is) in [
        ("n", "!515", "x |  | 00"),
        ("t", "!50001", "x |  | 00"),
        ("r", "!50000 'next'", "x,before,r | first,fired b1,fired r1,went on | 11"),
        ("b", "!3609", "x | after b0 | 00"),
        ("c", "!3609", "x,before,c | first,fired b1,fired c1 | 00"),
        ("k", "!0 !3616", "x |  | 00"),
        ("p", "!515", "x |  | 00"),
        ("m", "!208", "x |  | 00"),
        // the statement is undone as well, and what follows goes on
        ("s", "'next'", "x,before | first,fired b1,saved | 11"),
        ("l", "'next'", "x,before,l | first,fired b1,fired l1 | 21"),
        ("a", "!3609", "x |  | 00"),
    ] {
        let server = Server::new();
        let mut session = made(&server);
        let begin = "ALTER TABLE t DISABLE TRIGGER g; BEGIN TRAN; INSERT log VALUES ('first'); \
            INSERT t VALUES ('before', 5); ALTER TABLE t ENABLE TRIGGER g; \
            INSERT log VALUES ('fired b1'); SAVE TRAN s";
        assert_eq!(heard(&mut *session, begin), "", "{how}");
        let batch = format!("INSERT t VALUES ('{how}', 10); SELECT 'next'");
        assert_eq!(heard(&mut *session, &batch), heard_is, "{how}");
        assert_eq!(left(&mut *session), left_is, "{how}");
        heard(&mut *session, "WHILE @@TRANCOUNT > 0 ROLLBACK; ENABLE TRIGGER g ON t");
        assert_eq!(heard(&mut *session, "INSERT t VALUES ('z', 20); SELECT 1"), "1", "{how}");
        healthy(&server);
    }
}

#[test]
fn under_try() {
    let caught = "SELECT CONCAT(ERROR_NUMBER(), ' ', ISNULL(ERROR_PROCEDURE(), '-'), ' ', \
        @@TRANCOUNT, ' ', XACT_STATE())";
    for (how, alone, within) in [
        ("n", "'515 g 0 0'", "'515 g 1 -1'"),
        ("t", "'50001 g 0 0'", "'50001 g 1 -1'"),
        ("r", "'50000 g 0 0'", "'50000 g 1 -1'"),
        ("b", "'3609 - 0 0'", "'3609 - 0 0'"),
        ("k", "!0 '3616 - 0 0'", "!0 '3616 - 1 -1'"),
        ("p", "'515 deep 0 0'", "'515 deep 1 -1'"),
        ("m", "'208 g 0 0'", "'208 g 1 -1'"),
        ("w", "'2627 g 0 0'", "'2627 g 1 -1'"),
    ] {
        let server = Server::new();
        let mut session = made(&server);
        let change = format!("BEGIN TRY INSERT t VALUES ('{how}', 10); SELECT 'not here' END TRY");
        let batch = format!("{change} BEGIN CATCH {caught} END CATCH");
        assert_eq!(heard(&mut *session, &batch), alone, "{how}");
        let kept = if how == "b" { "x | after b0 | 00" } else { "x |  | 00" };
        assert_eq!(left(&mut *session), kept, "{how}");
        rows(&mut *session, "TRUNCATE TABLE log");
        let batch = format!(
            "BEGIN TRAN; INSERT log VALUES ('first'); {change} BEGIN CATCH {caught}; \
             IF XACT_STATE() = -1 BEGIN BEGIN TRY INSERT log VALUES ('no') END TRY BEGIN CATCH \
             IF ERROR_NUMBER() <> 3930 SELECT ERROR_NUMBER() END CATCH; ROLLBACK END END CATCH"
        );
        assert_eq!(heard(&mut *session, &batch), within, "{how}");
        assert_eq!(left(&mut *session), kept, "{how}");
        assert_eq!(heard(&mut *session, "INSERT t VALUES ('z', 20); SELECT 1"), "1", "{how}");
        healthy(&server);
    }
}

/// Every way to change rows, with a trigger that fails.
#[test]
fn each_kind_of_change_is_undone() {
    for change in [
        "INSERT t (how) VALUES ('n')",
        "INSERT t (how, n) SELECT 'n', 7",
        "INSERT t (how) EXEC ('SELECT ''n''')",
        "UPDATE t SET how = 'n'",
        "UPDATE x SET how = 'n' FROM t AS x JOIN t AS y ON y.i = x.i",
        "DECLARE @a int; UPDATE t SET how = 'n', @a = i",
        "DECLARE @o table (i int); UPDATE t SET how = 'n' OUTPUT inserted.i INTO @o",
        "UPDATE t SET how = 'n' WHERE 1 = 1; DELETE t",
        "MERGE t USING (VALUES (1)) AS s (n) ON s.n = t.n WHEN MATCHED THEN UPDATE SET how = 'n';",
        "MERGE t USING (VALUES (1), (2)) AS s (n) ON s.n = t.n WHEN MATCHED THEN DELETE WHEN NOT \
         MATCHED THEN INSERT (how) VALUES ('n');",
        "EXEC sp_executesql N'INSERT t (how) VALUES (@h)', N'@h varchar(5)', 'n'",
        "EXEC put",
        "INSERT u VALUES ('n')",
        "INSERT v VALUES ('n')",
        "INSERT t (how, n) VALUES ('n', NEXT VALUE FOR q)",
    ] {
        let server = Server::new();
        let mut session = made(&server);
        quiet(
            &mut *session,
            &[
                "CREATE SEQUENCE q START WITH 50",
                "CREATE PROCEDURE put AS INSERT log VALUES ('put'); INSERT t (how) VALUES ('n'); \
                 INSERT log VALUES ('not reached')",
                "CREATE TABLE u (how varchar(9))",
                "CREATE TRIGGER on_u ON u AFTER INSERT AS INSERT t (how) SELECT how FROM inserted",
                "CREATE VIEW v AS SELECT how FROM t",
                "CREATE TRIGGER on_v ON v INSTEAD OF INSERT AS INSERT log VALUES ('v'); INSERT t \
                 (how) \
                 SELECT how FROM inserted",
            ],
        );
        let found = heard(&mut *session, &format!("{change}; SELECT 'next'"));
        assert_eq!(found, "!515", "{change}");
        // the batch's own earlier statement is kept
        let kept = if change == "EXEC put" { "x | put | 00" } else { "x |  | 00" };
        assert_eq!(left(&mut *session), kept, "{change}");
        assert_eq!(rows(&mut *session, "SELECT COUNT(*) FROM u"), "0");
        let within = format!("BEGIN TRAN; INSERT log VALUES ('first'); {change}; SELECT 'next'");
        assert_eq!(heard(&mut *session, &within), "!515", "{change}");
        assert_eq!(left(&mut *session), kept, "{change}");
        assert_eq!(
            heard(
                &mut *session,
                "TRUNCATE TABLE log; DISABLE TRIGGER g ON t; DELETE t; INSERT t \
                VALUES ('x', 1); ENABLE TRIGGER g ON t"
            ),
            ""
        );
        // an INSERT whose own rows are refused fires nothing
        assert_eq!(heard(&mut *session, "INSERT t VALUES ('y', 30), ('y', 30)"), "!2627");
        assert_eq!(left(&mut *session), "x |  | 00", "{change}");
        healthy(&server);
    }
}

#[test]
fn a_later_trigger_and_a_cascade_undo_what_came_before() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE p (i int PRIMARY KEY); CREATE TABLE c (i int PRIMARY KEY, p int \
             REFERENCES \
             p (i) ON DELETE CASCADE); CREATE TABLE log (what varchar(20))",
            "INSERT p VALUES (1), (2); INSERT c VALUES (10, 1), (11, 1)",
            "CREATE TRIGGER of_c ON c AFTER DELETE AS INSERT log SELECT CONCAT('c', i) FROM \
             deleted",
            "CREATE TRIGGER of_p ON p AFTER DELETE AS INSERT log SELECT CONCAT('p', i) FROM \
             deleted",
            "CREATE TRIGGER last ON p AFTER DELETE AS IF EXISTS (SELECT * FROM deleted WHERE i = \
             1) \
             THROW 50001, 'no', 1",
        ],
    );
    assert_eq!(heard(&mut *session, "DELETE p; SELECT 1"), "!50001");
    let counts = "SELECT (SELECT COUNT(*) FROM p), (SELECT COUNT(*) FROM c), (SELECT COUNT(*) FROM \
        log)";
    assert_eq!(rows(&mut *session, counts), "2 | 2 | 0");
    good(&mut *session, &[("DELETE p WHERE i = 2", ""), ("SELECT what FROM log", "'p2'")]);
    assert_eq!(heard(&mut *session, "BEGIN TRAN; DELETE p WHERE i = 1"), "!50001");
    assert_eq!(rows(&mut *session, counts), "1 | 2 | 1");
    healthy(&server);
}

#[test]
fn a_cancel_in_a_trigger_undoes_the_statement() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (i int); CREATE TABLE log (i int)",
            "CREATE TRIGGER g ON t AFTER INSERT AS INSERT log VALUES (1); SELECT 1; WHILE 1 = 1 \
             INSERT log VALUES (2)",
        ],
    );
    for within in ["", "BEGIN TRAN; INSERT log VALUES (0); "] {
        let mut log = Cancels(Log::default());
        session.batch(&format!("{within}INSERT t VALUES (1)"), &mut log);
        assert!(log.0.cancel.load(Ordering::Acquire));
        let mut other = server.session();
        let left = "SELECT (SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM log), @@TRANCOUNT";
        assert_eq!(rows(&mut *other, left), "0 | 0 | 0", "{within}");
        assert_eq!(rows(&mut *session, left), "0 | 0 | 0", "{within}");
        // the lock is free
        assert_eq!(rows(&mut *other, "INSERT log VALUES (9); DELETE log"), "");
    }
    healthy(&server);
}

/// Cancels at the first row; hears nothing once it is cancelled.
pub(crate) struct Cancels(pub(crate) Log);

impl tdekit_wire_tds::Sink for Cancels {
    fn columns(&mut self, columns: &[tdekit_wire_tds::Column]) -> tdekit_wire_tds::Flow {
        self.0.columns(columns)
    }
    fn row(&mut self, values: &[tdekit_wire_tds::Value<'_>]) -> tdekit_wire_tds::Flow {
        self.0.cancel.store(true, Ordering::Release);
        self.0.row(values)
    }
    fn done(
        &mut self,
        kind: tdekit_wire_tds::DoneKind,
        command: tdekit_wire_tds::Command,
        rows: Option<u64>,
    ) -> tdekit_wire_tds::Flow {
        match self.0.cancelled() {
            true => tdekit_wire_tds::Flow::Stop,
            false => self.0.done(kind, command, rows),
        }
    }
    fn message(&mut self, message: &tdekit_wire_tds::Message) -> tdekit_wire_tds::Flow {
        match self.0.cancelled() {
            true => tdekit_wire_tds::Flow::Stop,
            false => self.0.message(message),
        }
    }
    fn return_status(&mut self, status: i32) {
        self.0.return_status(status);
    }
    fn return_value(
        &mut self,
        ordinal: u16,
        name: &str,
        ty: tdekit_wire_tds::SqlType,
        value: &tdekit_wire_tds::Value<'_>,
    ) {
        self.0.return_value(ordinal, name, ty, value);
    }
    fn env_change(&mut self, change: tdekit_wire_tds::EnvChange<'_>) {
        self.0.env_change(change);
    }
    fn flush(&mut self) {}
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
    fn cancel_flag(&self) -> std::sync::Arc<std::sync::atomic::AtomicBool> {
        self.0.cancel_flag()
    }
    fn waiting(&self, wait: &mut dyn FnMut()) -> bool {
        self.0.waiting(wait)
    }
}

#[test]
fn other_sessions_notice_triggers_at_once() {
    let server = Server::new();
    for name in ["app", "other"] {
        let path = server.directory.path().join(format!("{name}.db"));
        let database = rusqlite::Connection::open(path).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
    }
    let (mut one, mut two) = (server.session(), server.session());
    quiet(&mut *one, &["CREATE TABLE t (a int); CREATE TABLE log (a int)"]);
    // each text is compiled once in this session
    let put = "INSERT t VALUES (1)";
    let mut fired = |wanted: i64, when: &str| {
        assert_eq!(rows(&mut *two, put), "", "{when}");
        let found = rows(&mut *two, "SELECT COUNT(*) FROM log; DELETE log");
        assert_eq!(found, wanted.to_string(), "{when}");
    };
    fired(0, "before");
    quiet(&mut *one, &["CREATE TRIGGER g ON t AFTER INSERT AS INSERT log SELECT a FROM inserted"]);
    fired(1, "created");
    quiet(&mut *one, &["ALTER TRIGGER g ON t AFTER INSERT AS INSERT log VALUES (1), (2)"]);
    fired(2, "altered");
    quiet(&mut *one, &["DISABLE TRIGGER g ON t"]);
    fired(0, "disabled");
    quiet(&mut *one, &["ALTER TABLE t ENABLE TRIGGER ALL"]);
    fired(2, "enabled");
    quiet(&mut *one, &["DROP TRIGGER g"]);
    fired(0, "dropped");
    // not before it is committed, and then at once, although the other one has bound it meanwhile
    run(&mut *one, "BEGIN TRAN");
    quiet(&mut *one, &["CREATE TRIGGER g ON t AFTER INSERT AS INSERT log SELECT a FROM inserted"]);
    let read = "SET LOCK_TIMEOUT 0; INSERT t VALUES (1)";
    assert!(rows(&mut *server.session(), read).starts_with("! 1222"));
    let mut third = server.session();
    assert!(rows(&mut *third, read).starts_with("! 1222"));
    run(&mut *one, "COMMIT");
    assert_eq!(rows(&mut *third, read), "");
    assert_eq!(rows(&mut *third, "SELECT COUNT(*) FROM log; DELETE log"), "1");
    fired(1, "committed");
    run(&mut *one, "BEGIN TRAN; DROP TRIGGER g; INSERT t VALUES (1); ROLLBACK");
    assert_eq!(rows(&mut *one, "INSERT t VALUES (1); SELECT COUNT(*) FROM log; DELETE log"), "1");
    fired(1, "rolled back");
    // a file that another program changed
    let file = rusqlite::Connection::open(server.directory.path().join("app.db")).unwrap();
    file.execute_batch("UPDATE tsql_trigger SET disabled = 1; CREATE TABLE extra (a)").unwrap();
    fired(0, "by another program");
    bad(&mut *one, &[("DROP TRIGGER nix", "3701/11/5")]);
    healthy(&server);
}
