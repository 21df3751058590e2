//! VFSes above ours that do not pass everything on, as SQLite allows and some do: file controls, or
//! the property that a write leaves neighbouring bytes alone (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use crate::support::{CERTIFICATE, one, setup};
use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_SYNC, SQLITE_NOTFOUND, SQLITE_OK, sqlite3_file,
    sqlite3_file_control, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find,
    sqlite3_vfs_register,
};
use tempfile::TempDir;

const NAME: &CStr = c"deaf";
const SMALL_SECTORS: &CStr = c"small-sectors";
const SECTOR_LEN: c_int = 512;

/// Our part of a file; the file below has separate memory.
#[repr(C)]
struct Deaf {
    methods: *const sqlite3_io_methods,
    below: *mut sqlite3_file,
}

macro_rules! below {
    ($file:expr, $method:ident $(, $arg:expr)*) => {{
        // SAFETY: SQLite calls methods of an open file, whose file below is open too.
        unsafe {
            let below = (*$file.cast::<Deaf>()).below;
            ((*(*below).pMethods).$method.unwrap())(below $(, $arg)*)
        }
    }};
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    below!(file, xClose)
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    out: *mut c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    below!(file, xRead, out, len, at)
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    below!(file, xWrite, data, len, at)
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    below!(file, xTruncate, len)
}

unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    below!(file, xFileSize, out)
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    below!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    below!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    below!(file, xCheckReservedLock, out)
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    below!(file, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    below!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn passed_sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    below!(file, xSync, flags)
}

unsafe extern "C" fn passed_control(
    file: *mut sqlite3_file,
    control: c_int,
    argument: *mut c_void,
) -> c_int {
    below!(file, xFileControl, control, argument)
}

unsafe extern "C" fn small_sector(_: *mut sqlite3_file) -> c_int {
    SECTOR_LEN
}

unsafe extern "C" fn no_characteristics(_: *mut sqlite3_file) -> c_int {
    0
}

static SMALL_SECTOR_METHODS: sqlite3_io_methods = sqlite3_io_methods {
    xSync: Some(passed_sync),
    xFileControl: Some(passed_control),
    xSectorSize: Some(small_sector),
    xDeviceCharacteristics: Some(no_characteristics),
    ..METHODS
};

const METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

static DEAF_METHODS: sqlite3_io_methods = METHODS;

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `install` stored the VFS below there; SQLite passes memory for a `Deaf`, and the
    // memory of the file below is never freed.
    unsafe {
        let ours: *mut sqlite3_vfs = (*vfs).pAppData.cast();
        let len = usize::try_from((*ours).szOsFile).unwrap();
        let below = Box::leak(vec![0u64; len.div_ceil(8)].into_boxed_slice()).as_mut_ptr();
        let below: *mut sqlite3_file = below.cast();
        file.cast::<Deaf>().write(Deaf { methods: ptr::null(), below });
        let code = (*ours).xOpen.unwrap()(ours, name, below, flags, out_flags);
        if code == SQLITE_OK {
            (*file.cast::<Deaf>()).methods = match CStr::from_ptr((*vfs).zName) == NAME {
                true => &raw const DEAF_METHODS,
                false => &raw const SMALL_SECTOR_METHODS,
            };
        }
        code
    }
}

macro_rules! pass_on {
    ($name:ident, $method:ident, ($($arg:ident: $ty:ty),*)) => {
        unsafe extern "C" fn $name(vfs: *mut sqlite3_vfs $(, $arg: $ty)*) -> c_int {
            // SAFETY: as in `open`.
            unsafe {
                let ours: *mut sqlite3_vfs = (*vfs).pAppData.cast();
                (*ours).$method.unwrap()(ours $(, $arg)*)
            }
        }
    };
}

pass_on!(delete, xDelete, (name: *const c_char, sync: c_int));
pass_on!(access, xAccess, (name: *const c_char, flags: c_int, out: *mut c_int));
pass_on!(randomness, xRandomness, (len: c_int, out: *mut c_char));
pass_on!(sleep, xSleep, (microseconds: c_int));
pass_on!(current_time, xCurrentTime, (out: *mut f64));
pass_on!(full_pathname, xFullPathname, (name: *const c_char, len: c_int, out: *mut c_char));

/// Registers the VFS `name` above ours.
fn install(name: &'static CStr) {
    setup();
    // SAFETY: registered VFSes live for ever, and so does the leaked one.
    unsafe {
        let ours = sqlite3_vfs_find(c"tdekit".as_ptr());
        let vfs = sqlite3_vfs {
            szOsFile: c_int::try_from(size_of::<Deaf>()).unwrap(),
            pNext: ptr::null_mut(),
            zName: name.as_ptr(),
            pAppData: ours.cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            iVersion: 1,
            mxPathname: (*ours).mxPathname,
            // A method of ours would use `pAppData` as its own.
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xGetLastError: None,
            xCurrentTimeInt64: None,
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        };
        assert_eq!(sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0), SQLITE_OK);
    }
}

