//! The batch language: control flow, errors, transactions, parameters.

use crate::common::{Log, Server, rows, run};
use tdekit_wire_tds::{Isolation, Length, Parameter, Session, SqlType, Transaction, Value};

const BATCHES: &[(&str, &str)] = &[
    (
        "DECLARE @i int = 0 WHILE 1=1 BEGIN SET @i += 1 IF @i = 3 CONTINUE IF @i > 5 BREAK END \
        SELECT @i",
        "6",
    ),
    (
        "BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_SEVERITY(), \
        ERROR_STATE(), ERROR_LINE(), ERROR_MESSAGE() END CATCH",
        "8134 | 16 | 1 | 1 | 'Divide by zero error encountered.'",
    ),
    (
        "BEGIN TRY THROW 50001, 'mine', 3 END TRY BEGIN CATCH SELECT ERROR_STATE(); THROW \
         END CATCH \
        SELECT 9",
        "3\n! 50001/16/3 line 1: mine",
    ),
    ("RAISERROR('a %d %s', 16, 2, 7, 'x') SELECT @@ERROR", "! 50000/16/2 line 1: a 7 x\n50000"),
    (
        "RAISERROR('now', 0, 1) WITH NOWAIT PRINT 'p' + 'q'",
        "! 50000/0/1 line 1: now\n! 0/0/1 line 1: pq",
    ),
    ("SELECT 1/0\nSELECT 2", "! 8134/16/1 line 1: Divide by zero error encountered.\n2"),
    (
        "PRINT 1\nSELECT CAST('x' AS int)\nSELECT 2",
        "! 0/0/1 line 1: 1\n! 245/16/1 line 2: \
        Conversion failed when converting the varchar value 'x' to data type int.",
    ),
    ("EXEC('SELECT 3')", "3"),
    ("DECLARE @s nvarchar(max) EXEC sp_executesql @s SELECT 1", "status 0\n1"),
    (
        "EXEC sp_executesql 'SELECT 3'",
        "! 214/16/2 line 1: Procedure expects parameter '@statement' of type \
        'ntext/nchar/nvarchar'.",
    ),
    (
        "EXEC sp_executesql N'SELECT @a', '@a int', 1",
        "! 214/16/2 line 1: Procedure expects parameter '@params' of type 'ntext/nchar/nvarchar'.",
    ),
    ("DECLARE @p nvarchar(max) EXEC sp_executesql N'SELECT 3', @p", "3\nstatus 0"),
    (
        "SET ANSI_DEFAULTS OFF",
        "! 40517/16/1 line 1: Keyword or statement option 'SET ANSI_DEFAULTS OFF' is not supported \
        in this version of the server.",
    ),
    (
        "SELECT CAST('2020-01-01 12:00:00.1234567' AS datetime)",
        "! 241/16/1 line 1: Conversion failed when converting date and/or time from character \
        string.",
    ),
    (
        "SELECT CAST(CAST('2020-01-01 12:00:00.1234567' AS datetime2) AS varchar(40))",
        "'2020-01-01 12:00:00.1234567'",
    ),
    (
        "CREATE TABLE #n (a int) IF 1 = 1 BEGIN SET NOEXEC ON INSERT #n VALUES (1) PRINT 'x' END \
        SELECT * FROM nowhere EXEC nothere WHILE 1 = 1 SELECT 1 SET NOEXEC, NOCOUNT OFF \
        SELECT COUNT(*) FROM #n",
        "0",
    ),
    ("EXEC sp_executesql N'SELECT @a + 1', N'@a int', @a = 4", "5\nstatus 0"),
    (
        "DECLARE @o int; EXEC sp_executesql N'SET @x = 5', N'@x int OUTPUT', @o OUTPUT; SELECT @o",
        "status 0\n5",
    ),
    ("EXEC nothere", "! 2812/16/62 line 1: Could not find stored procedure 'nothere'."),
    (
        "DECLARE @t TABLE (a int, b varchar(3)); INSERT @t VALUES (1, 'x'), (2, 'y'); \
        SELECT COUNT(*) FROM @t WHERE b = 'Y'",
        "1",
    ),
    (
        "IF EXISTS (SELECT 1 FROM (VALUES (1)) t(x) WHERE x = 1) SELECT 'yes' ELSE SELECT 'no'",
        "'yes'",
    ),
    (
        "DECLARE @n int; SELECT @n = MAX(x) FROM (VALUES (4),(9)) t(x); SELECT @n, @@ROWCOUNT",
        "9 | 1",
    ),
    (
        "SET NOCOUNT ON; SET ANSI_NULLS ON; SET TEXTSIZE 2147483647; SET LOCK_TIMEOUT -1; \
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT @@OPTIONS & 512",
        "512",
    ),
    (
        "COMMIT",
        "! 3902/16/1 line 1: The COMMIT TRANSACTION request has no corresponding BEGIN \
        TRANSACTION.",
    ),
    (
        "MERGE TOP (1) t USING u ON 1=1 WHEN MATCHED THEN DELETE;",
        "! 40517/16/1 line 1: Keyword or statement option 'MERGE TOP' is not supported in this \
        version of the server.",
    ),
    ("SELECT 'a;DROP TABLE t--' AS [x\"];--\"]", "'a;DROP TABLE t--'"),
];

