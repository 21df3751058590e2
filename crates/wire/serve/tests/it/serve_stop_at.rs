//! `STOPAT` with the times that the history shows, from outside.

use crate::served::{Served, int, ok, one, text};

/// The columns are `datetime`, in 1/300 s, and the states have milliseconds.
#[test]
fn a_state_is_reached_by_the_time_that_the_history_shows() {
    let served = Served::bare(&[]);
    let mut client = served.client_in("d");
    let c = &mut client;
    ok(c, "ALTER DATABASE d SET RECOVERY FULL; CREATE TABLE t (id int); USE master");
    let count = 6;
    for at in 1..=count {
        let kind = if at == 1 { "DATABASE" } else { "LOG" };
        ok(c, &format!("INSERT d.dbo.t VALUES ({at}); BACKUP {kind} d TO DISK = 'd.bak'"));
        ok(c, "WAITFOR DELAY '00:00:00.020'");
    }
    let state = "SELECT state_desc FROM sys.databases WHERE name = 'n'";
    let begun = "CONVERT(varchar(30), backup_start_date, 126) FROM msdb.dbo.backupset";
    let times = ok(c, &format!("SELECT {begun} ORDER BY position")).values();
    let times: Vec<String> = times.iter().map(|row| text(&row[0])).collect();
    assert_eq!(times.len(), count);
    for (at, time) in (1..=count).zip(&times) {
        for given in [format!("'{time}'"), "@at".to_owned(), "@exact".to_owned()] {
            let step = |at: usize, with: &str| {
                let kind = if at == 1 { "DATABASE" } else { "LOG" };
                let replace = if at == 1 { ", REPLACE" } else { "" };
                format!("RESTORE {kind} n FROM DISK = 'd.bak' WITH FILE = {at}, {with}{replace}")
            };
            for before in 1..at {
                ok(c, &step(before, "NORECOVERY"));
            }
            let last = step(at, &format!("STOPAT = {given}, RECOVERY"));
            let declare = format!("DECLARE @at datetime = '{time}', @exact datetime2 = '{time}'");
            let batch = format!("{declare}; {last}");
            assert_eq!(c.batch(&batch).errors(), [0; 0], "{given}, {time}, set {at}");
            assert_eq!(text(&one(c, state)), "ONLINE", "{given}, {time}, set {at}");
            assert_eq!(int(c, "SELECT COUNT(*) FROM n.dbo.t"), i64::try_from(at).unwrap());
        }
    }
    let stops = "SELECT CONVERT(varchar(30), stop_at, 126) FROM msdb.dbo.restorehistory
        WHERE stop_at IS NOT NULL ORDER BY restore_history_id";
    let stops: Vec<String> = ok(c, stops).values().iter().map(|row| text(&row[0])).collect();
    let thrice: Vec<&String> = times.iter().flat_map(|time| [time, time, time]).collect();
    assert_eq!(stops.iter().collect::<Vec<_>>(), thrice);
}
