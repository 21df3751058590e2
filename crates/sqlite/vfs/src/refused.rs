//! Refused main files, and how the connection reports the reason.
//!
//! SQLite has one fixed text for each result code of `xOpen`, and no VFS can add to it: a wrong
//! password would be "authorization denied" and no more. But it asks a VFS about every `PRAGMA`,
//! and takes the text of an error from there. So a refused main file opens as one that allows
//! nothing, and the connection, of which we are notified as soon as it has opened, prepares a
//! `PRAGMA`. `sqlite3_open` then fails with that error, whose text every driver has in its
//! exception.
//!
//! If we are not notified of a connection (`ATTACH`, or a program that removed the automatic
//! extensions), the first lock or read fails with the same code.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::catch_unwind;

use crate::VfsError;
use crate::api::Api;
use crate::ffi::{self, File, IoMethods, Sqlite3};
use crate::file::{TdeFile, below, new_below, refuse_open, report};
use crate::new_db::NewFile;

/// The bytes of a main file that SQLite reads as it opens it, before there is a connection for the
/// error.
const OPENING_READ: c_int = 100;

/// A page of any size.
const SIZE: i64 = 65536;

/// A refused file. It does not use a file of the VFS below.
#[repr(C)]
struct RefusedFile {
    methods: *const IoMethods,
    refusal: *mut Refusal,
}

const _: () = assert!(size_of::<RefusedFile>() <= size_of::<TdeFile>());

/// Reason of a refusal.
struct Refusal {
    api: Api,
    code: c_int,
    /// SQLite's text for the code, and the reason.
    message: CString,
}

/// Turns `file` into a refused one for `error`; its result code is `code`.
///
/// # Safety
/// `file` is memory of a file of ours that is not open.
pub(crate) unsafe fn install(file: *mut File, api: Api, code: c_int, error: &VfsError) {
    let text = format!("{}: tdekit: {error}", api.error_text(code));
    let message = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let refusal = Box::into_raw(Box::new(Refusal { api, code, message }));
    // SAFETY: the memory has room for a `TdeFile`, and so for this.
    unsafe { file.cast::<RefusedFile>().write(RefusedFile { methods: &METHODS, refusal }) };
}

/// Makes the opening of `db`, which has just been opened, fail with the reason if its main file is
/// refused, or is a new one whose keys cannot be made. Returns true if it does.
pub(crate) fn tell(api: Api, db: *mut Sqlite3) -> bool {
    let file = api.file_of(db, c"main");
    // SAFETY: SQLite owns the file of an open schema, and nobody else has the connection yet.
    let is_refused = unsafe {
        refuse_new(api, file);
        is_refused(file)
    };
    if is_refused {
        api.fail_pragma(db, c"PRAGMA main.tdekit_refused");
    }
    is_refused
}

/// Refuses a new main file that must be encrypted and cannot be: otherwise the first write would
/// fail without the reason.
///
/// # Safety
/// `file` is null or an open file of SQLite's that nobody uses yet.
unsafe fn refuse_new(api: Api, file: *mut File) {
    // SAFETY: this function's own contract.
    if let Some(Err(error)) = unsafe { new_below(file) }.map(NewFile::check_creation) {
        let code = report(api, &error, true, None);
        // SAFETY: as above; the file is ours, and is closed before it is replaced.
        unsafe {
            let ours = below(file);
            refuse_open(ours);
            install(ours, api, code, &error);
        }
    }
}

/// Returns true if `file` is a refused one.
///
/// # Safety
/// `file` is null or an open file of SQLite's.
unsafe fn is_refused(file: *mut File) -> bool {
    // SAFETY: this function's own contract; an open file has methods.
    let methods = unsafe { file.as_ref().and_then(|file| file.methods.as_ref()) };
    let Some(control) = methods.and_then(|methods| methods.file_control) else { return false };
    let mut answer: c_int = 0;
    let argument: *mut c_int = &mut answer;
    // SAFETY: shims pass on controls that they do not know; ours writes an integer.
    unsafe { control(file, ffi::FCNTL_TDEKIT_REFUSED, argument.cast()) };
    answer == 1
}

