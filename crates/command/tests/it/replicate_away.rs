//! `restore --follow` of a standby that is there before its archive.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::databases::{open, place};
use crate::replicate::{Pair, text, wait_for};
use crate::replicate_times::end;

const AWAY: &str = "is not kept up: ";

fn words<'a>(pair: &'a Pair, standby: &'a Path) -> [&'a str; 7] {
    let certificate = ["--certificate", "AppCert"];
    let [first, second] = certificate;
    ["restore", text(&pair.archive), "--follow", "--to", text(standby), first, second]
}

fn start(pair: &Pair, (standby, said): (&Path, &Path)) -> Child {
    let mut command = place().command(words(pair, standby));
    command.stdout(Stdio::null()).stderr(File::create(said).unwrap()).spawn().unwrap()
}

fn has(standby: &Path, rows: u32) -> bool {
    let count = |db: &rusqlite::Connection| {
        db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0))
    };
    standby.exists() && count(&open(standby)) == Ok(rows)
}

#[test]
fn a_standby_waits_for_an_archive_that_is_away_at_its_start() {
    let pair = Pair::new(true);
    let keep = pair.db();
    pair.add(1);
    pair.ship();
    let (standby, said) = (pair.dir.path("standby.db"), pair.dir.path("said"));
    let says = || fs::read_to_string(&said).unwrap();
    let mut follower = start(&pair, (&standby, &said));
    wait_for(|| has(&standby, 1));
    assert_eq!(end(follower).code, 0, "{}", says());

    let away = pair.dir.path("away");
    fs::rename(&pair.archive, &away).unwrap();
    for is_there in [false, true] {
        if is_there {
            // As the directory below a file system that is mounted later.
            fs::create_dir(&pair.archive).unwrap();
        }
        follower = start(&pair, (&standby, &said));
        wait_for(|| says().matches(AWAY).count() > 1);
        assert!(says().contains("holds no archive"), "{}", says());
        let status = place().json(["replicate", "status", text(&standby), "--json"]);
        assert_eq!(status["running"], true, "{status}");
        assert!(status["error"].as_str().unwrap().contains("holds no archive"), "{status}");
        // It ends in order meanwhile.
        assert_eq!(end(follower).code, 0, "{}", says());
    }

    follower = start(&pair, (&standby, &said));
    wait_for(|| says().contains(AWAY));
    fs::remove_dir(&pair.archive).unwrap();
    fs::rename(&away, &pair.archive).unwrap();
    // The record of the clean end was not used up.
    wait_for(|| says().contains("goes on behind object 1"));
    pair.add(2);
    pair.ship();
    wait_for(|| has(&standby, 2));
    assert_eq!(end(follower).code, 0, "{}", says());
    let status = place().json(["replicate", "status", text(&standby), "--json"]);
    assert!(status["error"].is_null(), "{status}");
    drop(keep);
}

#[test]
fn without_a_standby_an_archive_that_is_away_is_an_error() {
    let pair = Pair::new(false);
    let standby = pair.dir.path("standby.db");
    let words = &words(&pair, &standby)[..5];
    let run = place().run(words);
    assert!(run.code == 7 && run.err.contains("holds no archive"), "{run:?}");
    assert!(!standby.exists() && !pair.dir.path("standby.db-standby").exists());
}