#[test]
fn batches() {
    let server = Server::new();
    let mut session = server.session();
    let mut wrong = Vec::new();
    for (batch, expected) in BATCHES {
        let found = rows(&mut *session, batch);
        if found != *expected {
            wrong.push(format!("{batch}\n  expected: {expected}\n  found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn transactions() {
    let server = Server::new();
    let (mut a, mut b) = (server.session(), server.session());
    rows(&mut *a, "CREATE TABLE t (x int NOT NULL PRIMARY KEY)");
    let lines = run(&mut *a, "SET NOCOUNT ON BEGIN TRAN INSERT t VALUES (1) SELECT @@TRANCOUNT");
    assert_eq!(lines, ["~ begin", "# :Int", "1"]);
    assert_eq!(rows(&mut *b, "SELECT COUNT(*) FROM t"), "0");
    let waited = rows(&mut *b, "SET LOCK_TIMEOUT 10; INSERT t VALUES (5)");
    assert!(waited.starts_with("! 1222/16/51"), "{waited}");
    assert_eq!(
        rows(&mut *a, "SAVE TRAN s; INSERT t VALUES (2); ROLLBACK TRAN s; COMMIT"),
        "~ commit"
    );
    assert_eq!(rows(&mut *b, "SELECT x FROM t"), "1");
    // a failed statement leaves the transaction as it was
    let failed = rows(
        &mut *a,
        "BEGIN TRAN INSERT t VALUES (3) INSERT t VALUES (1) COMMIT SELECT COUNT(*) FROM t",
    );
    assert!(failed.contains("! 2627/14/1") && failed.ends_with("~ commit\n2"), "{failed}");
    let all = rows(
        &mut *a,
        "SET XACT_ABORT ON BEGIN TRAN INSERT t VALUES (4) INSERT t VALUES (1) SELECT 1",
    );
    assert!(all.contains("! 2627/14/1") && all.ends_with("~ rollback"), "{all}");
    assert_eq!(rows(&mut *a, "SELECT COUNT(*), @@TRANCOUNT FROM t"), "2 | 0");
    let mut log = Log::default();
    a.transaction(&Transaction::Begin(Isolation::Current, String::new()), &mut log);
    a.batch("DELETE t", &mut log);
    a.transaction(&Transaction::Rollback(String::new(), None), &mut log);
    assert_eq!(log.lines, ["~ begin", "~ rollback"]);
    assert_eq!(rows(&mut *a, "SELECT COUNT(*) FROM t"), "2");
}

fn parameter(name: &str, ty: SqlType, value: Value<'static>) -> Parameter {
    Parameter { name: name.to_owned(), ty, value, output: false, default: false, table: None }
}

#[test]
fn parameters_of_remote_calls() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (a int, b nvarchar(20), c decimal(9,2))");
    let text = SqlType::NVarChar(Length::Of(40));
    let hostile = "x'; DROP TABLE t; --";
    let mut log = Log::default();
    session.execute(
        "INSERT t VALUES (@a, @b, @c)",
        "@a int, @b nvarchar(40), @c decimal(9,2)",
        &[
            parameter("@a", SqlType::Int, Value::Int(1)),
            parameter("", text, Value::Text(hostile.into())),
            parameter(
                "@c",
                SqlType::Decimal { precision: 9, scale: 2 },
                Value::Decimal { unscaled: -5, scale: 2 },
            ),
        ],
        &mut log,
    );
    assert_eq!(log.lines, ["(1)", "status 0"]);
    assert_eq!(rows(&mut *session, "SELECT * FROM t"), format!("1 | '{hostile}' | -0.05"));
    let found = session.describe("SELECT a, b FROM t WHERE a = @p", "@p int").unwrap();
    assert_eq!(found.columns.len(), 2);
    assert_eq!(found.parameters, [("@p".to_owned(), SqlType::Int, false)]);
    assert_eq!(session.describe("SELECT z FROM t", "").unwrap_err().number, 207);
}

#[test]
fn cancel_ends_loops_and_queries() {
    let server = Server::new();
    let mut session = server.session();
    let log = Log::default();
    let flag = log.cancel.clone();
    let mut log = log;
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        flag.store(true, std::sync::atomic::Ordering::Release);
    });
    session.batch("SET NOCOUNT ON DECLARE @i bigint = 0 WHILE 1 = 1 SET @i = 1", &mut log);
    thread.join().unwrap();
    assert!(log.lines.is_empty());
    // the session can serve the next request
    assert_eq!(rows(&mut *session, "SELECT 1"), "1");
}

/// Runs a batch and cancels it while it runs.
fn cancelled(session: &mut dyn Session, batch: &str) -> Vec<String> {
    let mut log = Log::default();
    let flag = log.cancel.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        flag.store(true, std::sync::atomic::Ordering::Release);
    });
    session.batch(batch, &mut log);
    thread.join().unwrap();
    log.lines
}

