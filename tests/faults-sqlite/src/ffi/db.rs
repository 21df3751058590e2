//! A small connection over [`Api`]: the same suites run on any SQLite library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use rusqlite::ffi as sys;

use super::api::{Api, api};
use super::raw_file::RawFile;
use crate::error::{Error, Result, SqlError};

/// One value of a row or a parameter. Reals compare by bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// NULL.
    Null,
    /// INTEGER.
    Int(i64),
    /// REAL, as IEEE 754 bits.
    Real(u64),
    /// TEXT, as stored: SQLite does not promise UTF-8.
    Text(Vec<u8>),
    /// BLOB.
    Blob(Vec<u8>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

/// One row.
pub type Row = Vec<Value>;

/// An open connection. Not `Send`: each thread opens its own.
pub struct Db {
    raw: *mut sys::sqlite3,
    api: &'static Api,
}

impl Db {
    /// Opens `uri` (a path or a `file:` URI) for reading and writing, creating it when `create`.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open(uri: &str, vfs: Option<&str>, create: bool) -> Result<Self> {
        let create = if create { sys::SQLITE_OPEN_CREATE } else { 0 };
        Self::open_with(uri, vfs, sys::SQLITE_OPEN_READWRITE | create)
    }

    /// Opens `uri` read-only.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open_readonly(uri: &str, vfs: Option<&str>) -> Result<Self> {
        Self::open_with(uri, vfs, sys::SQLITE_OPEN_READONLY)
    }

    fn open_with(uri: &str, vfs: Option<&str>, flags: c_int) -> Result<Self> {
        let api = api()?;
        let uri = c_string(uri)?;
        let vfs = vfs.map(c_string).transpose()?;
        let vfs = vfs.as_ref().map_or(ptr::null(), |v| v.as_ptr());
        let mut raw = ptr::null_mut();
        // SAFETY: the strings live through the call; SQLite sets `raw` even when it fails.
        let rc =
            unsafe { (api.open_v2)(uri.as_ptr(), &raw mut raw, flags | sys::SQLITE_OPEN_URI, vfs) };
        if raw.is_null() {
            let message = "out of memory on open".into();
            return Err(SqlError { extended: rc, message }.into());
        }
        let db = Self { raw, api };
        // SAFETY: `raw` is an open handle, or a failed one that still answers for its error.
        unsafe { (api.extended_result_codes)(raw, 1) };
        if rc != sys::SQLITE_OK {
            return Err(db.error(rc).into());
        }
        Ok(db)
    }

    /// Runs every statement of `sql`; rows are dropped.
    ///
    /// # Errors
    /// The first statement's that fails; later ones do not run.
    pub fn run(&self, sql: &str) -> Result<()> {
        self.each_statement(sql, |_| ()).map(drop)
    }

    /// Runs every statement of `sql` and returns all rows.
    ///
    /// # Errors
    /// The first statement's that fails.
    pub fn rows(&self, sql: &str) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.each_statement(sql, |row| rows.push(row))?;
        Ok(rows)
    }

    /// Runs one statement with parameters and returns its rows.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn query(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.prepare(sql)?;
        statement.bind(params)?;
        let mut rows = Vec::new();
        while let Some(row) = statement.step()? {
            rows.push(row);
        }
        Ok(rows)
    }

    /// The single integer that `sql` yields.
    ///
    /// # Errors
    /// SQLite's own; [`Error::Broken`] when the result has another shape.
    pub fn int(&self, sql: &str) -> Result<i64> {
        match self.rows(sql)?.first().and_then(|row| row.first()) {
            Some(Value::Int(n)) => Ok(*n),
            other => Err(Error::Broken(format!("{sql}: wanted one integer, got {other:?}"))),
        }
    }

    /// The single text that `sql` yields.
    ///
    /// # Errors
    /// SQLite's own; [`Error::Broken`] when the result has another shape.
    pub fn text(&self, sql: &str) -> Result<String> {
        match self.rows(sql)?.first().and_then(|row| row.first()) {
            Some(Value::Text(t)) => Ok(String::from_utf8_lossy(t).into_owned()),
            other => Err(Error::Broken(format!("{sql}: wanted one text, got {other:?}"))),
        }
    }

    /// Prepares the first statement of `sql`.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        let sql = c_string(sql)?;
        self.prepare_tail(&sql).map(|(statement, _)| statement)
    }

    /// How long a busy database is waited for.
    pub fn busy_timeout_ms(&self, timeout_ms: c_int) {
        // SAFETY: `raw` is open; every duration is legal.
        unsafe { (self.api.busy_timeout)(self.raw, timeout_ms) };
    }

    /// Gives back every page that no statement uses, so that the next read goes to the file.
    pub fn release_memory(&self) {
        // SAFETY: `raw` is open.
        unsafe { (self.api.db_release_memory)(self.raw) };
    }

    /// True outside of a transaction.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        // SAFETY: `raw` is open.
        unsafe { (self.api.get_autocommit)(self.raw) != 0 }
    }

    /// Copies database `from.schema` over this one's `schema`, `step_pages` pages at a time.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn backup_from(&self, schema: &str, from: &Db, of: &str, step_pages: c_int) -> Result<()> {
        let (schema, of) = (c_string(schema)?, c_string(of)?);
        // SAFETY: both connections are open and differ; the names live through the call.
        let backup =
            unsafe { (self.api.backup_init)(self.raw, schema.as_ptr(), from.raw, of.as_ptr()) };
        if backup.is_null() {
            return Err(self.error(sys::SQLITE_ERROR).into());
        }
        // SAFETY: `backup` is live until backup_finish, which is called exactly once.
        let rc = unsafe {
            while (self.api.backup_step)(backup, step_pages) == sys::SQLITE_OK {}
            (self.api.backup_finish)(backup)
        };
        if rc == sys::SQLITE_OK { Ok(()) } else { Err(self.error(rc).into()) }
    }

    /// Opens the BLOB in `schema.table.column` of row `rowid`.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn blob(
        &self,
        (schema, table, column): (&str, &str, &str),
        rowid: i64,
        writable: bool,
    ) -> Result<Blob<'_>> {
        let names = (c_string(schema)?, c_string(table)?, c_string(column)?);
        let mut raw = ptr::null_mut();
        // SAFETY: the names live through the call; `raw` is only used after SQLITE_OK.
        let rc = unsafe {
            (self.api.blob_open)(
                self.raw,
                names.0.as_ptr(),
                names.1.as_ptr(),
                names.2.as_ptr(),
                rowid,
                c_int::from(writable),
                &raw mut raw,
            )
        };
        if rc == sys::SQLITE_OK { Ok(Blob { db: self, raw }) } else { Err(self.error(rc).into()) }
    }

    /// The file that stands under `schema`'s pager: the top VFS's view of it.
    ///
    /// # Errors
    /// SQLite's own; [`Error::Setup`] when the database has no such file open.
    pub fn file(&self, schema: &str, journal: bool) -> Result<RawFile<'_>> {
        let op = if journal {
            sys::SQLITE_FCNTL_JOURNAL_POINTER
        } else {
            sys::SQLITE_FCNTL_FILE_POINTER
        };
        let schema = c_string(schema)?;
        let mut file: *mut sys::sqlite3_file = ptr::null_mut();
        // SAFETY: both controls store one pointer to sqlite3_file in the argument.
        let rc = unsafe {
            (self.api.file_control)(self.raw, schema.as_ptr(), op, (&raw mut file).cast())
        };
        if rc != sys::SQLITE_OK {
            return Err(self.error(rc).into());
        }
        // SAFETY: the file belongs to the connection's pager, which `self` keeps alive.
        unsafe { RawFile::new(file) }.ok_or_else(|| Error::Setup("the file is not open".into()))
    }

    /// Asks for `reserve` reserved bytes a page (before the first page is written, or for VACUUM).
    ///
    /// # Errors
    /// SQLite's own.
    pub fn reserve_bytes(&self, schema: &str, reserve: c_int) -> Result<()> {
        let schema = c_string(schema)?;
        let mut reserve = reserve;
        // SAFETY: the control reads and writes one int.
        let rc = unsafe {
            (self.api.file_control)(
                self.raw,
                schema.as_ptr(),
                sys::SQLITE_FCNTL_RESERVE_BYTES,
                (&raw mut reserve).cast(),
            )
        };
        if rc == sys::SQLITE_OK { Ok(()) } else { Err(self.error(rc).into()) }
    }

    /// Loads the extension at `path`.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn load_extension(&self, path: &str) -> Result<()> {
        let path = c_string(path)?;
        let mut message: *mut c_char = ptr::null_mut();
        // SAFETY: the path lives through the call; the message is SQLite's and freed below.
        let rc = unsafe {
            (self.api.enable_load_extension)(self.raw, 1);
            (self.api.load_extension)(self.raw, path.as_ptr(), ptr::null(), &raw mut message)
        };
        if rc == sys::SQLITE_OK {
            return Ok(());
        }
        let mut error = self.error(rc);
        if !message.is_null() {
            // SAFETY: a message that load_extension set is a C string from sqlite3_malloc.
            unsafe {
                error.message = CStr::from_ptr(message).to_string_lossy().into_owned();
                (self.api.free)(message.cast());
            }
        }
        Err(error.into())
    }

    /// Closes the connection and says whether that worked.
    ///
    /// # Errors
    /// SQLite's own, for example a busy one.
    pub fn close(self) -> Result<()> {
        // SAFETY: `raw` is open; after SQLITE_OK it is gone, so Drop must not see it again.
        let rc = unsafe { (self.api.close)(self.raw) };
        if rc == sys::SQLITE_OK {
            std::mem::forget(self);
            return Ok(());
        }
        Err(self.error(rc).into())
    }

    fn each_statement(&self, sql: &str, mut on_row: impl FnMut(Row)) -> Result<()> {
        let sql = c_string(sql)?;
        let mut rest: &CStr = &sql;
        while !rest.is_empty() {
            let (mut statement, tail) = self.prepare_tail(rest)?;
            while let Some(row) = statement.step()? {
                on_row(row);
            }
            rest = tail;
        }
        Ok(())
    }

    fn prepare_tail<'a>(&self, sql: &'a CStr) -> Result<(Statement<'_>, &'a CStr)> {
        let (mut raw, mut tail) = (ptr::null_mut(), ptr::null());
        // SAFETY: `sql` is NUL-terminated; SQLite sets `tail` to a place inside of it.
        let rc = unsafe {
            (self.api.prepare_v2)(self.raw, sql.as_ptr(), -1, &raw mut raw, &raw mut tail)
        };
        if rc != sys::SQLITE_OK {
            return Err(self.error(rc).into());
        }
        // SAFETY: `tail` points into `sql`, so it is NUL-terminated and lives as long.
        let tail = if tail.is_null() { c"" } else { unsafe { CStr::from_ptr(tail) } };
        Ok((Statement { db: self, raw }, tail))
    }

    fn error(&self, rc: c_int) -> SqlError {
        // SAFETY: `raw` is open or a failed handle; errmsg is valid until the next call.
        unsafe {
            let extended = (self.api.extended_errcode)(self.raw);
            let extended = if extended & 0xff == rc & 0xff { extended } else { rc };
            let message = CStr::from_ptr((self.api.errmsg)(self.raw)).to_string_lossy();
            SqlError { extended, message: message.into_owned() }
        }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: `raw` came from sqlite3_open_v2 and is closed once; statements, BLOBs and files
        // borrow from `self`, so none is left.
        unsafe { (self.api.close)(self.raw) };
    }
}

