//! The backup history in `msdb`.

use tdekit_wire_tds::Value;

use crate::served::{Served, ok};

const FULL: &str = "CREATE TABLE t (id int); USE master; ALTER DATABASE d SET RECOVERY FULL";

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
