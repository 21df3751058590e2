//! SQL functions: more detail than result codes, and a secret for a database.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::VfsError;
use crate::api::Api;
use crate::ffi::{self, Context, Sqlite3};
use crate::given::{Given, Secret, give};
use crate::host;

/// An error's text, with an increasing number.
type Told = (u64, String);

/// The last error of each open connection, by its address.
static OF_CONNECTION: Mutex<BTreeMap<usize, Told>> = Mutex::new(BTreeMap::new());
/// The secrets that each open connection gave, by its address.
static GIVEN: Mutex<BTreeMap<usize, Vec<Given>>> = Mutex::new(BTreeMap::new());
static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The last error of this thread without an open connection: a file that could not be opened
    /// has none yet.
    static OF_THREAD: RefCell<Option<Told>> = const { RefCell::new(None) };
}

/// The library that has the functions: in a process with several SQLite libraries, the first.
static LIBRARY: OnceLock<Api> = OnceLock::new();

fn given() -> MutexGuard<'static, BTreeMap<usize, Vec<Given>>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_connection() -> MutexGuard<'static, BTreeMap<usize, Told>> {
    OF_CONNECTION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of `tdekit_last_error()` on the connection at the address `db`, for a program
/// that links this: on a damaged database SQLite prepares no statement to call it. For 0, of this
/// thread.
pub fn last_error_of(db: usize) -> Option<String> {
    let own = of_connection().get(&db).cloned();
    let threads = OF_THREAD.try_with(|kept| kept.borrow().clone()).ok().flatten();
    own.into_iter().chain(threads).max_by_key(|told| told.0).map(|told| told.1)
}

/// Stores `message` for `tdekit_last_error()` of `db`, or of this thread.
pub(crate) fn remember(db: Option<*mut Sqlite3>, message: &str) {
    let told = (COUNT.fetch_add(1, Ordering::Relaxed), message.to_owned());
    match db {
        Some(db) => drop(of_connection().insert(db as usize, told)),
        // A thread that is ending has no reader for the message.
        None => drop(OF_THREAD.try_with(|kept| kept.replace(Some(told)))),
    }
}

/// Adds the functions to a connection.
pub(crate) fn add(api: Api, db: *mut Sqlite3) {
    if LIBRARY.get_or_init(|| api).same(api) {
        api.create_function(db, (c"tdekit_version", 0, ffi::UTF8), version, None);
        api.create_function(db, (c"tdekit_sqlite_fault", 0, ffi::UTF8), sqlite_fault, None);
        api.create_function(db, (c"tdekit_last_error", 0, ffi::UTF8), last_error, Some(gone));
        api.create_function(db, (c"tdekit_unlock", 3, ffi::UTF8 | ffi::DIRECTONLY), unlock, None);
    }
}

/// Called when a connection was closed: its address may be reused.
unsafe extern "C" fn gone(db: *mut c_void) {
    drop(catch_unwind(|| {
        of_connection().remove(&(db as usize));
        let held = given().remove(&(db as usize));
        drop(held);
    }));
}

/// `tdekit_unlock(DATABASE, KIND, SECRET)`: opens the key store of a database, for connections that
/// are opened before this one is closed.
unsafe extern "C" fn unlock(context: *mut Context, _: c_int, values: *mut *mut c_void) {
    let Some(api) = LIBRARY.get() else { return };
    // SAFETY: SQLite passes the context of this call, and as many arguments as the function has.
    let (db, arguments) = unsafe {
        let argument = |at| api.text(*values.add(at));
        (api.connection_of(context) as usize, [argument(0), argument(1), argument(2)])
    };
    let failed = match catch_unwind(AssertUnwindSafe(|| hold(db, arguments))) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the key store was not opened: an internal error".to_owned()),
    };
    // SAFETY: as above.
    unsafe {
        match failed {
            Some(reason) => api.fail(context, &format!("tdekit: {reason}")),
            None => api.result(context, None),
        }
    }
}

/// Holds a secret for a database until the connection at the address `db` closes.
fn hold(db: usize, arguments: [Option<&[u8]>; 3]) -> Result<(), VfsError> {
    let [Some(database), Some(kind), Some(secret)] = arguments else {
        return Err(VfsError::NoSecret);
    };
    let path = || Path::new(OsStr::from_bytes(secret));
    let secret = match kind {
        b"password" => Secret::Password(secret),
        b"password_file" => Secret::PasswordFile(path()),
        b"key_file" => Secret::KeyFile(path()),
        _ => return Err(VfsError::NoSecret),
    };
    let new = give(OsStr::from_bytes(database), secret)?;
    let mut given = given();
    let held = given.entry(db).or_default();
    let before = held.iter().position(|held| held.is_for_the_same(&new));
    match before.and_then(|at| held.get_mut(at)) {
        Some(before) => *before = new,
        None => held.push(new),
    }
    Ok(())
}

unsafe extern "C" fn version(context: *mut Context, _: c_int, _: *mut *mut c_void) {
    // SAFETY: SQLite passes the context of this call.
    unsafe { answer(context, |_| Some(env!("CARGO_PKG_VERSION").to_owned())) };
}

unsafe extern "C" fn sqlite_fault(context: *mut Context, _: c_int, _: *mut *mut c_void) {
    // SAFETY: SQLite passes the context of this call.
    unsafe { answer(context, |_| LIBRARY.get().and_then(|api| host::fault_of(&api.version()))) };
}

unsafe extern "C" fn last_error(context: *mut Context, _: c_int, _: *mut *mut c_void) {
    // SAFETY: SQLite passes the context of this call.
    unsafe { answer(context, last_error_of) };
}

/// # Safety
/// `context` is what the library in `LIBRARY` passed to the function.
unsafe fn answer(context: *mut Context, text: fn(usize) -> Option<String>) {
    let Some(api) = LIBRARY.get() else { return };
    // SAFETY: this function's own contract.
    let db = unsafe { api.connection_of(context) } as usize;
    if let Ok(text) = catch_unwind(|| text(db)) {
        // SAFETY: this function's own contract.
        unsafe { api.result(context, text.as_deref()) };
    }
}
