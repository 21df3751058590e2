//! Triggers: what they see and do.

use tdekit_wire_tds::{Column, Generated, Session, SqlType, Value};

use crate::common::{Server, rows, run};
use crate::constraints::{bad, good, healthy};

/// Runs batches without results.
pub(crate) fn quiet(session: &mut dyn Session, batches: &[&str]) {
    for batch in batches {
        assert_eq!(rows(session, batch), "", "{batch}");
    }
}

/// A table whose triggers write what they see into `log`.
pub(crate) const LOGGED: &[&str] = &[
    "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a int NULL, n nvarchar(20) NULL, d decimal(9,2) \
     NULL DEFAULT 1.5, twice AS a * 2, v rowversion)",
    "CREATE TABLE log (i int IDENTITY(1000,1) PRIMARY KEY, what varchar(200))",
    "CREATE TRIGGER seen ON t AFTER INSERT, UPDATE, DELETE AS
     DECLARE @rows int = @@ROWCOUNT;
     SET NOCOUNT ON;
     INSERT log (what) SELECT CONCAT('rows ', @rows, ', in ', (SELECT COUNT(*) FROM inserted),
       ', out ', (SELECT COUNT(*) FROM deleted));
     INSERT log (what) SELECT CONCAT('+', id, ' ', a, ' ', n, ' ', d, ' ', twice) FROM inserted
       ORDER BY id;
     INSERT log (what) SELECT CONCAT('-', id, ' ', a, ' ', n, ' ', d, ' ', twice) FROM deleted
       ORDER BY id",
];

/// The log since the last call.
pub(crate) fn log(session: &mut dyn Session) -> String {
    let found = rows(session, "SELECT what FROM log ORDER BY i; DELETE log");
    found.replace('\'', "").replace('\n', "; ")
}

#[test]
fn a_trigger_sees_the_rows_before_and_after_each_statement() {
    let server = Server::new();
    let mut session = server.session();
    quiet(&mut *session, LOGGED);
    for (batch, seen) in [
        (
            "INSERT t (a, n) VALUES (1, N'ä'), (2, NULL)",
            "rows 2, in 2, out 0; +1 1 ä 1.50 2; +2 2  1.50 4",
        ),
        ("INSERT t (a) SELECT a FROM t WHERE a > 100", "rows 0, in 0, out 0"),
        ("INSERT t DEFAULT VALUES", "rows 1, in 1, out 0; +3   1.50 "),
        (
            "UPDATE t SET a = a * 10, d = 0.25 WHERE a IS NOT NULL",
            "rows 2, in 2, out 2; +1 10 ä 0.25 20; +2 20  0.25 40; -1 1 ä 1.50 2; -2 2  1.50 4",
        ),
        ("UPDATE t SET a = 1 WHERE id = 77", "rows 0, in 0, out 0"),
        (
            "UPDATE x SET n = y.n FROM t AS x JOIN (VALUES (1, 'b'), (9, 'c')) AS y (i, n) ON y.i \
             = x.id",
            "rows 1, in 1, out 1; +1 10 b 0.25 20; -1 10 ä 0.25 20",
        ),
        (
            "DECLARE @n int = 5; UPDATE t SET @n = a = @n + 1 WHERE id < 3",
            "rows 2, in 2, out 2; +1 6 b 0.25 12; +2 7  0.25 14; -1 10 b 0.25 20; -2 20  0.25 40",
        ),
        ("DELETE TOP (1) FROM t WHERE id > 2", "rows 1, in 0, out 1; -3   1.50 "),
        (
            "DECLARE @o table (i int); DELETE t OUTPUT deleted.id INTO @o WHERE id = 2",
            "rows 1, in 0, out 1; -2 7  0.25 14",
        ),
        ("DELETE t WHERE 1 = 0", "rows 0, in 0, out 0"),
        (
            "INSERT t (a) EXEC ('SELECT 8 UNION ALL SELECT 9')",
            "rows 2, in 2, out 0; +4 8  1.50 16; +5 9  1.50 18",
        ),
        (
            "MERGE t USING (VALUES (8), (7)) AS s (a) ON s.a = t.a WHEN MATCHED THEN UPDATE SET n \
             = 'm' WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a) WHEN NOT MATCHED BY SOURCE THEN \
             DELETE;",
            "rows 4, in 1, out 0; +6 7  1.50 14; rows 4, in 1, out 1; +4 8 m 1.50 16; -4 8  1.50 \
             16; rows 4, in 0, out 2; -1 6 b 0.25 12; -5 9  1.50 18",
        ),
        ("TRUNCATE TABLE t", ""),
    ] {
        let found = rows(&mut *session, batch);
        assert!(!found.contains('!'), "{batch}: {found}");
        assert_eq!(log(&mut *session), seen, "{batch}");
    }
    healthy(&server);
}

