//! Files changed on purpose: pages moved, replaced, truncated; headers torn and from the future.

use std::path::{Path, PathBuf};

use tdekit_faults_sqlite::crash::restore;
use tdekit_faults_sqlite::disk::State;
use tdekit_faults_sqlite::ffi::db::Db;
use tdekit_faults_sqlite::flip::{Outcome, Target};
use tdekit_faults_sqlite::matrix::scratch;
use tdekit_faults_sqlite::top::Top;

const TOP: Top = Top::Tdekit;
const PAGE: usize = 4096;
const SLOT: usize = 8192;

fn outcome(target: &Target, change: impl FnOnce(&mut State)) -> Outcome {
    let mut state = target.state.clone();
    change(&mut state);
    target.read_by_sql(&state).unwrap()
}

fn bytes<'a>(state: &'a mut State, suffix: &str) -> &'a mut Vec<u8> {
    state.files.iter_mut().find(|(path, _)| path.to_string_lossy().ends_with(suffix)).unwrap().1
}

/// Swaps two ranges of `len` bytes.
fn swap(content: &mut [u8], a: usize, b: usize, len: usize) {
    for i in 0..len {
        content.swap(a + i, b + i);
    }
}

/// Reads page `page` (from 0) through the VFS; `None` on an error.
fn page_of(target: &Target, state: &State, page: usize) -> Option<Vec<u8>> {
    restore(&target.directory, state).unwrap();
    let path = target.directory.join("main.db");
    let db = Db::open(&TOP.uri(&path, ""), Some(TOP.vfs().unwrap()), false).ok()?;
    let file = db.file("main", false).unwrap();
    file.lock_shared();
    let mut out = vec![0; PAGE];
    let rc = file.read(&mut out, (page * PAGE) as u64);
    file.unlock();
    (rc == 0).then_some(out)
}

#[test]
fn a_page_at_another_place_is_an_error() {
    let target = with(Target::closed);
    let shift = target.shift().unwrap();
    for (a, b) in (0..63).map(|a| (a, a + 1)).chain([(0, 63), (5, 40), (1, 62)]) {
        let mut state = target.state.clone();
        swap(bytes(&mut state, "main.db"), shift + a * PAGE, shift + b * PAGE, PAGE);
        assert_eq!(page_of(&target, &state, a), None, "pages {a} and {b}");
        assert_eq!(page_of(&target, &state, b), None, "pages {a} and {b}");
        let sql = target.read_by_sql(&state).unwrap();
        assert!(matches!(sql, Outcome::Error | Outcome::Same), "pages {a} and {b}: {sql:?}");
    }
}

#[test]
fn a_page_of_another_file_is_an_error() {
    let (here, there) = (scratch().unwrap(), scratch().unwrap());
    let target = Target::closed(TOP, PAGE, here.path()).unwrap();
    // The same rows, the same certificate: only the file differs.
    let other = Target::closed(TOP, PAGE, there.path()).unwrap();
    let shift = target.shift().unwrap();
    let foreign = other.file("main.db").unwrap().1;
    for page in 0..64 {
        let at = shift + page * PAGE..shift + (page + 1) * PAGE;
        let mut state = target.state.clone();
        bytes(&mut state, "main.db")[at.clone()].copy_from_slice(&foreign[at]);
        assert_eq!(page_of(&target, &state, page), None, "page {page}");
    }
}

#[test]
fn a_blank_page_or_seal_is_an_error() {
    let target = with(Target::closed);
    let shift = target.shift().unwrap();
    for page in 0..64 {
        for (from, fill) in [(0, 0), (0, 0xff), (PAGE - 48, 0), (PAGE - 48, 0xff)] {
            let at = shift + page * PAGE + from..shift + (page + 1) * PAGE;
            let mut state = target.state.clone();
            bytes(&mut state, "main.db")[at].fill(fill);
            assert_eq!(page_of(&target, &state, page), None, "page {page} from {from}");
        }
    }
}

