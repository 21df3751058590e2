//! SQL functions that tell what result codes cannot.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::api::Api;
use crate::ffi::{Context, Sqlite3};

static LAST_ERROR: Mutex<Option<String>> = Mutex::new(None);

/// The library that has the functions: in a process with several SQLite libraries, the first.
static LIBRARY: OnceLock<Api> = OnceLock::new();

/// Keeps `message` for `tdekit_last_error()`.
pub(crate) fn remember(message: &str) {
    *LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.to_owned());
}

/// Adds `tdekit_version()` and `tdekit_last_error()` to a connection.
pub(crate) fn add(api: Api, db: *mut Sqlite3) {
    if LIBRARY.get_or_init(|| api).same(api) {
        api.create_function(db, c"tdekit_version", version);
        api.create_function(db, c"tdekit_last_error", last_error);
    }
}

unsafe extern "C" fn version(context: *mut Context, _: c_int, _: *mut *mut c_void) {
    // SAFETY: SQLite passes the context of this call.
    unsafe { answer(context, || Some(env!("CARGO_PKG_VERSION").to_owned())) };
}

unsafe extern "C" fn last_error(context: *mut Context, _: c_int, _: *mut *mut c_void) {
    let text = || LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // SAFETY: SQLite passes the context of this call.
    unsafe { answer(context, text) };
}

/// # Safety
/// `context` is what the library in `LIBRARY` passed to the function.
unsafe fn answer(context: *mut Context, text: fn() -> Option<String>) {
    if let (Some(api), Ok(text)) = (LIBRARY.get(), catch_unwind(text)) {
        // SAFETY: this function's own contract.
        unsafe { api.result(context, text.as_deref()) };
    }
}
