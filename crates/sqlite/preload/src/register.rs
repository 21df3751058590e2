//! Registers the extension with a SQLite library, once.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::fmt;
use std::mem::transmute;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{RTLD_LOCAL, RTLD_NOW};

use crate::hooks::OK;
use crate::host::{Host, object_of, symbol};

/// Name of the variable with the extension's path; by default it is beside this library.
const VARIABLE: &str = "TDEKIT_EXTENSION";
const FILE: &str = "libtdekit_sqlite.so";
const ENTRY: &CStr = c"sqlite3_tdekitsqlite_init";
/// An extension's result for "do not unload me", which only `sqlite3_load_extension` knows.
const OK_LOAD_PERMANENTLY: c_int = 256;
const ERROR: c_int = 1;
const OPEN_READWRITE: c_int = 2;
const OPEN_CREATE: c_int = 4;

type Entry = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const c_void) -> c_int;
type AutoExtension = unsafe extern "C" fn(Option<Entry>) -> c_int;
type OpenV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
type Message = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// Reason why tdekit is not registered.
#[derive(Debug)]
enum RegisterError {
    /// The library lacks a function.
    Lacks(&'static CStr),
    /// The extension cannot be loaded.
    Extension { reason: String },
    /// SQLite or the extension refused.
    Refused { code: c_int, message: String },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks(name) => {
                write!(formatter, "the SQLite library has no {}", name.to_string_lossy())
            }
            Self::Extension { reason } => write!(formatter, "{reason}"),
            Self::Refused { code, message } => write!(formatter, "{message} (code {code})"),
        }
    }
}

/// Addresses of the libraries that were tried.
static DONE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// The extension's entry point.
static EXTENSION: OnceLock<Entry> = OnceLock::new();

thread_local! {
    /// True while this thread is registering: SQLite's calls in the meantime are passed through.
    static REGISTERING: Cell<bool> = const { Cell::new(false) };
}

/// Registers the extension with a library that has not been tried yet. A failure is reported on
/// standard error: the program continues, and cannot read encrypted databases.
pub(crate) fn once(host: &Host) {
    if REGISTERING.get() {
        return;
    }
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if done.contains(&host.base) {
        return;
    }
    REGISTERING.set(true);
    let outcome = register(host);
    REGISTERING.set(false);
    done.push(host.base);
    if let Err(error) = outcome {
        eprintln!("tdekit: not registered with SQLite: {error}");
    }
}

/// A library that was shut down has its own VFS as default again after the next initialization.
pub(crate) fn forget(host: &Host) {
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    done.retain(|base| *base != host.base);
}

/// Opens a connection in memory, which makes SQLite pass its table of functions to the extension's
/// entry point: code that no connection has loaded cannot get it in another way.
fn register(host: &Host) -> Result<(), RegisterError> {
    let of = |name: &'static CStr| host.symbol(name).ok_or(RegisterError::Lacks(name));
    // SAFETY: functions of these names have these types since SQLite 3.8.
    let (add, cancel, open, close, message) = unsafe {
        (
            transmute::<NonNull<c_void>, AutoExtension>(of(c"sqlite3_auto_extension")?),
            transmute::<NonNull<c_void>, AutoExtension>(of(c"sqlite3_cancel_auto_extension")?),
            transmute::<NonNull<c_void>, OpenV2>(of(c"sqlite3_open_v2")?),
            transmute::<NonNull<c_void>, Close>(of(c"sqlite3_close")?),
            transmute::<NonNull<c_void>, Message>(of(c"sqlite3_errmsg")?),
        )
    };
    let own = extension()?;
    let _the_same = EXTENSION.set(own);
    // SAFETY: the entry has the signature that SQLite calls, and lives as long as the program.
    let added = unsafe { add(Some(entry)) };
    if added != OK {
        return Err(RegisterError::Refused { code: added, message: "no memory".to_owned() });
    }
    let mut db = ptr::null_mut();
    let flags = OPEN_READWRITE | OPEN_CREATE;
    // SAFETY: the name is NUL-terminated, and `db` is a place for the connection, which is closed
    // below. SQLite accepts null, for a connection that it had no memory for, and returns a text
    // that is valid until the connection is used again.
    unsafe {
        let code = open(c":memory:".as_ptr(), &raw mut db, flags, ptr::null());
        let said = CStr::from_ptr(message(db)).to_string_lossy().into_owned();
        cancel(Some(entry));
        close(db);
        match code {
            OK => Ok(()),
            code => Err(RegisterError::Refused { code, message: said }),
        }
    }
}

unsafe extern "C" fn entry(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // A SQLite that was built without extension loading passes no table.
    let (Some(own), false) = (EXTENSION.get(), routines.is_null()) else { return ERROR };
    // SAFETY: SQLite calls this, with its own connection, place for a message, and table.
    match unsafe { own(db, message, routines) } {
        OK_LOAD_PERMANENTLY => OK,
        code => code,
    }
}

/// Loads the extension permanently.
fn extension() -> Result<Entry, RegisterError> {
    let path = place();
    let refused =
        |reason: &str| RegisterError::Extension { reason: format!("{}: {reason}", path.display()) };
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| refused("no file name"))?;
    // SAFETY: the extension is a library whose constructors may run in any program.
    let library = unsafe { libc::dlopen(name.as_ptr(), RTLD_NOW | RTLD_LOCAL) };
    if library.is_null() {
        // The loader's message names the file.
        return Err(RegisterError::Extension { reason: loader_message() });
    }
    let entry = symbol(library, ENTRY).ok_or_else(|| refused("it is not tdekit's extension"))?;
    // SAFETY: the extension's entry of this name has this signature.
    Ok(unsafe { transmute::<NonNull<c_void>, Entry>(entry) })
}

/// Returns the extension's path: from the environment, or beside this library.
fn place() -> PathBuf {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        return named.into();
    }
    let own = object_of(place as *const c_void).map(|(path, _)| {
        // SAFETY: the loader's own name of a loaded object.
        let path = unsafe { CStr::from_ptr(path) };
        OsString::from_vec(path.to_bytes().to_vec())
    });
    own.map_or_else(|| FILE.into(), |own| Path::new(&own).with_file_name(OsStr::new(FILE)))
}

fn loader_message() -> String {
    // SAFETY: the loader's message for its last failure on this thread, or null.
    let said = unsafe { libc::dlerror() };
    let said = NonNull::new(said).map(|said| {
        // SAFETY: the text is valid until this thread calls the loader again.
        unsafe { CStr::from_ptr(said.as_ptr()) }.to_string_lossy().into_owned()
    });
    said.unwrap_or_else(|| "it cannot be loaded".to_owned())
}
