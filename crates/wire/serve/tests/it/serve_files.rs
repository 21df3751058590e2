//! Files of databases that come and go while sessions use their names.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tdekit_wire_tds::Value;

use crate::common::Place;
use crate::serve_drives::map_drives;
use crate::served::{CERTIFICATE, Client, Served, int, messages, ok, one, text};

/// Duration of a race, in which the wrong file was opened some hundred times.
const RACE: Duration = Duration::from_secs(3);

fn fresh() -> Served {
    let place = Place::empty();
    map_drives(&place);
    Served::of(place)
}

/// Errors of a session whose database is detached, attached or replaced meanwhile.
const GONE: [i32; 5] = [208, 911, 927, 945, 952];

/// A file in the server's own directory has the unresolved name, and must be left alone.
fn race(served: &Served, swap: &str) {
    let decoy = served.place.path("D:\\at.mdf");
    let file = Connection::open(&decoy).unwrap();
    file.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES('DECOY')").unwrap();
    drop(file);
    let before = fs::read(&decoy).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = served.client();
                while !done.load(Ordering::Relaxed) {
                    for batch in ["INSERT at.dbo.t VALUES (7)", "SELECT TOP 1 a FROM at.dbo.t"] {
                        let answer = client.batch(batch);
                        let gone = answer.errors().iter().all(|number| GONE.contains(number));
                        assert!(gone, "{batch}: {:?}", messages(&answer));
                        if answer.errors().is_empty() {
                            // So that the other side gets the file.
                            thread::sleep(Duration::from_millis(3));
                        }
                        for row in answer.values() {
                            assert_eq!(row, [Value::Int(7)]);
                        }
                    }
                }
            });
        }
        let mut client = served.client();
        let until = Instant::now() + RACE;
        let mut swaps = 0;
        while Instant::now() < until {
            // 3702, 3703, 3101: a session uses it.
            let answer = client.batch(swap);
            let busy = answer.errors().iter().all(|it| [1801, 3013, 3101, 3702, 3703].contains(it));
            assert!(busy, "{:?}", messages(&answer));
            swaps += usize::from(answer.errors().is_empty());
        }
        done.store(true, Ordering::Relaxed);
        assert!(swaps > 0, "{swaps}");
    });
    assert!(fs::read(&decoy).unwrap() == before, "the decoy was written");
    assert!(!served.place.path("D:\\at.mdf-wal").exists());
}

#[test]
fn a_name_that_is_restored_anew_leads_to_no_other_file() {
    let served = fresh();
    let mut client = served.client();
    ok(&mut client, "CREATE DATABASE at ON (NAME = at, FILENAME = 'D:\\at.mdf')");
    ok(&mut client, "USE at; CREATE TABLE t (a int); INSERT t VALUES (7)");
    ok(&mut client, "BACKUP DATABASE at TO DISK = 'E:\\backup\\at.bak'");
    drop(client);
    race(
        &served,
        "DROP DATABASE at; RESTORE DATABASE at FROM DISK = 'E:\\backup\\at.bak' WITH REPLACE,
         MOVE 'at' TO 'D:\\at.mdf'",
    );
}

#[test]
fn the_current_database_of_a_session_is_not_detached() {
    let served = fresh();
    let mut client = served.client();
    for name in ["at", "other"] {
        let made = format!("CREATE DATABASE {name} ON (NAME = x, FILENAME = 'D:\\{name}.mdf')");
        ok(&mut client, &made);
        ok(&mut client, &format!("USE {name}; CREATE TABLE t (a int); USE master"));
    }
    ok(&mut client, "EXEC sp_detach_db other");
    let mut idle = served.client_in("at");
    let detach = "EXEC sp_detach_db at";
    assert_eq!(client.batch(detach).errors(), [3703]);
    ok(&mut idle, "BEGIN TRAN");
    assert_eq!(client.batch(detach).errors(), [3703]);
    ok(&mut idle, "COMMIT; INSERT t VALUES (7); USE master");
    // A login into it, whose client is gone then.
    let login = served.client_of("sa", "at");
    assert_eq!(client.batch(detach).errors(), [3703]);
    drop(login);
    ok(&mut client, detach);
    assert_eq!(idle.batch("USE at").errors(), [911]);
    ok(&mut client, "CREATE DATABASE at ON (FILENAME = 'D:\\other.mdf') FOR ATTACH");
    assert_eq!(int(&mut idle, "SELECT COUNT(*) FROM at.dbo.t"), 0, "the row is in the other file");
}

