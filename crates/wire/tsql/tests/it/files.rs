//! Files of databases: what statements ask of the host.

use crate::common::{Server, rows, run};

const KEY: &str =
    "N'HKEY_LOCAL_MACHINE', N'Software\\Microsoft\\MSSQLServer\\MSSQLServer', N'DefaultLog'";

#[test]
fn statements_on_files_reach_the_host() {
    let server = Server::new();
    let mut session = server.session();
    for (batch, expected) in [
        (
            "CREATE DATABASE awHDD ON (filename='D:\\CTP2_Data\\awHDD.mdf') FOR \
             ATTACH_REBUILD_LOG;",
            "CreateDatabase { name: \"awHDD\", files: [DatabaseFile { name: None, file: \
             \"D:\\\\CTP2_Data\\\\awHDD.mdf\" }], logs: [], attach: true }",
        ),
        (
            "CREATE DATABASE a CONTAINMENT = NONE ON PRIMARY (NAME = N'a_d', FILENAME = N'a.mdf', \
             SIZE = 8192KB, MAXSIZE = UNLIMITED, FILEGROWTH = 10%) LOG ON (NAME = a_l, FILENAME = \
             'a.ldf', SIZE = 1 GB, MAXSIZE = 2048GB, FILEGROWTH = 65536) COLLATE \
             SQL_Latin1_General_CP1_CI_AS",
            "CreateDatabase { name: \"a\", files: [DatabaseFile { name: Some(\"a_d\"), file: \
             \"a.mdf\" }], logs: [DatabaseFile { name: Some(\"a_l\"), file: \"a.ldf\" }], \
             attach: false }",
        ),
        (
            "ALTER DATABASE awHDD MODIFY FILE (NAME = N'AdventureWorks2012_Data', FILEGROWTH = \
             512000KB)",
            "alter awHDD ModifyFile(ModifyFile { name: \"AdventureWorks2012_Data\", new_name: \
             None, file: None, sizes: true })",
        ),
        (
            "ALTER DATABASE a MODIFY FILE (NAME = b, NEWNAME = [c d])",
            "alter a ModifyFile(ModifyFile { name: \"b\", new_name: Some(\"c d\"), file: None, \
             sizes: false })",
        ),
        ("EXEC sp_detach_db N'other', 'true'", "detach other"),
        ("EXEC master.dbo.sp_detach_db @dbname = other", "detach other"),
        (
            "DECLARE @d datetime = '2020-01-02 00:00:00.5'; EXEC msdb.dbo.sp_delete_backuphistory \
             @oldest_date = @d",
            "history before 1577923200500",
        ),
        ("EXEC msdb.dbo.sp_delete_backuphistory '20200102'", "history before 1577923200000"),
    ] {
        let told = run(&mut *session, batch);
        assert!(!told.iter().any(|line| line.starts_with('!')), "{batch}: {told:?}");
        assert_eq!(server.host.verbs.lock().unwrap().pop().as_deref(), Some(expected), "{batch}");
    }
    let read =
        format!("DECLARE @p nvarchar(260); EXEC xp_instance_regread {KEY}, @p OUTPUT; SELECT @p");
    assert!(rows(&mut *session, &read).ends_with("\n'E:\\logs'"));
    let read = format!("EXEC master.dbo.xp_instance_regread {KEY}");
    assert!(rows(&mut *session, &read).starts_with("'DefaultLog' | 'E:\\logs'"));
    // Without an own database's log, the test's host has one file.
    let files = rows(&mut *session, "EXEC sp_helpfile 'app'");
    assert!(
        files.contains("| 'PRIMARY' | '2048 KB' | 'Unlimited' | NULL | 'data only'"),
        "{files}"
    );
}

#[test]
fn files_that_make_no_sense_are_refused() {
    let server = Server::new();
    let mut session = server.session();
    for (batch, number) in [
        ("CREATE DATABASE a ON (NAME = a)", 102),
        ("CREATE DATABASE a ON (FILENAME = 'a', FILENAME = 'b')", 102),
        ("CREATE DATABASE a ON (FILENAME = 'a', NEWNAME = 'b')", 102),
        ("CREATE DATABASE a ON (FILENAME = 'a', SIZE = -1)", 102),
        ("CREATE DATABASE a ON (FILENAME = 'a') FOR LOAD", 102),
        ("CREATE DATABASE a FOR ATTACH", 102),
        ("CREATE DATABASE a LOG ON (FILENAME = 'a')", 102),
        ("ALTER DATABASE a MODIFY FILE (FILEGROWTH = 1MB)", 102),
        ("ALTER DATABASE a MODIFY FILE (NAME = a, NAME = b)", 102),
        ("EXEC sp_detach_db", 201),
        ("EXEC sp_detach_db 'app'", 3703),
        ("BEGIN TRAN; EXEC sp_detach_db 'other'", 226),
        ("EXEC msdb.dbo.sp_delete_backuphistory", 201),
        ("EXEC msdb.dbo.sp_delete_backuphistory 'soon'", 241),
        ("EXEC sp_helpfile 'nosuch'", 15325),
        (
            "EXEC xp_instance_regwrite N'HKEY_LOCAL_MACHINE', N'Software', N'DefaultLog', REG_SZ, \
             'x'",
            40512,
        ),
        (&format!("EXEC xp_instance_regwrite {KEY}, REG_DWORD, 1"), 40512),
        (
            &format!("EXEC xp_instance_regwrite {}, REG_SZ, 'x'", KEY.replace("DefaultLog", "Run")),
            40512,
        ),
    ] {
        let told = run(&mut *session, batch).join("\n");
        assert!(told.contains(&format!("! {number}/")), "{batch}: {told}");
        run(&mut *session, "IF @@TRANCOUNT > 0 ROLLBACK");
    }
    assert_eq!(*server.host.verbs.lock().unwrap(), [""; 0]);
}
