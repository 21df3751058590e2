//! Databases whose files have places that statements name: attached, made, restored, refused.

use std::fs;
use std::os::unix::fs::symlink;

use tdekit_wire_tds::Value;

use crate::common::Place;
use crate::serve_drives::map_drives;
use crate::served::{CERTIFICATE, Client, PASSWORD, Served, int, messages, ok, one, script, text};

const ATTACH: &str = include_str!("../../../tsql/tests/scripts/b-attach.sql");
const KEYS: &str = include_str!("../../../tsql/tests/scripts/b-keys.sql");
const KEY_BACKUPS: &str = include_str!("../../../tsql/tests/scripts/b-key-backups.sql");
const BACKUPS: &str = include_str!("../../../tsql/tests/scripts/b-backups.sql");
const HISTORY: &str = include_str!("../../../tsql/tests/scripts/b-history.sql");
const KEY: &str = "N'HKEY_LOCAL_MACHINE', N'Software\\Microsoft\\MSSQLServer\\MSSQLServer'";

fn fresh() -> Served {
    let place = Place::empty();
    map_drives(&place);
    Served::of(place)
}

fn with_certificate() -> Served {
    let place = Place::with_store();
    place.ok(["cert", "create", CERTIFICATE]);
    map_drives(&place);
    Served::of(place)
}

/// Makes a database in this file and detaches it.
fn made(client: &mut Client, file: &str) {
    ok(
        client,
        &format!(
            "CREATE DATABASE made ON (NAME = AdventureWorks2012_Data, FILENAME = '{file}.mdf')
             LOG ON (NAME = AdventureWorks2012_Log, FILENAME = '{file}.ldf')"
        ),
    );
    ok(client, "USE made");
    ok(client, "CREATE TABLE t (a varchar(100)); INSERT t VALUES (REPLICATE('a', 100))");
    ok(client, "USE master");
    ok(client, "EXEC sp_detach_db 'made'");
}

fn texts(client: &mut Client, query: &str) -> Vec<Vec<String>> {
    let shown = |value: &Value<'_>| match value {
        Value::Int(int) => int.to_string(),
        Value::Null => "NULL".to_owned(),
        other => text(other).trim_end().to_owned(),
    };
    ok(client, query).values().iter().map(|row| row.iter().map(shown).collect()).collect()
}

#[test]
fn document_b_runs_as_it_is_printed() {
    let served = fresh();
    let mut client = served.client();
    made(&mut client, "D:\\CTP2_Data\\awHDD");
    made(&mut client, "E:\\CTP2_Data\\awSSD");

    script(&mut client, ATTACH);
    let log = format!(
        "DECLARE @p nvarchar(99); EXEC xp_instance_regread {KEY}, N'DefaultLog', @p \
                       OUTPUT; SELECT @p"
    );
    assert_eq!(text(&one(&mut client, &log)), "E:\\CTP2_Data");
    ok(&mut client, "USE awHDD");
    let files = texts(&mut client, "EXEC sp_helpfile");
    let names: Vec<_> = files.iter().map(|row| (&*row[0], &*row[1], &*row[2], &*row[7])).collect();
    assert_eq!(
        names,
        [
            ("AdventureWorks2012_Data", "1", "D:\\CTP2_Data\\awHDD.mdf", "data only"),
            ("AdventureWorks2012_Log", "2", "D:\\CTP2_Data\\awHDD.mdf-wal", "log only"),
        ]
    );
    assert!(files[0][4].ends_with(" KB") && files[0][4] != "0 KB", "{files:?}");
    assert_eq!(texts(&mut client, "EXEC sp_helpfile AdventureWorks2012_Log").len(), 1);
    let model = "SELECT recovery_model_desc FROM sys.databases WHERE name = 'awSSD'";
    assert_eq!(text(&one(&mut client, model)), "FULL");

    script(&mut client, KEYS);
    script(&mut client, KEY_BACKUPS);
    // One of the two is encrypted from here on.
    ok(
        &mut client,
        "USE awSSD; CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER
         CERTIFICATE TestCert; USE master; ALTER DATABASE awSSD SET ENCRYPTION ON",
    );
    let answer = ok(&mut client, &BACKUPS.replace("--EXEC", "EXEC"));
    let done = messages(&answer).iter().filter(|message| message.number == 3014).count();
    assert_eq!(done, 40);
    let count = |disk: &str| fs::read_dir(served.place.path(disk).join("backup")).unwrap().count();
    assert_eq!((count("D"), count("E")), (20, 20));
    let rows = ok(&mut client, HISTORY).values();
    assert_eq!(rows.len(), 40);
    assert_eq!(text(&rows[0][0]), "test01-NO_ENCRYPTION-HDD-to-HDD-COMPRESSION");
    assert!(rows.iter().all(|row| row.iter().all(|value| *value != Value::Null)));

    let plain = "D:\\backup\\test02-NO_ENCRYPTION-HDD-to-HDD-NO_COMPRESSION.bak";
    let sealed = "ENCRYPTION (ALGORITHM = AES_256, SERVER CERTIFICATE = TestCert)";
    let append = format!("BACKUP DATABASE awHDD TO DISK = '{plain}' WITH {sealed}");
    assert_eq!(client.batch(&append).errors(), [3095, 3013]);

    let left = "SELECT COUNT(*) FROM msdb.dbo.backupset";
    let early = "EXEC msdb.dbo.sp_delete_backuphistory @oldest_date = '2020-01-01'";
    ok(&mut client, early);
    assert_eq!(int(&mut client, left), 40);
    ok(&mut client, "EXEC msdb.dbo.sp_delete_database_backuphistory 'awHDD'");
    assert_eq!(int(&mut client, left), 20);
    ok(
        &mut client,
        "DECLARE @d datetime = DATEADD(day, 1, GETUTCDATE());
         EXEC msdb.dbo.sp_delete_backuphistory @oldest_date = @d",
    );
    assert_eq!(int(&mut client, left), 0);
}