#[test]
fn cancel_undoes_the_transaction_under_xact_abort_only() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (a int)");
    let query = "SELECT COUNT_BIG(*) FROM sys.types a, sys.types b, sys.types c, sys.types d, \
        sys.types e, sys.types f, sys.types g, sys.types h";
    for endless in ["DECLARE @i int WHILE 1 = 1 SET @i = 1", "WAITFOR DELAY '00:01:00'", query] {
        for (option, kept) in [("OFF", "1 | 1"), ("ON", "0 | 0")] {
            let text = format!("SET XACT_ABORT {option} BEGIN TRAN INSERT t VALUES (1) {endless}");
            let told = cancelled(&mut *session, &text);
            assert_eq!(told.iter().any(|line| line == "~ rollback"), option == "ON", "{told:?}");
            let found = rows(&mut *session, "SELECT @@TRANCOUNT, (SELECT COUNT(*) FROM t)");
            assert_eq!(found, kept, "{option} {endless}");
            rows(&mut *session, "IF @@TRANCOUNT > 0 ROLLBACK");
        }
    }
}

#[test]
fn types_survive_in_the_file() {
    let server = Server::new();
    let mut session = server.session();
    let batch = "CREATE TABLE k (a bit, b tinyint, c smallint, d bigint, e real, f float, \
        g decimal(38,10), h money, i char(4), j varchar(max), k nchar(3), l binary(4), \
        m varbinary(max), n date, o time(3), p smalldatetime, q datetime2(7), r datetimeoffset(2), \
        s uniqueidentifier);
        INSERT k VALUES (1, 255, -3, 9223372036854775807, 1.5, 2.5, \
        1234567890123456789012345678.0123456789, 1.23, 'ab', 'long', N'ж', 0x0102, 0x03, \
        '2024-02-29', '13:05:09.127', '2024-02-29 13:05', '2024-02-29 13:05:09.1234567', \
        '2024-02-29 13:05:09.12 +02:00', '6F9619FF-8B86-D011-B42D-00C04FC964FF')";
    assert_eq!(rows(&mut *session, batch), "");
    let lines = run(
        &mut *server.session(),
        "SELECT *, CONVERT(varchar(40), r, 121), CONVERT(varchar(40), q, 121), \
         CAST(s AS char(36)) FROM k WHERE g > 1 AND s = '6f9619ff-8b86-d011-b42d-00c04fc964ff'",
    );
    assert!(lines[0].contains("g:Decimal { precision: 38, scale: 10 }"), "{}", lines[0]);
    assert!(lines[0].contains("r:DateTimeOffset(2)") && lines[0].contains("i:Char(4)"));
    let row = &lines[1];
    assert!(row.starts_with("1 | 255 | -3 | 9223372036854775807 | 1.5 | 2.5 | "), "{row}");
    assert!(row.contains("1234567890123456789012345678.0123456789 | $12300 | 'ab  ' | 'long'"));
    assert!(
        row.contains("'2024-02-29 13:05:09.12 +02:00' | '2024-02-29 13:05:09.1234567'"),
        "{row}"
    );
    assert!(row.ends_with("'6F9619FF-8B86-D011-B42D-00C04FC964FF'"), "{row}");
}

