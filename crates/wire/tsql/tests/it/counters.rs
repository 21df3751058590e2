//! The reported resources of statements equal those that they used.

use crate::common::{Server, rows, run};
use rusqlite::Connection;
use tdekit_wire_tds::Session;

const ROWS: i64 = 20_000;

/// Returns a server with a table of many pages, and their number.
fn filled() -> (Server, i64) {
    let server = Server::new();
    let path = server.directory.path().join("app.db");
    let made = Connection::open(&path).unwrap();
    made.pragma_update(None, "journal_mode", "WAL").unwrap();
    drop(made);
    let mut session = server.session();
    let text = "SET NOCOUNT ON; CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, b char(60));
        CREATE TABLE #n (i int);
        WITH n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
        SELECT i INTO #m FROM n; INSERT INTO #n SELECT i FROM #m;
        INSERT INTO t SELECT a.i * 200 + b.i * 2 + c.i + 1, b.i, 'x'
            FROM #n AS a CROSS JOIN #n AS b JOIN #n AS c ON c.i < 2;
        CREATE INDEX t_a ON t (a); CHECKPOINT";
    assert_eq!(rows(&mut *session, text), "");
    let file = Connection::open(&path).unwrap();
    let own = "SELECT count(*) FROM dbstat WHERE name = 't'";
    let pages = file
        .query_row(own, [], |row| row.get(0))
        .or_else(|_| file.query_row("SELECT * FROM pragma_page_count", [], |row| row.get(0)));
    (server, pages.unwrap())
}

fn numbers(session: &mut dyn Session, sql: &str) -> Vec<i64> {
    let found = rows(session, sql);
    let number = |word: &str| word.trim().parse().unwrap_or_else(|_| panic!("{sql}: {found}"));
    found.split(['|', '\n']).map(number).collect()
}

/// Returns executions, and totals of logical reads, physical reads, writes and rows, of statements
/// like this.
fn figures(session: &mut dyn Session, like: &str) -> Vec<i64> {
    let sql = format!(
        "SELECT SUM(s.execution_count), SUM(s.total_logical_reads), SUM(s.total_physical_reads),
                SUM(s.total_logical_writes), SUM(s.total_rows)
         FROM sys.dm_exec_query_stats AS s CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS x
         WHERE x.text LIKE '{like}' AND x.text NOT LIKE '%dm_exec%'"
    );
    numbers(session, &sql)
}

#[test]
fn pages_are_those_that_sqlite_asked_for_read_and_wrote() {
    let (server, pages) = filled();
    let mut session = server.session();
    rows(&mut *session, "SELECT SUM(CAST(id AS bigint) + LEN(b)) FROM t WHERE 1 = 1");
    let [count, logical, physical, writes, given] =
        figures(&mut *session, "SELECT SUM(CAST(id%")[..]
    else {
        panic!("five figures")
    };
    assert_eq!((count, writes, given), (1, 0, 1));
    assert!(logical > pages / 2 && logical < pages * 3, "{logical} of {pages}");
    assert!(physical > pages / 2 && physical <= logical, "{physical} of {pages}");

    rows(&mut *session, "SELECT a FROM t WHERE id = 77 -- point");
    rows(&mut *session, "SELECT a FROM t WHERE id = 77 -- point");
    let point = figures(&mut *session, "%-- point");
    assert_eq!((point[0], point[4]), (2, 2));
    assert!(point[1] >= 4 && point[1] < 20, "twice a path from the root: {point:?}");

    rows(&mut *session, "UPDATE t SET b = 'y' -- all");
    let all = figures(&mut *session, "%-- all");
    assert_eq!((all[0], all[4]), (1, ROWS));
    assert!(all[3] > pages / 2 && all[3] < pages * 3, "{all:?} of {pages}");
}

#[test]
fn caches_that_are_emptied_are_read_again() {
    let (server, _) = filled();
    let mut session = server.session();
    let sql = "SELECT COUNT(b) FROM t WHERE id < 1000 -- warm";
    rows(&mut *session, sql);
    let first = figures(&mut *session, "%-- warm");
    rows(&mut *session, sql);
    let second = figures(&mut *session, "%-- warm");
    assert!(first[2] > 0);
    assert_eq!(second[2], first[2], "all was in the cache");
    assert!(second[1] > first[1]);
    rows(&mut *session, "DBCC DROPCLEANBUFFERS");
    rows(&mut *session, sql);
    let third = figures(&mut *session, "%-- warm");
    assert!(third[2] > second[2], "{third:?}");
}

