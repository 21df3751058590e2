//! docs/tsql.md lists exactly what the code implements; anything else fails with an error.

use crate::common::{Server, rows};
use tdekit_wire_tsql::{check_syntax, coverage};

/// The words of a section's paragraph between `<!-- name -->` and `<!-- end -->`.
fn listed(document: &str, name: &str) -> Vec<String> {
    let start = document.split(&format!("<!-- {name} -->")).nth(1).unwrap();
    let section = start.split("<!-- end -->").next().unwrap();
    section.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_document_is_exact() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/tsql.md");
    let document = std::fs::read_to_string(path).unwrap();
    let coverage = coverage();
    for (name, known) in [
        ("functions", coverage.functions),
        ("aggregates", coverage.aggregates),
        ("tables", coverage.tables),
        ("window", coverage.window),
        ("options", coverage.options),
        ("views", coverage.views),
        ("procedures", coverage.procedures),
    ] {
        let mut known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        known.sort();
        let mut found = listed(&document, name);
        found.sort();
        assert_eq!(found, known, "{name}");
    }
}

#[test]
fn listed_statements_parse_and_unlisted_ones_fail() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/tsql.md");
    let document = std::fs::read_to_string(path).unwrap();
    for statement in listed(&document, "statements") {
        let result = check_syntax(&statement);
        assert!(result.is_ok(), "{statement}: {result:?}");
    }
    for statement in listed(&document, "refused") {
        let error = check_syntax(&statement).unwrap_err();
        let loud = matches!(error.number, 40517 | 40512 | 102 | 156 | 155 | 195);
        assert!(loud, "{statement}: {error:?}");
    }
}