#[test]
fn an_error_above_severity_18_is_logged_and_one_above_19_is_the_last() {
    const LOW: &str = "! 2754/16/1 line 1: Error severity levels greater than 18 can only be \
        specified by members of the sysadmin role, using the WITH LOG option.";
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (a int)");
    for (batch, expected) in [
        ("RAISERROR('x', 19, 1); PRINT 'on'", format!("{LOW}\n! 0/0/1 line 1: on")),
        ("RAISERROR('x', 25, 1) WITH NOWAIT", LOW.to_owned()),
        (
            "RAISERROR('x', 19, 2) WITH LOG; SELECT @@ERROR",
            "! 50000/19/2 line 1: x\n50000".to_owned(),
        ),
        ("RAISERROR('x', 16, 2) WITH LOG", "! 50000/16/2 line 1: x".to_owned()),
        (
            "BEGIN TRY RAISERROR('x', 19, 1) WITH LOG END TRY
             BEGIN CATCH SELECT ERROR_SEVERITY() END CATCH",
            "19".to_owned(),
        ),
        (
            "BEGIN TRAN; INSERT t VALUES (1);
             BEGIN TRY RAISERROR('x', 21, 3) WITH LOG, NOWAIT END TRY
             BEGIN CATCH SELECT 'caught' END CATCH; SELECT 'on'",
            "! 2745/16/2 line 2: Process ID 51 has raised user error 50000, severity 21. SQL \
             Server is terminating this process.\n! 50000/21/3 line 2: x"
                .to_owned(),
        ),
        ("SELECT COUNT(*), @@TRANCOUNT FROM t", "0 | 0".to_owned()),
    ] {
        let found = rows(&mut *session, batch);
        let found = found.lines().filter(|line| !line.starts_with('~')).collect::<Vec<_>>();
        assert_eq!(found.join("\n"), expected, "{batch}");
    }
    rows(&mut *session, "CREATE LOGIN ann WITH PASSWORD = 'password'; CREATE USER ann");
    let mut other = server.session_of("ann", "app").unwrap();
    for (batch, number) in [
        ("RAISERROR('x', 20, 1) WITH LOG", 2754),
        ("RAISERROR('x', 16, 1) WITH LOG", 2778),
        ("RAISERROR('x', 18, 1)", 50000),
    ] {
        let found = rows(&mut *other, batch);
        assert!(found.starts_with(&format!("! {number}/1")), "{batch}: {found}");
    }
}

#[test]
fn rowcount_is_zero_after_statements_without_rows() {
    let two = "SELECT x FROM (VALUES (1), (2)) t (x);";
    for (statement, count) in [
        ("", "2"),
        ("DECLARE @a int", "2"),
        ("DECLARE @a int = 5", "1"),
        ("USE app", "0"),
        ("SET NOCOUNT ON", "0"),
        ("SET LOCK_TIMEOUT 5", "0"),
        ("BEGIN TRAN", "0"),
        ("PRINT 'a'", "0"),
    ] {
        let server = Server::new();
        let found = rows(&mut *server.session(), &format!("{two} {statement}; SELECT @@ROWCOUNT"));
        assert_eq!(found.lines().last(), Some(count), "{statement}: {found}");
    }
    let server = Server::new();
    let mut session = server.session();
    let ended = |end: &str| format!("BEGIN TRAN; {two} {end}; SELECT @@ROWCOUNT");
    for end in ["COMMIT", "ROLLBACK", "SAVE TRAN s"] {
        let found = rows(&mut *session, &ended(end));
        assert_eq!(found.lines().last(), Some("0"), "{end}: {found}");
    }
    // a procedure leaves that of its last statement
    rows(&mut *session, &format!("CREATE PROCEDURE p AS {two}"));
    let found = rows(&mut *session, "EXEC p; SELECT @@ROWCOUNT");
    assert_eq!(found.lines().last(), Some("2"), "{found}");
}

/// Source: the documentation of @@NESTLEVEL.
#[test]
fn texts_have_levels_of_their_own() {
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE PROCEDURE levels AS SELECT @@NESTLEVEL; EXEC ('SELECT @@NESTLEVEL'); \
                EXEC sp_executesql N'SELECT @@NESTLEVEL; EXEC (''SELECT @@NESTLEVEL'')'; \
                SELECT @@NESTLEVEL";
    assert_eq!(rows(&mut *session, made), "");
    let levels = |session: &mut dyn Session| {
        let found = rows(session, "EXEC levels; SELECT @@NESTLEVEL");
        let found: Vec<&str> = found.lines().filter(|line| !line.starts_with("status")).collect();
        found.join(" ")
    };
    assert_eq!(levels(&mut *session), "1 2 3 4 1 0");
    let failing = "BEGIN TRY EXEC sp_executesql N'SELECT 1 / 0' END TRY BEGIN CATCH SELECT \
                   @@NESTLEVEL END CATCH; EXEC sp_executesql N'THROW 50000, ''x'', 1'";
    rows(&mut *session, failing);
    assert_eq!(levels(&mut *session), "1 2 3 4 1 0");
}
