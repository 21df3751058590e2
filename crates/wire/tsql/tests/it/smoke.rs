//! Everyday batches: text in, rows and messages out.

use crate::common::{Server, rows, run};

/// Batch, then rows and messages as lines.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("SELECT 1", "1"),
    ("SELECT 7/2, -7/2, 7%3, -7%3", "3 | -3 | 1 | -1"),
    ("SELECT 1.0/3", "0.333333"),
    ("DECLARE @i int = 3; SELECT 1.0/@i", "0.333333333333"),
    ("SELECT 2.0/3, 10.0*10.00", "0.666666 | 100.000"),
    ("SELECT 'a' + NULL, N'b' + 'c', LEN('ab  ')", "NULL | 'bc' | 2"),
    ("SELECT 1 + '2'", "3"),
    ("SELECT 1/0", "! 8134/16/1 line 1: Divide by zero error encountered."),
    (
        "SELECT 1 + 'x'",
        "! 245/16/1 line 1: Conversion failed when converting the varchar value 'x' to data type \
        int.",
    ),
    (
        "SELECT 2147483647 + 1",
        "! 8115/16/2 line 1: Arithmetic overflow error converting expression to data type int.",
    ),
    ("SELECT CASE WHEN 'ABC ' = 'abc' THEN 'same' ELSE 'other' END", "'same'"),
    ("SELECT IIF(NULL = NULL, 1, 0), ISNULL(NULL, 5), COALESCE(NULL, NULL, 2)", "0 | 5 | 2"),
    ("SELECT CONVERT(varchar(10), CAST('2024-02-29' AS date), 103)", "'29/02/2024'"),
    (
        "SELECT CONVERT(varchar(30), CAST('2024-02-29T13:05:09.127' AS datetime), 121)",
        "'2024-02-29 13:05:09.127'",
    ),
    ("SELECT CAST('2024-02-29 13:05:09' AS datetime)", "DateTime { days: 45349, ticks: 14132700 }"),
    ("SELECT DATEDIFF(day, '2024-01-01', '2024-03-01'), DATEPART(weekday, '2024-02-29')", "60 | 5"),
    (
        "SELECT CONVERT(varchar(30), DATEADD(month, 1, CAST('2024-01-31' AS date)), 23)",
        "'2024-02-29'",
    ),
    (
        "SELECT LEFT('hello', 2), RIGHT('hello', 3), SUBSTRING('hello', 2, 3), \
         STUFF('abc', 2, 1, 'xx')",
        "'he' | 'llo' | 'ell' | 'axxc'",
    ),
    (
        "SELECT CHARINDEX('L', 'hello'), REPLACE('aAa', 'A', 'b'), UPPER('x'), LTRIM('  a')",
        "3 | 'bbb' | 'X' | 'a'",
    ),
    (
        "SELECT ROUND(2.345, 2), ROUND(-2.5, 0), ABS(-3), CEILING(1.2), FLOOR(-1.2), POWER(2, 10)",
        "2.350 | -3.0 | 3 | 2 | -2 | 1024",
    ),
    (
        "SELECT CAST(1.5 AS int), CAST($1.5 AS int), CAST(-1.5 AS int), \
         CAST(12.345 AS decimal(5,1))",
        "1 | 2 | -1 | 12.3",
    ),
    (
        "SELECT CAST(1234567 AS varchar(3)), CAST(1e10 AS varchar(30)), CAST(0.5e0 AS varchar(10))",
        "'*' | '1e+010' | '0.5'",
    ),
    ("SELECT TRY_CAST('x' AS int), TRY_CONVERT(date, '2024-13-01')", "NULL | NULL"),
    ("SELECT 'x' WHERE 1 = 2", ""),
    (
        "SELECT CAST('6F9619FF-8B86-D011-B42D-00C04FC964FF' AS uniqueidentifier)",
        "Guid([255, 25, 150, 111, 134, 139, 17, 208, 180, 45, 0, 192, 79, 201, 100, 255])",
    ),
    ("SELECT foo", "! 207/16/1 line 1: Invalid column name 'foo'."),
    ("SELECT * FROM foo", "! 208/16/1 line 1: Invalid object name 'foo'."),
    ("SELEC 1", "! 2812/16/62 line 1: Could not find stored procedure 'SELEC'."),
    ("SELECT 1 FROM", "! 102/15/1 line 1: Incorrect syntax near 'FROM'."),
    ("SELECT @x", "! 137/15/2 line 1: Must declare the scalar variable \"@x\"."),
    (
        "SELECT STRING_AGG(v, ',') WITHIN GROUP (ORDER BY v DESC) FROM (VALUES ('a'),('b')) t(v)",
        "'b,a'",
    ),
    (
        "SELECT x, ROW_NUMBER() OVER (ORDER BY x DESC) FROM (VALUES (1),(3)) t(x) ORDER BY x",
        "1 | 2\n3 | 1",
    ),
    (
        "SELECT AVG(x), AVG(1.0*x), SUM(x), COUNT(*) FROM (VALUES (1),(2)) t(x)",
        "1 | 1.500000 | 3 | 2",
    ),
    ("SELECT a FROM (VALUES ('b'),('A'),('C')) t(a) ORDER BY a", "'A'\n'b'\n'C'"),
    ("SELECT DISTINCT UPPER(a) FROM (VALUES ('b'),('B '),('C')) t(a) ORDER BY 1", "'B'\n'C'"),
    (
        "SELECT (SELECT 1 UNION ALL SELECT 2)",
        "! 512/16/1 line 1: Subquery returned more than 1 value. This is not permitted when the \
        subquery follows =, !=, <, <= , >, >= or when the subquery is used as an expression.",
    ),
    ("SELECT TOP (2) x FROM (VALUES (3),(1),(2)) t(x) ORDER BY x", "1\n2"),
    (
        "SELECT x FROM (VALUES (3),(1),(2)) t(x) ORDER BY x OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY",
        "2",
    ),
    ("SELECT 1 UNION SELECT 1 UNION ALL SELECT 2 ORDER BY 1", "1\n2"),
    (
        "WITH a(x) AS (SELECT 1 UNION ALL SELECT 2), b AS (SELECT x*2 y FROM a) SELECT * FROM b, a \
        WHERE y = x",
        "2 | 2",
    ),
    ("SELECT @@TRANCOUNT, @@SPID, DB_NAME(), @@ERROR", "0 | 51 | 'app' | 0"),
];

