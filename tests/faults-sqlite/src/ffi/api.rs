//! The C functions of one SQLite library, linked in or loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi as sys;

use crate::error::{Error, Result};

/// Names the shared library to test instead of the bundled one.
pub const LIBRARY_VARIABLE: &str = "TDEKIT_FAULTS_SQLITE";

type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
/// Entry point of an extension.
pub type Init = unsafe extern "C" fn(
    *mut sys::sqlite3,
    *mut *mut c_char,
    *const sys::sqlite3_api_routines,
) -> c_int;

macro_rules! api {
    ($( $name:ident = $symbol:ident : fn($($arg:ty),*) $(-> $ret:ty)?; )*) => {
        /// Function pointers of one SQLite library; each keeps SQLite's own contract.
        pub struct Api {
            $( pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?, )*
        }

        impl Api {
            fn linked() -> Self {
                Self { $( $name: sys::$symbol, )* }
            }

            fn load(path: &Path) -> Result<Self> {
                let setup = |e: libloading::Error| Error::Setup(format!("{}: {e}", path.display()));
                // SAFETY: SQLite's library has no initialisers that depend on this process.
                let library = unsafe { libloading::Library::new(path) }.map_err(setup)?;
                let api = Self {
                    // SAFETY: the signatures are those of sqlite3.h, stable since 3.31.
                    $( $name: *unsafe {
                        library.get(concat!(stringify!($symbol), "\0").as_bytes())
                    }.map_err(setup)?, )*
                };
                // The table holds bare pointers into the library, which must never be unloaded.
                std::mem::forget(library);
                Ok(api)
            }
        }
    };
}

api! {
    backup_finish = sqlite3_backup_finish: fn(*mut sys::sqlite3_backup) -> c_int;
    backup_init = sqlite3_backup_init:
        fn(*mut sys::sqlite3, *const c_char, *mut sys::sqlite3, *const c_char)
            -> *mut sys::sqlite3_backup;
    backup_step = sqlite3_backup_step: fn(*mut sys::sqlite3_backup, c_int) -> c_int;
    bind_blob = sqlite3_bind_blob:
        fn(*mut sys::sqlite3_stmt, c_int, *const c_void, c_int, Destructor) -> c_int;
    bind_double = sqlite3_bind_double: fn(*mut sys::sqlite3_stmt, c_int, f64) -> c_int;
    bind_int64 = sqlite3_bind_int64: fn(*mut sys::sqlite3_stmt, c_int, i64) -> c_int;
    bind_null = sqlite3_bind_null: fn(*mut sys::sqlite3_stmt, c_int) -> c_int;
    bind_text = sqlite3_bind_text:
        fn(*mut sys::sqlite3_stmt, c_int, *const c_char, c_int, Destructor) -> c_int;
    blob_bytes = sqlite3_blob_bytes: fn(*mut sys::sqlite3_blob) -> c_int;
    blob_close = sqlite3_blob_close: fn(*mut sys::sqlite3_blob) -> c_int;
    blob_open = sqlite3_blob_open:
        fn(*mut sys::sqlite3, *const c_char, *const c_char, *const c_char, i64, c_int,
            *mut *mut sys::sqlite3_blob) -> c_int;
    blob_read = sqlite3_blob_read:
        fn(*mut sys::sqlite3_blob, *mut c_void, c_int, c_int) -> c_int;
    blob_write = sqlite3_blob_write:
        fn(*mut sys::sqlite3_blob, *const c_void, c_int, c_int) -> c_int;
    busy_timeout = sqlite3_busy_timeout: fn(*mut sys::sqlite3, c_int) -> c_int;
    close = sqlite3_close: fn(*mut sys::sqlite3) -> c_int;
    column_blob = sqlite3_column_blob: fn(*mut sys::sqlite3_stmt, c_int) -> *const c_void;
    column_bytes = sqlite3_column_bytes: fn(*mut sys::sqlite3_stmt, c_int) -> c_int;
    column_count = sqlite3_column_count: fn(*mut sys::sqlite3_stmt) -> c_int;
    column_double = sqlite3_column_double: fn(*mut sys::sqlite3_stmt, c_int) -> f64;
    column_int64 = sqlite3_column_int64: fn(*mut sys::sqlite3_stmt, c_int) -> i64;
    column_text = sqlite3_column_text: fn(*mut sys::sqlite3_stmt, c_int) -> *const u8;
    column_type = sqlite3_column_type: fn(*mut sys::sqlite3_stmt, c_int) -> c_int;
    db_release_memory = sqlite3_db_release_memory: fn(*mut sys::sqlite3) -> c_int;
    enable_load_extension = sqlite3_enable_load_extension:
        fn(*mut sys::sqlite3, c_int) -> c_int;
    errmsg = sqlite3_errmsg: fn(*mut sys::sqlite3) -> *const c_char;
    extended_errcode = sqlite3_extended_errcode: fn(*mut sys::sqlite3) -> c_int;
    extended_result_codes = sqlite3_extended_result_codes:
        fn(*mut sys::sqlite3, c_int) -> c_int;
    file_control = sqlite3_file_control:
        fn(*mut sys::sqlite3, *const c_char, c_int, *mut c_void) -> c_int;
    finalize = sqlite3_finalize: fn(*mut sys::sqlite3_stmt) -> c_int;
    free = sqlite3_free: fn(*mut c_void);
    get_autocommit = sqlite3_get_autocommit: fn(*mut sys::sqlite3) -> c_int;
    libversion = sqlite3_libversion: fn() -> *const c_char;
    load_extension = sqlite3_load_extension:
        fn(*mut sys::sqlite3, *const c_char, *const c_char, *mut *mut c_char) -> c_int;
    open_v2 = sqlite3_open_v2:
        fn(*const c_char, *mut *mut sys::sqlite3, c_int, *const c_char) -> c_int;
    prepare_v2 = sqlite3_prepare_v2:
        fn(*mut sys::sqlite3, *const c_char, c_int, *mut *mut sys::sqlite3_stmt,
            *mut *const c_char) -> c_int;
    reset = sqlite3_reset: fn(*mut sys::sqlite3_stmt) -> c_int;
    step = sqlite3_step: fn(*mut sys::sqlite3_stmt) -> c_int;
    vfs_find = sqlite3_vfs_find: fn(*const c_char) -> *mut sys::sqlite3_vfs;
    vfs_register = sqlite3_vfs_register: fn(*mut sys::sqlite3_vfs, c_int) -> c_int;
    auto_extension = sqlite3_auto_extension: fn(Option<Init>) -> c_int;
    cancel_auto_extension = sqlite3_cancel_auto_extension: fn(Option<Init>) -> c_int;
}

