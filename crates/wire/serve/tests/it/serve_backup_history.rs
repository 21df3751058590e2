//! The backup history in `msdb`, and where a chain of log backups begins.

use std::path::Path;

use tdekit_wire_tds::Value;

use crate::served::{Client, Served, messages, ok, text};

const FULL: &str = "CREATE TABLE t (id int); USE master; ALTER DATABASE d SET RECOVERY FULL";

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Each log backup is on media of its own, and so is the differential set.
#[test]
fn the_history_numbers_states_as_the_media_do() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    ok(c, FULL);
    let files = ["full", "one", "diff", "two", "full2", "three"];
    for (at, file) in files.into_iter().enumerate() {
        let (what, with) = match file {
            "full" | "full2" => ("DATABASE", ""),
            "diff" => ("DATABASE", " WITH DIFFERENTIAL"),
            _ => ("LOG", ""),
        };
        ok(c, &format!("INSERT d.dbo.t VALUES ({at})"));
        ok(c, &format!("BACKUP {what} d TO DISK = '{file}.bak'{with}"));
    }
    let lsns = "SELECT first_lsn, last_lsn, checkpoint_lsn, database_backup_lsn
        FROM msdb.dbo.backupset ORDER BY backup_set_id";
    let lsns = ok(c, lsns).values();
    assert_eq!(lsns.len(), files.len());
    for (file, lsns) in files.iter().zip(&lsns) {
        let head = ok(c, &format!("RESTORE HEADERONLY FROM DISK = '{file}.bak'")).values();
        assert_eq!(head[0][13..17], lsns[..], "{file}");
        let nulls = lsns.iter().filter(|lsn| **lsn == Value::Null).count();
        assert_eq!(nulls, usize::from(file.starts_with("full")), "{file}: {lsns:?}");
    }
    assert_eq!(lsns[3][0], lsns[1][1], "the second begins where the first ended");
    assert_eq!(lsns[5][3], lsns[4][1], "it stands on the second full set");
}

fn restores(client: &mut Client) -> Vec<Vec<Value<'static>>> {
    let all = "SELECT destination_database_name, user_name, restore_type, replace, recovery,
            restart, CONVERT(varchar(30), stop_at, 126), device_count, stop_at_mark_name,
            stop_before, backup_set_id
        FROM msdb.dbo.restorehistory ORDER BY restore_history_id";
    ok(client, all).values()
}

/// A row of the history of restores, by the login sa from one device.
fn row(
    (name, kind, set): (&str, &str, i64),
    (replace, recovery): (bool, bool),
    stop_at: Option<&str>,
) -> Vec<Value<'static>> {
    let text = |text: &str| Value::Text(text.to_owned().into());
    vec![
        text(name),
        text("sa"),
        text(kind),
        Value::Bit(replace),
        Value::Bit(recovery),
        Value::Bit(false),
        stop_at.map_or(Value::Null, text),
        Value::Int(1),
        Value::Null,
        Value::Null,
        Value::Int(set),
    ]
}

#[test]
fn a_restore_is_in_the_history_with_its_statement() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    ok(c, FULL);
    for what in ["DATABASE d TO DISK = 'd.bak'", "LOG d TO DISK = 'd.bak'"] {
        ok(c, &format!("INSERT d.dbo.t VALUES (1); BACKUP {what}"));
    }
    ok(c, "BACKUP DATABASE d TO DISK = 'd.bak' WITH DIFFERENTIAL");
    let move_it = "MOVE 'd' TO 'other_file.db', NORECOVERY";
    ok(c, &format!("RESTORE DATABASE mv FROM DISK = 'd.bak' WITH {move_it}"));
    assert!(served.data("other_file.db").exists());
    // A point behind the log backup: the database stays RESTORING, as RECOVERY was asked for.
    let stop_at = "2098-12-31T23:59:58.500";
    let stop = format!("WITH FILE = 2, STOPAT = '{stop_at}'");
    ok(c, &format!("RESTORE LOG MV FROM DISK = 'd.bak' {stop}"));
    ok(c, "RESTORE DATABASE D FROM DISK = 'd.bak' WITH FILE = 3, REPLACE");
    let expected = [
        row(("mv", "D", 1), (false, false), None),
        row(("mv", "L", 2), (false, true), Some(stop_at)),
        row(("d", "I", 3), (true, true), None),
    ];
    assert_eq!(restores(c), expected);
    // A restore that fails leaves no row.
    let nothing = c.batch("RESTORE DATABASE d FROM DISK = 'd.bak'").errors();
    assert_eq!(nothing, [3159, 3013]);
    assert_eq!(restores(c).len(), 3);
    // The command makes a file: there is no statement.
    let (media, to) = (served.data("d.bak"), served.place.path("by_command.db"));
    served.place.ok(["restore", path(&media), "--position", "2", "--to", path(&to)]);
    let by_command = restores(c).remove(3);
    assert_eq!((text(&by_command[0]), text(&by_command[2])), ("by_command".into(), "L".into()));
    assert!(by_command[3..10].iter().all(|value| *value == Value::Null), "{by_command:?}");
    // They go with the sets.
    ok(c, "EXEC msdb.dbo.sp_delete_database_backuphistory 'd'");
    assert_eq!(restores(c), [[]; 0]);
}

