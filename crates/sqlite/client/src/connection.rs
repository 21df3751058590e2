//! Libraries and connections.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::ffi;
use rusqlite::ffi::sqlite3;
use rusqlite::types::ValueRef;

use crate::api::{Api, LibraryError};
use crate::statement::{Row, Statement};

/// Time that a connection waits when it finds the database locked.
pub const BUSY_WAIT: Duration = Duration::from_micros(100);
/// Number of waits after which a lock is reported as an error: about a minute.
const BUSY_LIMIT: c_int = 400_000;

static RETRIES: AtomicU64 = AtomicU64::new(0);

/// Returns how often a connection of this process found a database locked.
#[must_use]
pub fn retries() -> u64 {
    RETRIES.load(Ordering::Relaxed)
}

/// An error of SQLite.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message} (SQLite code {code}) at: {doing}")]
pub struct SqliteError {
    /// Extended result code.
    pub code: i32,
    /// Error message of SQLite.
    pub message: String,
    /// The statement or call that failed.
    pub doing: String,
}

impl SqliteError {
    /// Primary result code.
    #[must_use]
    pub fn primary(&self) -> i32 {
        self.code & 0xff
    }
}

/// A SQLite library, loaded for the rest of the process's life.
#[derive(Clone, Copy)]
pub struct Library {
    api: &'static Api,
}

impl Library {
    /// Returns the library that is linked into this program.
    #[must_use]
    pub fn bundled() -> Self {
        Self { api: Box::leak(Box::new(Api::bundled())) }
    }

    /// Loads a shared library, by path or by a name that the dynamic loader finds.
    ///
    /// # Errors
    /// If the library cannot be loaded, or lacks a function.
    pub fn shared(path: &Path) -> Result<Self, LibraryError> {
        Ok(Self { api: Box::leak(Box::new(Api::shared(path)?)) })
    }

    /// A library whose calls do nothing; see [`control_code`](crate::control_code).
    #[must_use]
    pub fn idle() -> Self {
        Self { api: Box::leak(Box::new(Api::idle())) }
    }

    /// Returns its version, such as `3.40.1`.
    #[must_use]
    pub fn version(self) -> String {
        constant(self.api.sqlite3_libversion)
    }

    /// Returns date and checksum of its source.
    #[must_use]
    pub fn source_id(self) -> String {
        constant(self.api.sqlite3_sourceid)
    }

    /// The C functions.
    #[must_use]
    pub fn api(self) -> &'static Api {
        self.api
    }

    /// Opens or creates a database by its path. Waits about a minute for a lock that another
    /// connection holds.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open(self, path: &Path) -> Result<Connection, SqliteError> {
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        let connection = self.open_with(path.as_os_str(), None, flags)?;
        // SAFETY: the handle is open; the callback takes no data and does not unwind.
        let code = unsafe {
            (self.api.sqlite3_busy_handler)(
                connection.handle.db,
                Some(wait_when_busy),
                std::ptr::null_mut(),
            )
        };
        connection.check(code, || format!("open {}", path.display()))?;
        Ok(connection)
    }

    /// Opens a database by a path or a URI, with SQLite's flags.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open_with(
        self,
        name: &OsStr,
        vfs: Option<&str>,
        flags: c_int,
    ) -> Result<Connection, SqliteError> {
        let doing = || format!("open {}", name.display());
        let name = c_string(name.as_bytes(), &doing())?;
        let vfs = vfs.map(|vfs| c_string(vfs.as_bytes(), &doing())).transpose()?;
        let vfs = vfs.as_ref().map_or(std::ptr::null(), |vfs| vfs.as_ptr());
        let mut db: *mut sqlite3 = std::ptr::null_mut();
        // SAFETY: the names are C strings and `db` a valid place; all outlive the call.
        let code = unsafe { (self.api.sqlite3_open_v2)(name.as_ptr(), &raw mut db, flags, vfs) };
        // SQLite returns a handle even when opening fails; `Handle` closes it in either case.
        let connection = Connection { handle: Rc::new(Handle { api: self.api, db }) };
        connection.check(code, doing)?;
        Ok(connection)
    }

    /// Loads an extension as a user does: through a connection, here a temporary one.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn load_extension(self, path: &Path) -> Result<(), SqliteError> {
        let doing = || format!("load extension {}", path.display());
        let name = c_string(path.as_os_str().as_bytes(), &doing())?;
        let connection = self.open(Path::new(":memory:"))?;
        let db = connection.handle.db;
        // SAFETY: the handle is open.
        let code = unsafe { (self.api.sqlite3_enable_load_extension)(db, 1) };
        connection.check(code, doing)?;
        let mut message: *mut c_char = std::ptr::null_mut();
        // SAFETY: the handle is open, `name` is a C string, the entry point is SQLite's default and
        // `message` is a valid place. The extension is the one that the user asked to measure.
        let code = unsafe {
            (self.api.sqlite3_load_extension)(db, name.as_ptr(), std::ptr::null(), &raw mut message)
        };
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        let text = if message.is_null() {
            "no message".to_owned()
        } else {
            // SAFETY: SQLite made the message as a C string, and it is freed only below.
            let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
            // SAFETY: the message came from SQLite's allocator and is not used again.
            unsafe { (self.api.sqlite3_free)(message.cast::<c_void>()) };
            text
        };
        Err(SqliteError { code, message: text, doing: doing() })
    }
}

