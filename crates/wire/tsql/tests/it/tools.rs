//! What SSMS, DBeaver, Metabase and exporters ask for when they connect and explore.

use crate::common::{Server, rows, run};

const TABLES: &str = "CREATE TABLE p (id int IDENTITY(5, 2) PRIMARY KEY, nm varchar(20) NOT NULL \
    DEFAULT 'x', q decimal(9, 2) NULL CHECK (q > 0)); CREATE INDEX ix ON p (nm); CREATE TABLE c \
    (id int, pid int, CONSTRAINT fk FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE); \
    INSERT p (nm) VALUES ('a'), ('b'), ('c')";

#[test]
fn views_of_tables_have_their_rows() {
    let server = Server::new();
    let mut session = server.session();
    run(&mut *session, TABLES);
    for (batch, expected) in [
        (
            "SELECT o.name, p.index_id, p.rows, p.data_compression_desc FROM sys.partitions AS p \
             JOIN sys.objects AS o ON o.object_id = p.object_id ORDER BY o.name, p.index_id",
            "'c' | 0 | 0 | 'NONE'\n'p' | 1 | 3 | 'NONE'\n'p' | 2 | 3 | 'NONE'",
        ),
        (
            "SELECT name, stats_id, auto_created FROM sys.stats WHERE object_id = OBJECT_ID('p') \
             AND stats_id > 1",
            "'ix' | 2 | 0",
        ),
        (
            "SELECT stats_id, stats_column_id, column_id FROM sys.stats_columns ORDER BY stats_id",
            "1 | 1 | 1\n2 | 1 | 2",
        ),
        (
            "SELECT file_id, type_desc, name, size, growth FROM sys.database_files",
            "1 | 'ROWS' | 'app' | 256 | NULL",
        ),
        ("SELECT name FROM other.sys.database_files", "'other'"),
        ("SELECT COUNT(*) FROM sys.table_types", "0"),
        ("SELECT COUNT(*) FROM sys.trigger_events", "0"),
        (
            "SELECT host_platform, host_service_pack_level, host_sku FROM sys.dm_os_host_info",
            "'Linux' | '' | NULL",
        ),
        (
            "SELECT COUNT(*) FROM sys.dm_os_sys_info WHERE cpu_count > 0 AND physical_memory_kb > \
             10000 AND committed_kb < physical_memory_kb AND ms_ticks > 0 AND \
             sqlserver_start_time BETWEEN DATEADD(hour, -1, GETDATE()) AND GETDATE()",
            "1",
        ),
        (
            "SELECT c.name, TYPE_NAME(c.user_type_id) FROM sys.all_columns AS c JOIN \
             sys.all_objects AS o ON o.object_id = c.object_id WHERE o.name = 'stats_columns' \
             ORDER BY c.column_id",
            "'object_id' | 'int'\n'stats_id' | 'int'\n'stats_column_id' | 'tinyint'\n\
             'column_id' | 'int'",
        ),
        (
            "SELECT o.schema_id, COUNT(*) FROM sys.all_columns AS c JOIN sys.all_objects AS o ON \
             o.object_id = c.object_id WHERE o.name IN ('p', 'objects', 'TABLES') GROUP BY \
             o.schema_id ORDER BY 1",
            "1 | 3\n3 | 4\n4 | 42",
        ),
        (
            "SELECT type, is_ms_shipped FROM sys.all_objects WHERE name IN ('sp_help', 'xp_msver') \
             ORDER BY name",
            "'P ' | 1\n'X ' | 1",
        ),
        ("SELECT COUNT(*) FROM sys.objects WHERE is_ms_shipped = 1", "0"),
    ] {
        assert_eq!(rows(&mut *session, batch), expected, "{batch}");
    }
}

