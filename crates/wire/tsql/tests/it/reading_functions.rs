//! Scalar functions that read tables: their statements, where they are called, what they see.

use crate::common::{Log, Server, rows};
use crate::constraints::{bad, good, healthy};
use tdekit_wire_tds::Session;

const MADE: &[(&str, &str)] = &[
    ("CREATE TABLE t (i int PRIMARY KEY, a int, s nvarchar(20))", ""),
    ("INSERT t VALUES (1, 10, N'x'), (2, 20, N'y'), (3, 30, N'z'), (4, NULL, NULL)", ""),
    ("CREATE TABLE tree (id int PRIMARY KEY, parent int, name varchar(9))", ""),
    ("INSERT tree VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 2, 'd')", ""),
    ("CREATE FUNCTION total () RETURNS int AS BEGIN RETURN (SELECT SUM(a) FROM t) END", ""),
    (
        "CREATE FUNCTION a_of (@i int, @none int = -1) RETURNS int AS
         BEGIN
         DECLARE @a int = @none, @n int;
         SELECT @a = a, @n = @n + 1 FROM t WHERE i = @i;
         RETURN @a
         END",
        "",
    ),
    (
        "CREATE FUNCTION names (@most int) RETURNS nvarchar(200) AS
         BEGIN
         DECLARE @all nvarchar(200);
         SELECT @all = ISNULL(@all + N',', N'') + s FROM t WHERE i <= @most AND s IS NOT NULL \
         ORDER BY i DESC;
         RETURN @all
         END",
        "",
    ),
    (
        "CREATE FUNCTION has (@i int) RETURNS bit AS
         BEGIN
         IF NOT EXISTS (SELECT 1 FROM dbo.t WHERE i = @i) RETURN 0
         RETURN 1
         END",
        "",
    ),
    (
        "CREATE FUNCTION depth (@id int) RETURNS int AS
         BEGIN
         DECLARE @n int = 0;
         WHILE @id IS NOT NULL AND EXISTS (SELECT 1 FROM tree WHERE id = @id)
         BEGIN
         SET @id = (SELECT parent FROM tree WHERE id = @id);
         SET @n += 1
         END
         RETURN @n
         END",
        "",
    ),
    (
        "CREATE FUNCTION way (@id int) RETURNS varchar(99) AS
         BEGIN
         DECLARE @p int, @name varchar(9);
         SELECT @p = parent, @name = name FROM tree WHERE id = @id;
         IF @p IS NULL RETURN @name;
         RETURN dbo.way(@p) + '/' + @name
         END",
        "",
    ),
    (
        "CREATE FUNCTION below (@id int) RETURNS int AS
         BEGIN
         RETURN 1 + ISNULL((SELECT SUM(dbo.below(id)) FROM tree WHERE parent = @id), 0)
         END",
        "",
    ),
];

pub(crate) fn made(server: &Server) -> Box<dyn Session> {
    let mut session = server.session();
    good(&mut *session, MADE);
    session
}