/// The library under test: the one that [`LIBRARY_VARIABLE`] names, else the bundled one.
///
/// # Errors
/// [`Error::Setup`] when the named library cannot be loaded.
pub fn api() -> Result<&'static Api> {
    static API: OnceLock<std::result::Result<Api, String>> = OnceLock::new();
    API.get_or_init(|| match std::env::var_os(LIBRARY_VARIABLE) {
        Some(path) => Api::load(Path::new(&path)).map_err(|e| e.to_string()),
        None => Ok(Api::linked()),
    })
    .as_ref()
    .map_err(|e| Error::Setup(e.clone()))
}

/// Version of the library under test, such as `3.40.1`.
///
/// # Errors
/// As [`api`].
pub fn version() -> Result<String> {
    let api = api()?;
    // SAFETY: sqlite3_libversion returns a static string.
    Ok(unsafe { CStr::from_ptr((api.libversion)()) }.to_string_lossy().into_owned())
}

/// The table of routines that SQLite hands to extensions, as a loaded extension gets it.
///
/// # Errors
/// [`Error::Setup`] when SQLite does not call an automatic extension.
pub fn routines() -> Result<*const sys::sqlite3_api_routines> {
    // A raw pointer is not Sync; the address of a static table may travel as a number.
    static TABLE: OnceLock<usize> = OnceLock::new();
    unsafe extern "C" fn capture(
        _db: *mut sys::sqlite3,
        _message: *mut *mut c_char,
        table: *const sys::sqlite3_api_routines,
    ) -> c_int {
        TABLE.get_or_init(|| table as usize);
        sys::SQLITE_OK
    }
    let api = api()?;
    if TABLE.get().is_none() {
        let mut db = ptr::null_mut();
        // SAFETY: `capture` has the signature of an extension's entry point; the handle is closed
        // whether or not opening it succeeded, as sqlite3_open_v2 demands.
        unsafe {
            (api.auto_extension)(Some(capture));
            let flags = sys::SQLITE_OPEN_READWRITE | sys::SQLITE_OPEN_MEMORY;
            (api.open_v2)(c":memory:".as_ptr(), &raw mut db, flags, ptr::null());
            (api.close)(db);
            (api.cancel_auto_extension)(Some(capture));
        }
    }
    match TABLE.get() {
        Some(&table) => Ok(table as *const sys::sqlite3_api_routines),
        None => Err(Error::Setup("SQLite passed no table of routines".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_one_that_was_asked_for() {
        let version = version().unwrap();
        println!("SQLite {version}");
        let bundled = version == rusqlite::version();
        assert_eq!(bundled, std::env::var_os(LIBRARY_VARIABLE).is_none());
        assert!(!routines().unwrap().is_null());
    }
}
