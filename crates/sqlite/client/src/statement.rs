//! Prepared statements. Nothing here allocates on the path bind, step, reset.

use core::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use rusqlite::ffi;
use rusqlite::ffi::sqlite3_stmt;
use rusqlite::types::{ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};

use crate::connection::{Handle, SqliteError};

/// A value of a row. Reals are stored as bits, so that they can be compared and hashed; text and
/// blobs are serialized in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Value {
    /// NULL.
    Null,
    /// INTEGER.
    Int(i64),
    /// REAL, as IEEE 754 bits.
    Real(u64),
    /// TEXT, as stored: SQLite does not promise UTF-8.
    #[serde(with = "hex::serde")]
    Text(Vec<u8>),
    /// BLOB.
    #[serde(with = "hex::serde")]
    Blob(Vec<u8>),
}

/// One row.
pub type Row = Vec<Value>;

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number.to_bits())
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Real(number) => Self::from(number),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.borrowed()))
    }
}

impl Value {
    /// Borrows the value for binding.
    #[must_use]
    pub fn borrowed(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(bits) => ValueRef::Real(f64::from_bits(*bits)),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

/// A value that is bound without a copy.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// INTEGER.
    Integer(i64),
    /// TEXT.
    Text(&'static str),
}

impl From<i64> for Bound {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&'static str> for Bound {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

/// A prepared statement; keeps its connection open.
pub struct Statement {
    handle: Rc<Handle>,
    raw: *mut sqlite3_stmt,
    sql: String,
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: the statement is live and not used again. The code repeats the last step's.
        unsafe { (self.handle.api.sqlite3_finalize)(self.raw) };
    }
}

impl Statement {
    /// `raw` must be a live statement of `handle`, owned by nobody else.
    pub(crate) fn new(handle: Rc<Handle>, raw: *mut sqlite3_stmt, sql: &str) -> Self {
        Self { handle, raw, sql: sql.trim().to_owned() }
    }

    fn check(&self, code: c_int) -> Result<(), SqliteError> {
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.failed(code)) }
    }

    #[cold]
    fn failed(&self, code: c_int) -> SqliteError {
        self.handle.error(code, self.sql.clone())
    }

