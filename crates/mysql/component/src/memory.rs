//! FFI: reads what the server passes, and writes to its buffers.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uchar};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use tdekit_key_store::KeyName;

use crate::ComponentError;

/// Success of a function.
pub(crate) const DONE: c_int = 0;
/// Failure of a function.
pub(crate) const FAILED: c_int = 1;

/// Copies bytes to a buffer, and fills its rest with zeros.
///
/// # Safety
/// `buffer` is null or has `room` writable bytes.
pub(crate) unsafe fn put(buffer: *mut u8, room: usize, from: &[u8]) -> Result<(), ComponentError> {
    if from.len() > room || (buffer.is_null() && room > 0) {
        return Err(ComponentError::Argument { what: "a buffer that is too small" });
    }
    if !buffer.is_null() {
        // SAFETY: as this function's own contract; there is room (checked above).
        unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), buffer, from.len());
            ptr::write_bytes(buffer.add(from.len()), 0, room - from.len());
        }
    }
    Ok(())
}

/// Writes lengths, to the second place only if it is given.
///
/// # Safety
/// The places are null or writable.
pub(crate) unsafe fn put_lengths(
    first: *mut usize,
    first_len: usize,
    second: *mut usize,
    second_len: usize,
) -> Result<c_int, ComponentError> {
    if first.is_null() {
        return Err(ComponentError::Argument { what: "no place for a length" });
    }
    // SAFETY: as this function's own contract.
    unsafe {
        *first = first_len;
        if !second.is_null() {
            *second = second_len;
        }
    }
    Ok(DONE)
}

/// # Safety
/// The strings are null or terminated.
pub(crate) unsafe fn key_name(
    id: *const c_char,
    owner: *const c_char,
) -> Result<KeyName, ComponentError> {
    // SAFETY: as this function's own contract.
    let (id, owner) = unsafe { (text(id)?.to_owned(), text(owner)?.to_owned()) };
    if id.is_empty() {
        return Err(ComponentError::Argument { what: "an empty key name" });
    }
    Ok(KeyName { id, owner })
}

/// Returns the text; an empty one for null.
///
/// # Safety
/// `start` is null or a terminated string that lives as long as the caller uses the text.
pub(crate) unsafe fn text<'a>(start: *const c_char) -> Result<&'a str, ComponentError> {
    if start.is_null() {
        return Ok("");
    }
    // SAFETY: as this function's own contract.
    let text = unsafe { CStr::from_ptr(start) };
    text.to_str().map_err(|_| ComponentError::Argument { what: "a name that is not UTF-8" })
}

/// Returns a path; the current directory for null.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'a>(start: *const c_char) -> Result<&'a Path, ComponentError> {
    if start.is_null() {
        return Ok(Path::new("."));
    }
    // SAFETY: as this function's own contract.
    let bytes = unsafe { CStr::from_ptr(start) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// # Safety
/// `start` is null or has `len` readable bytes that live as long as the caller uses the slice.
pub(crate) unsafe fn bytes<'a>(start: *const c_uchar, len: usize) -> &'a [u8] {
    if len == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: as this function's own contract.
    unsafe { slice::from_raw_parts(start, len) }
}

/// Drops what a handle stands for.
///
/// # Safety
/// `handle` is null or came from `Box::into_raw`, and is not used after this.
pub(crate) unsafe fn release<T>(handle: *mut T) -> c_int {
    crate::entry::guarded(FAILED, || {
        if !handle.is_null() {
            // SAFETY: as this function's own contract.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(DONE)
    })
}
