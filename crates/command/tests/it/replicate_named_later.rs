//! `replicate` of an encrypted database whose file came back as it was, and was exchanged for a
//! plain one later: the log that is put aside then is named.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::databases::open;
use crate::replicate::{text, wait_for};
use crate::replicate_aside::aside;
use crate::replicate_ground::{Followed, other, rows};

#[test]
fn a_log_is_named_that_was_kept_once_before() {
    let scripts =
        ["mv app.db x; sleep 1.5; mv x app.db", "cp app.db x; : > app.db; sleep 3; cat x > app.db"];
    for script in scripts {
        let mut followed = Followed::new(true);
        let pair = &followed.pair;
        pair.add(5);
        wait_for(|| pair.object(3).exists());
        std::thread::sleep(Duration::from_millis(300));
        let mut shell = Command::new("sh");
        let done = shell.args(["-c", script]).current_dir(pair.db.parent().unwrap()).status();
        assert!(done.unwrap().success());
        wait_for(|| pair.object(4).exists());
        pair.add(6);
        wait_for(|| pair.object(5).exists());
        let new = other(&pair.dir, false, &[101, 102]);
        fs::copy(&new, &pair.db).unwrap();
        followed.says("the database is plain now");
        wait_for(|| pair.object(6).exists());
        followed.end();
        let (pair, said) = (&followed.pair, followed.said());
        let logs = aside(pair);
        assert_eq!(logs.len(), 1, "{script}: {said}");
        assert_eq!(said.matches(text(&logs[0])).count(), 1, "{script}: {said}");
        assert_eq!(rows(&open(&pair.db)), [101, 102]);
        assert_eq!(pair.restored("5"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(pair.restored("latest"), [101, 102]);
    }
}