/// An earlier version of a page in the same file opens: page-level sealing cannot detect it. It
/// must read exactly as it was then.
#[test]
fn an_older_page_reads_as_it_was() {
    let directory = scratch().unwrap();
    let old = Target::closed(TOP, PAGE, directory.path()).unwrap();
    let shift = old.shift().unwrap();
    restore(&old.directory, &old.state).unwrap();
    let db = TOP.open(&old.directory.join("main.db")).unwrap();
    db.run("UPDATE t SET a = 'new'").unwrap();
    db.close().unwrap();
    let path = old.directory.join("main.db");
    let now = std::fs::read(&path).unwrap();
    let before = old.file("main.db").unwrap().1;
    let mut replayed = 0;
    for page in 0..64 {
        let at = shift + page * PAGE..shift + (page + 1) * PAGE;
        if now[at.clone()] == before[at.clone()] {
            continue;
        }
        let mut mixed = now.clone();
        mixed[at.clone()].copy_from_slice(&before[at]);
        let state = State { files: [(path.clone(), mixed)].into(), ..State::default() };
        let seen = page_of(&old, &state, page);
        assert_eq!(seen, page_of(&old, &old.state, page), "page {page}");
        replayed += 1;
    }
    println!("{replayed} pages replaced by their older version: each opens, as it was then");
    assert!(replayed > 10);
}

#[test]
fn truncation_is_an_error_or_changes_nothing() {
    let makes: [Make; 2] = [Target::closed, Target::with_log];
    for make in makes {
        let (target, suffix) = (with(make), "main.db");
        let header = target.shift().unwrap();
        let length = target.file(suffix).unwrap().1.len();
        let mut counts = [0; 4];
        let cuts = (0..length).step_by(1021).chain((0..length).step_by(PAGE)).chain([length - 1]);
        for cut in cuts {
            let found = outcome(&target, |state| bytes(state, suffix).truncate(cut));
            match found {
                Outcome::Error => counts[0] += 1,
                Outcome::Same => counts[1] += 1,
                Outcome::Earlier(_) => counts[2] += 1,
                // A file without pages is an empty database, as an empty file is to plain SQLite.
                Outcome::Wrong if cut == 0 || cut == header => counts[3] += 1,
                Outcome::Wrong => panic!("{suffix} cut to {cut} of {length} reads other bytes"),
            }
        }
        println!("{suffix}: {} errors, {} same, {} earlier", counts[0], counts[1], counts[2]);
        assert!(counts[0] > 20);
    }
}

/// The main file is truncated while a journal is hot: the rollback restores its length and the
/// pages in the journal. Other pages are then zeros, with plain SQLite too; the tree shows that as
/// missing rows or as corruption.
#[test]
fn a_file_cut_before_a_rollback() {
    for top in [Top::Plain, TOP] {
        let target = with_top(top, Target::with_hot_journal);
        let length = target.file("main.db").unwrap().1.len();
        let mut counts = [0; 3];
        for cut in (0..length).step_by(1021) {
            match outcome(&target, |state| bytes(state, "main.db").truncate(cut)) {
                Outcome::Error => counts[0] += 1,
                Outcome::Same => counts[1] += 1,
                Outcome::Earlier(_) | Outcome::Wrong => counts[2] += 1,
            }
        }
        let [errors, same, wrong] = counts;
        println!("{top}: file cut before a rollback: {errors} errors, {same} same, {wrong} wrong");
    }
}

/// A log is truncated where a crash could have truncated it too: the rest is a prefix of the
/// commits.
#[test]
fn a_cut_log_is_a_prefix() {
    let target = with(Target::with_log);
    let length = target.file("-wal").unwrap().1.len();
    let (mut errors, mut earlier, mut deepest) = (0, 0, 0);
    for cut in (0..length).step_by(509) {
        match outcome(&target, |state| bytes(state, "-wal").truncate(cut)) {
            Outcome::Error => errors += 1,
            Outcome::Same => {}
            Outcome::Earlier(by) => {
                earlier += 1;
                deepest = deepest.max(by);
            }
            Outcome::Wrong => panic!("log cut to {cut} of {length} reads other bytes"),
        }
    }
    println!("log cut: {errors} errors, {earlier} earlier states, at most {deepest} commits lost");
}

/// The last word of a frame may be in a separate sector, which a power cut may lose.
#[test]
fn a_frame_without_its_last_word_ends_the_log() {
    for page in [1024, PAGE] {
        let directory = scratch().unwrap();
        let target = Target::with_log(TOP, page, directory.path()).unwrap();
        let found = outcome(&target, |state| {
            let log = bytes(state, "-wal");
            let at = log.len() - 8;
            assert_eq!(log[at..], [1, 0, 0, 0, 0, 0, 0, 0], "key version and flags");
            log[at..].fill(0);
        });
        assert_eq!(found, Outcome::Earlier(1), "page {page}");
    }
}