/// # Safety
/// `file` is open and was made by `install`.
unsafe fn refusal_of<'a>(file: *mut File) -> &'a Refusal {
    // SAFETY: this function's own contract.
    unsafe { &*(*file.cast::<RefusedFile>()).refusal }
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    let file: *mut RefusedFile = file.cast();
    // SAFETY: SQLite closes a file that it opened, once; the refusal came from `Box::into_raw`.
    unsafe {
        (*file).methods = std::ptr::null();
        drop(Box::from_raw((*file).refusal));
    }
    ffi::OK
}

unsafe extern "C" fn read(file: *mut File, out: *mut c_void, len: c_int, offset: i64) -> c_int {
    if (len, offset) != (OPENING_READ, 0) {
        // SAFETY: SQLite calls methods on our open file.
        return unsafe { refusal_of(file) }.code;
    }
    // SAFETY: SQLite passes `len` writable bytes.
    unsafe { out.cast::<u8>().write_bytes(0, OPENING_READ as usize) };
    ffi::IOERR_SHORT_READ
}

unsafe extern "C" fn write(file: *mut File, _: *const c_void, _: c_int, _: i64) -> c_int {
    // SAFETY: SQLite calls methods on our open file.
    unsafe { refusal_of(file) }.code
}

unsafe extern "C" fn truncate(file: *mut File, _: i64) -> c_int {
    // SAFETY: as in `write`.
    unsafe { refusal_of(file) }.code
}

unsafe extern "C" fn sync_or_lock(file: *mut File, _: c_int) -> c_int {
    // SAFETY: as in `write`.
    unsafe { refusal_of(file) }.code
}

/// Returns a size other than that of an empty file, beside which SQLite would delete a journal and
/// a log. An immutable file is asked for its size as it opens.
unsafe extern "C" fn file_size(_: *mut File, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes a place for the size.
    unsafe { *out = SIZE };
    ffi::OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, _: *mut c_int) -> c_int {
    // SAFETY: as in `write`.
    unsafe { refusal_of(file) }.code
}

unsafe extern "C" fn unlock(_: *mut File, _: c_int) -> c_int {
    ffi::OK
}

unsafe extern "C" fn file_control(file: *mut File, op: c_int, argument: *mut c_void) -> c_int {
    match op {
        ffi::FCNTL_TDEKIT_REFUSED => {
            // SAFETY: only `is_refused` uses this control, with a place for an integer.
            unsafe { *argument.cast::<c_int>() = 1 };
            ffi::OK
        }
        ffi::FCNTL_PRAGMA => {
            // SAFETY: as in `write`.
            let refusal = unsafe { refusal_of(file) };
            let text = catch_unwind(|| refusal.api.mprintf(&refusal.message));
            // SAFETY: the argument of this control is an array of strings, the first of which is
            // the result, which SQLite frees.
            unsafe { *argument.cast::<*mut c_char>() = text.unwrap_or(std::ptr::null_mut()) };
            refusal.code
        }
        _ => ffi::NOTFOUND,
    }
}

/// Returns SQLite's own default for a file that reports none.
unsafe extern "C" fn sector_size(_: *mut File) -> c_int {
    0
}

unsafe extern "C" fn device_characteristics(_: *mut File) -> c_int {
    0
}

static METHODS: IoMethods = IoMethods {
    version: 1,
    close: Some(close),
    read: Some(read),
    write: Some(write),
    truncate: Some(truncate),
    sync: Some(sync_or_lock),
    file_size: Some(file_size),
    lock: Some(sync_or_lock),
    unlock: Some(unlock),
    check_reserved_lock: Some(check_reserved_lock),
    file_control: Some(file_control),
    sector_size: Some(sector_size),
    device_characteristics: Some(device_characteristics),
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};