/// Calls of every function, and their values; `*` stands for any but NULL.
const CALLS: &[(&str, &str)] = &[
    ("@@CONNECTIONS", "0"),
    ("@@CPU_BUSY", "0"),
    ("@@CURSOR_ROWS", "0"),
    ("@@DATEFIRST", "7"),
    ("@@DBTS", "*"),
    ("@@ERROR", "0"),
    ("@@FETCH_STATUS", "0"),
    ("@@IDENTITY", "1"),
    ("@@LANGID", "0"),
    ("@@LANGUAGE", "'us_english'"),
    ("@@LOCK_TIMEOUT", "-1"),
    ("@@MAX_PRECISION", "38"),
    ("@@MICROSOFTVERSION", "*"),
    ("@@NESTLEVEL", "0"),
    ("@@OPTIONS", "5496"),
    ("@@PROCID", "0"),
    ("@@ROWCOUNT", "1"),
    ("@@SERVERNAME", "*"),
    ("@@SERVICENAME", "*"),
    ("@@SPID", "51"),
    ("@@TEXTSIZE", "*"),
    ("@@TRANCOUNT", "0"),
    ("@@VERSION", "*"),
    ("ABS(-3)", "3"),
    ("ACOS(1.0)", "0.0"),
    ("APP_NAME()", "'tests'"),
    ("ASCII('A')", "65"),
    ("ASIN(0)", "0.0"),
    ("ATAN(0)", "0.0"),
    ("ATN2(0, 1)", "0.0"),
    ("BIT_COUNT(0xabcdef)", "17"),
    ("CEILING(1.2)", "2"),
    ("CHAR(65)", "'A'"),
    ("CHARINDEX('b', 'abc')", "2"),
    ("CHOOSE(2, 'a', 'b')", "'b'"),
    ("COALESCE(NULL, 4)", "4"),
    ("COLLATIONPROPERTY('SQL_Latin1_General_CP1_CI_AS', 'codepage')", "'1252'"),
    ("COLUMNPROPERTY(OBJECT_ID('f'), 'id', 'IsIdentity')", "1"),
    ("COLUMNS_UPDATED()", "NULL"),
    ("COL_LENGTH('f', 'id')", "4"),
    ("COL_NAME(OBJECT_ID('f'), 1)", "'id'"),
    ("CONCAT('a', 1)", "'a1'"),
    ("CONCAT_WS('-', 'a', NULL, 'b')", "'a-b'"),
    ("CONNECTIONPROPERTY('net_transport')", "'TCP'"),
    ("COS(0)", "1.0"),
    ("ROUND(COT(1), 3)", "0.642"),
    ("CURRENT_TIMESTAMP", "*"),
    ("CURRENT_USER", "'dbo'"),
    ("CURSOR_STATUS('global', 'c')", "-3"),
    ("DATABASEPROPERTYEX('app', 'Status')", "'ONLINE'"),
    ("DATABASE_PRINCIPAL_ID()", "1"),
    ("DATALENGTH(N'ab')", "4"),
    ("CONVERT(varchar, DATEADD(day, 1, '2024-02-28'), 23)", "'2024-02-29'"),
    ("DATEDIFF(day, '2024-02-28', '2024-03-01')", "2"),
    ("DATEDIFF_BIG(second, '2024-01-01', '2024-01-02')", "86400"),
    ("CONVERT(varchar, DATEFROMPARTS(2024, 2, 29), 23)", "'2024-02-29'"),
    ("DATENAME(month, '2024-02-29')", "'February'"),
    ("DATEPART(weekday, '2024-02-29')", "5"),
    ("CONVERT(varchar, DATETIMEFROMPARTS(2024, 2, 29, 1, 2, 3, 0), 120)", "'2024-02-29 01:02:03'"),
    ("CONVERT(varchar, DATETRUNC(month, CAST('2024-02-29' AS date)), 23)", "'2024-02-01'"),
    ("DAY('2024-02-29')", "29"),
    ("DB_ID('app')", "5"),
    ("DB_NAME()", "'app'"),
    ("ROUND(DEGREES(PI()), 3)", "180.0"),
    ("CONVERT(varchar, EOMONTH('2024-02-01'), 23)", "'2024-02-29'"),
    ("ERROR_LINE()", "NULL"),
    ("ERROR_MESSAGE()", "NULL"),
    ("ERROR_NUMBER()", "NULL"),
    ("ERROR_PROCEDURE()", "NULL"),
    ("ERROR_SEVERITY()", "NULL"),
    ("ERROR_STATE()", "NULL"),
    ("EXP(0)", "1.0"),
    ("FLOOR(-1.5)", "-2"),
    ("FORMAT(1234.5, 'N1')", "'1,234.5'"),
    ("GETDATE()", "*"),
    ("GETUTCDATE()", "*"),
    ("GET_BIT(0xabcdef, 2)", "1"),
    ("GREATEST(1, 3, 2)", "3"),
    ("CAST(HASHBYTES('md5', 'ab') AS varchar(9))", "'Md5 ab'"),
    ("HAS_DBACCESS('app')", "1"),
    ("HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE')", "1"),
    ("HOST_NAME()", "'here'"),
    ("IDENT_CURRENT('f')", "1"),
    ("IDENT_INCR('f')", "1"),
    ("IDENT_SEED('f')", "1"),
    ("IIF(1 < 2, 'y', 'n')", "'y'"),
    ("INDEXPROPERTY(OBJECT_ID('f'), 'ix', 'IsUnique')", "0"),
    ("INDEX_COL('f', 1, 1)", "'id'"),
    ("ISDATE('2024-02-30')", "0"),
    ("ISJSON('[1.10]')", "1"),
    ("ISNULL(NULL, 5)", "5"),
    ("ISNUMERIC('1.5')", "1"),
    ("IS_MEMBER('db_owner')", "1"),
    ("IS_ROLEMEMBER('db_owner')", "1"),
    ("IS_SRVROLEMEMBER('sysadmin')", "1"),
    ("JSON_MODIFY('{\"a\":1}', '$.b', 2)", "'{\"a\":1,\"b\":2}'"),
    ("JSON_QUERY('{\"a\":[1]}', '$.a')", "'[1]'"),
    ("JSON_VALUE('{\"a\":1.10}', '$.a')", "'1.10'"),
    ("LEAST(2, 1, 3)", "1"),
    ("LEFT('abc', 2)", "'ab'"),
    ("LEFT_SHIFT(5, 2)", "20"),
    ("LEN('ab ')", "2"),
    ("LOG(8, 2)", "3.0"),
    ("LOG10(100)", "2.0"),
    ("LOWER('AbC')", "'abc'"),
    ("LTRIM('  a')", "'a'"),
    ("MONTH('2024-02-29')", "2"),
    ("NCHAR(228)", "'ä'"),
    ("NEWID()", "*"),
    ("(SELECT g FROM f)", "*"), // NEWSEQUENTIALID
    ("NULLIF(1, 2)", "1"),
    ("OBJECTPROPERTY(OBJECT_ID('f'), 'IsTable')", "1"),
    ("OBJECTPROPERTYEX(OBJECT_ID('f'), 'IsView')", "0"),
    ("OBJECT_DEFINITION(OBJECT_ID('vf'))", "'CREATE VIEW vf AS SELECT 1 AS a'"),
    ("OBJECT_ID('f')", "*"),
    ("OBJECT_NAME(OBJECT_ID('f'))", "'f'"),
    ("OBJECT_SCHEMA_NAME(OBJECT_ID('f'))", "'dbo'"),
    ("ORIGINAL_LOGIN()", "'sa'"),
    ("PARSENAME('a.b', 1)", "'b'"),
    ("PATINDEX('%b%', 'abc')", "2"),
    ("ROUND(PI(), 2)", "3.14"),
    ("POWER(2, 3)", "8"),
    ("QUOTENAME('a]b')", "'[a]]b]'"),
    ("ROUND(RADIANS(180.0), 2)", "3.14"),
    ("RAND()", "*"),
    ("REPLACE('aba', 'a', 'c')", "'cbc'"),
    ("REPLICATE('ab', 2)", "'abab'"),
    ("REVERSE('abc')", "'cba'"),
    ("RIGHT('abc', 2)", "'bc'"),
    ("RIGHT_SHIFT(-1, 31)", "1"),
    ("ROUND(1.25, 1)", "1.30"),
    ("RTRIM('a  ')", "'a'"),
    ("SCHEMA_ID('dbo')", "1"),
    ("SCHEMA_NAME(1)", "'dbo'"),
    ("SCOPE_IDENTITY()", "1"),
    ("SERVERPROPERTY('ProductVersion')", "*"),
    ("SESSION_USER", "'dbo'"),
    ("SET_BIT(0, 2)", "4"),
    ("SIGN(-2)", "-1"),
    ("SIN(0)", "0.0"),
    ("'a' + SPACE(2) + 'b'", "'a  b'"),
    ("SQRT(9)", "3.0"),
    ("SQUARE(3)", "9.0"),
    ("STR(1.5, 5, 1)", "'  1.5'"),
    ("STUFF('abcd', 2, 2, 'x')", "'axd'"),
    ("SUBSTRING('abc', 2, 2)", "'bc'"),
    ("SUSER_ID()", "1"),
    ("SUSER_NAME()", "'sa'"),
    ("SUSER_SID()", "*"),
    ("SUSER_SNAME()", "'sa'"),
    ("CONVERT(varchar, SWITCHOFFSET('2024-01-01T12:00:00+00:00', '+02:00'), 126)", "*"),
    ("SYSDATETIME()", "*"),
    ("SYSDATETIMEOFFSET()", "*"),
    ("SYSTEM_USER", "'sa'"),
    ("SYSUTCDATETIME()", "*"),
    ("TAN(0)", "0.0"),
    ("CONVERT(varchar, TODATETIMEOFFSET('2024-01-01', '+02:00'), 126)", "*"),
    ("TRANSLATE('abc', 'ab', 'xy')", "'xyc'"),
    ("TRIGGER_NESTLEVEL()", "0"),
    ("TRIM(' a ')", "'a'"),
    ("TYPE_ID('int')", "56"),
    ("TYPE_NAME(56)", "'int'"),
    ("UNICODE(N'ä')", "228"),
    (
        "IIF(UPDATE(n), 1, 0)",
        "! 140/15/1 line 1: Can only use IF UPDATE within a CREATE TRIGGER statement.",
    ),
    ("UPPER('aBc')", "'ABC'"),
    ("USER", "'dbo'"),
    ("USER_ID()", "1"),
    ("USER_NAME()", "'dbo'"),
    ("XACT_STATE()", "0"),
    ("YEAR('2024-02-29')", "2024"),
];