#[test]
fn pipes_and_directories_make_nobody_wait() {
    let served = fresh();
    let mut client = served.client();
    ok(&mut client, "CREATE DATABASE at ON (NAME = at, FILENAME = 'D:\\at.mdf')");
    ok(&mut client, "CREATE DATABASE here; USE here; CREATE TABLE t (a int); USE master");
    ok(&mut client, "EXEC sp_detach_db at");
    let pipe = |path: PathBuf| {
        let (file, mode) = (FileType::Fifo, Mode::from_raw_mode(0o600));
        mknodat(CWD, &path, file, mode, 0).unwrap();
    };
    let attach = "CREATE DATABASE at ON (FILENAME = 'D:\\at.mdf') FOR ATTACH";
    let journal = served.place.path("D/at.mdf-journal");
    pipe(journal.clone());
    assert_eq!(client.batch(attach).errors(), [5120]);
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    assert_eq!(client.batch(attach).errors(), [5120]);
    fs::remove_dir(&journal).unwrap();
    ok(&mut client, attach);
    pipe(served.data("here.db-journal"));
    // A new session, which has the file not open.
    let answer = served.client().batch("SELECT COUNT(*) FROM here.dbo.t");
    assert_eq!(answer.errors(), [945], "{:?}", messages(&answer));

    pipe(served.place.path("D/pipe"));
    ok(&mut client, "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'p@ssw0rd'");
    ok(&mut client, "CREATE CERTIFICATE c WITH SUBJECT = 'c'");
    ok(&mut client, "BACKUP CERTIFICATE c TO FILE = 'D:\\c.cer'");
    let key = "WITH PRIVATE KEY (FILE = 'D:\\pipe', DECRYPTION BY PASSWORD = 'x')";
    for (batch, numbers) in [
        ("CREATE CERTIFICATE z FROM FILE = 'D:\\pipe'", &[15208][..]),
        (&format!("CREATE CERTIFICATE z FROM FILE = 'D:\\c.cer' {key}"), &[15208]),
        ("BACKUP DATABASE at TO DISK = 'D:\\pipe'", &[3201, 3013]),
        ("BACKUP DATABASE at TO DISK = 'D:\\'", &[3201, 3013]),
        ("RESTORE DATABASE x FROM DISK = 'D:\\pipe'", &[3201, 3013]),
    ] {
        let answer = client.batch(batch);
        assert_eq!(answer.errors(), numbers, "{batch}: {:?}", messages(&answer));
    }
}

const STATES: &str = "SELECT d.name, d.state_desc, CAST(DATABASEPROPERTYEX(d.name, 'Status') AS
    varchar(20)), HAS_DBACCESS(d.name), f.physical_name FROM sys.databases AS d JOIN
    sys.master_files AS f ON f.database_id = d.database_id AND f.type = 0 AND f.state = d.state
    ORDER BY d.name";