/// A truncated journal is a journal that was not written completely: the rest is rolled back. A
/// truncation after its sync looks the same, with plain SQLite and with tdekit.
#[test]
fn a_cut_journal_ends_where_it_was_cut() {
    for top in [Top::Plain, TOP] {
        let target = with_top(top, Target::with_hot_journal);
        let length = target.file("-journal").unwrap().1.len();
        let mut counts = [0; 3];
        for cut in (0..length).step_by(1021) {
            match outcome(&target, |state| bytes(state, "-journal").truncate(cut)) {
                Outcome::Error => counts[0] += 1,
                Outcome::Same => counts[1] += 1,
                Outcome::Earlier(_) | Outcome::Wrong => counts[2] += 1,
            }
        }
        let [errors, same, half] = counts;
        println!("{top}: journal cut: {errors} errors, {same} same, {half} half-done states");
    }
}

#[test]
fn either_header_slot_serves() {
    let target = with(Target::closed);
    for slot in 0..2 {
        for torn in (0..SLOT).step_by(61).chain([SLOT]) {
            for fill in [0, 0xa5] {
                let found = outcome(&target, |state| {
                    let start = slot * SLOT;
                    // The first `torn` bytes of a new header were lost, or were the only ones
                    // written.
                    bytes(state, "main.db")[start..start + torn].fill(fill);
                });
                assert_eq!(found, Outcome::Same, "slot {slot}, first {torn} bytes {fill:#x}");
                let found = outcome(&target, |state| {
                    let end = (slot + 1) * SLOT;
                    bytes(state, "main.db")[end - torn..end].fill(fill);
                });
                assert_eq!(found, Outcome::Same, "slot {slot}, last {torn} bytes {fill:#x}");
            }
        }
    }
    let both = outcome(&target, |state| bytes(state, "main.db")[..2 * SLOT].fill(0));
    assert_eq!(both, Outcome::Error);
}

/// Added to a known version, gives an unknown one.
const FUTURE: u16 = 100;

#[test]
fn a_format_from_the_future_is_refused() {
    let target = with(Target::closed);
    let mut state = target.state.clone();
    for slot in bytes(&mut state, "main.db")[..2 * SLOT].chunks_exact_mut(SLOT) {
        let version = u16::from_le_bytes([slot[16], slot[17]]) + FUTURE;
        slot[16..18].copy_from_slice(&version.to_le_bytes());
        let length = usize::from(u16::from_le_bytes([slot[20], slot[21]]));
        let checksum = tdekit_key_crypto::sha256(&[&slot[..length]]);
        slot[length..length + 32].copy_from_slice(&checksum);
    }
    assert_eq!(target.read_by_sql(&state).unwrap(), Outcome::Error);
    let memory = Db::open(":memory:", None, true).unwrap();
    let said = memory.text("SELECT tdekit_last_error()").unwrap();
    assert!(said.contains("version"), "{said}");
    // Only one slot is from the future: a newer program is at work, and its header is the later
    // one.
    let one = outcome(&target, |state| {
        let content = bytes(state, "main.db");
        let future = state_slot(&target, 1);
        content[SLOT..2 * SLOT].copy_from_slice(&future);
    });
    println!("one slot from the future: {one:?}");
    assert!(matches!(one, Outcome::Error | Outcome::Same));
}

fn state_slot(target: &Target, slot: usize) -> Vec<u8> {
    let mut slot = target.file("main.db").unwrap().1[slot * SLOT..(slot + 1) * SLOT].to_vec();
    let version = u16::from_le_bytes([slot[16], slot[17]]) + FUTURE;
    slot[16..18].copy_from_slice(&version.to_le_bytes());
    let length = usize::from(u16::from_le_bytes([slot[20], slot[21]]));
    let checksum = tdekit_key_crypto::sha256(&[&slot[..length]]);
    slot[length..length + 32].copy_from_slice(&checksum);
    slot
}

/// Another tool, or a careless program, sets the reserved bytes to 0 and vacuums.
#[test]
fn reserved_bytes_reset_is_an_error() {
    let target = with(Target::closed);
    restore(&target.directory, &target.state).unwrap();
    let path = target.directory.join("main.db");
    let db = TOP.open(&path).unwrap();
    db.reserve_bytes("main", 0).unwrap();
    // SQLite never goes below the reserve that a database has.
    db.run("VACUUM").unwrap();
    let file = db.file("main", false).unwrap();
    let mut page = vec![0; PAGE];
    assert_eq!(file.read(&mut page, 0), 0);
    assert_eq!(page[20], 48);
    page[20] = 0;
    assert_ne!(file.write(&page, 0), 0);
    // A byte in the reserve would be lost.
    assert_eq!(file.read(&mut page, PAGE as u64), 0);
    page[PAGE - 1] = 1;
    assert_ne!(file.write(&page, PAGE as u64), 0);
    drop(db);
    let state = State { files: files(&target.directory), ..State::default() };
    assert_eq!(target.read_by_sql(&state).unwrap(), Outcome::Same);
}