const CALLS: &[(&str, &str)] = &[
    (
        "SELECT dbo.total(), dbo.a_of(2, DEFAULT), dbo.a_of(4, 5), dbo.a_of(5, 6)",
        "60 | 20 | NULL | 6",
    ),
    (
        "SELECT i, dbo.a_of(i, 0) + 1 FROM t ORDER BY dbo.a_of(i, 0) DESC",
        "3 | 31\n2 | 21\n1 | 11\n4 | NULL",
    ),
    ("SELECT i FROM t WHERE dbo.a_of(i, 0) * 3 > dbo.total() ORDER BY i", "3"),
    ("SELECT dbo.names(9), dbo.names(2), dbo.names(0)", "'z,y,x' | 'y,x' | NULL"),
    ("SELECT dbo.has(1), dbo.has(9)", "1 | 0"),
    (
        "SELECT id, dbo.depth(id), dbo.way(id), dbo.below(id) FROM tree ORDER BY id",
        "1 | 1 | 'a' | 4\n2 | 2 | 'a/b' | 3\n3 | 3 | 'a/b/c' | 1\n4 | 3 | 'a/b/d' | 1",
    ),
    (
        "DECLARE @v int; SET @v = dbo.total() / 2; IF dbo.has(@v / 10) = 1 PRINT 'yes' SELECT @v",
        "! 0/0/1 line 1: yes\n30",
    ),
    ("DECLARE @v int = 0; SELECT @v += dbo.a_of(i, 0) FROM t WHERE a > 0; SELECT @v", "60"),
    ("SELECT SUM(dbo.a_of(i, 0)), COUNT(*) FROM t GROUP BY dbo.has(i)", "60 | 4"),
    ("SELECT x.n FROM t CROSS APPLY (SELECT dbo.a_of(t.i, 0) AS n) AS x WHERE t.i = 3", "30"),
    (
        "UPDATE t SET a = a + dbo.total() WHERE a IS NOT NULL; SELECT a FROM t ORDER BY i",
        "70\n80\n90\nNULL",
    ),
    (
        "UPDATE t SET a = dbo.a_of(i - 1, 1) WHERE i < 4; SELECT a FROM t ORDER BY i",
        "1\n70\n80\nNULL",
    ),
    (
        "INSERT t SELECT i + 10, dbo.total(), s FROM t; SELECT a FROM t WHERE i > 10",
        "151\n151\n151\n151",
    ),
    (
        "INSERT t VALUES (21, dbo.total(), N''), (22, dbo.total(), N''); SELECT a FROM t WHERE i \
         > 20",
        "755\n755",
    ),
    (
        "DELETE t WHERE i > 4; UPDATE t SET a = i; DELETE t WHERE dbo.has(i - 1) = 1; SELECT i \
         FROM t",
        "1",
    ),
    (
        "INSERT t (i, a) SELECT id * 2, dbo.total() FROM tree; SELECT i, a FROM t",
        "1 | 1\n2 | 1\n4 | 1\n6 | 1\n8 | 1",
    ),
    ("UPDATE t SET a = dbo.total() OUTPUT deleted.a, inserted.a WHERE i < 4", "1 | 5\n1 | 5"),
    ("DECLARE @v int; UPDATE t SET @v = a = dbo.total() + i WHERE i < 4; SELECT @v", "15"),
    (
        "MERGE t USING (VALUES (1), (9)) AS v (i) ON t.i = v.i WHEN MATCHED AND dbo.has(9) = 0 \
         THEN UPDATE SET a = dbo.total() WHEN NOT MATCHED THEN INSERT (i, a) VALUES (v.i, \
         dbo.total()); SELECT i, a FROM t WHERE i IN (1, 9)",
        "1 | 32\n9 | 32",
    ),
    ("DELETE TOP (1) t WHERE dbo.has(i) = 1 AND i = 9; SELECT COUNT(*) FROM t", "5"),
    ("SELECT i INTO #c FROM t WHERE dbo.a_of(i, 0) = 32; SELECT i FROM #c", "1"),
    ("SELECT TOP (dbo.depth(2)) i FROM t ORDER BY i", "1\n2"),
    ("SELECT a.i FROM t AS a JOIN t AS b ON b.i = dbo.depth(a.i) ORDER BY 1", "1\n2"),
    (
        "DECLARE c CURSOR FOR SELECT dbo.total() FROM tree WHERE id = 1; OPEN c; FETCH c; CLOSE \
         c; DEALLOCATE c",
        "50",
    ),
    (
        "SELECT OBJECT_NAME(OBJECT_ID('t') + dbo.has(100)), CASE WHEN 1 = 0 THEN dbo.total() END",
        "'t' | NULL",
    ),
    (
        "WITH x AS (SELECT dbo.total() AS n) SELECT n FROM x UNION ALL SELECT dbo.depth(n) FROM x",
        "50\n0",
    ),
    ("EXEC sp_executesql N'SELECT dbo.a_of(@i, 0)', N'@i int', @i = 1", "32\nstatus 0"),
];

#[test]
fn a_function_reads_tables() {
    let server = Server::new();
    let mut session = made(&server);
    good(&mut *session, CALLS);
    healthy(&server);
}