#[test]
fn values_of_every_type_are_those_of_the_table() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE w (a bit, b tinyint, c bigint, d real, e float, f decimal(38,10), g money,
             h char(4), i varchar(max), j nvarchar(10), k varbinary(max), l date, m time(3),
             n datetime2(7), o datetimeoffset(2), p uniqueidentifier, q datetime, r rowversion)",
            "CREATE TABLE c (a bit, b tinyint, c bigint, d real, e float, f decimal(38,10), g money,
             h char(4), i varchar(max), j nvarchar(10), k varbinary(max), l date, m time(3),
             n datetime2(7), o datetimeoffset(2), p uniqueidentifier, q datetime, r binary(8))",
            "CREATE TRIGGER g ON w AFTER INSERT AS INSERT c SELECT * FROM inserted",
            "INSERT w (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q) VALUES (1, 255, \
             9223372036854775807, 1.5, 2.5, 1234567890123456789012345678.0123456789, 1.2345, 'ab', \
             REPLICATE('x', 9000), N'ß', 0x00FF, '2024-02-29', '01:02:03.456', \
             '2024-02-29T01:02:03.1234567', '2024-02-29T01:02:03.12+02:00', \
             '6F9619FF-8B86-D011-B42D-00C04FC964FF', '2024-02-29T01:02:03.003')",
            "INSERT w (a) VALUES (NULL)",
        ],
    );
    let (table, copy) =
        (rows(&mut *session, "SELECT * FROM w"), rows(&mut *session, "SELECT * FROM c"));
    assert_eq!((table.lines().count(), &table), (2, &copy));
    // text compares as in the table
    quiet(
        &mut *session,
        &[
            "CREATE TABLE x (n int)",
            "CREATE TRIGGER h ON w AFTER DELETE AS INSERT x SELECT COUNT(*) FROM deleted WHERE h = \
             'AB' AND j = N'ß' AND l = '2024-02-29' AND f > 1",
            "DELETE w",
        ],
    );
    assert_eq!(rows(&mut *session, "SELECT n FROM x"), "1");
}

#[test]
fn identity_and_counts_are_those_of_the_statement() {
    let server = Server::new();
    let mut session = server.session();
    quiet(&mut *session, LOGGED);
    good(
        &mut *session,
        &[
            (
                "INSERT t (a) VALUES (1), (2), (3); SELECT @@ROWCOUNT, SCOPE_IDENTITY(), \
                 CASE WHEN @@IDENTITY >= 1000 THEN 'of the log' END",
                "3 | 3 | 'of the log'",
            ),
            ("UPDATE t SET a = 0; SELECT @@ROWCOUNT, @@ERROR, @@TRANCOUNT", "3 | 0 | 0"),
            ("DELETE t WHERE id = 1; SELECT @@ROWCOUNT", "1"),
        ],
    );
    quiet(
        &mut *session,
        &[
            "CREATE TABLE u (a int)",
            "CREATE TRIGGER g ON u FOR INSERT AS SELECT a, @@TRANCOUNT AS n FROM inserted; \
             SET ROWCOUNT 1; SET LOCK_TIMEOUT 5; PRINT 'p'",
        ],
    );
    let found = run(&mut *session, "INSERT u VALUES (1), (2); SELECT @@LOCK_TIMEOUT");
    let shown: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(
        shown,
        [
            "# a:Int | n:Int",
            "1 | 1",
            "2 | 1",
            "(2)",
            "! 0/0/1 line 1: p",
            "(2)",
            "# :Int",
            "-1",
            "(1)"
        ]
    );
}

