//! FFI: the functions that the server calls. None lets a panic through.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uchar, c_uint, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::{ptr, slice};

use tdekit_key_crypto::secrets_are_locked;

use crate::cache::Cache;
use crate::call::{Call, Engine, SEAL_LEN};
use crate::derive::{HANDLE_LEN, handle};
use crate::keyring::Keyring;
use crate::mark::Mark;
use crate::page::{PageLen, parse_page_len};
use crate::{PluginError, TEMPORARY_KEY_ID, report, variables};

/// `ENCRYPTION_KEY_VERSION_INVALID`.
const INVALID: c_uint = c_uint::MAX;
/// `ENCRYPTION_KEY_BUFFER_TOO_SMALL`.
const BUFFER_TOO_SMALL: c_uint = 100;
/// The code with which InnoDB recognizes a page that cannot be decrypted; any other stops the
/// server.
const FAILED: c_int = -1;

/// A server changes to its data directory before it loads plugins.
const DATA_DIRECTORY: &str = ".";

/// Set by `init`, and kept until the process ends: the server may decrypt until its last moment.
static ENGINE: OnceLock<Engine> = OnceLock::new();

/// Opens the key store. The server calls it once, when it loads the plugin.
///
/// # Safety
/// The server calls it, after it has read its options.
pub(crate) unsafe extern "C" fn init(_: *mut c_void) -> c_int {
    // SAFETY: the server is in `init`.
    let (source, page_size) = unsafe { (variables::source(), variables::page_size()) };
    guarded(1, || {
        let page_len = page_size
            .map(|text| parse_page_len(&text).ok_or(PluginError::PageSize { text }))
            .transpose()?;
        let store = source.store.display().to_string();
        let keyring = Keyring::open(source)?;
        let mark = Mark::check(Path::new(DATA_DIRECTORY), keyring.file_id())?;
        let count = keyring.count();
        if keyring.latest(TEMPORARY_KEY_ID).is_none() {
            report::note("the key store has no key 2: temporary files use key 1");
        }
        if !secrets_are_locked() {
            report::warning(
                "keys are not locked in memory and could get into swap: RLIMIT_MEMLOCK is too \
                 small (LimitMEMLOCK in the service's unit)",
            );
        }
        let page_len = PageLen::new(page_len);
        // When loaded a second time, it keeps the open store.
        let told_counter = AtomicBool::new(false);
        let _ = ENGINE.set(Engine { keyring, cache: Cache::new(), page_len, told_counter, mark });
        report::note(format_args!("opened {count} keys of the key store {store}"));
        Ok(0)
    })
}

/// # Safety
/// The server calls it.
pub(crate) unsafe extern "C" fn deinit(_: *mut c_void) -> c_int {
    0
}

/// # Safety
/// The server calls it, after `init` as all that follow.
pub(crate) unsafe extern "C" fn get_latest_key_version(key_id: c_uint) -> c_uint {
    guarded(INVALID, || Ok(engine()?.keyring.latest(key_id).unwrap_or(INVALID)))
}

/// # Safety
/// `key` is null or has room for the number of bytes in `key_length`; `key_length` is writable.
pub(crate) unsafe extern "C" fn get_key(
    key_id: c_uint,
    version: c_uint,
    key: *mut c_uchar,
    key_length: *mut c_uint,
) -> c_uint {
    guarded(INVALID, || {
        let server_key = match engine()?.keyring.key(key_id, version) {
            // The server also asks whether such a version exists.
            Err(PluginError::NoKey { .. }) => return Ok(INVALID),
            other => other?,
        };
        let handle = handle(&server_key, key_id, version)?;
        // SAFETY: the server passes a place for the length. If `key` is null it may be
        // uninitialised, and is not read.
        let room = if key.is_null() { HANDLE_LEN } else { unsafe { *key_length as usize } };
        // SAFETY: as above.
        unsafe { *key_length = int(HANDLE_LEN) };
        if room < HANDLE_LEN {
            return Ok(BUFFER_TOO_SMALL);
        }
        if !key.is_null() {
            // SAFETY: there is room for a handle (checked above).
            unsafe { ptr::copy_nonoverlapping(handle.expose().as_ptr(), key, HANDLE_LEN) };
        }
        Ok(0)
    })
}

/// # Safety
/// The server calls it.
pub(crate) unsafe extern "C" fn crypt_ctx_size(_: c_uint, _: c_uint) -> c_uint {
    // The caller's memory has any alignment.
    int(size_of::<Call>() + align_of::<Call>() - 1)
}