fn rows(path: &Path) -> i64 {
    let db = Connection::open(path).unwrap();
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
    one(&db, "SELECT count(*) FROM t")
}

/// Commits through such a VFS are visible to others, in every journal mode.
#[test]
fn commits_reach_the_file_without_file_controls() {
    install(NAME);
    let dir = TempDir::new().unwrap();
    for (at, mode) in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"].iter().enumerate() {
        let path = dir.path().join(format!("{at}.db"));
        let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", path.display());
        let made = Connection::open(uri).unwrap();
        made.execute_batch("CREATE TABLE t(x); CREATE INDEX i ON t(x)").unwrap();
        drop(made);
        let db = Connection::open(format!("file:{}?vfs=deaf", path.display())).unwrap();
        db.execute_batch(&format!("PRAGMA synchronous=OFF; PRAGMA journal_mode={mode}")).unwrap();
        for round in 1..=3 {
            let insert = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n \
                          WHERE i<100) INSERT INTO t SELECT hex(randomblob(200)) FROM n";
            db.execute_batch(insert).unwrap();
            assert_eq!(rows(&path), 100 * round, "{mode}");
        }
    }
}

/// A page that arrives after SQLite announced its commit, as from a shim that holds writes back
/// until then, is in the file when the lock is released.
#[test]
fn pages_behind_the_end_of_a_transaction_are_written() {
    setup();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("late.db");
    let uri = format!("file:{}?tdekit_certificate={CERTIFICATE}", path.display());
    let db = Connection::open(uri).unwrap();
    db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES('before'); BEGIN IMMEDIATE").unwrap();
    let size = usize::try_from(one::<i64>(&db, "PRAGMA page_size")).unwrap();
    let mut page = vec![0u8; size];
    let (len, at) = (c_int::try_from(size).unwrap(), sqlite3_int64::try_from(size).unwrap());
    let mut file: *mut sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open, and the calls are those that its pager makes to the file.
    unsafe {
        let place = (&raw mut file).cast();
        let (raw, main) = (db.handle(), c"main".as_ptr());
        assert_eq!(sqlite3_file_control(raw, main, SQLITE_FCNTL_FILE_POINTER, place), SQLITE_OK);
        let methods = &*(*file).pMethods;
        assert_eq!(methods.xRead.unwrap()(file, page.as_mut_ptr().cast(), len, at), SQLITE_OK);
        let from = page.windows(6).position(|window| window == b"before").unwrap();
        page[from..from + 6].copy_from_slice(b"behind");
        let control = methods.xFileControl.unwrap();
        // No VFS below knows it.
        assert_eq!(control(file, SQLITE_FCNTL_SYNC, ptr::null_mut()), SQLITE_NOTFOUND);
        assert_eq!(methods.xWrite.unwrap()(file, page.as_ptr().cast(), len, at), SQLITE_OK);
    }
    db.execute_batch("COMMIT").unwrap();
    let other = Connection::open(&path).unwrap();
    assert_eq!(one::<String>(&other, "SELECT x FROM t"), "behind");
}

/// SQLite splits a frame at the end of a sector, with a sync between its parts, and repeats the
/// committing frame up to there: at each place of a header and of a page.
#[test]
fn frames_may_come_in_two_parts() {
    install(SMALL_SECTORS);
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("split.db");
    let uri = format!("file:{}?vfs=small-sectors&tdekit_certificate={CERTIFICATE}", path.display());
    let db = Connection::open(uri).unwrap();
    db.execute_batch(
        "PRAGMA page_size=1024; PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;
         PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x)",
    )
    .unwrap();
    assert_eq!(one::<String>(&db, "PRAGMA journal_mode"), "wal");
    for round in 1..=300 {
        db.execute_batch("INSERT INTO t VALUES(hex(randomblob(200)))").unwrap();
        if round % 50 == 0 {
            db.execute_batch("BEGIN; UPDATE t SET x=hex(randomblob(200)); ROLLBACK").unwrap();
        }
        if round % 10 == 0 {
            // The files as a process finds them after a power cut.
            let copy = dir.path().join(format!("{round}.db"));
            std::fs::copy(&path, &copy).unwrap();
            let log = |path: &Path| format!("{}-wal", path.display());
            std::fs::copy(log(&path), log(&copy)).unwrap();
            assert_eq!(rows(&copy), round);
        }
    }
    drop(db);
    assert_eq!(rows(&path), 300);
}
