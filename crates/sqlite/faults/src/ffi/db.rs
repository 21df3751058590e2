//! A small connection to the library under test.

use std::ffi::{CString, c_int, c_void};
use std::ptr;

use rusqlite::ffi as sys;
use tdekit_sqlite_client::Connection;

use super::api::library;
use super::raw_file::RawFile;
use crate::error::{Error, Result};

pub use tdekit_sqlite_client::{Row, Statement, Value};

/// An open connection. Not `Send`: each thread opens its own.
pub struct Db {
    connection: Connection,
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
        let flags = flags | sys::SQLITE_OPEN_URI;
        Ok(Self { connection: library()?.open_with(uri.as_ref(), vfs, flags)? })
    }

    /// Runs every statement of `sql`; rows are dropped.
    ///
    /// # Errors
    /// The error of the first statement that fails; later ones do not run.
    pub fn run(&self, sql: &str) -> Result<()> {
        Ok(self.connection.execute(sql)?)
    }

    /// Runs every statement of `sql` and returns all rows.
    ///
    /// # Errors
    /// The error of the first statement that fails.
    pub fn rows(&self, sql: &str) -> Result<Vec<Row>> {
        Ok(self.connection.rows(sql)?)
    }

    /// Runs one statement with parameters and returns its rows.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn query(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>> {
        Ok(self.connection.query(sql, params.iter().map(Value::borrowed))?)
    }

    /// Returns the single integer that `sql` yields.
    ///
    /// # Errors
    /// SQLite's own; [`Error::Broken`] if the result has another shape.
    pub fn int(&self, sql: &str) -> Result<i64> {
        match self.rows(sql)?.first().and_then(|row| row.first()) {
            Some(Value::Int(n)) => Ok(*n),
            other => Err(Error::Broken(format!("{sql}: wanted one integer, got {other:?}"))),
        }
    }

    /// Returns the single text that `sql` yields.
    ///
    /// # Errors
    /// SQLite's own; [`Error::Broken`] if the result has another shape.
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
    pub fn prepare(&self, sql: &str) -> Result<Statement> {
        Ok(self.connection.prepare(sql)?)
    }

    /// Sets the wait for a busy database.
    pub fn busy_timeout_ms(&self, timeout_ms: c_int) {
        let (api, db) = self.connection.raw();
        // SAFETY: the connection is open; every duration is legal.
        unsafe { (api.sqlite3_busy_timeout)(db, timeout_ms) };
    }

    /// Frees every page that no statement uses, so that the next read goes to the file.
    pub fn release_memory(&self) {
        self.connection.release_memory();
    }

    /// Returns true outside of a transaction.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        let (api, db) = self.connection.raw();
        // SAFETY: the connection is open.
        unsafe { (api.sqlite3_get_autocommit)(db) != 0 }
    }

    /// Copies database `from.schema` over this one's `schema`, `step_pages` pages at a time.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn backup_from(&self, schema: &str, from: &Db, of: &str, step_pages: c_int) -> Result<()> {
        let (schema, of) = (c_string(schema)?, c_string(of)?);
        let (from, to) = (&from.connection, &self.connection);
        Ok(from.backup_schema_to((&of, &schema), to, step_pages)?)
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
        let (api, db) = self.connection.raw();
        let mut raw = ptr::null_mut();
        // SAFETY: the names live through the call; `raw` is only used after SQLITE_OK.
        let rc = unsafe {
            (api.sqlite3_blob_open)(
                db,
                names.0.as_ptr(),
                names.1.as_ptr(),
                names.2.as_ptr(),
                rowid,
                c_int::from(writable),
                &raw mut raw,
            )
        };
        self.connection.check(rc, || format!("open a BLOB of {table}"))?;
        Ok(Blob { db: self, raw })
    }

    /// Returns the file under `schema`'s pager, as the top VFS sees it.
    ///
    /// # Errors
    /// SQLite's own; [`Error::Setup`] if the database has no such file open.
    pub fn file(&self, schema: &str, journal: bool) -> Result<RawFile<'_>> {
        let op = if journal {
            sys::SQLITE_FCNTL_JOURNAL_POINTER
        } else {
            sys::SQLITE_FCNTL_FILE_POINTER
        };
        let mut file: *mut sys::sqlite3_file = ptr::null_mut();
        self.control(schema, op, (&raw mut file).cast())?;
        // SAFETY: the file belongs to the connection's pager, which `self` keeps alive.
        unsafe { RawFile::new(file) }.ok_or_else(|| Error::Setup("the file is not open".into()))
    }

    /// Requests `reserve` reserved bytes per page (before the first page is written, or for
    /// VACUUM).
    ///
    /// # Errors
    /// SQLite's own.
    pub fn reserve_bytes(&self, schema: &str, reserve: c_int) -> Result<()> {
        let mut reserve = reserve;
        self.control(schema, sys::SQLITE_FCNTL_RESERVE_BYTES, (&raw mut reserve).cast())
    }

    /// Calls `sqlite3_file_control` for the controls above: each reads or writes the object that
    /// `argument` points to, a pointer to a file or an int.
    fn control(&self, schema: &str, op: c_int, argument: *mut c_void) -> Result<()> {
        let name = c_string(schema)?;
        let (api, db) = self.connection.raw();
        // SAFETY: the connection is open, the name lives through the call, and the callers give
        // each control what it takes.
        let rc = unsafe { (api.sqlite3_file_control)(db, name.as_ptr(), op, argument) };
        Ok(self.connection.check(rc, || format!("control {op} of {schema}"))?)
    }

    /// Closes the connection.
    ///
    /// # Errors
    /// SQLite's own, for example that it is busy.
    pub fn close(self) -> Result<()> {
        Ok(self.connection.close()?)
    }
}

/// An open BLOB handle.
pub struct Blob<'db> {
    db: &'db Db,
    raw: *mut sys::sqlite3_blob,
}

impl Blob<'_> {
    /// Returns its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        // SAFETY: `raw` is live.
        usize::try_from(unsafe { (self.db.connection.raw().0.sqlite3_blob_bytes)(self.raw) })
            .unwrap_or(0)
    }

    /// Reads `len` bytes from `offset`.
    ///
    /// # Errors
    /// SQLite's own, for example beyond the end.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>> {
        let mut out = vec![0; len];
        // SAFETY: SQLite writes exactly `len` bytes, which `out` holds.
        let rc = unsafe {
            (self.db.connection.raw().0.sqlite3_blob_read)(
                self.raw,
                out.as_mut_ptr().cast(),
                length(&out)?,
                c_int::try_from(offset).unwrap_or(c_int::MAX),
            )
        };
        self.db.connection.check(rc, || "read a BLOB".to_owned())?;
        Ok(out)
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// SQLite's own, for example beyond the end.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let offset = c_int::try_from(offset).unwrap_or(c_int::MAX);
        // SAFETY: SQLite reads exactly `data.len()` bytes.
        let rc = unsafe {
            (self.db.connection.raw().0.sqlite3_blob_write)(
                self.raw,
                data.as_ptr().cast(),
                length(data)?,
                offset,
            )
        };
        Ok(self.db.connection.check(rc, || "write a BLOB".to_owned())?)
    }
}

impl Drop for Blob<'_> {
    fn drop(&mut self) {
        // SAFETY: closed once.
        unsafe { (self.db.connection.raw().0.sqlite3_blob_close)(self.raw) };
    }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Setup(format!("NUL inside of {text:?}")))
}

fn length(bytes: &[u8]) -> Result<c_int> {
    c_int::try_from(bytes.len()).map_err(|_| Error::Setup("a value above 2 GiB".into()))
}
