//! A library whose calls do nothing but return: the cost of a loop on it is the driver's own share.
//!
//! A query has one row. Its integers follow from the first parameter's value, so that the control
//! table of the CRUD loop gives the requested numbers: see [`control_code`].

use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};

use rusqlite::ffi;
use rusqlite::ffi::{sqlite3, sqlite3_stmt};

use crate::Api;

/// Key of the control row for which this library's control table returns `reads`, `updates`,
/// `inserts` and `loads`, each at most 99.
#[must_use]
pub fn control_code(reads: u32, updates: u32, inserts: u32, loads: bool) -> i64 {
    [reads, updates, inserts, u32::from(loads)]
        .into_iter()
        .rev()
        .fold(0, |code, part| code * 100 + i64::from(part.min(99)))
}

/// The object behind a statement's pointer.
struct IdleStatement {
    columns: c_int,
    query: bool,
    /// True if the statement is on its row.
    on_row: bool,
    /// Value of the first parameter.
    code: i64,
}

/// Its address is the handle of every connection; it is never read.
static CONNECTION: u8 = 0;
const TEXT: &CStr = c"0123456789abcdef0123456789abcdef0123";

/// # Safety
/// `raw` must come from [`prepare`] and not be finalized.
unsafe fn statement<'a>(raw: *mut sqlite3_stmt) -> &'a mut IdleStatement {
    // SAFETY: the caller observes the rule above, and uses a statement in one thread at a time.
    unsafe { &mut *raw.cast::<IdleStatement>() }
}

extern "C" fn name() -> *const c_char {
    c"idle".as_ptr()
}

unsafe extern "C" fn open(
    _name: *const c_char,
    db: *mut *mut sqlite3,
    _flags: c_int,
    _vfs: *const c_char,
) -> c_int {
    let place = (&raw const CONNECTION).cast_mut().cast::<sqlite3>();
    // SAFETY: the caller gives a valid place.
    unsafe { *db = place };
    ffi::SQLITE_OK
}

unsafe extern "C" fn prepare(
    _db: *mut sqlite3,
    sql: *const c_char,
    length: c_int,
    _flags: c_uint,
    raw: *mut *mut sqlite3_stmt,
    tail: *mut *const c_char,
) -> c_int {
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: the caller gives `length` bytes at `sql`.
    let text = unsafe { core::slice::from_raw_parts(sql.cast::<u8>(), length) };
    let query = text.starts_with(b"SELECT");
    let columns = text.iter().filter(|byte| **byte == b',').count() + 1;
    let columns = if query { c_int::try_from(columns).unwrap_or(1) } else { 0 };
    let made = Box::new(IdleStatement { columns, query, on_row: false, code: 0 });
    // SAFETY: the caller gives valid places; the tail is the end of its own text.
    unsafe {
        *raw = Box::into_raw(made).cast::<sqlite3_stmt>();
        *tail = sql.add(length);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn finalize(raw: *mut sqlite3_stmt) -> c_int {
    // SAFETY: the caller gives a statement of `prepare`, and does not use it again.
    drop(unsafe { Box::from_raw(raw.cast::<IdleStatement>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn step(raw: *mut sqlite3_stmt) -> c_int {
    // SAFETY: the caller gives a live statement.
    let statement = unsafe { statement(raw) };
    statement.on_row = statement.query && !statement.on_row;
    if statement.on_row { ffi::SQLITE_ROW } else { ffi::SQLITE_DONE }
}

unsafe extern "C" fn reset(raw: *mut sqlite3_stmt) -> c_int {
    // SAFETY: the caller gives a live statement.
    unsafe { statement(raw) }.on_row = false;
    ffi::SQLITE_OK
}

unsafe extern "C" fn bind_integer(raw: *mut sqlite3_stmt, index: c_int, value: i64) -> c_int {
    if index == 1 {
        // SAFETY: the caller gives a live statement.
        unsafe { statement(raw) }.code = value;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn column_count(raw: *mut sqlite3_stmt) -> c_int {
    // SAFETY: the caller gives a live statement.
    unsafe { statement(raw) }.columns
}

unsafe extern "C" fn column_integer(raw: *mut sqlite3_stmt, column: c_int) -> i64 {
    // SAFETY: the caller gives a live statement.
    let code = unsafe { statement(raw) }.code;
    let part = u32::try_from(column).ok().and_then(|column| 100_i64.checked_pow(column));
    part.map_or(0, |part| code / part % 100)
}

extern "C" fn column_type(_raw: *mut sqlite3_stmt, column: c_int) -> c_int {
    if column % 2 == 0 { ffi::SQLITE_INTEGER } else { ffi::SQLITE_TEXT }
}

extern "C" fn column_bytes(_raw: *mut sqlite3_stmt, _column: c_int) -> c_int {
    36
}

extern "C" fn column_text(_raw: *mut sqlite3_stmt, _column: c_int) -> *const c_uchar {
    TEXT.as_ptr().cast()
}

extern "C" fn column_blob(_raw: *mut sqlite3_stmt, _column: c_int) -> *const c_void {
    TEXT.as_ptr().cast()
}

extern "C" fn message(_db: *mut sqlite3) -> *const c_char {
    c"".as_ptr()
}

extern "C" fn code_message(_code: c_int) -> *const c_char {
    c"".as_ptr()
}

impl Api {
    /// Returns calls that do only as much as the driver needs.
    pub(crate) fn idle() -> Self {
        Self {
            sqlite3_libversion: name,
            sqlite3_sourceid: name,
            sqlite3_open_v2: open,
            sqlite3_errmsg: message,
            sqlite3_errstr: code_message,
            sqlite3_prepare_v3: prepare,
            sqlite3_step: step,
            sqlite3_reset: reset,
            sqlite3_finalize: finalize,
            sqlite3_bind_int64: bind_integer,
            sqlite3_column_count: column_count,
            sqlite3_column_type: column_type,
            sqlite3_column_int64: column_integer,
            sqlite3_column_bytes: column_bytes,
            sqlite3_column_text: column_text,
            sqlite3_column_blob: column_blob,
            ..Self::nothing()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Library;

    #[test]
    fn the_control_table_says_what_was_asked_for() {
        let connection = Library::idle().open(Path::new("nowhere")).unwrap();
        let statement = connection.prepare("SELECT a, b, c, d, e, f, g FROM Control").unwrap();
        statement.bind_integer(1, control_code(4, 3, 3, false)).unwrap();
        assert!(statement.step().unwrap());
        let columns: Vec<i64> = (0..7).map(|column| statement.integer(column)).collect();
        assert_eq!(columns, [4, 3, 3, 0, 0, 0, 0]);
        assert!(!statement.step().unwrap());
        statement.reset().unwrap();
        statement.bind_integer(1, control_code(10, 0, 0, true)).unwrap();
        assert!(statement.step().unwrap());
        assert_eq!((statement.integer(0), statement.integer(3)), (10, 1));
        statement.reset().unwrap();
        assert_eq!(connection.prepare("UPDATE t SET a = 1").unwrap().run().unwrap(), 0);
        assert!(connection.keep_log_on_close().is_err());
    }
}