    /// Returns true if it does not change the database.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        // SAFETY: the statement is live.
        unsafe { (self.handle.api.sqlite3_stmt_readonly)(self.raw) != 0 }
    }

    /// Number of parameters.
    #[must_use]
    pub fn parameters(&self) -> usize {
        // SAFETY: the statement is live.
        let count = unsafe { (self.handle.api.sqlite3_bind_parameter_count)(self.raw) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Steps to the next row; returns true if there is one.
    ///
    /// # Errors
    /// SQLite's own.
    #[inline]
    pub fn step(&self) -> Result<bool, SqliteError> {
        // SAFETY: the statement is live.
        match unsafe { (self.handle.api.sqlite3_step)(self.raw) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(self.failed(code)),
        }
    }

    /// Makes the statement ready to run again; returns the error of the last step, if any.
    ///
    /// # Errors
    /// SQLite's own.
    #[inline]
    pub fn reset(&self) -> Result<(), SqliteError> {
        // SAFETY: the statement is live.
        self.check(unsafe { (self.handle.api.sqlite3_reset)(self.raw) })
    }

    /// Runs to the end, reads every column of every row, and resets. Returns a checksum of the
    /// values, so that reading them cannot be optimised away.
    ///
    /// # Errors
    /// SQLite's own.
    #[inline]
    pub fn run(&self) -> Result<u64, SqliteError> {
        let mut sum = 0;
        loop {
            match self.step() {
                Ok(true) => sum = self.read_row(sum),
                Ok(false) => break,
                Err(error) => {
                    // SAFETY: the statement is live; the code only repeats the error at hand.
                    unsafe { (self.handle.api.sqlite3_reset)(self.raw) };
                    return Err(error);
                }
            }
        }
        self.reset()?;
        Ok(sum)
    }

    /// Binds the values in order, and runs.
    ///
    /// # Errors
    /// SQLite's own.
    #[inline]
    pub fn run_with<const N: usize>(&self, values: [Bound; N]) -> Result<u64, SqliteError> {
        for (index, value) in (1..).zip(values) {
            match value {
                Bound::Integer(number) => self.bind_integer(index, number)?,
                Bound::Text(text) => self.bind_static_text(index, text)?,
            }
        }
        self.run()
    }

    #[inline]
    fn read_row(&self, mut sum: u64) -> u64 {
        let api = self.handle.api;
        // SAFETY: the statement is live and stands on a row; each column index is below the count.
        unsafe {
            for column in 0..(api.sqlite3_column_count)(self.raw) {
                let part = match (api.sqlite3_column_type)(self.raw, column) {
                    ffi::SQLITE_INTEGER => {
                        (api.sqlite3_column_int64)(self.raw, column).cast_unsigned()
                    }
                    ffi::SQLITE_FLOAT => (api.sqlite3_column_double)(self.raw, column).to_bits(),
                    ffi::SQLITE_NULL => 0,
                    _ => {
                        let start = (api.sqlite3_column_blob)(self.raw, column);
                        let length = (api.sqlite3_column_bytes)(self.raw, column);
                        (start as u64 & 1) + u64::from(length.cast_unsigned())
                    }
                };
                sum = sum.wrapping_add(part);
            }
        }
        sum
    }

    /// Returns an integer column of the current row.
    #[inline]
    #[must_use]
    pub fn integer(&self, column: c_int) -> i64 {
        // SAFETY: the statement is live; a column out of range returns 0.
        unsafe { (self.handle.api.sqlite3_column_int64)(self.raw, column) }
    }

    /// Returns a column of the current row as text, empty for NULL.
    #[must_use]
    pub fn text(&self, column: c_int) -> String {
        // SAFETY: the statement is live; a column out of range returns null.
        let start = unsafe { (self.handle.api.sqlite3_column_text)(self.raw, column) };
        String::from_utf8_lossy(&self.bytes(start.cast(), column)).into_owned()
    }

    /// Returns the current row.
    #[must_use]
    pub fn row(&self) -> Row {
        let api = self.handle.api;
        // SAFETY: the statement is live.
        let count = unsafe { (api.sqlite3_column_count)(self.raw) };
        let value = |column| {
            // SAFETY: as above; the index is below the count. Text and blob are requested before
            // their length, as SQLite requires.
            unsafe {
                match (api.sqlite3_column_type)(self.raw, column) {
                    ffi::SQLITE_INTEGER => Value::Int((api.sqlite3_column_int64)(self.raw, column)),
                    ffi::SQLITE_FLOAT => {
                        Value::Real((api.sqlite3_column_double)(self.raw, column).to_bits())
                    }
                    ffi::SQLITE_TEXT => {
                        let start = (api.sqlite3_column_text)(self.raw, column);
                        Value::Text(self.bytes(start.cast(), column))
                    }
                    ffi::SQLITE_BLOB => {
                        let start = (api.sqlite3_column_blob)(self.raw, column);
                        Value::Blob(self.bytes(start, column))
                    }
                    _ => Value::Null,
                }
            }
        };
        (0..count).map(value).collect()
    }

    /// Returns the bytes of a column at `start`, which SQLite has just returned for it.
    fn bytes(&self, start: *const c_void, column: c_int) -> Vec<u8> {
        // SAFETY: the statement is live; a column out of range returns 0.
        let length = unsafe { (self.handle.api.sqlite3_column_bytes)(self.raw, column) };
        match usize::try_from(length) {
            Ok(length @ 1..) if !start.is_null() => {
                // SAFETY: SQLite keeps `length` bytes at `start` until the next call.
                unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec()
            }
            _ => Vec::new(),
        }
    }

    /// Binds an integer to the parameter `index`, counted from 1.
    ///
    /// # Errors
    /// SQLite's own.
    #[inline]
    pub fn bind_integer(&self, index: c_int, value: i64) -> Result<(), SqliteError> {
        // SAFETY: the statement is live; an index out of range returns an error.
        self.check(unsafe { (self.handle.api.sqlite3_bind_int64)(self.raw, index, value) })
    }

    /// Binds text that lives as long as the program, without a copy.
    #[inline]
    fn bind_static_text(&self, index: c_int, text: &'static str) -> Result<(), SqliteError> {
        let Ok(length) = c_int::try_from(text.len()) else {
            return Err(self.failed(ffi::SQLITE_TOOBIG));
        };
        // SAFETY: the statement is live, and the text is never freed.
        self.check(unsafe {
            (self.handle.api.sqlite3_bind_text)(
                self.raw,
                index,
                text.as_ptr().cast::<c_char>(),
                length,
                ffi::SQLITE_STATIC(),
            )
        })
    }

    /// Binds one value to each parameter; SQLite copies text and blobs.
    ///
    /// # Errors
    /// If the number of values differs from the number of parameters; SQLite's own.
    pub fn bind_all<'a>(
        &self,
        values: impl ExactSizeIterator<Item = ValueRef<'a>>,
    ) -> Result<(), SqliteError> {
        let wanted = self.parameters();
        if wanted != values.len() {
            return Err(SqliteError {
                code: ffi::SQLITE_RANGE,
                message: format!("{} values for {wanted} parameters", values.len()),
                doing: self.sql.clone(),
            });
        }
        (1..).zip(values).try_for_each(|(index, value)| self.bind(index, value))
    }

    fn bind(&self, index: c_int, value: ValueRef<'_>) -> Result<(), SqliteError> {
        let api = self.handle.api;
        let length = |bytes: &[u8]| {
            c_int::try_from(bytes.len()).map_err(|_| self.failed(ffi::SQLITE_TOOBIG))
        };
        // SAFETY: the statement is live; text and blobs are copied by SQLite within the call.
        let code = unsafe {
            match value {
                ValueRef::Null => (api.sqlite3_bind_null)(self.raw, index),
                ValueRef::Integer(number) => (api.sqlite3_bind_int64)(self.raw, index, number),
                ValueRef::Real(number) => (api.sqlite3_bind_double)(self.raw, index, number),
                ValueRef::Text(text) => (api.sqlite3_bind_text)(
                    self.raw,
                    index,
                    text.as_ptr().cast::<c_char>(),
                    length(text)?,
                    ffi::SQLITE_TRANSIENT(),
                ),
                ValueRef::Blob(bytes) => (api.sqlite3_bind_blob)(
                    self.raw,
                    index,
                    bytes.as_ptr().cast::<c_void>(),
                    length(bytes)?,
                    ffi::SQLITE_TRANSIENT(),
                ),
            }
        };
        self.check(code)
    }
}
