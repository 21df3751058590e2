//! One type for all rows of a column and all branches of an expression, by SQL Server's data type
//! precedence; NULL, and parameters whose type is deduced; the effect of an error on a transaction.

use crate::common::{Log, Server, check, rows, run};
use tdekit_wire_tds::{Length, Parameter, Session, SqlType, Value};

#[test]
fn rows_of_insert_values_share_a_type() {
    check(&[
        // int takes precedence over varchar, and only then the column's own type is applied
        (
            "CREATE TABLE #a (c varchar(10)); INSERT #a VALUES ('0036'), (37), (''); SELECT c FROM \
             #a",
            "'36'\n'37'\n'0'",
        ),
        ("CREATE TABLE #a (c varchar(10)); INSERT #a VALUES ('0036'); SELECT c FROM #a", "'0036'"),
        ("CREATE TABLE #a (c varchar(10)); INSERT #a VALUES (1), ('x')", "! 245/16/1"),
        (
            "CREATE TABLE #a (c varchar(10)); INSERT #a VALUES (1), (2.5); SELECT c FROM #a",
            "'1.0'\n'2.5'",
        ),
        ("CREATE TABLE #a (d date); INSERT #a VALUES (1), ('2024-02-29')", "! 206/16/2"),
        // NULL and DEFAULT have no influence
        (
            "CREATE TABLE #a (d date DEFAULT '1999-12-31', b varbinary(3)); INSERT #a VALUES \
             (NULL, NULL), (NULL, NULL), (DEFAULT, 0xFF), ('2024-02-29', NULL); SELECT \
             CONVERT(char(10), d), b FROM #a",
            "NULL | NULL\nNULL | NULL\n'1999-12-31' | Binary([255])\n'2024-02-29' | NULL",
        ),
        // a variable that is NULL still has its type
        (
            "CREATE TABLE #a (c int, s nvarchar(9)); DECLARE @s varchar(1), @n nvarchar(3) = N'Ω'; \
             INSERT #a VALUES (@s, @s), (7, @n), ('8', N'long'); SELECT * FROM #a",
            "NULL | NULL\n7 | 'Ω'\n8 | 'long'",
        ),
        ("CREATE TABLE #a (b varbinary(3)); DECLARE @s char; INSERT #a VALUES (@s)", "! 257/16/3"),
    ]);
}

#[test]
fn queries_that_meet_share_types() {
    check(&[
        ("SELECT NULL UNION ALL SELECT 'abc'", "NULL\n'abc'"),
        ("SELECT 'abc' UNION ALL SELECT NULL UNION ALL SELECT N'Ω'", "'abc'\nNULL\n'Ω'"),
        ("SELECT CAST(0x01 AS varbinary(4)) UNION ALL SELECT NULL", "Binary([1])\nNULL"),
        ("SELECT NULL UNION SELECT NULL", "NULL"),
        ("SELECT '2' UNION ALL SELECT 1", "2\n1"),
        ("DECLARE @s varchar(1); SELECT @s UNION ALL SELECT 1", "NULL\n1"),
        ("SELECT 'x' UNION ALL SELECT 1", "! 245/16/1"),
        ("SELECT x FROM (VALUES (NULL), ('abc')) t (x)", "NULL\n'abc'"),
        ("DECLARE @s varchar(1); SELECT x FROM (VALUES (@s), (5), ('6')) t (x)", "NULL\n5\n6"),
        ("SELECT x FROM (VALUES ('a'), (0x616263)) t (x)", "'a'\n'abc'"),
        (
            "CREATE TABLE #a (i int, d date); INSERT #a SELECT 1, NULL; INSERT #a SELECT 2, NULL \
             UNION ALL SELECT 3, '2024-02-29'; SELECT i, CONVERT(char(10), d) FROM #a",
            "1 | NULL\n2 | NULL\n3 | '2024-02-29'",
        ),
        // a derived table's NULL is an int
        (
            "CREATE TABLE #a (d date); INSERT #a SELECT x FROM (VALUES (NULL), (NULL)) t (x)",
            "! 206/16/2",
        ),
        ("SELECT 1 WHERE 'a' IN (SELECT NULL) OR 'a' NOT IN (SELECT NULL)", ""),
    ]);
}