fn constant(call: unsafe extern "C" fn() -> *const c_char) -> String {
    // SAFETY: takes nothing and returns a constant of the library, which is never unloaded.
    unsafe { CStr::from_ptr(call()) }.to_string_lossy().into_owned()
}

/// Callback that SQLite calls when another connection holds a lock.
unsafe extern "C" fn wait_when_busy(_data: *mut c_void, tried: c_int) -> c_int {
    RETRIES.fetch_add(1, Ordering::Relaxed);
    if tried >= BUSY_LIMIT {
        return 0;
    }
    std::thread::sleep(BUSY_WAIT);
    1
}

fn c_string(bytes: &[u8], doing: &str) -> Result<CString, SqliteError> {
    CString::new(bytes).map_err(|_| SqliteError {
        code: ffi::SQLITE_MISUSE,
        message: "a zero byte in the text".to_owned(),
        doing: doing.to_owned(),
    })
}

/// An open database handle; it closes when its connection and all its statements are gone.
pub(crate) struct Handle {
    pub(crate) api: &'static Api,
    pub(crate) db: *mut sqlite3,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no statement is left, since each holds a reference to this handle; a null handle
        // (out of memory while opening) is allowed.
        unsafe { (self.api.sqlite3_close)(self.db) };
    }
}

impl Handle {
    pub(crate) fn error(&self, code: c_int, doing: String) -> SqliteError {
        if self.db.is_null() {
            // SAFETY: any code is allowed; the result is a constant of the library.
            let text = unsafe { CStr::from_ptr((self.api.sqlite3_errstr)(code)) };
            return SqliteError { code, message: text.to_string_lossy().into_owned(), doing };
        }
        // SAFETY: the handle is open (or half open, which this call allows).
        let extended = unsafe { (self.api.sqlite3_extended_errcode)(self.db) };
        // SAFETY: as above; the text is copied before any other call on the handle.
        let text = unsafe { CStr::from_ptr((self.api.sqlite3_errmsg)(self.db)) };
        let message = text.to_string_lossy().into_owned();
        let code = if extended & 0xff == code & 0xff { extended } else { code };
        SqliteError { code, message, doing }
    }
}

/// Counts of pages missing from SQLite's cache, and of pages written.
#[derive(Debug, Clone, Copy, Default)]
pub struct CacheCounts {
    /// Pages read from the file.
    pub misses: u64,
    /// Pages written to the file.
    pub writes: u64,
}

/// An open database.
pub struct Connection {
    handle: Rc<Handle>,
}

impl Connection {
    pub(crate) fn handle(&self) -> &Rc<Handle> {
        &self.handle
    }