/// Calls of every aggregate and window function over 1, 2, 3 in `n` and 'a', 'b', 'b' in `t`; a
/// window is ordered by `n`, and its last row counts.
const OVER_ROWS: &[(&str, &str)] = &[
    ("AVG(n)", "2"),
    ("COUNT(DISTINCT t)", "2"),
    ("COUNT_BIG(*)", "3"),
    ("GROUPING(t)", "1"),
    ("GROUPING_ID(t, n)", "3"),
    ("MAX(t)", "'b'"),
    ("MIN(n)", "1"),
    ("STDEV(n)", "1.0"),
    ("ROUND(STDEVP(n), 3)", "0.816"),
    ("STRING_AGG(t, '-')", "'a-b-b'"),
    ("SUM(n)", "6"),
    ("VAR(n)", "1.0"),
    ("ROUND(VARP(n), 3)", "0.667"),
    ("CUME_DIST() OVER (ORDER BY n)", "1.0"),
    ("DENSE_RANK() OVER (ORDER BY t)", "2"),
    ("FIRST_VALUE(t) OVER (ORDER BY n)", "'a'"),
    ("LAG(n, 2, 0) OVER (ORDER BY n)", "1"),
    ("LAST_VALUE(n) OVER (ORDER BY n)", "3"),
    ("LEAD(n, 1, 9) OVER (ORDER BY n)", "9"),
    ("NTILE(2) OVER (ORDER BY n)", "2"),
    ("PERCENT_RANK() OVER (ORDER BY n)", "1.0"),
    ("RANK() OVER (ORDER BY t)", "2"),
    ("ROW_NUMBER() OVER (ORDER BY n)", "3"),
];