#[test]
fn branches_share_types() {
    check(&[
        ("SELECT NULLIF('abc', NULL), NULLIF('abc', 'ABC'), NULLIF(7, '7')", "'abc' | NULL | NULL"),
        // the first argument is returned unchanged
        ("SELECT NULLIF('007', 8), NULLIF(1, 2.50)", "'007' | 1"),
        ("SELECT NULLIF(NULL, 1)", "! 4151/16/1"),
        ("SELECT CASE WHEN 1 = 1 THEN NULL ELSE NULL END", "! 8133/16/1"),
        ("SELECT IIF(1 = 1, NULL, NULL)", "! 8133/16/1"),
        ("SELECT COALESCE(NULL, NULL)", "! 4127/16/1"),
        ("SELECT ISNULL(NULL, NULL), GREATEST(NULL, NULL), NULL + NULL", "NULL | NULL | NULL"),
        ("SELECT 1 WHERE NULL = NULL OR NULL <> NULL OR NULL IN (NULL)", ""),
        (
            "DECLARE @s varchar(1), @i int = 5; SELECT COALESCE(@s, @i), ISNULL(@s, 'xyz'), IIF(1 \
             = 1, @s, @i), CASE WHEN 1 = 2 THEN @s ELSE @i END",
            "5 | 'x' | NULL | 5",
        ),
        ("SELECT CASE WHEN 1 = 2 THEN 1 ELSE 'x' END", "! 245/16/1"),
        ("SELECT 1 WHERE 5 IN (NULL, '5')", "1"),
        (
            "DECLARE @d datetime = '2024-01-01T00:00:00.500'; SELECT DATEPART(ms, CASE WHEN 1 = 1 \
             THEN @d ELSE CAST('2024-01-01' AS datetime2(0)) END)",
            "500",
        ),
        (
            "SELECT DATALENGTH(x) FROM (VALUES (CAST('a' AS char(2))), (CAST(N'b' AS nchar(3)))) t \
             (x)",
            "6\n6",
        ),
    ]);
}

fn parameter(ty: SqlType, value: Value<'static>) -> Parameter {
    Parameter { name: String::new(), ty, value, output: false, default: false, table: None }
}

const TABLES: &str = "CREATE TABLE parent (id int IDENTITY PRIMARY KEY, name nvarchar(20)); CREATE \
    TABLE child (id int IDENTITY PRIMARY KEY, parent_id int NOT NULL REFERENCES parent (id), price \
    decimal(9, 2), made date, note nvarchar(max), code varchar(9))";

/// The INSERT of an object mapper for many rows, when it needs their keys in order.
const MANY: &str = "INSERT INTO child (parent_id, price, made, note, code) OUTPUT inserted.id \
    SELECT p0, p1, p2, p3, p4 FROM (VALUES (@P1, @P2, @P3, @P4, @P5, 0), (@P6, @P7, @P8, @P9, \
    @P10, 1)) AS v (p0, p1, p2, p3, p4, n) ORDER BY n";

fn describe(session: &mut dyn Session, text: &str) -> Vec<String> {
    let mut log = Log::default();
    let text = text.to_owned();
    let given = parameter(SqlType::NVarChar(Length::Max), Value::Text(text.into()));
    session.procedure("sp_describe_undeclared_parameters", &[given], &mut log);
    log.lines
}

/// Returns name and type of each parameter, or the error's number.
fn deduced(session: &mut dyn Session, text: &str) -> String {
    let lines = describe(session, text);
    let kept = lines.iter().filter_map(|line| match line.strip_prefix("! ") {
        Some(error) => error.split('/').next().map(str::to_owned),
        None if line.starts_with(|c: char| c.is_ascii_digit()) => {
            let mut parts = line.split(" | ");
            Some(format!("{} {}", parts.nth(1)?, parts.nth(1)?))
        }
        None => None,
    });
    kept.collect::<Vec<_>>().join(", ").replace('\'', "")
}

#[test]
fn only_what_takes_a_parameter_tells_its_type() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, TABLES);
    for (text, expected) in [
        ("INSERT parent (name) VALUES (@P1), (@P2)", "@P1 nvarchar(20), @P2 nvarchar(20)"),
        // the target column decides, regardless of the other rows
        ("INSERT child (parent_id, made) VALUES (1, @P1), (@P2, '20240229')", "@P1 date, @P2 int"),
        ("SELECT x FROM (VALUES ('abc'), (@P1)) t (x)", "@P1 varchar(3)"),
        ("SELECT id FROM child WHERE COALESCE(@P1, made) = @P2", "@P1 date, @P2 date"),
        ("SELECT NULLIF(@P1, made) FROM child", "@P1 date"),
        // undetermined: an error, and never a guess
        ("INSERT parent (name) SELECT p FROM (VALUES (@P1, 0), (@P2, 1)) v (p, n)", "11503"),
        ("INSERT parent (name) SELECT @P1", "11503"),
        ("SELECT @P1 UNION ALL SELECT 'x'", "11503"),
        ("SELECT COALESCE(@P1, @P2)", "11503"),
        ("SELECT ISNULL(@P1, @P2)", "11503"),
        ("SELECT CASE WHEN 1 = 1 THEN @P1 END", "11503"),
        ("SELECT 1 WHERE @P1 = @P2", "11503"),
        ("SELECT 1 WHERE @P1 IN (@P2, NULL)", "11503"),
        ("SELECT @P1 + @P2", "11503"),
    ] {
        assert_eq!(deduced(&mut *session, text), expected, "{text}");
    }
}

