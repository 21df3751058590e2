//! FFI: the lists that the server walks: of keys, and of the component's facts.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::entry::{guarded, keyring, with_keyring};
use crate::handles::Cursor;
use crate::keyring::Keyring;
use crate::memory::{DONE, FAILED, put, put_lengths, release};
use crate::{COMPONENT_NAME, ComponentError};

/// A list of pairs: of keys' names and owners, or of facts' names and values.
pub(crate) type Pairs = Cursor<(String, String)>;

/// # Safety
/// `keys` is writable.
pub(crate) unsafe extern "C" fn keys_init(keys: *mut *mut Pairs) -> c_int {
    let names = || {
        let names = with_keyring(|keyring| Ok(keyring.names()))?;
        Ok(names.into_iter().map(|name| (name.id, name.owner)).collect())
    };
    // SAFETY: as this function's own contract.
    unsafe { begin(keys, names) }
}

/// # Safety
/// `keys` is null or came from `keys_init`, and is not used after this.
pub(crate) unsafe extern "C" fn keys_deinit(keys: *mut Pairs) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { release(keys) }
}

/// # Safety
/// `keys` is null or came from `keys_init`, as in all that follow.
pub(crate) unsafe extern "C" fn keys_is_valid(keys: *mut Pairs) -> c_int {
    // SAFETY: as this function's own contract.
    let place = unsafe { keys.as_ref() };
    c_int::from(place.is_some_and(|keys| keys.get().is_some()))
}

/// # Safety
/// As `keys_is_valid`.
pub(crate) unsafe extern "C" fn keys_next(keys: *mut Pairs) -> c_int {
    // SAFETY: as this function's own contract; the server uses an iterator in one thread.
    let place = unsafe { keys.as_mut() };
    if place.is_some_and(Cursor::advance) { DONE } else { FAILED }
}

/// Gives lengths without the strings' ends, as the server's own keyring does.
///
/// # Safety
/// As `keys_is_valid`; the lengths are null or writable.
pub(crate) unsafe extern "C" fn keys_get_length(
    keys: *mut Pairs,
    id_len: *mut usize,
    owner_len: *mut usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (id, owner) = unsafe { current(keys)? };
        // SAFETY: as above.
        unsafe { put_lengths(id_len, id.len(), owner_len, owner.len()) }
    })
}

/// # Safety
/// As `keys_is_valid`; the buffers are null or have the lengths passed.
pub(crate) unsafe extern "C" fn keys_get(
    keys: *mut Pairs,
    id: *mut c_char,
    id_len: usize,
    owner: *mut c_char,
    owner_len: usize,
) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { get_pair(keys, id, id_len, owner, owner_len) }
}

/// # Safety
/// `metadata` is writable.
pub(crate) unsafe extern "C" fn metadata_init(metadata: *mut *mut Pairs) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { begin(metadata, || Ok(facts(keyring().as_ref()))) }
}

/// # Safety
/// `metadata` is null or came from `metadata_init`, and is not used after this.
pub(crate) unsafe extern "C" fn metadata_deinit(metadata: *mut Pairs) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { release(metadata) }
}

/// # Safety
/// `metadata` is null or came from `metadata_init`, as in all that follow.
pub(crate) unsafe extern "C" fn metadata_is_valid(metadata: *mut Pairs) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { keys_is_valid(metadata) }
}

/// # Safety
/// As `metadata_is_valid`.
pub(crate) unsafe extern "C" fn metadata_next(metadata: *mut Pairs) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { keys_next(metadata) }
}

/// Gives lengths with the strings' ends, as the server's own keyring does.
///
/// # Safety
/// As `metadata_is_valid`; the lengths are null or writable.
pub(crate) unsafe extern "C" fn metadata_get_length(
    metadata: *mut Pairs,
    name_len: *mut usize,
    value_len: *mut usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (name, value) = unsafe { current(metadata)? };
        // SAFETY: as above.
        unsafe { put_lengths(name_len, name.len() + 1, value_len, value.len() + 1) }
    })
}

/// # Safety
/// As `metadata_is_valid`; the buffers are null or have the lengths passed.
pub(crate) unsafe extern "C" fn metadata_get(
    metadata: *mut Pairs,
    name: *mut c_char,
    name_len: usize,
    value: *mut c_char,
    value_len: usize,
) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { get_pair(metadata, name, name_len, value, value_len) }
}

/// The facts that `performance_schema.keyring_component_status` shows.
fn facts(keyring: Option<&Keyring>) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let status = if keyring.is_some() { "Active" } else { "Disabled" };
    let mut facts = vec![
        fact("Component_name", COMPONENT_NAME.to_owned()),
        fact("Author", "tdekit".to_owned()),
        fact("License", env!("CARGO_PKG_LICENSE").to_owned()),
        fact("Implementation_name", COMPONENT_NAME.to_owned()),
        fact("Version", env!("CARGO_PKG_VERSION").to_owned()),
        fact("Component_status", status.to_owned()),
    ];
    if let Some(keyring) = keyring {
        let config = keyring.config();
        facts.push(fact("Key_store", config.store.display().to_string()));
        facts.push(fact("Namespace", config.namespace.clone()));
        facts.push(fact("Certificate", config.certificate.clone()));
        facts.push(fact("Read_only", "No".to_owned()));
    }
    facts
}

/// Makes a list and gives its handle out.
///
/// # Safety
/// `handle` is null or writable.
unsafe fn begin<T>(
    handle: *mut *mut Cursor<T>,
    list: impl FnOnce() -> Result<Vec<T>, ComponentError>,
) -> c_int {
    if handle.is_null() {
        return FAILED;
    }
    // SAFETY: as this function's own contract.
    unsafe { *handle = ptr::null_mut() };
    guarded(FAILED, || {
        let cursor = Box::new(Cursor::new(list()?));
        // SAFETY: as above.
        unsafe { *handle = Box::into_raw(cursor) };
        Ok(DONE)
    })
}

/// # Safety
/// `place` is null or came from `begin`, and lives as long as the caller uses the result.
unsafe fn current<'a>(place: *mut Pairs) -> Result<(&'a str, &'a str), ComponentError> {
    // SAFETY: as this function's own contract.
    let pair = unsafe { place.as_ref() }.and_then(Cursor::get);
    let (one, other) = pair.ok_or(ComponentError::Argument { what: "no place in a list" })?;
    Ok((one, other))
}

/// Writes the pair at the place as terminated strings.
///
/// # Safety
/// As [`current`]; the buffers are null or have the lengths passed.
unsafe fn get_pair(
    place: *mut Pairs,
    one: *mut c_char,
    one_len: usize,
    other: *mut c_char,
    other_len: usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (first, second) = unsafe { current(place)? };
        let ended = |text: &str| [text.as_bytes(), b"\0"].concat();
        // SAFETY: as above.
        unsafe {
            put(one.cast(), one_len, &ended(first))?;
            put(other.cast(), other_len, &ended(second))?;
        }
        Ok(DONE)
    })
}