#[test]
fn procedures_describe_tables() {
    let server = Server::new();
    let mut session = server.session();
    run(&mut *session, TABLES);
    for (batch, expected) in [
        (
            "EXEC sp_help 'p'",
            &[
                "'p' | 'dbo' | 'user table' | ",
                "'id' | 'int' | 'no' | 4 | '10   ' | '0    ' | 'no' | '(n/a)' | '(n/a)' | NULL",
                "'nm' | 'varchar' | 'no' | 20 | '     ' | '     ' | 'no' | 'no' | 'no' | 'SQL_",
                "'id' | 5 | 2 | 0",
                "'No rowguidcol column defined.'",
                "'PRIMARY'",
                "'ix' | 'nonclustered located on PRIMARY' | 'nm'",
                "'CHECK' | 'CK__p__",
                "'DEFAULT' | 'DF__p__nm__",
                "'PRIMARY KEY' | 'PK__p__",
            ][..],
        ),
        ("EXEC sp_help 'c'", &["'FOREIGN KEY' | 'fk' | 'CASCADE' | 'NO ACTION' | 'Enabled'"]),
        ("EXEC sp_help", &["'p' | 'dbo' | 'user table'", "'tables' | 'dbo' | 'view'"]),
        ("EXEC sp_help 'nosuch'", &["! 50000/16/1 ", "does not exist in database 'app'"]),
        (
            "EXEC sp_helpdb",
            &["'app' | '      2.00 MB' | 'sa' | 5 | 'Jan  1 2000' | 'Status=ONLINE"],
        ),
        ("EXEC sp_helpdb 'app'", &["| 'PRIMARY' ", "| '2048 KB' | 'Unlimited' | NULL"]),
        ("EXEC sp_helpdb 'nosuch'", &["! 50000/16/1 ", "does not exist"]),
        (
            "EXEC sp_spaceused 'p'",
            &["'p' | '3                   ' | '12 KB' | '4 KB' | '8 KB' | '0 KB'"],
        ),
        ("EXEC sp_spaceused", &["'app' | '2.00 MB' | '0.00 MB'", " KB' | '0 KB'"]),
        ("EXEC sp_who2", &["'51   ' | 'running' | 'sa' | 'here' | '  .  ' | 'app'"]),
        (
            "EXEC sp_table_privileges 'p'",
            &["'app' | 'dbo' | 'p' | 'dbo' | 'dbo' | 'DELETE' | 'YES'", "'UPDATE' | 'YES'"],
        ),
        (
            "EXEC sp_column_privileges 'p', @column_name = 'n%'",
            &["'app' | 'dbo' | 'p' | 'nm' | 'dbo' | 'dbo' | 'INSERT' | 'YES'"],
        ),
        (
            "DECLARE @m int; EXEC master.dbo.xp_instance_regread N'HKEY_LOCAL_MACHINE', \
             N'Software', N'LoginMode', @m OUTPUT; SELECT @m",
            &["2"],
        ),
        (
            "DECLARE @d nvarchar(512); EXEC xp_instance_regread N'HKEY_LOCAL_MACHINE', \
             N'Software', N'BackupDirectory', @d OUTPUT; SELECT @d",
            &["NULL"],
        ),
    ] {
        let found = rows(&mut *session, batch);
        for part in expected {
            assert!(found.contains(part), "{batch}: {part}\n{found}");
        }
    }
}