#[test]
fn a_database_without_its_file_or_note_is_pending_and_others_go_on() {
    let served = fresh();
    let mut client = served.client();
    for name in ["at", "noted"] {
        let made =
            format!("CREATE DATABASE {name} ON (NAME = {name}, FILENAME = 'D:\\{name}.mdf')");
        ok(&mut client, &made);
        ok(&mut client, &format!("USE {name}; CREATE TABLE t (a int); INSERT t VALUES (7)"));
        ok(&mut client, "USE master");
    }
    ok(&mut client, "CREATE DATABASE here");
    ok(&mut client, "BACKUP DATABASE at TO DISK = 'E:\\backup\\at.bak'");
    let id = int(&mut client, "SELECT DB_ID('at')");
    fs::remove_file(served.place.path("D/at.mdf")).unwrap();
    let note = served.place.path("D/noted.mdf-tsql");
    fs::write(&note, "no note").unwrap();
    let mut client = served.client();
    assert_eq!(int(&mut client, "SELECT DB_ID('at')"), id);
    for batch in ["EXEC sp_helpdb", "EXEC sp_helpdb at", "SELECT * FROM sys.sysdatabases"] {
        assert!(!ok(&mut client, batch).values().is_empty(), "{batch}");
    }
    let pending = "RECOVERY_PENDING";
    let mut states = states_of(&mut client);
    assert!(states[1].4.ends_with("here.db"), "{states:?}");
    states[1].4.clear();
    let state = |name: &str, state: &str, access, file: &str| {
        (name.to_owned(), state.to_owned(), state.to_owned(), Value::Int(access), file.to_owned())
    };
    assert_eq!(
        states,
        [
            state("at", pending, 0, "D:\\at.mdf"),
            state("here", "ONLINE", 1, ""),
            state("noted", pending, 0, "D:\\noted.mdf")
        ]
    );
    for name in ["at", "noted"] {
        assert_eq!(client.batch(&format!("USE {name}")).errors(), [945]);
        assert_eq!(client.batch(&format!("SELECT * FROM {name}.dbo.t")).errors(), [945]);
    }
    let restore = "RESTORE DATABASE at FROM DISK = 'E:\\backup\\at.bak'";
    assert_eq!(client.batch(restore).errors(), [945, 3013]);
    ok(&mut client, &format!("{restore} WITH REPLACE"));
    assert_eq!(int(&mut client, "SELECT a FROM at.dbo.t"), 7);
    fs::remove_file(&note).unwrap();
    assert_eq!(int(&mut client, "SELECT a FROM noted.dbo.t"), 7);
    assert_eq!(client.batch("CREATE DATABASE [here ]").errors(), [1801]);
}

type State = (String, String, String, Value<'static>, String);

fn states_of(client: &mut Client) -> Vec<State> {
    let rows = ok(client, STATES).values();
    let state = |row: &Vec<Value<'static>>| {
        (text(&row[0]), text(&row[1]), text(&row[2]), row[3].clone(), text(&row[4]))
    };
    rows.iter().map(state).collect()
}

#[test]
fn no_other_statement_makes_what_a_database_is_named() {
    let served = fresh();
    let mut client = served.client();
    ok(&mut client, "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'p@ssw0rd'");
    ok(&mut client, "CREATE CERTIFICATE c WITH SUBJECT = 'c'");
    ok(&mut client, "CREATE DATABASE at ON (NAME = at, FILENAME = 'D:\\at.mdf')");
    ok(&mut client, "EXEC sp_detach_db at; CREATE DATABASE here");
    let with = "WITH PRIVATE KEY (FILE = 'x.db', ENCRYPTION BY PASSWORD = 'p@ssw0rd')";
    for batch in [
        "BACKUP CERTIFICATE c TO FILE = 'master.db'",
        "BACKUP CERTIFICATE c TO FILE = 'model.db'",
        "BACKUP CERTIFICATE c TO FILE = 'x.db'",
        "BACKUP CERTIFICATE c TO FILE = 'D:\\at.mdf-tsql'",
        &format!("BACKUP CERTIFICATE c TO FILE = 'D:\\c.cer' {with}"),
        "BACKUP MASTER KEY TO FILE = 'x.db' ENCRYPTION BY PASSWORD = 'p@ssw0rd'",
    ] {
        assert_eq!(client.batch(batch).errors(), [15240], "{batch}");
    }
    for file in ["D:\\at.mdf-tsql", "sv2.mdf-tsql", "master.db"] {
        let batch = format!("BACKUP DATABASE here TO DISK = '{file}'");
        assert_eq!(client.batch(&batch).errors(), [3201, 3013], "{batch}");
    }
    let mut names: Vec<_> = fs::read_dir(served.data("")).unwrap().flatten().collect();
    names.retain(|it| !it.file_name().to_string_lossy().starts_with("here.db"));
    assert!(names.is_empty(), "{names:?}");
    ok(&mut client, "CREATE DATABASE at ON (FILENAME = 'D:\\at.mdf') FOR ATTACH");
}

