//! The VFS `crash`: the system's `unix` VFS, observed by a [`Recorder`].
//!
//! Every call passes to `unix` unchanged, except xSync, which is recorded and not executed: a power
//! cut is simulated from the log, and no test machine has to wait for its disk.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::{size_of, zeroed};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, OnceLock};

use rusqlite::ffi as sys;

use super::api::library;
use super::crash_file::{CrashFile, FileState, base_file, wrap_methods};
use crate::error::{Error, Result};
use crate::record::{FaultKind, Recorder, Role};

/// Name under which the VFS is registered.
pub const NAME: &CStr = c"crash";

/// Registers the VFS, once per process, not as default; returns its name.
///
/// # Errors
/// [`Error::Setup`] if the library has no VFS `unix` or refuses the registration.
pub fn install() -> Result<&'static str> {
    static DONE: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    DONE.get_or_init(|| register().map_err(|e| e.to_string())).clone().map_err(Error::Setup)?;
    Ok("crash")
}

fn register() -> Result<()> {
    let api = library()?.api();
    // SAFETY: vfs_find initialises the library; the result is static for the built-in VFS.
    let base = unsafe { (api.sqlite3_vfs_find)(c"unix".as_ptr()) };
    if base.is_null() {
        return Err(Error::Setup("this SQLite has no VFS unix".into()));
    }
    let header = c_int::try_from(size_of::<CrashFile>()).unwrap_or(c_int::MAX);
    // SAFETY: `base` is a registered VFS. A sqlite3_vfs of zeroes is valid: null and None.
    let vfs = unsafe {
        sys::sqlite3_vfs {
            // Version 2 and not 3: nobody may replace the system calls under the recorder.
            iVersion: (*base).iVersion.min(2),
            szOsFile: header + (*base).szOsFile,
            mxPathname: (*base).mxPathname,
            zName: NAME.as_ptr(),
            pAppData: base.cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: (*base).xDlOpen.and(Some(dl_open)),
            xDlError: (*base).xDlError.and(Some(dl_error)),
            xDlSym: (*base).xDlSym.and(Some(dl_sym)),
            xDlClose: (*base).xDlClose.and(Some(dl_close)),
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: (*base).xGetLastError.and(Some(get_last_error)),
            xCurrentTimeInt64: (*base).xCurrentTimeInt64.and(Some(current_time_int64)),
            ..zeroed()
        }
    };
    let vfs = Box::leak(Box::new(vfs));
    // SAFETY: the leaked structure lives for the process, as registration demands.
    match unsafe { (api.sqlite3_vfs_register)(vfs, 0) } {
        sys::SQLITE_OK => Ok(()),
        rc => Err(Error::Setup(format!("sqlite3_vfs_register: {rc}"))),
    }
}

/// Runs a callback's body; a panic must not unwind into C.
pub(super) fn guard(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(sys::SQLITE_INTERNAL)
}

/// Returns the VFS below.
///
/// # Safety
/// `vfs` is the structure that [`register`] made.
unsafe fn base(vfs: *mut sys::sqlite3_vfs) -> *mut sys::sqlite3_vfs {
    // SAFETY: the caller's promise; pAppData is the base VFS.
    unsafe { (*vfs).pAppData.cast() }
}

/// Calls a method of the base VFS, or returns `$missing` when it has none.
macro_rules! below {
    ($vfs:expr, $method:ident, $missing:expr, $($arg:expr),*) => {
        // SAFETY: SQLite calls with this VFS and arguments that fit the same method below.
        unsafe {
            let base = base($vfs);
            match (*base).$method { Some(call) => call(base, $($arg),*), None => $missing }
        }
    };
}

/// # Safety
/// `name` is null or NUL-terminated.
unsafe fn path_of(name: *const c_char) -> Option<PathBuf> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    Some(Path::new(OsStr::from_bytes(bytes)).to_owned())
}

unsafe extern "C" fn open(
    vfs: *mut sys::sqlite3_vfs,
    name: sys::sqlite3_filename,
    file: *mut sys::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite provides szOsFile bytes; null methods make it not close a file that failed to
    // open.
    unsafe { (*file).pMethods = ptr::null() };
    guard(|| {
        // SAFETY: SQLite's names are NUL-terminated.
        let path = unsafe { path_of(name) };
        let recorder = Recorder::for_path(path.as_deref());
        let role = role_of(flags, path.as_deref());
        if let Some(plan) = recorder.as_ref().and_then(|r| r.fault(FaultKind::Open, role, true)) {
            return plan.code;
        }
        let existed = path.as_deref().is_some_and(Path::exists);
        // SAFETY: `file` has room for CrashFile and the base's file behind it.
        let under = unsafe {
            let under = base_file(file);
            (*under).pMethods = ptr::null();
            under
        };
        let rc = below!(vfs, xOpen, sys::SQLITE_CANTOPEN, name, under, flags, out_flags);
        if rc != sys::SQLITE_OK {
            return rc;
        }
        // unix unlinks such a file at once: it has no name that could survive.
        let named = path.filter(|_| flags & sys::SQLITE_OPEN_DELETEONCLOSE == 0);
        let state = recorder.map(|recorder| open_state(recorder, named, existed, flags, role));
        // SAFETY: the base opened its file, so its methods are set.
        unsafe { wrap_methods(file, state) };
        sys::SQLITE_OK
    })
}

