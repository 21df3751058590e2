//! A fault of the SQLite library is reported. In a separate process, because the log belongs to the
//! library.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Mutex;

use crate::support::alone;
use rusqlite::Connection;
use rusqlite::ffi;
use tdekit_sqlite::sqlite3_tdekitsqlite_init;

/// Number of entries of `sqlite3_api_routines` in SQLite 3.40, and the index of
/// `sqlite3_libversion`.
const ENTRIES: usize = 266;
const LIBVERSION: usize = 66;

static LOG: Mutex<Vec<(c_int, String)>> = Mutex::new(Vec::new());

unsafe extern "C" fn log(_: *mut c_void, code: c_int, text: *const c_char) {
    // SAFETY: SQLite passes a terminated string.
    let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned();
    LOG.lock().unwrap().push((code, text));
}

unsafe extern "C" fn debians() -> *const c_char {
    c"3.40.1".as_ptr()
}

type Routines = *const ffi::sqlite3_api_routines;

/// Loads the extension into a library that claims to be Debian 12's.
unsafe extern "C" fn faulty(db: *mut ffi::sqlite3, _: *mut *mut c_char, table: Routines) -> c_int {
    // SAFETY: SQLite passes its own table, a list of functions that is longer than this.
    let mut copy = unsafe { ptr::read(table.cast::<[usize; ENTRIES]>()) };
    copy[LIBVERSION] = debians as *const () as usize;
    let copy = Box::leak(Box::new(copy));
    // SAFETY: the connection is the one that opens; the table lives for ever.
    unsafe {
        sqlite3_tdekitsqlite_init(db.cast(), ptr::null_mut(), ptr::from_ref(copy).cast()) & 0xff
    }
}

fn open() -> Connection {
    // SAFETY: the entry has the signature of an extension's.
    unsafe {
        assert_eq!(ffi::sqlite3_auto_extension(Some(faulty)), ffi::SQLITE_OK);
        let db = Connection::open_in_memory().unwrap();
        ffi::sqlite3_cancel_auto_extension(Some(faulty));
        db
    }
}

#[test]
fn a_library_that_loses_commits_is_named_in_its_log_and_to_who_asks() {
    if !alone("host_fault::a_library_that_loses_commits_is_named_in_its_log_and_to_who_asks") {
        return;
    }
    // SAFETY: SQLite is not in use yet, and the function has the signature of a log.
    let set = unsafe {
        let log: unsafe extern "C" fn(*mut c_void, c_int, *const c_char) = log;
        ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOG, log, ptr::null_mut::<c_void>())
    };
    assert_eq!(set, ffi::SQLITE_OK);
    let db = open();
    drop(open());
    let log = LOG.lock().unwrap().clone();
    assert_eq!(log.len(), 1, "{log:?}");
    let (code, text) = &log[0];
    assert_eq!(*code, ffi::SQLITE_WARNING);
    assert!(text.contains("SQLite 3.40.1 can lose commits"), "{text}");
    let told: Option<String> =
        db.query_row("SELECT tdekit_sqlite_fault()", [], |row| row.get(0)).unwrap();
    assert_eq!(told.map(|told| format!("tdekit: {told}")), Some(text.clone()));
}
