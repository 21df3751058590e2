//! FFI: the service that encrypts and decrypts under keys that stay here.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uchar};
use std::ptr;

use tdekit_key_crypto::SecretBytes;
use tdekit_key_crypto::host_aes::{Direction, HostAesKey, HostAesMode};
use tdekit_key_store::KeyName;

use crate::ComponentError;
use crate::entry::{guarded, with_keyring};
use crate::memory::{FAILED, bytes, key_name, put, put_lengths, text};

/// Bits of an AES key, as the server names the cipher.
const AES_BITS: usize = 256;

/// # Safety
/// `mode` is null or terminated; `len` is null or writable.
pub(crate) unsafe extern "C" fn aes_get_size(
    input_len: usize,
    mode: *const c_char,
    bits: usize,
    len: *mut usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let mode = unsafe { aes_mode(mode, bits)? };
        let too_long = ComponentError::Argument { what: "a length" };
        let needed = mode.encrypted_len(input_len).ok_or(too_long)?;
        // SAFETY: as above.
        unsafe { put_lengths(len, needed, ptr::null_mut(), 0) }
    })
}

/// # Safety
/// The strings are null or terminated; `iv` is null or has 16 bytes; the buffers are null or have
/// the lengths passed; `output_len` is null or writable.
pub(crate) unsafe extern "C" fn aes_encrypt(
    id: *const c_char,
    owner: *const c_char,
    mode: *const c_char,
    bits: usize,
    iv: *const c_uchar,
    padding: c_int,
    data: *const c_uchar,
    data_len: usize,
    output: *mut c_uchar,
    room: usize,
    output_len: *mut usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (name, mode) = unsafe { (key_name(id, owner)?, aes_mode(mode, bits)?) };
        // SAFETY: as above.
        let (iv, data) = unsafe { (iv.cast::<[u8; 16]>().as_ref(), bytes(data, data_len)) };
        let result = cipher(&name, Direction::Encrypt, mode, iv, padding != 0, data)?;
        // SAFETY: as above.
        unsafe { put_output(output, room, result.expose(), output_len) }
    })
}

/// # Safety
/// As `aes_encrypt`.
pub(crate) unsafe extern "C" fn aes_decrypt(
    id: *const c_char,
    owner: *const c_char,
    mode: *const c_char,
    bits: usize,
    iv: *const c_uchar,
    padding: c_int,
    data: *const c_uchar,
    data_len: usize,
    output: *mut c_uchar,
    room: usize,
    output_len: *mut usize,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: as this function's own contract.
        let (name, mode) = unsafe { (key_name(id, owner)?, aes_mode(mode, bits)?) };
        // SAFETY: as above.
        let (iv, data) = unsafe { (iv.cast::<[u8; 16]>().as_ref(), bytes(data, data_len)) };
        let result = cipher(&name, Direction::Decrypt, mode, iv, padding != 0, data)?;
        // SAFETY: as above.
        unsafe { put_output(output, room, result.expose(), output_len) }
    })
}

fn cipher(
    name: &KeyName,
    direction: Direction,
    mode: HostAesMode,
    iv: Option<&[u8; 16]>,
    padded: bool,
    data: &[u8],
) -> Result<SecretBytes, ComponentError> {
    let iv = iv.ok_or(ComponentError::Argument { what: "no initialisation vector" })?;
    let found = with_keyring(|keyring| keyring.get(name))?;
    let key = found.filter(|key| key.kind.eq_ignore_ascii_case("aes"));
    let key = key.ok_or_else(|| ComponentError::NoAesKey { id: name.id.clone() })?;
    let key = HostAesKey::of_material(key.secret.expose())?;
    Ok(key.apply(direction, mode, iv, padded, data)?)
}

/// Copies the result of a cipher.
///
/// # Safety
/// As [`put`]; `len` is null or writable.
unsafe fn put_output(
    buffer: *mut u8,
    room: usize,
    from: &[u8],
    len: *mut usize,
) -> Result<c_int, ComponentError> {
    // SAFETY: as this function's own contract.
    unsafe {
        put(buffer, room, from)?;
        put_lengths(len, from.len(), ptr::null_mut(), 0)
    }
}

/// # Safety
/// `mode` is null or terminated.
unsafe fn aes_mode(mode: *const c_char, bits: usize) -> Result<HostAesMode, ComponentError> {
    let unknown = || ComponentError::Argument { what: "a cipher" };
    if bits != AES_BITS {
        return Err(unknown());
    }
    // SAFETY: as this function's own contract.
    HostAesMode::of_name(unsafe { text(mode)? }).ok_or_else(unknown)
}