#[test]
fn a_description_that_fails_undoes_nothing() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, TABLES);
    for options in ["SET XACT_ABORT OFF", "SET XACT_ABORT ON"] {
        rows(&mut *session, options);
        rows(&mut *session, "SET IMPLICIT_TRANSACTIONS ON; INSERT parent VALUES (N'a'), (N'b')");
        let text = describe(&mut *session, MANY).join("\n");
        assert!(text.starts_with("! ") && text.ends_with("status 1"), "{text}");
        assert!(!text.contains("rollback"), "{text}");
        let found = rows(&mut *session, "EXEC sp_describe_first_result_set N'SELECT * FROM none'");
        assert!(found.starts_with("! 208/16/1") && !found.contains("rollback"), "{found}");
        // as ODBC binds them: NULL of an unknown type is varchar(1)
        let unknown = || parameter(SqlType::VarChar(Length::Of(1)), Value::Null);
        let int = |int| parameter(SqlType::Int, Value::Int(int));
        let price = SqlType::Decimal { precision: 3, scale: 2 };
        let text = |text: &'static str| {
            parameter(SqlType::NVarChar(Length::Of(4)), Value::Text(text.into()))
        };
        let given = [
            int(1),
            parameter(price, Value::Decimal { unscaled: 125, scale: 2 }),
            unknown(),
            unknown(),
            text("007"),
            int(2),
            unknown(),
            parameter(SqlType::Date, Value::Date(738_944)),
            text("Ω"),
            unknown(),
        ];
        let declared = "@P1 int, @P2 decimal(3,2), @P3 varchar(1), @P4 varchar(1), @P5 \
            nvarchar(4), @P6 int, @P7 varchar(1), @P8 date, @P9 nvarchar(4), @P10 varchar(1)";
        let mut log = Log::default();
        session.execute(MANY, declared, &given, &mut log);
        assert_eq!(log.lines[1..], ["1", "2", "(2)", "status 0"], "{:#?}", log.lines);
        let found = rows(
            &mut *session,
            "SELECT parent_id, price, CONVERT(char(10), made), note, code FROM child ORDER BY id",
        );
        assert_eq!(found, "1 | 1.25 | NULL | NULL | '007'\n2 | NULL | '2024-02-29' | 'Ω' | NULL");
        assert_eq!(rows(&mut *session, "ROLLBACK"), "~ rollback");
        rows(&mut *session, "SET IMPLICIT_TRANSACTIONS OFF");
    }
}

#[test]
fn what_cannot_be_bound_leaves_the_transaction() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, "CREATE TABLE t (x int)");
    let count = "SELECT @@TRANCOUNT, COUNT(*) FROM t";
    for (batch, number, left) in [
        ("SELECT * FROM nowhere", 208, "1 | 1"),
        ("SELECT y FROM t", 207, "1 | 1"),
        ("SELECT 1 WHERE CAST(NULL AS date) = 1", 206, "1 | 1"),
        ("SELECT SOUNDEX('a')", 195, "1 | 1"),
        ("EXEC ('SELECT FROM')", 156, "1 | 1"),
        ("SELECT CAST('a' AS int)", 245, "0 | 0"),
        ("SET XACT_ABORT ON; SELECT * FROM nowhere", 208, "0 | 0"),
    ] {
        rows(&mut *session, "SET XACT_ABORT OFF; BEGIN TRANSACTION; INSERT t VALUES (1)");
        let found = rows(&mut *session, batch);
        assert!(found.contains(&format!("! {number}/")), "{batch}: {found}");
        assert_eq!(rows(&mut *session, count), left, "{batch}");
        rows(&mut *session, "IF @@TRANCOUNT > 0 ROLLBACK");
    }
    rows(&mut *session, "SET XACT_ABORT OFF");
    let caught = |inner: &str| {
        format!(
            "BEGIN TRANSACTION; BEGIN TRY {inner} END TRY BEGIN CATCH SELECT ERROR_NUMBER(), \
             XACT_STATE() END CATCH; ROLLBACK"
        )
    };
    let lines = run(&mut *session, &caught("EXEC ('SELECT * FROM nowhere')"));
    assert!(lines.contains(&"208 | 1".to_owned()), "{lines:#?}");
    let lines = run(&mut *session, &caught("SELECT CAST('a' AS int)"));
    assert!(lines.contains(&"245 | -1".to_owned()), "{lines:#?}");
}

