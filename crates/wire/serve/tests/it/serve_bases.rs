//! The databases that backups stand on: not another one of the same name, and none by the name that
//! another program gives them.

use std::fs;

use crate::served::{Served, int, messages, ok};

#[test]
fn no_backup_of_a_dropped_database_is_a_base() {
    for named in [false, true] {
        let served = Served::bare(&[]);
        let mut client = served.client();
        let c = &mut client;
        let file = served.data("x.db");
        let on = match named {
            true => format!(" ON (NAME = x, FILENAME = '{}')", file.display()),
            false => String::new(),
        };
        let create = format!("CREATE DATABASE x{on}; ALTER DATABASE x SET RECOVERY FULL");
        ok(c, &create);
        ok(c, "CREATE TABLE x.dbo.t (id int); BACKUP DATABASE x TO DISK = 'x.bak'");
        let differential =
            |to: &str| format!("BACKUP DATABASE x TO DISK = '{to}' WITH DIFFERENTIAL");
        ok(c, &differential("x.bak"));
        ok(c, "DROP DATABASE x");
        ok(c, &create);
        // By the history, and in the media set.
        for to in ["new.bak", "x.bak"] {
            let refused = c.batch(&differential(to));
            assert_eq!(refused.errors(), [3035, 3013], "{to}");
            assert_eq!(c.batch(&format!("BACKUP LOG x TO DISK = '{to}'")).errors(), [4214, 3013]);
        }
        assert!(!served.data("new.bak").exists());
        // The differential set stands on the full one that is newer, not on the one beside it.
        ok(c, "BACKUP DATABASE x TO DISK = 'own.bak'");
        ok(c, &differential("x.bak"));
        ok(c, "BACKUP LOG x TO DISK = 'log.bak'");
        fs::rename(served.data("x.bak"), served.data("away.bak")).unwrap();
        ok(c, "RESTORE DATABASE x FROM DISK = 'own.bak' WITH REPLACE, NORECOVERY");
        ok(c, "RESTORE LOG x FROM DISK = 'log.bak'");
        // A restored database is the one of the backup, whichever that was.
        ok(c, "RESTORE DATABASE x FROM DISK = 'away.bak' WITH REPLACE");
        ok(c, &differential("away.bak"));
    }
}

#[test]
fn a_backup_by_the_command_says_which_sets_of_the_file_there_are() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    ok(c, "CREATE TABLE t (id int); USE master; ALTER DATABASE d SET RECOVERY FULL");
    ok(c, "BACKUP DATABASE d TO DISK = 'd.bak'; BACKUP LOG d TO DISK = 'd.bak'");
    for to in ["new.bak", "data/d.bak"] {
        for with in ["--log", "--differential"] {
            let run = served.place.run(["backup", "data/d.db", "--to", to, with]);
            assert_ne!(run.code, 0, "{to} {with}");
            assert!(run.err.contains("sets of this file as database \"d\""), "{}", run.err);
        }
    }
    served.place.ok(["backup", "data/d.db", "--to", "own.bak"]);
    served.place.ok(["backup", "data/d.db", "--to", "own.bak", "--log"]);
    // As the history of another server: the media set alone shows it.
    fs::copy(served.data("d.bak"), served.place.path("copy.bak")).unwrap();
    let home = served.place.home();
    fs::rename(home.join("history.db"), home.join("away.db")).unwrap();
    let run = served.place.run(["backup", "data/d.db", "--to", "copy.bak", "--log"]);
    assert!(run.err.contains("sets of this file as database \"d\""), "{}", run.err);
    // The other way round.
    fs::rename(served.place.path("own.bak"), served.data("own.bak")).unwrap();
    let refused = c.batch("BACKUP DATABASE d TO DISK = 'own.bak' WITH DIFFERENTIAL");
    assert_eq!(refused.errors(), [3035, 3013]);
    let texts: Vec<_> = messages(&refused).into_iter().map(|message| message.text).collect();
    assert!(texts.iter().any(|text| text.contains("as database \"d.db\"")), "{texts:?}");
}

#[test]
fn the_current_database_is_not_restored() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    ok(c, "CREATE TABLE t (id int); BACKUP DATABASE d TO DISK = 'd.bak'; INSERT t VALUES (1)");
    for restore in ["DATABASE D FROM DISK = 'd.bak' WITH REPLACE", "LOG d FROM DISK = 'd.bak'"] {
        assert_eq!(c.batch(&format!("RESTORE {restore}")).errors(), [3102, 3013], "{restore}");
    }
    assert_eq!(c.batch("RESTORE DATABASE d WITH RECOVERY").errors(), [3102, 3013]);
    assert_eq!(int(c, "SELECT COUNT(*) FROM t"), 1, "nothing was restored");
    ok(c, "RESTORE VERIFYONLY FROM DISK = 'd.bak'; USE master");
    ok(c, "RESTORE DATABASE d FROM DISK = 'd.bak' WITH REPLACE");
    assert_eq!(int(c, "SELECT COUNT(*) FROM d.dbo.t"), 0);
}

#[test]
fn prune_counts_the_sets_of_a_file_under_both_names_and_keeps_the_bases_of_each() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    ok(c, "CREATE TABLE t (id int)");
    fs::create_dir(served.data("b")).unwrap();
    let by_command = |file: &str| {
        served.place.ok(["backup", "data/d.db", "--to", &format!("data/b/{file}.bak")]);
    };
    ok(c, "BACKUP DATABASE d TO DISK = 'b/sql1.bak'");
    by_command("file1");
    ok(c, "BACKUP DATABASE d TO DISK = 'b/sql2.bak'");
    by_command("file2");
    by_command("file3");
    served.place.ok(["prune", "data/b", "--keep-last", "2"]);
    let mut left: Vec<_> = fs::read_dir(served.data("b"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["file2.bak", "file3.bak", "sql2.bak"]);
    ok(c, "INSERT t VALUES (1); BACKUP DATABASE d TO DISK = 'b/sql3.bak' WITH DIFFERENTIAL");
}
