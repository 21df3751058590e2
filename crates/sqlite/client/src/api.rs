//! The table of SQLite's C functions, filled from the bundled library or from a shared one.

use core::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::path::{Path, PathBuf};

use rusqlite::ffi;
use rusqlite::ffi::{
    sqlite3, sqlite3_api_routines, sqlite3_backup, sqlite3_blob, sqlite3_destructor_type,
    sqlite3_stmt, sqlite3_vfs,
};

/// Reason why a shared library cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path} as a SQLite library: {reason}")]
pub struct LibraryError {
    /// The library.
    pub path: PathBuf,
    /// The loader's reason.
    pub reason: String,
}

type DbConfig = unsafe extern "C" fn(*mut sqlite3, c_int, ...) -> c_int;
type BusyHandler = Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>;
/// The entry point of an extension.
pub type ExtensionEntry =
    unsafe extern "C" fn(*mut sqlite3, *mut *mut c_char, *const sqlite3_api_routines) -> c_int;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// SQLite's functions, all from one library, each under its own contract. The library is
        /// never unloaded.
        pub struct Api {
            $(#[doc = concat!("`", stringify!($name), "`")]
            pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// `sqlite3_db_config`, whose further arguments depend on the option.
            pub(crate) sqlite3_db_config: Option<DbConfig>,
        }

        impl Api {
            /// Returns the functions of the library that is linked into this program.
            pub(crate) fn bundled() -> Self {
                Self { $($name: ffi::$name,)* sqlite3_db_config: Some(ffi::sqlite3_db_config) }
            }

            /// Returns calls that do nothing, and return zero or null where they return a value.
            pub(crate) fn nothing() -> Self {
                $(extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                    // SAFETY: the results are numbers and pointers, for which all-zero bytes are
                    // valid.
                    $(unsafe { core::mem::zeroed::<$result>() })?
                })*
                Self { $($name,)* sqlite3_db_config: None }
            }

            /// Loads a shared library, by path or by a name that the dynamic loader finds.
            pub(crate) fn shared(path: &Path) -> Result<Self, LibraryError> {
                let error = |error: libloading::Error| LibraryError {
                    path: path.to_owned(),
                    reason: error.to_string(),
                };
                // Lazy binding: another product's library taken from a Python module refers to
                // functions of an interpreter that is not present and that SQLite's own functions
                // never call.
                let flags = libloading::os::unix::RTLD_LAZY | libloading::os::unix::RTLD_LOCAL;
                // SAFETY: loading runs the library's constructors. The user chose the library, as
                // with any program that links SQLite.
                let library = unsafe { libloading::os::unix::Library::open(Some(path), flags) }
                    .map_err(error)?;
                let api = Self {
                    $($name: {
                        // SAFETY: the symbol is a function of SQLite's stable C interface, whose
                        // signature is the type of the field.
                        *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                            .map_err(error)?
                    },)*
                    sqlite3_db_config: Some({
                        // SAFETY: as above.
                        *unsafe { library.get(b"sqlite3_db_config\0") }.map_err(error)?
                    }),
                };
                // Extensions and statements may outlive every owner of the handle.
                std::mem::forget(library);
                Ok(api)
            }
        }
    };
}