/// Returns the errors of a log backup, and the message before them, which names the reason.
fn refused(client: &mut Client, media: &str) -> (Vec<i32>, String) {
    let answer = client.batch(&format!("BACKUP LOG d TO DISK = '{media}.bak'"));
    let reason = messages(&answer).first().map(|message| message.text.clone());
    (answer.errors(), reason.unwrap_or_default())
}

/// Under the simple model a chain of log backups ends, as in SQL Server: a full or differential
/// backup since begins another one.
#[test]
fn a_chain_begins_behind_the_simple_model() {
    let mut served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    let again = "ALTER DATABASE d SET RECOVERY SIMPLE; ALTER DATABASE d SET RECOVERY FULL";
    // A full backup under the simple model begins none.
    ok(c, "CREATE TABLE t (id int); USE master; BACKUP DATABASE d TO DISK = 'd.bak'");
    ok(c, "ALTER DATABASE d SET RECOVERY FULL");
    let (errors, reason) = refused(c, "d");
    assert_eq!(errors, [4214, 3013]);
    assert!(reason.contains("The recovery model was SIMPLE until 20"), "{reason}");
    ok(c, "BACKUP DATABASE d TO DISK = 'd.bak'; BACKUP LOG d TO DISK = 'd.bak'");
    // The same model, or one that is logged too, ends none.
    ok(c, "ALTER DATABASE d SET RECOVERY FULL; ALTER DATABASE d SET RECOVERY BULK_LOGGED");
    ok(c, "BACKUP LOG d TO DISK = 'elsewhere.bak'");
    // On the media of the chain, on others with a part of it, and on new ones.
    ok(c, again);
    for media in ["d", "elsewhere", "new"] {
        assert_eq!(refused(c, media).0, [4214, 3013], "{media}");
    }
    ok(c, "BACKUP DATABASE d TO DISK = 'd.bak' WITH COPY_ONLY");
    assert_eq!(refused(c, "d").0, [4214, 3013], "behind one that is copy-only");
    // The note outlives the server.
    served.kill();
    served.start();
    let mut client = served.client();
    let c = &mut client;
    assert_eq!(refused(c, "d").0, [4214, 3013]);
    ok(c, "BACKUP DATABASE d TO DISK = 'd.bak' WITH DIFFERENTIAL");
    for media in ["d", "elsewhere", "new"] {
        ok(c, &format!("INSERT d.dbo.t VALUES (1); BACKUP LOG d TO DISK = '{media}.bak'"));
    }
    ok(c, again);
    assert_eq!(refused(c, "d").0, [4214, 3013]);
    // A note of an older version has no time.
    std::fs::write(served.data("d.db-tsql"), "tdekit tsql 1\nrecovery FULL\n").unwrap();
    ok(c, "BACKUP LOG d TO DISK = 'd.bak'");
}

#[test]
fn the_model_of_a_system_database_is_not_set() {
    let served = Served::bare(&[]);
    let mut client = served.client();
    for name in ["master", "tempdb", "model", "msdb"] {
        let answer = client.batch(&format!("ALTER DATABASE {name} SET RECOVERY FULL"));
        assert_eq!(answer.errors(), [5058], "{name}");
        let text = &messages(&answer)[0].text;
        assert_eq!(*text, format!("Option 'RECOVERY' cannot be set in database '{name}'."));
    }
}