const WITHIN: &[(&str, &str)] = &[
    ("CREATE TABLE other.dbo.far (n int); INSERT other.dbo.far VALUES (7)", ""),
    ("CREATE VIEW v AS SELECT i, dbo.a_of(i, 0) AS n, dbo.total() AS m FROM t", ""),
    ("SELECT i, n, m FROM v WHERE n > 10 ORDER BY i", "2 | 20 | 60\n3 | 30 | 60"),
    ("CREATE FUNCTION of_view () RETURNS int AS BEGIN RETURN (SELECT MAX(n + m) FROM v) END", ""),
    ("CREATE PROCEDURE p @i int AS RETURN dbo.a_of(@i, 0) + dbo.of_view()", ""),
    ("DECLARE @r int; EXEC @r = p 1; SELECT @r", "status 100\n100"),
    (
        "CREATE FUNCTION rest (@i int) RETURNS TABLE AS RETURN SELECT i, dbo.total() - a AS n \
         FROM t WHERE i > @i",
        "",
    ),
    ("SELECT r.n FROM tree CROSS APPLY rest(tree.id) AS r WHERE tree.id = 2 AND r.i = 3", "30"),
    (
        "CREATE FUNCTION of_rest (@i int) RETURNS int AS BEGIN RETURN (SELECT SUM(n) FROM \
         rest(@i)) \
      END",
        "",
    ),
    ("SELECT dbo.of_rest(1), dbo.of_rest(dbo.depth(2))", "70 | 30"),
    (
        "CREATE FUNCTION kinds (@n int) RETURNS varchar(200) AS
         BEGIN
         DECLARE @a int, @b int, @c varchar(99), @d date, @e sysname, @f int;
         WITH x (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < @n) SELECT @a = SUM(i) \
         FROM x;
         SELECT TOP (@n) @b = ISNULL(@b, 0) + ROW_NUMBER() OVER (ORDER BY i) FROM t ORDER BY i;
         SET @c = STUFF((SELECT ',' + s FROM t WHERE s LIKE N'[xy]' ORDER BY s FOR XML PATH('')), \
         1, 1, '');
         SELECT @d = MAX(GETDATE()), @e = MAX(DB_NAME()) FROM t WHERE GETDATE() > '20200101';
         SELECT @f = COUNT(*) FROM sys.objects WHERE object_id = OBJECT_ID('t') AND \
         OBJECT_NAME(object_id) = 't';
         RETURN CONCAT(@a, ' ', @b, ' ', @c, ' ', DATEDIFF(day, @d, GETDATE()), ' ', @e, ' ', @f, \
         ' ', (SELECT TOP (1) n FROM other.dbo.far))
         END",
        "",
    ),
    ("SELECT dbo.kinds(3)", "'6 6 x,y 0 app 1 7'"),
    ("SELECT DISTINCT dbo.kinds(a / 10) FROM t WHERE i = 2", "'3 3 x,y 0 app 1 7'"),
    ("CREATE TABLE noted (i int, n int)", ""),
    ("CREATE TRIGGER g ON t AFTER UPDATE AS INSERT noted SELECT i, dbo.total() FROM inserted", ""),
    ("UPDATE t SET a = dbo.total() WHERE i = 1; SELECT i, n FROM noted", "1 | 110"),
    (
        "CREATE FUNCTION nest () RETURNS int AS BEGIN RETURN (SELECT MAX(dbo.level(i)) FROM t) END",
        "! 4121/16/1 line 1: Cannot find either column \"dbo\" or the user-defined function or \
         aggregate \"dbo.level\", or the name is ambiguous.",
    ),
    ("CREATE FUNCTION level (@i int) RETURNS int AS BEGIN RETURN @@NESTLEVEL + @i * 0 END", ""),
    (
        "CREATE FUNCTION nest () RETURNS int AS BEGIN RETURN (SELECT MAX(dbo.level(i)) FROM t) END",
        "",
    ),
    ("SELECT dbo.nest(), dbo.level(1)", "2 | 1"),
];

#[test]
fn it_reads_by_all_that_queries_have() {
    let server = Server::new();
    let mut session = made(&server);
    good(&mut *session, WITHIN);
    healthy(&server);
}