#[test]
fn a_statement_in_a_loop_and_in_two_sessions_is_one() {
    let (server, _) = filled();
    let (mut one, mut other) = (server.session(), server.session());
    let text = "DECLARE @i int = 0, @a int; WHILE @i < 50 BEGIN SET @i += 1;
        SELECT @a = a FROM t WHERE id = @i;
        IF EXISTS (SELECT 1 FROM t WHERE id = @i) SET @a = 1 END";
    rows(&mut *one, text);
    rows(&mut *other, text);
    drop(other);
    let sql = "SELECT SUBSTRING(x.text, s.statement_start_offset / 2 + 1,
            (CASE s.statement_end_offset WHEN -1 THEN DATALENGTH(x.text)
             ELSE s.statement_end_offset END - s.statement_start_offset) / 2 + 1),
            s.execution_count, s.total_rows
        FROM sys.dm_exec_query_stats AS s OUTER APPLY sys.dm_exec_sql_text(s.plan_handle) AS x
        WHERE x.text LIKE 'DECLARE @i int%' AND x.text NOT LIKE '%dm_exec%'
        ORDER BY s.statement_start_offset";
    assert_eq!(
        rows(&mut *one, sql),
        "'SELECT @a = a FROM t WHERE id = @i' | 100 | 100\n\
         'IF EXISTS (SELECT 1 FROM t WHERE id = @i)' | 100 | 100"
    );
    rows(&mut *one, "DBCC FREEPROCCACHE");
    assert_eq!(rows(&mut *one, "SELECT COUNT(*) FROM sys.dm_exec_query_stats"), "0");
    rows(&mut *one, text);
    assert_eq!(rows(&mut *one, &sql.replace(", s.total_rows", "")).matches(" | 50").count(), 2);
}

#[test]
fn parameters_and_procedures_have_their_texts() {
    let (server, _) = filled();
    let mut session = server.session();
    rows(&mut *session, "EXEC sp_executesql N'SELECT a FROM t WHERE id = @i', N'@i int', 5");
    rows(&mut *session, "CREATE PROCEDURE p @i int AS SELECT b FROM t WHERE id = @i");
    rows(&mut *session, "EXEC p 5; EXEC p 6");
    let of = "SELECT x.text, x.dbid, s.execution_count FROM sys.dm_exec_query_stats AS s
        CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS x WHERE x.text LIKE ";
    assert_eq!(
        rows(&mut *session, &format!("{of} '(@i int)SELECT%'")),
        "'(@i int)SELECT a FROM t WHERE id = @i' | NULL | 1"
    );
    assert_eq!(
        rows(&mut *session, &format!("{of} 'CREATE PROC%'")),
        "'CREATE PROCEDURE p @i int AS SELECT b FROM t WHERE id = @i' | 5 | 2"
    );
    let alone = "DECLARE @h varbinary(64) = (SELECT TOP (1) sql_handle FROM \
        sys.dm_exec_query_stats ORDER BY creation_time); SELECT COUNT(text) FROM \
        sys.dm_exec_sql_text(@h); SELECT COUNT(*) FROM sys.dm_exec_sql_text(0x01)";
    assert_eq!(rows(&mut *session, alone), "1\n0");
    let wrong = rows(&mut *session, "SELECT text FROM sys.dm_exec_sql_text('x')");
    assert!(wrong.starts_with("! 8116/"), "{wrong}");
}

/// Any login sees the texts of the databases that it can see.
#[test]
fn a_text_that_names_a_password_is_not_seen() {
    let (server, _) = filled();
    let mut session = server.session();
    rows(
        &mut *session,
        "SELECT a FROM t WHERE id = 1; DECLARE @s varchar(99) = 'PASSWORD = N''Tür Zanzibar'''",
    );
    rows(&mut *session, "SELECT b FROM t WHERE id = 2; EXEC('SELECT ''Password Zanzibar''')");
    rows(&mut *session, "SELECT 'Marker' FROM t WHERE id = 3");
    let texts = rows(
        &mut *session,
        "SELECT DISTINCT x.text FROM sys.dm_exec_query_stats AS s
         CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS x",
    );
    assert!(texts.contains("Marker"), "{texts}");
    assert!(texts.contains("*************") && !texts.contains("Zanzibar"), "{texts}");
}

#[test]
fn what_fails_is_no_execution_and_the_session_has_it_all_the_same() {
    let (server, _) = filled();
    let mut session = server.session();
    let own = "SELECT logical_reads FROM sys.dm_exec_sessions WHERE session_id = @@SPID";
    let before = numbers(&mut *session, own)[0];
    let failed = rows(&mut *session, "SELECT SUM(1 / (id - 20000)) FROM t -- fails");
    assert!(failed.contains("! 8134/"), "{failed}");
    let count = "SELECT COUNT(*) FROM sys.dm_exec_query_stats AS s
        CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS x WHERE x.text LIKE '%-- fails'";
    assert_eq!(rows(&mut *session, count), "0");
    assert!(numbers(&mut *session, own)[0] > before + 100);
}

