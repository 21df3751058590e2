//! FFI: the functions that the server calls. None lets a panic through.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uchar};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tdekit_key_crypto::{SecretBytes, secrets_are_locked};
use tdekit_key_store::MAX_NAMED_KEY_LEN;

use crate::keyring::{Key, Keyring};
use crate::memory::{DONE, FAILED, bytes, key_name, path, put, put_lengths, release, text};
use crate::{ComponentError, report};

/// A key that the server is reading.
pub(crate) type Reader = Key;
/// "No" of the function that answers a question.
const FALSE: c_int = 0;

/// Open from the first `load` until `deinit`.
static KEYRING: Mutex<Option<Keyring>> = Mutex::new(None);

/// # Safety
/// The server calls it.
pub(crate) unsafe extern "C" fn init() -> c_int {
    DONE
}

/// # Safety
/// The server calls it, after the last call of any other.
pub(crate) unsafe extern "C" fn deinit() -> c_int {
    guarded(FAILED, || {
        *keyring() = None;
        Ok(DONE)
    })
}

/// Opens the key store, or opens it again. A server ignores that it failed and would start InnoDB
/// without keys, so the first failure ends the process: nothing of the data was read by then.
///
/// # Safety
/// The paths are null or terminated strings.
pub(crate) unsafe extern "C" fn load(plugins: *const c_char, data: *const c_char) -> c_int {
    let is_first = guarded(false, || Ok(keyring().is_none()));
    let loaded = guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (plugins, data) = unsafe { (path(plugins)?, path(data)?) };
        let mut open = keyring();
        match open.as_mut() {
            Some(keyring) => keyring.reopen(plugins, data)?,
            None => *open = Some(Keyring::open(plugins, data)?),
        }
        let Some(keyring) = open.as_ref() else { return Err(ComponentError::NotOpen) };
        if !secrets_are_locked() {
            report::warning(
                "keys are not locked in memory and could get into swap: RLIMIT_MEMLOCK is too \
                 small (LimitMEMLOCK in the service's unit)",
            );
        }
        let (config, count) = (keyring.config(), keyring.names().len());
        report::note(format_args!(
            "opened {count} keys of namespace {} of the key store {}",
            config.namespace,
            config.store.display()
        ));
        Ok(DONE)
    });
    if loaded == FAILED && is_first {
        report::error("the server is stopped, as it would start without its keys");
        // SAFETY: it ends the process without running anything else of it.
        unsafe { libc::_exit(FAILED) }
    }
    loaded
}

/// # Safety
/// The server calls it.
pub(crate) unsafe extern "C" fn is_initialized() -> c_int {
    guarded(FALSE, || Ok(c_int::from(keyring().is_some())))
}

/// # Safety
/// The strings are null or terminated; `reader` is writable.
pub(crate) unsafe extern "C" fn reader_init(
    id: *const c_char,
    owner: *const c_char,
    reader: *mut *mut Reader,
) -> c_int {
    if reader.is_null() {
        return FAILED;
    }
    // SAFETY: the server passes a place for the handle. Null says that there is no such key.
    unsafe { *reader = ptr::null_mut() };
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let name = unsafe { key_name(id, owner)? };
        if let Some(key) = with_keyring(|keyring| keyring.get(&name))? {
            // SAFETY: as above.
            unsafe { *reader = Box::into_raw(Box::new(key)) };
        }
        Ok(DONE)
    })
}

/// # Safety
/// `reader` is null or came from `reader_init`, and is not used after this.
pub(crate) unsafe extern "C" fn reader_deinit(reader: *mut Reader) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { release(reader) }
}

/// # Safety
/// `reader` is null or came from `reader_init`; the lengths are null or writable.
pub(crate) unsafe extern "C" fn reader_fetch_length(
    reader: *mut Reader,
    len: *mut usize,
    kind_len: *mut usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let key = unsafe { reader.as_ref() }.ok_or(ComponentError::Argument { what: "no key" })?;
        // SAFETY: as above.
        unsafe { put_lengths(len, key.secret.len(), kind_len, key.kind.len()) }
    })
}

/// # Safety
/// As `reader_fetch_length`; the buffers are null or have the lengths passed.
pub(crate) unsafe extern "C" fn reader_fetch(
    reader: *mut Reader,
    buffer: *mut c_uchar,
    buffer_len: usize,
    len: *mut usize,
    kind: *mut c_char,
    kind_buffer_len: usize,
    kind_len: *mut usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let key = unsafe { reader.as_ref() }.ok_or(ComponentError::Argument { what: "no key" })?;
        // SAFETY: as above.
        unsafe {
            put(buffer, buffer_len, key.secret.expose())?;
            put(kind.cast(), kind_buffer_len, key.kind.as_bytes())?;
            put_lengths(len, key.secret.len(), kind_len, key.kind.len())
        }
    })
}

/// # Safety
/// The strings are null or terminated; `data` is null or has `len` bytes.
pub(crate) unsafe extern "C" fn store(
    id: *const c_char,
    owner: *const c_char,
    data: *const c_uchar,
    len: usize,
    kind: *const c_char,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (name, kind) = unsafe { (key_name(id, owner)?, text(kind)?) };
        // SAFETY: as above.
        let secret = SecretBytes::from_slice(unsafe { bytes(data, len) })?;
        with_keyring(|keyring| keyring.add(&name, kind, &secret))?;
        Ok(DONE)
    })
}

/// # Safety
/// The strings are null or terminated.
pub(crate) unsafe extern "C" fn remove(id: *const c_char, owner: *const c_char) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let name = unsafe { key_name(id, owner)? };
        with_keyring(|keyring| keyring.remove(&name))?;
        Ok(DONE)
    })
}

/// # Safety
/// The strings are null or terminated.
pub(crate) unsafe extern "C" fn generate(
    id: *const c_char,
    owner: *const c_char,
    kind: *const c_char,
    len: usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (name, kind) = unsafe { (key_name(id, owner)?, text(kind)?) };
        if len > MAX_NAMED_KEY_LEN {
            return Err(ComponentError::Argument { what: "a key length above 16384" });
        }
        let secret = SecretBytes::random(len)?;
        with_keyring(|keyring| keyring.add(&name, kind, &secret))?;
        Ok(DONE)
    })
}

/// Runs `f`; an error or a panic is written to the server's log and returns `failed`. A name that
/// is taken is no error for InnoDB: it makes its first master key without asking whether it is
/// there, then reads it.
pub(crate) fn guarded<T>(failed: T, f: impl FnOnce() -> Result<T, ComponentError>) -> T {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => value,
        Ok(Err(error @ ComponentError::Taken { .. })) => {
            report::note(error);
            failed
        }
        Ok(Err(error)) => {
            report::error(error);
            failed
        }
        Err(_) => {
            report::error("a fault in the component; the operation is refused");
            failed
        }
    }
}

pub(crate) fn keyring() -> MutexGuard<'static, Option<Keyring>> {
    KEYRING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn with_keyring<T>(
    work: impl FnOnce(&mut Keyring) -> Result<T, ComponentError>,
) -> Result<T, ComponentError> {
    keyring().as_mut().ok_or(ComponentError::NotOpen).and_then(work)
}
