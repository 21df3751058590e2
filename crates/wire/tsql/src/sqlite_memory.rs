//! SQLite's memory, counted for the active session: an allocation beyond the limit of the session,
//! or of all together, is refused, and SQLite then ends the statement.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;

use rusqlite::ffi;
use tdekit_wire_tds::memory::{gave, room, took};

/// SQLite's own allocator, which was installed before.
struct Base {
    take: Option<unsafe extern "C" fn(c_int) -> *mut c_void>,
    give: Option<unsafe extern "C" fn(*mut c_void)>,
    resize: Option<unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void>,
    size: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

static BASE: OnceLock<Base> = OnceLock::new();

/// Enables counting of SQLite's memory. Must be called before any other use of SQLite; a second
/// call does nothing.
///
/// # Errors
/// If SQLite is already in use.
pub fn count_sqlite_memory() -> Result<(), rusqlite::Error> {
    let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
    if BASE.get().is_some() {
        return Ok(());
    }
    let mut base = MaybeUninit::<ffi::sqlite3_mem_methods>::zeroed();
    // SAFETY: SQLite fills the given struct, or refuses; each field may be null.
    let base = unsafe {
        match ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, base.as_mut_ptr()) {
            ffi::SQLITE_OK => base.assume_init(),
            code => return Err(failed(code)),
        }
    };
    let counted = ffi::sqlite3_mem_methods {
        xMalloc: Some(take),
        xFree: Some(give),
        xRealloc: Some(resize),
        ..base
    };
    // The functions below find it before SQLite can call them.
    let before =
        Base { take: base.xMalloc, give: base.xFree, resize: base.xRealloc, size: base.xSize };
    if BASE.set(before).is_err() {
        return Ok(());
    }
    // SAFETY: SQLite copies the methods, which live as long as the process.
    match unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const counted) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(failed(code)),
    }
}

/// Returns the size of a place that SQLite's own allocator returned.
fn size(place: *mut c_void) -> usize {
    let Some(size) = BASE.get().and_then(|base| base.size) else { return 0 };
    // SAFETY: SQLite asks only for places that its allocator returned.
    usize::try_from(unsafe { size(place) }).unwrap_or(0)
}

unsafe extern "C" fn take(bytes: c_int) -> *mut c_void {
    let Some(base) = BASE.get().and_then(|base| base.take) else { return null_mut() };
    if room(usize::try_from(bytes).unwrap_or(usize::MAX)).is_err() {
        return null_mut();
    }
    // SAFETY: SQLite asks for more than zero bytes.
    let place = unsafe { base(bytes) };
    if !place.is_null() {
        took(size(place));
    }
    place
}

unsafe extern "C" fn give(place: *mut c_void) {
    let Some(base) = BASE.get().and_then(|base| base.give) else { return };
    gave(size(place));
    // SAFETY: SQLite frees what it was given, once.
    unsafe { base(place) };
}

unsafe extern "C" fn resize(place: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(base) = BASE.get().and_then(|base| base.resize) else { return null_mut() };
    let before = size(place);
    let more = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(before);
    if more > 0 && room(more).is_err() {
        return null_mut();
    }
    // SAFETY: SQLite resizes what it was given and has not freed.
    let moved = unsafe { base(place, bytes) };
    if !moved.is_null() {
        gave(before);
        took(size(moved));
    }
    moved
}