#[test]
fn no_directory_of_the_registry_and_no_backup_is_in_the_key_store() {
    let place = Place::with_store();
    let config = "[serve]\ndrives = { K = \".\", P = \"..\" }\n";
    fs::write(place.home().join("config.toml"), config).unwrap();
    let served = Served::of(place);
    let mut client = served.client();
    ok(&mut client, "CREATE DATABASE here");
    for (name, value) in
        [("BackupDirectory", "K:\\"), ("DefaultData", "P:\\home"), ("DefaultLog", "K:\\serve")]
    {
        let batch = format!(
            "EXEC xp_instance_regwrite N'HKEY_LOCAL_MACHINE',
             N'Software\\Microsoft\\MSSQLServer\\MSSQLServer', N'{name}', REG_SZ, N'{value}'"
        );
        assert_eq!(client.batch(&batch).errors(), [22001], "{name}");
    }
    for file in ["K:\\kk.bak", "P:\\home\\serve\\kk.bak"] {
        let batch = format!("BACKUP DATABASE here TO DISK = '{file}'");
        assert_eq!(client.batch(&batch).errors(), [3201, 3013], "{batch}");
    }
    ok(&mut client, "BACKUP DATABASE here TO DISK = 'P:\\kk.bak'");
}

#[test]
fn nothing_is_removed_or_left_where_the_note_of_the_server_cannot_be_written() {
    let mut served = fresh();
    let mut client = served.client();
    ok(&mut client, "CREATE DATABASE at ON (NAME = at, FILENAME = 'D:\\at.mdf')");
    ok(&mut client, "BACKUP DATABASE at TO DISK = 'E:\\backup\\at.bak'");
    drop(client);
    assert!(served.terminate().success());
    // A note that is read, and has a name that is not written.
    let note = served.data("master.db-tsql");
    let text = fs::read_to_string(&note).unwrap() + "database\tbad\u{7}\tD:\\bad.mdf\n";
    fs::write(&note, &text).unwrap();
    served.start();
    let mut client = served.client();
    assert_eq!(client.batch("DROP DATABASE at").errors(), [50000]);
    assert!(served.place.path("D/at.mdf").is_file());
    let restore =
        "RESTORE DATABASE z FROM DISK = 'E:\\backup\\at.bak' WITH MOVE 'at' TO 'D:\\z.mdf'";
    assert_eq!(client.batch(restore).errors(), [50000, 3013]);
    let left = fs::read_dir(served.place.path("D")).unwrap().flatten();
    let left: Vec<_> =
        left.filter(|it| it.file_name().to_string_lossy().starts_with('z')).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM sys.databases WHERE name = 'z'"), 0);
}

#[test]
fn a_damaged_note_of_the_server_ends_the_start() {
    let mut served = fresh();
    assert!(served.terminate().success());
    for text in ["", "tdekit server 9\n", "tdekit server 1\nunknown\tx\n"] {
        fs::write(served.data("master.db-tsql"), text).unwrap();
        let run = served.place.run(["serve", "data", "--listen", "127.0.0.1:0"]);
        assert_eq!(run.code, 4, "{text:?}: {}", run.err);
        assert!(run.err.contains("master.db-tsql"), "{}", run.err);
    }
}

#[test]
fn a_database_in_utf_16_is_refused() {
    let served = fresh();
    let mut client = served.client();
    for path in [served.place.path("D/wide.mdf"), served.data("wide.db")] {
        let file = Connection::open(path).unwrap();
        file.execute_batch("PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a)").unwrap();
    }
    let attach = "CREATE DATABASE x ON (FILENAME = 'D:\\wide.mdf') FOR ATTACH";
    let answer = client.batch(attach);
    assert_eq!(answer.errors(), [50000]);
    assert!(messages(&answer)[0].text.contains("UTF-16"));
    let answer = client.batch("SELECT * FROM wide.dbo.t");
    assert_eq!(answer.errors(), [945]);
    assert!(messages(&answer)[0].text.contains("UTF-16"));
}