/// Returns true if a call names this function, as a word of its own.
fn names(call: &str, name: &str) -> bool {
    call.match_indices(name).any(|(at, _)| {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
        let (before, after) = (&call[..at], &call[at + name.len()..]);
        !before.ends_with(part) && !after.starts_with(part)
    })
}

#[test]
fn every_function_is_called() {
    let server = Server::new();
    let mut session = server.session();
    let coverage = coverage();
    for name in coverage.functions {
        let called = name == "NEWSEQUENTIALID" || CALLS.iter().any(|(call, _)| names(call, name));
        assert!(called, "{name} has no call");
    }
    for name in coverage.aggregates.iter().chain(&coverage.window) {
        assert!(OVER_ROWS.iter().any(|(call, _)| names(call, name)), "{name} has no call");
    }
    rows(&mut *session, "CREATE VIEW vf AS SELECT 1 AS a");
    rows(
        &mut *session,
        "CREATE TABLE f (id int IDENTITY PRIMARY KEY, g uniqueidentifier DEFAULT \
         NEWSEQUENTIALID(), n int); CREATE INDEX ix ON f (n); INSERT INTO f (n) VALUES (1)",
    );
    let mut wrong = Vec::new();
    let mut check = |batch: String, call: &str, expected: &str| {
        let found = rows(&mut *session, &batch);
        let found = found.lines().last().unwrap_or_default();
        let any = expected == "*" && found != "NULL" && !found.starts_with('!');
        if !any && found != expected {
            wrong.push(format!("{call}: {found}, not {expected}"));
        }
    };
    for (call, expected) in CALLS {
        check(format!("SELECT {call}"), call, expected);
    }
    for (call, expected) in OVER_ROWS {
        let from = "(VALUES (1, 'a'), (2, 'b'), (3, 'b')) AS v(n, t)";
        let sets = match call.starts_with("GROUPING") {
            true => format!("GROUP BY ROLLUP (t, n) ORDER BY {call}"),
            false => String::new(),
        };
        check(format!("SELECT {call} FROM {from} {sets}"), call, expected);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows(&mut *session, "SELECT nosuch(1)").starts_with("! 195/15/10"));
}