#[test]
fn an_attached_database_stays_until_it_is_detached_or_dropped() {
    let mut served = with_certificate();
    let mut client = served.client();
    made(&mut client, "D:\\CTP2_Data\\shelf");
    ok(&mut client, "CREATE DATABASE shelf ON (FILENAME = 'd:/CTP2_Data/shelf.mdf') FOR ATTACH");
    ok(
        &mut client,
        "USE shelf; CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER
         CERTIFICATE TestCert; USE master; ALTER DATABASE shelf SET ENCRYPTION ON;
         USE shelf; INSERT t VALUES ('late'); ALTER DATABASE shelf SET RECOVERY FULL",
    );
    // A copy of file and log, as after a crash: SQLite takes the log.
    for (from, to) in [("shelf.mdf", "hot.mdf"), ("shelf.mdf-wal", "hot.mdf-wal")] {
        let dir = served.place.path("D/CTP2_Data");
        fs::copy(dir.join(from), dir.join(to)).unwrap();
    }
    assert!(fs::metadata(served.place.path("D/CTP2_Data/hot.mdf-wal")).unwrap().len() > 0);
    ok(
        &mut client,
        "CREATE DATABASE hot ON (FILENAME = 'D:\\CTP2_Data\\hot.mdf') FOR ATTACH_REBUILD_LOG",
    );
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM hot.dbo.t"), 2);
    drop(client);
    assert!(served.terminate().success());
    served.start();
    let mut client = served.client();
    let facts = "SELECT is_encrypted, recovery_model_desc FROM sys.databases WHERE name = 'shelf'";
    assert_eq!(ok(&mut client, facts).values(), [[Value::Bit(true), Value::Text("FULL".into())]]);
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM shelf.dbo.t"), 2);
    // A file of its name in the served directory does not take its place.
    ok(&mut client, "CREATE DATABASE other");
    fs::copy(served.data("other.db"), served.data("shelf.db")).unwrap();
    assert_eq!(int(&mut served.client(), "SELECT COUNT(*) FROM shelf.dbo.t"), 2);
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM sys.databases WHERE name = 'shelf'"), 1);
    fs::remove_file(served.data("shelf.db")).unwrap();

    ok(&mut client, "EXEC sp_detach_db 'hot'");
    assert_eq!(client.batch("USE hot").errors(), [911]);
    assert!(served.place.path("D/CTP2_Data/hot.mdf").is_file());
    ok(&mut client, "DROP DATABASE shelf");
    for file in ["shelf.mdf", "shelf.mdf-wal", "shelf.mdf-tsql"] {
        assert!(!served.place.path("D/CTP2_Data").join(file).exists(), "{file}");
    }
    assert!(!served.data("master.db-tsql").exists());

    // Without the file, the name is taken and nothing is made in its place.
    ok(&mut client, "CREATE DATABASE hot ON (FILENAME = 'D:\\CTP2_Data\\hot.mdf') FOR ATTACH");
    let hot = served.place.path("D/CTP2_Data/hot.mdf");
    fs::rename(&hot, served.place.path("hot")).unwrap();
    let answer = client.batch("SELECT * FROM hot.dbo.t");
    assert_eq!(answer.errors(), [945], "{:?}", messages(&answer));
    assert_eq!(client.batch("CREATE DATABASE hot").errors(), [1801]);
    fs::rename(served.place.path("hot"), &hot).unwrap();
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM hot.dbo.t"), 2);
    fs::remove_file(&hot).unwrap();
    ok(&mut client, "DROP DATABASE hot; CREATE DATABASE hot");
}