#[test]
fn frames_that_were_moved_are_errors() {
    let target = with(Target::with_log);
    let (first, length) = TOP.log_layout(PAGE);
    let frames = (target.file("-wal").unwrap().1.len() - first) / length;
    assert!(frames > 20);
    let (mut counts, mut deepest) = ([0; 3], 0);
    for a in (0..frames - 1).step_by(7) {
        for b in [a + 1, frames - 1] {
            if a == b {
                continue;
            }
            let (at, to) = (first + a * length, first + b * length);
            let swapped = outcome(&target, |state| swap(bytes(state, "-wal"), at, to, length));
            let copied = outcome(&target, |state| {
                bytes(state, "-wal").copy_within(at..at + length, to);
            });
            // The page alone, under the other frame's header.
            let page = outcome(&target, |state| {
                let header = length - PAGE;
                swap(bytes(state, "-wal"), at + header, to + header, PAGE);
            });
            for (what, found) in [("swapped", swapped), ("copied", copied), ("page", page)] {
                match found {
                    Outcome::Error => counts[0] += 1,
                    Outcome::Same => counts[1] += 1,
                    Outcome::Earlier(by) => {
                        counts[2] += 1;
                        deepest = deepest.max(by);
                    }
                    Outcome::Wrong => panic!("frames {a} and {b}, {what}: other bytes"),
                }
            }
        }
    }
    let [errors, same, earlier] = counts;
    println!("frames moved: {errors} errors, {same} same, {earlier} without the last commit");
    // Commits that a later sync covers are never given up: only the last may look torn.
    assert!(deepest <= 1 && errors > earlier);
}

#[test]
fn a_log_or_journal_of_another_database_is_not_applied() {
    let log = with(Target::with_log);
    let foreign = with(Target::with_log);
    let wal = foreign.file("-wal").unwrap().1.to_vec();
    let found = outcome(&log, |state| *bytes(state, "-wal") = wal);
    println!("log of another database: {found:?}");
    // The first entry of the history is the database without its log.
    assert!(matches!(found, Outcome::Error | Outcome::Earlier(_)));

    let journal = with(Target::with_hot_journal);
    let foreign = with(Target::with_hot_journal);
    let bytes_b = foreign.file("-journal").unwrap().1.to_vec();
    let found = outcome(&journal, |state| *bytes(state, "-journal") = bytes_b);
    assert_eq!(found, Outcome::Error);
}

/// The journal of an earlier transaction is placed beside the finished database. Plain SQLite rolls
/// it back and so restores old pages; this test shows the result with tdekit.
#[test]
fn a_journal_of_an_earlier_transaction() {
    for top in [Top::Plain, TOP] {
        let directory = scratch().unwrap();
        let hot = Target::with_hot_journal(top, PAGE, directory.path()).unwrap();
        let journal = hot.file("-journal").unwrap().1.to_vec();
        restore(&hot.directory, &hot.state).unwrap();
        let path = hot.directory.join("main.db");
        let db = top.open(&path).unwrap();
        db.run("UPDATE t SET a = 'later'").unwrap();
        db.close().unwrap();
        let mut state = State { files: files(&hot.directory), ..State::default() };
        let name = PathBuf::from(format!("{}-journal", path.display()));
        state.files.insert(name, journal);
        println!(
            "{top}: journal of an earlier transaction: {:?}",
            hot.read_by_sql(&state).unwrap()
        );
    }
}

/// A target with its directory.
struct Case {
    target: Target,
    _directory: tempfile::TempDir,
}

impl std::ops::Deref for Case {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}

type Make = fn(Top, usize, &Path) -> tdekit_faults_sqlite::error::Result<Target>;

fn with(make: Make) -> Case {
    with_top(TOP, make)
}

fn with_top(top: Top, make: Make) -> Case {
    let directory = scratch().unwrap();
    Case { target: make(top, PAGE, directory.path()).unwrap(), _directory: directory }
}

fn files(directory: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}