#[test]
fn update_and_columns_updated_know_the_columns() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (id int IDENTITY, a int, b int, c3 int, c4 int, c5 int, c6 int, c7 \
             int, [c 8] int, c9 int)",
            "CREATE TRIGGER g ON t AFTER INSERT, UPDATE, DELETE AS SET NOCOUNT ON;
             IF UPDATE(a) AND NOT UPDATE(b) SELECT 'a', COLUMNS_UPDATED()
             ELSE IF UPDATE([c 8]) OR UPDATE(c9) SELECT 'end', COLUMNS_UPDATED()
             ELSE SELECT 'other', COLUMNS_UPDATED()",
        ],
    );
    let bytes = |name: &str, low: u8, high: u8| format!("'{name}' | Binary([{low}, {high}])");
    for (batch, name, low, high) in [
        ("INSERT t (b) VALUES (1)", "end", 255, 3),
        ("UPDATE t SET a = a", "a", 2, 0),
        ("UPDATE t SET a = 1, b = 2 WHERE 1 = 0", "other", 6, 0),
        ("UPDATE t SET c9 = 1", "end", 0, 2),
        ("DECLARE @a int; UPDATE t SET @a = a = 4", "a", 2, 0),
        (
            "MERGE t USING (SELECT 1 AS one) AS s ON 1 = 1 WHEN MATCHED THEN UPDATE SET a = 5;",
            "a",
            2,
            0,
        ),
        ("DELETE t", "other", 0, 0),
    ] {
        assert_eq!(rows(&mut *session, batch), bytes(name, low, high), "{batch}");
    }
    quiet(
        &mut *session,
        &[
            "CREATE TABLE u (a int, b int, c int)",
            "CREATE TRIGGER i ON u AFTER UPDATE AS IF (COLUMNS_UPDATED() & 6) > 0 SELECT 'b or \
             c', 4 & \
             COLUMNS_UPDATED() | 0x10",
            "UPDATE u SET a = 1",
        ],
    );
    assert_eq!(rows(&mut *session, "UPDATE u SET a = 1, c = 2"), "'b or c' | 20");
    rows(&mut *session, "CREATE TRIGGER h ON t AFTER INSERT AS IF UPDATE(nix) PRINT 'x'");
    bad(
        &mut *session,
        &[
            ("ALTER TABLE t DISABLE TRIGGER g; INSERT t (a) VALUES (1)", "207/16/1"),
            ("IF UPDATE(a) PRINT 'x'", "140/15/1"),
        ],
    );
    assert_eq!(rows(&mut *session, "SELECT COUNT(*) FROM t"), "0");
}

#[test]
fn triggers_nest_and_do_not_fire_themselves() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int); CREATE TABLE u (a int); CREATE TABLE log (i int IDENTITY, \
             what varchar(90))",
            "CREATE PROCEDURE again AS INSERT t VALUES (100)",
            "CREATE TRIGGER own ON t AFTER INSERT AS
             INSERT log SELECT CONCAT('own ', a, ' ', TRIGGER_NESTLEVEL(), ' ', @@NESTLEVEL, ' ',
               OBJECT_NAME(@@PROCID)) FROM inserted;
             IF EXISTS (SELECT * FROM inserted WHERE a < 10)
             BEGIN INSERT t SELECT a + 10 FROM inserted; INSERT u SELECT a FROM inserted; EXEC again
             END",
            "CREATE TRIGGER away ON u AFTER INSERT AS
             INSERT log SELECT CONCAT('away ', a, ' ', TRIGGER_NESTLEVEL(), ' ',
               TRIGGER_NESTLEVEL(OBJECT_ID('own')), ' ', TRIGGER_NESTLEVEL(@@PROCID, 'AFTER', \
               'DML'))
             FROM inserted; INSERT t SELECT a + 20 FROM inserted",
            "INSERT t VALUES (1)",
        ],
    );
    good(
        &mut *session,
        &[
            (
                "SELECT what FROM log ORDER BY i",
                // the innermost one fires again, since another one stands between
                "'own 1 1 1 own'\n'away 1 2 1 1'\n'own 21 3 3 own'",
            ),
            ("SELECT a FROM t ORDER BY a", "1\n11\n21\n100"),
        ],
    );
    // without an end
    quiet(
        &mut *session,
        &[
            "CREATE TABLE p (a int); CREATE TABLE q (a int)",
            "CREATE TRIGGER ping ON p AFTER INSERT AS INSERT q SELECT a FROM inserted",
            "CREATE TRIGGER pong ON q AFTER INSERT AS INSERT p SELECT a FROM inserted",
        ],
    );
    bad(&mut *session, &[("INSERT p VALUES (1); SELECT 'not reached'", "217/16/1")]);
    assert_eq!(
        rows(
            &mut *session,
            "SELECT (SELECT COUNT(*) FROM p) + (SELECT COUNT(*) FROM q), @@TRANCOUNT"
        ),
        "0 | 0"
    );
}

