//! `encrypt --online`, interrupted: by a power cut while others write, by failing calls, by
//! signals. The database is whole, plain or encrypted, and has everything that was acknowledged.

use std::process::Command;

use crate::databases::{Dir, dump, encrypt_args, fill, is_plain, one, open, place};
use crate::driven::{Under, check};
use crate::powercut::{Choice, each_image};
use tdekit_faults_sqlite::form::exhaustive;
use tdekit_faults_sqlite::trace::{inject, is_possible};

const ROWS: u32 = 120;

fn power_cuts(mode: &str) {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, ROWS);
    let under = Under { path: &path, mode, synchronous: "EXTRA", pause_s: 0.02 };
    let Some((log, roots)) = under.record(encrypt_args(&path, &["--online"])) else { return };
    let (mut plain, mut encrypted) = (0, 0);
    let images = each_image(&log, &roots, Choice::of(60), |image| {
        let was_plain = is_plain(&path);
        let what = format!("{mode}, plain {was_plain}: {}", image.what);
        check(&under, image, ROWS, &what);
        *(if was_plain { &mut plain } else { &mut encrypted }) += 1;
        if was_plain && plain % 40 == 7 {
            let run = place().run(encrypt_args(&path, &["--online"]));
            assert_eq!(run.code, 0, "{what}: {run:?}");
            assert!(!is_plain(&path));
            // Names that a power cut removed are what shows whose work it is.
            assert!(dir.work().is_none() || image.what.starts_with("Power"), "{what}");
            check(&under, image, ROWS, &format!("{what}, and again"));
        }
    });
    eprintln!("{mode}: {images} images, {plain} of them plain, {encrypted} encrypted");
    assert!(plain > 20 && encrypted > 10, "{mode}: {plain} plain, {encrypted} encrypted");
}

#[test]
fn a_power_cut_leaves_one_database_or_the_other_with_a_rollback_journal() {
    if is_possible() {
        power_cuts("delete");
    }
}

#[test]
fn a_power_cut_leaves_one_database_or_the_other_with_a_log() {
    if is_possible() {
        power_cuts("wal");
    }
}

/// Calls that fail, once or from then on, and signals at these calls.
const FAULTS: [&str; 4] =
    ["error=EIO:when={}", "error=ENOSPC:when={}+", "signal=INT:when={}", "signal=KILL:when={}"];
const CALLS: [&str; 6] = ["pwrite64", "fsync", "fdatasync", "ftruncate", "renameat", "unlink"];

/// Runs the command with a fault, while a connection has the database open.
fn fault(mode: &str, call: &str, fault: &str) -> bool {
    let dir = Dir::new();
    let path = dir.path("app.db");
    fill(&path, ROWS);
    let db = open(&path);
    db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("UPDATE t SET a = 'before'").unwrap();
    let whole = dump(&db);
    let what = format!("{mode} {call}:{fault}");
    let command = place().command(encrypt_args(&path, &["--online"]));
    let output = inject(&command, &format!("{call}:{fault}")).unwrap();
    // Another process reads it: closing a file here drops the locks that SQLite has on it.
    let head = Command::new("head").args(["-c", "15"]).arg(&path).output().unwrap().stdout;
    let plain = head == b"SQLite format 3";
    if output.status.success() {
        assert!(!plain, "{what}: {output:?}");
    }
    // Connections that have it open continue, and so do new ones; a run that stopped too late
    // reports so.
    assert_eq!(dump(&db), whole, "{what}: {output:?}");
    db.execute_batch("INSERT INTO t(a) VALUES ('after')").unwrap();
    let now = dump(&db);
    assert_eq!(dump(&open(&path)), now, "{what}: {output:?}");
    let again = place().run(encrypt_args(&path, &["--online"]));
    assert_eq!(again.code, i32::from(!plain), "{what}: {output:?} {again:?}");
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok", "{what}");
    assert_eq!(dump(&db), now, "{what}");
    if plain {
        assert_eq!(dir.work(), None, "{what}");
    }
    !output.status.success()
}

fn faults(mode: &str) {
    let mut failed = 0;
    for (row, call) in CALLS.iter().enumerate() {
        for (column, text) in FAULTS.iter().enumerate() {
            // The short form uses half of the faults of each call, and few of the calls.
            if !exhaustive() && (row + column + usize::from(mode == "wal")) % 2 == 1 {
                continue;
            }
            let mut nth = if exhaustive() { 1 } else { 1 + (row + column) % 3 };
            let mut step = 1;
            while nth < 400 {
                if fault(mode, call, &text.replace("{}", &nth.to_string())) {
                    failed += 1;
                } else {
                    break;
                }
                step *= if exhaustive() { 1 } else { 6 };
                nth += step;
            }
        }
    }
    assert!(failed >= 3, "{mode}: {failed} failed");
}

#[test]
fn calls_that_fail_and_signals_leave_the_database_whole_with_a_rollback_journal() {
    if is_possible() {
        faults("delete");
    }
}

#[test]
fn calls_that_fail_and_signals_leave_the_database_whole_with_a_log() {
    if is_possible() {
        faults("wal");
    }
}