fn open_state(
    recorder: Arc<Recorder>,
    path: Option<PathBuf>,
    existed: bool,
    flags: c_int,
    role: Role,
) -> FileState {
    const SYNCS_DIRECTORY: c_int =
        sys::SQLITE_OPEN_SUPER_JOURNAL | sys::SQLITE_OPEN_MAIN_JOURNAL | sys::SQLITE_OPEN_WAL;
    let creates = flags & sys::SQLITE_OPEN_CREATE != 0;
    // The first sync of a journal or log opened for creation syncs the directory too
    // (`isNewJrnl` of os_unix.c).
    let directory = creates && flags & SYNCS_DIRECTORY != 0 && path.is_some();
    let file = recorder.opened(path, creates && !existed);
    FileState::new(recorder, file, role, directory)
}

/// Returns the role of a file, by SQLite's flags; the files of freshness are opened without SQLite.
fn role_of(flags: c_int, path: Option<&Path>) -> Role {
    let name = path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    match flags {
        _ if ["-seals", "-seals2", ".anchor"].iter().any(|end| name.ends_with(end)) => Role::Seals,
        _ if flags & sys::SQLITE_OPEN_MAIN_DB != 0 => Role::Main,
        _ if flags & sys::SQLITE_OPEN_MAIN_JOURNAL != 0 => Role::Journal,
        _ if flags & sys::SQLITE_OPEN_WAL != 0 => Role::Wal,
        _ if flags & sys::SQLITE_OPEN_SUBJOURNAL != 0 => Role::Statement,
        _ if flags & sys::SQLITE_OPEN_TEMP_DB != 0 => Role::Temporary,
        _ if flags & sys::SQLITE_OPEN_TEMP_JOURNAL != 0 => Role::TemporaryJournal,
        _ if flags & sys::SQLITE_OPEN_TRANSIENT_DB != 0 => Role::Transient,
        _ => Role::Super,
    }
}

unsafe extern "C" fn delete(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite's names are NUL-terminated.
        let path = unsafe { path_of(name) };
        let recorder = Recorder::for_path(path.as_deref());
        if let Some(plan) =
            recorder.as_ref().and_then(|r| r.fault(FaultKind::Delete, Role::Journal, true))
        {
            return plan.code;
        }
        let rc = below!(vfs, xDelete, sys::SQLITE_IOERR_DELETE, name, 0);
        if let (sys::SQLITE_OK, Some(recorder), Some(path)) = (rc, recorder, path) {
            recorder.deleted(path, sync_dir != 0);
        }
        rc
    })
}

unsafe extern "C" fn access(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    below!(vfs, xAccess, sys::SQLITE_IOERR_ACCESS, name, flags, out)
}

unsafe extern "C" fn full_pathname(
    vfs: *mut sys::sqlite3_vfs,
    name: *const c_char,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    below!(vfs, xFullPathname, sys::SQLITE_CANTOPEN, name, size, out)
}

unsafe extern "C" fn dl_open(vfs: *mut sys::sqlite3_vfs, name: *const c_char) -> *mut c_void {
    below!(vfs, xDlOpen, ptr::null_mut(), name)
}

unsafe extern "C" fn dl_error(vfs: *mut sys::sqlite3_vfs, size: c_int, out: *mut c_char) {
    below!(vfs, xDlError, (), size, out);
}

type Symbol = Option<unsafe extern "C" fn(*mut sys::sqlite3_vfs, *mut c_void, *const c_char)>;

unsafe extern "C" fn dl_sym(
    vfs: *mut sys::sqlite3_vfs,
    library: *mut c_void,
    name: *const c_char,
) -> Symbol {
    below!(vfs, xDlSym, None, library, name)
}

unsafe extern "C" fn dl_close(vfs: *mut sys::sqlite3_vfs, library: *mut c_void) {
    below!(vfs, xDlClose, (), library);
}

unsafe extern "C" fn randomness(
    vfs: *mut sys::sqlite3_vfs,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    below!(vfs, xRandomness, 0, size, out)
}

unsafe extern "C" fn sleep(vfs: *mut sys::sqlite3_vfs, microseconds: c_int) -> c_int {
    below!(vfs, xSleep, 0, microseconds)
}

unsafe extern "C" fn current_time(vfs: *mut sys::sqlite3_vfs, out: *mut f64) -> c_int {
    below!(vfs, xCurrentTime, sys::SQLITE_ERROR, out)
}

unsafe extern "C" fn current_time_int64(vfs: *mut sys::sqlite3_vfs, out: *mut i64) -> c_int {
    below!(vfs, xCurrentTimeInt64, sys::SQLITE_ERROR, out)
}

unsafe extern "C" fn get_last_error(
    vfs: *mut sys::sqlite3_vfs,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    below!(vfs, xGetLastError, 0, size, out)
}
