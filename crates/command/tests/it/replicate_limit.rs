//! A log that `replicate` gave up, because the archive cannot be reached.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;

use crate::databases::place;
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_times::end;

fn failures(log: &Path) -> usize {
    fs::read_to_string(log).unwrap().matches("not shipped").count()
}

/// Empties the log, if nobody keeps it.
fn is_emptied(db: &Connection) -> bool {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map(|busy: i32| busy == 0)
        .unwrap()
}

/// The full set of the next chain cannot be written either: each try leaves the log to others.
#[test]
fn a_log_that_was_given_up_is_not_kept_while_full_sets_fail() {
    let pair = Pair::new(false);
    let keep = pair.db();
    pair.ship();
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--log-limit", "1MB"];
    let words = [&words[..], &["--certificate", "AppCert", "--every", "1s"]].concat();
    let log = pair.dir.path("said");
    let follower = place().command(words).stderr(File::create(&log).unwrap()).spawn().unwrap();
    pair.add(1);
    wait_for(|| pair.object(2).exists());
    keep.busy_timeout(std::time::Duration::ZERO).unwrap();
    assert!(!is_emptied(&keep), "nobody keeps the log");
    let away = pair.dir.path("away");
    fs::rename(&pair.archive, &away).unwrap();
    keep.execute_batch("INSERT INTO t VALUES (2, randomblob(2000000))").unwrap();
    let said = || fs::read_to_string(&log).unwrap();
    wait_for(|| said().contains("the log became too long"));
    let before = failures(&log);
    wait_for(|| failures(&log) > before + 1);
    wait_for(|| is_emptied(&keep));
    fs::rename(&away, &pair.archive).unwrap();
    pair.add(3);
    wait_for(|| pair.object(3).exists());
    let ended = end(follower);
    assert_eq!(ended.code, 0, "{}", said());
    assert_eq!(pair.restored("latest"), [1, 2, 3]);
    assert_eq!(pair.restored("2"), [1]);
    drop(keep);
}
