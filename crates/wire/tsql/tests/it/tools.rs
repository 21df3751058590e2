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
    run(&mut *session, "COMMIT");
    assert!(rows(&mut *other, "DBCC OPENTRAN").contains("No active open transactions."));
}
