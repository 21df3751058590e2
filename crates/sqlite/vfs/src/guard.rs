//! Keeps the other VFSes of the process from making plain files in place of encrypted ones.
//!
//! A connection that names a VFS (`vfs=unix-excl`) bypasses ours, and so does every connection
//! after `sqlite3_shutdown` and `sqlite3_initialize`, which make SQLite's own VFS the default again
//! and forget every automatic extension. The structures of the VFSes survive that: so we put a
//! check before the `xOpen` of each one that is registered at our registration.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::VfsError;
use crate::api::Api;
use crate::ffi::{self, File, Vfs};
use crate::file::report;
use crate::new_db::Request;
use crate::passage;
use crate::uri;

type Open = unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int;

/// A VFS that keeps databases in memory and writes none.
const IN_MEMORY: &CStr = c"memdb";

/// Addresses of VFSes, and their original `xOpen`.
static GUARDED: Mutex<Vec<(usize, Open, Api)>> = Mutex::new(Vec::new());

/// Guards every VFS of the library. Must be called before ours is registered: a VFS that is based
/// on ours needs no guard.
pub(crate) fn install(api: Api) {
    let mut guarded = GUARDED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = api.vfs_find(None);
    // SAFETY: registered VFSes are linked structures that live as long as they are registered;
    // SQLite writes to them itself.
    while let Some(vfs) = unsafe { next.as_mut() } {
        let address = next as usize;
        next = vfs.next;
        // SAFETY: the name of a registered VFS is a terminated string.
        let name = unsafe { CStr::from_ptr(vfs.name) };
        let known = guarded.iter().any(|(known, ..)| *known == address);
        if name == IN_MEMORY || name.to_bytes() == crate::VFS_NAME.as_bytes() || known {
            continue;
        }
        if let Some(open) = vfs.open {
            guarded.push((address, open, api));
            vfs.open = Some(guarded_open);
        }
    }
}

/// Returns true if `vfs` has a guard: it was registered before ours.
pub(crate) fn is_guarded(vfs: *mut Vfs) -> bool {
    let guarded = GUARDED.lock().unwrap_or_else(PoisonError::into_inner);
    guarded.iter().any(|(known, ..)| *known == vfs as usize)
}

unsafe extern "C" fn guarded_open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let found = {
        let guarded = GUARDED.lock().unwrap_or_else(PoisonError::into_inner);
        guarded
            .iter()
            .find(|(known, ..)| *known == vfs as usize)
            .map(|(_, open, api)| (*open, *api))
    };
    let Some((open, api)) = found else { return ffi::CANTOPEN };
    let refused = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the arguments are SQLite's own.
        unsafe { would_be_plain(api, name, flags) }
            .then(|| report(api, &VfsError::Unguarded, false, None))
    }));
    match refused {
        Ok(None) => {}
        Ok(Some(code)) => {
            // SAFETY: SQLite passes memory for a file; null methods mean "not open".
            unsafe { (*file).methods = std::ptr::null() };
            return code;
        }
        Err(_) => return ffi::CANTOPEN,
    }
    // SAFETY: this is the method that was there, with the arguments of the call.
    unsafe { open(vfs, name, file, flags, out_flags) }
}

/// Returns true if a main file that should be encrypted is about to be made, or is empty, without
/// our VFS.
///
/// # Safety
/// `name` and `flags` are what SQLite passed to `xOpen`.
unsafe fn would_be_plain(api: Api, name: *const c_char, flags: c_int) -> bool {
    let writes = flags & ffi::OPEN_MAIN_DB != 0 && flags & ffi::OPEN_READONLY == 0;
    if !writes || name.is_null() || passage::is_open() {
        return false;
    }
    // SAFETY: this function's own contract; the name is terminated.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes();
    let path = Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path));
    if !std::fs::metadata(path).map_or(true, |found| found.is_file() && found.len() == 0) {
        return false;
    }
    // SAFETY: this function's own contract.
    let asked = unsafe { uri::check(api, name, flags).and_then(|()| Request::read(api, name)) };
    asked.map_or(true, |asked| {
        matches!(asked, Request::Encrypt(_)) || asked.refuse_unusable().is_err()
    })
}