#[test]
fn an_encrypted_database_is_pending_without_its_key() {
    let place = Place::with_store();
    place.ok(["cert", "create", CERTIFICATE]);
    map_drives(&place);
    let mut served = Served::of(place);
    let mut client = served.client_in("sealed");
    ok(
        &mut client,
        "CREATE TABLE t (a int); INSERT t VALUES (7); CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM
         = AES_256 ENCRYPTION BY SERVER CERTIFICATE TestCert; USE master;
         ALTER DATABASE sealed SET ENCRYPTION ON",
    );
    let state = "SELECT state_desc FROM sys.databases WHERE name = 'sealed'";
    assert_eq!(text(&one(&mut client, state)), "ONLINE");
    drop(client);
    assert!(served.terminate().success());
    // Without the secret that opens the store.
    let mut command = served.place.command(["serve", "data", "--listen", "127.0.0.1:0"]);
    command.env_remove("TDEKIT_PASSWORD").env_remove("TDEKIT_KEY_FILE");
    served.run(command);
    let mut client = served.client();
    assert_eq!(text(&one(&mut client, state)), "RECOVERY_PENDING");
    assert_eq!(client.batch("SELECT a FROM sealed.dbo.t").errors(), [15581]);
}

#[test]
fn a_session_uses_any_number_of_databases() {
    let served = fresh();
    let mut client = served.client();
    let all = 0..13;
    for at in all.clone() {
        let made = format!("CREATE TABLE t (a int); INSERT t VALUES ({at})");
        ok(&mut client, &format!("CREATE DATABASE sd{at}"));
        ok(&mut client, &format!("USE sd{at}"));
        ok(&mut client, &made);
    }
    ok(&mut client, "CREATE TABLE ##kept (a int); INSERT ##kept VALUES (1)");
    // In one batch, too: twice, as those of the first round were detached.
    let each = all.clone().map(|at| format!("USE sd{at}; SELECT COUNT(*) FROM sys.tables;"));
    let batch = each.collect::<String>().repeat(2);
    let rows = ok(&mut client, &batch).values();
    assert_eq!((rows.len(), &rows[25]), (26, &vec![Value::Int(1)]));
    for at in all.clone().chain(all) {
        assert_eq!(int(&mut client, &format!("SELECT a FROM sd{at}.dbo.t")), at);
        let both = format!("SELECT x.a + y.a FROM sd{at}.dbo.t AS x CROSS JOIN sd0.dbo.t AS y");
        assert_eq!(int(&mut client, &both), at);
    }
    assert_eq!(int(&mut client, "SELECT a FROM ##kept"), 1);
    // A transaction keeps all that it uses.
    let inside = (0..13).map(|at| format!("INSERT sd{at}.dbo.t VALUES (1);")).collect::<String>();
    let answer = client.batch(&format!("SET XACT_ABORT ON; BEGIN TRAN; {inside} COMMIT"));
    assert_eq!(answer.errors(), [8623], "{:?}", messages(&answer));
    ok(&mut client, "IF @@TRANCOUNT > 0 ROLLBACK");
    assert_eq!(int(&mut client, "SELECT COUNT(*) FROM sd0.dbo.t"), 1);
}

#[test]
fn paths_of_logs_are_checked() {
    let served = fresh();
    let mut client = served.client();
    ok(&mut client, "CREATE DATABASE at ON (NAME = at, FILENAME = 'D:\\at.mdf')");
    ok(&mut client, "BACKUP DATABASE at TO DISK = 'E:\\backup\\at.bak'; EXEC sp_detach_db at");
    for log in ["F:\\x.ldf", "D:\\..\\x.ldf", "\\\\host\\share\\x.ldf", "/etc/x.ldf"] {
        let log_on = format!("LOG ON (NAME = l, FILENAME = '{log}')");
        let new = format!("CREATE DATABASE x ON (NAME = x, FILENAME = 'D:\\x.mdf') {log_on}");
        let attach = "CREATE DATABASE at ON (FILENAME = 'D:\\at.mdf')";
        let second = format!("{attach}, (FILENAME = '{log}') FOR ATTACH");
        let restore = format!(
            "RESTORE DATABASE y FROM DISK = 'E:\\backup\\at.bak' WITH MOVE 'at' TO 'D:\\y.mdf',
             MOVE 'at_log' TO '{log}'"
        );
        for (batch, numbers) in [
            (&new, &[5133][..]),
            (&format!("{attach} {log_on} FOR ATTACH"), &[5133]),
            (&second, &[5133]),
            (&restore, &[5133, 3013]),
        ] {
            let answer = client.batch(batch);
            assert_eq!(answer.errors(), numbers, "{batch}: {:?}", messages(&answer));
        }
    }
    for file in ["D/x.mdf", "D/y.mdf"] {
        assert!(!served.place.path(file).exists(), "{file}");
    }
}