#[test]
fn refusals_and_limits() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            ("CREATE TABLE one (a int); INSERT one VALUES (1)", ""),
            ("CREATE FUNCTION of_one () RETURNS int AS BEGIN RETURN (SELECT a FROM one) END", ""),
            ("SELECT dbo.of_one()", "1"),
            (
                "CREATE FUNCTION down (@n int) RETURNS int AS BEGIN IF @n = 0 RETURN 0; RETURN 1 + \
                 (SELECT MAX(dbo.down(@n - a)) FROM one) END",
                "",
            ),
            ("SELECT dbo.down(31)", "31"),
            (
                "CREATE FUNCTION both (@n int) RETURNS int AS BEGIN IF @n = 0 RETURN 0; RETURN 1 + \
                 dbo.both(@n - (SELECT a FROM one)) END",
                "",
            ),
            ("SELECT dbo.both(20)", "20"),
            ("CREATE TABLE keyed (k int PRIMARY KEY, a int)", ""),
        ],
    );
    bad(
        &mut *session,
        &[
            ("SELECT dbo.down(32)", "217/16/1"),
            ("SELECT dbo.down(t.i + 31) FROM t", "217/16/1"),
            ("SELECT dbo.both(32)", "217/16/1"),
            ("CREATE FUNCTION f () RETURNS int AS BEGIN SELECT a FROM t; RETURN 1 END", "444/16/2"),
            (
                "CREATE FUNCTION f () RETURNS int AS BEGIN DECLARE @a int; SELECT @a = i, a FROM \
                 t; \
                 RETURN 1 END",
                "444/16/2",
            ),
            (
                "CREATE FUNCTION f () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM #t) END",
                "2772/16/1",
            ),
            (
                "CREATE FUNCTION f () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM @t) END",
                "1087/15/2",
            ),
            (
                "CREATE FUNCTION f () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM nothing) \
                 END",
                "208/16/1",
            ),
            ("CREATE FUNCTION f () RETURNS int AS BEGIN RETURN (SELECT x FROM t) END", "207/16/1"),
            (
                "CREATE FUNCTION f () RETURNS int AS BEGIN DECLARE @a int; SELECT @a = i INTO u \
                 FROM t; RETURN 1 END",
                "443/16/1",
            ),
            ("UPDATE t SET a = 1 OUTPUT dbo.total()", "40512/16/1"),
            ("INSERT t (i) OUTPUT dbo.a_of(inserted.i, 0) VALUES (9)", "40512/16/1"),
            ("DELETE t OUTPUT dbo.total()", "40512/16/1"),
            ("INSERT one VALUES (2); SELECT dbo.of_one()", "512/16/1"),
            ("INSERT keyed SELECT 1, dbo.total() UNION ALL SELECT 1, 0", "2627/14/1"),
        ],
    );
    good(&mut *session, &[("DELETE one WHERE a = 2; SELECT dbo.of_one()", "1")]);
    good(&mut *session, &[("DROP TABLE one", "")]);
    bad(&mut *session, &[("SELECT dbo.of_one()", "208/16/1"), ("SELECT dbo.both(1)", "208/16/1")]);
    good(&mut *session, &[("CREATE TABLE one (b int, a int); INSERT one VALUES (1, 5)", "")]);
    good(&mut *session, &[("SELECT dbo.of_one()", "5")]);
    healthy(&server);
}

#[test]
fn it_sees_the_state_of_its_statement() {
    let server = Server::new();
    let path = server.directory.path().join("app.db");
    let file = rusqlite::Connection::open(path).unwrap();
    file.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    drop(file);
    let mut session = made(&server);
    let mut other = server.session();
    good(
        &mut *session,
        &[("BEGIN TRAN; UPDATE t SET a = 100 WHERE i = 1; SELECT dbo.total()", "~ begin\n150")],
    );
    good(&mut *other, &[("SELECT dbo.total()", "60")]);
    good(&mut *session, &[("COMMIT", "~ commit")]);
    good(&mut *other, &[("SELECT dbo.total()", "150")]);
    // another session commits between two rows
    for batch in [
        "SELECT dbo.a_of(1 + v.n * 0, 0) FROM (VALUES (1), (2), (3)) AS v (n)",
        "SELECT i, dbo.a_of(1 + i * 0, 0) FROM t WHERE i < 4",
        "BEGIN TRAN; SELECT dbo.a_of(1 + v.n * 0, 0) FROM (VALUES (1), (2), (3)) AS v (n); COMMIT",
    ] {
        good(&mut *session, &[("UPDATE t SET a = 5 WHERE i = 1", "")]);
        let mut writer = server.session();
        let met = move || good(&mut *writer, &[("UPDATE t SET a = 6 WHERE i = 1", "")]);
        let mut log = Log { quiet: true, met: Some(Box::new(met)), ..Log::default() };
        other.batch(batch, &mut log);
        let found: Vec<_> = log.lines.iter().filter(|line| line.ends_with(['5', '6'])).collect();
        assert_eq!(found.len(), 3, "{batch}: {found:?}");
        assert!(found.iter().all(|line| line.ends_with('5')), "{batch}: {found:?}");
        good(&mut *other, &[("SELECT dbo.a_of(1, 0)", "6")]);
    }
    // it is altered while a statement that calls it gives rows
    let mut writer = server.session();
    let text = "ALTER FUNCTION a_of (@i int, @n int) RETURNS int AS BEGIN RETURN @i END";
    let met = move || good(&mut *writer, &[(text, "")]);
    let mut log = Log { quiet: true, met: Some(Box::new(met)), ..Log::default() };
    other.batch("SELECT dbo.a_of(i, 0) FROM t WHERE i < 4", &mut log);
    assert_eq!(log.lines[1..], ["6", "20", "30"]);
    good(&mut *other, &[("SELECT dbo.a_of(i, 0) FROM t WHERE i < 4", "1\n2\n3")]);
    // a function has another text at once
    good(
        &mut *session,
        &[
            ("ALTER FUNCTION total () RETURNS int AS BEGIN RETURN (SELECT MIN(a) FROM t) END", ""),
            ("SELECT dbo.total()", "6"),
        ],
    );
    good(&mut *other, &[("SELECT dbo.total()", "6")]);
    good(&mut *session, &[("DROP FUNCTION total", "")]);
    bad(&mut *other, &[("SELECT dbo.total()", "4121/16/1")]);
    healthy(&server);
}

