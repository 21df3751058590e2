//! The memory limit of a session: its statement ends with 701, and this session and all others
//! continue.

#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use common::{Server, rows};
use tdekit_wire_tds::Session;
use tdekit_wire_tds::memory::{Account, Counting, held_bytes, set_limits};
use tdekit_wire_tsql::count_sqlite_memory;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: u64 = 1 << 20;

/// Runs a batch as the endpoint does.
fn at_work(account: &Account, session: &mut dyn Session, text: &str) -> String {
    let _work = account.work();
    rows(session, text)
}

#[test]
fn whatever_grows_ends_with_701_and_the_session_goes_on() {
    // rusqlite panics over text for which SQLite has no memory, which is caught. What a backtrace
    // needs would stay in memory, and count.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    count_sqlite_memory().unwrap();
    set_limits(64 * MIB, 1024 * MIB);
    let server = Server::new();
    let (mut session, mut other) = (server.session(), server.session());
    let (account, others) = (Account::default(), Account::default());
    let loops = [
        "DECLARE @s nvarchar(max) = N'xy'; WHILE 1 = 1 SET @s = @s + @s",
        "DECLARE @s nvarchar(max) = N'xy'; WHILE 1 = 1 SET @s += @s + N'z'",
        "DECLARE @b varbinary(max) = 0x0102; WHILE 1 = 1 SET @b = @b + @b",
        "DECLARE @s varchar(max) = REPLICATE(CAST('x' AS varchar(max)), 2000000000)",
        "DECLARE @s varchar(max) = 'xx'; WHILE 1 = 1 SET @s = REPLACE(@s, 'x', 'xx')",
        "DECLARE @s varchar(max) = 'xx'; WHILE 1 = 1 SET @s = CONCAT(@s, @s, @s)",
        "DECLARE @s varchar(max) = 'xx'; WHILE 1 = 1 SET @s = STUFF(@s, 1, 0, @s)",
        "DECLARE @s nvarchar(max) = N'xx'; \
         WHILE 1 = 1 SELECT @s = @s + s FROM (SELECT @s AS s) AS t",
        "CREATE TABLE #t (s varchar(8000)); \
         WHILE 1 = 1 INSERT #t VALUES (REPLICATE('x', 8000)), (REPLICATE('y', 8000))",
        "DECLARE @t TABLE (s varchar(8000)); \
         WHILE 1 = 1 INSERT @t VALUES (REPLICATE('x', 8000)), (REPLICATE('y', 8000))",
        "WITH n (i, s) AS (SELECT 1, CAST('x' AS varchar(max)) UNION ALL \
         SELECT i + 1, s + s FROM n WHERE i < 40) SELECT MAX(LEN(s)) FROM n",
        "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) \
         SELECT COUNT(*) FROM (SELECT TOP (100000000) REPLICATE('x', 4000) AS s, i FROM n \
         ORDER BY s, i DESC) AS t OPTION (MAXRECURSION 0)",
        "WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) \
         SELECT LEN(STRING_AGG(CAST(REPLICATE('x', 4000) AS varchar(max)), ',')) FROM n \
         OPTION (MAXRECURSION 0)",
        "DECLARE @s nvarchar(max) = REPLICATE(CAST(N'x' AS nvarchar(max)), 20000000); \
         SELECT @s, @s, @s",
        "DECLARE c CURSOR LOCAL FOR WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE \
         i < 30000) SELECT REPLICATE('x', 4000) FROM n OPTION (MAXRECURSION 0); OPEN c",
        "DECLARE @s nvarchar(max) = N'SELECT 1'; WHILE LEN(@s) < 8000000 SET @s += @s; EXEC (@s)",
    ];
    for text in loops {
        let found = at_work(&account, &mut *session, text);
        assert!(found.contains("! 701/17/123"), "{text}: {}", &found[..found.len().min(300)]);
        assert!(held_bytes() < 512 * MIB, "{text}: {}", held_bytes());
        assert_eq!(at_work(&account, &mut *session, "SELECT @@TRANCOUNT"), "0", "{text}");
        let clean = "IF OBJECT_ID('tempdb..#t') IS NOT NULL DROP TABLE #t";
        assert_eq!(at_work(&account, &mut *session, clean), "", "{text}");
        assert_eq!(at_work(&others, &mut *other, "SELECT 1"), "1", "{text}");
    }
    // A statement without room makes SQLite release its caches.
    at_work(&account, &mut *session, loops[0]);
    assert!(account.bytes() < 16 * MIB, "{}", account.bytes());
    // Earlier changes are rolled back with the transaction, and the error can be caught.
    rows(&mut *other, "CREATE TABLE kept (i int)");
    let caught = "BEGIN TRAN; INSERT kept VALUES (1); BEGIN TRY DECLARE @s nvarchar(max) = N'xy'; \
        WHILE 1 = 1 SET @s += @s END TRY BEGIN CATCH SELECT ERROR_NUMBER(); ROLLBACK END CATCH";
    let found = at_work(&account, &mut *session, caught);
    assert!(found.lines().any(|line| line == "701"), "{found}");
    assert_eq!(at_work(&account, &mut *session, "SELECT COUNT(*) FROM kept"), "0");
    // The same remains possible below the limit.
    let below = "DECLARE @s nvarchar(max) = N'xy'; WHILE LEN(@s) < 4000000 SET @s += @s; \
        SELECT LEN(@s)";
    assert_eq!(at_work(&account, &mut *session, below), "4194304");
}