#[test]
fn directories_of_the_registry_are_used() {
    let served = fresh();
    let mut client = served.client();
    let write = |name: &str, value: &str| {
        format!("EXEC xp_instance_regwrite {KEY}, N'{name}', REG_SZ, N'{value}'")
    };
    ok(&mut client, &write("DefaultData", "D:\\CTP2_Data\\"));
    ok(&mut client, &write("BackupDirectory", "E:\\backup"));
    ok(&mut client, "CREATE DATABASE shop");
    assert!(served.place.path("D/CTP2_Data/shop.mdf").is_file());
    fs::create_dir(served.place.path("D/CTP2_Data/inner")).unwrap();
    assert_eq!(client.batch("CREATE DATABASE [inner\\z]").errors(), [50000]);
    assert!(!served.place.path("D/CTP2_Data/inner/z.mdf").exists());
    ok(&mut client, "USE shop; CREATE TABLE t (a int); INSERT t VALUES (7)");
    ok(&mut client, "BACKUP DATABASE shop TO DISK = 'shop.bak'");
    assert!(served.place.path("E/backup/shop.bak").is_file());
    ok(&mut client, &write("DefaultData", ""));
    ok(
        &mut client,
        "RESTORE DATABASE copy FROM DISK = 'shop.bak' WITH MOVE 'shop' TO 'E:\\CTP2_Data\\copy.mdf',
         MOVE 'shop_log' TO 'E:\\CTP2_Data\\copy.ldf'",
    );
    assert!(served.place.path("E/CTP2_Data/copy.mdf").is_file());
    assert_eq!(int(&mut client, "SELECT a FROM copy.dbo.t"), 7);
    let over = "RESTORE DATABASE more FROM DISK = 'shop.bak' WITH MOVE 'shop' TO
        'D:\\CTP2_Data\\shop.mdf'";
    assert_eq!(client.batch(over).errors(), [5170, 3013]);
    ok(&mut client, "EXEC xp_delete_file 0, N'shop.bak'");
    for (name, value, number) in [
        ("DefaultLog", "F:\\logs", 22001),
        ("DefaultData", "D:\\nowhere", 22001),
        ("BackupDirectory", "D:\\CTP2_Data\\shop.mdf", 22001),
        ("DefaultData", "/etc", 22001),
        ("NumErrorLogs", "6", 40512),
    ] {
        assert_eq!(client.batch(&write(name, value)).errors(), [number], "{name} {value}");
    }
    ok(&mut client, "USE master; CREATE DATABASE here");
    assert!(served.data("here.db").is_file());
}

/// An attached database, one of the served directory, a backup, and files that are no databases.
fn with_files() -> (Served, Client) {
    let served = fresh();
    let mut client = served.client();
    made(&mut client, "D:\\CTP2_Data\\good");
    ok(&mut client, "CREATE DATABASE good ON (FILENAME = 'D:\\CTP2_Data\\good.mdf') FOR ATTACH");
    ok(&mut client, "CREATE DATABASE here");
    ok(&mut client, "BACKUP DATABASE here TO DISK = 'D:\\backup\\here.bak'");
    let place = &served.place;
    fs::write(
        place.path("D/text.mdf"),
        "no database, but long enough to have a header's first bytes",
    )
    .unwrap();
    fs::write(place.path("D/empty.mdf"), "").unwrap();
    symlink(served.data("master.db"), place.path("D/link.mdf")).unwrap();
    (served, client)
}

/// Runs a batch that is refused with this number, and a part of its text.
fn refused(client: &mut Client, batch: &str, number: i32, part: &str) {
    let answer = client.batch(batch);
    assert_eq!(answer.errors(), [number], "{batch}: {:?}", messages(&answer));
    assert!(messages(&answer)[0].text.contains(part), "{batch}: {:?}", messages(&answer));
}