#[test]
fn several_triggers_fire_in_the_order_in_which_they_were_made() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int); CREATE TABLE log (i int IDENTITY, what varchar(90))",
            "CREATE TRIGGER b ON t AFTER INSERT AS INSERT log VALUES (CONCAT('b', @@ROWCOUNT))",
            "CREATE TRIGGER a ON t AFTER INSERT, DELETE AS INSERT log VALUES (CONCAT('a', \
             @@ROWCOUNT))",
            "CREATE TRIGGER c ON t FOR UPDATE AS INSERT log VALUES (CONCAT('c', @@ROWCOUNT))",
            "INSERT t VALUES (1), (2); UPDATE t SET a = 0; DELETE TOP (1) t",
            "DISABLE TRIGGER b ON t; INSERT t VALUES (3)",
            "ENABLE TRIGGER ALL ON t; DISABLE TRIGGER a, c ON dbo.t; INSERT t VALUES (3)",
        ],
    );
    assert_eq!(
        rows(&mut *session, "SELECT what FROM log ORDER BY i"),
        "'b2'\n'a2'\n'c2'\n'a1'\n'a1'\n'b1'"
    );
}

#[test]
fn cascades_fire_the_triggers_of_other_tables() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE p (i int PRIMARY KEY); CREATE TABLE log (i int IDENTITY, what \
             varchar(90))",
            "CREATE TABLE c (i int PRIMARY KEY, p int REFERENCES p (i) ON DELETE CASCADE ON UPDATE \
             CASCADE)",
            "CREATE TABLE g (i int, c int NULL REFERENCES c (i) ON DELETE SET NULL, b int NULL)",
            "INSERT p VALUES (1), (2); INSERT c VALUES (10, 1), (11, 1), (20, 2); INSERT g VALUES \
             (100, 10, 0), (200, 20, 0)",
            "CREATE TRIGGER of_p ON p AFTER DELETE, UPDATE AS INSERT log SELECT CONCAT('p ', i) \
             FROM \
             deleted",
            "CREATE TRIGGER of_c ON c AFTER DELETE, UPDATE AS INSERT log SELECT CONCAT('c ', \
             d.i, ' \
             ', d.p, ' ', n.p) FROM deleted AS d LEFT JOIN inserted AS n ON n.i = d.i ORDER BY d.i",
            "CREATE TRIGGER of_g ON g AFTER UPDATE AS IF UPDATE(c) AND NOT UPDATE(b) INSERT log \
             SELECT CONCAT('g ', i, ' ', ISNULL(c, 0)) FROM inserted",
            "UPDATE p SET i = 3 WHERE i = 2; DELETE p WHERE i = 1; DELETE p WHERE i = 77",
        ],
    );
    good(
        &mut *session,
        &[
            (
                "SELECT what FROM log ORDER BY i",
                "'c 20 2 3'\n'p 2'\n'g 100 0'\n'c 10 1 '\n'c 11 1 '\n'p 1'",
            ),
            ("SELECT i, ISNULL(c, 0) FROM g ORDER BY i", "100 | 0\n200 | 20"),
        ],
    );
    healthy(&server);
}