#[test]
fn expressions() {
    let server = Server::new();
    let mut session = server.session();
    let mut wrong = Vec::new();
    for (batch, expected) in EXPRESSIONS {
        let found = rows(&mut *session, batch);
        if found != *expected {
            wrong.push(format!("{batch}\n  expected: {expected}\n  found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tables() {
    let server = Server::new();
    let mut s = server.session();
    let made = rows(
        &mut *s,
        "CREATE TABLE t (id int IDENTITY(1,1) PRIMARY KEY, name nvarchar(10) NOT NULL, \
         amount decimal(10,2) NULL DEFAULT 1.5, at datetime DEFAULT GETDATE(), \
         CONSTRAINT positive CHECK (amount > 0))
         CREATE INDEX i ON t (name)",
    );
    assert_eq!(made, "");
    assert_eq!(rows(&mut *s, "INSERT t (name) VALUES ('a'), ('b'); SELECT SCOPE_IDENTITY()"), "2");
    assert_eq!(
        run(&mut *s, "SELECT id, name, amount FROM t WHERE name = 'A '"),
        [
            "# id:Int | name:NVarChar(Of(10)) | amount:Decimal { precision: 10, scale: 2 }",
            "1 | 'a' | 1.50",
            "(1)"
        ]
    );
    assert_eq!(
        rows(&mut *s, "UPDATE t SET amount += 2 WHERE id = 1; SELECT amount FROM t WHERE id=1"),
        "3.50"
    );
    assert_eq!(
        rows(&mut *s, "INSERT t (name) OUTPUT inserted.id, inserted.amount VALUES (N'c')"),
        "3 | 1.50"
    );
    assert!(rows(&mut *s, "INSERT t (name) VALUES (NULL)").starts_with("! 515/"));
    assert!(rows(&mut *s, "INSERT t (name, amount) VALUES ('x', -1)").starts_with("! 547/"));
    assert!(rows(&mut *s, "INSERT t (name) VALUES ('01234567890')").starts_with("! 2628/"));
    assert!(rows(&mut *s, "INSERT t (id, name) VALUES (9, 'x')").starts_with("! 544/"));
    let dup = "SET IDENTITY_INSERT t ON; INSERT t (id, name) VALUES (1, 'x'); \
        SET IDENTITY_INSERT t OFF";
    assert!(rows(&mut *s, dup).starts_with("! 2627/14/1"), "{}", rows(&mut *s, dup));
    assert_eq!(
        rows(&mut *s, "DELETE a FROM t a JOIN (VALUES (1)) v(x) ON v.x = a.id; SELECT @@ROWCOUNT"),
        "1"
    );
    assert_eq!(
        rows(
            &mut *s,
            "UPDATE a SET name = v.n FROM t a JOIN (VALUES (2,'zz')) v(x,n) ON v.x = a.id;
            SELECT name FROM t ORDER BY id"
        ),
        "'zz'\n'c'"
    );
    assert_eq!(
        rows(&mut *s, "SELECT name, COUNT(*) FROM t GROUP BY name ORDER BY 1"),
        "'c' | 1\n'zz' | 1"
    );
    assert!(rows(&mut *s, "SELECT name, id FROM t GROUP BY name").starts_with("! 8120/"));
    assert_eq!(
        rows(&mut *s, "SELECT IIF(OBJECT_ID('dbo.t') IS NULL, 0, 1), OBJECT_ID('nix')"),
        "1 | NULL"
    );
    let found = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES; SELECT name FROM sys.columns \
        WHERE object_id = OBJECT_ID('t')";
    assert_eq!(rows(&mut *s, found), "'t'\n'id'\n'name'\n'amount'\n'at'");
    assert_eq!(rows(&mut *s, "SELECT * INTO #x FROM t; SELECT id FROM #x ORDER BY id"), "2\n3");
    assert_eq!(rows(&mut *s, "TRUNCATE TABLE t; SELECT COUNT(*) FROM t; DROP TABLE t"), "0");
    assert!(rows(&mut *s, "SELECT * FROM t").starts_with("! 208/"));
    // another session sees what the first one made
    rows(&mut *s, "CREATE TABLE u (a int); INSERT u VALUES (1)");
    let mut other = server.session();
    assert_eq!(rows(&mut *other, "SELECT a FROM app.dbo.u"), "1");
    rows(&mut *other, "DROP TABLE u; CREATE TABLE u (a varchar(5)); INSERT u VALUES ('x')");
    assert_eq!(rows(&mut *s, "SELECT a FROM u"), "'x'");
}
