//! SQLite's C interface as far as a loadable VFS needs it.
//!
//! Declared here rather than taken from a `-sys` crate: those link their own SQLite, and an
//! extension must use its host's. Sources: `sqlite3.h` and `sqlite3ext.h` of SQLite 3.40, whose
//! layouts later versions only extend at the end.
#![allow(unsafe_code)]
#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) const OK: c_int = 0;
pub(crate) const ERROR: c_int = 1;

pub(crate) const BUSY: c_int = 5;
pub(crate) const IOERR: c_int = 10;
pub(crate) const CORRUPT: c_int = 11;
pub(crate) const NOTFOUND: c_int = 12;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANTOPEN: c_int = 14;
pub(crate) const SCHEMA: c_int = 17;
pub(crate) const AUTH: c_int = 23;
pub(crate) const NOTADB: c_int = 26;
pub(crate) const WARNING: c_int = 28;

pub(crate) const OK_LOAD_PERMANENTLY: c_int = 256;
pub(crate) const BUSY_SNAPSHOT: c_int = BUSY | (2 << 8);
pub(crate) const IOERR_READ: c_int = IOERR | (1 << 8);
pub(crate) const IOERR_SHORT_READ: c_int = IOERR | (2 << 8);
pub(crate) const IOERR_WRITE: c_int = IOERR | (3 << 8);
pub(crate) const IOERR_AUTH: c_int = IOERR | (28 << 8);
pub(crate) const IOERR_DATA: c_int = IOERR | (32 << 8);

pub(crate) const OPEN_READONLY: c_int = 0x1;
pub(crate) const OPEN_CREATE: c_int = 0x4;
pub(crate) const OPEN_DELETEONCLOSE: c_int = 0x8;
pub(crate) const OPEN_EXCLUSIVE: c_int = 0x10;
pub(crate) const OPEN_MAIN_DB: c_int = 0x100;
pub(crate) const OPEN_TEMP_DB: c_int = 0x200;
pub(crate) const OPEN_TRANSIENT_DB: c_int = 0x400;
pub(crate) const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub(crate) const OPEN_TEMP_JOURNAL: c_int = 0x1000;
pub(crate) const OPEN_SUBJOURNAL: c_int = 0x2000;
pub(crate) const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub(crate) const OPEN_WAL: c_int = 0x80000;

pub(crate) const ACCESS_EXISTS: c_int = 0;
/// With [`ACCESS_EXISTS`], SQLite's own VFS treats an empty file as missing; with this it does not.
pub(crate) const ACCESS_READWRITE: c_int = 1;

pub(crate) const LOCK_NONE: c_int = 0;
pub(crate) const LOCK_SHARED: c_int = 1;
pub(crate) const LOCK_RESERVED: c_int = 2;
pub(crate) const LOCK_EXCLUSIVE: c_int = 4;

pub(crate) const SHM_UNLOCK: c_int = 1;
pub(crate) const SHM_LOCK: c_int = 2;
pub(crate) const SHM_SHARED: c_int = 4;
pub(crate) const SHM_EXCLUSIVE: c_int = 8;
/// The slot of the WAL index's locks that a writer holds (SQLite's WAL format, 2.3.1).
pub(crate) const WAL_WRITE_LOCK: c_int = 0;
/// The last of the three slots for writing the log, checkpointing it, and recovering it.
pub(crate) const WAL_RECOVER_LOCK: c_int = 2;

pub(crate) const IOCAP_ATOMIC_ALL: c_int = 0x1ff;
pub(crate) const IOCAP_SAFE_APPEND: c_int = 0x200;
pub(crate) const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
pub(crate) const IOCAP_BATCH_ATOMIC: c_int = 0x4000;
pub(crate) const IOCAP_SUBPAGE_READ: c_int = 0x8000;

pub(crate) const FCNTL_SIZE_HINT: c_int = 5;
pub(crate) const FCNTL_CHUNK_SIZE: c_int = 6;
pub(crate) const FCNTL_FILE_POINTER: c_int = 7;
pub(crate) const FCNTL_VFSNAME: c_int = 12;
pub(crate) const FCNTL_PRAGMA: c_int = 14;
pub(crate) const FCNTL_MMAP_SIZE: c_int = 18;
pub(crate) const FCNTL_HAS_MOVED: c_int = 20;
pub(crate) const FCNTL_SYNC: c_int = 21;
pub(crate) const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub(crate) const FCNTL_PDB: c_int = 30;
pub(crate) const FCNTL_BEGIN_ATOMIC_WRITE: c_int = 31;
pub(crate) const FCNTL_COMMIT_ATOMIC_WRITE: c_int = 32;
pub(crate) const FCNTL_ROLLBACK_ATOMIC_WRITE: c_int = 33;
pub(crate) const FCNTL_CKPT_DONE: c_int = 37;
pub(crate) const FCNTL_RESERVE_BYTES: c_int = 38;
pub(crate) const FCNTL_CKPT_START: c_int = 39;
/// Private: stores a pointer to our file, through any number of shims above it ("tdek").
pub(crate) const FCNTL_TDEKIT_FILE: c_int = 0x7464_656b;
/// Private: stores [`SlotIds`](crate::SlotIds), as they are in the file. Only for the main file of
/// an encrypted database.
pub const FCNTL_TDEKIT_SLOTS: c_int = 0x7464_656c;
/// Private: stores 1 in an integer if the main file is refused.
pub(crate) const FCNTL_TDEKIT_REFUSED: c_int = 0x7464_656d;
/// Text of a function's arguments is UTF-8.
pub(crate) const UTF8: c_int = 1;
/// No view, trigger or schema may call the function.
pub(crate) const DIRECTONLY: c_int = 0x0008_0000;
/// Keeps an error of preparing a statement out of the logs.
pub(crate) const PREPARE_DONT_LOG: c_uint = 0x10;