    /// Prepares the first statement of `sql`, to be run many times.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn prepare(&self, sql: &str) -> Result<Statement, SqliteError> {
        self.prepare_first(sql).and_then(|(statement, _)| {
            statement.ok_or_else(|| SqliteError {
                code: ffi::SQLITE_MISUSE,
                message: "no statement in the text".to_owned(),
                doing: sql.to_owned(),
            })
        })
    }

    /// Runs every statement of `sql`, without parameters and without reading rows.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn execute(&self, sql: &str) -> Result<(), SqliteError> {
        self.each(sql, |statement| statement.run().map(drop))
    }

    /// Returns all rows of every statement of `sql`.
    ///
    /// # Errors
    /// Those of the first statement that fails.
    pub fn rows(&self, sql: &str) -> Result<Vec<Row>, SqliteError> {
        let mut rows = Vec::new();
        self.each(sql, |statement| {
            while statement.step()? {
                rows.push(statement.row());
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Returns all rows of one statement with these parameters.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn query<'a>(
        &self,
        sql: &str,
        values: impl ExactSizeIterator<Item = ValueRef<'a>>,
    ) -> Result<Vec<Row>, SqliteError> {
        let statement = self.prepare(sql)?;
        statement.bind_all(values)?;
        let mut rows = Vec::new();
        while statement.step()? {
            rows.push(statement.row());
        }
        Ok(rows)
    }

    fn each(
        &self,
        sql: &str,
        mut with: impl FnMut(&Statement) -> Result<(), SqliteError>,
    ) -> Result<(), SqliteError> {
        let mut rest = sql;
        while !rest.trim().is_empty() {
            let (statement, tail) = self.prepare_first(rest)?;
            statement.iter().try_for_each(&mut with)?;
            rest = tail;
        }
        Ok(())
    }

    fn prepare_first<'a>(&self, sql: &'a str) -> Result<(Option<Statement>, &'a str), SqliteError> {
        let doing = || sql.to_owned();
        let Ok(length) = c_int::try_from(sql.len()) else {
            return Err(self.handle.error(ffi::SQLITE_TOOBIG, doing()));
        };
        let start = sql.as_ptr().cast::<c_char>();
        let mut raw = std::ptr::null_mut();
        let mut tail = std::ptr::null();
        // SAFETY: the handle is open, text and length describe one string, and the two places are
        // valid. The handle lives as long as the statement, which holds a reference.
        let code = unsafe {
            (self.handle.api.sqlite3_prepare_v3)(
                self.handle.db,
                start,
                length,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &raw mut raw,
                &raw mut tail,
            )
        };
        self.check(code, doing)?;
        let used = (tail as usize).saturating_sub(start as usize).min(sql.len());
        let statement =
            (!raw.is_null()).then(|| Statement::new(Rc::clone(&self.handle), raw, &sql[..used]));
        Ok((statement, &sql[used..]))
    }

    /// Returns the first column of the first row as text; `None` without a row.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn query_text(&self, sql: &str) -> Result<Option<String>, SqliteError> {
        let statement = self.prepare(sql)?;
        let text = if statement.step()? { Some(statement.text(0)) } else { None };
        statement.reset()?;
        Ok(text)
    }

    /// Returns the first column of all rows as text.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn query_column(&self, sql: &str) -> Result<Vec<String>, SqliteError> {
        let statement = self.prepare(sql)?;
        let mut texts = Vec::new();
        while statement.step()? {
            texts.push(statement.text(0));
        }
        Ok(texts)
    }

    /// Keeps the write-ahead log when the last connection closes.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn keep_log_on_close(&self) -> Result<(), SqliteError> {
        let (on, nowhere): (c_int, *mut c_int) = (1, std::ptr::null_mut());
        let code = match self.handle.api.sqlite3_db_config {
            // SAFETY: the handle is open; the option takes an integer and a place that may be null.
            Some(call) => unsafe {
                call(self.handle.db, ffi::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on, nowhere)
            },
            None => ffi::SQLITE_MISUSE,
        };
        self.check(code, || "keep the log on closing".to_owned())
    }

    /// Frees the page cache, so that the next statement reads every page again.
    pub fn release_memory(&self) {
        // SAFETY: the handle is open.
        unsafe { (self.handle.api.sqlite3_db_release_memory)(self.handle.db) };
    }

    /// Returns the number of rows that the last statement itself changed.
    #[must_use]
    pub fn changes(&self) -> i64 {
        // SAFETY: the handle is open.
        i64::from(unsafe { (self.handle.api.sqlite3_changes)(self.handle.db) })
    }

    /// Returns the number of rows changed since the connection opened, by triggers and foreign keys
    /// too.
    #[must_use]
    pub fn total_changes(&self) -> i64 {
        // SAFETY: the handle is open.
        i64::from(unsafe { (self.handle.api.sqlite3_total_changes)(self.handle.db) })
    }

    /// Returns the page counts since the last call.
    pub fn take_cache_counts(&self) -> CacheCounts {
        CacheCounts {
            misses: self.take_status(ffi::SQLITE_DBSTATUS_CACHE_MISS),
            writes: self.take_status(ffi::SQLITE_DBSTATUS_CACHE_WRITE),
        }
    }

    fn take_status(&self, what: c_int) -> u64 {
        let (mut current, mut high) = (0, 0);
        // SAFETY: the handle is open and both places are valid. A library built without a counter
        // returns an error and leaves them zero.
        unsafe {
            (self.handle.api.sqlite3_db_status)(
                self.handle.db,
                what,
                &raw mut current,
                &raw mut high,
                1,
            )
        };
        u64::try_from(current).unwrap_or(0)
    }

    /// Copies the whole database over `target` through the backup interface, in one step.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn backup_to(&self, target: &Self) -> Result<(), SqliteError> {
        self.backup_schema_to((c"main", c"main"), target, -1)
    }

    /// Copies the first schema over the second one of `target`, `pages` pages at a time, or all at
    /// once if negative.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn backup_schema_to(
        &self,
        (from, to): (&CStr, &CStr),
        target: &Self,
        pages: c_int,
    ) -> Result<(), SqliteError> {
        let doing = || "backup".to_owned();
        let api = self.handle.api;
        // SAFETY: both handles are open, from the same library, and outlive the backup, which is
        // finished below on every path. The names are C strings.
        let backup = unsafe {
            (api.sqlite3_backup_init)(target.handle.db, to.as_ptr(), self.handle.db, from.as_ptr())
        };
        if backup.is_null() {
            return Err(target.handle.error(ffi::SQLITE_ERROR, doing()));
        }
        let step = loop {
            // SAFETY: the backup was made just above.
            match unsafe { (api.sqlite3_backup_step)(backup, pages) } {
                ffi::SQLITE_OK => {}
                step => break step,
            }
        };
        // SAFETY: as above; it is not used again.
        let finish = unsafe { (api.sqlite3_backup_finish)(backup) };
        if step == ffi::SQLITE_DONE && finish == ffi::SQLITE_OK {
            return Ok(());
        }
        let code = if finish == ffi::SQLITE_OK { step } else { finish };
        Err(target.handle.error(code, doing()))
    }

    /// Returns the open handle, and the functions that accept it.
    #[must_use]
    pub fn raw(&self) -> (&'static Api, *mut sqlite3) {
        (self.handle.api, self.handle.db)
    }

    /// Converts a call's result code into an error.
    ///
    /// # Errors
    /// SQLite's own, for any code but `SQLITE_OK`.
    pub fn check(&self, code: c_int, doing: impl FnOnce() -> String) -> Result<(), SqliteError> {
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.handle.error(code, doing())) }
    }

    /// Closes the connection.
    ///
    /// # Errors
    /// SQLite's own, and `SQLITE_BUSY` if statements remain, the last of which then closes it.
    pub fn close(self) -> Result<(), SqliteError> {
        let (api, db) = self.raw();
        let Some(handle) = Rc::into_inner(self.handle) else {
            let message = "a statement is left".to_owned();
            return Err(SqliteError { code: ffi::SQLITE_BUSY, message, doing: "close".to_owned() });
        };
        // SAFETY: the handle is open; after SQLITE_OK it is forgotten, so that it is closed once.
        match unsafe { (api.sqlite3_close)(db) } {
            ffi::SQLITE_OK => {
                std::mem::forget(handle);
                Ok(())
            }
            code => Err(handle.error(code, "close".to_owned())),
        }
    }
}
