//! The main files that are open in this process, so that a journal or log finds its own.
//!
//! SQLite can determine that only for a name that its pager made (`sqlite3_database_file_object`
//! reads memory before it); a shim above us may open journals under its own names. Nothing here is
//! read through an unknown name.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::VfsError;
use crate::api::Api;
use crate::ffi::File;

static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

struct Entry {
    /// Addresses of the names of its journal and log in memory.
    journal: usize,
    wal: usize,
    path: Vec<u8>,
    file: usize,
    sealed: bool,
}

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a main file that was opened under `name`.
///
/// # Safety
/// `name` is what SQLite passed to `xOpen` for a main database.
pub(crate) unsafe fn add(api: Api, name: *const c_char, file: *mut File, sealed: bool) {
    if name.is_null() {
        return;
    }
    // SAFETY: this function's own contract.
    let (journal, wal) = unsafe { api.journal_names(name) };
    // SAFETY: as above; the name is terminated.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
    let file = file as usize;
    let mut entries = entries();
    entries.retain(|entry| entry.file != file);
    entries.push(Entry { journal: journal as usize, wal: wal as usize, path, file, sealed });
}

/// Records whether a main file turned out to be encrypted.
pub(crate) fn decided(file: *mut File, sealed: bool) {
    if let Some(entry) = entries().iter_mut().find(|entry| entry.file == file as usize) {
        entry.sealed = sealed;
    }
}

/// Removes a closed file.
pub(crate) fn remove(file: *mut File) {
    entries().retain(|entry| entry.file != file as usize);
}

/// Returns true if the file is open and `is` returns true; the file cannot be closed in the
/// meantime.
pub(crate) fn while_open(file: *mut File, is: impl FnOnce() -> bool) -> bool {
    let entries = entries();
    entries.iter().any(|entry| entry.file == file as usize) && is()
}

/// Returns our main file to which a journal or log opened under `name` belongs; null if it is not
/// ours. A name that the pager made is recognised by its address. Any other is recognised by its
/// text, as long as only one connection can have made it.
///
/// # Errors
/// `JournalName` if several connections have that database open, and it is encrypted.
///
/// # Safety
/// `name` is a terminated string.
pub(crate) unsafe fn main_of(name: *const c_char) -> Result<*mut File, VfsError> {
    let entries = entries();
    let at = name as usize;
    if let Some(entry) = entries.iter().find(|entry| entry.journal == at || entry.wal == at) {
        return Ok(entry.file as *mut File);
    }
    // SAFETY: this function's own contract.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let path = text.strip_suffix(b"-journal").or_else(|| text.strip_suffix(b"-wal"));
    let named: Vec<&Entry> =
        entries.iter().filter(|entry| Some(entry.path.as_slice()) == path).collect();
    match named.as_slice() {
        [one] => Ok(one.file as *mut File),
        several if several.iter().any(|entry| entry.sealed) => Err(VfsError::JournalName),
        _ => Ok(std::ptr::null_mut()),
    }
}