#[test]
fn a_session_has_processor_time_where_it_works_and_none_where_it_waits() {
    let (server, _) = filled();
    let mut session = server.session();
    let sql = "SELECT cpu_time, total_elapsed_time, row_count FROM sys.dm_exec_sessions
        WHERE session_id = @@SPID";
    let first = numbers(&mut *session, sql);
    rows(&mut *session, "WAITFOR DELAY '00:00:00.300'");
    let waited = numbers(&mut *session, sql);
    assert!(waited[0] - first[0] < 150, "{first:?} {waited:?}");
    assert!(waited[1] - first[1] >= 300, "{first:?} {waited:?}");
    rows(
        &mut *session,
        "DECLARE @i int = 0; WHILE @i < 400000 SET @i += LEN(REPLICATE('x', 1)) ;
         SELECT COUNT(*) FROM t AS a WHERE a.b LIKE '%y%' OR a.id > 0",
    );
    let worked = numbers(&mut *session, sql);
    let (cpu, elapsed) = (worked[0] - waited[0], worked[1] - waited[1]);
    assert!(cpu >= 10 && cpu <= elapsed + 5, "{waited:?} {worked:?}");
    assert_eq!(worked[2] - waited[2], 2, "one counted row, and the row of the question before");
    let running = "SELECT logical_reads, row_count FROM sys.dm_exec_requests
        WHERE session_id = @@SPID";
    let found = run(&mut *session, &format!("SELECT COUNT(b) FROM t; {running}"));
    let last: Vec<i64> = found[found.len() - 2].split(" | ").map(|n| n.parse().unwrap()).collect();
    assert!(last[0] > 100 && last[1] == 1, "{found:?}");
}

#[test]
fn statistics_are_messages_behind_each_statement() {
    let (server, _) = filled();
    let mut session = server.session();
    let text = "SET STATISTICS IO, TIME ON; SELECT COUNT(b) FROM t; SET STATISTICS IO OFF;
        SET STATISTICS TIME OFF; SELECT a FROM t WHERE id = 1";
    let lines = run(&mut *session, text);
    let io: Vec<_> = lines.iter().filter(|line| line.starts_with("! 3615/0/1")).collect();
    assert_eq!(io.len(), 1, "{lines:?}");
    let [logical, physical, written] = ["logical reads ", "physical reads ", "pages written "]
        .map(|name| io[0].split(name).nth(1).unwrap().split([',', '.']).next().unwrap().to_owned());
    assert!(io[0].contains("Table 't'.") && logical.parse::<i64>().unwrap() > 100, "{io:?}");
    assert!(physical.parse::<i64>().unwrap() > 100 && written == "0", "{io:?}");
    let at = |what: &str| lines.iter().position(|line| line.contains(what)).unwrap();
    assert!(at(&ROWS.to_string()) < at("3615") && at("3615") < at("CPU time = "));
    assert!(lines.iter().any(|line| line.contains(" ms,  elapsed time = ")));
    let after = run(&mut *session, "SELECT a FROM t WHERE id = 1");
    assert!(!after.iter().any(|line| line.starts_with('!')), "{after:?}");
    let other = rows(&mut *session, "SET STATISTICS XML ON");
    assert!(other.starts_with("! 40517/"), "{other}");
}

#[test]
fn indexes_are_rebuilt() {
    let (server, _) = filled();
    let mut session = server.session();
    let path = server.directory.path().join("app.db");
    let writes = "SELECT writes FROM sys.dm_exec_sessions WHERE session_id = @@SPID";
    for text in [
        "ALTER INDEX ALL ON t REBUILD",
        "ALTER INDEX t_a ON dbo.t REBUILD WITH (FILLFACTOR = 90, ONLINE = ON)",
        "ALTER INDEX [T_A] ON t REORGANIZE",
    ] {
        let before = numbers(&mut *session, writes)[0];
        assert_eq!(rows(&mut *session, text), "", "{text}");
        let written = numbers(&mut *session, writes)[0] - before;
        assert!(written > 30, "{text}: {written} pages");
    }
    let sound: String = {
        let file = Connection::open(path).unwrap();
        let sql = "SELECT count(*) FROM t INDEXED BY \"t~t_a\" WHERE a >= 0";
        file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().to_string()
    };
    assert_eq!(sound, ROWS.to_string());
    for (text, number) in [
        ("ALTER INDEX nosuch ON t REBUILD", "2727"),
        ("ALTER INDEX ALL ON nosuch REBUILD", "208"),
        ("ALTER INDEX t_a ON t DISABLE", "40517"),
    ] {
        let found = rows(&mut *session, text);
        assert!(found.starts_with(&format!("! {number}/")), "{text}: {found}");
    }
}

#[test]
fn a_checkpoint_empties_the_log_or_says_why_not() {
    let (server, _) = filled();
    let mut session = server.session();
    let path = server.directory.path().join("app.db");
    rows(&mut *session, "UPDATE t SET b = 'z' WHERE id < 500");
    let passive = |wanted: &str| {
        let file = Connection::open(&path).unwrap();
        file.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
        .map_or_else(|error| panic!("{wanted}: {error}"), |(log, done)| log - done)
    };
    assert!(passive("before") > 0);
    assert_eq!(rows(&mut *session, "CHECKPOINT"), "");
    assert_eq!(passive("after"), 0);
    let within = rows(&mut *session, "BEGIN TRANSACTION; CHECKPOINT");
    assert!(within.contains("! 40512/"), "{within}");
}
