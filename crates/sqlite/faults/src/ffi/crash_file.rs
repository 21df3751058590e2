//! Files of the VFS `crash`.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr;
use std::sync::Arc;

use rusqlite::ffi as sys;

use super::crash_vfs::guard;
use crate::record::{FaultKind, FaultPlan, FileId, Op, Recorder, Role};

/// The file object that SQLite sees; the base VFS's own follows in the same allocation.
#[repr(C)]
pub(super) struct CrashFile {
    base: sys::sqlite3_file,
    state: *mut Opened,
}

struct Opened {
    methods: sys::sqlite3_io_methods,
    recorded: Option<FileState>,
}

/// A file that belongs to a recorder.
pub(super) struct FileState {
    recorder: Arc<Recorder>,
    file: FileId,
    role: Role,
    /// True if the next sync includes the directory.
    directory: Cell<bool>,
}

impl FileState {
    pub(super) fn new(recorder: Arc<Recorder>, file: FileId, role: Role, directory: bool) -> Self {
        Self { recorder, file, role, directory: Cell::new(directory) }
    }

    fn fault(&self, kind: FaultKind) -> Option<FaultPlan> {
        self.recorder.fault(kind, self.role, true)
    }
}

/// Returns the base VFS's file behind `file`.
///
/// # Safety
/// `file` has the size that the VFS `crash` asks for.
pub(super) unsafe fn base_file(file: *mut sys::sqlite3_file) -> *mut sys::sqlite3_file {
    // SAFETY: the caller's promise; CrashFile is two pointers, so alignment is kept.
    unsafe { file.cast::<u8>().add(size_of::<CrashFile>()).cast() }
}

/// Replaces the methods of the opened base file by ours, which call them.
///
/// # Safety
/// `file` has the size that the VFS `crash` asks for and its base file is open.
pub(super) unsafe fn wrap_methods(file: *mut sys::sqlite3_file, recorded: Option<FileState>) {
    // SAFETY: an open base file has a method table.
    let under = unsafe { &*(*base_file(file)).pMethods };
    let methods = sys::sqlite3_io_methods {
        iVersion: under.iVersion.min(3),
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
        xShmMap: under.xShmMap.and(Some(shm_map)),
        xShmLock: under.xShmLock.and(Some(shm_lock)),
        xShmBarrier: under.xShmBarrier.and(Some(shm_barrier)),
        xShmUnmap: under.xShmUnmap.and(Some(shm_unmap)),
        xFetch: under.xFetch.and(Some(fetch)),
        xUnfetch: under.xUnfetch.and(Some(unfetch)),
    };
    let opened = Box::into_raw(Box::new(Opened { methods, recorded }));
    let file: *mut CrashFile = file.cast();
    // SAFETY: the caller's promise; the box lives until xClose.
    unsafe {
        (*file).state = opened;
        (*file).base.pMethods = &raw const (*opened).methods;
    }
}

/// Returns the recorder's view of `file`.
///
/// # Safety
/// `file` was opened by the VFS `crash` and is not closed within `'a`.
unsafe fn recorded<'a>(file: *mut sys::sqlite3_file) -> Option<&'a FileState> {
    // SAFETY: the caller's promise; SQLite uses a file from one thread at a time.
    unsafe { (*(*file.cast::<CrashFile>()).state).recorded.as_ref() }
}

/// Calls a method of the base file, or returns `$missing` when it has none.
macro_rules! below {
    ($file:expr, $method:ident, $missing:expr $(, $arg:expr)*) => {
        // SAFETY: SQLite calls with an open file of ours and arguments that fit the same
        // method below.
        unsafe {
            let under = base_file($file);
            match (*(*under).pMethods).$method {
                Some(call) => call(under $(, $arg)*),
                None => $missing,
            }
        }
    };
}

unsafe extern "C" fn close(file: *mut sys::sqlite3_file) -> c_int {
    guard(|| {
        let rc = below!(file, xClose, sys::SQLITE_OK);
        // SAFETY: SQLite closes an open file once; the box came from `wrap_methods`.
        unsafe {
            drop(Box::from_raw((*file.cast::<CrashFile>()).state));
            (*file).pMethods = ptr::null();
        }
        rc
    })
}

unsafe extern "C" fn read(
    file: *mut sys::sqlite3_file,
    out: *mut c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let state = unsafe { recorded(file) };
        if let Some(plan) = state.and_then(|s| s.fault(FaultKind::Read)) {
            return plan.code;
        }
        below!(file, xRead, sys::SQLITE_IOERR_READ, out, len, offset)
    })
}

unsafe extern "C" fn write(
    file: *mut sys::sqlite3_file,
    data: *const c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let state = unsafe { recorded(file) };
        let end = u64::try_from(offset.saturating_add(i64::from(len))).unwrap_or(0);
        let grows = size_of_base(file).is_none_or(|size| end > size);
        let plan = state.and_then(|s| s.recorder.fault(FaultKind::Write, s.role, grows));
        let written = match &plan {
            Some(plan) => {
                c_int::try_from(i64::from(len) * i64::from(plan.written_percent) / 100).unwrap_or(0)
            }
            None => len,
        };
        let rc = if written > 0 {
            below!(file, xWrite, sys::SQLITE_IOERR_WRITE, data, written, offset)
        } else {
            sys::SQLITE_OK
        };
        if let (sys::SQLITE_OK, Some(state)) = (rc, state) {
            record_write(state, data, written, offset);
        }
        plan.map_or(rc, |plan| plan.code)
    })
}

