//! A database that another program truncates or overwrites while it is open and mapped.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{alone, create, is_alone, one, open, run_alone, setup};
use rusqlite::Connection;
use tempfile::TempDir;

const ROWS: i64 = 3000;

fn fill(path: &Path, mode: &str) -> Connection {
    let db = create(path);
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {ROWS})
         INSERT INTO t SELECT x, printf('%0800d', x) FROM n;
         PRAGMA cache_size=10;"
    ))
    .unwrap();
    if mode == "WAL" {
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    }
    db
}

fn sum(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT sum(length(d)) FROM t", [], |row| row.get(0))
}

/// The operations of a program on the file: `cp` of a shorter or empty file; a truncation.
fn overwrite(path: &Path, how: &str) {
    match how {
        "empty" => drop(File::create(path).unwrap()),
        "header" => File::options().write(true).open(path).unwrap().set_len(16384).unwrap(),
        "half" => {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }
        // Larger than the initial mapping, and nothing in it opens.
        _ => File::create(path).unwrap().write_all(&vec![7; 8 << 20]).unwrap(),
    }
}

#[test]
fn whoever_reads_gets_an_error_and_lives() {
    setup();
    for mode in ["DELETE", "WAL"] {
        for how in ["empty", "header", "half", "other"] {
            let dir = TempDir::new().unwrap();
            let path = dir.path().join("a.db");
            let db = fill(&path, mode);
            assert_eq!(sum(&db).unwrap(), ROWS * 800);
            let whole = fs::read(&path).unwrap();
            // In the middle of a scan, so that SQLite does not check the file's length first.
            let mut statement = db.prepare("SELECT d FROM t").unwrap();
            let mut rows = statement.query([]).unwrap();
            rows.next().unwrap().unwrap();
            overwrite(&path, how);
            let mut read = 1;
            let error = loop {
                match rows.next() {
                    Ok(Some(row)) => {
                        read += 1;
                        let text: String = row.get(0).unwrap();
                        assert_eq!(text, format!("{read:0800}"), "{mode} {how}");
                    }
                    Ok(None) => panic!("{mode} {how}: all {read} rows of a file that was cut"),
                    Err(error) => break error,
                }
            };
            drop(rows);
            drop(statement);
            // With another file's header it is not a database.
            let code = error.sqlite_error().map(|error| error.extended_code & 0xff);
            let another = how == "other" && code == Some(rusqlite::ffi::SQLITE_NOTADB);
            assert!(another || code == Some(rusqlite::ffi::SQLITE_IOERR), "{mode} {how}: {error}");
            // Once the file is restored it opens, mapped anew.
            drop(db);
            fs::write(&path, &whole).unwrap();
            let db = open(&path).unwrap();
            assert_eq!(sum(&db).unwrap(), ROWS * 800, "{mode} {how}");
            assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
        }
    }
}

static FOREIGN: AtomicUsize = AtomicUsize::new(0);

/// A mapping of one page of a file that is empty by now.
fn lost_page() -> *const u8 {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    // SAFETY: a new mapping of an open file, which is read below to be lost.
    let page = unsafe {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(ptr::null_mut(), 4096, read, shared, file.as_raw_fd(), 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    file.set_len(0).unwrap();
    page.cast()
}

extern "C" fn somebody_elses(_: c_int, info: *mut libc::siginfo_t, _: *mut std::ffi::c_void) {
    FOREIGN.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the system passes a valid description; the page is that of `lost_page`.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let at = ((*info).si_addr() as usize & !4095) as *mut std::ffi::c_void;
        libc::mmap(at, 4096, libc::PROT_READ, flags, -1, 0);
    }
}

fn use_a_database() {
    let dir = TempDir::new().unwrap();
    let db = fill(&dir.path().join("a.db"), "DELETE");
    assert_eq!(sum(&db).unwrap(), ROWS * 800);
}

#[test]
fn a_host_that_handles_the_signal_still_does() {
    if !alone("cut_file::a_host_that_handles_the_signal_still_does") {
        return;
    }
    // SAFETY: a handler of this signature, which keeps to what a signal allows.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut std::ffi::c_void) =
            somebody_elses;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
    }
    use_a_database();
    // SAFETY: the handler puts a page there.
    assert_eq!(unsafe { ptr::read_volatile(lost_page()) }, 0);
    assert_eq!(FOREIGN.load(Ordering::SeqCst), 1);
    // A handler installed later that does not call ours: from now on nothing is mapped.
    // SAFETY: as above.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
    }
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    let db = fill(&path, "DELETE");
    assert_eq!(sum(&db).unwrap(), ROWS * 800);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains(path.to_str().unwrap()), "{maps}");
    overwrite(&path, "half");
    assert!(sum(&db).is_err());
}

#[test]
fn a_fault_that_is_not_ours_still_ends_the_process() {
    if !is_alone() {
        let status = run_alone("cut_file::a_fault_that_is_not_ours_still_ends_the_process").status;
        return assert_eq!(status.signal(), Some(libc::SIGBUS), "{status:?}");
    }
    use_a_database();
    // SAFETY: the page is lost, which is what this test checks: the process ends here.
    unsafe { ptr::read_volatile(lost_page()) };
}
