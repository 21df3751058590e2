//! `rotate`, interrupted by a kill or a power cut while others write, in each journal mode: every
//! page opens, everything acknowledged is there, and the next `rotate` completes the change.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use crate::databases::{Dir, create, encrypt, insert, place, unlocked};
use crate::driven::{Under, check};
use crate::powercut::{Choice, each_image};
use tdekit_faults_sqlite::disk::Loss;
use tdekit_faults_sqlite::form::exhaustive;
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::record::{Log, Op};
use tdekit_faults_sqlite::trace::is_possible;
use tdekit_key_store::Unlocked;
use tdekit_sqlite_convert::{FileKind, Unwatched, open_header, progress, read_area};
use tdekit_sqlite_page::HEADER_AREA_LEN;

const ROWS: u32 = 400;
/// Number of operations in the short form and in the long one.
const OPERATIONS: [usize; 2] = [7, 120];
const NAMES: [usize; 2] = [7, 100];

/// Returns the key versions of the header that opens: a slot may be torn between checksum and MAC,
/// which only the key reveals.
fn versions(path: &Path) -> Vec<u32> {
    static UNLOCKED: OnceLock<Unlocked> = OnceLock::new();
    let area = read_area(&std::fs::File::open(path).unwrap()).unwrap();
    assert_eq!(FileKind::of(&area), FileKind::Encrypted);
    let (header, _) = open_header(path, &area, UNLOCKED.get_or_init(unlocked)).unwrap();
    header.deks.iter().map(|dek| dek.version).collect()
}

/// Selects the operations that determine the keys: on the header's slots, and on the note of the
/// change's end.
fn decides(op: &Op, log: &Log) -> bool {
    let is_note = |path: &Path| path.to_string_lossy().ends_with("-tdekit-paused");
    match op {
        Op::Write { file, offset, .. } => {
            let path = log.names.get(file).and_then(Option::as_deref);
            path.is_some_and(|path| {
                is_note(path) || path.ends_with("app.db") && *offset < HEADER_AREA_LEN
            })
        }
        Op::Sync { file, .. } => {
            log.names.get(file).and_then(Option::as_deref).is_some_and(is_note)
        }
        Op::Create { path, .. } => is_note(path),
        _ => false,
    }
}

/// Records a rotation, and rotates each image that a crash could have left of it.
fn crashes(mode: &str, synchronous: &str, more: &[&str]) {
    let dir = Dir(scratch().unwrap());
    let path = dir.path("app.db");
    // Small pages, so that the sweep takes several transactions.
    insert(&create(&path, "PRAGMA page_size = 1024"), ROWS);
    encrypt(&path, &[]);
    // So frequent that the sweep takes small steps.
    let under = Under { path: &path, mode, synchronous, pause_s: 0.008 };
    let name = path.to_str().unwrap();
    let Some((log, roots)) = under.record([&["rotate", name], more].concat()) else { return };
    // Below FULL, header and records of a journal share one sync: SQLite's manual says that a disk
    // that reorders writes may then corrupt the database.
    let ordered = synchronous == "NORMAL" && mode != "wal";
    let loss = if ordered { Loss::Tail } else { Loss::Sectors };
    let choice = Choice { operations: OPERATIONS, names: NAMES, always: decides, loss };
    let mut found = BTreeMap::new();
    let images = each_image(&log, &roots, choice, |image| {
        let before = versions(&path);
        let what = format!("{mode}, {synchronous}, {more:?}, {before:?}: {}", image.what);
        check(&under, image, ROWS, &what);
        let run = place().run(["rotate", name]);
        assert_eq!(run.code, 0, "{what}: {run:?}");
        let after = progress(&path, &Unwatched).unwrap();
        assert_eq!((after.key_versions.len(), after.pages_left), (1, 0), "{what}");
        let resumed = run.out.contains("from where it was");
        assert_eq!(resumed, before.len() == 2, "{what}: {run:?}");
        check(&under, image, ROWS, &format!("{what}, and rotated"));
        let left = dir.names();
        let left = left.iter().filter(|name| name.contains("tdekit")).collect::<Vec<_>>();
        assert!(left.is_empty(), "{what}: {left:?}");
        *found.entry(before).or_insert(0) += 1;
    });
    let operations = log.ops.len();
    eprintln!(
        "{mode}, {synchronous}, {more:?}: {operations} operations, {images} images: {found:?}"
    );
    // Before the change, within it, and when the old version is gone.
    for at in [vec![1], vec![1, 2], vec![2]] {
        assert!(found.contains_key(&at), "{mode}: {found:?}");
    }
}

fn each_form(mode: &str) {
    if !is_possible() {
        return;
    }
    let algorithm: &[&str] = &["--algorithm", "AEGIS_256X2"];
    crashes(mode, "EXTRA", algorithm);
    crashes(mode, "NORMAL", &[]);
    if exhaustive() {
        crashes(mode, "EXTRA", &[]);
        crashes(mode, "NORMAL", algorithm);
    }
}

#[test]
fn a_crash_of_a_rotation_loses_nothing_with_a_journal_that_is_deleted() {
    each_form("delete");
}

#[test]
#[ignore = "full: the journal that is deleted stands for it"]
fn a_crash_of_a_rotation_loses_nothing_with_a_journal_that_is_truncated() {
    each_form("truncate");
}

#[test]
#[ignore = "full: the journal that is deleted stands for it"]
fn a_crash_of_a_rotation_loses_nothing_with_a_journal_that_is_kept() {
    each_form("persist");
}

#[test]
fn a_crash_of_a_rotation_loses_nothing_with_a_log() {
    each_form("wal");
}