#[test]
fn what_is_no_file_of_a_database_is_refused() {
    let (served, mut client) = with_files();
    let mut refused =
        |batch: &str, number: i32, part: &str| refused(&mut client, batch, number, part);
    for (file, number, part) in [
        ("D:\\CTP2_Data\\none.mdf", 5120, "2(The system cannot find the file"),
        ("D:\\CTP2_Data\\none\\x.mdf", 5120, "2(The system cannot find the file"),
        ("D:\\CTP2_Data", 5120, "5(Access is denied.)"),
        ("D:\\CTP2_Data\\good.mdf", 5120, "32(The process cannot access the file"),
        ("here.db", 5120, "32(The process cannot access the file"),
        ("D:\\text.mdf", 5171, "D:\\text.mdf is not a primary database file."),
        ("D:\\empty.mdf", 5171, "not a primary"),
        ("D:\\backup\\here.bak", 5171, "not a primary"),
        ("D:\\link.mdf", 5120, "leads out of the directory"),
        ("D:\\..\\data\\here.db", 5120, "leads out of the directory"),
        ("F:\\x.mdf", 5120, "drives of [serve]"),
        ("/etc/passwd", 5120, "drives of [serve]"),
        ("master.db", 5120, "5(Access is denied.)"),
        ("good.mdf-wal", 5120, "5(Access is denied.)"),
    ] {
        refused(&format!("CREATE DATABASE x ON (FILENAME = '{file}') FOR ATTACH"), number, part);
    }
    let attach = "ON (FILENAME = 'D:\\CTP2_Data\\good.mdf') FOR ATTACH";
    refused(&format!("CREATE DATABASE good {attach}"), 1801, "already exists");
    refused(&format!("CREATE DATABASE here {attach}"), 1801, "already exists");
    for (file, number, part) in [
        ("D:\\CTP2_Data\\good.mdf", 5170, "already exists"),
        ("D:\\none\\x.mdf", 5133, "2(The system cannot find the file"),
        ("F:\\x.mdf", 5133, "drives of [serve]"),
        ("D:\\link.mdf", 5133, "leads out of the directory"),
        ("master.sqlite", 5123, "5(Access is denied.)"),
        ("D:\\x.mdf-wal", 5123, "5(Access is denied.)"),
    ] {
        refused(&format!("CREATE DATABASE x ON (NAME = x, FILENAME = '{file}')"), number, part);
    }
    assert!(!served.place.path("D/x.mdf").exists());
}

#[test]
fn files_have_logical_names() {
    let (served, mut client) = with_files();
    for (batch, number, part) in [
        (
            "CREATE DATABASE x ON (NAME = x, FILENAME = 'D:\\x.mdf') LOG ON (NAME = X, FILENAME = \
             'D:\\x.ldf')",
            1828,
            "\"X\" is already in use",
        ),
        (
            "CREATE DATABASE x ON (FILENAME = 'D:\\x.mdf'), (FILENAME = 'D:\\x.ndf')",
            40512,
            "more than one file",
        ),
        ("ALTER DATABASE good MODIFY FILE (NAME = x, SIZE = 1MB)", 5041, "File 'x' does not exist"),
        (
            "ALTER DATABASE good MODIFY FILE (NAME = AdventureWorks2012_Log, NEWNAME = \
             'adventureworks2012_data')",
            1828,
            "already in use",
        ),
        ("ALTER DATABASE here MODIFY FILE (NAME = here, FILENAME = 'x')", 40512, "FILENAME"),
        ("EXEC sp_detach_db 'here'", 50000, "every database in the served directory"),
        ("EXEC sp_detach_db 'none'", 911, "none"),
        ("ALTER DATABASE none MODIFY FILE (NAME = a, SIZE = 1MB)", 911, "none"),
    ] {
        refused(&mut client, batch, number, part);
    }
    // Backups do not overwrite what is beside an attached file.
    for file in ["good.mdf", "good.mdf-wal", "good.mdf-tsql"] {
        let batch = format!("BACKUP DATABASE here TO DISK = 'D:\\CTP2_Data\\{file}' WITH FORMAT");
        assert_eq!(client.batch(&batch).errors(), [3201, 3013], "{file}");
    }
    assert!(!served.place.path("D/x.mdf").exists());
    ok(
        &mut client,
        "ALTER DATABASE here MODIFY FILE (NAME = here, NEWNAME = first);
         ALTER DATABASE here MODIFY FILE (NAME = here_log, NEWNAME = second);
         ALTER DATABASE here MODIFY FILE (NAME = FIRST, SIZE = 1MB); USE here",
    );
    let names = "SELECT name FROM sys.database_files ORDER BY file_id";
    assert_eq!(texts(&mut client, names), [["first"], ["second"]]);
}