#[test]
fn the_right_to_execute_reaches_what_the_owner_has() {
    let server = Server::new();
    let mut owner = made(&server);
    good(
        &mut *owner,
        &[
            ("CREATE USER ann FOR LOGIN ann; GRANT EXECUTE ON total TO ann", ""),
            ("CREATE TABLE other.dbo.far (n int)", ""),
            (
                "CREATE FUNCTION elsewhere () RETURNS int AS BEGIN RETURN (SELECT MAX(n) FROM \
              other.dbo.far) END",
                "",
            ),
            ("GRANT EXECUTE ON elsewhere TO ann", ""),
        ],
    );
    let mut ann = server.session_of("ann", "app").unwrap();
    good(&mut *ann, &[("SELECT dbo.total()", "60")]);
    bad(
        &mut *ann,
        &[
            ("SELECT a FROM t", "229/14/5"),
            ("SELECT dbo.a_of(1, 0)", "229/14/5"),
            ("SELECT dbo.total() FROM tree", "229/14/5"),
            ("SELECT dbo.elsewhere()", "916/14/2"),
        ],
    );
    good(&mut *owner, &[("REVOKE EXECUTE ON total FROM ann", "")]);
    bad(&mut *ann, &[("SELECT dbo.total()", "229/14/5")]);
    // who defines one needs rights of his own
    good(&mut *owner, &[("GRANT CREATE FUNCTION TO ann; GRANT ALTER ON SCHEMA::dbo TO ann", "")]);
    bad(
        &mut *ann,
        &[(
            "CREATE FUNCTION mine () RETURNS int AS BEGIN RETURN (SELECT MAX(a) FROM t) END",
            "229/14/5",
        )],
    );
}

#[test]
fn a_client_cancels_it() {
    let server = Server::new();
    let mut session = made(&server);
    good(
        &mut *session,
        &[
            (
                "CREATE FUNCTION ever () RETURNS int AS BEGIN WHILE EXISTS (SELECT 1 FROM t) \
                 DECLARE @a int = 1; RETURN 1 END",
                "",
            ),
            (
                "CREATE FUNCTION long () RETURNS bigint AS BEGIN RETURN (SELECT COUNT_BIG(*) FROM \
                 t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m, t n, t o, t p) \
                 END",
                "",
            ),
        ],
    );
    for batch in [
        "SELECT dbo.ever()",
        "SELECT i FROM t WHERE dbo.ever() = i",
        "SELECT dbo.long()",
        "UPDATE t SET a = dbo.long()",
        "DECLARE @v bigint = dbo.long()",
    ] {
        let mut log = Log::default();
        let cancel = log.cancel.clone();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            cancel.store(true, std::sync::atomic::Ordering::Release);
        });
        session.batch(batch, &mut log);
        stopper.join().unwrap();
        let failed = log.lines.iter().any(|line| line.starts_with('!'));
        assert!(!failed, "{batch}: {:?}", log.lines);
    }
    assert_eq!(rows(&mut *session, "SELECT dbo.total()"), "60");
}

/// Deep conditions in functions that call themselves within queries end with an error, not with
/// the stack.
#[test]
fn the_stack_is_bounded_in_queries_too() {
    let server = Server::new();
    let mut session = made(&server);
    let deep = format!("{}i > 0{}", "(i = 5 OR (i = 6 OR ".repeat(25), "))".repeat(25));
    let long = format!("i + 0{}", " + ABS(i) * 0".repeat(90));
    for (name, from) in
        [("f", format!("t WHERE i = 1 AND {deep}")), ("g", format!("t WHERE i = 1 AND {long} > 0"))]
    {
        let made = format!(
            "CREATE FUNCTION {name} (@n int) RETURNS int AS BEGIN IF @n = 0 RETURN 0; RETURN 1 + \
             (SELECT MAX(dbo.{name}(@n - i)) FROM {from}) END"
        );
        good(&mut *session, &[(&made, "")]);
        assert_eq!(rows(&mut *session, &format!("SELECT dbo.{name}(5)")), "5");
        let found = rows(&mut *session, &format!("SELECT dbo.{name}(31)"));
        assert!(found == "31" || found.starts_with("! 217/16/1"), "{found}");
        bad(&mut *session, &[(&format!("SELECT dbo.{name}(40)"), "217/16/1")]);
    }
}