fn record_write(state: &FileState, data: *const c_void, len: c_int, offset: i64) {
    if let (Ok(len), Ok(offset)) = (usize::try_from(len), u64::try_from(offset))
        && len > 0
    {
        // SAFETY: xWrite just read the same `len` bytes from SQLite's buffer.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec();
        state.recorder.push(Op::Write { file: state.file, offset, data });
    }
}

unsafe extern "C" fn truncate(file: *mut sys::sqlite3_file, size: i64) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let state = unsafe { recorded(file) };
        if let Some(plan) = state.and_then(|s| s.fault(FaultKind::Truncate)) {
            return plan.code;
        }
        let rc = below!(file, xTruncate, sys::SQLITE_IOERR_TRUNCATE, size);
        if let (sys::SQLITE_OK, Some(state)) = (rc, state) {
            record_size(state, file);
        }
        rc
    })
}

/// Records the file's current size: unix rounds a truncation up to the chunk size.
fn record_size(state: &FileState, file: *mut sys::sqlite3_file) {
    if let Some(size) = size_of_base(file) {
        state.recorder.push(Op::Truncate { file: state.file, size });
    }
}

fn size_of_base(file: *mut sys::sqlite3_file) -> Option<u64> {
    let mut size = 0;
    let rc = below!(file, xFileSize, sys::SQLITE_IOERR_FSTAT, &raw mut size);
    if rc == sys::SQLITE_OK { u64::try_from(size).ok() } else { None }
}

unsafe extern "C" fn sync(file: *mut sys::sqlite3_file, flags: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let Some(state) = (unsafe { recorded(file) }) else {
            return below!(file, xSync, sys::SQLITE_IOERR_FSYNC, flags);
        };
        if let Some(plan) = state.fault(FaultKind::Sync) {
            return plan.code;
        }
        let directory = state.directory.replace(false);
        state.recorder.push(Op::Sync { file: state.file, directory });
        sys::SQLITE_OK
    })
}

unsafe extern "C" fn file_size(file: *mut sys::sqlite3_file, out: *mut i64) -> c_int {
    below!(file, xFileSize, sys::SQLITE_IOERR_FSTAT, out)
}

unsafe extern "C" fn lock(file: *mut sys::sqlite3_file, level: c_int) -> c_int {
    below!(file, xLock, sys::SQLITE_IOERR_LOCK, level)
}

unsafe extern "C" fn unlock(file: *mut sys::sqlite3_file, level: c_int) -> c_int {
    below!(file, xUnlock, sys::SQLITE_IOERR_UNLOCK, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sys::sqlite3_file, out: *mut c_int) -> c_int {
    below!(file, xCheckReservedLock, sys::SQLITE_IOERR_CHECKRESERVEDLOCK, out)
}

unsafe extern "C" fn file_control(
    file: *mut sys::sqlite3_file,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    guard(|| {
        if op != sys::SQLITE_FCNTL_SIZE_HINT {
            return below!(file, xFileControl, sys::SQLITE_NOTFOUND, op, arg);
        }
        // A size hint may extend the file.
        let before = size_of_base(file);
        let rc = below!(file, xFileControl, sys::SQLITE_NOTFOUND, op, arg);
        // SAFETY: SQLite passes an open file.
        if let (Some(state), true) = (unsafe { recorded(file) }, before != size_of_base(file)) {
            record_size(state, file);
        }
        rc
    })
}

unsafe extern "C" fn sector_size(file: *mut sys::sqlite3_file) -> c_int {
    below!(file, xSectorSize, 4096)
}

unsafe extern "C" fn device_characteristics(file: *mut sys::sqlite3_file) -> c_int {
    let below = below!(file, xDeviceCharacteristics, 0);
    // SAFETY: SQLite passes an open file.
    let keeps = unsafe { recorded(file) }.is_some_and(|state| state.recorder.keeps_journals());
    if keeps { below | sys::SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN } else { below }
}

unsafe extern "C" fn shm_map(
    file: *mut sys::sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    below!(file, xShmMap, sys::SQLITE_IOERR_SHMMAP, page, size, extend, out)
}

unsafe extern "C" fn shm_lock(
    file: *mut sys::sqlite3_file,
    offset: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    below!(file, xShmLock, sys::SQLITE_IOERR_SHMLOCK, offset, n, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut sys::sqlite3_file) {
    below!(file, xShmBarrier, ());
}

unsafe extern "C" fn shm_unmap(file: *mut sys::sqlite3_file, delete: c_int) -> c_int {
    below!(file, xShmUnmap, sys::SQLITE_OK, delete)
}

unsafe extern "C" fn fetch(
    file: *mut sys::sqlite3_file,
    offset: i64,
    len: c_int,
    out: *mut *mut c_void,
) -> c_int {
    below!(file, xFetch, sys::SQLITE_IOERR_MMAP, offset, len, out)
}

unsafe extern "C" fn unfetch(
    file: *mut sys::sqlite3_file,
    offset: i64,
    page: *mut c_void,
) -> c_int {
    below!(file, xUnfetch, sys::SQLITE_OK, offset, page)
}