#[test]
fn files_are_for_sysadmins() {
    let served = fresh();
    let mut sa = served.client();
    made(&mut sa, "D:\\CTP2_Data\\good");
    ok(&mut sa, &format!("CREATE LOGIN ann WITH PASSWORD = '{PASSWORD}'; CREATE DATABASE app"));
    ok(&mut sa, "USE app; CREATE USER ann; ALTER ROLE db_owner ADD MEMBER ann");
    let mut ann = served.client_of("ann", "app");
    let attach = "CREATE DATABASE good ON (FILENAME = 'D:\\CTP2_Data\\good.mdf') FOR ATTACH";
    for (batch, number) in [
        (attach, 262),
        ("CREATE DATABASE x ON (NAME = x, FILENAME = 'D:\\x.mdf')", 262),
        ("EXEC sp_detach_db 'app'", 229),
        (&format!("EXEC xp_instance_regwrite {KEY}, N'DefaultLog', REG_SZ, 'D:\\'"), 229),
        ("EXEC msdb.dbo.sp_delete_backuphistory '2040-01-01'", 229),
        ("RESTORE DATABASE x FROM DISK = 'D:\\x.bak'", 262),
        ("BACKUP DATABASE app TO DISK = 'D:\\backup\\app.bak'", 15247),
        ("BACKUP DATABASE app TO DISK = 'D:app.bak'", 15247),
    ] {
        assert_eq!(ann.batch(batch).errors()[0], number, "{batch}");
    }
    assert!(!served.place.path("D/backup/app.bak").exists());
    ok(&mut sa, attach);
    assert_eq!(ann.batch("USE good").errors(), [916]);
    let shown = "SELECT COUNT(*) FROM sys.master_files WHERE physical_name LIKE '%good%'";
    assert_eq!(int(&mut ann, shown), 0);
    assert_eq!(int(&mut sa, shown), 2);
}

#[test]
fn an_encrypted_file_is_attached_where_its_certificate_is() {
    let served = with_certificate();
    let mut client = served.client();
    made(&mut client, "D:\\CTP2_Data\\shelf");
    ok(&mut client, "CREATE DATABASE shelf ON (FILENAME = 'D:\\CTP2_Data\\shelf.mdf') FOR ATTACH");
    ok(
        &mut client,
        "USE shelf; CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256 ENCRYPTION BY SERVER
         CERTIFICATE TestCert; USE master; ALTER DATABASE shelf SET ENCRYPTION ON;
         EXEC sp_detach_db 'shelf'",
    );
    let file = served.place.path("D/CTP2_Data/shelf.mdf");
    for (other, number) in [(fresh(), 15581), (with_certificate(), 33111)] {
        fs::copy(&file, other.place.path("E/shelf.mdf")).unwrap();
        let mut client = other.client();
        let attach = "CREATE DATABASE shelf ON (FILENAME = 'E:\\shelf.mdf') FOR ATTACH";
        assert_eq!(client.batch(attach).errors(), [number]);
        assert_eq!(int(&mut client, "SELECT COUNT(*) FROM sys.databases WHERE name = 'shelf'"), 0);
    }
    ok(&mut client, "CREATE DATABASE moved ON (FILENAME = 'D:\\CTP2_Data\\shelf.mdf') FOR ATTACH");
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM moved.dbo.t"), 1);
}

#[test]
fn the_key_store_is_out_of_reach() {
    let place = Place::with_store();
    map_drives(&place);
    // The directory of the key store itself, and the one that it is in.
    let config = "[serve]\ndrives = { K = \".\", P = \"..\" }\n";
    fs::write(place.home().join("config.toml"), config).unwrap();
    let served = Served::of(place);
    let mut client = served.client();
    // The history of backups is an SQLite database there.
    ok(&mut client, "CREATE DATABASE shop; BACKUP DATABASE shop TO DISK = 'shop.bak'");
    let name = tdekit_key_store::HISTORY_FILE_NAME;
    assert!(served.place.home().join(name).is_file());
    for file in [format!("K:\\{name}"), format!("P:\\home\\{name}")] {
        let attach = format!("CREATE DATABASE x ON (FILENAME = '{file}') FOR ATTACH");
        refused(&mut client, &attach, 5120, "5(Access is denied.)");
    }
    let make = "CREATE DATABASE x ON (NAME = x, FILENAME = 'P:\\home\\serve\\x.mdf')";
    refused(&mut client, make, 5123, "5(Access is denied.)");
}