functions! {
    sqlite3_libversion: fn() -> *const c_char;
    sqlite3_sourceid: fn() -> *const c_char;
    sqlite3_open_v2: fn(*const c_char, *mut *mut sqlite3, c_int, *const c_char) -> c_int;
    sqlite3_close: fn(*mut sqlite3) -> c_int;
    sqlite3_extended_errcode: fn(*mut sqlite3) -> c_int;
    sqlite3_errmsg: fn(*mut sqlite3) -> *const c_char;
    sqlite3_errstr: fn(c_int) -> *const c_char;
    sqlite3_busy_handler: fn(*mut sqlite3, BusyHandler, *mut c_void) -> c_int;
    sqlite3_enable_load_extension: fn(*mut sqlite3, c_int) -> c_int;
    sqlite3_load_extension:
        fn(*mut sqlite3, *const c_char, *const c_char, *mut *mut c_char) -> c_int;
    sqlite3_free: fn(*mut c_void);
    sqlite3_prepare_v3: fn(
        *mut sqlite3, *const c_char, c_int, c_uint, *mut *mut sqlite3_stmt, *mut *const c_char
    ) -> c_int;
    sqlite3_step: fn(*mut sqlite3_stmt) -> c_int;
    sqlite3_reset: fn(*mut sqlite3_stmt) -> c_int;
    sqlite3_finalize: fn(*mut sqlite3_stmt) -> c_int;
    sqlite3_stmt_readonly: fn(*mut sqlite3_stmt) -> c_int;
    sqlite3_bind_parameter_count: fn(*mut sqlite3_stmt) -> c_int;
    sqlite3_bind_null: fn(*mut sqlite3_stmt, c_int) -> c_int;
    sqlite3_bind_int64: fn(*mut sqlite3_stmt, c_int, i64) -> c_int;
    sqlite3_bind_double: fn(*mut sqlite3_stmt, c_int, f64) -> c_int;
    sqlite3_bind_text:
        fn(*mut sqlite3_stmt, c_int, *const c_char, c_int, sqlite3_destructor_type) -> c_int;
    sqlite3_bind_blob:
        fn(*mut sqlite3_stmt, c_int, *const c_void, c_int, sqlite3_destructor_type) -> c_int;
    sqlite3_column_count: fn(*mut sqlite3_stmt) -> c_int;
    sqlite3_column_type: fn(*mut sqlite3_stmt, c_int) -> c_int;
    sqlite3_column_int64: fn(*mut sqlite3_stmt, c_int) -> i64;
    sqlite3_column_double: fn(*mut sqlite3_stmt, c_int) -> f64;
    sqlite3_column_bytes: fn(*mut sqlite3_stmt, c_int) -> c_int;
    sqlite3_column_text: fn(*mut sqlite3_stmt, c_int) -> *const c_uchar;
    sqlite3_column_blob: fn(*mut sqlite3_stmt, c_int) -> *const c_void;
    sqlite3_changes: fn(*mut sqlite3) -> c_int;
    sqlite3_total_changes: fn(*mut sqlite3) -> c_int;
    sqlite3_db_status: fn(*mut sqlite3, c_int, *mut c_int, *mut c_int, c_int) -> c_int;
    sqlite3_db_release_memory: fn(*mut sqlite3) -> c_int;
    sqlite3_auto_extension: fn(Option<ExtensionEntry>) -> c_int;
    sqlite3_blob_bytes: fn(*mut sqlite3_blob) -> c_int;
    sqlite3_blob_close: fn(*mut sqlite3_blob) -> c_int;
    sqlite3_blob_open: fn(
        *mut sqlite3, *const c_char, *const c_char, *const c_char, i64, c_int,
        *mut *mut sqlite3_blob
    ) -> c_int;
    sqlite3_blob_read: fn(*mut sqlite3_blob, *mut c_void, c_int, c_int) -> c_int;
    sqlite3_blob_write: fn(*mut sqlite3_blob, *const c_void, c_int, c_int) -> c_int;
    sqlite3_busy_timeout: fn(*mut sqlite3, c_int) -> c_int;
    sqlite3_cancel_auto_extension: fn(Option<ExtensionEntry>) -> c_int;
    sqlite3_file_control: fn(*mut sqlite3, *const c_char, c_int, *mut c_void) -> c_int;
    sqlite3_get_autocommit: fn(*mut sqlite3) -> c_int;
    sqlite3_vfs_find: fn(*const c_char) -> *mut sqlite3_vfs;
    sqlite3_vfs_register: fn(*mut sqlite3_vfs, c_int) -> c_int;
    sqlite3_backup_init:
        fn(*mut sqlite3, *const c_char, *mut sqlite3, *const c_char) -> *mut sqlite3_backup;
    sqlite3_backup_step: fn(*mut sqlite3_backup, c_int) -> c_int;
    sqlite3_backup_finish: fn(*mut sqlite3_backup) -> c_int;
    sqlite3_serialize: fn(*mut sqlite3, *const c_char, *mut i64, c_uint) -> *mut c_uchar;
}