/// Opaque database connection.
#[repr(C)]
pub(crate) struct Sqlite3 {
    _opaque: [u8; 0],
}

/// Opaque value or context of an SQL function.
#[repr(C)]
pub(crate) struct Context {
    _opaque: [u8; 0],
}

/// `sqlite3_file`.
#[repr(C)]
pub(crate) struct File {
    pub(crate) methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
pub(crate) struct IoMethods {
    pub(crate) version: c_int,
    pub(crate) close: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub(crate) read: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
    pub(crate) write: Option<unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int>,
    pub(crate) truncate: Option<unsafe extern "C" fn(*mut File, i64) -> c_int>,
    pub(crate) sync: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) file_size: Option<unsafe extern "C" fn(*mut File, *mut i64) -> c_int>,
    pub(crate) lock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) unlock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) check_reserved_lock: Option<unsafe extern "C" fn(*mut File, *mut c_int) -> c_int>,
    pub(crate) file_control: Option<unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int>,
    pub(crate) sector_size: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub(crate) device_characteristics: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub(crate) shm_map:
        Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub(crate) shm_lock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub(crate) shm_barrier: Option<unsafe extern "C" fn(*mut File)>,
    pub(crate) shm_unmap: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) fetch:
        Option<unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub(crate) unfetch: Option<unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int>,
}

/// `sqlite3_syscall_ptr`.
pub(crate) type Syscall = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 3.
#[repr(C)]
pub(crate) struct Vfs {
    pub(crate) version: c_int,
    pub(crate) os_file_len: c_int,
    pub(crate) max_pathname: c_int,
    pub(crate) next: *mut Vfs,
    pub(crate) name: *const c_char,
    pub(crate) app_data: *mut c_void,
    pub(crate) open: Option<
        unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    >,
    pub(crate) delete: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int>,
    pub(crate) access:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub(crate) full_pathname:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub(crate) dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub(crate) dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub(crate) dl_sym:
        Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Syscall>,
    pub(crate) dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub(crate) randomness: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub(crate) sleep: Option<unsafe extern "C" fn(*mut Vfs, c_int) -> c_int>,
    pub(crate) current_time: Option<unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int>,
    pub(crate) get_last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub(crate) current_time_i64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
    pub(crate) set_system_call:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char, Syscall) -> c_int>,
    pub(crate) get_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> Syscall>,
    pub(crate) next_system_call:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *const c_char>,
}

/// `sqlite3_api_routines`: a table of function pointers whose order never changes.
#[repr(C)]
pub(crate) struct ApiRoutines {
    pub(crate) entries: [Syscall; API_ENTRIES],
}

/// Entries of the table in SQLite 3.40.
pub(crate) const API_ENTRIES: usize = 266;

/// Positions in `sqlite3_api_routines`.
pub(crate) mod slot {
    pub(crate) const FINALIZE: usize = 57;
    pub(crate) const FREE: usize = 58;
    pub(crate) const GET_AUTOCOMMIT: usize = 60;
    pub(crate) const LIBVERSION: usize = 66;
    pub(crate) const LIBVERSION_NUMBER: usize = 67;
    pub(crate) const MPRINTF: usize = 69;
    pub(crate) const RESULT_ERROR: usize = 80;
    pub(crate) const RESULT_NULL: usize = 84;
    pub(crate) const RESULT_TEXT: usize = 85;
    pub(crate) const VALUE_BYTES: usize = 103;
    pub(crate) const VALUE_TEXT: usize = 109;
    pub(crate) const FILE_CONTROL: usize = 127;
    pub(crate) const MUTEX_LEAVE: usize = 133;
    pub(crate) const MUTEX_TRY: usize = 134;
    pub(crate) const VFS_FIND: usize = 141;
    pub(crate) const VFS_REGISTER: usize = 142;
    pub(crate) const CONTEXT_DB_HANDLE: usize = 149;
    pub(crate) const NEXT_STMT: usize = 152;
    pub(crate) const CREATE_FUNCTION_V2: usize = 162;
    pub(crate) const DB_MUTEX: usize = 164;
    pub(crate) const LOG: usize = 167;
    pub(crate) const ERRSTR: usize = 183;
    pub(crate) const STMT_BUSY: usize = 184;
    pub(crate) const URI_PARAMETER: usize = 189;
    pub(crate) const AUTO_EXTENSION: usize = 192;
    pub(crate) const PREPARE_V3: usize = 217;
    pub(crate) const URI_KEY: usize = 245;
    pub(crate) const FILENAME_JOURNAL: usize = 247;
    pub(crate) const FILENAME_WAL: usize = 248;
    pub(crate) const DB_NAME: usize = 264;
}