/// The very last moment cannot be rounded up: it is truncated, so that it fits its type.
#[test]
fn the_end_of_the_last_day_fits_every_precision() {
    check(&[
        (
            "CREATE TABLE #a (d datetime2(0), o datetimeoffset(3)); INSERT #a VALUES \
             ('9999-12-31 23:59:59.9999999', '9999-12-31 23:59:59.9999999 +00:00'); SELECT \
             CONVERT(varchar(40), d, 126), CONVERT(varchar(40), o, 126) FROM #a",
            "'9999-12-31T23:59:59' | '9999-12-31T23:59:59.999+00:00'",
        ),
        (
            "DECLARE @d datetime2(3) = '9999-12-31 23:59:59.9999999'; SELECT CONVERT(varchar(40), \
             @d, 126)",
            "'9999-12-31T23:59:59.999'",
        ),
        (
            "CREATE TABLE #a (d datetime2(0), o datetimeoffset(3)); INSERT #a VALUES \
             ('9999-12-31 23:59:59.9999999', '9999-12-31 23:59:59.9999999 +00:00'); SELECT d, o \
             FROM #a",
            "DateTime2 { days: 3652058, ticks: 863990000000 } | DateTimeOffset { days: 3652058, \
             ticks: 863999990000, offset_min: 0 }",
        ),
    ]);
}

/// UTC is the one zone: others need a database of their rules.
#[test]
fn a_time_at_a_time_zone() {
    let shown = |value: &str| format!("SELECT CONVERT(varchar(40), {value}, 121)");
    let mut cases = Vec::new();
    for (value, expected) in [
        (
            "CAST('2024-02-29 13:05:06.75' AS datetime2(2)) AT TIME ZONE 'UTC'",
            "'2024-02-29 \
         13:05:06.75 +00:00'",
        ),
        (
            "CAST('2024-02-29 13:05:06' AS datetime) AT TIME ZONE N'utc '",
            "'2024-02-29 \
         13:05:06.000 +00:00'",
        ),
        (
            "CAST('2024-02-29 13:05' AS smalldatetime) AT TIME ZONE 'UTC'",
            "'2024-02-29 13:05:00 \
         +00:00'",
        ),
        (
            "CAST('2024-03-01 00:30 +02:00' AS datetimeoffset(0)) AT TIME ZONE \
         'UTC'",
            "'2024-02-29 22:30:00 +00:00'",
        ),
        (
            "CAST('2024-02-29 23:30 -05:30' AS datetimeoffset(0)) AT TIME ZONE 'UTC' AT TIME ZONE \
         'UTC'",
            "'2024-03-01 05:00:00 +00:00'",
        ),
        ("CAST(NULL AS datetime) AT TIME ZONE 'UTC'", "NULL"),
        ("GETDATE() AT TIME ZONE CAST(NULL AS varchar(9))", "NULL"),
        ("GETDATE() AT TIME ZONE 'Central European Standard Time'", "! 40512/16/1 line 1: "),
        (
            "CAST('2024-02-29' AS date) AT TIME ZONE 'UTC'",
            "! 8116/16/1 line 1: Argument data \
         type date is invalid for argument 1 of AT TIME ZONE function.",
        ),
        ("'2024-02-29' AT TIME ZONE 'UTC'", "! 8116/16/1"),
        ("GETDATE() AT TIME ZONE 1", "! 8116/16/1"),
    ] {
        cases.push((shown(value), expected.to_owned()));
    }
    let batch = "CREATE TABLE t (d datetime2(0), z varchar(9)); INSERT t VALUES ('20240229', \
     'UTC'), \
        ('20240301', NULL); DECLARE @z varchar(9) = 'UTC'; SELECT CONVERT(varchar(40), d AT \
        TIME ZONE \
        z, 121) FROM t WHERE d AT TIME ZONE @z < '2024-02-29 12:00 +01:00'";
    cases.push((batch.to_owned(), "'2024-02-29 00:00:00 +00:00'".to_owned()));
    let cases: Vec<_> = cases.iter().map(|(batch, found)| (&**batch, &**found)).collect();
    check(&cases);
}