/// A prepared statement.
pub struct Statement<'db> {
    db: &'db Db,
    /// Null for a comment or white space, which yields no row.
    raw: *mut sys::sqlite3_stmt,
}

impl Statement<'_> {
    /// Binds `params` to ?1, ?2 ...
    ///
    /// # Errors
    /// SQLite's own.
    pub fn bind(&mut self, params: &[Value]) -> Result<()> {
        let api = self.db.api;
        for (index, value) in (1..).zip(params) {
            // SAFETY: SQLITE_TRANSIENT makes SQLite copy the bytes during the call.
            let rc = unsafe {
                match value {
                    Value::Null => (api.bind_null)(self.raw, index),
                    Value::Int(n) => (api.bind_int64)(self.raw, index, *n),
                    Value::Real(bits) => (api.bind_double)(self.raw, index, f64::from_bits(*bits)),
                    Value::Text(t) => (api.bind_text)(
                        self.raw,
                        index,
                        t.as_ptr().cast(),
                        length(t)?,
                        sys::SQLITE_TRANSIENT(),
                    ),
                    Value::Blob(b) => (api.bind_blob)(
                        self.raw,
                        index,
                        b.as_ptr().cast(),
                        length(b)?,
                        sys::SQLITE_TRANSIENT(),
                    ),
                }
            };
            if rc != sys::SQLITE_OK {
                return Err(self.db.error(rc).into());
            }
        }
        Ok(())
    }

    /// The next row, or `None` at the end.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn step(&mut self) -> Result<Option<Row>> {
        if self.raw.is_null() {
            return Ok(None);
        }
        // SAFETY: `raw` is a live statement.
        match unsafe { (self.db.api.step)(self.raw) } {
            sys::SQLITE_ROW => Ok(Some(self.row())),
            sys::SQLITE_DONE => Ok(None),
            rc => Err(self.db.error(rc).into()),
        }
    }

    /// Makes the statement ready to run again; its parameters stay.
    pub fn reset(&mut self) {
        // SAFETY: `raw` is a live statement, or null, which is a no-op.
        unsafe { (self.db.api.reset)(self.raw) };
    }

    fn row(&self) -> Row {
        let api = self.db.api;
        // SAFETY: called after SQLITE_ROW only; the column index is below the count.
        let count = unsafe { (api.column_count)(self.raw) };
        (0..count)
            .map(|i| unsafe {
                // SAFETY: as above; text and blob are asked for before their length, as
                // SQLite's manual demands.
                match (api.column_type)(self.raw, i) {
                    sys::SQLITE_INTEGER => Value::Int((api.column_int64)(self.raw, i)),
                    sys::SQLITE_FLOAT => Value::Real((api.column_double)(self.raw, i).to_bits()),
                    sys::SQLITE_TEXT => {
                        let start = (api.column_text)(self.raw, i);
                        Value::Text(copy(start.cast(), (api.column_bytes)(self.raw, i)))
                    }
                    sys::SQLITE_BLOB => {
                        let start = (api.column_blob)(self.raw, i);
                        Value::Blob(copy(start, (api.column_bytes)(self.raw, i)))
                    }
                    _ => Value::Null,
                }
            })
            .collect()
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: finalized once; null is a no-op.
        unsafe { (self.db.api.finalize)(self.raw) };
    }
}