#[test]
fn instead_of_gets_the_rows_of_tables_and_views() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a int NOT NULL CHECK (a > 0), n \
             nvarchar(9) NULL DEFAULT N'none', twice AS a * 2, v rowversion)",
            "CREATE TABLE log (i int IDENTITY, what varchar(90))",
            "CREATE TRIGGER after_all ON t AFTER INSERT, UPDATE, DELETE AS INSERT log SELECT \
             CONCAT('after ', (SELECT COUNT(*) FROM inserted), (SELECT COUNT(*) FROM deleted))",
            "CREATE TRIGGER put ON t INSTEAD OF INSERT AS
             INSERT log SELECT CONCAT('put ', id, ' ', a, ' ', n, ' ', twice, ' ', @@TRANCOUNT, ' ',
               TRIGGER_NESTLEVEL(@@PROCID, 'IOT', 'DML')) FROM inserted;
             INSERT t (a, n) SELECT ABS(a), n FROM inserted WHERE a <> 0",
            "CREATE TRIGGER change ON t INSTEAD OF UPDATE, DELETE AS
             INSERT log SELECT CONCAT('old ', id, ' ', a, ' ', twice) FROM deleted ORDER BY id;
             INSERT log SELECT CONCAT('new ', id, ' ', a, ' ', twice) FROM inserted ORDER BY id",
            "INSERT t (a) VALUES (-5), (0); INSERT t (a, n) SELECT NULL, N'x' WHERE 1 = 0",
        ],
    );
    good(
        &mut *session,
        &[
            ("SELECT id, a, n FROM t", "1 | 5 | 'none'"),
            (
                "SELECT what FROM log ORDER BY i; TRUNCATE TABLE log",
                "'put 0 -5 none -10 1 1'\n'put 0 0 none 0 1 1'\n'after 10'\n'after 00'",
            ),
            (
                "UPDATE t SET a += 1; SELECT @@ROWCOUNT; UPDATE x SET a = 9 FROM t AS x JOIN \
                 (VALUES \
                 (1), (1)) AS y (i) ON y.i = x.id; DELETE TOP (1) t; SELECT @@ROWCOUNT",
                "1\n1",
            ),
            ("SELECT id, a, n FROM t", "1 | 5 | 'none'"),
            (
                "SELECT what FROM log ORDER BY i; TRUNCATE TABLE log",
                "'old 1 5 10'\n'new 1 6 12'\n'old 1 5 10'\n'new 1 9 18'\n'old 1 5 10'",
            ),
        ],
    );
    quiet(
        &mut *session,
        &[
            "DROP TRIGGER change; DROP TRIGGER put",
            "CREATE VIEW s AS SELECT id AS k, n AS name, a + 0 AS more FROM t WHERE a < 100",
            "CREATE TRIGGER puts ON s INSTEAD OF INSERT AS INSERT t (a, n) SELECT ISNULL(more, 1), \
             name FROM inserted",
            "CREATE TRIGGER sets ON s INSTEAD OF UPDATE AS UPDATE t SET n = i.name, a = i.more \
             FROM \
             t JOIN inserted AS i ON i.k = t.id JOIN deleted AS d ON d.k = t.id AND d.more <> \
             i.more",
            "CREATE TRIGGER ends ON s INSTEAD OF DELETE AS DELETE t WHERE id IN (SELECT k FROM \
             deleted)",
            "INSERT s (name, more) VALUES (N'v', 7), (N'w', NULL); INSERT s (name) SELECT name \
             FROM \
             s WHERE k = 1",
            "UPDATE s SET more = more + 1 WHERE name = 'V'; DELETE s WHERE k = 1; DELETE s WHERE k \
             = 77",
        ],
    );
    assert_eq!(
        rows(&mut *session, "SELECT id, a, n, twice FROM t ORDER BY id"),
        "2 | 8 | 'v' | 16\n3 | 1 | 'w' | 2\n4 | 1 | 'none' | 2"
    );
    bad(
        &mut *session,
        &[
            ("UPDATE x SET more = 1 FROM s AS x JOIN t ON t.id = x.k", "414/16/1"),
            ("DELETE x FROM s AS x JOIN t ON t.id = x.k", "415/16/1"),
            ("MERGE s USING t ON s.k = t.id WHEN MATCHED THEN DELETE;", "40512/16/1"),
            ("INSERT s (name) OUTPUT inserted.name VALUES ('x')", "334/16/1"),
            ("INSERT s (name) EXEC ('SELECT 1')", "40512/16/1"),
            ("DROP TRIGGER ends; DELETE s", "40512/16/1"),
        ],
    );
    healthy(&server);
}

