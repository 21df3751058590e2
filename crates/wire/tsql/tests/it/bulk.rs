//! INSERT BULK: the statements that drivers announce, and the rows that follow.

use crate::common::{Log, Server, rows, run};
use tdekit_wire_tds::{Column, Generated, Length, Session, SqlType, Value};

fn column(name: &str, ty: SqlType) -> Column {
    Column {
        name: name.to_owned(),
        ty,
        nullable: true,
        generated: Generated::No,
        collation: tdekit_wire_tds::Collation::default(),
    }
}

fn text(text: &'static str) -> Value<'static> {
    Value::Text(text.into())
}

/// Announces a load and sends rows; returns the number of rows, or the error.
fn load(
    session: &mut dyn Session,
    statement: &str,
    columns: &[Column],
    values: &[Vec<Value<'static>>],
) -> Result<u64, String> {
    let announced = rows(session, statement);
    assert_eq!(announced, "", "{statement}");
    let shown = |message: tdekit_wire_tds::Message| format!("{}: {}", message.number, message.text);
    session.bulk_begin(statement, columns).map_err(shown)?;
    for row in values {
        if let Err(message) = session.bulk_row(row) {
            assert_eq!(session.bulk_end(false).unwrap(), 0);
            return Err(shown(message));
        }
    }
    session.bulk_end(true).map_err(shown)
}

const WIDE: &str = "CREATE TABLE w (a bit, b tinyint, c smallint, d bigint, e real, f float, \
    g decimal(38,10), h money, i char(4), j varchar(max), k nchar(3), l binary(4), \
    m varbinary(max), n date, o time(3), p smalldatetime, q datetime2(7), r datetimeoffset(2), \
    s uniqueidentifier, t datetime, u nvarchar(20))";

fn wide() -> (Vec<Column>, Vec<Value<'static>>) {
    let bytes = |bytes: &'static [u8]| Value::Binary(bytes.into());
    let all = [
        ("a", SqlType::Bit, Value::Bit(true)),
        ("b", SqlType::TinyInt, Value::Int(255)),
        ("c", SqlType::SmallInt, Value::Int(-3)),
        ("d", SqlType::BigInt, Value::Int(i64::MAX)),
        ("e", SqlType::Real, Value::Float(1.5)),
        ("f", SqlType::Float, Value::Float(2.5)),
        (
            "g",
            SqlType::Decimal { precision: 38, scale: 10 },
            Value::Decimal { unscaled: -12_345_678_901_234_567_890_123, scale: 10 },
        ),
        ("h", SqlType::Money, Value::Money(-12_300)),
        ("i", SqlType::Char(4), text("ab")),
        ("j", SqlType::VarChar(Length::Max), text("long")),
        ("k", SqlType::NChar(3), text("ж")),
        ("l", SqlType::Binary(4), bytes(&[1, 2])),
        ("m", SqlType::VarBinary(Length::Max), bytes(&[3])),
        ("n", SqlType::Date, Value::Date(700_000)),
        ("o", SqlType::Time(3), Value::Time(471_091_270_000)),
        ("p", SqlType::SmallDateTime, Value::SmallDateTime { days: 45_000, minutes: 61 }),
        ("q", SqlType::DateTime2(7), Value::DateTime2 { days: 700_000, ticks: 1 }),
        (
            "r",
            SqlType::DateTimeOffset(2),
            Value::DateTimeOffset { days: 700_000, ticks: 100_000, offset_min: -120 },
        ),
        ("s", SqlType::UniqueIdentifier, Value::Guid([7; 16])),
        ("t", SqlType::DateTime, Value::DateTime { days: -10, ticks: 1 }),
        ("u", SqlType::NVarChar(Length::Of(20)), text("x'; DROP TABLE w; --")),
    ];
    let columns = all.iter().map(|(name, ty, _)| column(name, *ty)).collect();
    (columns, all.into_iter().map(|(_, _, value)| value).collect())
}

#[test]
fn every_type_arrives_as_it_was_sent() {
    let server = Server::new();
    let mut session = server.session();
    rows(&mut *session, WIDE);
    let (columns, values) = wide();
    let nulls = vec![Value::Null; columns.len()];
    let count = load(&mut *session, "INSERT BULK w", &columns, &[values.clone(), nulls]);
    assert_eq!(count, Ok(2));
    let lines = run(&mut *session, "SELECT * FROM w ORDER BY a DESC");
    let mut expected: Vec<String> = values.iter().map(crate::common::shown).collect();
    // padded to their lengths
    expected[8] = "'ab  '".to_owned();
    expected[10] = "'ж  '".to_owned();
    expected[11] = "Binary([1, 2, 0, 0])".to_owned();
    assert_eq!(lines[1].split(" | ").collect::<Vec<_>>(), expected);
    assert_eq!(lines[2], ["NULL"; 21].join(" | "));
}

#[test]
fn defaults_identity_and_options() {
    let server = Server::new();
    let mut s = server.session();
    rows(
        &mut *s,
        "CREATE TABLE t (id int IDENTITY(10, 5) PRIMARY KEY, n varchar(5) NOT NULL DEFAULT 'none', \
         m int NULL DEFAULT 7, o int NULL)",
    );
    let n = column("n", SqlType::VarChar(Length::Of(5)));
    let m = column("m", SqlType::Int);
    let both = [n.clone(), m.clone()];
    let with = "insert bulk [dbo].[t] ([n] varchar(5) COLLATE SQL_Latin1_General_CP1_CI_AS, \
        [m] int) with (TABLOCK, CHECK_CONSTRAINTS, ROWS_PER_BATCH = 10, ORDER([n] ASC))";
    let count = load(&mut *s, with, &both, &[vec![Value::Null, Value::Null]]);
    assert_eq!(count, Ok(1));
    let keep = "INSERT BULK t (n varchar(5), m int) WITH (KEEP_NULLS, FIRE_TRIGGERS)";
    let refused = load(&mut *s, keep, &both, &[vec![Value::Null, Value::Null]]).unwrap_err();
    assert!(refused.starts_with("515: Cannot insert the value NULL into column 'n'"), "{refused}");
    assert_eq!(load(&mut *s, keep, &both, &[vec![text("k"), Value::Null]]), Ok(1));
    let id = column("id", SqlType::Int);
    let given = "INSERT BULK t (id int, n varchar(5))";
    assert_eq!(load(&mut *s, given, &[id, n], &[vec![Value::Int(99), text("x")]]), Ok(1));
    rows(&mut *s, "INSERT t (n) VALUES ('next')");
    assert_eq!(
        rows(&mut *s, "SELECT * FROM t ORDER BY id"),
        "10 | 'none' | 7 | NULL\n15 | 'k' | NULL | NULL\n99 | 'x' | 7 | NULL\n\
         104 | 'next' | 7 | NULL"
    );
}

#[test]
fn a_load_is_all_or_nothing_and_converts_as_insert_does() {
    let server = Server::new();
    let mut s = server.session();
    rows(
        &mut *s,
        "CREATE TABLE t (a tinyint NOT NULL PRIMARY KEY, b varchar(3), CHECK (b <> 'no'))",
    );
    let columns = [column("a", SqlType::Int), column("b", SqlType::NVarChar(Length::Of(10)))];
    let bulk = "INSERT BULK t (a int, b nvarchar(10))";
    for (bad, number) in [
        (vec![Value::Int(256), Value::Null], "220"),
        (vec![Value::Null, Value::Null], "515"),
        (vec![Value::Int(1), text("x")], "2627"),
        (vec![Value::Int(2), text("long")], "2628"),
        (vec![Value::Int(2), text("no")], "547"),
    ] {
        let given = [vec![Value::Int(1), text("ok")], bad];
        let error = load(&mut *s, bulk, &columns, &given).unwrap_err();
        assert!(error.starts_with(number), "{error}");
        assert_eq!(rows(&mut *s, "SELECT COUNT(*) FROM t"), "0");
    }
    // trailing blanks are truncated, as in INSERT
    assert_eq!(load(&mut *s, bulk, &columns, &[vec![Value::Int(3), text("abc  ")]]), Ok(1));
    // in the client's transaction it is undone with it
    rows(&mut *s, "BEGIN TRAN");
    assert_eq!(load(&mut *s, bulk, &columns, &[vec![Value::Int(4), Value::Null]]), Ok(1));
    assert_eq!(rows(&mut *s, "SELECT COUNT(*) FROM t"), "2");
    assert_eq!(rows(&mut *s, "ROLLBACK; SELECT b FROM t"), "~ rollback\n'abc'");
}

#[test]
fn what_cannot_be_loaded_is_refused_at_once() {
    let server = Server::new();
    let mut s = server.session();
    rows(&mut *s, "CREATE TABLE t (a int); CREATE TABLE #x (a int)");
    for (statement, number) in [
        ("INSERT BULK nothere (a int)", "208"),
        ("INSERT BULK t (z int)", "207"),
        ("INSERT BULK t (a int, a int)", "264"),
        ("INSERT BULK t (a int) WITH (NOSUCH)", "40517"),
        ("SELECT 1 INSERT BULK t (a int)", "40517"),
        ("IF 1 = 1 INSERT BULK t (a int)", "40517"),
    ] {
        let found = rows(&mut *s, statement);
        assert!(found.contains(&format!("! {number}/")), "{statement}: {found}");
    }
    let int = column("a", SqlType::Int);
    assert_eq!(
        load(&mut *s, "INSERT BULK #x (a int)", std::slice::from_ref(&int), &[vec![Value::Int(1)]]),
        Ok(1)
    );
    assert_eq!(rows(&mut *s, "SELECT a FROM #x"), "1");
    let error = s.bulk_begin("INSERT BULK t (a int)", &[int.clone(), int.clone()]).unwrap_err();
    assert_eq!(error.number, 4816);
    let wrong = column("a", SqlType::UniqueIdentifier);
    assert_eq!(s.bulk_begin("INSERT BULK t (a int)", &[wrong]).unwrap_err().number, 206);
    // a load that the client abandoned leaves nothing behind
    s.bulk_begin("INSERT BULK t (a int)", &[int]).unwrap();
    s.bulk_row(&[Value::Int(5)]).unwrap();
    assert_eq!(s.bulk_end(false).unwrap(), 0);
    assert_eq!(rows(&mut *s, "SELECT COUNT(*) FROM t; INSERT t VALUES (1)"), "0");
}

#[test]
fn what_drivers_ask_before_a_load() {
    let server = Server::new();
    let mut s = server.session();
    rows(&mut *s, "CREATE TABLE t (id int IDENTITY PRIMARY KEY, n nvarchar(20), g varbinary(8))");
    let shape = "# id:Int | n:NVarChar(Of(20)) | g:VarBinary(Of(8))";
    let freetds = run(&mut *s, "SET FMTONLY ON select * from t SET FMTONLY OFF");
    assert_eq!(freetds, [shape, "(0)"]);
    // SET inside of sp_executesql ends with it
    let jdbc = run(&mut *s, "sp_executesql N'SET FMTONLY ON SELECT * FROM [t] '");
    assert_eq!(jdbc, [shape, "(0)", "status 0"]);
    rows(&mut *s, "INSERT t (n) VALUES ('a')");
    assert_eq!(rows(&mut *s, "SELECT n FROM t"), "'a'");
    let told = "select collation_name, is_computed, encryption_type from sys.columns where \
        object_id=OBJECT_ID('[dbo].[t]') order by column_id ASC";
    let latin = "'SQL_Latin1_General_CP1_CI_AS'";
    assert_eq!(
        rows(&mut *s, told),
        format!("NULL | 0 | NULL\n{latin} | 0 | NULL\nNULL | 0 | NULL")
    );
    let pymssql = "SELECT column_id, TYPE_NAME(system_type_id) AS system_type_name, is_identity \
        FROM sys.columns WHERE object_id = OBJECT_ID(N't')";
    assert_eq!(rows(&mut *s, pymssql), "1 | 'int' | 1\n2 | 'nvarchar' | 0\n3 | 'varbinary' | 0");
    let sqlclient = "select @@trancount; SET FMTONLY ON select * from [t] SET FMTONLY OFF \
        exec ..sp_tablecollations_100 N'.[t]'";
    let lines = run(&mut *s, sqlclient);
    assert_eq!(lines[3], shape, "{lines:?}");
    assert!(
        lines.contains(&format!("2 | 'n' | Binary([9, 4, 208, 0, 52]) | {latin}")),
        "{lines:?}"
    );
    let newer = "DECLARE @Object_ID INT = OBJECT_ID('[dbo].[t]'); DECLARE @q NVARCHAR(MAX); \
        DECLARE @Column_Names NVARCHAR(MAX) = NULL; \
        IF EXISTS (SELECT TOP 1 * FROM sys.all_columns WHERE [object_id] = \
        OBJECT_ID('sys.all_columns') AND [name] = 'graph_type') BEGIN SET @q = N'x' END ELSE BEGIN \
        SET @q = N'SELECT @Column_Names = COALESCE(@Column_Names + '', '', '''') + \
        QUOTENAME([name]) FROM [app].[sys].[all_columns] WHERE [object_id] = @Object_ID \
        ORDER BY [column_id] ASC;'; END \
        EXEC sp_executesql @q, N'@Object_ID INT, @Column_Names NVARCHAR(MAX) OUTPUT', \
        @Object_ID = @Object_ID, @Column_Names = @Column_Names OUTPUT; \
        SELECT @Column_Names = COALESCE(@Column_Names, '*'); \
        SET FMTONLY ON; EXEC(N'SELECT ' + @Column_Names + N' FROM [t]'); SET FMTONLY OFF;";
    assert!(run(&mut *s, newer).contains(&shape.to_owned()));
    // and nothing changes while only shapes are requested
    rows(&mut *s, "SET FMTONLY ON; DELETE t; INSERT t (n) VALUES ('b'); SET FMTONLY OFF");
    assert_eq!(rows(&mut *s, "SELECT n FROM t"), "'a'");
}

/// Returns the columns of a query's result, and what the server says of each.
fn asked(session: &mut dyn Session, query: &str) -> Vec<Column> {
    let mut log = Log { quiet: true, ..Log::default() };
    session.batch(query, &mut log);
    assert!(!log.lines.iter().any(|line| line.starts_with('!')), "{query}: {:?}", log.lines);
    log.columns
}

#[test]
fn a_client_leaves_out_the_columns_that_the_server_fills() {
    use Generated::{Computed, Identity, No, Version};
    let server = Server::new();
    let mut session = server.session();
    let made = "CREATE TABLE ##x (id int IDENTITY PRIMARY KEY, val int NOT NULL, c AS (val + 1),
        d AS val, v rowversion)";
    assert_eq!(rows(&mut *session, made), "");
    for (query, expected) in [
        ("SELECT TOP 0 * FROM ##x", vec![Identity, No, Computed, Computed, Version]),
        (
            "SELECT c, x.d AS e, (v), val, id FROM ##x AS x",
            vec![Computed, Computed, Version, No, Identity],
        ),
        ("SELECT c FROM (SELECT c, val FROM ##x) AS y", vec![Computed]),
        (
            "SELECT c + 0, val + 1, id + 1, CAST(v AS bigint), MAX(c) FROM ##x
          GROUP BY c, val, id, v",
            vec![No; 5],
        ),
        ("SELECT c FROM ##x UNION ALL SELECT val FROM ##x", vec![No]),
        ("SELECT (SELECT TOP 1 c FROM ##x) AS c", vec![No]),
    ] {
        let found: Vec<Generated> =
            asked(&mut *session, query).iter().map(|column| column.generated).collect();
        assert_eq!(found, expected, "{query}");
    }
    let columns: Vec<Column> = asked(&mut *session, "SELECT TOP 0 * FROM ##x")
        .into_iter()
        .filter(|column| column.generated == No)
        .collect();
    let values = [vec![Value::Int(4)], vec![Value::Int(5)]];
    let loaded = load(&mut *session, "INSERT BULK ##x (val int)", &columns, &values);
    assert_eq!(loaded, Ok(2));
    assert_eq!(rows(&mut *session, "SELECT id, val, c FROM ##x"), "1 | 4 | 5\n2 | 5 | 6");
    let described = "EXEC sp_describe_first_result_set N'SELECT id, val, c, v FROM ##x'";
    let found = rows(&mut *session, described);
    let facts: Vec<Vec<&str>> = found
        .lines()
        .filter(|line| line.contains(" | "))
        .map(|line| line.split(" | ").skip(26).take(4).collect())
        .collect();
    let expected = [
        ["1", "NULL", "0", "0"],
        ["0", "NULL", "1", "0"],
        ["0", "NULL", "0", "1"],
        ["0", "NULL", "0", "0"],
    ];
    assert_eq!(facts, expected);
}

/// FreeTDS names the server's collation beside text in the code page of the column.
#[test]
fn text_without_collate_has_the_page_of_its_column() {
    let server = Server::new();
    let mut session = server.session();
    let create = "CREATE TABLE c (a varchar(9) COLLATE Cyrillic_General_CI_AS, b varchar(9), c \
        nvarchar(9) COLLATE Cyrillic_General_CI_AS)";
    assert_eq!(rows(&mut *session, create), "");
    let ty = SqlType::VarChar(Length::Of(9));
    // 0xC6 and 0xF9, read as Windows-1252
    let row = vec![text("\u{c6}\u{f9}"), text("\u{c6}"), text("\u{c6}")];
    let all = ["a", "b", "c"].map(|name| column(name, ty));
    let statement = "INSERT BULK c (a varchar(9), b varchar(9), c varchar(9))";
    assert_eq!(load(&mut *session, statement, &all, std::slice::from_ref(&row)), Ok(1));
    let named = "INSERT BULK c (a varchar(9) COLLATE SQL_Latin1_General_CP1_CI_AS, b varchar(9), c \
        varchar(9))";
    assert_eq!(load(&mut *session, named, &all, std::slice::from_ref(&row)), Ok(1));
    let mut other = all.clone();
    other[0].collation = tdekit_wire_tds::Collation::parse("Cyrillic_General_CI_AS").unwrap();
    let read = vec![text("щ"), text("b"), text("c")];
    assert_eq!(load(&mut *session, statement, &other, &[read]), Ok(1));
    let found = rows(&mut *session, "SELECT a, b, c FROM c");
    assert_eq!(found, "'Жщ' | 'Æ' | 'Æ'\n'??' | 'Æ' | 'Æ'\n'щ' | 'b' | 'c'");
}