/// The messages of a batch.
fn messages(session: &mut dyn tdekit_wire_tds::Session, batch: &str) -> String {
    run(session, batch)
        .into_iter()
        .filter(|line| line.starts_with('!'))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn checkident_tells_and_sets_the_last_value() {
    let server = Server::new();
    let mut session = server.session();
    for (setup, next) in [
        ("INSERT t (v) VALUES (1); DBCC CHECKIDENT ('t', RESEED, 10)", "11"),
        ("DBCC CHECKIDENT (t, RESEED, 10)", "10"),
        ("INSERT t (v) VALUES (1); TRUNCATE TABLE t; DBCC CHECKIDENT ('dbo.t', RESEED, 0)", "0"),
        ("INSERT t (v) VALUES (1); DELETE t; DBCC CHECKIDENT (dbo.t, RESEED, -7)", "-6"),
        (
            "SET IDENTITY_INSERT t ON; INSERT t (id, v) VALUES (50, 1); SET IDENTITY_INSERT t OFF; \
             DBCC CHECKIDENT ('t', RESEED, 5); DBCC CHECKIDENT ('t')",
            "51",
        ),
        ("BEGIN TRAN; DBCC CHECKIDENT ('t', RESEED, 70); ROLLBACK", "1"),
        ("INSERT t (v) VALUES (1), (2); DBCC CHECKIDENT ('t', NORESEED)", "3"),
    ] {
        run(&mut *session, "DROP TABLE IF EXISTS t; CREATE TABLE t (id int IDENTITY, v int)");
        run(&mut *session, setup);
        let batch = "INSERT t (v) VALUES (9); SELECT id FROM t WHERE v = 9";
        assert_eq!(rows(&mut *session, batch), next, "{setup}");
    }
    let told = rows(&mut *session, "DBCC CHECKIDENT ('t', NORESEED)");
    assert!(told.contains("current identity value '3', current column value '3'."), "{told}");
    let told = rows(&mut *session, "DBCC CHECKIDENT ('t', RESEED, 20)");
    assert!(told.contains("current identity value '3'."), "{told}");
    assert_eq!(rows(&mut *session, "DBCC CHECKIDENT ('t') WITH NO_INFOMSGS"), "");
    run(&mut *session, "CREATE TABLE n (a int); CREATE TABLE y (id tinyint IDENTITY)");
    for (batch, number) in [
        ("DBCC CHECKIDENT ('nosuch')", 2501),
        ("DBCC CHECKIDENT (n)", 7997),
        ("DBCC CHECKIDENT (y, RESEED, 300)", 2560),
        ("DBCC CHECKIDENT (y, AGAIN)", 2560),
    ] {
        let found = rows(&mut *session, batch);
        assert!(found.starts_with(&format!("! {number}/16/")), "{batch}: {found}");
    }
}

#[test]
fn checkdb_finds_damage_and_opentran_the_oldest() {
    let server = Server::new();
    let mut session = server.session();
    run(&mut *session, TABLES);
    let told = messages(&mut *session, "DBCC CHECKDB");
    for part in [
        "DBCC results for 'app'.",
        "There are 3 rows in 1 pages for object \"p\".",
        "CHECKDB found 0 allocation errors and 0 consistency errors in database 'app'.",
        "DBCC execution completed.",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let set = "SET DATEFORMAT dmy; SET ARITHIGNORE ON; SET XACT_ABORT ON; DBCC USEROPTIONS";
    let shown = rows(&mut *server.session(), set);
    for line in [
        "'dateformat' | 'dmy'",
        "'xact_abort' | 'SET'",
        "'arithignore' | 'SET'",
        "'lock_timeout' | '-1'",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}: {shown}");
    }
    assert!(!shown.contains("nocount"), "{shown}");
    let told = messages(&mut *session, "DBCC CHECKDB ('app') WITH PHYSICAL_ONLY");
    assert!(!told.contains("rows in"), "{told}");
    assert_eq!(rows(&mut *session, "DBCC CHECKDB (5, NOINDEX) WITH NO_INFOMSGS"), "");
    let told = rows(&mut *session, "DBCC CHECKDB ('nosuch')");
    assert!(told.starts_with("! 2520/16/5"), "{told}");
    assert!(rows(&mut *session, "DBCC CHECKDB (app, REPAIR_REBUILD)").starts_with("! 40517/"));

    // a row that the index does not have
    let file = server.directory.path().join("app.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    let damage =
        "CREATE TABLE raw (a TEXT); CREATE INDEX rx ON raw (a); INSERT INTO raw VALUES ('x');
        CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'rx';
        PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'rx';
        PRAGMA writable_schema = RESET; INSERT INTO raw VALUES ('y');
        PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM kept;
        PRAGMA writable_schema = RESET;";
    connection.execute_batch(damage).unwrap();
    let mut other = server.session();
    let told = rows(&mut *other, "DBCC CHECKDB WITH NO_INFOMSGS");
    assert!(told.starts_with("! 50000/16/1"), "{told}");
    assert!(told.contains("row 2 missing from index rx"), "{told}");

    assert!(rows(&mut *session, "DBCC OPENTRAN").contains("No active open transactions."));
    run(&mut *session, "BEGIN TRAN; UPDATE p SET nm = 'z'");
    let told = rows(&mut *other, "DBCC OPENTRAN ('app')");
    for part in ["for database 'app'", "(server process ID): 51", "user_transaction", "Start time"]
    {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let told = rows(&mut *other, "DBCC OPENTRAN WITH TABLERESULTS, NO_INFOMSGS");
    let lines: Vec<&str> = told.lines().collect();
    let known =
        ["'OLDACT_SPID' | '51'", "'OLDACT_UID' | '-1'", "'OLDACT_NAME' | 'user_transaction'"];
    assert_eq!(lines[..3], known, "{told}");
    assert!(lines[3].starts_with("'OLDACT_STARTTIME' | '") && lines.len() == 4, "{told}");
    let kept = "CREATE TABLE #o (a varchar(25), b varchar(99));
         INSERT #o EXEC ('DBCC OPENTRAN WITH TABLERESULTS, NO_INFOMSGS'); SELECT COUNT(*) FROM #o";
    assert_eq!(rows(&mut *session, kept), "4");
    run(&mut *session, "COMMIT");
    let told = rows(&mut *other, "DBCC OPENTRAN WITH TABLERESULTS");
    assert!(told.contains("No active open transactions."), "{told}");
    assert!(rows(&mut *other, "DBCC OPENTRAN").contains("No active open transactions."));
}

#[test]
fn properties_belong_to_what_they_describe() {
    let server = Server::new();
    let mut session = server.session();
    run(&mut *session, TABLES);
    run(&mut *session, "CREATE SCHEMA s");
    run(&mut *session, "CREATE VIEW v AS SELECT nm AS n FROM p");
    let add = "EXEC sp_addextendedproperty N'MS_Description', N'about";
    for (owner, of) in [
        ("", "database"),
        (", 'SCHEMA', 's'", "s"),
        (", 'SCHEMA', 'dbo', 'TABLE', 'p'", "p"),
        (", 'schema', 'dbo', 'table', 'p', 'column', 'NM'", "p.nm"),
        (", 'USER', 'dbo', 'VIEW', 'v', 'COLUMN', 'n'", "v.n"),
    ] {
        assert_eq!(rows(&mut *session, &format!("{add} {of}'{owner}")), "status 0", "{of}");
    }
    for (batch, expected) in [
        (
            "SELECT class, class_desc, OBJECT_NAME(major_id), minor_id, name, value FROM \
             sys.extended_properties WHERE class <> 3",
            "0 | 'DATABASE' | NULL | 0 | 'MS_Description' | 'about database'\n\
             1 | 'OBJECT_OR_COLUMN' | 'p' | 0 | 'MS_Description' | 'about p'\n\
             1 | 'OBJECT_OR_COLUMN' | 'p' | 2 | 'MS_Description' | 'about p.nm'\n\
             1 | 'OBJECT_OR_COLUMN' | 'v' | 1 | 'MS_Description' | 'about v.n'",
        ),
        ("SELECT SCHEMA_NAME(major_id) FROM sys.extended_properties WHERE class = 3", "'s'"),
        (
            "SELECT c.name, CAST(e.value AS nvarchar(4000)) FROM sys.columns AS c LEFT JOIN \
             sys.extended_properties AS e ON e.major_id = c.object_id AND e.minor_id = c.column_id \
             AND e.class = 1 AND e.name = 'MS_Description' WHERE c.object_id = OBJECT_ID('p')",
            "'id' | NULL\n'nm' | 'about p.nm'\n'q' | NULL",
        ),
        (
            "SELECT * FROM fn_listextendedproperty(default, default, default, default, default, \
             default, default)",
            "NULL | NULL | 'MS_Description' | 'about database'",
        ),
        (
            "SELECT objtype, objname, value FROM sys.fn_listextendedproperty(NULL, 'schema', \
             'dbo', 'table', default, default, default)",
            "'TABLE' | 'p' | 'about p'",
        ),
        (
            "SELECT objname, value FROM fn_listextendedproperty(N'MS_Description', N'SCHEMA', \
             N'dbo', N'TABLE', N'p', N'COLUMN', NULL)",
            "'nm' | 'about p.nm'",
        ),
        (
            "SELECT objname FROM fn_listextendedproperty('other', 'SCHEMA', NULL, NULL, \
             NULL, NULL, NULL)",
            "",
        ),
    ] {
        assert_eq!(rows(&mut *session, batch), expected, "{batch}");
    }
    let table = "@level0type = 'SCHEMA', @level0name = 'dbo', @level1type = 'TABLE', @level1name";
    for (batch, number, part) in [
        (format!("{add}', 'SCHEMA', 'dbo', 'TABLE', 'p'"), 15233, "already exists for 'dbo.p'"),
        (format!("EXEC sp_updateextendedproperty 'x', 'y', {table} = 'p'"), 15217, "'dbo.p'"),
        (format!("EXEC sp_dropextendedproperty 'x', {table} = 'p'"), 15217, "Property 'x'"),
        (format!("EXEC sp_addextendedproperty 'x', 'y', {table} = 'no'"), 15135, "'dbo.no'"),
        (format!("{add}', 'SCHEMA', 'none'"), 15135, "on 'none'"),
        (format!("{add}', 'SCHEMA', 'dbo', 'TABLE'"), 15600, "sp_addextendedproperty"),
        (format!("{add}', 'ASSEMBLY', 'a'"), 40512, "ASSEMBLY"),
    ] {
        let found = rows(&mut *session, &batch);
        assert!(
            found.starts_with(&format!("! {number}/")) && found.contains(part),
            "{batch}: {found}"
        );
    }
}

#[test]
fn properties_follow_names_and_go_with_their_objects() {
    let server = Server::new();
    let mut session = server.session();
    run(&mut *session, "CREATE TABLE p (id int, nm int, x int)");
    let of = "'SCHEMA', 'dbo', 'TABLE', 'p'";
    run(&mut *session, &format!("EXEC sp_addextendedproperty 'd', 'of p', {of}"));
    run(&mut *session, &format!("EXEC sp_addextendedproperty 'd', 'of nm', {of}, 'COLUMN', 'nm'"));
    run(&mut *session, &format!("EXEC sp_addextendedproperty 'd', 'of x', {of}, 'COLUMN', 'x'"));
    let all = "SELECT OBJECT_NAME(major_id), COL_NAME(major_id, minor_id), value FROM \
               sys.extended_properties";
    for (batch, expected) in [
        (
            "BEGIN TRAN; DROP TABLE p; ROLLBACK",
            "'p' | NULL | 'of p'\n'p' | 'nm' | 'of nm'\n'p' | 'x' | 'of x'",
        ),
        ("ALTER TABLE p DROP COLUMN x", "'p' | NULL | 'of p'\n'p' | 'nm' | 'of nm'"),
        ("ALTER TABLE p ADD x int", "'p' | NULL | 'of p'\n'p' | 'nm' | 'of nm'"),
        ("EXEC sp_rename 'p.nm', 'k', 'COLUMN'", "'p' | NULL | 'of p'\n'p' | 'k' | 'of nm'"),
        ("EXEC sp_rename 'p', 'q'", "'q' | NULL | 'of p'\n'q' | 'k' | 'of nm'"),
        (
            "EXEC sp_updateextendedproperty @name = 'd', @value = 7, @level0type = 'SCHEMA', \
             @level0name = 'dbo', @level1type = 'TABLE', @level1name = 'q'",
            "'q' | NULL | '7'\n'q' | 'k' | 'of nm'",
        ),
        (
            "EXEC sp_dropextendedproperty 'd', 'SCHEMA', 'dbo', 'TABLE', 'q', 'COLUMN', 'k'",
            "'q' | NULL | '7'",
        ),
        ("DROP TABLE q; CREATE TABLE q (k int)", ""),
    ] {
        run(&mut *session, batch);
        assert_eq!(rows(&mut *session, all), expected, "{batch}");
    }
}
