//! Calls into the host's SQLite library through the table that it passes to extensions.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::transmute;

use crate::VfsError;
use crate::ffi::{self, ApiRoutines, Context, File, Sqlite3, Syscall, Vfs, slot};

/// Oldest SQLite whose table has every entry that is used here.
const OLDEST_VERSION: c_int = 3_039_000;

/// The host's table. Copies are free; the table lives as long as the library.
#[derive(Clone, Copy)]
pub(crate) struct Api(&'static ApiRoutines);

/// Signature of an extension's entry point.
pub(crate) type EntryPoint =
    unsafe extern "C" fn(*mut Sqlite3, *mut *mut c_char, *const ApiRoutines) -> c_int;

/// Signature of an SQL function.
pub(crate) type SqlFunction = unsafe extern "C" fn(*mut Context, c_int, *mut *mut c_void);

macro_rules! call {
    ($api:expr, $slot:expr, fn($($arg:ty),*) $(-> $ret:ty)?, $($value:expr),*) => {
        $api.entry($slot).map(|f| {
            // SAFETY: the host guarantees that the entry at this position has this signature.
            let f: unsafe extern "C" fn($($arg),*) $(-> $ret)? = unsafe { transmute(f) };
            // SAFETY: each caller below passes arguments that SQLite's documentation allows.
            unsafe { f($($value),*) }
        })
    };
}

impl Api {
    /// Wraps the table that the host passed to the entry point.
    ///
    /// # Safety
    /// `routines` is null or what SQLite passed to an extension's entry point.
    pub(crate) unsafe fn new(routines: *const ApiRoutines) -> Result<Self, VfsError> {
        // SAFETY: SQLite's table is static data of the library.
        let Some(table) = (unsafe { routines.as_ref() }) else {
            return Err(VfsError::HostTooOld(0));
        };
        let api = Self(table);
        let version = call!(api, slot::LIBVERSION_NUMBER, fn() -> c_int,).unwrap_or(0);
        if version < OLDEST_VERSION {
            return Err(VfsError::HostTooOld(version));
        }
        Ok(api)
    }

    /// Calls `sqlite3_libversion`; empty if it is missing.
    pub(crate) fn version(self) -> String {
        let text = call!(self, slot::LIBVERSION, fn() -> *const c_char,);
        match text.filter(|text| !text.is_null()) {
            // SAFETY: SQLite returns a terminated string, which is static data of the library.
            Some(text) => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            None => String::new(),
        }
    }

    /// Calls `sqlite3_errstr`: SQLite's text for a result code.
    pub(crate) fn error_text(self, code: c_int) -> String {
        let text = call!(self, slot::ERRSTR, fn(c_int) -> *const c_char, code);
        match text.filter(|text| !text.is_null()) {
            // SAFETY: SQLite returns a terminated string, which is static data of the library.
            Some(text) => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            None => format!("SQLite's code {code}"),
        }
    }

    /// Returns true if both are the table of one library.
    pub(crate) fn same(self, other: Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    fn entry(self, at: usize) -> Option<unsafe extern "C" fn()> {
        self.0.entries.get(at).copied().and_then(|f: Syscall| f)
    }

    /// Calls `sqlite3_vfs_find`; null if there is none.
    pub(crate) fn vfs_find(self, name: Option<&CStr>) -> *mut Vfs {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        call!(self, slot::VFS_FIND, fn(*const c_char) -> *mut Vfs, name)
            .unwrap_or(std::ptr::null_mut())
    }

    /// Calls `sqlite3_vfs_register`. The VFS must live for ever.
    pub(crate) fn vfs_register(self, vfs: &'static mut Vfs, default: bool) -> c_int {
        call!(self, slot::VFS_REGISTER, fn(*mut Vfs, c_int) -> c_int, vfs, c_int::from(default))
            .unwrap_or(ffi::ERROR)
    }

    /// Calls `sqlite3_log`.
    pub(crate) fn log(self, code: c_int, message: &str) {
        let Ok(message) = CString::new(message.replace('\0', " ")) else { return };
        let format = c"%s".as_ptr();
        if let Some(f) = self.entry(slot::LOG) {
            // SAFETY: this is `void sqlite3_log(int, const char*, ...)`.
            let f: unsafe extern "C" fn(c_int, *const c_char, ...) = unsafe { transmute(f) };
            // SAFETY: the format takes the one string that follows; both are terminated.
            unsafe { f(code, format, message.as_ptr()) };
        }
    }

    /// Calls `sqlite3_mprintf("%s", text)`: a string that SQLite frees; null out of memory.
    pub(crate) fn mprintf(self, text: &CStr) -> *mut c_char {
        let Some(f) = self.entry(slot::MPRINTF) else { return std::ptr::null_mut() };
        // SAFETY: this is `char *sqlite3_mprintf(const char*, ...)`.
        let f: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char = unsafe { transmute(f) };
        // SAFETY: the format takes the one string that follows; both are terminated.
        unsafe { f(c"%s".as_ptr(), text.as_ptr()) }
    }

    /// Calls `sqlite3_free` for a string from `mprintf`.
    pub(crate) fn free(self, text: *mut c_char) {
        call!(self, slot::FREE, fn(*mut c_void), text.cast());
    }

    /// Calls `sqlite3_file_control` with an `int` argument; returns the code and the new value.
    pub(crate) fn file_control_int(
        self,
        db: *mut Sqlite3,
        schema: &CStr,
        op: c_int,
        value: c_int,
    ) -> (c_int, c_int) {
        let mut value = value;
        let argument: *mut c_int = &mut value;
        let code = call!(
            self,
            slot::FILE_CONTROL,
            fn(*mut Sqlite3, *const c_char, c_int, *mut c_void) -> c_int,
            db,
            schema.as_ptr(),
            op,
            argument.cast()
        );
        (code.unwrap_or(ffi::ERROR), value)
    }

    /// Returns the file of schema `schema`, null if it has none.
    pub(crate) fn file_of(self, db: *mut Sqlite3, schema: &CStr) -> *mut File {
        let mut file: *mut File = std::ptr::null_mut();
        let argument: *mut *mut File = &mut file;
        call!(
            self,
            slot::FILE_CONTROL,
            fn(*mut Sqlite3, *const c_char, c_int, *mut c_void) -> c_int,
            db,
            schema.as_ptr(),
            ffi::FCNTL_FILE_POINTER,
            argument.cast()
        );
        file
    }

    /// Returns the name of the `index`-th schema of `db`.
    pub(crate) fn schema_name(self, db: *mut Sqlite3, index: c_int) -> Option<CString> {
        let name = call!(self, slot::DB_NAME, fn(*mut Sqlite3, c_int) -> *const c_char, db, index)?;
        if name.is_null() {
            return None;
        }
        // SAFETY: SQLite returns a terminated string that lives at least until the next call.
        Some(unsafe { CStr::from_ptr(name) }.to_owned())
    }

    /// Returns true if a statement of `db` is running or has not been run to its end.
    pub(crate) fn runs_statement(self, db: *mut Sqlite3) -> bool {
        let next = |statement: *mut c_void| {
            let f = slot::NEXT_STMT;
            call!(self, f, fn(*mut Sqlite3, *mut c_void) -> *mut c_void, db, statement)
                .filter(|next| !next.is_null())
        };
        let busy = |statement: &*mut c_void| {
            call!(self, slot::STMT_BUSY, fn(*mut c_void) -> c_int, *statement).unwrap_or(1) != 0
        };
        std::iter::successors(next(std::ptr::null_mut()), |at| next(*at)).any(|at| busy(&at))
    }

    /// Returns true if the connection that `db` points to has no running statement and no
    /// transaction, and no other thread uses it. `db` is the argument of `FCNTL_PDB` for a file
    /// that is open until this returns, or null.
    pub(crate) fn is_at_rest(self, db: *mut *mut Sqlite3) -> bool {
        // SAFETY: SQLite keeps the place as long as the file is open.
        let Some(db) = (unsafe { db.as_ref() }).copied().filter(|db| !db.is_null()) else {
            return false;
        };
        let mutex = call!(self, slot::DB_MUTEX, fn(*mut Sqlite3) -> *mut c_void, db);
        let mutex = mutex.unwrap_or(std::ptr::null_mut());
        // The mutex is this thread's already if it is inside a call of the connection.
        let taken = call!(self, slot::MUTEX_TRY, fn(*mut c_void) -> c_int, mutex);
        if taken != Some(ffi::OK) {
            return false;
        }
        let autocommit = call!(self, slot::GET_AUTOCOMMIT, fn(*mut Sqlite3) -> c_int, db);
        let rests = autocommit.is_some_and(|on| on != 0) && !self.runs_statement(db);
        call!(self, slot::MUTEX_LEAVE, fn(*mut c_void), mutex);
        rests
    }

    /// Returns the addresses at which SQLite keeps the names of the journal and the WAL of a main
    /// database.
    ///
    /// # Safety
    /// `name` is what SQLite passed to `xOpen` for a main database.
    pub(crate) unsafe fn journal_names(
        self,
        name: *const c_char,
    ) -> (*const c_char, *const c_char) {
        let null: *const c_char = std::ptr::null();
        let journal = call!(self, slot::FILENAME_JOURNAL, fn(*const c_char) -> *const c_char, name);
        let wal = call!(self, slot::FILENAME_WAL, fn(*const c_char) -> *const c_char, name);
        (journal.unwrap_or(null), wal.unwrap_or(null))
    }

    /// Returns a URI parameter of a database file name.
    ///
    /// # Safety
    /// `name` is what SQLite passed to `xOpen` for a main database.
    pub(crate) unsafe fn uri_parameter(self, name: *const c_char, key: &CStr) -> Option<String> {
        let value = call!(
            self,
            slot::URI_PARAMETER,
            fn(*const c_char, *const c_char) -> *const c_char,
            name,
            key.as_ptr()
        )?;
        if value.is_null() {
            return None;
        }
        // SAFETY: the parameter is terminated and lives as long as the file name.
        Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    }

    /// Calls `sqlite3_uri_key`: the name of the parameter at `index` of a main file's URI, from 0.
    ///
    /// # Safety
    /// `name` is what SQLite passed to `xOpen` for a main database.
    pub(crate) unsafe fn uri_key(self, name: *const c_char, index: c_int) -> Option<String> {
        let key =
            call!(self, slot::URI_KEY, fn(*const c_char, c_int) -> *const c_char, name, index)?;
        if key.is_null() {
            return None;
        }
        // SAFETY: the name is terminated and lives as long as the file name.
        Some(unsafe { CStr::from_ptr(key) }.to_string_lossy().into_owned())
    }

    /// Prepares a `PRAGMA` that must fail, so that its error is the connection's last one.
    pub(crate) fn fail_pragma(self, db: *mut Sqlite3, pragma: &CStr) {
        type Text = *const c_char;
        type Statement = *mut c_void;
        let mut statement: Statement = std::ptr::null_mut();
        let (place, rest): (*mut Statement, *mut Text) = (&mut statement, std::ptr::null_mut());
        call!(
            self,
            slot::PREPARE_V3,
            fn(*mut Sqlite3, Text, c_int, c_uint, *mut Statement, *mut Text) -> c_int,
            db,
            pragma.as_ptr(),
            -1,
            ffi::PREPARE_DONT_LOG,
            place,
            rest
        );
        if !statement.is_null() {
            call!(self, slot::FINALIZE, fn(Statement) -> c_int, statement);
        }
    }

    /// Calls `sqlite3_auto_extension`.
    pub(crate) fn auto_extension(self, entry: EntryPoint) -> c_int {
        call!(self, slot::AUTO_EXTENSION, fn(EntryPoint) -> c_int, entry).unwrap_or(ffi::ERROR)
    }

    /// Returns the connection that an SQL function runs for.
    ///
    /// # Safety
    /// `context` is what SQLite passed to the function.
    pub(crate) unsafe fn connection_of(self, context: *mut Context) -> *mut Sqlite3 {
        call!(self, slot::CONTEXT_DB_HANDLE, fn(*mut Context) -> *mut Sqlite3, context)
            .unwrap_or(std::ptr::null_mut())
    }

    /// Adds an SQL function to `db`, by its name, number of arguments and flags; `gone` is called
    /// with `db` when it closes.
    pub(crate) fn create_function(
        self,
        db: *mut Sqlite3,
        (name, arguments, flags): (&CStr, c_int, c_int),
        function: SqlFunction,
        gone: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int {
        type Create = unsafe extern "C" fn(
            *mut Sqlite3,
            *const c_char,
            c_int,
            c_int,
            *mut c_void,
            Option<SqlFunction>,
            Option<SqlFunction>,
            Option<unsafe extern "C" fn(*mut Context)>,
            Option<unsafe extern "C" fn(*mut c_void)>,
        ) -> c_int;
        let Some(f) = self.entry(slot::CREATE_FUNCTION_V2) else { return ffi::ERROR };
        // SAFETY: this is the signature of `sqlite3_create_function_v2`.
        let f: Create = unsafe { transmute(f) };
        let (name, function) = (name.as_ptr(), Some(function));
        // SAFETY: `db` is the connection being opened; the function is static.
        unsafe { f(db, name, arguments, flags, db.cast(), function, None, None, gone) }
    }

    /// Returns an argument of an SQL function as text; `None` for NULL.
    ///
    /// # Safety
    /// `value` is an argument of the function, which has not returned.
    pub(crate) unsafe fn text<'a>(self, value: *mut c_void) -> Option<&'a [u8]> {
        let text = call!(self, slot::VALUE_TEXT, fn(*mut c_void) -> *const u8, value)?;
        let length = call!(self, slot::VALUE_BYTES, fn(*mut c_void) -> c_int, value)?;
        let length = usize::try_from(length).ok()?;
        // SAFETY: SQLite keeps that many bytes until the function returns.
        (!text.is_null()).then(|| unsafe { std::slice::from_raw_parts(text, length) })
    }

    /// Has an SQL function fail with a text.
    ///
    /// # Safety
    /// `context` is what SQLite passed to the function.
    pub(crate) unsafe fn fail(self, context: *mut Context, text: &str) {
        type Text = *const c_char;
        let length = c_int::try_from(text.len()).unwrap_or(0);
        let text: Text = text.as_ptr().cast();
        call!(self, slot::RESULT_ERROR, fn(*mut Context, Text, c_int), context, text, length);
    }

    /// Sets the result of an SQL function: a text, or NULL.
    ///
    /// # Safety
    /// `context` is what SQLite passed to the function.
    pub(crate) unsafe fn result(self, context: *mut Context, text: Option<&str>) {
        type Destructor = *const c_void;
        let Some(text) = text else {
            call!(self, slot::RESULT_NULL, fn(*mut Context), context);
            return;
        };
        // -1 cast to a destructor is SQLITE_TRANSIENT: SQLite copies the text.
        let transient = usize::MAX as Destructor;
        let length = c_int::try_from(text.len()).unwrap_or(0);
        call!(
            self,
            slot::RESULT_TEXT,
            fn(*mut Context, *const c_char, c_int, Destructor),
            context,
            text.as_ptr().cast(),
            length,
            transient
        );
    }
}