/// # Safety
/// `ctx` has room for the size that `crypt_ctx_size` returned; `key` and `iv` for theirs.
pub(crate) unsafe extern "C" fn crypt_ctx_init(
    ctx: *mut c_void,
    key: *const c_uchar,
    klen: c_uint,
    iv: *const c_uchar,
    ivlen: c_uint,
    flags: c_int,
    key_id: c_uint,
    key_version: c_uint,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: the server passes key and IV with their lengths.
        let (key, iv) = unsafe { (bytes(key, klen), bytes(iv, ivlen)) };
        let call = Call::begin(key, iv, flags, key_id, key_version)?;
        // SAFETY: the server passes memory of the size that it was given, which has room for a
        // `Call` at the aligned place. A `Call` needs no drop, so nothing is lost there.
        unsafe { place(ctx).write(call) };
        Ok(0)
    })
}

/// # Safety
/// `ctx` was initialised by `crypt_ctx_init`; `src` has `slen` bytes and `dst` room for the output;
/// `dlen` is writable.
pub(crate) unsafe extern "C" fn crypt_ctx_update(
    ctx: *mut c_void,
    src: *const c_uchar,
    slen: c_uint,
    dst: *mut c_uchar,
    dlen: *mut c_uint,
) -> c_int {
    // Not read: callers leave it uninitialised.
    // SAFETY: the server passes a place for the length.
    unsafe { *dlen = 0 };
    guarded(FAILED, || {
        // SAFETY: `crypt_ctx_init` wrote a `Call` there, which no other thread uses meanwhile.
        let call = unsafe { &mut *place(ctx) };
        let input_len = slen as usize;
        let output_len = call.output_len(input_len)?;
        let copied;
        // SAFETY: the server passes `src` with its length.
        let mut input = unsafe { bytes(src, slen) };
        if overlap(src, input_len, dst, output_len) {
            copied = input.to_vec();
            input = &copied;
        }
        let output: &mut [u8] = match output_len {
            0 => &mut [],
            // SAFETY: the server gives `dst` room for the output of a call of this kind, as
            // `encrypted_length` returned, which is more than one piece held back and this one; the
            // input is elsewhere (checked above).
            _ => unsafe { slice::from_raw_parts_mut(dst, output_len) },
        };
        let given = call.feed(engine()?, input, output)?;
        // SAFETY: as at the beginning.
        unsafe { *dlen = int(given) };
        Ok(0)
    })
}

/// # Safety
/// `ctx` was initialised by `crypt_ctx_init`; `dst` has room for the input that was not output yet;
/// `dlen` is writable.
pub(crate) unsafe extern "C" fn crypt_ctx_finish(
    ctx: *mut c_void,
    dst: *mut c_uchar,
    dlen: *mut c_uint,
) -> c_int {
    // SAFETY: the server passes a place for the length.
    unsafe { *dlen = 0 };
    let ended = guarded(FAILED, || {
        // SAFETY: as in `crypt_ctx_update`.
        let call = unsafe { &mut *place(ctx) };
        let tail_len = call.tail_len();
        if tail_len > 0 {
            // SAFETY: the server expects no more bytes than it passed, and has room for those of
            // them that were held back.
            call.finish(engine()?, unsafe { slice::from_raw_parts_mut(dst, tail_len) })?;
            // SAFETY: as at the beginning.
            unsafe { *dlen = int(tail_len) };
        }
        Ok(0)
    });
    // SAFETY: the memory holds a `Call`, which is not used after this. Its stream data is wiped.
    unsafe { place(ctx).cast::<MaybeUninit<Call>>().write_bytes(0, 1) };
    ended
}

/// # Safety
/// The server calls it.
pub(crate) unsafe extern "C" fn encrypted_length(slen: c_uint, _: c_uint, _: c_uint) -> c_uint {
    // The server asks for the required space without naming the kind of call.
    slen.saturating_add(int(SEAL_LEN))
}

/// Runs `f`; an error or a panic is written to the server's log and returns `failed`.
fn guarded<T>(failed: T, f: impl FnOnce() -> Result<T, PluginError>) -> T {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            report::error(error);
            failed
        }
        Err(_) => {
            report::error("a fault in the plugin; the operation is refused");
            failed
        }
    }
}

fn engine() -> Result<&'static Engine, PluginError> {
    ENGINE.get().ok_or(PluginError::NoKeyStore)
}

/// Returns the aligned place of a `Call` in the caller's memory.
fn place(ctx: *mut c_void) -> *mut Call {
    let ctx = ctx.cast::<u8>();
    ctx.wrapping_add(ctx.align_offset(align_of::<Call>())).cast()
}

/// # Safety
/// `start` has `len` readable bytes that live as long as the caller uses the slice.
unsafe fn bytes<'a>(start: *const c_uchar, len: c_uint) -> &'a [u8] {
    if len == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: as this function's own contract.
    unsafe { slice::from_raw_parts(start, len as usize) }
}

/// Returns true if two areas overlap.
fn overlap(a: *const u8, a_len: usize, b: *const u8, b_len: usize) -> bool {
    let (a, b) = (a as usize, b as usize);
    a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
}

/// Converts a length that is known to be small.
fn int(len: usize) -> c_uint {
    c_uint::try_from(len).unwrap_or(c_uint::MAX)
}