#[test]
fn a_load_fires_triggers_only_if_it_says_so() {
    let server = Server::new();
    let mut session = server.session();
    quiet(&mut *session, LOGGED);
    let column = Column {
        name: "a".to_owned(),
        ty: SqlType::Int,
        nullable: true,
        generated: Generated::No,
        collation: tdekit_wire_tds::Collation::default(),
    };
    let columns = [column];
    let mut load = |hint: &str, values: &[i64]| {
        let text = format!("INSERT BULK t (a int){hint}");
        assert_eq!(rows(&mut *session, &text), "");
        session.bulk_begin(&text, &columns).unwrap();
        for value in values {
            session.bulk_row(&[Value::Int(*value)]).unwrap();
        }
        let ended = session.bulk_end(true).map_err(|message| message.number);
        let count = rows(&mut *session, "SELECT COUNT(*), @@TRANCOUNT FROM t");
        (ended, log(&mut *session), count)
    };
    assert_eq!(load("", &[1, 2]), (Ok(2), String::new(), "2 | 0".to_owned()));
    let seen = "rows 2, in 2, out 0; +3 3  1.50 6; +4 4  1.50 8".to_owned();
    assert_eq!(load(" WITH (FIRE_TRIGGERS)", &[3, 4]), (Ok(2), seen, "4 | 0".to_owned()));
    let fails = "ALTER TRIGGER seen ON t AFTER INSERT AS INSERT log VALUES ('x'); IF EXISTS \
    (SELECT * \
        FROM inserted WHERE a = 0) THROW 50001, 'no', 1";
    let mut other = server.session();
    assert_eq!(rows(&mut *other, fails), "");
    assert_eq!(
        load(" WITH (FIRE_TRIGGERS)", &[5, 0]),
        (Err(50001), String::new(), "4 | 0".to_owned())
    );
    assert_eq!(load(" WITH (FIRE_TRIGGERS)", &[6]), (Ok(1), "x".to_owned(), "5 | 0".to_owned()));
    healthy(&server);
}

#[test]
fn only_the_trigger_itself_sees_its_tables() {
    let server = Server::new();
    let mut session = server.session();
    quiet(
        &mut *session,
        &[
            "CREATE TABLE t (a int)",
            "CREATE PROCEDURE p AS SELECT * FROM inserted",
            "CREATE TRIGGER g ON t AFTER INSERT AS
             IF EXISTS (SELECT * FROM inserted WHERE a = 1) EXEC p;
             IF EXISTS (SELECT * FROM inserted WHERE a = 2) EXEC ('SELECT * FROM deleted');
             IF EXISTS (SELECT * FROM inserted WHERE a = 3) DELETE inserted;
             IF EXISTS (SELECT * FROM inserted WHERE a = 4) INSERT deleted VALUES (1);
             IF EXISTS (SELECT * FROM inserted WHERE a = 5) UPDATE i SET a = 1 FROM inserted AS i;
             IF EXISTS (SELECT * FROM inserted WHERE a = 6) INSERT inserted EXEC ('SELECT 1');
             IF EXISTS (SELECT * FROM inserted WHERE a = 7) SELECT * FROM dbo.inserted",
        ],
    );
    bad(
        &mut *session,
        &[
            ("SELECT * FROM inserted", "208/16/1"),
            ("INSERT t VALUES (1)", "208/16/1"),
            ("INSERT t VALUES (2)", "208/16/1"),
            ("INSERT t VALUES (3)", "286/16/1"),
            ("INSERT t VALUES (4)", "286/16/1"),
            ("INSERT t VALUES (5)", "286/16/1"),
            ("INSERT t VALUES (6)", "286/16/1"),
            ("INSERT t VALUES (7)", "208/16/1"),
        ],
    );
    good(
        &mut *session,
        &[
            ("SELECT COUNT(*) FROM t", "0"),
            // outside of triggers a table of that name is an ordinary one
            (
                "CREATE TABLE inserted (b int); INSERT inserted VALUES (9); SELECT b FROM inserted",
                "9",
            ),
            ("INSERT t VALUES (8); SELECT a FROM t", "8"),
        ],
    );
}