/// An open BLOB handle.
pub struct Blob<'db> {
    db: &'db Db,
    raw: *mut sys::sqlite3_blob,
}

impl Blob<'_> {
    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        // SAFETY: `raw` is live.
        usize::try_from(unsafe { (self.db.api.blob_bytes)(self.raw) }).unwrap_or(0)
    }

    /// Reads `len` bytes from `offset`.
    ///
    /// # Errors
    /// SQLite's own, for example beyond the end.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>> {
        let mut out = vec![0; len];
        // SAFETY: SQLite writes exactly `len` bytes, which `out` holds.
        let rc = unsafe {
            (self.db.api.blob_read)(
                self.raw,
                out.as_mut_ptr().cast(),
                length(&out)?,
                c_int::try_from(offset).unwrap_or(c_int::MAX),
            )
        };
        if rc == sys::SQLITE_OK { Ok(out) } else { Err(self.db.error(rc).into()) }
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// SQLite's own, for example beyond the end.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let offset = c_int::try_from(offset).unwrap_or(c_int::MAX);
        // SAFETY: SQLite reads exactly `data.len()` bytes.
        let rc = unsafe {
            (self.db.api.blob_write)(self.raw, data.as_ptr().cast(), length(data)?, offset)
        };
        if rc == sys::SQLITE_OK { Ok(()) } else { Err(self.db.error(rc).into()) }
    }
}

impl Drop for Blob<'_> {
    fn drop(&mut self) {
        // SAFETY: closed once.
        unsafe { (self.db.api.blob_close)(self.raw) };
    }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Setup(format!("NUL inside of {text:?}")))
}

fn length(bytes: &[u8]) -> Result<c_int> {
    c_int::try_from(bytes.len()).map_err(|_| Error::Setup("a value above 2 GiB".into()))
}

/// Copies a column's bytes.
///
/// # Safety
/// `start` is null or points at `len` readable bytes.
unsafe fn copy(start: *const c_void, len: c_int) -> Vec<u8> {
    match usize::try_from(len) {
        // SAFETY: the caller's promise.
        Ok(len) if len > 0 && !start.is_null() => unsafe {
            std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec()
        },
        _ => Vec::new(),
    }
}
