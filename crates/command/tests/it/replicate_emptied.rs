//! `replicate` of a database in a rollback mode whose file is empty for a moment, as at the begin
//! of a copy over it.

use std::fs::{self, File};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::databases::{Dir, create, open, place};
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_times::end;

const EMPTY: &str = "is empty: there is nothing to ship";

fn pair() -> Pair {
    let dir = Dir::new();
    let (db, archive) = (dir.path("app.db"), dir.path("archive"));
    drop(create(&db, "CREATE TABLE t(n INTEGER, text); INSERT INTO t VALUES (1, '')"));
    Pair { dir, db, archive }
}

/// However old the last write is when it is looked at.
#[test]
fn an_empty_file_is_waited_for() {
    let pair = pair();
    let whole = fs::read(&pair.db).unwrap();
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive), "--every", "1s"];
    let words = [&words[..], &["--certificate", "AppCert", "--differential-every", "3s"]].concat();
    let said = pair.dir.path("said");
    let says = || fs::read_to_string(&said).unwrap();
    let mut command = place().command(words);
    command.stdout(Stdio::null()).stderr(File::create(&said).unwrap());
    let mut follower = command.spawn().unwrap();
    wait_for(|| pair.object(1).exists());
    // The next look is some seconds later than the write.
    File::create(&pair.db).unwrap();
    wait_for(|| says().contains(EMPTY));
    sleep(Duration::from_secs(3));
    assert_eq!(follower.try_wait().unwrap(), None, "{}", says());
    assert!(says().matches(EMPTY).count() > 1, "{}", says());
    fs::write(&pair.db, whole).unwrap();
    open(&pair.db).execute_batch("INSERT INTO t VALUES (2, '')").unwrap();
    wait_for(|| pair.object(2).exists());
    assert_eq!(end(follower).code, 0, "{}", says());
    assert_eq!(pair.restored("latest"), [1, 2]);
    assert_eq!(pair.restored("1"), [1]);

    // A process that would have nothing to wait for ends.
    File::create(&pair.db).unwrap();
    let once = pair.once(&[]);
    assert!(once.code == 1 && once.err.contains(EMPTY), "{once:?}");
    let words = ["replicate", text(&pair.db), "--to", text(&pair.archive)];
    let first = place().run([&words[..], &["--certificate", "AppCert"]].concat());
    assert!(first.code == 1 && first.err.contains(EMPTY), "{first:?}");
}
